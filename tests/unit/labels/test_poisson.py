"""A Poisson model of labels that may be negative: scikit-learn's own checks, the right minimum, and the right model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_array
from sklearn.linear_model import PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from steelyard.errors import InvalidTask
from steelyard.labels import LabelPrivateRegressor, PoissonRegression

DRAWS = np.random.default_rng(9)


@parametrize_with_checks([PoissonRegression()])  # type: ignore[untyped-decorator]
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


def counts(size: int = 20_000) -> tuple[Any, Any]:
    draw = np.random.default_rng(4)
    X = draw.normal(size=(size, 3))
    return X, np.minimum(draw.poisson(np.exp(0.3 + X @ [0.5, -0.3, 0.2])), 30).astype(float)


def test_on_counts_it_is_scikit_learns_model() -> None:
    X, y = counts(2000)
    ours, theirs = PoissonRegression(alpha=1e-9).fit(X, y), PoissonRegressor(alpha=0, tol=1e-9, max_iter=500).fit(X, y)
    assert ours.coef_ == pytest.approx(theirs.coef_, abs=1e-5)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-5)


@pytest.mark.parametrize("alpha", [1e-3, "auto"])
def test_sparse_rows_give_the_same_model(alpha: Any) -> None:
    X, y = counts(2000)
    X[DRAWS.random(X.shape) < 0.7] = 0
    weights, y = DRAWS.integers(0, 3, len(y)), y + DRAWS.choice([-5, 5], len(y))
    dense = PoissonRegression(alpha).fit(X, y, weights)
    for kind in (csr_array, csc_matrix):
        thin = PoissonRegression(alpha).fit(kind(X), y, weights)
        assert thin.predict(kind(X)) == pytest.approx(dense.predict(X), rel=1e-6)
        assert thin.alpha_ == dense.alpha_


def test_it_follows_an_encoder_whose_rows_are_sparse() -> None:
    places = DRAWS.integers(0, 4, (20_000, 1))
    y = DRAWS.poisson(np.array([0.5, 1, 2, 4])[places[:, 0]]).clip(0, 15)
    private = LabelPrivateRegressor(PoissonRegression(), epsilon=3, lower=0, upper=15)
    model = make_pipeline(OneHotEncoder(categories=[[0, 1, 2, 3]]), private).fit(places, y)
    assert model.predict([[0], [1], [2], [3]]) == pytest.approx([0.5, 1, 2, 4], abs=0.6)


def test_noisy_negative_counts_lead_to_the_model_of_the_true_ones() -> None:
    X, y = counts()
    model = LabelPrivateRegressor(PoissonRegression(), epsilon=3, lower=0, upper=30, method="balanced").fit(X, y)
    assert model.noisy_.min() < 0
    assert model.estimator_.coef_ == pytest.approx([0.5, -0.3, 0.2], abs=0.15)


@pytest.mark.parametrize("alpha", [1e-3, "auto"])
def test_a_weight_is_how_often_a_record_counts(alpha: Any) -> None:
    X, y = counts(400)
    y = y + np.random.default_rng(1).normal(0, 4, size=len(y))
    often = np.arange(len(y)) % 3
    weighted = PoissonRegression(alpha).fit(X, y, sample_weight=often)
    repeated = PoissonRegression(alpha).fit(np.repeat(X, often, axis=0), np.repeat(y, often))
    assert weighted.coef_ == pytest.approx(repeated.coef_, abs=1e-7)
    assert weighted.alpha_ == repeated.alpha_
    assert weighted.coef_ != pytest.approx(PoissonRegression(alpha).fit(X, y).coef_, abs=1e-3)
    model = LabelPrivateRegressor(PoissonRegression(alpha), epsilon=3, lower=0, upper=30)
    assert model.fit(X, np.clip(y, 0, 30), sample_weight=often).predict(X).shape == (400,)


def test_weights_that_say_nothing_are_refused_before_the_charge() -> None:
    X, y = counts(50)
    for weights in (np.zeros(50), np.full(50, -1.0)):
        model = LabelPrivateRegressor(PoissonRegression(), epsilon=3, lower=0, upper=30)
        with pytest.raises((InvalidTask, ValueError)):
            model.fit(X, y, sample_weight=weights)
        assert not hasattr(model, "noisy_")


@pytest.mark.parametrize("y", [-5.0, 0.0])
def test_labels_below_zero_on_average_still_have_a_minimum(y: float) -> None:
    model = PoissonRegression().fit([[0.0], [1.0]] * 20, [y] * 40)
    assert np.all(np.isfinite(model.predict([[0.0], [1.0]])))
    assert model.predict([[0.0]])[0] < 0.01


def test_wild_rows_and_labels_give_finite_numbers() -> None:
    X = np.array([[1e3], [-1e3], [0.0], [50.0]] * 10)
    assert np.all(np.isfinite(PoissonRegression().fit(X, [1e6, -3.0, 2.0, 7.0] * 10).predict(X)))


@pytest.mark.parametrize("alpha", [0, -1, float("nan"), float("inf")])
def test_a_model_without_a_ridge_is_refused(alpha: float) -> None:
    with pytest.raises(InvalidTask, match="alpha"):
        PoissonRegression(alpha).fit([[0.0], [1.0]], [1, 2])


@pytest.mark.parametrize("wide", [1.0, 1e10])
def test_columns_that_say_the_same_have_a_model(wide: float) -> None:
    X = np.array([[1.0, 1.0], [2.0, 2.0]] * 50) * wide
    model = PoissonRegression(alpha=1e-3 if wide > 1 else 1e-300).fit(X, [2.0, 5.0] * 50)
    assert model.predict(X[:2]) == pytest.approx([2, 5], rel=0.01)


def test_the_ridge_chosen_from_noisy_labels_keeps_wild_ones_at_bay() -> None:
    X, y = counts(6000)
    wide = np.column_stack([X, np.random.default_rng(1).normal(size=(6000, 12))])
    true = np.exp(0.3 + X @ [0.5, -0.3, 0.2])
    noise = np.random.default_rng(2).normal(size=6000) * 30

    def loss(model: PoissonRegression) -> float:
        mean = model.fit(wide, y + noise).predict(wide)
        return float(np.mean(mean - true * np.log(mean)))

    chosen = PoissonRegression("auto")
    assert loss(chosen) < loss(PoissonRegression(1e-3)) - 0.05
    assert chosen.alpha_ > 1e-2
    assert PoissonRegression("auto").fit(X, y).alpha_ < 1e-2
    with pytest.raises(InvalidTask, match="alpha"):
        PoissonRegression("best").fit(X, y)
