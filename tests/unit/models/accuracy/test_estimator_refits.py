"""A fit leaves nothing of the one before, and one that ends without a model says how it ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from steelyard.bounding import Sum
from steelyard.errors import InvalidTask
from steelyard.ledger import open_account
from steelyard.models._regression import LinearRegression, LogisticRegression
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.noise import TestNoise
from steelyard.privacy import Loss, users
from steelyard.session import Session
from steelyard.tables import read

DRAWS = np.random.default_rng(3)
N = 8000
X = DRAWS.uniform(-0.5, 0.5, (N, 3))
Y = np.clip(X @ [1.0, -0.5, 0.2] + 0.1 * DRAWS.standard_normal(N), -1, 1)
B = Y > 0
LINEAR = LinearRegression(x_bound=1)
LOGISTIC = LogisticRegression(classes=[False, True], x_bound=1)
POOR = "0.0001"


def first(estimator: Any = LINEAR, **wanted: Any) -> AccuracyFirst:
    return AccuracyFirst(estimator, **{"epsilon": 5, "noise": TestNoise(1), **wanted})


@pytest.mark.parametrize("width", [3, 2])
def test_a_refit_that_finds_no_model_keeps_nothing_of_the_one_before(width: int) -> None:
    model = first(target_loss=0.05).fit(X, Y)
    assert model.stopped_reason_ == "target_met"
    model.set_params(epsilon=POOR).fit(X[:, :width], Y)
    assert model.stopped_reason_ == "cap_reached"
    assert model.n_features_in_ == width
    assert not [name for name in ("model_", "coef_", "intercept_") if hasattr(model, name)]
    with pytest.raises(NotFittedError, match=r"no model.*'cap_reached'.*first step wants mu .* mu 0\.\d+ is left"):
        model.predict(X[:1, :width])


def test_a_refit_that_is_refused_keeps_nothing_either() -> None:
    model = first(target_loss=0.05).fit(X, Y)
    with pytest.raises(InvalidTask):
        model.set_params(target_loss=-1).fit(X, Y)
    assert not [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]
    with pytest.raises(NotFittedError, match="call fit or release first"):
        model.predict(X[:1])
    with pytest.raises(NotFittedError, match="call fit or release first"):
        model.resume(X, Y, target_loss=0.05)


def test_another_kind_of_model_inherits_no_classes() -> None:
    model = first(LOGISTIC, target_loss=0.65).fit(X, B)
    assert model.classes_.tolist() == [False, True]
    model.set_params(estimator=LINEAR, target_loss=0.05).fit(X, Y)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize(
    ("estimator", "wanted"),
    [
        (LINEAR, {"target_loss": 0.05}),
        (LINEAR, {"excess_loss": 0.01}),
        (LINEAR, {"target_loss": 0.05, "delta": None}),
        (LINEAR, {"target_loss": 0.05, "check": "disjoint"}),
        (LOGISTIC, {"target_loss": 0.6}),
        (LOGISTIC, {"target_loss": 0.6, "delta": None}),
        (LOGISTIC, {"target_loss": 0.6, "check": "disjoint"}),
        (LOGISTIC, {"excess_loss": 0.05}),
    ],
)
def test_a_cap_below_the_first_step_says_what_it_wanted_and_what_is_left(
    estimator: Any, wanted: dict[str, Any]
) -> None:
    model = first(estimator, epsilon=POOR, **wanted).fit(X, Y if estimator is LINEAR else B)
    assert (model.stopped_reason_, model.path_, model.spent_) == ("cap_reached", (), 0)
    left = str(model.account_.remaining)
    said = str(model.certificate_)
    assert "the first step wants " in said
    assert f"and {left} is left" in said


def test_a_cap_in_the_middle_speaks_of_the_next_step() -> None:
    model = first(LOGISTIC, target_loss=0.3, epsilon="0.02", check="every").fit(X, B)
    assert model.stopped_reason_ == "cap_reached"
    assert model.path_
    assert "the next step wanted mu 0.0" in str(model.certificate_)
    assert "was left" in str(model.certificate_)


def test_a_search_that_divided_its_last_budget_says_so() -> None:
    model = first(LOGISTIC, target_loss=0.3, epsilon="0.02").fit(X, B)
    assert model.stopped_reason_ == "cap_reached"
    assert "what was left went into a last level and a last look" in str(model.certificate_)


def test_a_resumed_question_without_an_answer_hands_out_the_best_model_known_and_promises_nothing_of_it() -> None:
    model = first(LOGISTIC, excess_loss=0.05, epsilon="0.3").fit(X, B)
    before, kept = model.spent_, model.coef_
    model.resume(X, B, excess_loss=0.002)
    assert (model.stopped_reason_, model.spent_) == ("cap_reached", before)
    assert np.array_equal(model.coef_, kept)
    assert not model.certificate_.met
    assert np.array_equal(model.resume(X, B, excess_loss=0.05).coef_, kept)


def test_a_total_that_was_never_released_says_what_it_wanted() -> None:
    table = read({"who": np.arange(500), "x": np.ones(500)})
    account = open_account(":memory:", "poor", unit=users("who"), epsilon=1)
    account.charge(Loss.pure("0.9999"), key="other", request=b"other")
    with pytest.raises(InvalidTask, match=r"first step wants epsilon 0\.\d+, and epsilon 0\.0001 is left"):
        AccuracyFirst(Sum("x", cap=1), relative_error=0.02).release(Session(table, account))
