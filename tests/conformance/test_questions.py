"""Every question that can be asked feeds the noise the same integers on DuckDB and on Spark, and so has the same answer for the same noise."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Iterable
from functools import cache
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import steelyard as sy
from steelyard.mechanisms._observe import Observed, observing
from steelyard.noise import TestNoise
from steelyard.tables import Table, _sampling, _table, read

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")

N = 240
DAYS = [dt.date(2026, 1 + i % 3, 1 + i % 28) if i % 17 else None for i in range(N)]
ROWS = pa.table(
    {
        "user": pa.array([(i * 7919) % 41 if i % 19 else None for i in range(N)], pa.int64()),
        "country": pa.array([["fr", "de", "it", None, "ÅΣß"][(i * i) % 5] for i in range(N)]),
        "quantity": pa.array([(i * 31) % 13 - 3 for i in range(N)], pa.int64()),
        "price": pa.array([((i * 37) % 101) / 8 if i % 11 else float("nan") for i in range(N)], pa.float64()),
        "day": pa.array(DAYS, pa.date32()),
    }
)
REGIONS = {"country": ["fr", "de", "it"], "region": ["west", "west", "south"]}


def sold(table: Table) -> Table:
    """The view that questions are asked of: a filter, a product, a month, a public join."""
    return (
        table.where("quantity > 0 and country not like 'x%'")
        .derive(revenue="quantity * price", month="date_trunc('month', day)")
        .join(sy.public(REGIONS), on="country", left=True)
    )


def aggregates(**keys: Any) -> list[Any]:
    """Every aggregate under the same keys."""
    values: dict[str, Any] = {"mu": 2, "upper": 13, "cap": 4, **keys}
    return [
        sy.Sum("revenue", mu=2, cap=50, **keys),
        sy.Count(mu=2, cap=5, **keys),
        sy.CountUsers(mu=2, **keys),
        sy.CountDistinct("day", mu=2, **keys),
        sy.Ratio("revenue", "quantity", mu=2, cap=60, over_cap=20, **keys),
        *(kind("price", **values) for kind in (sy.Mean, sy.Variance, sy.Std)),
        sy.Quantile("price", quantile=["0.25", "0.9"], **values),
        sy.Histogram("price", mu=2, edges=[0, 1, 5, 13], cap=4, **keys),
        sy.Histogram("day", mu=2, edges=sy.months("2026-01", "2026-03"), **keys),
    ]


MONTHS = sy.keys(country=["fr", "de", "zz"], month=sy.months("2026-01", "2026-03"))
BY: dict[str, Any] = {"by": ["country", "month"], "keys": MONTHS}
FOUND: dict[str, Any] = {"by": "country", "max_keys": 2}
QUESTIONS: dict[str, Any] = {
    "all of the table": sy.Together([*aggregates(), sy.Sum("revenue", mu=2, upper=500), sy.Mean("price", mu=2, upper="auto"), sy.Median("price", mu=2, upper=13)]),
    "by public keys of two columns and the rest": sy.Together(aggregates(**BY, others=True)),
    "by keys that are found": sy.Together([*aggregates(**FOUND)[:5], sy.TopK("month", k=2, mu=2, cap=3, **FOUND), sy.Histogram("month", mu=2, cap=4, **FOUND)]),
    "profile": sy.Profile("revenue", mu=1, upper=1000),
    "ranges": sy.Histogram("price", mu=1, edges=range(14), cap=3, ranges=True),
    "users by keys that are found": sy.CountUsers(mu=3, others=True, by=["country", "month"], max_keys=3),
    "candidates": sy.TopK("country", k=2, mu=2, keys=["fr", "de", "it", "zz"]),
    "candidates by key": sy.TopK("country", k=1, mu=2, by="region", keys=["west", "south"], values=["fr", "de", "it"], cap=3),
    "values that are found": sy.Histogram("month", mu=3, cap=4, max_keys=3),
}  # fmt: skip
STATEMENT = """
    with mine as (select user, country, sum(quantity) as items, count(distinct day) as days from orders where quantity > 0 group by user, country)
    select region, sum(items) as items, avg(days) as days, count(*) as n, count(distinct user) as people, median(items) as mid
    from mine join regions using (country) group by region having n > 0 order by items desc limit 2"""


def account() -> Any:
    unit = sy.users("user")
    return sy.open_account(":memory:", "a", unit=unit, epsilon=500, delta="1e-2", additive_delta="5e-3")


def answered(table: Table, view: Table, name: str) -> tuple[list[Observed], Any]:
    """What the noise was fed, and what came out."""
    if name in QUESTIONS:
        return released(view, QUESTIONS[name])
    session = sy.Session(table, account(), noise=TestNoise(5))
    with observing() as seen:
        about: dict[str, Any] = {"cap": {"items": 40, "n": 5, "days": 5, "mid": 5}, "upper": {"days": 9, "mid": 90}}
        public = sy.public(REGIONS)
        found = session.sql(STATEMENT, mu=4, keys=["west", "south"], max_keys=2, regions=public, **about)
        return list(seen), found.rows


def released(view: Table, task: Any) -> tuple[list[Observed], Any]:
    """The same of one task."""
    with observing() as seen:
        value = sy.Session(view, account(), noise=TestNoise(5)).release(task).value
        return list(seen), getattr(value, "counts", value)


@pytest.fixture(autouse=True)
def one_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which rows, keys and values of a unit count where it has too many is decided by a digest under a fresh secret; here by one and the same."""
    fixed = SimpleNamespace(token_bytes=lambda size: b"k" * size, token_hex=secrets.token_hex)
    for module in (_sampling, _table):
        monkeypatch.setattr(module, "secrets", fixed)


@pytest.fixture(scope="module")
def engines(spark: Any) -> list[tuple[Table, Table]]:
    """A stored table on each engine, and the view of it."""
    return [(table, sold(table)) for table in (read(ROWS), read(spark.createDataFrame(ROWS)))]


@pytest.mark.parametrize("name", [*QUESTIONS, "a statement"])
def test_a_question_is_answered_from_the_same_integers_on_both_engines(
    name: str, engines: list[tuple[Table, Table]]
) -> None:
    here, there = (answered(*each, name) for each in engines)
    assert here == there
    assert any(any(each.values) for each in here[0]), "nothing but zeros agrees with everything"


@cache
def asked() -> set[str]:
    """The kinds of tasks above."""
    return kinds_of(QUESTIONS.values())


def kinds_of(questions: Iterable[Any]) -> set[str]:
    """What questions ask, each part of several by itself."""
    together = [task.tasks if isinstance(task, sy.Together) else [task] for task in questions]
    return {type(task).__name__ for tasks in together for task in tasks}


def test_no_aggregate_is_left_out() -> None:
    from steelyard.requests import _parts

    assert asked() == {name for name, _ in _parts.KINDS.values()} | {"Profile"}
