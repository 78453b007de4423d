"""Every status of the law over HTTP, and what comes with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from browsing import SUM, Browser, Seen, Team, new_team
from steelyard.documents import request_of
from steelyard.errors import LedgerLocked, LedgerTampered
from steelyard.server import _asking as asking
from steelyard.server._looking import desk_of

PLANS, ASKS = "/api/v1/sets/spend/plans", "/api/v1/sets/spend/releases"


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return new_team(tmp_path)


def ask(browser: Browser, task: Any, key: str = "k") -> Seen:
    return browser.post(ASKS, {"task": task}, headers={"Idempotency-Key": key})


def test_a_question_needs_a_name(team: Team) -> None:
    seen = team.browser("ana").post(ASKS, {"task": SUM})
    assert (seen.status, seen.json["kind"]) == (400, "NoKey")
    assert seen.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ({**SUM, "column": "amonut"}, "ColumnMissing"),
        ({**SUM, "epsilon": "-1"}, "InvalidTask"),
        ({"type": "Nothing"}, "InvalidTask"),
        ({"type": "GradualSum", "column": "amount", "cap": "5"}, "InvalidTask"),
        ("a text", "InvalidTask"),
        (None, "InvalidTask"),
        ({**SUM, "epsilon": None, "mu": "1"}, "CurrencyMismatch"),
    ],
)
def test_what_makes_no_sense_is_422_and_charges_nothing(team: Team, task: Any, kind: str) -> None:
    ana = team.browser("ana")
    for seen in (ana.post(PLANS, {"task": task}), ask(ana, task)):
        assert (seen.status, seen.json["kind"]) == (422, kind)
    assert team.server.account("spend/ana").spent.amount == 0


def test_a_budget_that_cannot_pay_is_402_with_what_was_wanted_and_what_is_left(team: Team) -> None:
    seen = ask(team.browser("ana"), {**SUM, "epsilon": "3"})
    assert seen.status == 402
    assert (seen.json["wanted"]["amount"], seen.json["remaining"]["amount"]) == (3_000_000, 2_000_000)
    assert team.server.account("spend/ana").spent.amount == 0


def test_a_key_that_names_another_request_is_422(team: Team) -> None:
    ana = team.browser("ana")
    assert ask(ana, SUM).status == 202
    seen = ask(ana, {**SUM, "cap": 20})
    assert (seen.status, seen.json["kind"], seen.json["other_request"]) == (422, "KeyConflict", True)


def test_a_failure_is_told_in_one_fixed_text_and_stays_charged(team: Team) -> None:
    ana = team.browser("ana")
    where = ask(ana, SUM).headers["location"]
    Path(team.server.config.roots["data"], "spend.parquet").unlink()
    team.worker._tables.clear()
    team.worker.once()
    seen = ana.get(where)
    assert (seen.status, seen.json["state"]) == (200, "failed")
    assert seen.json["detail"].startswith("the release failed after its charge")
    assert team.server.account("spend/ana").spent.amount == 250_000
    assert ask(ana, SUM).json == seen.json


def test_a_row_that_ends_the_worker_twice_is_a_failure(team: Team) -> None:
    ana = team.browser("ana")
    asked = ask(ana, SUM)
    job = team.server.jobs.of_sequence(asked.json["id"])
    assert job is not None
    for _ in range(2):
        team.server.jobs.begin(job.id)
    team.worker.once()
    assert ana.get(asked.headers["location"]).json["state"] == "failed"


def test_a_ledger_that_is_busy_or_broken_is_503(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    ana = team.browser("ana")

    def refuse(*given: Any) -> Any:
        raise error

    monkeypatch.setattr(asking, "desk_of", refuse)
    error: Exception = LedgerLocked("busy")
    seen = ask(ana, SUM)
    assert (seen.status, seen.headers["retry-after"]) == (503, "1")
    error = LedgerTampered("entry 7 of ana's account was changed", findings=["entry 7"])
    seen = ask(ana, SUM)
    assert (seen.status, seen.json["kind"]) == (503, "LedgerTampered")
    assert "spending is closed" in seen.json["detail"]
    assert "entry 7" not in seen.text


def test_what_nobody_foresaw_is_500_under_a_random_name(
    team: Team, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*given: Any) -> Any:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(asking, "desk_of", fail)
    seen = ask(team.browser("ana"), SUM)
    assert seen.status == 500
    assert "secret" not in seen.text
    logged = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert seen.json["incident"] in {line.get("incident") for line in logged}
    assert not any("secret" in str(line) for line in logged)


def test_a_queue_that_is_full_refuses_before_the_charge(tmp_path: Path) -> None:
    team = new_team(tmp_path, queue_of_one=1, queue=2)
    ana = team.browser("ana")
    assert ask(ana, SUM, "one").status == 202
    assert ask(ana, SUM, "two").status == 429
    assert ask(ana, SUM, "one").status == 202
    assert ask(team.browser("ben"), SUM, "one").status == 202
    assert team.server.account("spend/ana").spent.amount == 250_000
    team.server.config.__dict__["queue_of_one"] = 9
    assert ask(ana, SUM, "three").status == 503


def test_too_many_plans_are_429(tmp_path: Path) -> None:
    team = new_team(tmp_path, plans_per_second=0.01)
    team.server.buckets["plan"]._burst = 2.0
    ana = team.browser("ana")
    seen = [ana.post(PLANS, {"task": SUM}) for _ in range(3)]
    assert [each.status for each in seen] == [200, 200, 429]
    assert int(seen[-1].headers["retry-after"]) >= 1
    assert team.browser("ben").post(PLANS, {"task": SUM}).status == 200


def test_too_many_sign_ins_of_one_address_are_429(tmp_path: Path) -> None:
    team = new_team(tmp_path, sign_ins_per_minute=3)
    eve = Browser(team.app)
    seen = [eve.post("/sign-in", form={"name": "ana", "password": f"guess {n}"}).status for n in range(4)]
    assert seen == [401, 401, 401, 429]


def test_signed_out_is_401_and_a_wrong_method_405_and_an_unknown_address_404(team: Team) -> None:
    stranger = Browser(team.app)
    assert stranger.post(PLANS, {"task": SUM}).status == 401
    assert Browser(team.app, token="sy_wrong").get("/api/v1/me").status == 401
    assert stranger.get("/api/v2").status == 404
    seen = team.browser("ana").ask("DELETE", PLANS)
    assert (seen.status, seen.headers["allow"]) == (405, "POST")


def test_bodies_that_are_too_long_or_of_another_kind_are_refused(team: Team) -> None:
    ana = team.browser("ana")
    assert ana.post(PLANS, raw=b"{}", headers={"content-type": "text/plain"}).status == 415
    assert ana.post(PLANS, {"task": "x" * (1 << 20)}).status == 413
    assert (
        ana.post(PLANS, raw=b"{}", headers={"content-type": "application/json", "content-length": "99999999999"}).status
        == 413
    )
    assert ana.post(PLANS, raw=b"{" * 100_000, headers={"content-type": "application/json"}).status == 422
    assert ana.post(PLANS, raw=b'{"task":{},"task":{}}', headers={"content-type": "application/json"}).status == 422
    assert ana.ask("GET", "/api/v1/me", raw=b"x").status == 413


def test_a_source_that_broke_stops_neither_the_worker_nor_what_was_answered(tmp_path: Path) -> None:
    team = new_team(tmp_path)
    ana, carl = team.browser("ana"), team.browser("carl", by="session")
    first = ana.post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "a"})
    team.worker.once()
    second = ana.post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "b"})
    (tmp_path / "data" / "broken.parquet").write_bytes(b"no table")
    assert carl.post("/api/v1/sets/spend/source", {"kind": "root", "source": "data/broken.parquet"}).status == 202
    team.worker.once()
    assert carl.get("/api/v1/sets/spend").json["state"] == "broken"
    assert ana.get(first.headers["location"]).json["state"] == "answered"
    assert ana.get(second.headers["location"]).json["state"] == "failed"


def test_another_task_that_came_under_a_key_between_charge_and_record_stops_nobody(tmp_path: Path) -> None:
    team = new_team(tmp_path)
    server, ana = team.server, team.server.people.named("ana")
    dataset = server.sets.named("spend")
    assert ana is not None
    assert dataset is not None
    task = asking.task_of(SUM)
    desk = desk_of(server, dataset, "spend/ana", "a", request_of(task), "ana")
    desk.charge(server.paper(dataset, "spend/ana").plan(task).event)  # the web process died here
    other = json.dumps(request_of(asking.task_of({**SUM, "cap": 20})))
    server.jobs.ask(dataset.id, ana.id, "spend/ana", "a", other)
    team.worker.once()
    team.worker.once()
    found = team.browser("ana").post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "a"})
    assert (found.status, found.json["state"]) == (200, "answered")


def test_words_that_are_no_methods_are_counted_as_one_and_odd_digits_are_no_number(tmp_path: Path) -> None:
    team = new_team(tmp_path)
    ana = team.browser("ana")
    for method in ("ONE", "TWO"):
        assert ana.ask(method, "/healthz").status == 405
    assert 'method="other",route="-",status="405"} 2' in team.server.journal.metrics()
    assert ana.get("/api/v1/releases/²").status == 404
