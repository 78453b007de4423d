"""Two askers of one total at once: what is handed out is as sharp as its interval says, and is found again for nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import pytest

from steelyard.desk import Desk
from steelyard.documents import request_of
from steelyard.errors import SteelyardError
from steelyard.ledger import Account
from steelyard.models.accuracy._family import Step
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._total import Total, TotalJudge, TotalSearch
from steelyard.models.accuracy._transcript import Transcript
from steelyard.noise import TestNoise
from unit.models.accuracy.combinations import COMBINATIONS, TABLE, TASKS

KIND = next(kind for kind in COMBINATIONS if kind.task == "sum" and kind.delta is not None)


def shared(first: float, second: float, moment: int) -> Account:
    """The second asks when the first has charged its step of this number and not drawn it."""
    at, answer, asking = KIND.account(400), Desk.answer, list[int]()

    def late(self: Desk, charge: Any, *given: Any, **named: Any) -> Any:
        if charge.answer is None:
            asking.append(1)
            if len(asking) == moment:
                KIND.ask(at, second, seed=2)
        return answer(self, charge, *given, **named)

    with pytest.MonkeyPatch.context() as patch, suppress(SteelyardError):
        patch.setattr(Desk, "answer", late)
        KIND.ask(at, first)
    return at


def torn(first: float, second: float, moment: int) -> bool:
    """Whether any stored release is said to be sharper than the steps it is an average of."""
    at, search = shared(first, second, moment), TotalSearch(TASKS["sum"])
    total = Total(search, TABLE.schema, at.terms)
    desk = Desk(TABLE, TestNoise(3), at, "k", request_of(search))
    kept = Transcript(desk, total.reader(at.terms)).told()
    for index, told in enumerate(kept):
        level = TotalJudge(Goal("relative", first, 0.9), total)
        level.learn(told)
        assert told.release is not None
        assert level.last_release is not None
        rows = [[*some, told] for size in range(index + 1) for some in combinations(kept[:index], size)]
        fits = [row for row in rows if sum(each.cost for each in row) == level.last_release.micro**2]
        averages = [sum(each.cost * int(each.facts["measured"]) for each in row) for row in fits]
        told_as = [total.amount.back(round(Fraction(found, level.last_release.micro**2))) for found in averages]
        if not any(abs(value - float(told.release.value)) <= 1e-9 for value in told_as):
            return True
    return False


CASES = list(product((0.003, 0.01), (0.0004, 0.001), (1, 2)))


def test_an_interval_is_that_of_its_own_release() -> None:
    assert not any(torn(*case) for case in CASES)


@pytest.mark.parametrize(("first", "second", "moment"), CASES)
def test_what_either_was_answered_is_found_again_for_nothing(first: float, second: float, moment: int) -> None:
    at = shared(first, second, moment)
    spent = at.spent.amount
    for amount in (second, first):
        again = KIND.ask(at, amount, seed=4)
        assert again.stopped_reason_ == "target_met"
        assert again.spent_ == at.spent.amount == spent


def test_a_release_that_is_said_to_be_sharper_than_its_steps_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    level: Any = TotalJudge.level

    def sharper(self: TotalJudge, micro: int) -> Step:
        step: Step = level(self, micro)
        return replace(step, facts={"micro": micro + micro // 10})

    monkeypatch.setattr(TotalJudge, "level", sharper)
    assert any(torn(*case) for case in CASES)
