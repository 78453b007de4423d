"""Questions: one row's worth at most, a price to the micro, and an interval that holds for the population."""

from __future__ import annotations

from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import ColumnMissing, CurrencyMismatch, InvalidTask, TableError, UnitMismatch
from steelyard.holdout._question import _STEPS, OTHER_ROWS, Question
from steelyard.ledger import open_account
from steelyard.mechanisms._observe import observing
from steelyard.noise import TestNoise
from steelyard.privacy import Loss, Neighbours, Terms, holdout, rows, users
from steelyard.session import Session
from steelyard.tables import Schema, Table, read

NUMBER = count()
SHARE = Question("c", epsilon="0.5", equals="a")
VALUES = st.one_of(st.none(), st.floats(), st.integers(-(10**18), 10**18).map(float))


def session(columns: dict[str, Any], n: int, **terms: Any) -> Session:
    given = terms or {"epsilon": "1"}
    account = open_account(":memory:", f"q-{next(NUMBER)}", unit=rows(neighbours="replace", n=n), **given)
    return Session(read(pa.table(columns)), account, noise=TestNoise(next(NUMBER)))


def seen(values: list[float | None], task: Question) -> int:
    """The integer that is about to be noised."""
    with observing() as window:
        session({"x": pa.array(values, pa.float64())}, max(len(values), 1)).release(task)
    return window[0].values[0]


@settings(max_examples=8)
@given(st.lists(VALUES, min_size=1, max_size=4), VALUES)
def test_one_replaced_row_moves_the_total_by_one_rows_worth_at_most(values: list[float | None], other: Any) -> None:
    task = Question("x", epsilon="1", lower=-3, upper=10)
    moved = abs(seen(values, task) - seen([other, *values[1:]], task))
    assert moved <= _STEPS == task.mechanism(terms()).event.parameters["sensitivity"]


def test_a_worth_that_is_not_held_between_its_bounds_is_caught() -> None:
    """The same measure on the plain sum, which an unbounded question would release."""
    wild, tame = [1e9, 2.0], [1.0, 2.0]
    step = Fraction(13, _STEPS)
    assert abs(sum(wild) - sum(tame)) / step > _STEPS
    task = Question("x", epsilon="1", lower=-3, upper=10)
    assert abs(seen([*wild], task) - seen([*tame], task)) <= _STEPS


def terms(**given: Any) -> Terms:
    unit = rows(neighbours="replace", n=100_000)
    return open_account(":memory:", f"q-{next(NUMBER)}", unit=unit, **(given or {"epsilon": "1"})).terms


def test_rows_without_a_value_count_as_nothing() -> None:
    task = Question("x", epsilon="1", lower=2, upper=4)
    assert seen([None, float("nan"), float("inf"), 4.0], task) == _STEPS
    assert seen([2.0, -1e300, 3.0, 1e300], task) == _STEPS // 2 + _STEPS


@pytest.mark.parametrize(
    ("given_terms", "asked", "loss"),
    [
        ({"epsilon": "1"}, {"epsilon": "0.3"}, Loss.pure("0.3")),
        ({"epsilon": "1", "delta": "1e-6"}, {"mu": "0.1"}, Loss.mu("0.1")),
    ],
)
def test_the_price_is_exactly_what_was_asked(given_terms: Any, asked: Any, loss: Loss) -> None:
    opened = session({"c": ["a", "b"]}, 2, **given_terms)
    for task in (Question("c", equals="a", **asked),):
        assert opened.quote(task) == loss
        opened.release(task)
    assert opened.account.spent == loss


def test_shares_and_means_are_near_the_truth() -> None:
    rng, n = np.random.default_rng(3), 20_000
    names, values = rng.choice(["a", "b"], n, p=[0.3, 0.7]), rng.uniform(0, 10, n)
    opened = session({"c": names, "x": values}, n, epsilon="1")
    share = opened.release(Question("c", epsilon="0.4", equals="a"))
    mean = opened.release(Question("x", epsilon="0.4", lower=0, upper=20))
    assert abs(share.value.value - np.mean(names == "a")) < 0.01
    assert abs(mean.value.value - values.mean()) < 0.1
    assert share.value.low <= 0.3 <= share.value.high
    assert mean.value.low <= 5 <= mean.value.high
    assert opened.release(Question("c", epsilon="0.1", equals="b"), key="k").value.kind == "paid"


def test_the_interval_is_known_before_and_widens_with_the_accounts_cap() -> None:
    task = Question("c", epsilon="0.01", equals="a")
    small, large = terms(epsilon="0.02"), terms(epsilon="1")
    assert task.width(small) < task.width(large)
    assert task.width(terms(epsilon="0.02")) < Question("c", epsilon="0.01", equals="a", questions=100).width(small)
    assert task.width(small) < Question("c", epsilon="0.01", equals="a", confidence="0.999").width(small)


def test_intervals_hold_for_the_population_under_a_hostile_analyst_and_the_twin_is_caught() -> None:
    """Coin flips; ask about many columns of noise, then about the rows where the luckiest say yes."""
    missed = {"ours": 0, "twin": 0}
    for seed in range(2):
        rng, n, tries = np.random.default_rng(seed), 2_000, 60
        labels = rng.integers(0, 2, n)
        features = rng.integers(0, 2, (tries, n))
        columns = {f"f{i}": (row == labels).astype(int) for i, row in enumerate(features)}
        scores = np.array([column.mean() for column in columns.values()])
        votes = ((scores - 0.5)[:, None] * (2 * features - 1)).sum(axis=0)
        last = ((votes > 0).astype(int) == labels).astype(int)
        opened = session({**columns, "last": last}, n, epsilon="0.2")
        for i in range(0, tries, 12):
            answer = opened.release(Question(f"f{i}", epsilon="0.003", equals=1)).value
            missed["ours"] += not answer.low <= 0.5 <= answer.high
        answer = opened.release(Question("last", epsilon="0.01", equals=1)).value
        missed["ours"] += not answer.low <= 0.5 <= answer.high
        missed["twin"] += not abs(last.mean() - 0.5) <= 1.96 * 0.5 / np.sqrt(n)  # an interval for these rows alone
    assert missed["ours"] == 0
    assert missed["twin"] == 2


def test_other_accounts_and_columns_are_refused_before_a_charge() -> None:
    task = Question("c", epsilon="0.1", equals="a")
    table = read(pa.table({"c": ["a"], "who": ["x"], "x": [1.0]}))
    for unit in (rows(), users("who")):
        account = open_account(":memory:", f"q-{next(NUMBER)}", unit=unit, epsilon="1")
        with pytest.raises(UnitMismatch):
            Session(table, account).release(task)
    account = open_account(":memory:", f"q-{next(NUMBER)}", unit=rows(neighbours="replace", n=1), epsilon="1")
    opened = Session(table, account)
    with pytest.raises(ColumnMissing):
        opened.release(Question("nothing", epsilon="0.1", equals="a"))
    with pytest.raises(TableError):
        opened.release(Question("c", epsilon="0.1", lower=0, upper=1))
    with pytest.raises(CurrencyMismatch):
        opened.release(Question("c", mu="0.1", equals="a"))
    with pytest.raises(CurrencyMismatch):
        task.mechanism(Terms(holdout("h"), Loss.nats(1)))
    assert account.spent.amount == 0


def answer_of(columns: dict[str, Any], n: int, task: Question = SHARE) -> str:
    """What an analyst hears of one question: an interval, or the words of a refusal."""
    try:
        value = session(columns, n, epsilon="0.5").release(task).value
        return f"{value.low} {value.high}"
    except TableError as error:
        return str(error)


@pytest.mark.parametrize("declared", [2_500, 4_999, 5_001, 10_000])
@pytest.mark.parametrize("task", [SHARE, Question("x", epsilon="0.5", lower=0, upper=1)], ids=["a share", "a mean"])
def test_a_table_of_another_size_than_declared_gets_no_interval(declared: int, task: Question) -> None:
    columns = {"c": ["a", "b"] * 2_500, "x": [0.0, 1.0] * 2_500}
    assert answer_of(columns, declared, task) == OTHER_ROWS
    low, high = map(float, answer_of(columns, 5_000, task).split())
    assert low < 0.5 < high


def test_the_twin_that_takes_n_on_trust_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the rows that were declared are there: the interval misses for certain."""
    columns = {"c": ["a", "b"] * 2_500}
    monkeypatch.setattr(Table, "count_units", lambda self, unit: unit.n)
    _, high = map(float, answer_of(columns, 10_000).split())
    assert high < 0.5


def test_a_wrong_n_is_found_after_the_charge_once_and_in_words_that_tell_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = set()
    for table in (["a"] * 30, ["b"] * 7, []):
        opened = session({"c": pa.array(table, pa.string())}, 20)
        with monkeypatch.context() as patch:
            patch.setattr(Table, "count_units", no_rows)
            assert opened.quote(SHARE) == Loss.pure("0.5")
        assert opened.account.spent.amount == 0
        for _ in range(2):
            with pytest.raises(TableError) as caught:
                opened.release(SHARE, key="k")
            heard.add(str(caught.value))
            assert opened.account.spent == Loss.pure("0.5")
    assert heard == {OTHER_ROWS}
    assert not any(character.isdigit() for character in OTHER_ROWS)


def no_rows(self: Table, unit: Any) -> int:
    raise AssertionError("rows were read before a charge")


def test_questions_that_are_none_are_refused() -> None:
    odd: list[dict[str, Any]] = [
        {},
        {"equals": "a", "lower": 0, "upper": 1},
        {"lower": 0},
        {"lower": 1, "upper": 1},
        {"lower": 10**12, "upper": 10**12 + 1},
        {"equals": "a", "confidence": 1},
        {"equals": "a", "questions": 0},
    ]
    for given_fields in odd:
        with pytest.raises(InvalidTask):
            Question("x", epsilon="0.1", **given_fields)


def test_neighbours_are_those_of_the_account() -> None:
    task = Question("c", epsilon="0.1", equals="a")
    assert task.mechanism(terms()).neighbours is Neighbours.REPLACE
    predicted = task.plan(Schema({"c": "string"}), terms()).predicted
    assert predicted is not None
    assert predicted.noise > 0
