"""LabelPrivateRegressor: scikit-learn's own checks, noise in fit only, and losses that stay honest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import HuberRegressor, LinearRegression, PoissonRegressor, QuantileRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.labels._regressor import LabelPrivateRegressor, bent_loss
from steelyard.ledger import open_account
from steelyard.noise import TestNoise
from steelyard.privacy import labels

REDRAWN = "compares two fits exactly, and two fits draw different noise"
EXPECTED = dict.fromkeys(
    ("check_fit_idempotent", "check_regressor_data_not_an_array", "check_regressors_int", "check_supervised_y_2d"),
    REDRAWN,
)


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [LabelPrivateRegressor(Ridge(), epsilon=8, lower=-10, upper=10, nodes=33)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


class Repeating(LabelPrivateRegressor):
    """A twin that draws the same noise in every fit."""

    def fit(self, X: Any, y: Any, **fit_params: Any) -> LabelPrivateRegressor:
        self.noise = TestNoise(1)
        try:
            return super().fit(X, y, **fit_params)
        finally:
            self.noise = None


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_fresh_noise_is_the_only_reason_why_the_expected_checks_fail(name: str) -> None:
    getattr(estimator_checks, name)("Repeating", Repeating(Ridge(), epsilon=8, lower=-10, upper=10, nodes=33))


def data(size: int = 4000) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(size, 2))
    return X, np.clip(5 + X @ [1.0, -0.5] + rng.normal(size=size) * 0.1, 0, 10)


def test_a_model_on_noisy_labels_is_close_to_the_one_on_clean_labels() -> None:
    X, y = data(40_000)
    clean = LinearRegression().fit(X, y)
    noisy = LabelPrivateRegressor(LinearRegression(), epsilon=2, lower=0, upper=10, noise=TestNoise(7)).fit(X, y)
    assert np.abs(noisy.estimator_.coef_ - clean.coef_).max() < 0.2
    assert str(noisy.guarantee_.spent) == "epsilon 2" or noisy.guarantee_.spent.amount == 2 * 10**6


def test_predicting_neither_draws_nor_spends() -> None:
    X, y = data()
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="1")
    model = LabelPrivateRegressor(Ridge(), epsilon=1, lower=0, upper=10, account=budget).fit(X, y)
    assert model.predict(X).tolist() == model.predict(X).tolist()
    assert str(budget.spent) == "epsilon 1"
    with pytest.raises(BudgetExceeded):
        LabelPrivateRegressor(Ridge(), epsilon=1, lower=0, upper=10, account=budget).fit(X, y)


def test_a_model_never_sees_the_true_labels() -> None:
    X, y = data()
    seen: list[Any] = []

    class Spy(Ridge):  # type: ignore[misc]
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            seen.append(np.array(y))
            return super().fit(X, y, sample_weight)

    model = LabelPrivateRegressor(Spy(), epsilon=1, lower=0, upper=10).fit(X, y)
    assert set(seen[0].tolist()) <= set(model.randomizer_.sampler_.values.tolist())


@pytest.mark.parametrize(
    "estimator",
    [
        HuberRegressor(),
        QuantileRegressor(),
        HistGradientBoostingRegressor(loss="absolute_error"),
        make_pipeline(StandardScaler(), HistGradientBoostingRegressor(loss="quantile", quantile=0.5)),
    ],
)
def test_losses_that_noise_bends_are_refused(estimator: Any) -> None:
    X, y = data(50)
    assert bent_loss(estimator)
    with pytest.raises(InvalidTask, match="affine"):
        LabelPrivateRegressor(estimator, epsilon=1, lower=0, upper=10).fit(X, y)


def test_losses_that_are_affine_in_the_label_are_not_refused() -> None:
    for loss in ("squared_error", "poisson", "gamma"):
        assert bent_loss(HistGradientBoostingRegressor(loss=loss)) is None
    assert bent_loss(Ridge()) is None


def test_a_bent_loss_may_be_trained_on_labels_kept_near_the_true_ones() -> None:
    X, y = data(400)
    model = LabelPrivateRegressor(HuberRegressor(max_iter=1000), epsilon=3, lower=0, upper=10, method="rr_on_bins")
    assert model.fit(X, y).predict(X).shape == (400,)


def test_it_can_be_cloned_and_needs_an_estimator() -> None:
    model = LabelPrivateRegressor(Ridge(alpha=3), epsilon=2, lower=0, upper=10)
    assert clone(model).get_params()["estimator__alpha"] == 3
    with pytest.raises(InvalidTask):
        LabelPrivateRegressor().fit([[1.0]], [1.0])


def test_labels_that_were_paid_for_survive_an_estimator_that_refuses_them() -> None:
    X, y = data()
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="1")
    model = LabelPrivateRegressor(PoissonRegressor(), epsilon=1, lower=0, upper=10, account=budget)
    with pytest.raises(ValueError, match="y") as failure:
        model.fit(X, y)
    assert "paid for" in failure.value.__notes__[0]
    assert str(budget.spent) == "epsilon 1"
    assert set(model.noisy_.tolist()) <= set(model.randomizer_.sampler_.values.tolist())
    assert Ridge().fit(X, model.noisy_).predict(X).shape == (4000,)
    assert str(budget.spent) == "epsilon 1"


def test_a_label_that_is_no_number_is_refused_without_being_repeated() -> None:
    X, _ = data(3)
    for odd in (["1", "secret", "2"], np.array([1, "secret", 2], object), np.array([1, {"secret": 1}, 2], object)):
        with pytest.raises(ValueError, match="must be numbers") as refusal:
            LabelPrivateRegressor(Ridge(), epsilon=1, lower=0, upper=10).fit(X, odd)
        assert "secret" not in str(refusal.value)
