"""The picture of a search stands in one unit, on the axis of what was spent, and makes nothing up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steelyard.bounding import Count
from steelyard.charts._scales import short
from steelyard.ledger import open_account
from steelyard.models._regression import LinearRegression, LogisticRegression
from steelyard.models.accuracy._chart import path_chart, relative
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.models.accuracy._goal import Stop
from steelyard.noise import TestNoise
from steelyard.privacy import users
from steelyard.release import Release
from steelyard.session import Session
from steelyard.tables import read

DRAWS = np.random.default_rng(8)
N = 8000
X = DRAWS.uniform(-0.5, 0.5, (N, 3))
Y = np.clip(X @ [1.0, -0.5, 0.2] + 0.1 * DRAWS.standard_normal(N), -1, 1)
TABLE = read({"who": np.arange(3000) % 1000})


def logistic(**wanted: Any) -> AccuracyFirst:
    inner = LogisticRegression(classes=[False, True], x_bound=1)
    return AccuracyFirst(inner, **{"epsilon": 5, "noise": TestNoise(1), **wanted}).fit(X, Y > 0)


@pytest.mark.parametrize("delta", [None, "1e-6"])
def test_a_total_and_its_target_are_both_relative(delta: str | None) -> None:
    given = {} if delta is None else {"delta": delta}
    session = Session(TABLE, open_account(":memory:", "t", unit=users("who"), epsilon=4, **given), noise=TestNoise(1))
    search = AccuracyFirst(Count(cap=10), relative_error=0.05)
    released = search.release(session)
    assert isinstance(released, Release)
    drawn = search.chart()
    assert ">relative error<" in drawn.svg()
    assert (">epsilon spent<" if delta is None else ">mu spent<") in drawn.svg()
    last = relative(search.path_, float(released.value))[-1].bound
    assert last is not None
    assert last <= 0.05
    cost = search.spent_ / 10**6 if delta is None else search.spent_**0.5 / 10**6
    assert f"{short(last)} at {short(cost)}. target: 0.05" in drawn.description


def test_a_bound_as_large_as_its_total_says_nothing_relative_to_it() -> None:
    path = [Stop("level 0", 0.1, 120.0), Stop("level 1", 0.2, 20.0)]
    assert [stop.bound for stop in relative(path, -100.0)] == [None, 0.25]


def test_a_pure_excess_is_drawn_on_the_axis_of_epsilon() -> None:
    model = logistic(excess_loss=0.05, delta=None)
    for drawn in (model.chart(), path_chart(model.path_, 0.05)):
        assert ">epsilon spent<" in drawn.svg()
        assert f"at {short(model.epsilon_)}." in drawn.description
    assert ">excess loss<" in model.chart().svg()


def test_nothing_spent_is_nothing_drawn() -> None:
    model = logistic(target_loss=1.5)
    assert model.spent_ == 0
    assert model.chart().description == "There is no data to draw."
    assert "Nothing was spent." in model.chart().svg()


def test_where_only_the_labels_were_sized_the_target_stands_at_their_price() -> None:
    model = AccuracyFirst(LinearRegression(x_bound=1), target_loss=0.9, epsilon=5, noise=TestNoise(1)).fit(X, Y)
    assert model.stopped_reason_ == "null_model_ok"
    assert f"target: 0.9 at {short(model.spent_**0.5 / 10**6)}" in model.chart().description


def looks(count: int, passed: bool) -> list[Stop]:
    return [
        stop
        for i in range(count)
        for stop in (
            Stop(f"level {i}", (i + 1) / 10),
            Stop(f"look {i}", 0.01, passed=passed and i == count - 1, loss=0.5),
        )
    ]


@pytest.mark.parametrize("count", [3, 12, 13, 40])
def test_the_look_that_passed_is_seen_however_many_did_not(count: int) -> None:
    svg = path_chart(looks(count, True), 0.4).svg()
    assert svg.count("<title>passed a paid look: 0.4 at ") == 1
    assert ">passed a paid look<" in svg


def test_where_nothing_passed_the_one_line_is_still_named() -> None:
    blind = [Stop("level 0", 0.1), Stop("look 0", 0.01, passed=False), Stop("look 1", 0.02, passed=False)]
    svg = path_chart(blind, 0.4).svg()
    assert ">target<" in svg
    assert "passed" not in svg
