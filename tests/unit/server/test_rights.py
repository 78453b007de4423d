"""Every route and every role: who is let in, who is refused, and what they are told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from browsing import SUM, Browser, Team, new_team
from steelyard.server._app import Application
from steelyard.server._rights import RIGHTS, explain
from steelyard.server._routes import ROUTES
from steelyard.server.pages import show_problem

PEOPLE = ("officer", "carl", "ana", "ben", "tess", "eve", "nobody")
"""Carl is the set's custodian; Ana and Ben are analysts, and Ana asked for the release; Tess is on a team; Eve is a stranger."""
LET_IN = {
    "see a set": "officer carl ana ben",
    "make a set": "officer",
    "register a source": "carl",
    "propose an account": "carl",
    "approve an account": "officer",
    "see proposals": "officer",
    "manage members": "carl",
    "see members": "officer carl",
    "plan": "officer carl ana ben",
    "ask": "ana ben",
    "see a release": "officer carl ana",
    "list releases": "officer carl ana ben",
    "publish a release": "carl",
    "open a board": "carl",
    "run a board": "carl",
    "see a board": "officer carl ana ben tess",
    "submit": "tess",
    "see a submission": "officer carl tess",
    "see spending": "officer",
    "verify": "officer",
    "export": "officer",
    "see acts": "officer",
    "see metrics": "officer",
    "manage people": "officer",
    "be oneself": "officer carl ana ben tess eve",
    "come in": "officer carl ana ben tess eve nobody",
    "look": "officer carl ana ben tess eve nobody",
}
CHANGES = ("POST", "PUT", "DELETE", "PATCH")


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Team:
    found = new_team(tmp_path_factory.mktemp("team"))
    asked = found.browser("ana").post(
        "/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "total"}
    )
    found.worker.once()
    server = found.server
    dataset, tess = server.sets.named("spend"), server.people.add("tess")
    assert dataset is not None
    board = server.boards.add(
        "returns", "", dataset.id, "data/spend.parquet", "amount", {}, open_to_all=False, slot=0.0
    )
    number = server.boards.add_team(board.id, "reds")
    server.boards.join(number, tess.id)
    made, _ = server.boards.submit(board.id, number, tess.id, "first", "", "", "none")
    params = {"set": "spend", "release": str(asked.json["id"]), "board": "returns", "submission": str(made.id)}
    found.params = {
        **params,
        "proposal": "1",
        "person": "ana",
        "role": "analyst",
        "token": "x",
        "session": "x",
        "code": "x",
    }
    found.app = Application(
        server, [replace(each, handler=lambda call: {"let": "in"}) for each in ROUTES], show_problem
    )
    return found


def browsers(team: Team) -> Iterator[tuple[str, Browser]]:
    for name in PEOPLE:
        yield name, Browser(team.app) if name == "nobody" else team.browser(name, by="session")


@pytest.mark.parametrize("act", RIGHTS)
def test_every_route_lets_in_whom_the_table_names_and_nobody_else(team: Team, act: str) -> None:
    routes = [each for each in ROUTES if each.act == act]
    assert routes
    for name, browser in browsers(team):
        for route in routes:
            path = re.sub(r"\{(\w+)(:\w+)?\}", lambda found: team.params.get(found[1], "x"), route.path)
            sent = {"json": {"data": {}}, "form": {"form": {"x": "y"}}}.get(route.body, {})
            seen = browser.ask(route.method, path, **sent)  # type: ignore[arg-type]
            assert (seen.status == 200) == (name in LET_IN[act].split()), (name, route.method, path, seen.status)
            if seen.status != 200:
                assert seen.status == 401 if name == "nobody" else seen.status in (403, 404)


def test_what_is_not_there_and_what_is_for_others_look_alike(team: Team) -> None:
    eve = team.browser("eve")
    for kind in ("sets/{}", "releases/{}", "boards/{}", "submissions/{}", "sets/{}/members", "sets/{}/releases"):
        name = team.params[kind.partition("s/")[0]]
        there, nowhere = eve.get(f"/api/v1/{kind.format(name)}"), eve.get(f"/api/v1/{kind.format('987654321')}")
        assert (there.status, there.body) == (nowhere.status, nowhere.body) == (404, there.body)


def test_no_act_is_somebodys_by_accident() -> None:
    assert set(LET_IN) == set(RIGHTS)
    assert all(each.act in RIGHTS for each in ROUTES)
    open_to_all = {each.path for each in ROUTES if each.act in ("look", "come in") and each.method in CHANGES}
    assert open_to_all == {"/enter/{code}", "/sign-in"}


def test_an_act_without_a_line_is_nobodys() -> None:
    assert "refused" in explain(frozenset({"officer", "custodian", "analyst"}), "erase the ledger")


def test_a_token_cannot_make_tokens_nor_do_what_administrators_do(team: Team) -> None:
    carl = team.browser("carl")
    assert carl.post("/api/v1/me/tokens", {"name": "more"}).status == 403
    assert carl.post("/api/v1/sets/spend/members", {}).status == 403
    assert team.browser("officer").post("/api/v1/approvals/1", {}).status == 403


def test_a_token_that_may_plan_may_not_spend(team: Team) -> None:
    ana = team.browser("ana", scope="plan")
    assert ana.post("/api/v1/sets/spend/plans", {"task": SUM}).status == 200
    assert ana.post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "k"}).status == 403
    assert team.browser("ana").post("/api/v1/sets/spend/releases", {}, headers={"Idempotency-Key": "k"}).status == 200


def test_an_old_sign_in_approves_nothing(team: Team) -> None:
    officer = team.browser("officer", by="session")
    clock = team.server.people._clock
    team.server.people._clock = lambda: clock() + 3600
    try:
        seen = officer.post("/api/v1/approvals/1", {})
        assert (seen.status, seen.json["kind"]) == (403, "NotFresh")
        assert officer.get("/api/v1/approvals").status == 200
    finally:
        team.server.people._clock = clock


def test_officers_belong_to_no_set_and_no_team(tmp_path: Path) -> None:
    team = new_team(tmp_path)
    officer, dataset = team.server.people.named("officer"), team.server.sets.named("spend")
    assert officer is not None
    assert dataset is not None
    with pytest.raises(ValueError, match="belongs to no set"):
        team.server.sets.join(dataset.id, officer.id, "analyst")
    board = team.server.boards.add("b", "", dataset.id, "data/x.csv", "", {}, open_to_all=True, slot=0.0)
    with pytest.raises(ValueError, match="on no team"):
        team.server.boards.join(team.server.boards.add_team(board.id, "reds"), officer.id)
