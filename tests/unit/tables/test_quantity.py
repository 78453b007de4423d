"""A quantity is a total function to integers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ibis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InvalidTask
from steelyard.privacy import users
from steelyard.tables import LIMIT, Bounded, Capped, Limits, Quantity, _table, read


@given(st.floats() | st.integers() | st.booleans() | st.none() | st.decimals(allow_nan=False, allow_infinity=False))
def test_any_value_becomes_an_integer_within_the_limit(value: Any) -> None:
    for step in (Fraction(1), Fraction(1, 10**6), Fraction(3, 7), Fraction(10**9)):
        assert -LIMIT <= Quantity("x", step).integer(value) <= LIMIT


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, 10**400])
def test_what_is_no_number_becomes_zero(value: Any) -> None:
    assert Quantity("x").integer(value) == 0


@given(st.integers(-(2**40), 2**40))
def test_cents_are_read_exactly(cents: int) -> None:
    assert Quantity("x", Fraction(1, 100)).integer(cents / 100) == cents


def test_no_column_counts_rows_on_the_grid() -> None:
    assert Quantity().integer(None) == 1
    assert Quantity(None, Fraction(1, 1024)).integer(None) == 1024


@pytest.mark.parametrize("step", [0, -1, Fraction(-1, 2), 0.5, True, Fraction(1, 10**301), 10**301])
def test_a_step_that_makes_no_grid_is_refused(step: Any) -> None:
    with pytest.raises(InvalidTask):
        Quantity("x", step)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bounded(Quantity(), 1, 0),
        lambda: Bounded(Quantity(), 0, 2**80 + 1),
        lambda: Bounded(Quantity(), 0, 1.5),  # type: ignore[arg-type]
        lambda: Capped(Quantity(), -1),
        lambda: Capped(Quantity(), 2**50 + 1),
        lambda: Capped(Quantity(), 1, "linf"),
        lambda: Limits(max_keys=0),
        lambda: Limits(rows_per_key=True),
        lambda: Limits(secret=b"short"),
        lambda: Quantity(""),
    ],
)
def test_bounds_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(InvalidTask):
        make()


def test_a_question_is_written_as_sql_once_and_others_are_not_taken_for_it() -> None:
    table, other = (read({"u": np.array([1, 1, 2]), "x": np.array(values)}) for values in ([5, 6, 7], [1, 1, 1]))
    caps = (0, 0, 8, 9)
    before = _table._compiled.cache_info()
    found = [table.capped_sum(users("u"), Quantity("x"), 0, cap) for cap in caps for _ in range(2)]
    assert found == [0, 0, 0, 0, 15, 15, 16, 16]
    after = _table._compiled.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (3, 5)
    assert other.capped_sum(users("u"), Quantity("x"), 0, 9) == 3  # the words are shared, the rows are not
    assert _table._compiled.cache_info().misses == after.misses


def test_a_question_is_not_taken_for_one_whose_constant_is_equal_and_another() -> None:
    table = read({"u": np.array([1]), "x": np.array([1.0])})
    zero, minus = (table._base.mutate(y=ibis.literal(value, "float64")) for value in (0.0, -0.0))
    assert zero.op() == minus.op()  # to Ibis they are one
    assert [" -0.0 " in f" {table._sql(each)} " for each in (zero, minus)] == [False, True]
