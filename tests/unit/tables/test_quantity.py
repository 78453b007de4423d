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
from steelyard.tables import LIMIT, Bounded, Capped, KeyList, Limits, Quantity, _table, read


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
    assert (after.misses - before.misses, after.hits - before.hits) == (3, 0)  # the table has the words already
    assert other.capped_sum(users("u"), Quantity("x"), 0, 9) == 3  # the words are shared, the rows are not
    assert _table._compiled.cache_info().misses == after.misses


def written(monkeypatch: pytest.MonkeyPatch, ask: Any) -> tuple[int, Any]:
    """How often an answer was written as SQL, and the answer."""
    times, write = [0], _table.Table._sql

    def counting(table: Any, question: Any) -> str:
        times[0] += 1
        return write(table, question)

    with monkeypatch.context() as patch:
        patch.setattr(_table.Table, "_sql", counting)
        found = ask()
    return times[0], found


def test_questions_by_key_are_remembered_by_all_that_they_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    table = read({"u": np.array([1, 1, 2, 2]), "k": np.array([0, 1, 1, 0]), "x": np.array([5, 6, 7, 8])})

    def sums(keys: Any, cap: int = 100, norm: str = "l1", limits: Any = None, by: Any = "k") -> Any:
        return table.sums_by_key(users("u"), [Capped(Quantity("x"), cap, norm)], by, keys, limits)[0]

    asked = [
        (lambda: sums([0, 1]), 1, [13, 13]),
        (lambda: sums([0, 1]), 0, [13, 13]),
        (lambda: sums((0, 1), by=["k"]), 0, [13, 13]),
        (lambda: sums([1, 0]), 1, [13, 13]),
        (lambda: sums([1, 2]), 1, [13, 0]),
        (lambda: sums([0, 1], cap=11), 1, [10, 11]),
        (lambda: sums([0, 1], cap=11, norm="l2"), 1, [13, 13]),
        (lambda: sums([0, 1], cap=11), 0, [10, 11]),
    ]
    assert [written(monkeypatch, ask) for ask, *_ in asked] == [(times, found) for _, times, found in asked]
    for equal in ([0.0, 1.0], [False, True]):  # to Python; the column has neither
        with pytest.raises(InvalidTask):
            sums(equal)


def test_a_question_that_draws_is_written_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    table = read({"u": np.arange(40).repeat(2), "k": np.tile([0, 1], 40), "x": np.ones(80)})

    def counts() -> Any:
        return table.sums_by_key(users("u"), [Capped(Quantity(None), 1)], "k", [0, 1], Limits(max_keys=1))[0]

    found = [written(monkeypatch, counts) for _ in range(8)]
    assert all(times == 1 for times, _ in found)
    assert len({tuple(each) for _, each in found}) > 1  # which key of a unit counts is drawn anew


def test_a_table_forgets_questions_rather_than_keep_them_all() -> None:
    table = read({"u": np.array([1]), "x": np.array([5])})
    for cap in range(_table._REMEMBERED + 3):
        table.capped_sum(users("u"), Quantity("x"), 0, cap)
    assert len(table._asked) == 3


def test_a_question_is_not_taken_for_one_whose_constant_is_equal_and_another() -> None:
    table = read({"u": np.array([1]), "x": np.array([1.0])})
    zero, minus = (table._base.mutate(y=ibis.literal(value, "float64")) for value in (0.0, -0.0))
    assert zero.op() == minus.op()  # to Ibis they are one
    assert [" -0.0 " in f" {table._sql(each)} " for each in (zero, minus)] == [False, True]


def test_what_a_question_depends_on_is_told_apart_by_its_words_too() -> None:
    table = read({"u": np.array([1]), "x": np.array([1.0])})

    def asked(value: Any) -> str:
        rows = table._base.select(y=ibis.literal(value))
        return table._written(("constant", value), lambda: _table.Under(rows, {})).sql

    values = [1, True, 1.0, 0.0, -0.0, False]  # the first three are equal to Python, and so are the others
    assert len({asked(value) for value in values}) == len(values)
    assert [asked(value) for value in values] == [asked(value) for value in values]


def test_keys_that_were_found_in_rows_are_not_remembered_with_a_question() -> None:
    table = read({"u": np.array([1, 2]), "k": np.array([0, 1]), "x": np.array([5, 6])})
    found = KeyList([0, 1])
    found.found = True
    for keys, questions in ((found, 0), ([0, 1], 1)):
        assert table.sums_by_key(users("u"), [Capped(Quantity("x"), 100)], "k", keys)[0] == [5, 6]
        assert len(table._asked) == questions
