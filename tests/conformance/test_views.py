"""Every function that a view may use gives the same values on DuckDB and on Spark, for odd values too, whatever the session's settings."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import steelyard as sy
from steelyard.privacy import users
from steelyard.tables import Quantity, Table, read

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")

NUMBERS = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    0.49999999999999994,
    1e308,
    -1e308,
    5e-324,
    math.nan,
    math.inf,
    -math.inf,
    2.0**53,
    1e16,
    None,
    1 / 3,
]
WHOLES = [0, 1, -1, 2**63 - 1, -(2**63), 7, -7, 10, 2**53 + 1, 2**31, None, 3, 2, 5, 9, 11, -3, 4]
TEXTS = [
    "",
    "a",
    "Straße ÅΣ",
    "e\u0301😀x",
    "12",
    "-7",
    " 12",
    "1e5",
    "1.5",
    "0x10",
    "2024-02-29",
    "2023-02-29",
    "10000-01-01",
    "0000-01-01",
    "a\nb\n",
    "12\n",
    None,
    "it's \\ %_",
]
DAYS = [
    datetime.date(*ymd) if ymd else None
    for ymd in [
        (1, 1, 1),
        (4, 2, 29),
        (1582, 10, 10),
        (1900, 2, 28),
        (1969, 12, 31),
        (1970, 1, 1),
        (2000, 2, 29),
        (2023, 12, 31),
        (2024, 1, 1),
        (2024, 2, 29),
        (2024, 3, 31),
        (2024, 12, 30),
        (9999, 12, 31),
        (9999, 12, 29),
        (2024, 10, 27),
        (2018, 11, 4),
        None,
        (2100, 3, 1),
    ]
]
MOMENTS = [
    None
    if day is None or day.year in (1, 9999)
    else datetime.datetime(day.year, day.month, day.day, 23, 59, 59, 999_999)
    for day in DAYS
]
AMOUNTS = [Decimal(each) if each else None for each in ["0.00", "1.10", "-9999999.99", "0.01", "2.50", "3.33"] * 3]
N = len(NUMBERS)
ROWS = pa.table(
    {
        "i": pa.array(range(N), pa.int64()),
        "user": pa.array([k % 4 for k in range(N)], pa.int64()),
        "x": pa.array(NUMBERS, pa.float64()),
        "y": pa.array(NUMBERS[5:] + NUMBERS[:5], pa.float64()),
        "n": pa.array(WHOLES, pa.int64()),
        "m": pa.array(WHOLES[7:] + WHOLES[:7], pa.int64()),
        "h": pa.array([None if v is None else max(-(2**31), min(v, 2**31 - 1)) for v in WHOLES], pa.int32()),
        "s": pa.array(TEXTS, pa.string()),
        "z": pa.array(TEXTS[3:] + TEXTS[:3], pa.string()),
        "d": pa.array(DAYS, pa.date32()),
        "e": pa.array(DAYS[4:] + DAYS[:4], pa.date32()),
        "t": pa.array(MOMENTS, pa.timestamp("us")),
        "b": pa.array([(True, False, None)[k % 3] for k in range(N)], pa.bool_()),
        "c": pa.array(AMOUNTS, pa.decimal128(9, 2)),
    }
)
EXPRESSIONS = [
    "x + y", "x - y", "x * y", "x / y", "n + m", "n - m", "n * m", "n * m * h", "n / m", "n + x", "c * n", "c / x", "-n", "-x", "n % 7", "abs(n)",
    "abs(x)", "floor(x)", "ceil(x)", "round(x)", "round(x, 2)", "round(x / y, 3)", "sqrt(x)", "sqrt(n)", "floor(n / m)", "c > 1.5", "c = 2.5",
    "x < y", "x = y", "n >= m", "n > x", "s < z", "s = z", "s >= 'a'", "d < e", "b = (x > 0)", "x between -1 and n", "n in (1, 7, 10)",
    "s in ('a', '12')", "x is null", "b is true", "not b", "b and x > 0", "b or x > 0", "case when x > 1 then n else h end", "case n when 7 then 'a' else s end",
    "if(b, x, n)", "coalesce(x, y, 0)", "coalesce(s, z)", "nullif(n, 7)", "nullif(x, 0)", "greatest(n, m)", "least(x, y)", "greatest(s, z)", "least(d, e)",
    "upper(s)", "lower(s)", "length(s)", "substring(s, 2, 3)", "left(s, 2)", "replace(s, 'a', 'b')", "replace(s, '\\', '/')", "trim(s)", "s || z",
    "concat(s, '-', z)", "s || ''''", "s like '%a%'", "s not like '%a%'", "s like '_'", "s like '%\n%'", "starts_with(s, 'a')", "ends_with(s, 'x')", "contains(s, z)",
    "cast(s as bigint)", "cast(s as int)", "cast(s as double)", "cast(s as date)", "cast(n as varchar)", "cast(d as varchar)", "cast(b as varchar)",
    "cast(b as bigint)", "cast(n as int)", "cast(n as double)", "cast(t as date)", "cast(c as double)", "date_trunc('month', d)",
    "date_trunc('quarter', d)", "date_trunc('year', t)", "date_trunc('week', d)", "date_trunc('week', t)", "date_trunc('day', t)", "year(d)", "month(d)", "day(t)",
    "quarter(d)", "isodow(d)", "hour(t)", "minute(t)", "extract(second from t)", "strftime(d, '%Y-%m')", "strftime(t, '%d.%m.%Y')", "d + interval 3 day",
    "d - interval 400 day", "d + interval 99999 day", "date_diff('day', d, e)", "date_diff('month', d, e)", "date_diff('year', d, e)", "d - e",
    "d >= '2000-02-29'", "t >= '2024-01-01'", "t < '2024-01-01'", "date(t)",
]  # fmt: skip
AGGREGATES = [
    "count(*)", "count(x)", "count(distinct s)", "count(distinct x)", "sum(n)", "sum(h)", "sum(x)", "sum(c)", "sum(b)", "avg(n)", "avg(x)", "min(x)", "max(x)",
    "min(n)", "max(s)", "min(s)", "max(d)", "min(t)", "max(c)", "sum(h) filter (where b)", "count(*) filter (where x > 0)",
]  # fmt: skip
WINDOWS = [
    "row_number() over (partition by user order by s)", "row_number() over (partition by user order by x desc)", "rank() over (partition by user order by b::int)",
    "dense_rank() over (partition by user order by h desc nulls first)", "lag(n) over (partition by user order by d)", "lead(s, 2) over (partition by user order by x)",
    "sum(h) over (partition by user)", "avg(x) over (partition by user)", "count(*) over (partition by user, b)", "max(s) over (partition by user)",
]  # fmt: skip


@contextmanager
def told(spark: Any, **settings: str) -> Iterator[None]:
    names = {"zone": "spark.sql.session.timeZone", "ansi": "spark.sql.ansi.enabled"}
    before = {name: spark.conf.get(names[name]) for name in settings}
    for name, value in settings.items():
        spark.conf.set(names[name], value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(names[name], value)


def values(table: Table) -> dict[str, list[str]]:
    """Each column's values by row, told to the last digit."""
    rows = [row for batch in table.batches(list(table.columns)) for row in batch.to_pylist()]
    rows.sort(key=lambda row: repr((row.get("i"), row["user"])))
    return {name: [repr(row[name]) for row in rows] for name in table.columns}


def chunks(items: list[str], size: int) -> Iterator[dict[str, str]]:
    for start in range(0, len(items), size):
        yield {f"v{start + k}": text for k, text in enumerate(items[start : start + size])}


def on_spark(spark: Any, rows: pa.Table) -> Table:
    """The rows on Spark, which takes moments without a zone for those of its session."""
    with told(spark, zone="UTC"):
        return read(spark.createDataFrame(rows))


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_every_function_is_the_same_on_both_engines(spark: Any, ansi: str) -> None:
    here, there = read(ROWS), on_spark(spark, ROWS)
    asked = (
        EXPRESSIONS
        if ansi == "true"
        else [each for each in EXPRESSIONS if "cast" in each or " / " in each or "*" in each]
    )
    with told(spark, ansi=ansi, zone="America/Sao_Paulo"):
        for some in chunks(asked, 40):
            items = ", ".join(f"{text} as {name}" for name, text in some.items())
            found = [values(sy.view(f"select i, user, {items} from t", t=each)) for each in (here, there)]
            for name, text in some.items():
                assert found[0][name] == found[1][name], text
                assert len(set(found[0][name])) > 1, f"{text} is the same everywhere"


def test_every_aggregate_and_window_is_the_same_on_both_engines(spark: Any) -> None:
    here, there = read(ROWS), on_spark(spark, ROWS)
    with told(spark, zone="Asia/Tokyo"):
        for texts, end, key in ((AGGREGATES, " group by user", ""), (WINDOWS, "", "i, ")):
            items = ", ".join(f"{text} as v{k}" for k, text in enumerate(texts))
            found = [values(sy.view(f"select {key}user, {items} from t{end}", t=each)) for each in (here, there)]
            for k, text in enumerate(texts):
                assert found[0][f"v{k}"] == found[1][f"v{k}"], text


def test_joins_and_filters_are_the_same_on_both_engines(spark: Any) -> None:
    other = pa.table({"user": pa.array([0, 1, 1, None]), "w": pa.array([1.5, 2.5, -3.0, 9.0])})
    prices = sy.public({"s": ["a", "12", "zz"], "price": [1.0, 2.0, 3.0]})
    statement = (
        "select t.user, h * price as amount, w from t join o using (user) left join p using (s) where n > 0 and (x < 5 or x is null)"
        " union all select user, w, w as v from o"
    )
    frames = [(ROWS, other), (spark.createDataFrame(ROWS), spark.createDataFrame(other))]
    tables = [sy.view(statement, t=read(a), o=read(b), p=prices) for a, b in frames]
    found = [sorted(zip(*values(each).values(), strict=True)) for each in tables]
    assert found[0] == found[1]
    sums = [each.capped_sum(users("user"), Quantity("amount"), -50, 50) for each in tables]
    assert sums[0] == sums[1]
