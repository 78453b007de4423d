"""LabelPrivateRegressor: scikit-learn's own checks, noise in fit only, and losses that stay honest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from lightgbm import LGBMRegressor
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    SGDRegressor,
    TweedieRegressor,
)
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVR, LinearSVR
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from xgboost import XGBRegressor

from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.labels import PoissonRegression, logistic_objective, poisson_objective
from steelyard.labels._estimators import bent_loss, endless_loss
from steelyard.labels._regressor import LabelPrivateRegressor, made_up
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
    rehearsed, trained = seen
    assert set(trained.tolist()) <= set(model.randomizer_.sampler_.values.tolist())
    assert rehearsed.tolist() == made_up(model.randomizer_.grid()[0], 256, biased=False).tolist()


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
    for loss in ("squared_error", "poisson"):
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


class Fragile(Ridge):  # type: ignore[misc]
    """Takes made-up labels, and fails on others."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        if len(set(np.asarray(y).tolist())) != 3:
            raise ValueError("bad luck")
        return super().fit(X, y, sample_weight)


def test_labels_that_were_paid_for_survive_an_estimator_that_fails() -> None:
    X, y = data()
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="1")
    model = LabelPrivateRegressor(Fragile(), epsilon=1, lower=0, upper=10, account=budget)
    with pytest.raises(ValueError, match="bad luck") as failure:
        model.fit(X, y, key="k")
    assert "paid for" in failure.value.__notes__[0]
    assert str(budget.spent) == "epsilon 1"
    assert set(model.noisy_.tolist()) <= set(model.randomizer_.sampler_.values.tolist())
    again = LabelPrivateRegressor(Ridge(), epsilon=1, lower=0, upper=10, account=budget).fit(X, y, key="k")
    assert again.noisy_.tolist() == model.noisy_.tolist()
    assert str(budget.spent) == "epsilon 1"


@pytest.mark.parametrize(
    "estimator",
    [
        PoissonRegressor(),
        TweedieRegressor(power=1.5),
        GammaRegressor(),
        HistGradientBoostingRegressor(loss="poisson", max_iter=5),
        HistGradientBoostingRegressor(loss="gamma", max_iter=5),
        TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1),
        GridSearchCV(PoissonRegressor(), {"alpha": [1, 2]}, error_score="raise", cv=2),
        LGBMRegressor(objective="poisson", n_estimators=3, verbose=-1),
        LGBMRegressor(objective="tweedie", n_estimators=3, verbose=-1),
        XGBRegressor(objective="count:poisson", n_estimators=3),
        XGBRegressor(objective="reg:gamma", n_estimators=3),
        XGBRegressor(objective="reg:logistic", n_estimators=3),
    ],
    ids=lambda made: f"{type(made).__name__}-{getattr(made, 'objective', '') or getattr(made, 'loss', '')}",
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_estimator_that_takes_no_negative_labels_is_told_before_the_charge(estimator: Any) -> None:
    X, y = data(400)
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="1")
    with pytest.raises(Exception, match=r".") as refusal:
        LabelPrivateRegressor(estimator, epsilon=1, lower=0, upper=10, account=budget).fit(X, y)
    assert "othing was charged" in " ".join([str(refusal.value), *getattr(refusal.value, "__notes__", [])])
    assert str(budget.spent) == "epsilon 0"


class OwnBooster(AdaBoostRegressor):  # type: ignore[misc]
    """Somebody's own: it has another name, and learns a median all the same."""


class OwnTarget(TransformedTargetRegressor):  # type: ignore[misc]
    """The same of a target."""


def root(labels: Any, power: float) -> Any:
    return np.sign(labels) * np.abs(labels) ** power


@pytest.mark.parametrize(
    "estimator",
    [
        SGDRegressor(loss="huber"),
        BaggingRegressor(SGDRegressor(loss="epsilon_insensitive")),
        RandomForestRegressor(criterion="absolute_error"),
        GradientBoostingRegressor(loss="quantile"),
        MultiOutputRegressor(HuberRegressor()),
        VotingRegressor([("a", Ridge()), ("b", LinearSVR())]),
        StackingRegressor([("a", Ridge())], SVR()),
        GridSearchCV(SGDRegressor(), {"loss": ["squared_error", "huber"]}),
        GridSearchCV(
            make_pipeline(StandardScaler(), SGDRegressor()), [{"sgdregressor__loss": ["epsilon_insensitive"]}]
        ),
        TransformedTargetRegressor(make_pipeline(StandardScaler(), QuantileRegressor())),
        TransformedTargetRegressor(Ridge(), func=np.arcsinh, inverse_func=np.sinh),
        TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1),
        make_pipeline(StandardScaler(), TransformedTargetRegressor(Ridge(), transformer=QuantileTransformer())),
        TransformedTargetRegressor(Ridge(), transformer=FunctionTransformer(np.cbrt)),
        TransformedTargetRegressor(Ridge(), transformer=FunctionTransformer(root, kw_args={"power": 0.3})),
        TransformedTargetRegressor(Ridge(), transformer=make_pipeline(StandardScaler(), PowerTransformer())),
        TransformedTargetRegressor(Ridge(), transformer=KBinsDiscretizer(encode="ordinal")),
        TransformedTargetRegressor(Ridge(), func=lambda y: np.arcsinh(y[:, [0]]), inverse_func=np.sinh),
        TransformedTargetRegressor(Ridge(), func=lambda y: np.log(y + 1000), inverse_func=lambda y: np.exp(y) - 1000),
        TransformedTargetRegressor(Ridge(), func=lambda y: np.clip(y, -50, 50), inverse_func=lambda y: y),
        GridSearchCV(TransformedTargetRegressor(Ridge()), {"func": [np.arcsinh], "inverse_func": [np.sinh]}),
        GridSearchCV(
            make_pipeline(StandardScaler(), TransformedTargetRegressor(Ridge())),
            [{"transformedtargetregressor__transformer": [None, QuantileTransformer()]}],
        ),
        OwnTarget(Ridge(), func=np.arcsinh, inverse_func=np.sinh),
        OwnBooster(),
        BaggingRegressor(OwnBooster()),
        DummyRegressor(strategy="median"),
        RandomizedSearchCV(SGDRegressor(), {"loss": np.array(["squared_error", "huber"])}, n_iter=1),
        AdaBoostRegressor(),
        LGBMRegressor(objective="regression_l1"),
        LGBMRegressor(objective="fair"),
        XGBRegressor(objective="reg:absoluteerror"),
        XGBRegressor(objective="reg:pseudohubererror"),
        BaggingRegressor(XGBRegressor(objective="reg:quantileerror")),
    ],
)
def test_losses_that_noise_bends_are_found_wherever_they_are(estimator: Any) -> None:
    assert bent_loss(estimator)


class CatBoostRegressor:
    """What the library of this name looks like from outside: its wheel of 97 MB brings Matplotlib and Plotly, too much for a test."""

    def __init__(self, **params: Any) -> None:
        self._params = params

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return self._params


@pytest.mark.parametrize(
    "loss", ["MAE", "Quantile:alpha=0.5", "Huber:delta=1", "MAPE", "Expectile:alpha=0.5", "LogCosh"]
)
def test_losses_of_catboost_are_known_too(loss: str) -> None:
    assert bent_loss(CatBoostRegressor(loss_function=loss)) == loss
    assert bent_loss(CatBoostRegressor(loss_function="RMSE")) is None
    assert endless_loss(CatBoostRegressor(loss_function="Tweedie:variance_power=1.5"))


def test_losses_that_serve_are_left_alone() -> None:
    fine = [
        Ridge(),
        LGBMRegressor(),
        XGBRegressor(),
        LGBMRegressor(objective=poisson_objective),
        TweedieRegressor(power=0),
        TransformedTargetRegressor(Ridge()),
        TransformedTargetRegressor(Ridge(), func=lambda y: y / 100, inverse_func=lambda y: y * 100),
        TransformedTargetRegressor(Ridge(), transformer=StandardScaler()),
        TransformedTargetRegressor(Ridge(), transformer=FunctionTransformer()),
        TransformedTargetRegressor(Ridge(), transformer=make_pipeline(RobustScaler(), MinMaxScaler())),
        TransformedTargetRegressor(Ridge(), func=lambda y: y.astype(np.float32), inverse_func=lambda y: y),
        GridSearchCV(TransformedTargetRegressor(Ridge()), {"transformer": [None, StandardScaler()]}),
        GridSearchCV(
            make_pipeline(FunctionTransformer(), Ridge()), {"functiontransformer__func": [np.arcsinh, np.tanh]}
        ),
        DummyRegressor(),
    ]
    assert [bent_loss(each) or endless_loss(each) for each in fine] == [None] * 14


def test_a_gamma_loss_has_no_least_value_where_labels_are_negative_and_a_poisson_loss_has() -> None:
    y, x, steps = np.array([4.0, -1.0]), np.array([0.0, 1.0]), -np.arange(0.0, 500, 50)
    gamma = [float(np.mean(y * np.exp(-x * s) + x * s)) + 1e-3 / 2 * s**2 for s in steps]
    tweedie = [
        float(np.mean(y * np.exp(-0.5 * x * s) / 0.5 + np.exp(0.5 * x * s) / 0.5)) + 1e-3 / 2 * s**2 for s in steps
    ]
    poisson = [float(np.mean(np.exp(x * s) - y * x * s)) + 1e-3 / 2 * s**2 for s in 4 * steps]
    assert gamma[-1] < tweedie[-1] < -1e12
    assert min(poisson) > -200
    assert poisson[-1] > 0 > min(poisson)


def test_a_search_inside_pays_once_and_settings_of_the_randomizer_are_passed_on() -> None:
    X, y = data(600)
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="2")
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 10]}, cv=3)
    LabelPrivateRegressor(search, epsilon=1, lower=0, upper=10, account=budget).fit(X, y, ids=range(600))
    assert str(budget.spent) == "epsilon 1"
    odd = np.where(np.arange(600) == 3, np.nan, y)
    held = LabelPrivateRegressor(Ridge(), epsilon=1, lower=0, upper=10, account=budget, missing=0, column="y")
    assert held.fit(X, odd, groups=["a", "b"] * 300, key="g").randomizer_.groups_ is not None
    assert str(budget.spent) == "epsilon 2"
    free = LabelPrivateRegressor(Ridge(), epsilon=4, lower=0, upper=10, prior=[1] * 11, unbiased=False)
    assert free.fit(X, y).randomizer_.method_ == "compromise"


def test_nullable_and_arrow_labels_are_read_and_text_is_not() -> None:
    X, y = data(60)
    whole = np.rint(y).astype(int)
    model = LabelPrivateRegressor(Ridge(), epsilon=1, lower=0, upper=10)
    for given in (pd.array(whole, dtype="Int64"), pd.Series(y, dtype="Float64"), pl.Series(y),
                  pd.Series(whole, dtype=pd.ArrowDtype(pa.int64()))):  # fmt: skip
        assert model.fit(X, given).predict(X).shape == (60,)
    for text in (pd.Series(["a"] * 60), pd.array(["a"] * 60, dtype="string"), np.array(["1"] * 60)):
        with pytest.raises(ValueError, match="must be numbers"):
            model.fit(X, text)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, pd.array([None, *whole[1:]], dtype="Int64"))


def counts(size: int = 20_000) -> tuple[Any, Any]:
    draw = np.random.default_rng(4)
    X = draw.normal(size=(size, 2))
    return X, np.minimum(draw.poisson(np.exp(np.where(X[:, 0] > 0, 1.0, -0.5))), 10).astype(float)


@pytest.mark.parametrize(
    "booster",
    [
        LGBMRegressor(objective=poisson_objective, n_estimators=20, num_leaves=4, learning_rate=0.2, verbose=-1),
        XGBRegressor(objective=poisson_objective, n_estimators=20, max_depth=2, learning_rate=0.2, base_score=0.0),
    ],
    ids=["lightgbm", "xgboost"],
)
def test_boosting_with_our_objective_learns_counts_from_negative_labels(booster: Any) -> None:
    X, y = counts()
    model = LabelPrivateRegressor(booster, epsilon=4, lower=0, upper=10, noise=TestNoise(1)).fit(X, y)
    assert model.noisy_.min() < 0
    high, low = np.exp(model.predict(np.array([[1.0, 0.0], [-1.0, 0.0]])))
    assert high == pytest.approx(np.exp(1.0), rel=0.25)
    assert low == pytest.approx(np.exp(-0.5), rel=0.35)


@pytest.mark.parametrize(
    "booster",
    [
        LGBMRegressor(objective=logistic_objective, n_estimators=20, num_leaves=4, learning_rate=0.2, verbose=-1),
        XGBRegressor(objective=logistic_objective, n_estimators=20, max_depth=2, learning_rate=0.2, base_score=0.0),
    ],
    ids=["lightgbm", "xgboost"],
)
def test_boosting_with_our_objective_learns_chances_from_negative_labels(booster: Any) -> None:
    X, _ = counts()
    y = (np.random.default_rng(5).random(len(X)) < np.where(X[:, 0] > 0, 0.8, 0.3)).astype(float)
    model = LabelPrivateRegressor(booster, epsilon=2, lower=0, upper=1, noise=TestNoise(1)).fit(X, y)
    found = 1 / (1 + np.exp(-model.predict(np.array([[1.0, 0.0], [-1.0, 0.0]]))))
    assert found == pytest.approx([0.8, 0.3], abs=0.08)


def test_poisson_counts_by_our_own_fitter_need_no_tricks() -> None:
    X, y = counts(4000)
    assert LabelPrivateRegressor(PoissonRegression(), epsilon=4, lower=0, upper=10).fit(X, y).predict(X).min() > 0


def test_a_label_that_is_no_number_is_refused_without_being_repeated() -> None:
    X, _ = data(3)
    for odd in (["1", "secret", "2"], np.array([1, "secret", 2], object), np.array([1, {"secret": 1}, 2], object)):
        with pytest.raises(ValueError, match="must be numbers") as refusal:
            LabelPrivateRegressor(Ridge(), epsilon=1, lower=0, upper=10).fit(X, odd)
        assert "secret" not in str(refusal.value)


def test_a_classifier_is_sent_to_the_one_that_learns_classes() -> None:
    from sklearn.linear_model import LogisticRegression

    account = open_account(":memory:", "c", unit=labels("label"), epsilon="1")
    model = LabelPrivateRegressor(LogisticRegression(), epsilon=1, lower=0, upper=1, method="rr", account=account)
    with pytest.raises(InvalidTask, match="LabelPrivateClassifier learns classes"):
        model.fit([[0.0], [1.0]] * 20, [0, 1] * 20)
    assert account.spent.amount == 0


def test_a_setting_that_is_an_array_of_no_dimension_is_a_setting() -> None:
    model = LabelPrivateRegressor(Ridge(alpha=np.array(1.0)), epsilon=1, lower=0, upper=10)
    assert model.fit(np.random.default_rng(1).random((200, 2)), np.arange(200) % 10).noisy_.shape == (200,)
