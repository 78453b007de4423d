"""F1, R2 and RMSE: what is shown, intervals that hold under attack, refusals, and a broken twin."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import f1_score, r2_score
from sklearn.model_selection import GridSearchCV

from steelyard.errors import InvalidTask
from steelyard.holdout import F1Score, Holdout, R2Score, RootSquaredError
from steelyard.holdout._intervals import Rounding, kl_chernoff
from steelyard.holdout._judge import Judge
from steelyard.holdout._links import F1Link, Link, R2Link, RootLink

DRAW = np.random.default_rng(0)
LINKS = [RootLink(), F1Link(2.0), R2Link(3.0, Fraction(1, 12), Fraction(1, 13), Fraction(1, 11)), Link()]


def score(judge: Judge, predictions: Any) -> float:
    share = judge.total(judge.read(predictions)) / (judge.draws * (judge.scale or 2**30))
    assert judge.link is not None
    return judge.link(Fraction(1, 20)).shown(share)


@pytest.mark.parametrize("link", LINKS)
@given(st.integers(1, 40), st.integers(1, 500), st.data())
def test_cells_part_all_totals_and_each_total_is_in_the_cell_of_the_nearest_value(
    link: Link, steps: int, rows: int, data: st.DataObject
) -> None:
    rounding = Rounding(rows, 7, steps, link)
    cells = [rounding.cell(place) for place in range(steps + 1)]
    total = data.draw(st.integers(0, rounding.whole))
    place = rounding.nearest(total)
    assert cells[place][0] <= total <= cells[place][1]
    assert cells[0][0] == 0
    assert cells[-1][1] == rounding.whole
    assert all(cells[k][1] + 1 == cells[k + 1][0] for k in range(steps) if cells[k + 1][0] > 0)
    assert abs(link.shown(total / rounding.whole) - place / steps) <= 0.5 / steps + 1e-9
    low, high = rounding.interval(total, 3.0)
    assert low - 1e-9 <= link.shown(total / rounding.whole) <= high + 1e-9
    _, least, most = rounding.shown(place, 3.0)
    assert least <= low
    assert high <= most


@pytest.mark.parametrize("link", LINKS)
def test_ends_are_mapped_outward_and_back(link: Link) -> None:
    for mean in np.linspace(0, 1, 101):
        assert link.lowest(mean) <= link.shown(mean) <= link.highest(mean)
    for end in (Fraction(1, 7), Fraction(1, 2), Fraction(99, 100)):
        assert link.shown(float(link.mean(end))) == pytest.approx(float(end))
        assert link.lowest(float(link.least(end))) == pytest.approx(float(end))
        assert link.highest(float(link.most(end))) == pytest.approx(float(end))
        assert link.most(end) <= link.mean(end) <= link.least(end)


def test_scores_are_those_of_scikit_learn() -> None:
    labels = DRAW.uniform(size=3001) < 0.3
    called = labels ^ (DRAW.uniform(size=3001) < 0.2)
    judge = F1Score((False, True)).judge(labels)
    assert score(judge, called) == pytest.approx(f1_score(labels, called), abs=1e-8)
    assert 7 / 8 * labels.sum() - 2 <= judge.draws <= labels.sum()
    assert score(judge, labels) == pytest.approx(1, abs=1e-8)
    assert score(judge, ~labels) == 0
    values = DRAW.uniform(-2, 6, size=3001)
    near = np.clip(values + DRAW.normal(size=3001), -2, 6)
    rmse = RootSquaredError(Fraction(10)).judge(values)
    assert 10 * score(rmse, near) == pytest.approx(math.sqrt(np.mean((values - near) ** 2)), abs=1e-6)
    told = score(R2Score(-2, 6).judge(values), near)
    assert told == pytest.approx(r2_score(values, near), abs=0.01)
    assert score(R2Score(-2, 6).judge(values), np.full(3001, 6.0)) == 0, "below zero counts as zero"


@pytest.mark.parametrize("mode", ["certified", "ladder", "rounds"])
@pytest.mark.parametrize("metric", ["f1", R2Score(0, 1), RootSquaredError(Fraction(1))])
def test_holdouts_answer_with_such_scores(metric: Any, mode: str) -> None:
    labels = (DRAW.uniform(size=20_000) < 0.4).astype(float)
    predicted = np.where(DRAW.uniform(size=20_000) < 0.02, 1 - labels, labels)
    truth = {"f1": f1_score(labels, predicted), R2Score(0, 1): r2_score(labels, predicted)}.get(metric, math.sqrt(0.02))
    classes: Any = {"classes": [0, 1]} if metric == "f1" else {}
    holdout = Holdout(
        labels,
        0.1,
        mode=mode,
        metric=metric,
        **classes,
        between=(0.85, 1) if metric != RootSquaredError(Fraction(1)) else (0, 1),
    )
    assert ("no promise else" in str(holdout)) == (metric != RootSquaredError(Fraction(1)))
    if mode == "rounds":
        assert holdout.best_of([1 - labels, predicted]) == 1
        answer = holdout.finish(predicted)
    else:
        answer = holdout.check(predicted, round(truth, 2)) if mode == "certified" else holdout.check(predicted)
    assert answer.low is not None
    assert answer.high is not None
    assert answer.low <= truth <= answer.high
    assert answer.high - answer.low < 0.25


Asked = tuple[Callable[[int, np.random.Generator], Any], Any, Callable[[Any, Any], float]]
ATTACKED: dict[str, Asked] = {
    "f1": (
        lambda n, draw: draw.uniform(size=n) < 0.5,
        {"metric": "f1", "classes": [False, True], "tolerance": 0.12},
        lambda labels, called: called.mean() / (called.mean() + 0.5),
    ),
    "rmse": (
        lambda n, draw: draw.integers(0, 2, n).astype(float),
        {"metric": RootSquaredError(Fraction(1)), "tolerance": 0.1, "between": (0.3, 1)},
        lambda labels, called: math.sqrt(0.5),
    ),
    "r2": (
        lambda n, draw: draw.integers(0, 2, n).astype(float),
        {"metric": R2Score(0, 1), "tolerance": 0.3},
        lambda labels, called: 0.0,
    ),
}


@pytest.mark.parametrize("name", list(ATTACKED))
def test_no_interval_misses_under_boosting_of_what_looked_good(name: str) -> None:
    """Random predictors are asked one by one and those that looked better than they are get a vote; labels are coin flips."""
    make, options, truth = ATTACKED[name]
    answers = 0
    for seed in range(6):
        draw = np.random.default_rng([seed, 77])
        labels = make(4000, draw)
        holdout, votes = Holdout(labels, **options), np.zeros(4000)
        for question in range(40):
            called = (draw.uniform(size=4000) < 0.5) if question % 4 else votes > 0
            answer = holdout.check(called, None if question % 5 == 0 else round(truth(labels, called), 2))
            if answer.value is None:
                break
            assert answer.low is not None
            assert answer.high is not None
            assert answer.low <= truth(labels, called) <= answer.high
            better = answer.value > truth(labels, called)
            votes += (2.0 * called - 1) * (1 if better == (name != "rmse") else -1)
            answers += 1
    assert answers > 60


def missing(all_rows: bool) -> float:
    """How often the interval of one question at 95 % misses F1, where 40 of 4,000 rows are positive."""
    draw, missed = np.random.default_rng(3), 0
    for _ in range(400):
        labels = draw.uniform(size=4000) < 0.01
        called = np.where(labels, draw.uniform(size=4000) < 0.5, draw.uniform(size=4000) < 0.005)
        judge = F1Score((False, True)).judge(labels)
        share = judge.total(judge.read(called)) / (judge.draws * 2**30)
        low, high = kl_chernoff(share, 4000 if all_rows else judge.draws, math.log(0.05))
        both = 0.01 * 0.5
        missed += not low <= both / (0.01 + 0.99 * 0.005) <= high
    return missed / 400


def test_the_interval_counts_positive_rows_and_the_twin_that_counts_all_is_caught() -> None:
    assert missing(all_rows=False) <= 0.05
    assert missing(all_rows=True) > 0.3


def test_the_variance_lies_between_the_ends_that_the_link_holds() -> None:
    beyond = 0
    for seed in range(200):
        draw = np.random.default_rng([seed, 5])
        labels = (draw.uniform(size=500) < 0.1).astype(float)
        judge = R2Score(0, 1).judge(labels)
        assert judge.link is not None
        link = judge.link(Fraction(1, 10))
        assert isinstance(link, R2Link)
        beyond += not link.low <= Fraction(9, 100) <= link.high
        assert link.low < link.told < link.high
    assert beyond <= 20


def test_what_cannot_be_scored_is_refused_when_the_holdout_is_opened() -> None:
    for mode in ("private", "classic"):
        for metric in (F1Score(), R2Score(0, 1), RootSquaredError(Fraction(1))):
            with pytest.raises(InvalidTask, match="more than a row's share"):
                Holdout([0, 1] * 100, 0.2, mode=mode, metric=metric)
    with pytest.raises(InvalidTask, match="Declare them"):
        Holdout([0, 1] * 100, 0.2, metric="f1")
    with pytest.raises(InvalidTask, match="too few labels are positive"):
        Holdout([0] * 100, 0.2, metric="f1", classes=[0, 1])
    with pytest.raises(InvalidTask, match="vary too little"):
        Holdout([0.5] * 100, 0.2, metric=R2Score(0, 1))
    with pytest.raises(InvalidTask, match="low < high"):
        R2Score(1, 1)
    with pytest.raises(InvalidTask, match="between="):
        Holdout([0, 1] * 100, 0.01, metric=R2Score(0, 1))
    for name, told in (("rmse", "RootSquaredError"), ("r2", "R2Score")):
        with pytest.raises(InvalidTask, match=told):
            Holdout([0, 1] * 100, 0.2, metric=name)


def test_searches_are_scored_by_them() -> None:
    x = DRAW.normal(size=(16_000, 3))
    y = (x[:, 0] + 0.3 * DRAW.normal(size=16_000) > 0).astype(int)
    holdout = Holdout(y[8000:], 0.1, metric="f1", classes=[0, 1])
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=holdout.scorer(x[8000:]), cv=2)
    assert 0.8 < search.fit(x[:8000], y[:8000]).best_score_ < 1
    z = DRAW.uniform(-1, 1, size=(16_000, 2))
    numbers = np.clip(z[:, 0] + 0.05 * DRAW.normal(size=16_000), -1, 1)
    fine = Holdout(numbers[8000:], 0.15, metric=R2Score(-1, 1), between=(0.9, 1))
    found = GridSearchCV(LinearRegression(), {"fit_intercept": [True, False]}, scoring=fine.scorer(z[8000:]), cv=2)
    assert 0.9 < found.fit(z[:8000], numbers[:8000]).best_score_ < 1
