"""AccuracyFirst around an estimator has the methods and tags of that one, and refuses wrong shapes in its own words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from steelyard.bounding import Sum
from steelyard.errors import InvalidTask
from steelyard.models import read_models
from steelyard.models._estimator import labels_of
from steelyard.models._regression import LinearRegression, LogisticRegression
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.noise import TestNoise

DRAWS = np.random.default_rng(6)
N = 8000
X = DRAWS.uniform(-0.5, 0.5, (N, 3))
Y = np.clip(X @ [1.0, -0.5, 0.2] + 0.1 * DRAWS.standard_normal(N), -1, 1)
NAMES = np.where(Y > 0, "yes", "no")
LINEAR = AccuracyFirst(LinearRegression(x_bound=1), target_loss=0.05, epsilon=5, noise=TestNoise(1))
LOGISTIC = AccuracyFirst(
    LogisticRegression(classes=["no", "yes"], x_bound=1), target_loss=0.6, epsilon=5, noise=TestNoise(1)
)
BANDS = np.array(["high", "low", "mid"])[np.argmax([X[:, 0], -X[:, 0], np.full(N, 0.15)], axis=0)]
THREE = AccuracyFirst(
    LogisticRegression(classes=["low", "mid", "high"], x_bound=1), target_accuracy=0.5, epsilon=5, noise=TestNoise(1)
)


REASONS = {
    **dict.fromkeys(
        ("check_fit_idempotent", "check_regressor_data_not_an_array", "check_regressors_int", "check_supervised_y_2d"),
        "compares two fits exactly, and two fits draw different noise",
    ),
    "check_dtype_object": "what an entry of X is, is private, so it is not a reason to refuse",
    "check_supervised_y_no_nan": "whether a label is missing is private, so it is not a reason to refuse",
    "check_estimators_empty_data_messages": "whether there are rows is private, so it is not a reason to refuse",
}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [AccuracyFirst(LinearRegression(x_bound=10, y_bounds=(-10, 10)), target_loss=50, epsilon=50)],
    expected_failed_checks=lambda estimator: REASONS,
)
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    """Around a classifier they cannot be made: it must be told its classes, and the checks have labels of many kinds."""
    check(estimator)


@pytest.mark.parametrize("first", [LINEAR, LOGISTIC, THREE])
def test_a_model_is_saved_by_the_names_of_columns_and_classes(first: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame(
        X, columns=["age", "height", "y"]
    )  # the last is called as the label is in the search's own table
    for given, source in (
        (frame.rename(columns={"y": "width"}), ["age", "height", "width"]),
        (frame, ["x0", "x1", "x2"]),
    ):
        fitted = clone(first).fit(given, {LINEAR: Y, LOGISTIC: NAMES, THREE: BANDS}[first])
        fitted.save(tmp_path / "model.json")
        models = read_models(str(tmp_path / "model.json"))
        assert models[0].features.source == source
        columns = dict(zip(source, X.T, strict=True))
        if first is LINEAR:
            assert np.array_equal(models[0].predict(columns), fitted.predict(given))
        elif first is LOGISTIC:
            assert (models[0].negative, models[0].positive) == ("no", "yes")
            assert np.array_equal(models[0].predict(columns), fitted.predict_proba(given)[:, 1])
        else:
            assert [model.positive for model in models] == ["high", "low", "mid"] == fitted.classes_.tolist()
            assert np.mean(fitted.predict(given) == BANDS) > 0.6


def test_a_search_that_found_nothing_has_nothing_to_save(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        clone(LINEAR).save(tmp_path / "model.json")


def test_the_score_is_that_of_the_inner_kind() -> None:
    linear, logistic = clone(LINEAR).fit(X, Y), clone(LOGISTIC).fit(X, NAMES)
    weights = DRAWS.uniform(0, 1, N)
    assert linear.score(X, Y) == r2_score(Y, linear.predict(X)) > 0.5
    assert logistic.score(X, NAMES) == accuracy_score(NAMES, logistic.predict(X)) > 0.7
    assert linear.score(X, Y, weights) == r2_score(Y, linear.predict(X), sample_weight=weights)
    assert cross_val_score(clone(LINEAR), X, Y, cv=2).min() > 0.5


def test_probabilities_and_log_odds_are_there_for_classifiers_alone() -> None:
    logistic = clone(LOGISTIC).fit(X, NAMES)
    odds, chances = logistic.decision_function(X), logistic.predict_proba(X)
    assert np.allclose(1 / (1 + np.exp(-odds)), chances[:, 1])
    assert np.array_equal(logistic.classes_[(odds > 0).astype(int)], logistic.predict(X))
    for name in ("predict_proba", "decision_function"):
        assert hasattr(LOGISTIC, name)
        assert not hasattr(LINEAR, name)
    assert not hasattr(AccuracyFirst(Sum("x", cap=1), relative_error=0.1), "score")


def test_tags_are_those_of_the_inner_estimator() -> None:
    assert is_classifier(LOGISTIC)
    assert not is_regressor(LOGISTIC)
    assert is_regressor(LINEAR)
    assert get_tags(LOGISTIC).classifier_tags == get_tags(LOGISTIC.estimator).classifier_tags
    for around in (LINEAR, LOGISTIC):
        assert get_tags(around).target_tags == get_tags(around.estimator).target_tags
        assert get_tags(around).target_tags.required
        assert get_tags(around).non_deterministic


@pytest.mark.parametrize(
    ("y", "whose", "said"),
    [(None, None, "y is None"), (Y[:-1], None, "8000 rows and y has 7999"), (Y, np.arange(5), "users has 5 entries")],
)
def test_missing_and_short_labels_or_users_are_refused(y: Any, whose: Any, said: str) -> None:
    with pytest.raises(InvalidTask, match=said):
        clone(LINEAR).fit(X, y, users=whose)
    fitted = clone(LINEAR).fit(X, Y)
    spent = fitted.account_.spent
    with pytest.raises(InvalidTask, match=said):
        fitted.resume(X, y, users=whose, target_loss=0.02)
    assert fitted.account_.spent == spent


@pytest.mark.parametrize("amount", [10**400, "1e-350", "1e301"])
@pytest.mark.parametrize("kind", ["target_loss", "excess_loss"])
def test_amounts_that_no_double_holds_are_refused(amount: Any, kind: str) -> None:
    with pytest.raises(InvalidTask, match="between 1e-300 and 1e300"):
        AccuracyFirst(LinearRegression(x_bound=1), **{kind: amount}).fit(X, Y)


def test_going_on_with_other_columns_is_refused_and_the_model_stays() -> None:
    fitted = clone(LINEAR).fit(X, Y)
    told = fitted.predict(X[:5])
    with pytest.raises(ValueError, match="features"):
        fitted.resume(X[:, :2], Y, target_loss=0.02)
    assert np.array_equal(fitted.predict(X[:5]), told)


@pytest.mark.parametrize("order", [["no", "yes"], ["yes", "no"]])
def test_the_order_in_which_classes_are_declared_does_not_turn_a_score_around(order: list[str]) -> None:
    model = clone(LOGISTIC).set_params(estimator__classes=order).fit(X, NAMES)
    assert model.classes_.tolist() == ["no", "yes"]
    assert roc_auc_score(NAMES == "yes", model.predict_proba(X)[:, 1]) > 0.7


def test_classes_that_y_cannot_hold_are_refused_and_odd_labels_are_not() -> None:
    model = AccuracyFirst(LogisticRegression(classes=["a", "b"]), target_loss=0.68, epsilon=1)
    with pytest.raises(InvalidTask, match="no row could ever"):
        model.fit(X[:50], np.zeros(50))
    odd: list[Any] = ["a", np.array([1, 2]), None, {}, 1j, *["b"] * 45]
    assert model.estimator.coded(labels_of(model, odd))[1].tolist() == [0, -1, -1, -1, -1, *[1] * 45]
