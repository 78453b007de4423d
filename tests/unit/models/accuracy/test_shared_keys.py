"""Several questions, or several askers, under one key: no answer to another question, nothing paid twice or forgotten."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from steelyard.desk import Desk
from steelyard.errors import KeyConflict
from steelyard.ledger import Account, open_account
from steelyard.models._fits import FitLinear, FitLogistic
from steelyard.models.accuracy._goal import Goal, Stop
from steelyard.models.accuracy._reach import Reached, reach
from steelyard.models.accuracy._search import replayed
from steelyard.models.accuracy._transcript import Transcript
from steelyard.noise import TestNoise
from steelyard.privacy import rows
from steelyard.session import Session
from steelyard.tables import Table
from unit.models.accuracy.bound_paths import FEATURES, RIDGE, N, account, changed, table


class Dead(BaseException):
    """The process ends here."""


def linear(at: Account, target: float, *, seed: int = 1, progress: Any = None, check: str = "auto") -> Reached:
    session = Session(table(), at, noise=TestNoise(seed))
    wanted = Goal("loss", target, 0.9, check)
    return reach(session, FitLinear(FEATURES, "y", -1, 1), wanted, penalty="0.001", key="k", progress=progress)


def classifier(at: Account, excess: float, given: Table | None = None) -> Reached:
    session = Session(table() if given is None else given, at, noise=TestNoise(2))
    return reach(session, FitLogistic(FEATURES, "c", (0, 1)), Goal("excess", excess, 0.9), penalty="0.001", key="k")


def test_a_step_that_another_question_took_meanwhile_is_not_taken_for_ones_own() -> None:
    at, asked = account("rows"), list[int]()

    def between(stop: Stop) -> None:
        if stop.step == "level 0" and not asked:
            asked.append(1)
            linear(at, 0.01, seed=3)

    with pytest.raises(KeyConflict, match="another question was asked of this path at the same time"):
        linear(at, 0.05, progress=between, check="every")
    again = linear(at, 0.05, check="every")
    assert again.reason == "target_met"
    assert again.spent == at.spent.amount


def test_statistics_that_two_askers_measured_at_once_in_other_units_are_not_averaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at, answer, charged = account("rows"), Desk.answer, list[int]()
    search = replace(RIDGE, penalty=Fraction(1, 50))

    def opened(seed: int) -> Any:
        return Session(table(), at, noise=TestNoise(seed)).open(search, key="k")

    def meanwhile(self: Desk, *given: Any, **more: Any) -> Any:
        charged.append(1)
        if len(charged) == 2:  # the first statistics are paid for and not yet drawn
            opened(7).reach(Goal("excess", 0.001, 1 - 1e-9, "certificate"))
        return answer(self, *given, **more)

    monkeypatch.setattr(Desk, "answer", meanwhile)
    with pytest.raises(KeyConflict, match="at the same time"):
        opened(1).reach(Goal("excess", 0.001, 0.5, "certificate"))
    desk = opened(2)._desk
    transcript = Transcript(desk, search.reader(desk.terms))
    told = [each for each in transcript.told() if each.kind == "level"]
    first = told[0].facts["vector"]
    assert {each.facts["vector"] for each in told} > {first}
    judge: Any = replayed(search.judge(Goal("excess", 1e-9, 0.9), transcript), transcript.told())
    assert judge.family.paid == sum(each.cost for each in told if each.facts["vector"] == first)
    assert judge.family.noisy.variance == judge.family.design.variance(judge.family.paid)


def test_a_label_that_was_bought_again_after_a_crash_is_found_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    at, answer = account("rows"), Desk.answer

    def dies(*_: Any, **__: Any) -> Any:
        raise Dead

    monkeypatch.setattr(Desk, "answer", dies)
    with pytest.raises(Dead):
        linear(at, 0.1)
    monkeypatch.setattr(Desk, "answer", answer)
    wasted = at.spent.amount
    found = linear(at, 0.05, seed=2)
    assert found.reason == "target_met"
    assert found.spent + wasted == at.spent.amount
    spent = at.spent.amount
    for target in (0.05, 0.06):
        assert linear(at, target, seed=3).reason == "target_met"
        assert at.spent.amount == spent, "what passed is answered again for nothing"


def test_a_target_is_the_same_however_its_number_is_typed() -> None:
    at = account("rows")
    walk = Session(table(), at, noise=TestNoise(1)).open(RIDGE, key="k")
    walk.reach_loss(np.float64(0.05), 0.9)
    spent = at.spent.amount
    walk.reach_loss(0.05, np.float64(0.9))
    assert at.spent.amount == spent


@pytest.mark.parametrize("delta", ["1e-6", None])
def test_draws_near_the_best_are_releases_of_their_own_and_no_rows_are_compared(delta: str | None) -> None:
    given = {} if delta is None else {"delta": delta}
    at = open_account(":memory:", "near", unit=rows(neighbours="replace", n=N), epsilon=500, **given)
    classifier(at, 0.3)
    spent = at.spent.amount
    other = classifier(at, 0.1, changed())
    assert other.spent == at.spent.amount > spent
    assert "has the 3,000 rows that its account declares" in str(other.certificate)


def test_draws_that_two_askers_bought_at_once_all_count() -> None:
    at, answer, asked = account("rows"), Desk.answer, list[int]()

    def late(self: Desk, *given: Any, **named: Any) -> Any:
        if not asked:
            asked.append(0)
            asked[0] = classifier(at, 0.1).spent  # between the first one's charge and its draw
        return answer(self, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Desk, "answer", late)
        classifier(at, 0.3)
    spent = at.spent.amount
    for excess in (0.3, 0.1):
        assert classifier(at, excess).spent == at.spent.amount == spent > asked[0]
