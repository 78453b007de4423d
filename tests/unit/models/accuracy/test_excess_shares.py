"""How an excess shares the failure probability with whatever else is asked under its key, and where it is not yet impossible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from off_ledger import ridge_judge
from steelyard.desk import Desk
from steelyard.documents import request_of
from steelyard.models.accuracy import _looks as looks
from steelyard.models.accuracy import _watch as watch
from steelyard.models.accuracy._goal import Found, Goal, Stop, share_of
from steelyard.models.accuracy._reach import LATER, shown
from steelyard.models.accuracy._schedule import Failure
from steelyard.models.accuracy._transcript import Transcript
from steelyard.noise import TestNoise
from steelyard.session import Session
from unit.models.accuracy import pure_paths
from unit.models.accuracy.bound_paths import RIDGE, account, table


def test_all_that_a_key_ever_promises_at_one_confidence_fails_no_more_often_than_it_may() -> None:
    assert sum(share_of(rank) for rank in range(20)) <= 1
    for rank in range(20):
        share = Failure(share_of(rank))
        assert share.label + share.looks <= share_of(rank) * (1 + 1e-12)
        assert share.label + share.free + share.check(0) + share.check(1) <= share_of(rank) * (1 + 1e-12)
    assert sum(looks.SHARES) + looks.RESERVE <= 1


def walk(at: Any, seed: int = 1) -> Any:
    return Session(table(), at, noise=TestNoise(seed)).open(RIDGE, key="k")


def first_then_rank(first: Callable[[Any], Found], second: Goal) -> int:
    at = account("rows")
    assert first(walk(at)).reason == "target_met"
    desk = Desk(table(), TestNoise(1), at, "k", request_of(RIDGE))
    return Transcript(desk, RIDGE.reader(at.terms)).rank(second)


def test_a_question_that_looked_or_was_certified_has_taken_its_share() -> None:
    assert first_then_rank(lambda at: at.reach_excess(0.02, 0.9, looks=0), Goal("loss", 0.02, 0.9)) == 1
    assert first_then_rank(lambda at: at.reach_loss(0.05, 0.9), Goal("excess", 0.01, 0.9)) == 1
    assert first_then_rank(lambda at: at.reach_loss(0.05, 0.9), Goal("loss", 0.05, 0.9)) == 0


def test_the_looks_of_a_later_excess_are_stricter() -> None:
    first, later = (ridge_judge(Goal("excess", 0.01, 0.9), 1000, 3, 0.01, rank).failure for rank in (0, 1))
    assert later.check(0) == pytest.approx(first.check(0) / 10)
    assert later.free == pytest.approx(first.free / 10)


def test_a_look_covers_an_excess_chosen_from_what_was_seen_and_a_free_certificate_says_that_it_does_not() -> None:
    def told(step: str, passed: bool | None) -> str:
        found = Found(None, 0.01, "target_met", (Stop(step, 1.0, passed=passed),), 1, alone=False)
        return shown(found, Goal("excess", 0.01, 0.9))

    assert LATER in told("level 3", None)
    assert LATER not in told("look 0", True)


def test_a_certificate_that_the_path_already_holds_is_not_called_impossible() -> None:
    at = account("rows")
    walk(at).reach_loss(0.0028, 0.9)  # goes far beyond all levels of a loose excess
    spent = at.spent.amount
    found = walk(at, 2).reach_excess(0.05, 0.9, looks=0)
    assert found.reason == "target_met"
    assert found.bound <= 0.05
    assert at.spent.amount == spent


def test_an_excess_whose_watch_refused_every_level_is_asked_about_more_sharply(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = watch.Watching.ask

    def deaf(self: watch.Watching, look: Any, facts: Any) -> bool:
        return False if self.index == 0 else ask(self, look, facts)

    monkeypatch.setattr(watch.Watching, "ask", deaf)
    at = pure_paths.account()
    session = Session(pure_paths.table(), at, noise=TestNoise(1))
    found = session.open(pure_paths.SEARCH, key="k").reach_excess(0.02, 0.9)
    assert found.reason == "target_met"
    assert found.spent == at.spent.amount
    assert sum(stop.step.startswith("watch") for stop in found.path) == 2
