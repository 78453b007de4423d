"""Two askers of one total at once: what is handed out is as sharp as its interval says, and is found again for nothing."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from steelyard.desk import Desk
from steelyard.errors import SteelyardError
from steelyard.ledger import Account
from steelyard.models.accuracy import steps, totals
from steelyard.models.accuracy.totals import GaussianTotal, TotalSearch
from steelyard.noise import TestNoise
from steelyard.session import Session
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
    """Whether the last release is no average of the steps that its interval is reckoned from."""
    at = shared(first, second, moment)
    walk = Session(TABLE, at, noise=TestNoise(3)).open(TotalSearch(TASKS["sum"]), key="k")
    assert isinstance(walk, GaussianTotal)
    kept = walk._measured()
    average = sum(cost * value for cost, value, _ in kept) / sum(cost for cost, _, _ in kept)
    return abs(walk._amount.back(round(average)) - float(kept[-1][2].value)) > 1e-9


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


def test_a_path_that_reads_the_first_name_of_every_step_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "_follows", lambda steps, step: True)
    monkeypatch.setattr(totals, "all_stored", lambda desk, step: steps.all_stored(desk, step)[:1])
    assert any(torn(*case) for case in CASES)
