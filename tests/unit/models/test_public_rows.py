"""Where users are hidden: a declared row count and a cap reach the fit, cost what was asked, and are refused elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steelyard.accounting._prices import price
from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.ledger import open_account
from steelyard.models._columns import Numeric
from steelyard.models._fits import FitLinear, FitLogistic
from steelyard.models._losses import SQUARED
from steelyard.models._regression import LinearRegression, LogisticRegression
from steelyard.models._user_descent import CappedFit, UserDescent
from steelyard.noise import TestNoise
from steelyard.privacy import Terms, rows, users
from steelyard.session import Session
from steelyard.tables import read

RANDOM = np.random.default_rng(8)
N = 12_000
X = RANDOM.uniform(-1, 1, N)
WHO = np.arange(N) // 4
RICH = X + 0.3 * RANDOM.normal(size=N) > 0
SPEND = 2 * X + 0.1 * RANDOM.normal(size=N)
TABLE = read({"x": X, "rich": RICH, "spend": SPEND, "who": WHO})
PURE: dict[str, Any] = {"epsilon": 8}
GAUSSIAN: dict[str, Any] = {"epsilon": 8, "delta": "1e-6"}


def session(unit: Any, **budget: Any) -> Session:
    return Session(
        TABLE, open_account(":memory:", f"a{RANDOM.integers(2**60)}", unit=unit, **budget), noise=TestNoise(1)
    )


def logistic(**changes: Any) -> FitLogistic:
    return FitLogistic([Numeric("x", -1, 1)], "rich", [False, True], **{"epsilon": 8, **changes})


def linear(**changes: Any) -> FitLinear:
    return FitLinear([Numeric("x", -1, 1)], "spend", -3, 3, **{"epsilon": 8, **changes})


def terms(unit: Any, **budget: Any) -> Terms:
    return session(unit, **budget).account.terms


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
def test_a_cap_keeps_rows_of_each_user_and_spends_at_most_what_was_asked(budget: dict[str, Any]) -> None:
    at = session(users("who"), **budget)
    release = at.release(logistic(cap=4))
    cap = at.account.terms.cap.value
    assert 0.99 * cap <= release.guarantee.spent.value <= cap
    told = release.value.predict({"x": X}) > 0.5
    assert np.mean(told == RICH) > 0.8


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
def test_a_cap_buys_each_row_its_share_and_a_twin_that_forgot_would_cost_four_times(budget: dict[str, Any]) -> None:
    hidden = terms(users("who"), **budget)
    fit = logistic(cap=4).fit(hidden)
    assert isinstance(fit, CappedFit)
    twin = CappedFit(logistic().fit(terms(rows(), **budget)), 4)
    honest, forgot = price(fit.event, hidden), price(twin.event, hidden)
    assert honest <= hidden.cap
    assert forgot.value > 3.9 * honest.value


def test_a_declared_row_count_is_handed_on() -> None:
    at = terms(users("who"), **GAUSSIAN)
    assert logistic(public_rows=N).fit(at) == UserDescent(logistic().fit(at).micro, N)  # type: ignore[attr-defined]
    method = linear(public_rows=N).fit(at)
    assert isinstance(method, UserDescent)
    assert (method.loss, method.public_rows) == (SQUARED, N)
    release = session(users("who"), **GAUSSIAN).release(linear(public_rows=N))
    assert 1 - np.mean((release.value.predict({"x": X}) - SPEND) ** 2) / np.var(SPEND) > 0.8


@pytest.mark.parametrize(
    ("task", "unit", "budget", "error"),
    [
        (linear(public_rows=N), rows(), GAUSSIAN, UnitMismatch),
        (logistic(public_rows=N), rows(), GAUSSIAN, UnitMismatch),
        (logistic(cap=4), rows(), PURE, UnitMismatch),
        (logistic(cap=4, public_rows=N), users("who"), GAUSSIAN, UnitMismatch),
        (logistic(method="output"), users("who"), GAUSSIAN, UnitMismatch),
        (logistic(cap=0), users("who"), GAUSSIAN, InvalidTask),
        (logistic(cap=True), users("who"), PURE, InvalidTask),
        (logistic(cap=2**30), users("who"), PURE, InvalidTask),
        (logistic(cap=2.5), users("who"), PURE, InvalidTask),
        (logistic(), users("who"), PURE, InvalidTask),
        (linear(public_rows=0), users("who"), GAUSSIAN, InvalidTask),
        (linear(public_rows=N), users("who"), PURE, InvalidTask),
        (logistic(public_rows=-1), users("who"), GAUSSIAN, InvalidTask),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_charged(
    task: Any, unit: Any, budget: dict[str, Any], error: Any
) -> None:
    at = session(unit, **budget)
    with pytest.raises(error):
        at.release(task)
    assert at.account.spent.amount == 0


def test_the_estimators_hand_them_on_too() -> None:
    points = X[:, None]
    private = LogisticRegression(8, None, classes=[False, True], x_bound=1, cap=4, noise=TestNoise(2))
    assert private.fit(points, RICH, users=WHO).score(points, RICH) > 0.8
    with pytest.raises(UnitMismatch):
        private.fit(points, RICH)
    straight = LinearRegression(8, 1e-6, 1, (-3, 3), public_rows=N, noise=TestNoise(3))
    assert straight.fit(points, SPEND, users=WHO).score(points, SPEND) > 0.8
    with pytest.raises(UnitMismatch):
        straight.fit(points, SPEND)


def test_a_fit_that_few_users_decide_warns() -> None:
    one = LinearRegression(8, 1e-6, 1, (-3, 3), public_rows=N, noise=TestNoise(4))
    with pytest.warns(UserWarning, match="user"):
        one.fit(X[:, None], SPEND, users=np.zeros(N, dtype=int))
