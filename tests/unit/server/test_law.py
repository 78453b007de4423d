"""Charge, compute, store, deliver: the law over HTTP, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest

from browsing import SUM, Team, new_team
from steelyard.ledger import Ledger


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return new_team(tmp_path)


def test_a_plan_costs_nothing_and_tells_the_price_and_the_error(team: Team) -> None:
    seen = team.browser("ana").post("/api/v1/sets/spend/plans", {"task": SUM})
    assert seen.status == 200
    assert seen.json["cost"]["amount"] == 250_000
    assert seen.json["enough"]
    assert seen.json["error"]["interval"] > 0
    assert team.server.account("spend/ana").spent.amount == 0


def test_a_question_is_charged_before_it_is_answered_and_its_answer_is_what_was_stored(team: Team) -> None:
    ana = team.browser("ana")
    asked = ana.post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "total"})
    assert asked.status == 202
    assert asked.json["state"] == "charged"
    assert team.server.account("spend/ana").spent.amount == 250_000
    where = asked.headers["location"]
    assert ana.get(where).json["state"] == "charged"
    assert team.worker.once()
    answered = ana.get(where)
    assert answered.json["state"] == "answered"
    assert answered.json["release"]["receipt"]["sequence"] == asked.json["id"]
    again = ana.post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "total"})
    assert again.status == 200
    assert again.json == answered.json
    assert team.server.account("spend/ana").spent.amount == 250_000
    assert Ledger(team.server.config.ledger_address).verify().ok


def test_a_colleague_neither_sees_an_answer_nor_meets_it_by_its_key(team: Team) -> None:
    ana, ben = team.browser("ana"), team.browser("ben")
    asked = ana.post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "total"})
    team.worker.once()
    assert ben.get(asked.headers["location"]).status == 404
    own = ben.post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "total"})
    assert own.status == 202
    assert own.json["id"] != asked.json["id"]
