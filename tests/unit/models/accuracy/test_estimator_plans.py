"""A plan is made on the terms of the account that would pay, and nothing is paid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.ledger import Account, open_account
from steelyard.models._regression import LinearRegression
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.models.accuracy._planning import like
from steelyard.privacy import Loss, Unit, rows, users

DRAWS = np.random.default_rng(11)
N = 8000
X = DRAWS.uniform(-0.5, 0.5, (N, 3))
Y = np.clip(X @ [1.0, -0.5, 0.2] + 0.1 * DRAWS.standard_normal(N), -1, 1)
LINEAR = LinearRegression(x_bound=1)


def account(unit: Unit | None = None, **given: Any) -> Account:
    return open_account(":memory:", "a", unit=unit or rows(neighbours="replace", n=N), **given)


def test_a_plan_with_an_account_has_its_currency_its_delta_and_what_it_has_left() -> None:
    pure, gaussian = account(epsilon=50), account(epsilon=50, delta=1e-6)
    planned = {
        at: AccuracyFirst(LINEAR, target_loss=0.05, account=at).plan(X[:500], Y[:500]) for at in (pure, gaussian)
    }
    assert planned[pure]["mu2"] is None
    assert planned[gaussian]["mu2"] > 0
    assert all(plan["stopped_reason"] == "target_met" for plan in planned.values())
    assert pure.spent.amount == gaussian.spent.amount == 0
    gaussian.charge(Loss(gaussian.remaining.currency, gaussian.remaining.amount - 100), key="k", request=b"other")
    poor = AccuracyFirst(LINEAR, target_loss=0.05, account=gaussian).plan(X[:500], Y[:500])
    assert poor["stopped_reason"] == "cap_reached"


def test_a_plan_is_near_what_the_fit_on_that_account_costs() -> None:
    plan = AccuracyFirst(LINEAR, target_loss=0.05, account=account(epsilon=50)).plan(X[:500], Y[:500])
    fits = [AccuracyFirst(LINEAR, target_loss=0.05, account=account(epsilon=50)).fit(X, Y) for _ in range(3)]
    assert 1 / 3 <= plan["epsilon"] / np.median([fit.epsilon_ for fit in fits]) <= 3


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": "0.7"},
        {"epsilon": 3, "delta": "1e-6"},
        {"epsilon": 3, "delta": "1e-5", "additive_delta": "1e-6"},
        {"mu": "0.5"},
        {"mu": "0.5", "delta": "1e-5"},
    ],
)
@pytest.mark.parametrize("unit", [rows(neighbours="replace", n=N), rows(), users("who")])
def test_the_account_of_a_trial_has_the_same_terms(given: dict[str, Any], unit: Unit) -> None:
    at = account(unit, **given)
    for spent in (0, 12_345):
        at.charge(Loss(at.terms.currency, spent), key=str(spent), request=b"other")
        trial = like(at, N)
        assert trial.terms == at.terms
        assert trial.remaining == at.remaining
        assert not trial.durable


def test_as_many_public_rows_are_tried_as_the_account_speaks_of() -> None:
    at = account(epsilon=50, delta=1e-6)
    asked = AccuracyFirst(LINEAR, target_loss=0.05, account=at)
    assert asked.plan(X[:500], Y[:500]) == asked.plan(X[:500], Y[:500], n=N)
    with pytest.raises(InvalidTask, match="n = 8,000"):
        asked.plan(X[:500], Y[:500], n=N + 1)
    hidden = AccuracyFirst(
        LINEAR, target_loss=0.05, account=account(users("who", neighbours="replace", n=9), epsilon=1)
    )
    with pytest.raises(UnitMismatch):
        hidden.plan(X[:500], Y[:500])


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "x", True])
def test_a_plan_for_no_number_of_rows_or_runs_is_refused(wrong: Any) -> None:
    asked = AccuracyFirst(LINEAR, target_loss=0.05)
    with pytest.raises(InvalidTask, match="n must be a whole number"):
        asked.plan(X[:50], Y[:50], n=wrong)
    with pytest.raises(InvalidTask, match="runs must be a whole number"):
        asked.plan(X[:50], Y[:50], runs=wrong)


def test_a_plan_on_columns_of_unequal_length_or_on_nothing_is_refused() -> None:
    asked = AccuracyFirst(LINEAR, target_loss=0.05)
    for x, y, whose in ((X[:50], Y[:40], None), (X[:40], Y[:50], None), (X[:50], Y[:50], np.arange(7))):
        with pytest.raises(InvalidTask, match="one for each row"):
            asked.plan(x, y, users=whose, n=100)
    with pytest.raises(InvalidTask, match="at least one"):
        asked.plan(X[:0], Y[:0], n=100)
    assert not hasattr(asked, "n_features_in_")
