"""LinearRegression: scikit-learn's own checks, exact charges, and no draw that is worse than knowing nothing."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from steelyard.errors import BudgetExceeded, InvalidTask, UnitMismatch
from steelyard.ledger import open_account
from steelyard.models._regression import LinearRegression
from steelyard.noise import TestNoise
from steelyard.privacy import labels, rows, users

REDRAWN = dict.fromkeys(
    ("check_fit_idempotent", "check_regressor_data_not_an_array", "check_regressors_int", "check_supervised_y_2d"),
    "compares two fits exactly, and two fits draw different noise",
)
TOTAL = {
    "check_all_zero_sample_weights_error": "what a row weighs is private, so it is not a reason to refuse",
    "check_sample_weight_equivalence_on_dense_data": "two fits draw different noise, and weights are clipped to a public bound",
    "check_sample_weight_equivalence_on_sparse_data": "two fits draw different noise, and weights are clipped to a public bound",
    "check_dtype_object": "what an entry of X is, is private, so it is not a reason to refuse",
    "check_supervised_y_no_nan": "whether a label is missing is private, so it is not a reason to refuse",
    "check_estimators_empty_data_messages": "whether there are rows is private, so it is not a reason to refuse",
}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [LinearRegression(epsilon=100, x_bound=10, y_bounds=(-10, 10))],
    expected_failed_checks=lambda estimator: {**REDRAWN, **TOTAL},
)
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


class Repeating(LinearRegression):
    """A twin that draws the same noise in every fit."""

    def fit(self, X: Any, y: Any, users: Any = None, sample_weight: Any = None) -> LinearRegression:
        self.noise = TestNoise(1)
        try:
            return super().fit(X, y, users, sample_weight)
        finally:
            self.noise = None


@pytest.mark.parametrize("name", REDRAWN)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_fresh_noise_is_the_only_reason_why_those_checks_fail(name: str) -> None:
    getattr(estimator_checks, name)("Repeating", Repeating(epsilon=100, x_bound=10, y_bounds=(-10, 10)))


def plant(size: int = 9568) -> tuple[Any, Any]:
    """Something like the power plant of the benchmarks: four correlated columns mapped to [-1, 1], a label near linear."""
    random = np.random.default_rng(11)
    heat = random.beta(2, 2, size) * 1.75 - 0.9
    columns = [heat, 0.6 * heat + random.normal(size=size) * 0.25, random.normal(size=size) * 0.24,
               -0.3 * heat + random.normal(size=size) * 0.28]  # fmt: skip
    X = np.clip(np.column_stack(columns), -1, 1)
    return X, 455 + X @ [-33, -8, 1.5, -6] + random.normal(size=size) * 4.5


def wide(size: int) -> tuple[Any, Any]:
    random = np.random.default_rng(12)
    X = random.normal(size=(size, 50))
    weights = random.normal(size=50)
    return X, X @ (weights / np.linalg.norm(weights)) + random.normal(size=size) * 0.05


def private(X: Any, y: Any, seed: int, **settings: Any) -> float:
    model = LinearRegression(noise=TestNoise(seed), **settings).fit(X, y)
    return float(model.score(X, y))


PLANT: dict[str, Any] = {"x_bound": 2, "y_bounds": (410, 510)}
WIDE: dict[str, Any] = {"x_bound": 8.5, "y_bounds": (-4, 4)}


@pytest.mark.parametrize(("epsilon", "least", "usual"), [(0.05, 0, 0.55), (0.3, 0.6, 0.8), (1, 0.8, 0.88)])
def test_no_draw_on_the_power_plant_is_worse_than_the_mean(epsilon: float, least: float, usual: float) -> None:
    X, y = plant()
    scores = [private(X, y, seed, epsilon=epsilon, **PLANT) for seed in range(15)]
    assert min(scores) > least
    assert np.median(scores) > usual


@pytest.mark.parametrize(("epsilon", "least", "usual"), [(0.05, 0.5, 0.65), (1, 0.98, 0.99)])
def test_no_draw_on_fifty_columns_is_worse_than_the_mean(epsilon: float, least: float, usual: float) -> None:
    X, y = wide(100_000)
    scores = [private(X, y, seed, epsilon=epsilon, **WIDE) for seed in range(3)]
    assert min(scores) > least
    assert np.median(scores) > usual


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.3, 1, 3])
def test_a_thousand_draws_on_the_power_plant_are_none_worse_than_the_mean(epsilon: float) -> None:
    X, y = plant()
    assert min(private(X, y, seed, epsilon=epsilon, **PLANT) for seed in range(1000)) > 0


def test_pure_privacy_and_scaled_rows_work_too() -> None:
    X, y = plant()
    assert private(X, y, 1, epsilon=1, delta=0, **PLANT) > 0.5
    assert private(X, y, 1, epsilon=1, delta=None, **PLANT) > 0.5
    assert private(X, y, 1, epsilon=1, norm="scale", **PLANT) > 0.4


def test_coefficients_are_those_of_least_squares_when_epsilon_is_large() -> None:
    X, y = plant()
    model = LinearRegression(epsilon=1000, **PLANT).fit(X, y)
    assert model.coef_ == pytest.approx([-33, -8, 1.5, -6], abs=0.6)
    assert model.intercept_ == pytest.approx(455, abs=0.5)
    assert np.allclose(model.predict(X), X @ model.coef_ + model.intercept_, atol=1e-6)
    assert 0 < float(model.expected_excess_ or 0) < 1e-2


def test_a_fit_without_an_account_says_who_paid_and_one_with_it_spends_there() -> None:
    X, y = plant(500)
    model = LinearRegression(epsilon=1, **PLANT).fit(X, y)
    assert "in memory" in model.note_
    assert str(model.guarantee_).startswith("(1, 0.000001)-differential privacy")
    account = open_account(":memory:", "mine", unit=rows(), epsilon=1, delta="1e-6")
    paid = LinearRegression(epsilon=1, account=account, **PLANT).fit(X, y)
    assert "mine" in paid.note_
    with pytest.raises(BudgetExceeded):
        LinearRegression(epsilon="0.1", account=account, **PLANT).fit(X, y)


def test_a_grid_search_that_one_account_cannot_pay_for_is_refused_before_it_spends() -> None:
    X, y = plant(500)
    account = open_account(":memory:", "grid", unit=rows(), epsilon=1, delta="1e-6")
    search = GridSearchCV(LinearRegression(epsilon="0.5", account=account, **PLANT), {"norm": ["clip", "scale"]}, cv=4,
                          error_score="raise")  # fmt: skip
    with pytest.raises(BudgetExceeded, match="9 fits"):
        search.fit(X, y)
    assert account.spent.amount == 0


def test_pure_epsilon_on_an_account_with_a_delta_is_spoken_of() -> None:
    X, y = plant(500)
    account = open_account(":memory:", "approximate", unit=rows(), epsilon=1, delta="1e-6")
    with pytest.warns(UserWarning, match="delta=None asks for pure epsilon") as heard:
        LinearRegression(epsilon="0.5", delta=None, account=account, **PLANT).fit(X, y)
    assert heard[0].filename == __file__
    pure = open_account(":memory:", "pure", unit=rows(), epsilon=1)
    LinearRegression(epsilon="0.5", delta=None, account=pure, **PLANT).fit(X, y)


def test_pipelines_clones_and_pickles_keep_working() -> None:
    X, y = plant(2000)
    pipe = make_pipeline(FunctionTransformer(np.clip, kw_args={"a_min": -1, "a_max": 1}), LinearRegression(**PLANT))
    assert pipe.fit(X, y).predict(X).shape == (2000,)
    model = clone(LinearRegression(epsilon=2, **PLANT)).fit(X, y)
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == model.predict(X).tolist()  # noqa: S301


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_give_names_and_the_same_fit_as_arrays(frame: Any) -> None:
    X, y = plant(300)
    named = frame({name: X[:, i] for i, name in enumerate("abcd")})
    one = LinearRegression(noise=TestNoise(1), **PLANT).fit(named, y)
    two = LinearRegression(noise=TestNoise(1), **PLANT).fit(X, y)
    assert one.coef_.tolist() == two.coef_.tolist()
    assert one.predict(named).tolist() == two.predict(X).tolist()


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.full((5, 2), np.nan), np.full(5, np.inf)),
        (np.array([[1e308, -1e308]] * 3), [1e308, -1e308, 0]),
        (np.ones((50, 3)), np.full(50, 1e9)),
        (np.random.default_rng(0).normal(size=(3, 40)), [0, 1, 2]),
        (np.empty((0, 3)), []),
    ],
    ids=["nothing known", "huge", "constant and outside", "more features than rows", "no rows"],
)
def test_values_are_never_a_reason_to_refuse(X: Any, y: Any) -> None:
    model = LinearRegression(x_bound=1, y_bounds=(0, 2)).fit(X, y)
    told = model.predict(np.vstack([X, np.full((1, X.shape[1]), np.inf)]))
    assert ((told >= 0) & (told <= 2)).all()


def test_shapes_types_and_settings_are() -> None:
    X, y = plant(20)

    def fit(**settings: Any) -> Any:
        return LinearRegression(**{**PLANT, **settings}).fit

    with pytest.raises(ValueError, match="inconsistent"):
        fit()(X, y[:-1])
    with pytest.raises(ValueError, match="inconsistent"):
        fit()(X, y, users=np.arange(7))
    with pytest.raises(ValueError, match="numbers"):
        fit()(X, np.array(["a"] * 20))
    with pytest.raises(ValueError, match="1D array"):
        fit()(X[:, 0], y)
    for settings in ({"x_bound": None}, {"x_bound": -1}, {"y_bounds": 3}, {"y_bounds": (3, 3)}, {"norm": "max"},
                     {"epsilon": 0}, {"epsilon": "much"}, {"delta": 1}):  # fmt: skip
        with pytest.raises(InvalidTask):
            fit(**settings)(X, y)
    with pytest.raises(ValueError, match="features"):
        LinearRegression(**PLANT).fit(X, y).predict(X[:, :2])


def test_users_are_hidden_where_they_are_named() -> None:
    X, y = plant()
    model = LinearRegression(epsilon=4, noise=TestNoise(1), **PLANT).fit(
        X, y, users=[f"u{i // 2}" for i in range(len(y))]
    )
    assert model.score(X, y) > 0.6
    assert "all rows of one value" in str(model.guarantee_.unit)
    account = open_account(":memory:", "hers", unit=users("x0"), epsilon=4, delta="1e-6")
    assert LinearRegression(epsilon=4, account=account, **PLANT).fit(X, y, users=np.arange(len(y))).score(X, y) > 0.6


def test_accounts_for_another_unit_are_refused() -> None:
    X, y = plant(20)
    account = open_account(":memory:", "other", unit=labels("y"), epsilon=1)
    with pytest.raises(UnitMismatch, match="leave users= out"):
        LinearRegression(account=account, **PLANT).fit(X, y, users=np.arange(20))
    people = open_account(":memory:", "people", unit=users("who"), epsilon=1, delta="1e-6")
    with pytest.raises(UnitMismatch, match="users="):
        LinearRegression(account=people, **PLANT).fit(X, y)
    each = open_account(":memory:", "each", unit=rows(), epsilon=1, delta="1e-6")
    with pytest.raises(UnitMismatch, match="leave users= out"):
        LinearRegression(account=each, **PLANT).fit(X, y, users=np.arange(20))


def test_users_of_several_types_are_read_one_by_one_without_a_word_about_them() -> None:
    X, y = plant(3)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = LinearRegression(**PLANT).fit(X, y, users=np.array([1, "secret", object()], dtype=object))
    assert made.coef_.shape == (X.shape[1],)
    assert not any("secret" in str(each.message) for each in told)
