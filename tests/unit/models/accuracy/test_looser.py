"""A looser question than one that passed costs nothing and gets the same answer: in every kind of search there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from steelyard.errors import CurrencyMismatch, InvalidTask, KeyConflict, NeighbourMismatch
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._transcript import Transcript
from steelyard.privacy import Unit, rows, users
from unit.models.accuracy.combinations import COMBINATIONS, MODELS, Combination


@pytest.mark.parametrize("kind", COMBINATIONS, ids=str)
def test_a_looser_or_a_less_sure_question_is_free(kind: Combination) -> None:
    at, (_, tight, loose) = kind.account(), kind.amounts
    first = kind.ask(at, tight)
    assert first.stopped_reason_ == "target_met"
    spent = at.spent.amount
    for amount, sure in ((loose, 0.9), (loose, 0.8), (tight, 0.8), (tight, 0.9)):
        again = kind.ask(at, amount, sure, seed=2)
        assert again.stopped_reason_ == "target_met"
        assert at.spent.amount == spent == again.spent_
        assert again.certificate_.bound <= amount
        if kind in MODELS:
            assert np.array_equal(again.coef_, first.coef_)
        else:
            assert again.release_ is not None
            assert first.release_ is not None
            assert again.release_.value == first.release_.value


@pytest.mark.parametrize("kind", [each for each in MODELS if each.check == "disjoint"], ids=str)
def test_a_tighter_or_a_surer_question_is_not_answered_by_a_looser_one(kind: Combination) -> None:
    at, (tighter, tight, _) = kind.account(), kind.amounts
    kind.ask(at, tight, 0.8)
    before = at.spent.amount
    kind.ask(at, tight, 0.99, seed=2)
    surer = at.spent.amount
    kind.ask(at, tighter, 0.8, seed=3)
    assert before < surer < at.spent.amount


@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_a_search_that_does_not_know_the_rule_is_caught(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Goal, "answered_by", lambda self, names: [])
    kind = next(each for each in MODELS if each.task == task and each.check == "disjoint")
    at, (_, tight, loose) = kind.account(), kind.amounts
    kind.ask(at, tight)
    spent = at.spent.amount
    kind.ask(at, loose, seed=2)
    assert at.spent.amount > spent


REFUSED: dict[str, tuple[str, str | None, str, Unit, type[Exception], str]] = {
    "a check on other rows adds Gaussian steps": ("linear", None, "disjoint", rows(), CurrencyMismatch, "delta"),
    "so it does for classifiers": ("logistic", None, "disjoint", users("who"), CurrencyMismatch, "delta"),
    "a mean over shared rows needs a public n": (
        "linear",
        "1e-6",
        "auto",
        rows(),
        NeighbourMismatch,
        "n must be public",
    ),
    "on either kind of account": ("logistic", None, "auto", users("who"), NeighbourMismatch, "n must be public"),
    "a total has no model that could be checked": (
        "sum",
        "1e-6",
        "disjoint",
        rows(),
        InvalidTask,
        "target_loss and its like only",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_combination_that_there_is_not_is_refused_before_anything_is_charged(why: str) -> None:
    task, delta, check, unit, error, words = REFUSED[why]
    kind = Combination(task, delta, check, unit)
    at = kind.account()
    with pytest.raises(error, match=words):
        kind.ask(at, kind.amounts[1])
    assert at.spent.amount == 0


@pytest.mark.parametrize("kind", COMBINATIONS, ids=str)
def test_a_step_that_another_question_took_meanwhile_is_refused(
    kind: Combination, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tighter question is asked, and answered, after the first one has read what is stored and before it takes a step."""
    at, asked = kind.account(400), list[int]()

    def between(taken: Callable[..., Any]) -> Callable[..., Any]:
        def late(self: Transcript, *given: Any) -> Any:
            if not asked:
                asked.append(1)
                kind.ask(at, kind.amounts[0], seed=2)
            return taken(self, *given)

        return late

    for name in ("buy", "rise"):
        monkeypatch.setattr(Transcript, name, between(getattr(Transcript, name)))
    with pytest.raises(KeyConflict, match="at the same time"):
        kind.ask(at, kind.amounts[2])
    again = kind.ask(at, kind.amounts[2], seed=3)
    assert again.stopped_reason_ == "target_met"
    assert again.spent_ == at.spent.amount
