"""One period's rows, on every engine: told by each row's own time, and moved by nobody's rows of another period."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from steelyard.errors import TableError
from steelyard.privacy import Unit, users
from steelyard.tables import Table, read
from steelyard.tables import _periods as tables_of_periods
from steelyard.tables import _views as views
from steelyard.tables._periods import period_ends
from steelyard.tables._totals import Quantity
from steelyard.views import query

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")
Opener = Callable[[Any], Table]
MONTHS = users("user", per="month", time="at")
DAYS = [
    dt.date(2026, 2, 28), dt.date(2026, 3, 1), dt.date(2026, 3, 31), dt.date(2026, 4, 1), None, dt.date(1900, 1, 1),
    dt.date(2200, 12, 31), dt.date(2026, 3, 15),
]  # fmt: skip


def moments(unit: str) -> pa.Array:
    last = dt.datetime(2026, 3, 31, 23, 59, 59)
    at = [None if day is None else dt.datetime(day.year, day.month, day.day) for day in DAYS]
    return pa.array([*at[:-1], last], pa.timestamp(unit))


TIMES = {"date": pa.array(DAYS, pa.date32()), **{unit: moments(unit) for unit in ("s", "ms", "us", "ns")}}


def made(times: pa.Array) -> pa.Table:
    return pa.table({"user": [1, 1, 2, 3, 4, 5, 6, None], "x": [1, 2, 4, 8, 16, 32, 64, 128], "at": times})


def total(table: Table) -> int:
    return table.capped_sum(users("user"), Quantity("x", Fraction(1)), 0, 10**6)


@pytest.mark.parametrize("kind", list(TIMES))
def test_a_row_belongs_to_the_period_of_its_own_time_or_to_none(open_table: Opener, kind: str) -> None:
    table = open_table(made(TIMES[kind]))
    if table.engine != "duckdb" and kind != "date":
        with pytest.raises(TableError, match="told by a date"):
            table.in_period(MONTHS.during("2026-03"))
        return
    seen = {name: total(table.in_period(MONTHS.during(name))) for name in ("2026-02", "2026-03", "2026-04", "2026-05")}
    assert seen == {"2026-02": 1, "2026-03": 2 + 4, "2026-04": 8, "2026-05": 0}
    per = {"year": ("2026", 15), "quarter": ("2026-Q1", 7), "day": ("2026-03-01", 2)}
    for length, (name, expected) in per.items():
        assert total(table.in_period(users("user", per=length, time="at").during(name))) == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_no_time_can_make_the_question_fail(unit: str) -> None:
    """Neither the ends of what 64 bits hold nor an infinity: the same rows of the period are found, and nothing is raised."""
    odd = [2**63 - 1, -(2**63) + 1, 2**62, -(2**62), 0]
    times = pa.array([*odd, None], pa.int64()).cast(pa.timestamp(unit))
    plain = pa.table({"user": [9] * 6, "x": [1000] * 6, "at": times})
    both = pa.concat_tables([made(TIMES[unit]), plain.cast(made(TIMES[unit]).schema)])
    assert total(read(both).in_period(MONTHS.during("2026-03"))) == 6
    assert read(both).in_period(MONTHS.during("2026-03")).count_units(MONTHS.during("2026-03").inside) == 2


@pytest.mark.parametrize("nanos", [499, 500, 501, 999])
def test_a_time_between_two_microseconds_belongs_to_one_period(nanos: int) -> None:
    """DuckDB rounds it to the nearer one before it takes the day: then it may be the next day's, and never both or neither."""
    last = int(dt.datetime(2026, 3, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC).timestamp()) * 10**9 + 999_999_000
    times = pa.array([last + nanos], pa.int64()).cast(pa.timestamp("ns"))
    table = read(pa.table({"user": [1], "x": [7], "at": times}))
    seen = [total(table.in_period(MONTHS.during(name))) for name in ("2026-03", "2026-04")]
    assert sorted(seen) == [0, 7]


def test_infinite_dates_belong_to_no_period() -> None:
    import duckdb

    link = duckdb.connect()
    link.execute(
        "create table t as select 1 as \"user\", 5 as x, 'infinity'::date as at union all select 2, 6, '-infinity'::date union all select 3, 7, '2026-03-02'::date"
    )
    table = read(link.table("t"))
    assert total(table.in_period(MONTHS.during("2026-03"))) == 7
    assert [total(table.in_period(users("user", per="year", time="at").during(year))) for year in ("1000", "9998")] == [
        0,
        0,
    ]


@pytest.mark.parametrize("times", [
    pa.array(["2026-03-01"] * 8), pa.array([20260301] * 8), pa.array([None] * 8, pa.timestamp("us", tz="Europe/Berlin")), pa.array([0.5] * 8),
])  # fmt: skip
def test_a_time_that_a_setting_or_a_reader_decides_is_refused(open_table: Opener, times: pa.Array) -> None:
    with pytest.raises(TableError, match="told by a date"):
        open_table(made(times)).in_period(MONTHS.during("2026-03"))


NAMES = ("2026-02", "2026-03", "2026-04")


def moved_elsewhere(restrict: Callable[[Table, Unit], Table]) -> list[tuple[int, str, str]]:
    """Take away all rows of one user in one month: which other months' exact answers move?"""
    times = TIMES["date"]
    both = pa.concat_tables([made(times), made(times).set_column(0, "user", pa.array([1, 2, 3, 1, 2, 3, 1, 2]))])
    found = []
    for user in (1, 2, 3):
        for month in NAMES:
            first, after = period_ends(MONTHS.during(month))
            kept = [
                not (row["user"] == user and row["at"] is not None and first <= row["at"] < after)
                for row in both.to_pylist()
            ]
            fewer = both.filter(pa.array(kept))
            for other in set(NAMES) - {month}:
                answers = [
                    _answers(restrict(read(each), MONTHS.during(other)), MONTHS.during(other)) for each in (both, fewer)
                ]
                found += [(user, month, other)] if answers[0] != answers[1] else []
    return found


def _answers(table: Table, unit: Unit) -> tuple[int, int]:
    return total(table), table.count_units(unit.inside)


def test_nobodys_rows_of_one_period_move_another() -> None:
    assert moved_elsewhere(lambda table, unit: table.in_period(unit)) == []


def test_twins_that_look_at_more_than_the_row_are_caught() -> None:
    """One takes everything of whoever has a row in the period; one believes a view's word for the time."""
    own = views.where

    def of_active_users(table: Table, unit: Unit) -> Table:
        first, after = period_ends(unit)
        return views.view_of(
            query(
                f'select t.* from t join (select "user", max(at) as last from t group by "user") as u on t."user" = u."user" where u.last >= date \'{first}\' and u.last < date \'{after}\''
            ),
            {"t": table},
        )

    def of_any_time(table: Table, unit: Unit) -> Table:
        first, after = period_ends(unit)
        later = table.derive(at="at + interval 31 day") if unit.period == "2026-04" else table
        return own(later, f"at >= date '{first}' and at < date '{after}'")

    assert moved_elsewhere(of_active_users)
    assert moved_elsewhere(of_any_time)


RANGE = MONTHS.during("2026-02", "2026-04")
EACH = [period_ends(MONTHS.during(month)) for month in NAMES]


def of_month(row: dict[str, Any], month: int) -> bool:
    first, after = EACH[month]
    return row["at"] is not None and bool(first <= row["at"] < after)


def signed_rows(users_of: Callable[[int], Any]) -> pa.Table:
    """Users with rows of both signs in three months, so that what is left of a user without one month can be far from what he had."""
    days = [dt.date(2026, month, 5) for month in (2, 3, 4) for _ in range(4)] + [None, dt.date(2026, 5, 1)]
    x = [10, -20, 3, 1, -20, 10, 5, 1, 30, 20, -1, 1, 99, 99]
    whose = [users_of(i % 4) for i in range(12)] + [users_of(0), users_of(1)]
    return pa.table({"user": whose, "x": x, "at": pa.array(days, pa.date32())})


def moves(rows: pa.Table, answer: Callable[[pa.Table], int]) -> list[int]:
    """How far an answer moves when all rows of one user in one month are taken away, for each of them."""
    found, whole = [], answer(rows)
    for user in {row["user"] for row in rows.to_pylist()}:
        for month in range(3):
            kept = [not (row["user"] == user and of_month(row, month)) for row in rows.to_pylist()]
            found.append(abs(whole - answer(rows.filter(pa.array(kept)))))
    return found


def capped(table: Table, unit: Unit, cap: int = 10) -> int:
    return table.capped_sum(unit, Quantity("x", Fraction(1)), -cap, cap)


@pytest.mark.parametrize("users_of", [lambda i: i, lambda i: f"{i}", lambda i: ("", "1:1", "11", ":")[i]])
def test_over_several_periods_one_user_of_one_period_moves_a_sum_by_its_cap(
    open_table: Opener, users_of: Callable[[int], Any]
) -> None:
    rows = signed_rows(users_of)
    table = open_table(rows).in_period(RANGE)
    assert table.count_units(RANGE.inside) == 12
    assert capped(table, RANGE.inside, 1000) == sum(row["x"] for row in rows.to_pylist()[:12])
    local = moves(rows, lambda each: capped(read(each).in_period(RANGE), RANGE.inside))
    assert 0 < max(local) <= 10


def test_a_twin_whose_unit_is_the_user_is_caught() -> None:
    found = moves(signed_rows(lambda i: i), lambda each: capped(read(each).in_period(RANGE), users("user")))
    assert max(found) > 10


def test_a_twin_that_takes_two_users_for_one_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Month 1 of user 15 and month 11 of user 5 are two, also where a careless hand writes 115 for both."""
    year = users("user", per="month", time="at").during("2026-01", "2026-12")
    rows = pa.table({"user": [15, 5], "x": [1, 2], "at": pa.array([dt.date(2026, 2, 1), dt.date(2026, 12, 1)])})
    assert read(rows).in_period(year).count_units(year.inside) == 2
    own = tables_of_periods.user_in_period
    monkeypatch.setattr("steelyard.tables._table.user_in_period", lambda *given: own(*given).replace(":'", "'"))
    assert read(rows).in_period(year).count_units(year.inside) == 1


def test_rows_of_nobody_and_times_of_a_moment_are_told_apart_over_several_periods() -> None:
    rows = made(TIMES["us"])
    table = read(rows).in_period(RANGE)
    assert table.count_units(RANGE.inside) == 4
    assert capped(table, RANGE.inside, 1000) == 1 + 2 + 4 + 8


@pytest.mark.parametrize("whose", [[0.5] * 8, [dt.date(2026, 1, 1)] * 8, [b"a"] * 8])
def test_users_that_are_not_written_in_one_way_are_refused_over_several_periods(whose: list[Any]) -> None:
    rows = made(TIMES["date"]).set_column(0, "user", pa.array(whose))
    with pytest.raises(TableError, match="whole numbers or text"):
        read(rows).in_period(RANGE)
