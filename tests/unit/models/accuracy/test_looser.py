"""A looser question than one that passed costs nothing and gets the same answer: in every kind of search there is."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.models.accuracy.goal import Goal
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
