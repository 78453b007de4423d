"""Which truth is promised, and a scorer that shows a search neither features nor labels."""

from __future__ import annotations

import copy
import pickle
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InvalidTask
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._scorers import FAILED, Scorer

BENCH = Path(__file__).parents[3] / "bench" / "holdout_features.py"


def test_predictors_made_from_the_features_are_certified_for_these_rows_and_not_for_the_population() -> None:
    trial = runpy.run_path(str(BENCH))["trial"]
    for run in range(2):
        found = trial(np.random.default_rng(run), 1_000, 0.1)
        low, high, population, design = found["made without the features"]
        assert low <= min(population, design) <= max(population, design) <= high
        low, high, population, design = found["distilled on the features"]
        assert low <= design <= high
        assert population < low - 0.1


def test_a_holdout_says_which_truth_it_promises() -> None:
    told = str(Holdout([0, 1] * 500, tolerance=0.2))
    assert "of the population, if predictors were made without these rows' features" in told
    assert "else the mean over these rows" in told
    assert "population" in str(Holdout.scorer.__doc__)


class Curious:
    """Predicts a constant, and keeps every row it is shown."""

    def __init__(self) -> None:
        self.shown: list[Any] = []

    def predict(self, x: Any) -> Any:
        self.shown.append(x)
        return np.zeros(len(x), dtype=int)


def made() -> tuple[Scorer, Any, Any]:
    rng = np.random.default_rng(7)
    features, labels = rng.normal(size=(1_000, 3)), rng.integers(0, 2, 1_000)
    return Holdout(labels, tolerance=0.15).scorer(features, guess=0.5), features, labels


def reachable(start: Any) -> list[Any]:
    """Everything an object's attributes lead to, private ones too."""
    found: list[Any] = []
    todo = [start]
    while todo:
        one = todo.pop()
        if any(one is other for other in found) or (callable(one) and not isinstance(one, Scorer)):
            continue
        found.append(one)
        parts = one.values() if isinstance(one, dict) else one if isinstance(one, list | tuple | set) else ()
        todo += [*parts, *getattr(one, "__dict__", {}).values()]
        todo += [getattr(one, name) for name in getattr(type(one), "__slots__", ()) if hasattr(one, name)]
    return found


def test_nothing_a_scorer_carries_leads_to_features_or_labels() -> None:
    scorer, features, labels = made()
    assert not any(isinstance(each, np.ndarray | Holdout) for each in reachable(scorer))
    packed = pickle.dumps(scorer)
    assert len(packed) < 2_000
    assert features[5].tobytes() not in packed
    assert repr(features[5][0]) not in repr(scorer)
    # The twin: a scorer that has them as attributes, as a holdout has, is seen by the same look.
    scorer.__dict__["_features"] = features
    assert any(each is features for each in reachable(scorer))
    assert any(isinstance(each, np.ndarray) for each in reachable(Holdout(labels)))


def test_the_estimator_of_the_search_never_meets_the_features() -> None:
    scorer, _, _ = made()
    asked, fold = Curious(), np.ones((4, 3))
    assert scorer(asked, fold, None) == pytest.approx(0.5)
    assert asked.shown == []
    Holdout([0, 1] * 500, tolerance=0.2).scorer(np.zeros((1_000, 3)))(asked, fold, [0, 1, 0, 1])
    assert [len(x) for x in asked.shown] == [4]


def test_what_an_estimator_says_of_the_features_when_it_fails_is_not_told() -> None:
    class Strict:
        def predict(self, x: Any) -> Any:
            raise ValueError(f"unknown category {x[5][0]!r}")

    scorer, features, _ = made()
    with pytest.raises(InvalidTask) as caught:
        scorer(Strict(), np.ones((4, 3)), None)
    assert str(caught.value) == FAILED
    assert caught.value.__cause__ is caught.value.__context__ is None
    with pytest.raises(ValueError, match="unknown category"):  # the twin: the estimator on its own
        Strict().predict(features)


def test_copies_in_the_same_process_share_the_budget_and_a_pickle_elsewhere_cannot_score(tmp_path: Path) -> None:
    scorer, _, _ = made()
    assert copy.deepcopy(scorer) is scorer
    assert copy.copy(scorer) is scorer
    packed = pickle.dumps(scorer)
    assert pickle.loads(packed) is scorer  # noqa: S301 (our own bytes)
    (tmp_path / "scorer").write_bytes(packed)
    code = f"""
import pickle
from steelyard.errors import InvalidTask
scorer = pickle.loads(open({str(tmp_path / "scorer")!r}, "rb").read())
try:
    scorer(None, None)
except InvalidTask as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "stayed in the process that made it" in done.stdout
    lost = Scorer("holdout", scorer.metric, 0.5)
    with pytest.raises(InvalidTask, match="parallel_backend"):
        lost(Curious(), np.ones((4, 3)))


def test_a_search_with_threads_scores() -> None:
    sklearn = pytest.importorskip("sklearn.model_selection")
    joblib, linear = pytest.importorskip("joblib"), pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6_000, 3))
    y = (x[:, 0] + rng.normal(size=6_000) > 0).astype(int)
    hold = Holdout(y[1_000:], tolerance=0.08)
    scorer = hold.scorer(x[1_000:])
    with joblib.parallel_backend("threading", n_jobs=2):
        search = sklearn.GridSearchCV(linear.LogisticRegression(), {"C": [0.1, 1.0]}, scoring=scorer, cv=2)
        search.fit(x[:1_000], y[:1_000])
    assert 0.65 < search.best_score_ < 0.85
    assert pickle.loads(pickle.dumps(search)).best_score_ == search.best_score_  # noqa: S301 (our own bytes)
