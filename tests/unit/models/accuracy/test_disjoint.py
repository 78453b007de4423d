"""A check on rows the model has never seen: what is offered, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from steelyard.bounding import Sum
from steelyard.errors import CurrencyMismatch, InvalidTask, UnitMismatch
from steelyard.ledger import open_account
from steelyard.models._columns import SIZE
from steelyard.models._fits import FitLinear
from steelyard.models._regression import LinearRegression, LogisticRegression
from steelyard.models._rows import Classes, Target
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._logistic import LogisticSearch
from steelyard.models.accuracy._reach import reach as reach_task
from steelyard.models.accuracy._ridge import RidgeSearch
from steelyard.models.accuracy._split import Split
from steelyard.models.accuracy._total import TotalSearch
from steelyard.noise import TestNoise
from steelyard.privacy import Neighbours, Unit, rows, users
from steelyard.session import Session
from steelyard.tables import read
from unit.models.accuracy.disjoint_paths import FEATURES, SWAPPED, TABLE, N, X, Y, account, reach


@pytest.mark.parametrize("unit", [SWAPPED, rows()])
def test_no_excess_is_promised_of_rows_that_are_kept_apart_however_the_goal_was_made(unit: Unit) -> None:
    at = account(unit)
    session, goal = Session(TABLE, at, noise=TestNoise(1)), Goal("excess", 0.3, 0.9, "disjoint")
    classes = LogisticSearch(FEATURES, "id", (0, 1), Fraction(1, 1000), Split())
    with pytest.raises(InvalidTask, match="goals of kind loss or error; got 'excess'"):
        reach_task(session, FitLinear(FEATURES, "y", -1, 1), goal, penalty="0.001")
    with pytest.raises(InvalidTask, match="goals of kind loss or error; got 'excess'"):
        session.open(classes).reach_excess(0.3, 0.9)
    with pytest.raises(InvalidTask, match="goals of kind relative; got 'loss'"):
        session.open(TotalSearch(Sum("y", cap=1))).reach_loss(0.3, 0.9)
    assert at.spent.amount == 0


def test_arrays_are_divided_too_and_the_certificate_says_which_rows_it_is_about() -> None:
    ridge = LinearRegression(x_bound=1, y_bounds=(-1, 1))
    for whose in (None, np.arange(N) // 2):
        first = AccuracyFirst(ridge, target_loss=0.03, check="disjoint", epsilon=20, noise=TestNoise(3))
        first.fit(X, Y, users=whose)
        assert first.stopped_reason_ == "target_met"
        assert "check rows that the model has not seen" in str(first.certificate_)
        assert first.account_.terms.unit.neighbours is Neighbours.ADD_REMOVE
        assert first.account_.spent.amount == first.spent_
        assert "n is secret" in first.note_
        assert first.resume(X, Y, users=whose, target_loss=0.02).stopped_reason_ == "target_met"


@pytest.mark.parametrize("whose", [None, np.arange(N) // 2])
def test_classifiers_are_checked_on_rows_they_have_not_seen(whose: Any) -> None:
    classes = (Y > 0).astype(int)
    model = LogisticRegression(classes=[0, 1], x_bound=1, norm="clip")
    first = AccuracyFirst(model, target_loss=0.6, check="disjoint", epsilon=30, noise=TestNoise(3))
    first.fit(X, classes, users=whose)
    assert first.stopped_reason_ == "target_met"
    assert "log loss on check rows" in str(first.certificate_)
    table = read({"x0": X[:, 0], "x1": X[:, 1], "y": classes, "user": np.arange(N) if whose is None else whose})
    check = Split().parts(table, FEATURES, Classes("y", (0, 1)), rows() if whose is None else users("user")).check
    cap = first.model_.margin
    assert cap is not None
    odds = np.clip(check.x @ np.array(first.model_.theta) / SIZE, -cap, cap)
    margins = odds * np.where(check.y == 2, 1, -1)
    assert np.mean(np.logaddexp(0, -margins)) <= 0.6


@pytest.mark.parametrize("unit", [rows(), SWAPPED, users("who"), users("who", neighbours="replace", n=N // 3)])
def test_tasks_on_a_session_are_divided_by_an_id_that_is_named(unit: Unit) -> None:
    at = account(unit, str(unit))
    task = FitLinear(FEATURES, "y", -1, 1, epsilon="1")
    first = AccuracyFirst(task, target_loss=0.03, check="disjoint")
    ids = "id" if unit.kind == "rows" else None
    first.release(Session(TABLE, at, noise=TestNoise(1)), key="k", ids=ids)
    assert first.stopped_reason_ == "target_met"
    assert at.spent.amount == first.spent_
    assert ("every user" in str(first.certificate_)) is (unit.kind == "users")


def test_what_makes_no_sense_is_refused_before_anything_is_charged() -> None:
    ridge = LinearRegression(x_bound=1, y_bounds=(-1, 1))
    with pytest.raises(InvalidTask, match="know nothing of that one"):
        AccuracyFirst(ridge, excess_loss=0.1, check="disjoint").fit(X, Y)
    pure = open_account(":memory:", "pure", unit=rows(), epsilon=1)
    with pytest.raises(CurrencyMismatch):
        reach(pure, 0.1)
    with pytest.raises(InvalidTask, match="between 0 and 1"):
        reach(
            account(rows()), 0.1, search=RidgeSearch(FEATURES, Target("y", -1, 1), Fraction(1, 9), Split(Fraction(1)))
        )
    search = RidgeSearch(FEATURES, Target("y", -1, 1), Fraction(1, 9), Split(ids="id"))
    with pytest.raises(UnitMismatch, match="their own ids"):
        reach(account(users("who")), 0.1, search=search)
    first = AccuracyFirst(FitLinear(FEATURES, "y", -1, 1, epsilon="1"), target_loss=0.1)
    with pytest.raises(InvalidTask, match="leave it out"):
        first.release(Session(TABLE, account(SWAPPED)), ids="id")
    with pytest.raises(InvalidTask, match="two classes"):
        LogisticSearch(FEATURES, "y", (0, 1, 2), Fraction(1, 9), Split())
    assert pure.spent.amount == 0


def test_a_loss_that_the_middle_has_on_every_row_is_free_and_one_that_nobody_has_ends() -> None:
    at = account(rows())
    assert reach(at, 1.0).reason == "null_model_ok"
    assert at.spent.amount == 0
    found = reach(at, 0.002)
    assert found.reason in ("cap_reached", "target_impossible")
    assert found.bound == math.inf
