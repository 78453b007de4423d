"""LabelPrivateClassifier: scikit-learn's own checks, text classes in order, probabilities, money, retries, stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, QuantileRegressor, Ridge
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from steelyard.errors import BudgetExceeded, InvalidTask, UnitMismatch
from steelyard.labels import LabelPrivateClassifier, MultinomialRegression
from steelyard.ledger import open_account
from steelyard.noise import TestNoise
from steelyard.privacy import labels, rows

NAMES = ["low", "mid", "high"]


@pytest.mark.filterwarnings("ignore:classes= was left out:UserWarning")
@parametrize_with_checks([LabelPrivateClassifier(epsilon=20)])  # type: ignore[untyped-decorator]
def test_scikit_learns_own_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


@parametrize_with_checks([MultinomialRegression()])  # type: ignore[untyped-decorator]
def test_scikit_learns_own_checks_pass_for_the_fitter(estimator: Any, check: Any) -> None:
    check(estimator)


def records(size: int = 6000, seed: int = 5) -> tuple[Any, Any]:
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(size, 2))
    scores = X @ np.array([[2.0, 0.0, -2.0], [0.0, 1.5, -1.0]]) + draw.gumbel(size=(size, 3))
    return X, np.array(NAMES)[scores.argmax(axis=1)]


def test_probabilities_come_near_those_of_true_labels_and_classes_are_in_order() -> None:
    X, y = records(30_000)
    model = LabelPrivateClassifier(epsilon=1, classes=NAMES, noise=TestNoise(3)).fit(X[:20_000], y[:20_000])
    clean = LogisticRegression().fit(X[:20_000], y[:20_000])
    assert model.classes_.tolist() == sorted(NAMES)
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)
    ours, theirs = (log_loss(y[20_000:], m.predict_proba(X[20_000:])) for m in (model, clean))
    assert ours < theirs + 0.02
    assert roc_auc_score(y[20_000:], model.predict_proba(X[20_000:]), multi_class="ovr") > 0.8
    assert model.guarantee_.spent.amount == 10**6


@pytest.mark.parametrize("estimator", [LogisticRegression(), Ridge(), make_pipeline(StandardScaler(), Ridge())])
def test_other_peoples_models_learn_too(estimator: Any) -> None:
    X, y = records(20_000)
    model = LabelPrivateClassifier(estimator, epsilon=2, classes=NAMES, noise=TestNoise(3)).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.6
    assert model.predict_proba(X).min() >= 0


def test_probabilities_of_a_classifier_trained_on_noisy_classes_are_put_right() -> None:
    X, y = records(30_000)
    rare = np.where(y == "high", "yes", "no")
    model = LabelPrivateClassifier(LogisticRegression(), epsilon=1, classes=["yes", "no"], noise=TestNoise(2)).fit(
        X, rare
    )
    raw = model.estimator_.predict_proba(X)[:, 1].mean()
    share = (rare == "yes").mean()
    assert abs(model.predict_proba(X)[:, 1].mean() - share) < 0.03 < abs(raw - share)


def test_a_search_inside_pays_once() -> None:
    X, y = records(2000)
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="1")
    grid = GridSearchCV(Ridge(), {"alpha": [0.1, 1, 10]}, cv=3)
    LabelPrivateClassifier(grid, epsilon=1, classes=NAMES, account=budget).fit(X, y)
    assert str(budget.spent) == "epsilon 1"
    with pytest.raises(BudgetExceeded):
        LabelPrivateClassifier(epsilon=1, classes=NAMES, account=budget).fit(X, y)


def test_a_retry_with_its_key_gets_the_stored_labels_for_nothing() -> None:
    X, y = records(500)
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="1")
    model = LabelPrivateClassifier(epsilon=1, classes=NAMES, account=budget)
    first, second = (clone(model).fit(X, y, key="monday") for _ in range(2))
    assert np.array_equal(first.noisy_, second.noisy_)
    assert str(budget.spent) == "epsilon 1"


def test_records_with_ids_are_drawn_once() -> None:
    X, y = records(300)
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="1")
    model = LabelPrivateClassifier(epsilon=1, classes=NAMES, account=budget)
    first = clone(model).fit(X[:200], y[:200], ids=range(200))
    both = clone(model).fit(X, y, ids=range(300))
    assert np.array_equal(first.noisy_, both.noisy_[:200])
    assert str(budget.spent) == "epsilon 1"
    with pytest.raises(InvalidTask, match="different ids"):
        model.fit(X, y, ids=[0] * 300)


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_stages_cost_one_epsilon_and_each_label_is_drawn_once(estimator: Any) -> None:
    X, y = records(6000)
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="2")
    model = LabelPrivateClassifier(estimator, epsilon=2, classes=NAMES, account=budget, stages=2)
    assert (model.fit(X, y, key="k").predict(X) == y).mean() > 0.55
    assert str(budget.spent) == "epsilon 2"
    assert np.array_equal(clone(model).fit(X, y, key="k").noisy_, model.noisy_)


def test_a_prior_under_which_nothing_is_said_is_warned_of() -> None:
    X, y = records(400)
    prior = [0.9, 0.05, 0.05]
    with pytest.warns(UserWarning, match="say nothing"):
        LabelPrivateClassifier(epsilon=0.5, classes=NAMES, method="rr_with_prior", prior=prior).fit(X, y)
    each = np.tile([[0.5, 0.4, 0.1]], (400, 1))
    model = LabelPrivateClassifier(epsilon=3, classes=NAMES, method="rr_with_prior", prior=each).fit(X, y)
    assert model.noisy_.sum(axis=1) == pytest.approx(np.ones(400))


def test_labels_come_in_every_container() -> None:
    X, y = records(200)
    model = LabelPrivateClassifier(epsilon=3, classes=NAMES)
    given = [
        y.tolist(), y, y.astype(object), pd.Series(y), pd.Series(y, dtype="string"), pd.Series(y, dtype="category"),
        pd.array(y, dtype="string"), pa.array(y), pd.Series(pa.array(y).to_pandas(), dtype=pd.ArrowDtype(pa.string())),
    ]  # fmt: skip
    for each in given:
        assert model.fit(X, each).noisy_.shape == (200, 3)
    whole = LabelPrivateClassifier(epsilon=3, classes=[0, 1])
    for ones in (pd.array([0, 1] * 100, dtype="Int64"), pa.array([0, 1] * 100), np.array([False, True] * 100)):
        assert whole.fit(X, ones).noisy_.shape == (200, 2)


def test_what_is_wrong_is_refused_before_anything_is_charged() -> None:
    X, y = records(200)
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="1")
    wrong: list[tuple[dict[str, Any], Any]] = [
        ({"classes": ["low", "mid"]}, y),
        ({"classes": [0, 1, 2]}, y),
        ({"classes": NAMES, "missing": "none"}, y),
        ({"classes": NAMES, "method": "vector"}, y),
        ({"classes": NAMES, "stages": 0}, y),
        ({"classes": NAMES, "prior": [1, 1, 1]}, y),
        ({"classes": NAMES, "method": "rr_with_prior"}, y),
        ({"classes": NAMES, "method": "rr_with_prior", "prior": [[1, 2, 3]]}, y),
        ({"classes": NAMES, "estimator": MultiOutputRegressor(QuantileRegressor())}, y),
        ({"classes": NAMES, "epsilon": 0}, y),
        ({"classes": NAMES}, [None, *y[1:]]),
    ]
    for options, given in wrong:
        with pytest.raises(InvalidTask):
            LabelPrivateClassifier(**{"epsilon": 1, "account": budget, **options}).fit(X, given)
    with pytest.raises(InvalidTask, match="open_account"):
        LabelPrivateClassifier(classes=NAMES, account="budget.db").fit(X, y)
    assert str(budget.spent) == "epsilon 0"
    other = open_account(":memory:", "a", unit=rows(), epsilon="1")
    with pytest.raises(UnitMismatch):
        LabelPrivateClassifier(classes=NAMES, account=other).fit(X, y)


def test_an_estimator_that_takes_no_such_labels_is_told_before_the_charge() -> None:
    X, y = records(200)
    budget = open_account(":memory:", "a", unit=labels("y"), epsilon="1")

    class Proud(RandomForestRegressor):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            raise ValueError("no negative labels here")

    with pytest.raises(ValueError, match="no negative") as refusal:
        LabelPrivateClassifier(Proud(), epsilon=1, classes=NAMES, account=budget).fit(X, y)
    assert "Nothing was charged" in refusal.value.__notes__[0]
    assert str(budget.spent) == "epsilon 0"


def test_labels_that_are_no_class_count_as_the_one_that_was_said() -> None:
    X, y = records(200)
    odd = [None, 3, float("nan"), "other", *y[4:]]
    assert LabelPrivateClassifier(epsilon=3, classes=NAMES, missing="mid").fit(X, odd).noisy_.shape == (200, 3)


def test_sparse_features_and_many_classes() -> None:
    draw = np.random.default_rng(1)
    group = draw.integers(0, 40, size=8000)
    y = np.where(draw.random(8000) < 0.8, group, draw.integers(0, 40, size=8000))
    X = OneHotEncoder().fit_transform(group[:, None])
    model = LabelPrivateClassifier(epsilon=4, classes=range(40), noise=TestNoise(1)).fit(X, y)
    assert (model.predict(X) == group).mean() > 0.9


def seen(y: Any, stages: int, estimator: Any) -> tuple[Any, Any, str]:
    """The noisy labels of a fit, the next word of its noise, and what was spent."""
    X, _ = records(40)
    noise, budget = TestNoise(7), open_account(":memory:", "a", unit=labels("y"), epsilon="2")
    made = LabelPrivateClassifier(
        estimator, epsilon=1, classes=NAMES, missing="low", noise=noise, account=budget, stages=stages
    )
    made.fit(X, y)
    return made.noisy_.reshape(40, -1), noise.bits(1)[0], str(budget.spent)


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
@pytest.mark.parametrize("odd", ["mid", "other", None, 3, float("nan"), b"low", [1], {"a": 1}, 10**400])
def test_one_changed_label_moves_its_own_noisy_label_alone(stages: int, estimator: Any, odd: Any) -> None:
    _, y = records(40)
    usual = [*y.tolist()]
    changed = [*usual]
    changed[37 if stages == 2 else 12] = odd
    left, right = seen(usual, stages, estimator), seen(changed, stages, estimator)
    moved = np.flatnonzero((left[0] != right[0]).any(axis=1)).tolist()
    assert set(moved) <= {37 if stages == 2 else 12}
    assert left[1:] == right[1:]


def test_no_ridge_is_taken_whose_fit_has_learnt_the_noise_by_heart() -> None:
    """Noisy losses have no floor: a criterion that believes in a loss below nothing chose a model worse than none here (2.64)."""
    draw = np.random.default_rng(5)
    X = draw.normal(size=(5000, 12))
    y = (X @ draw.normal(size=(12, 10)) - 0.2 * np.arange(10) + draw.gumbel(size=(5000, 10))).argmax(axis=1)
    model = LabelPrivateClassifier(epsilon=0.3, classes=range(10), noise=TestNoise(5)).fit(X, y)
    assert log_loss(y, model.predict_proba(X)) < np.log(10)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("alpha", [1e-2, "auto"])
def test_a_weight_is_how_often_a_record_counts(alpha: Any, sparse: bool) -> None:
    draw = np.random.default_rng(2)
    x, often = draw.normal(size=(300, 3)) * (draw.uniform(size=(300, 3)) < 0.7), np.arange(300) % 3
    vectors = np.eye(3)[draw.integers(0, 3, 300)] * 4 - 1
    held = csr_matrix(x) if sparse else x
    weighted = MultinomialRegression(alpha).fit(held, vectors, sample_weight=often)
    repeated = MultinomialRegression(alpha).fit(
        held[np.repeat(np.arange(300), often)], np.repeat(vectors, often, axis=0)
    )
    assert weighted.coef_ == pytest.approx(repeated.coef_, abs=1e-6)
    assert weighted.alpha_ == repeated.alpha_
    assert weighted.coef_ != pytest.approx(MultinomialRegression(alpha).fit(held, vectors).coef_, abs=1e-4)


@pytest.mark.parametrize("stages", [1, 2])
def test_weights_go_to_the_estimator_with_their_records(stages: int) -> None:
    x, y, often = np.repeat([[0.0], [1.0]], 600, axis=0), ["a"] * 600 + ["b"] * 600, np.r_[np.ones(600), np.zeros(600)]
    model = LabelPrivateClassifier(epsilon=8, classes=["a", "b"], stages=stages).fit(x, y, sample_weight=often)
    assert model.predict([[0.0], [1.0]]).tolist() == ["a", "a"]


def test_a_class_that_is_given_twice_is_named_as_such() -> None:
    X, y = records(100)
    with pytest.raises(ValueError, match="each once; got 1 of them given twice"):
        LabelPrivateClassifier(epsilon=1, classes=[*NAMES, NAMES[0]]).fit(X, y)
