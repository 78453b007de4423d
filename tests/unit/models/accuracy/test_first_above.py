"""The first of one's own queries above a threshold: what it costs, what is refused, and what a restart finds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.accounting import price
from steelyard.errors import BudgetExceeded, CurrencyMismatch, InvalidTask, KeyConflict, SteelyardError, UnitMismatch
from steelyard.ledger import Ledger
from steelyard.models.accuracy import doubling
from steelyard.models.accuracy._first_above import CONFIDENCE, Question, Row
from steelyard.models.accuracy._watch import STEPS
from steelyard.noise import TestNoise
from steelyard.privacy import Neighbours, Status

PEOPLE = 400
TABLE = sy.read(
    {"who": list(range(PEOPLE)), "low": [1.0] * PEOPLE, "middle": [4.0] * PEOPLE, "high": [9.0] * PEOPLE}, name="t"
)
QUERIES = [sy.Sum("low", cap=10), sy.Sum("middle", cap=10), sy.Sum("high", cap=10)]


def account(place: Any = ":memory:", **given: Any) -> Any:
    return sy.open_account(place, "a", **{"unit": sy.users("who"), "epsilon": 20, **given})


def test_the_first_total_above_is_found_for_the_price_of_one_watch_however_many_were_below() -> None:
    at = account()
    first = sy.first_above(sy.Session(TABLE, at), [*QUERIES[:1] * 40, *QUERIES], threshold=2800, epsilon="0.5")
    assert (first.place, first.query, first.reason, first.asked) == (42, QUERIES[2], "above", 43)
    assert at.spent == first.cost == sy.Loss.pure("0.5")
    assert first.guarantee is not None
    assert first.guarantee.status is Status.PROVED


def test_none_above_is_an_answer_and_costs_the_watch() -> None:
    at = account()
    first = sy.first_above(sy.Session(TABLE, at), [sy.Count(cap=1)], threshold=10**5, epsilon=1)
    assert (first.place, first.query, first.reason, first.asked) == (None, None, "none_above", 1)
    assert at.spent == sy.Loss.pure(1)


def test_queries_may_be_made_of_releases_and_the_price_is_the_watch_and_those_up_to_the_stop() -> None:
    """Ligett and others: publish until the first is good enough, and pay for what was published."""
    at = account()
    session, made = sy.Session(TABLE, at), list[Any]()

    def queries() -> Iterator[Any]:
        for release in doubling(session, sy.Sum("high", cap=10), "0.1"):
            made.append(release)
            near = 1 / (1 + abs(release.value - 3600))
            yield sy.Sum("high", cap=10) if near > 0.001 or len(made) > 2 else sy.Sum("low", cap=10)

    first = sy.first_above(session, queries(), threshold=2000, epsilon=1)
    assert first.reason == "above"
    assert len(made) == first.asked
    assert first.cost == sy.Loss.pure(1)
    assert at.spent == sy.Loss.pure(1 + Fraction(2**first.asked - 1, 10))


def test_a_task_with_a_mu_of_its_own_is_not_doubled() -> None:
    at = account(delta="1e-6")
    with pytest.raises(InvalidTask, match="leave its mu out"):
        next(doubling(sy.Session(TABLE, at), sy.Sum("high", cap=10, mu="0.1"), "0.1"))
    assert not at.spent.amount


def test_a_budget_that_ends_while_a_query_is_made_ends_the_row() -> None:
    at = account(epsilon=2)
    session = sy.Session(TABLE, at)
    never = (sy.Sum("low", cap=10) for _ in doubling(session, sy.Sum("high", cap=10), "0.1"))
    first = sy.first_above(session, never, threshold=10**6, epsilon=1)
    assert (first.place, first.reason, first.asked) == (None, "budget_ended", 3)
    assert at.spent == sy.Loss.pure("1.7")


def test_a_watch_that_cannot_be_paid_for_is_refused_and_costs_nothing() -> None:
    at = account(epsilon=1)
    with pytest.raises(BudgetExceeded):
        sy.first_above(sy.Session(TABLE, at), QUERIES, threshold=1, epsilon=2)
    assert not at.spent.amount


@pytest.mark.parametrize(
    "odd",
    [
        sy.Sum("low", cap=10, epsilon=1),
        sy.Sum("low", upper=10),
        sy.Sum("low", cap=10, by="who", keys=[1]),
        sy.Sum("absent", cap=10),
        sy.Mean("low", lower=0, upper=1),
        len,
        7,
    ],
)
def test_an_odd_query_of_a_list_is_refused_before_anything_is_charged(odd: Any) -> None:
    at = account()
    with pytest.raises(SteelyardError):
        sy.first_above(sy.Session(TABLE, at), [*QUERIES, odd], threshold=10**6, epsilon=1)
    assert not at.spent.amount


def test_accounts_and_numbers_that_make_no_sense_are_refused() -> None:
    session = sy.Session(TABLE, account())
    for odd in ({"threshold": "much"}, {"epsilon": 0}, {"epsilon": "1e-9"}, {"sensitivity": -1}):
        with pytest.raises(InvalidTask):
            sy.first_above(session, QUERIES, **{"threshold": 1, "epsilon": 1, **odd})  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match="function"):
        sy.first_above(session, QUERIES, threshold=1, epsilon=1, sensitivity=1)
    with pytest.raises(UnitMismatch):
        sy.first_above(sy.Session(TABLE, account(unit=sy.labels("low"))), QUERIES, threshold=1, epsilon=1)
    nats = sy.open_account(":memory:", "n", unit=sy.holdout("h"), nats=5)
    with pytest.raises((UnitMismatch, CurrencyMismatch)):
        sy.first_above(sy.Session(TABLE, nats), QUERIES, threshold=1, epsilon=1)


def test_a_function_is_asked_as_stated_and_the_guarantee_says_so() -> None:
    at = account()

    def people(rows: Any) -> int:
        return int(rows.num_rows)

    first = sy.first_above(sy.Session(TABLE, at), [people], threshold=200, epsilon=1, sensitivity=1)
    assert first.place == 0
    assert first.guarantee is not None
    assert "as stated" in str(first.guarantee)
    assert "caller's word" in str(first.guarantee)
    later = sy.Session(TABLE, at).release(sy.Count(cap=1, epsilon=1))
    assert str(later.guarantee).endswith("Status of this release: proved.")  # others may be less sure


@pytest.mark.parametrize(
    "odd", [lambda _: math.nan, lambda _: math.inf, lambda _: None, lambda _: 1 // 0, lambda _: "x"]
)
def test_a_function_that_fails_or_gives_no_number_is_below_and_tells_nothing(odd: Any) -> None:
    first = sy.first_above(sy.Session(TABLE, account()), [odd, odd], threshold=-(10**9), epsilon=5, sensitivity=1)
    assert (first.reason, first.asked) == ("none_above", 2)


def test_a_function_of_no_rows_is_asked_of_a_table_without_rows_and_does_not_count_as_failed() -> None:
    """Else one user more or less would move a count from one to below every other value."""
    row = Row(Fraction(0), Fraction(1), Fraction(1))
    people = sy.read({"who": [1], "low": [1.0]})
    nobody = sy.read(pa.table({"who": pa.array([], pa.int64()), "low": pa.array([], pa.float64())}))
    terms = account().terms
    for query in (lambda rows: rows.num_rows, lambda rows: sum(rows["low"].to_pylist())):
        steps = [row.question(query, table.schema, terms).steps(table) for table in (people, nobody)]
        assert steps == [STEPS, 0]


def test_a_gaussian_account_is_charged_the_whole_watch_before_the_first_query() -> None:
    at = account(epsilon=8, delta="1e-6")
    mechanism = Row(Fraction(0), Fraction(1), None).watch(Neighbours.ADD_REMOVE).mechanism
    asked = list[int]()

    def queries() -> Iterator[Any]:
        yield QUERIES[0]
        asked.append(at.spent.amount)
        yield QUERIES[2]

    first = sy.first_above(sy.Session(TABLE, at), queries(), threshold=2800, epsilon=1)
    assert asked == [price(mechanism.event, at.terms).amount] == [at.spent.amount] == [first.cost.amount]


def test_a_key_reads_its_row_back_for_nothing_and_no_other_queries_are_let_in(tmp_path: Path) -> None:
    at = account(tmp_path / "l.db")
    first = sy.first_above(sy.Session(TABLE, at), QUERIES, 2800, 1, key="k")
    again = sy.first_above(sy.Session(TABLE, sy.Account(tmp_path / "l.db", "a")), QUERIES, 2800, 1, key="k")
    assert again == first
    assert at.spent == sy.Loss.pure(1)
    with pytest.raises(KeyConflict, match="query 0"):
        sy.first_above(sy.Session(TABLE, at), QUERIES[1:], 2800, 1, key="k")
    for other in ((2801, 1), (2800, 2)):
        with pytest.raises(KeyConflict):
            sy.first_above(sy.Session(TABLE, at), QUERIES, *other, key="k")
    assert at.spent == sy.Loss.pure(1)
    assert Ledger(at.location).verify().ok


def test_a_row_that_died_goes_on_where_it_was_with_a_watch_of_its_own(tmp_path: Path) -> None:
    at = account(tmp_path / "l.db")

    def dying() -> Iterator[Any]:
        yield QUERIES[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sy.first_above(sy.Session(TABLE, at), dying(), 2800, 1, key="k")
    assert at.spent == sy.Loss.pure(1)
    first = sy.first_above(sy.Session(TABLE, sy.Account(tmp_path / "l.db", "a")), QUERIES, 2800, 1, key="k")
    assert (first.place, first.asked) == (2, 3)
    assert at.spent == first.cost == sy.Loss.pure(2)
    again = sy.first_above(sy.Session(TABLE, at), QUERIES, 2800, 1, key="k")
    assert (again.place, at.spent) == (2, sy.Loss.pure(2))


@given(st.integers(-(10**6), 10**6), st.integers(-100, 100), st.fractions(-50, 50), st.integers(1, 97))
def test_a_unit_moves_a_question_by_no_more_than_the_watch_is_paid_for(
    value: int, move: int, threshold: Fraction, parts: int
) -> None:
    def steps(found: int, moves: Fraction) -> int:
        return Question("q", lambda _: found, threshold, moves).steps(TABLE)

    moves = Fraction(max(abs(move), 1), 1) * parts
    assert abs(steps(value, moves) - steps(value + move * parts, moves)) <= STEPS


def moved(unit: Any, one: float, other: float | None) -> int:
    """How far the question about a total moves when one person's value goes from one to another, or goes away."""
    at = account(unit=unit)
    query, values = sy.Sum("x", cap=10, lower=-10), [*[0.0] * 9, one]
    tables = [sy.read({"who": list(range(10)), "x": values})]
    if other is None:
        tables.append(sy.read({"who": list(range(9)), "x": values[:9]}))
    else:
        tables.append(sy.read({"who": list(range(10)), "x": [*values[:9], other]}))
    question = Row(Fraction(5), Fraction(1), None).question(query, tables[0].schema, at.terms)
    return abs(question.steps(tables[0]) - question.steps(tables[1]))


def test_a_total_moves_by_its_cap_where_a_person_goes_and_by_both_bounds_where_one_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replaced = sy.users("who", neighbours="replace", n=10)
    assert STEPS * 0.99 <= moved(sy.users("who"), 50.0, None) <= STEPS
    assert STEPS * 0.99 <= moved(replaced, 50.0, -50.0) <= STEPS
    monkeypatch.setattr("steelyard.models.accuracy._first_above.Neighbours", _Blind)  # the twin: one bound for both
    assert moved(replaced, 50.0, -50.0) > 1.9 * STEPS


class _Blind:
    REPLACE = None


def test_answers_are_right_to_the_margin_as_often_as_is_said() -> None:
    """Values far inside and far outside of the margin, and one in between; the twin's margin is a fifth of it."""
    wrong = {1: 0, 5: 0}
    for run in range(150):
        session = sy.Session(TABLE, account(), noise=TestNoise(run))
        row = session.open(Row(Fraction(0), Fraction(1), Fraction(1)), key="k")
        for part in wrong:
            margin = row._apart(1) / part
            inner = sy.first_above(session, [lambda _, m=margin: -m], 0, 1, sensitivity=1)
            wrong[part] += inner.reason == "above"
    assert wrong[1] / 150 <= 1 - CONFIDENCE
    assert wrong[5] / 150 > 1 - CONFIDENCE
