"""What somebody with a grudge sends: texts that no database holds, other people's addresses, one link twice, names that take another's place."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from browsing import SUM, Browser, Team, new_team
from steelyard.errors import LedgerLocked
from steelyard.server._routes import ROUTES

HALF, NUL = "\ud800", "\0"
RECEIPT = {"sequence": 1, "head": "", "cost": sy.Loss.pure(1).to_json(), "account": "", "ledger_id": ""}
SENT: dict[str, tuple[str, str, Any]] = {
    "half a character as a person": ("carl", "/api/v1/sets/spend/members", {"person": HALF, "role": "analyst", "epsilon": 1}),
    "half a character as a custodian": ("officer", "/api/v1/sets", {"name": "q", "custodian": HALF}),
    "half a character as a title": ("carl", "/api/v1/sets/spend/boards", {"name": "x", "source": "data/l.csv", "title": HALF}),
    "half a character as a key": ("ana", "/api/v1/sets/spend/plans", {"task": {"type": "Count", "epsilon": "0.1", "cap": 1, "by": "country", "keys": [HALF]}}),
    "half a character as a password": ("ana", "/api/v1/me/password", {"password": HALF * 12}),
    "half a character as a field": ("ana", "/api/v1/me/tokens", {HALF: 1, "name": "a"}),
    "a null character as a person": ("carl", "/api/v1/sets/spend/members", {"person": NUL, "role": "custodian"}),
    "days that are true": ("ana", "/api/v1/me/tokens", {"name": "a", "days": True}),
    "receipts that are a number": ("officer", "/api/v1/officer/verify", {"receipts": 5}),
    "a receipt without a number": ("officer", "/api/v1/officer/verify", {"receipts": [{**RECEIPT, "sequence": "1"}]}),
    "a receipt beyond any ledger": ("officer", "/api/v1/officer/verify", {"receipts": [{**RECEIPT, "sequence": 10**30}]}),
    "a receipt of an account that is a list": ("officer", "/api/v1/officer/verify", {"receipts": [{**RECEIPT, "account": []}]}),
    "the ledger as an upload": ("carl", "/api/v1/sets/spend/source", {"kind": "upload", "source": "../ledger.db"}),
    "a way out of the root": ("carl", "/api/v1/sets/spend/source", {"kind": "root", "source": "data/../serve/ledger.csv"}),
    "an address as a source": ("carl", "/api/v1/sets/spend/source", {"kind": "named", "source": "http://169.254.169.254/"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Team:
    return new_team(tmp_path_factory.mktemp("team"))


@pytest.mark.parametrize("what", SENT)
def test_what_makes_no_sense_is_refused_and_is_no_failure(team: Team, what: str) -> None:
    who, path, data = SENT[what]
    before = team.server.ledger.verify().entries
    seen = team.browser(who, by="session").post(path, data)
    assert (seen.status, seen.json["status"]) == (422, 422), seen.text
    assert team.server.ledger.verify().entries == before


@pytest.mark.parametrize(
    "body", [b"[" * 400_000, b'{"task":' + b'{"a":' * 100_000, b'{"task":' + b"9" * 900_000 + b"}"]
)
def test_documents_that_are_deep_or_long_are_refused(team: Team, body: bytes) -> None:
    sent = {"content-type": "application/json"}
    assert team.browser("ana").ask("POST", "/api/v1/sets/spend/plans", raw=body, headers=sent).status == 422


@pytest.mark.parametrize("body", [b'{"name": "\xed\xa0\x80"}', '{"name": "\ud800"}'.encode("utf-16", "surrogatepass")])
def test_half_a_character_in_bytes_is_refused_too(team: Team, body: bytes) -> None:
    sent = {"content-type": "application/json"}
    assert team.browser("ana", by="session").ask("POST", "/api/v1/me/tokens", raw=body, headers=sent).status == 422
    assert team.browser("officer", by="session").ask("POST", "/api/v1/people", raw=body, headers=sent).status == 422


def others(team: Team) -> Iterator[tuple[str, Browser]]:
    """Somebody with every role that there is, in another set."""
    server = team.server
    dataset, mallory = server.sets.add("other"), server.people.add("mallory")
    own = sy.open_account(server.config.ledger_address, "other", unit=sy.users("user_id"), epsilon=1)
    server.sets.set_source(dataset.id, "root", "data/spend.parquet", {})
    server.sets.set_account(dataset.id, own.name)
    for role in ("custodian", "analyst"):
        server.sets.join(dataset.id, mallory.id, role, own.name)
    board = server.boards.add("others", "", dataset.id, "data/x.csv", "", {}, open_to_all=True, slot=0.0)
    server.boards.join(server.boards.add_team(board.id, "reds"), mallory.id)
    yield from (("session", team.browser("mallory", by="session")), ("token", team.browser("mallory")))


def test_who_has_every_role_elsewhere_has_none_here(tmp_path: Path) -> None:
    """Each address of this set, its release, its board and its submission, tried by the custodian, analyst and competitor of another one."""
    team = new_team(tmp_path)
    asked = team.browser("ana").post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "total"})
    dataset, server = team.server.sets.named("spend"), team.server
    assert dataset is not None
    board = server.boards.add("returns", "", dataset.id, "data/y.csv", "", {}, open_to_all=False, slot=0.0)
    made, _ = server.boards.submit(board.id, server.boards.add_team(board.id, "blues"), 1, "first", "", "", "none")
    names = {"set": "spend", "release": str(asked.json["id"]), "board": "returns", "submission": str(made.id)}
    names |= {"person": "ana", "role": "analyst"}
    for by, mallory in others(team):
        for route in ROUTES:
            found = re.findall(r"\{(\w+)", route.path)
            if not {"set", "release", "board", "submission"} & set(found):
                continue
            path = re.sub(r"\{(\w+)(:\w+)?\}", lambda each: names.get(each[1], "x"), route.path)
            sent = {"json": {"data": {}}, "form": {"form": {"x": "y"}}}.get(route.body, {})
            seen = mallory.ask(route.method, path, **sent, headers={"Idempotency-Key": "total"})  # type: ignore[arg-type]
            assert seen.status == 404, (by, route.method, path, seen.status)
    assert server.account("spend").spent == sy.Loss.pure("0.25")


def test_the_same_key_of_two_people_is_two_questions(team: Team) -> None:
    sent = {"headers": {"Idempotency-Key": "shared"}}
    ana, ben = (
        team.browser(name).post("/api/v1/sets/spend/releases", {"task": SUM}, **sent) for name in ("ana", "ben")
    )
    assert (ana.status, ben.status) == (202, 202)
    assert ana.json["id"] != ben.json["id"]
    assert team.browser("ben").get(f"/api/v1/releases/{ana.json['id']}").status == 404


def test_a_link_that_many_press_at_once_lets_one_in(team: Team) -> None:
    server, cookies = team.server, list[str | None]()
    eve = server.people.named("eve")
    assert eve is not None
    code, start = server.people.new_code(eve.id), threading.Barrier(8)

    def press() -> None:
        start.wait()
        cookies.append(server.people.spend_code(code))

    threads = [threading.Thread(target=press) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(cookie is None for cookie in cookies) == [False] + [True] * 7


@pytest.mark.parametrize(("host", "status"), [
    ("evil.example", 421), ("127.0.0.1:8020.evil.example", 421), ("127.0.0.1:9999", 421), ("127.0.0.1:8020@evil.example", 421), ("", 421), ("localhost:8020", 200),
])  # fmt: skip
def test_another_name_for_this_server_gets_nothing(team: Team, host: str, status: int) -> None:
    assert team.browser("ana", by="session").get("/api/v1/me", headers={"host": host}).status == status


def test_a_board_takes_no_budgets_place_and_a_person_no_accounts(tmp_path: Path) -> None:
    """A board called like a set, and a person called like the set's second account, hold up neither."""
    team = new_team(tmp_path)
    server, worker = team.server, team.worker
    (tmp_path / "data" / "labels.csv").write_text("x\n" + "1\n0\n" * 500)
    carl, officer = team.browser("carl", by="session"), team.browser("officer", by="session")
    assert officer.post("/api/v1/sets", {"name": "salaries", "custodian": "carl"}).status == 201
    settings = {"tolerance": "0.1", "questions": 10}
    board = {"name": "salaries", "source": "data/labels.csv", "settings": settings}
    assert carl.post("/api/v1/sets/spend/boards", board).status == 201
    assert carl.post("/api/v1/sets/salaries/source", {"kind": "root", "source": "data/spend.parquet"}).status == 202
    assert carl.post("/api/v1/sets/spend/members", {"person": "2", "role": "analyst", "epsilon": 1}).status == 201
    worker.once()
    assert carl.get("/api/v1/boards/salaries").json["state"] == "open"
    for name in ("salaries", "spend", "spend"):
        assert carl.post(f"/api/v1/sets/{name}/account", {"unit": "users:user_id", "epsilon": 4}).status == 201
    waiting = officer.get("/api/v1/approvals").json["proposals"]
    for each in waiting:
        assert officer.post(f"/api/v1/approvals/{each['id']}", {"approve": True}).status == 200
    assert [each["account"] for each in waiting] == ["salaries", "spend", "spend/3"]
    assert server.account("salaries").terms.unit == sy.users("user_id")
    assert server.account("spend/2").terms.parent == "spend"


def test_one_name_is_not_guessed_at_from_many_addresses(tmp_path: Path) -> None:
    """Each try comes from another address; after a few the name has to wait, be it somebody's or not, and other names do not."""
    team = new_team(tmp_path, sign_ins_per_minute=3, trusted_proxy="127.0.0.1")

    def tried(name: str, number: int) -> int:
        form = {"name": name, "password": f"a guess of the number {number}"}
        return (
            Browser(team.app).ask("POST", "/sign-in", form=form, headers={"x-forwarded-for": f"10.0.0.{number}"}).status
        )

    assert [tried("carl", number) for number in range(5)] == [401] * 3 + [429] * 2
    assert [tried("nobody at all", number) for number in range(10, 15)] == [401] * 3 + [429] * 2
    assert tried("ana", 20) == 401


def test_no_source_changes_without_an_act_on_the_chain(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*given: object, **named: object) -> int:
        raise LedgerLocked("busy")

    carl, before = team.browser("carl", by="session"), team.server.sets.named("spend")
    monkeypatch.setattr("steelyard.ledger.Ledger.note", busy)
    assert carl.post("/api/v1/sets/spend/source", {"kind": "root", "source": "data/other.csv"}).status == 503
    assert carl.ask("PUT", "/api/v1/sets/spend/upload?format=csv", raw=b"x\n1\n").status == 503
    assert team.server.sets.named("spend") == before


ACTS: dict[str, tuple[str, str, str, Any]] = {
    "a board": ("carl", "POST", "/api/v1/sets/spend/boards", {"name": "unnoted", "source": "data/l.csv"}),
    "a new person on a team": ("carl", "POST", "/api/v1/boards/noted/teams", {"team": "t", "person": "new"}),
    "the end of a phase": ("carl", "POST", "/api/v1/boards/noted/close", None),
    "a role": ("carl", "POST", "/api/v1/sets/spend/members", {"person": "eve", "role": "custodian"}),
    "a role with an account": ("carl", "POST", "/api/v1/sets/spend/members", {"person": "eve", "role": "analyst", "epsilon": 1}),
    "a role that is taken": ("carl", "DELETE", "/api/v1/sets/spend/members/ben/analyst", None),
    "a proposal": ("carl", "POST", "/api/v1/sets/spend/account", {"unit": "rows", "epsilon": 1}),
    "an approval": ("officer", "POST", "/api/v1/approvals/1", {"approve": True}),
    "a refusal": ("officer", "POST", "/api/v1/approvals/1", {"approve": False}),
    "a set": ("officer", "POST", "/api/v1/sets", {"name": "unnoted", "custodian": "carl"}),
    "a person": ("officer", "POST", "/api/v1/people", {"name": "new", "officer": True}),
}  # fmt: skip


@pytest.mark.parametrize("what", ACTS)
def test_no_act_is_done_without_a_note_on_the_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """While a note cannot be written, nothing is another in the server's database; afterwards the same act is done, and noted."""
    team = new_team(tmp_path)
    carl = team.browser("carl", by="session")
    assert carl.post("/api/v1/sets/spend/boards", {"name": "noted", "source": "data/l.csv"}).status == 201
    assert carl.post("/api/v1/sets/spend/account", {"unit": "users:user_id", "epsilon": 4}).status == 201
    team.server.boards.set_state(1, "open")
    who, method, path, data = ACTS[what]
    somebody, before = team.browser(who, by="session"), _kept(team)

    def busy(*given: object, **named: object) -> int:
        raise LedgerLocked("busy")

    with monkeypatch.context() as patched:
        patched.setattr("steelyard.ledger.Ledger.note", busy)
        assert somebody.ask(method, path, data).status == 503
    assert _kept(team) == before
    notes = len(team.server.ledger.notes())
    assert somebody.ask(method, path, data).status in (200, 201)
    assert _kept(team) != before
    assert len(team.server.ledger.notes()) > notes


def _kept(team: Team) -> list[Any]:
    """What the server's database says of people, sets, roles, budgets and boards."""
    tables = ("people", "sets", "members", "proposals", "boards", "teams", "competitors")
    return [team.server.database.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]


def test_uploads_fill_no_more_than_their_room(tmp_path: Path) -> None:
    team = new_team(tmp_path, all_uploads=3000)
    carl, folder = team.browser("carl", by="session"), team.server.config.folder / "uploads"
    send = [carl.ask("PUT", "/api/v1/sets/spend/upload?format=csv", raw=b"x\n" * 500).status for _ in range(4)]
    assert (send, len(list(folder.iterdir()))) == ([202, 202, 202, 413], 3)
    for file in folder.iterdir():
        os.utime(file, (1, 1))
    assert carl.ask("PUT", "/api/v1/sets/spend/upload?format=csv", raw=b"x\n" * 500).status == 202
    dataset = team.server.sets.named("spend")
    assert dataset is not None
    assert (folder / dataset.source).exists()
    assert len(list(folder.iterdir())) == 2
    assert not list((team.server.config.folder / "incoming").iterdir())
    assert json.loads(carl.get("/api/v1/me").body)["name"] == "carl"
