"""LogisticRegression as a scikit-learn estimator: its contract, its honesty, and what it predicts."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from steelyard.errors import BudgetExceeded, InvalidTask, UnitMismatch
from steelyard.ledger import open_account
from steelyard.models._regression import LogisticRegression
from steelyard.privacy import rows

DRAW = np.random.default_rng(5)
X = DRAW.normal(size=(20_000, 3))
Y = np.where(X[:, 0] - X[:, 1] > 0, "yes", "no")
REDRAWN = dict.fromkeys(
    ("check_fit_idempotent", "check_supervised_y_2d"), "compares two fits exactly, and two fits draw different noise"
)
TOTAL = {
    "check_all_zero_sample_weights_error": "what a row weighs is private, so it is not a reason to refuse",
    "check_sample_weight_equivalence_on_dense_data": "two fits draw different noise, and weights are clipped to a public bound",
    "check_sample_weight_equivalence_on_sparse_data": "two fits draw different noise, and weights are clipped to a public bound",
    "check_supervised_y_no_nan": "what labels occur is private: one that is no declared class counts for nothing",
    "check_dtype_object": "what an entry of X is, is private, so it is not a reason to refuse",
}


@pytest.mark.filterwarnings("ignore:classes= was left out:UserWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [LogisticRegression(epsilon=50, delta=None, x_bound=3)],
    expected_failed_checks=lambda estimator: {**REDRAWN, **TOTAL},
)
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


def test_a_large_epsilon_is_spent_and_not_overspent() -> None:
    model = LogisticRegression(epsilon=10, delta=1e-3, classes=["no", "yes"], x_bound=2).fit(X[:500], Y[:500])
    spent, cap = model.guarantee_.spent.amount, model.account_.terms.cap.amount
    assert 0.999 * cap <= spent <= cap


def test_it_learns_predicts_and_says_what_it_promised() -> None:
    model = LogisticRegression(classes=["no", "yes"], x_bound=2).fit(X, Y)
    assert (model.predict(X) == Y).mean() > 0.93
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.coef_.shape == (1, 3)
    assert model.coef_[0, 0] > 0 > model.coef_[0, 1]
    chances = model.predict_proba(X)
    assert np.allclose(chances.sum(axis=1), 1)
    assert ((chances[:, 1] > 0.5) == (model.decision_function(X) > 0)).all()
    assert "(1, 0.000001)-differential privacy" in str(model.guarantee_)
    assert model.expected_excess_ is not None
    assert 0 < model.expected_excess_ < 1000
    assert "account in memory" in model.note_


def test_three_classes_each_get_a_row_of_coefficients() -> None:
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    model = LogisticRegression(epsilon=5, classes=[0, 1, 2], x_bound=2, delta=1e-6).fit(X, labels)
    assert model.coef_.shape == (3, 3)
    ends = np.abs(X[:, 0]) > 1.5
    assert (model.predict(X)[ends] == labels[ends]).mean() > 0.9


def test_pure_privacy_is_one_argument_away() -> None:
    model = LogisticRegression(delta=None, classes=["no", "yes"], x_bound=2).fit(X, Y)
    assert (model.predict(X) == Y).mean() > 0.93
    assert str(model.guarantee_).startswith("1-differential privacy")


def test_classes_read_off_the_labels_are_said_to_be() -> None:
    with pytest.warns(UserWarning, match="taken as public"):
        LogisticRegression(delta=None, x_bound=2).fit(X[:100], Y[:100])


def test_labels_outside_the_declared_classes_count_for_nothing() -> None:
    strange = Y.astype(object).copy()
    strange[:50] = "maybe"
    model = LogisticRegression(delta=None, classes=["no", "yes"], x_bound=2).fit(X, strange)
    assert model.classes_.tolist() == ["no", "yes"]


@pytest.mark.filterwarnings("ignore:about .* of the rows:UserWarning")
def test_users_are_hidden_with_all_their_rows() -> None:
    model = LogisticRegression(classes=["no", "yes"], x_bound=2).fit(X, Y, users=np.arange(20_000) % 5000)
    assert "all rows of one value" in str(model.guarantee_)
    assert (model.predict(X) == Y).mean() > 0.8


def test_it_can_be_cloned_piped_and_pickled() -> None:
    settings: dict[str, Any] = {"delta": None, "classes": ["no", "yes"], "x_bound": 2}
    model = clone(LogisticRegression(**settings))
    assert model.get_params()["x_bound"] == 2
    piped = make_pipeline(FunctionTransformer(), model).fit(X, Y)
    again = pickle.loads(pickle.dumps(piped[-1].models_))  # noqa: S301 - our own bytes
    assert again == piped[-1].models_


def test_every_fit_is_charged_and_an_account_that_hides_something_else_is_refused() -> None:
    account = open_account(":memory:", "mine", unit=rows(), epsilon="1")
    model = LogisticRegression(epsilon=1, classes=["no", "yes"], x_bound=2, account=account)
    model.fit(X, Y)
    with pytest.raises(BudgetExceeded):
        model.fit(X, Y)
    with pytest.raises(UnitMismatch):
        model.fit(X, Y, users=np.arange(20_000))


def test_other_losses_and_missing_bounds_are_refused() -> None:
    for bad in ({"method": "hinge"}, {"x_bound": None}):
        with pytest.raises(InvalidTask):
            LogisticRegression(**{"delta": None, "classes": ["no", "yes"], "x_bound": 2, **bad}).fit(X, Y)  # type: ignore[arg-type]
