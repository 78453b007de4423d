"""Keys that are found serve every task, and several tasks at once; and twins that show or count too much."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from steelyard.bounding import Count, CountUsers, Histogram, Mean, Quantile, Sum, Together
from steelyard.bounding._amounts import Spend
from steelyard.bounding._private_keys import PrivateKeys
from steelyard.ledger import open_account
from steelyard.mechanisms import KeyThreshold
from steelyard.noise import ExactNoise, TestNoise
from steelyard.privacy import users
from steelyard.session import Session
from steelyard.tables import Capped, Limits, Quantity, Table, read
from unit.bounding.remembered import USER, terms

MINE = terms(gaussian=True, aside=True)
SIZE = 2000
TABLE = read(
    {
        "user": [*range(SIZE), 7],
        "land": [*(["fr", "de"] * (SIZE // 2)), "rare"],
        "n": [*([1, 1, 2, 2] * (SIZE // 4)), 9],
        "x": [*(float(i % 10) for i in range(SIZE)), 9.0],
    }
)
FOUND: dict[str, Any] = {"by": ["land", "n"], "max_keys": 2}
KEYS = [("de", 1), ("de", 2), ("fr", 1), ("fr", 2)]
TASKS = [
    Sum("x", epsilon=4, cap=20, **FOUND),
    Sum("x", epsilon=4, upper=100, **FOUND),
    Count(epsilon=4, cap=3, **FOUND),
    CountUsers(epsilon=4, **FOUND),
    Mean("x", epsilon=4, upper=10, cap=2, **FOUND),
    Quantile("x", epsilon=4, upper=10, cap=2, **FOUND),
    Histogram("x", epsilon=4, edges=[0, 5, 10], cap=2, **FOUND),
    Histogram("x", epsilon=4, edges=[0, 5, 10], cap=2, ranges=True, **FOUND),
]
NAMES = [f"{type(task).__name__}{i}" for i, task in enumerate(TASKS)]


def session(table: Table = TABLE) -> Session:
    account = open_account(":memory:", "a", unit=users("user"), epsilon=9, delta="2e-6", additive_delta="1e-6")
    return Session(table, account)


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_every_task_finds_the_keys_that_many_users_have(task: Any) -> None:
    asked = session()
    quoted = asked.quote(task)
    release = asked.release(task)
    assert list(release.value) == KEYS
    assert asked.account.spent == quoted
    assert quoted.delta == 10**11
    assert release.point["threshold"] > 2
    for value in release.value.values():
        if isinstance(task, Mean | Quantile):
            assert 3 < value < 6
        elif isinstance(task, Histogram):
            assert sum(value.values()) == pytest.approx(500, abs=100)
        else:
            assert value == pytest.approx(2250 if isinstance(task, Sum) else 500, rel=0.25)


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_where_no_key_is_shown_the_answer_is_empty_and_nothing_fails(task: Any) -> None:
    tables: list[dict[str, list[Any]]] = [
        {"user": [1], "land": ["only"], "n": [1], "x": [1.0]},
        {"user": [], "land": [], "n": [], "x": []},
    ]
    for data in tables:
        kinds = pa.schema([("user", pa.int64()), ("land", pa.string()), ("n", pa.int64()), ("x", pa.float64())])
        assert session(read(pa.table(data, schema=kinds))).release(task).value == {}


def test_one_search_serves_several_totals_at_the_price_of_all() -> None:
    parts: list[Sum | Count] = [Sum("x", epsilon=2, cap=20, **FOUND), Count(epsilon=2, cap=3, **FOUND)]
    alone, asked = [session().quote(part) for part in parts], session()
    total, count = asked.release(Together(parts)).value
    assert list(total) == list(count) == KEYS
    spent = asked.account.spent
    assert spent.delta == alone[0].delta == alone[1].delta  # one search can fail, not two
    assert 0.999 < spent.amount / sum(each.amount for each in alone) <= 1
    shared, single = Together(parts).plan(TABLE.schema, MINE), parts[0].plan(TABLE.schema, MINE)
    found = [plan.run(TABLE, ExactNoise()).point["threshold"] for plan in (shared, single)]
    assert found[0] < found[1]  # what all pay buys a lower threshold
    none = read({"user": [1], "land": ["only"], "n": [1], "x": [1.0]})
    assert session(none).release(Together(parts)).value == [{}, {}]


@pytest.mark.parametrize("odd", [math.inf, -0.0, 1e300])
def test_a_found_key_may_be_any_value_of_its_column(odd: float) -> None:
    table = read({"user": list(range(400)), "k": [odd] * 400, "x": [1.0] * 400})
    (found,) = session(table).release(Sum("x", epsilon=8, cap=2, by="k", max_keys=1)).value.values()
    assert found == pytest.approx(400, rel=0.1)


def test_rare_keys_are_not_shown_and_a_twin_without_a_threshold_is_caught() -> None:
    search = PrivateKeys.plan(("land", "n"), 2, Spend.read(4, None, MINE), MINE)

    def shows_rare(each: PrivateKeys) -> bool:
        return any(("rare", 9) in each.look(TABLE, USER, TestNoise(seed)) for seed in range(20))

    assert not shows_rare(search)

    class Unguarded(KeyThreshold):
        """Broken twin: whatever occurs is shown."""

        least = 1
        threshold = -(10**9)

    broken = Unguarded(search.threshold.max_keys, search.threshold.sigma, search.threshold.failure)
    assert shows_rare(replace(search, threshold=broken))


def tuples_of(table: Table, by: list[str], limit: int) -> int:
    """Under how many keys a single unit counts."""
    return sum(units for units, _ in table.found_sums_by_key(USER, [], by, Limits(limit)).values())


def test_a_unit_counts_once_for_a_tuple_and_a_twin_that_counts_columns_is_caught() -> None:
    heavy = read({"user": [1] * 16, "a": [i // 4 for i in range(16)], "b": [i % 4 for i in range(16)]})
    for limit in (1, 3, 16):
        assert tuples_of(heavy, ["a", "b"], limit) == limit

    class ByColumn:
        """Broken twin: ``max_keys`` is kept column by column, so that their combinations are more."""

        def found_sums_by_key(self, unit: Any, parts: Any, by: list[str], limits: Limits) -> dict[Any, Any]:
            kept = [list(heavy.found_sums_by_key(unit, parts, name, limits)) for name in by]
            return {(a, b): (1, []) for a in kept[0] for b in kept[1]}

    assert tuples_of(ByColumn(), ["a", "b"], 3) > 3  # type: ignore[arg-type]


def test_keys_of_few_units_do_not_leave_the_engine() -> None:
    everything = TABLE.found_sums_by_key(USER, [], ["land", "n"], Limits(2))
    assert ("rare", 9) in everything
    assert set(TABLE.found_sums_by_key(USER, [], ["land", "n"], Limits(2), 2)) == set(KEYS)


def test_a_row_under_another_key_changes_nothing_under_the_public_ones() -> None:
    base = {"user": [1, 1, 2], "land": ["fr", "de", "fr"], "n": [1, 2, 1], "x": [3.0, 4.0, 5.0]}
    more = {"user": [1] * 9, "land": ["fr", "xx", None] * 3, "n": [2, 1, 1] * 3, "x": [1e9] * 9}
    both = {name: [*base[name], *more[name]] for name in base}  # type: ignore[misc]
    asked = USER, [Capped(Quantity("x"), 4)], ["land", "n"], [("fr", 1), ("de", 2)], Limits(1, 1, bytes(32))
    assert read(both).sums_by_key(*asked) == read(base).sums_by_key(*asked)


def test_totals_under_found_keys_are_not_limited_to_max_keys_and_do_not_say_so() -> None:
    table = read({"user": [i // 4 for i in range(4000)], "k": ["a", "b", "c", "d"] * 1000, "x": [1.0] * 4000})
    for task in (Sum("x", epsilon=8, cap=9, by="k", max_keys=2), Count(epsilon=8, upper=9, by="k", max_keys=2)):
        release = session(table).release(task)
        assert [round(each / 1000, 1) for each in release.value.values()] == [1.0] * 4
        assert release.error is not None
        assert "missing" not in release.error.note


def test_no_more_keys_are_shown_than_one_question_may_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.bounding._private_keys.MOST", 3)
    assert list(session().release(Count(epsilon=4, cap=3, **FOUND)).value) == KEYS[:3]


def test_an_infinite_key_of_short_floats_is_met_again_once_it_is_found() -> None:
    """It was shown by its number of users, and then had no rows, which stood under everything else."""
    held = pa.table(
        {"user": range(900), "f": pa.array([math.inf, -math.inf, 0.5] * 300, pa.float32()), "x": [1.0] * 900}
    )
    task = Sum("x", epsilon=8, cap=1, by="f", max_keys=1, others=True)
    value = session(read(held)).release(task).value
    assert all(abs(value[key] - 300) < 60 for key in ("inf", "-inf", 0.5))
    assert abs(value[None]) < 60
