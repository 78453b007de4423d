"""A classifier near the best is one release: a tighter excess is another, and every one of them is counted."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from steelyard.errors import KeyConflict
from steelyard.ledger import Account, open_account
from steelyard.models._fits import FitLogistic
from steelyard.models._regression import LogisticRegression
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.models.accuracy._family import Step
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._logistic import LogisticSearch
from steelyard.models.accuracy._transcript import Transcript, costs_of
from steelyard.noise import TestNoise
from steelyard.privacy import rows
from steelyard.session import Session
from steelyard.tables import read

DRAWS = np.random.default_rng(5)
N = 8000
X = DRAWS.uniform(-0.5, 0.5, (N, 3))
B = X @ [1.0, -0.5, 0.2] + 0.1 * DRAWS.standard_normal(N) > 0
LOGISTIC = LogisticRegression(classes=[False, True], x_bound=1)


def account(**given: Any) -> Account:
    return open_account(":memory:", "a", unit=rows(neighbours="replace", n=N), epsilon=9, **given)


def first(**wanted: Any) -> AccuracyFirst:
    return AccuracyFirst(LOGISTIC, **{"epsilon": 9, "noise": TestNoise(2), **wanted})


@pytest.mark.parametrize("delta", [1e-6, None])
def test_what_a_key_has_spent_is_what_the_ledger_says_whatever_is_asked_of_it(delta: float | None) -> None:
    model = first(excess_loss=0.05, delta=delta).fit(X, B)
    questions: list[dict[str, Any]] = [
        {"target_loss": 0.5},
        {"excess_loss": 0.03},
        {"target_loss": 0.45},
        {"target_loss": 1.7},
    ]
    for asked in questions:
        before = model.spent_
        model.resume(X, B, **asked)
        assert model.spent_ == model.account_.spent.amount >= before
        if delta is None:
            assert model.epsilon_ == model.spent_ / 10**6
        else:
            assert model.mu2_spent_ == model.spent_ / 10**12
            assert model.epsilon_ >= model.epsilon_filter_


def test_a_count_that_forgets_the_draws_before_a_target_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    model = first(excess_loss=0.05).fit(X, B)
    forgetful = lambda self: sum(costs_of(self.desk).values()) - costs_of(self.desk)["step 0"]  # noqa: E731
    monkeypatch.setattr(Transcript, "spent", property(forgetful))
    model.resume(X, B, target_loss=0.5)
    assert model.spent_ < model.account_.spent.amount


def test_one_draw_alone_keeps_the_epsilon_that_was_known_beforehand_and_more_are_composed() -> None:
    model = first(excess_loss=0.05).fit(X, B)
    alone = model.epsilon_
    assert model.resume(X, B, excess_loss=0.05).epsilon_ == alone
    assert model.resume(X, B, excess_loss=0.03).epsilon_ > alone


@pytest.mark.parametrize("delta", [1e-6, None])
def test_a_tighter_excess_is_drawn_anew_at_its_full_price_and_the_same_or_a_looser_one_is_free(
    delta: float | None,
) -> None:
    model = first(excess_loss=0.05, delta=delta).fit(X, B)
    loose, once = model.coef_, model.spent_
    model.resume(X, B, excess_loss=0.02)
    tight, both = model.coef_, model.spent_
    assert both - once == first(excess_loss=0.02, delta=delta).fit(X, B).spent_
    assert model.certificate_.bound <= 0.02
    for asked, wanted in ((0.03, tight), (0.05, loose), (0.02, tight), (0.04, tight)):
        model.resume(X, B, excess_loss=asked)
        assert np.array_equal(model.coef_, wanted)
        assert model.certificate_.bound <= asked
        assert model.spent_ == model.account_.spent.amount == both


def test_a_surer_answer_is_another_draw() -> None:
    at = account(delta=1e-6)
    sure = [first(excess_loss=0.05, account=at, key="k", confidence=c).fit(X, B).spent_ for c in (0.9, 0.99, 0.9, 0.95)]
    assert sure[0] < sure[1] == sure[2] == sure[3] == at.spent.amount


def test_a_key_names_one_model_and_another_penalty_is_refused_before_it_is_charged() -> None:
    at = account(delta=1e-6)
    first(excess_loss=0.05, account=at, key="k").fit(X, B)
    spent = at.spent
    for asked in ({"excess_loss": 0.05}, {"excess_loss": 0.02}, {"target_loss": 0.5}):
        with pytest.raises(KeyConflict):
            first(account=at, key="k", penalty=0.01, **asked).fit(X, B)
    assert at.spent == spent
    other = account(delta=1e-6)
    first(target_loss=0.5, account=other, key="k").fit(X, B)
    spent = other.spent
    with pytest.raises(KeyConflict):
        first(excess_loss=0.05, account=other, key="k", penalty=0.01).fit(X, B)
    assert other.spent == spent


def test_a_task_on_a_session_draws_under_the_same_key_too() -> None:
    table = read({"x0": X[:, 0], "x1": X[:, 1], "x2": X[:, 2], "y": B.astype(int)})
    at = account(delta=1e-6)
    task = FitLogistic(["x0", "x1", "x2"], "y", [0, 1], x_bound=1)
    spent = []
    for excess in (0.05, 0.05, 0.02):
        search = AccuracyFirst(task, excess_loss=excess)
        search.release(Session(table, at, noise=TestNoise(4)), key="k")
        spent.append(search.spent_)
    assert spent[0] == spent[1] < spent[2] == at.spent.amount


def test_a_draw_that_another_question_took_meanwhile_is_refused_and_counted() -> None:
    table = read({"x0": X[:, 0], "x1": X[:, 1], "x2": X[:, 2], "y": B.astype(int)})
    at = account(delta=1e-6)
    fit = FitLogistic(["x0", "x1", "x2"], "y", [0, 1], x_bound=1)
    search = LogisticSearch(fit.features, "y", [0, 1], Fraction(1, 1000))
    walk, buy, asked = Session(table, at, noise=TestNoise(4)).open(search, key="k"), Transcript.buy, list[float]()

    def late(self: Transcript, step: Step, goal: Goal) -> Any:
        if not asked:
            asked.append(0)
            asked[0] = walk.reach_excess(0.05, 0.9).spent
        return buy(self, step, goal)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transcript, "buy", late)
        with pytest.raises(KeyConflict, match="at the same time"):
            walk.reach_excess(0.02, 0.9)
    assert at.spent.amount == asked[0]  # whoever was refused has paid for nothing
    alone = Session(table, account(delta=1e-6), noise=TestNoise(4)).open(search, key="k").reach_excess(0.02, 0.9)
    found = walk.reach_excess(0.02, 0.9)
    assert (found.reason, found.spent) == ("target_met", at.spent.amount)
    assert at.spent.amount == asked[0] + alone.spent
    for excess in (0.05, 0.02):
        assert walk.reach_excess(excess, 0.9).spent == at.spent.amount == found.spent


def test_an_excess_that_predicting_nothing_keeps_costs_nothing() -> None:
    model = first(excess_loss=0.7).fit(X, B)
    assert (model.stopped_reason_, model.spent_, model.epsilon_) == ("null_model_ok", 0, 0.0)
    assert model.certificate_.bound <= 0.7
    assert np.allclose(model.predict_proba(X[:2]), 0.5)
