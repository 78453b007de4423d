"""AUC and balanced accuracy: exact totals, intervals that hold under attack, refusals, and a broken twin."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV

from steelyard.audit import attacks
from steelyard.errors import InvalidTask
from steelyard.holdout import Holdout
from steelyard.holdout._intervals import hoeffding, kl_chernoff
from steelyard.holdout._metrics import AUC, BalancedAccuracy, Judge, find_metric

DRAW = np.random.default_rng(0)


def exact(judge: Judge, predictions: Any) -> Fraction:
    return Fraction(judge.total(judge.read(predictions)), judge.draws * (judge.scale or 0))


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("digits", [1, 12])
def test_totals_are_those_of_scikit_learn(share: float, digits: int) -> None:
    labels = DRAW.uniform(size=701) < share
    scores = np.round(DRAW.normal(size=701) + labels, digits)  # few digits: many ties
    judge = AUC(classes=(False, True)).judge(labels)
    assert judge.draws == min(labels.sum(), 701 - labels.sum())
    assert float(exact(judge, scores)) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    assert exact(judge, -scores) == 1 - exact(judge, scores)
    many = DRAW.choice(["a", "b", "c"], p=[0.7, 0.2, 0.1], size=701)
    guessed = np.where(DRAW.uniform(size=701) < 0.4, many, "a")
    held = BalancedAccuracy(classes=("a", "b", "c")).judge(many)
    assert float(exact(held, guessed)) == pytest.approx(balanced_accuracy_score(many, guessed), abs=1e-12)
    assert exact(held, many) == 1


def test_huge_scores_and_tied_ones_count_as_they_should() -> None:
    judge = AUC(classes=(0, 1)).judge([0, 1, 0, 1])
    assert exact(judge, [-1e308, 1e308, 0, 5e-324]) == 1
    assert exact(judge, [7.0] * 4) == Fraction(1, 2)
    assert exact(judge, [1, 0, 1, 0]) == 0
    for bad in ([0.1, math.nan, 0.2, 0.3], [0.1, math.inf, 0.2, 0.3], [0.1, 0.2]):
        with pytest.raises(InvalidTask):
            judge.read(bad)


@pytest.mark.parametrize("metric", ["auc", "balanced_accuracy"])
@pytest.mark.parametrize("mode", ["certified", "ladder", "rounds"])
def test_holdouts_answer_with_such_scores(metric: str, mode: str) -> None:
    labels = DRAW.uniform(size=20_000) < 0.3
    holdout = Holdout(labels, 0.05, mode=mode, metric=metric, classes=[False, True])
    assert holdout.rows == 20_000
    assert "no promise else" in str(holdout)
    predicted = labels ^ (DRAW.uniform(size=20_000) < 0.1)
    if mode == "rounds":
        assert holdout.best_of([~predicted, predicted]) == 1
        answer = holdout.finish(predicted)
    else:
        answer = holdout.check(predicted, 0.9) if mode == "certified" else holdout.check(predicted)
    assert answer.low is not None
    assert answer.high is not None
    assert answer.low <= 0.9 <= answer.high


@pytest.mark.parametrize("mode", ["private", "classic"])
def test_modes_that_hide_labels_refuse_them(mode: str) -> None:
    with pytest.raises(InvalidTask, match="more than a row's share"):
        Holdout([0, 1] * 100, 0.2, mode=mode, metric="auc", classes=[0, 1])


def test_what_cannot_be_scored_is_refused_when_the_holdout_is_opened() -> None:
    with pytest.raises(InvalidTask, match="every declared class"):
        Holdout([0] * 100, 0.2, metric="auc", classes=[0, 1])
    with pytest.raises(InvalidTask, match="two classes"):
        Holdout([0, 1, 2] * 100, 0.2, metric="auc", classes=[0, 1, 2])
    with pytest.raises(InvalidTask, match="Declare them"):
        Holdout([0, 1] * 100, 0.2, metric="balanced_accuracy")
    with pytest.raises(InvalidTask, match="cannot certify"):
        Holdout([0] * 9990 + [1] * 10, 0.05, metric="auc", classes=[0, 1])
    assert str(find_metric("roc_auc")) == "auc"


@pytest.mark.parametrize("metric", ["auc", "balanced_accuracy"])
@pytest.mark.parametrize("name", ["wacky boosting", "pair-flip climb", "block-flip climb"])
def test_no_attacked_interval_misses(metric: str, name: str) -> None:
    attack = attacks.ATTACKS[name]
    for seed in range(8):
        labels = np.random.default_rng([seed, 29]).integers(0, 2, 4000).astype(np.int8)
        holdout = Holdout(labels == 1, 0.08, metric=metric, classes=[False, True])
        told = attack(Bits(holdout), n=4000, questions=60, seed=seed, labels=labels)
        assert told.certified > 0
        assert told.missed == 0


class Bits:
    """A holdout that takes bits of any type, as attackers send them."""

    def __init__(self, holdout: Holdout) -> None:
        self.holdout, self.rows = holdout, holdout.rows

    def check(self, predictions: Any, guess: Any = None) -> Any:
        return self.holdout.check(np.asarray(predictions) == 1, guess)


def missing(draws: int | None) -> float:
    """How often the interval of one question at 95 % misses an AUC of one half, among labels of which 40 are of one class."""
    draw, missed = np.random.default_rng(3), 0
    for _ in range(400):
        labels = np.arange(4000) < 40
        judge = AUC(classes=(False, True)).judge(labels)
        score = float(exact(judge, draw.normal(size=4000)))
        low, high = kl_chernoff(score, draws or judge.draws, math.log(0.05))
        missed += not low <= 0.5 <= high
    return missed / 400


def test_the_interval_counts_the_rarer_class_and_the_twin_that_counts_all_rows_is_caught() -> None:
    assert missing(None) <= 0.05
    assert missing(4000) > 0.3


def test_the_interval_is_no_wider_than_hoeffdings() -> None:
    for score in (0.5, 0.8, 0.99):
        low, high = kl_chernoff(score, 3000, math.log(0.05))
        wide = hoeffding(score, 3000, math.log(0.05))
        assert high - low <= 1.0001 * (wide[1] - wide[0])


@pytest.mark.parametrize(
    ("rows", "share", "tolerance"), [(2000, 0.5, "0.1"), (10_000, 0.5, "0.05"), (10_000, 0.1, "0.1")]
)
def test_the_first_answer_is_at_most_half_as_wide_again_as_hoeffdings(rows: int, share: float, tolerance: str) -> None:
    labels = np.arange(rows) < share * rows
    scores = np.random.default_rng(3).normal(size=rows) + labels
    answer = Holdout(labels.astype(int), tolerance, metric="auc", classes=[0, 1]).check(scores)
    assert answer.low is not None
    assert answer.high is not None
    plain = 2 * math.sqrt(math.log(2 / 0.05) / (2 * share * rows))
    assert answer.low <= 0.760 <= answer.high  # two normals one deviation apart
    assert answer.high - answer.low <= 1.5 * plain


def test_a_search_is_scored_by_decision_values() -> None:
    x = DRAW.normal(size=(6000, 3))
    y = (x[:, 0] + DRAW.normal(size=6000) > 1).astype(int)
    holdout = Holdout(y[3000:], 0.1, metric="auc", classes=[0, 1])
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=holdout.scorer(x[3000:]), cv=2)
    assert 0.7 < search.fit(x[:3000], y[:3000]).best_score_ < 0.95
