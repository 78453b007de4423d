"""Caps on rows and bounds on values that are bought inside a release: near the best, priced before, true in what they say."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from steelyard.bounding import Histogram, Mean, Profile, Quantile, Sum
from steelyard.bounding._value_bounds import LARGEST, ValueBounds
from steelyard.documents import request_of
from steelyard.errors import InvalidTask
from steelyard.ledger import open_account
from steelyard.mechanisms import Laplace
from steelyard.noise import ExactNoise
from steelyard.privacy import Loss, rows, users
from steelyard.requests import task_from
from steelyard.session import Session
from steelyard.tables import read
from unit.bounding.remembered import Remembered, terms

DRAW = np.random.default_rng(4)
SIZES = DRAW.geometric(0.2, 2500)
WHO = np.repeat(np.arange(SIZES.size), SIZES)
VALUES = 20 + DRAW.gamma(2.0, 10.0, WHO.size)
TABLE = read({"user": WHO, "x": VALUES, "k": np.where(WHO % 2, "a", "b"), "flag": WHO % 3 == 0})
NOISE = ExactNoise()


def drawn(task: Any, draws: int, *, gaussian: bool = False) -> list[Any]:
    plan, known = task.plan(TABLE.schema, terms(gaussian=gaussian)), Remembered(TABLE)
    table: Any = known
    return [plan.run(table, NOISE) for _ in range(draws)]


@pytest.mark.parametrize("gaussian", [False, True])
def test_a_mean_whose_cap_and_bounds_are_bought_is_near_the_truth(gaussian: bool) -> None:
    found = drawn(Mean("x", epsilon=1, lower="auto", upper="auto"), 10, gaussian=gaussian)
    errors = [abs(each.value - VALUES.mean()) for each in found]
    assert statistics.fmean(errors) < 3
    assert all(each.point["lower"] <= 32 and 64 <= each.point["upper"] <= 512 for each in found)
    assert all(2 <= each.point["cap"] <= 60 for each in found)
    assert all("weighed down" in each.error.note for each in found)


def test_an_automatic_cap_on_rows_is_not_much_worse_than_the_best_typed_one() -> None:
    def error(cap: Any) -> float:
        return statistics.fmean(
            abs(each.value - VALUES.mean()) for each in drawn(Mean("x", epsilon=1, upper=200, cap=cap), 25)
        )

    best = min(error(cap) for cap in (5, 10, 20))
    assert (
        error("auto") < 5 * best
    )  # the best here is a cap of few rows: heavy units are like the others, which nobody knew


def test_quantiles_and_histograms_take_automatic_caps_too() -> None:
    middle = drawn(Quantile("x", epsilon=1, lower="auto", upper="auto"), 5)
    assert all(abs(each.value - float(np.median(VALUES))) < 4 for each in middle)
    (counts,) = drawn(Histogram("x", epsilon=2, edges=[0, 30, 60, 500]), 1)
    truth = np.histogram(VALUES, [0, 30, 60, 500])[0]
    assert all(abs(row[2] - each) < 0.1 * VALUES.size for row, each in zip(counts.value, truth, strict=True))


def test_a_profile_of_rows_is_a_cap_on_rows() -> None:
    session = Session(TABLE, open_account(":memory:", "a", unit=users("user"), epsilon=20))
    profile = session.release(Profile(rows=True, epsilon=1, upper=1000)).value
    for task in (
        Mean("x", epsilon=1, upper=200, cap=profile),
        Quantile("x", epsilon=1, upper=200, cap=profile),
        Histogram("x", epsilon=1, edges=[0, 50, 200], cap=profile),
    ):
        assert task_from(request_of(task)) == task
        assert session.quote(task) == Loss.pure(1)
        assert 2 <= session.release(task).point["cap"] <= 60
    with pytest.raises(InvalidTask, match="this profile is of totals"):
        Mean("x", epsilon=1, cap=session.release(Profile("x", epsilon=1, upper=1000)).value)


@pytest.mark.parametrize(
    "task",
    [
        Mean("x", epsilon="0.7", lower="auto", upper="auto"),
        Mean("x", epsilon="0.7", lower=0, upper="auto", by="k", keys=["a", "b"]),
        Histogram("x", epsilon="0.7", edges=[0, 1]),
    ],
)
def test_what_is_bought_is_paid_for_inside_the_price(task: Any) -> None:
    pure = Session(TABLE, open_account(":memory:", "a", unit=users("user"), epsilon=4))
    normal = Session(TABLE, open_account(":memory:", "b", unit=users("user"), epsilon="0.7", delta="1e-6"))
    assert pure.quote(task) == Loss.pure("0.7")
    whole = normal.account.terms.cap.amount
    assert 0.9999 * whole < normal.quote(task).amount <= whole
    assert task_from(request_of(task)) == task


def test_where_the_row_is_the_unit_no_cap_is_bought() -> None:
    session = Session(TABLE, open_account(":memory:", "a", unit=rows(), epsilon=4))
    release = session.release(Mean("x", epsilon=1, upper=200))
    assert release.point["cap"] == 1
    assert release.error is not None
    assert release.error.note == ""
    assert abs(release.value - VALUES.mean()) < 1


def test_bounds_that_are_bought_hold_what_is_common_and_never_fail() -> None:
    mechanism = Laplace(2**20, Fraction(2**20))
    nobody = [0] * 107
    for given in (ValueBounds(None, None), ValueBounds(Fraction(3), None), ValueBounds(None, Fraction(-3))):
        for counts in (nobody, [2**30] * 107, [*[0] * 106, 2**30], [2**30, *[0] * 106], [-(2**40)] * 107):
            found = given.chosen(counts, mechanism)
            assert found.lower is not None
            assert found.upper is not None
            assert found.lower < found.upper
            assert (found.upper - found.lower) * 2**11 >= max(abs(found.lower), abs(found.upper))
            assert given.lower in (None, found.lower)
            assert given.upper in (None, found.upper)
    for lower, upper in ((LARGEST, "auto"), ("auto", -LARGEST)):
        with pytest.raises(InvalidTask, match="with the other bound bought"):
            Mean("x", epsilon=1, lower=lower, upper=upper)
    with pytest.raises(InvalidTask, match="resolution belongs to bounds that are said"):
        Quantile("x", epsilon=1, lower=0, upper="auto", resolution=1)


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf, -math.inf], [1e308, -1e308, 5e-324], [None, 0.0]])
@pytest.mark.parametrize("gaussian", [False, True])
def test_odd_rows_are_answered_like_any_others(values: list[Any], gaussian: bool) -> None:
    table = read({"user": np.arange(len(values)), "x": np.array(values, dtype=float)})
    tasks = (
        Mean("x", epsilon=1, lower="auto", upper="auto"),
        Quantile("x", epsilon=1, lower="auto", upper="auto"),
        Histogram("x", epsilon=1, edges=[0, 1]),
        Sum("x", epsilon=1, upper=10),
    )
    for task in tasks:
        outcome = task.plan(table.schema, terms(gaussian=gaussian)).run(table, NOISE)
        assert outcome.error is not None


# A total may be negative, and nothing below zero is lost unless that is said.


def test_negative_totals_are_kept_unless_a_lower_bound_is_said() -> None:
    table = read({"user": range(400), "x": [50.0] * 300 + [-70.0] * 100})
    for task, truth in (
        (Sum("x", epsilon=8, cap=100), 8000),
        (Sum("x", epsilon=8, upper=1000), 8000),
        (Sum("x", epsilon=8, cap=100, lower=0), 15_000),
        (Sum("x", epsilon=8, cap=100, lower=-10), 14_000),
    ):
        outcome = task.plan(table.schema, terms()).run(table, NOISE)
        assert abs(outcome.value - truth) < 600
    session = Session(table, open_account(":memory:", "a", unit=users("user"), epsilon=40))
    profile = session.release(Profile("x", epsilon=4, upper=1000)).value
    kept = session.release(Sum("x", epsilon=8, cap=profile))
    assert abs(kept.value - 8000) < 600
    assert kept.point["lower"] == -kept.point["cap"]
    assert kept.low < 8000 < kept.high


def test_a_lower_bound_of_zero_makes_the_interval_one_sided_and_booleans_need_none() -> None:
    for task, below in ((Sum("x", epsilon=1, upper=10**5), False), (Sum("x", epsilon=1, upper=10**5, lower=0), True)):
        (found,) = drawn(task, 1)
        low, high = found.error.offsets["0.95"]
        assert (-low < high) == below
    (flags,) = drawn(Sum("flag", epsilon=1, upper=1000), 1)
    assert flags.point["lower"] == 0
    with pytest.raises(InvalidTask, match="leave lower out"):
        Sum("x", epsilon=1, cap=3, lower=0, by="k", keys=["a"])
