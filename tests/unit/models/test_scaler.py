"""PrivateScaler: ranges are bought, the price adds up, and rows are mapped one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.ledger import open_account
from steelyard.models._regression import LinearRegression
from steelyard.models._scaler import PrivateScaler, share_of
from steelyard.noise import TestNoise
from steelyard.privacy import rows, users

REDRAWN = {"check_fit_idempotent": "compares two fits exactly, and two fits draw different noise"}
TOTAL = {
    "check_estimators_empty_data_messages": "whether there are rows is private, so it is not a reason to refuse",
    "check_dtype_object": "what an entry of X is, is private, so it is not a reason to refuse",
}
CHECKED: dict[str, Any] = {"epsilon": 50, "bounds": (-100, 100)}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [PrivateScaler(**CHECKED)], expected_failed_checks=lambda estimator: {**REDRAWN, **TOTAL}
)
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


class Repeating(PrivateScaler):
    """A twin that draws the same noise in every fit."""

    def fit(self, X: Any, y: Any = None, users: Any = None) -> PrivateScaler:
        self.noise = TestNoise(1)
        try:
            return super().fit(X, y, users)
        finally:
            self.noise = None


@pytest.mark.parametrize("name", REDRAWN)
def test_fresh_noise_is_the_only_reason_why_those_checks_fail(name: str) -> None:
    getattr(estimator_checks, name)("Repeating", Repeating(**CHECKED))


def data(size: int = 5000) -> Any:
    return np.random.default_rng(0).normal(size=(size, 3)) * [1, 1000, 0.5] + [0, 5000, 7]


def test_ranges_are_near_the_true_quantiles_across_scales() -> None:
    X = data(50_000)
    scaler = PrivateScaler(epsilon=3, bounds=(-100_000, 100_000), resolution="0.01", noise=TestNoise(1)).fit(X)
    for i in range(3):
        spread = np.std(X[:, i])
        assert scaler.low_[i] == pytest.approx(np.quantile(X[:, i], 0.01), abs=spread + 0.03 * abs(scaler.low_[i]))
        assert scaler.high_[i] == pytest.approx(np.quantile(X[:, i], 0.99), abs=spread + 0.03 * abs(scaler.high_[i]))
    moved = scaler.transform(X)
    assert np.abs(moved).max() <= 1
    assert np.linalg.norm(moved, axis=1).max() <= scaler.x_bound_


def test_a_column_that_hardly_varies_needs_bounds_of_its_own_or_many_rows() -> None:
    pressure = np.random.default_rng(3).normal(1013, 6, (20_000, 1))

    def wide(rows: int, bounds: tuple[float, float], low: float = 0.01) -> float:
        taken = pressure[:rows]
        asked = PrivateScaler(1, (low, 1 - low), bounds=bounds, noise=TestNoise(5)).fit(taken)
        return float((asked.high_[0] - asked.low_[0]) / np.ptp(np.quantile(taken, [low, 1 - low])))

    assert 0.8 < wide(3_000, (900, 1100)) < 1.25
    assert 0.8 < wide(20_000, (-(10**6), 10**6)) < 1.6
    assert 0.8 < wide(2_000, (-(10**6), 10**6), 0.1) < 2
    assert wide(3_000, (0, 2000)) > 10


@pytest.mark.parametrize("delta", [None, "1e-6"])
@pytest.mark.parametrize("unit", [rows(), rows(neighbours="replace", n=300)])
def test_all_columns_together_cost_no_more_than_epsilon_and_hardly_less(delta: Any, unit: Any) -> None:
    given = {"delta": delta} if delta else {}
    account = open_account(":memory:", f"s{delta}{unit}", unit=unit, epsilon=1, **given)
    scaler = PrivateScaler(epsilon=1, account=account).fit(data(300))
    assert account.spent == scaler.guarantee_.spent
    assert account.spent <= account.terms.cap
    assert account.spent.amount > 0.99 * account.terms.cap.amount
    with pytest.raises(BudgetExceeded):
        PrivateScaler(epsilon="0.5", account=account).fit(data(300))


def test_charging_every_column_the_whole_epsilon_would_be_refused() -> None:
    """The broken twin: shares that are not shared out."""
    account = open_account(":memory:", "twin", unit=rows(), epsilon=1)
    share = share_of(1, account.terms, 3)
    assert share["epsilon"] * 3 <= 1 < share_of(1, account.terms, 1)["epsilon"] * 3


def test_scaler_and_model_add_up_on_one_account() -> None:
    X = data(20_000)
    y = X @ [1, 0.002, 1] - 10
    account = open_account(":memory:", "both", unit=rows(), epsilon=6, delta="1e-6")
    pipe = make_pipeline(
        PrivateScaler(epsilon=4, account=account, bounds=(-100_000, 100_000), resolution="0.001"),
        LinearRegression(epsilon=1, account=account, x_bound=np.sqrt(3), y_bounds=(0, 20)),
    )
    assert pipe.fit(X, y).score(X, y) > 0.5
    assert account.spent.value > 0
    with pytest.raises(BudgetExceeded):
        pipe.fit(X, y)


def test_a_row_is_mapped_by_itself_and_values_never_matter() -> None:
    X = data(400)
    X[0], X[1], X[2] = np.nan, np.inf, 1e308
    scaler = PrivateScaler(epsilon=1, bounds=[(-10, 10), (0, 10_000), (-1, 100)]).fit(X)
    moved = scaler.transform(X)
    assert np.isnan(moved[0]).all()
    assert (moved[1] == 1).all()
    assert moved[5].tolist() == scaler.transform(X[5:6])[0].tolist()
    for size in (0, 1):
        assert np.isfinite(PrivateScaler().fit(X[:size]).low_).all()
    same = PrivateScaler(epsilon=5).fit(np.full((200, 1), 3.0))
    assert same.low_[0] < same.high_[0]


def test_users_need_a_cap_and_count_for_no_more() -> None:
    X, who = data(600), np.arange(600) % 40
    with pytest.raises(InvalidTask, match="cap"):
        PrivateScaler().fit(X, users=who)
    scaler = PrivateScaler(epsilon=4, cap=15).fit(X, users=who)
    assert scaler.account_.terms.unit == users("user")


@pytest.mark.parametrize(
    "settings",
    [
        {"bounds": (1, 0)},
        {"bounds": 5},
        {"bounds": [(0, 1)]},
        {"quantiles": (0.5,)},
        {"quantiles": (0.9, 0.1)},
        {"resolution": 0},
        {"resolution": "1e9"},
        {"epsilon": "0.000002"},
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_is_charged(settings: dict[str, Any]) -> None:
    account = open_account(":memory:", f"r{settings}", unit=rows(), epsilon=1)
    with pytest.raises(InvalidTask):
        PrivateScaler(**{"account": account, **settings}).fit(data(10))
    assert account.spent.amount == 0
