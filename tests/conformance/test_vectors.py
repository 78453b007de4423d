"""Every bounded release on both engines: the same integers reach the noise, so the same noise gives the same answer."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from steelyard.bounding import (
    Count,
    CountDistinct,
    CountUsers,
    Histogram,
    Mean,
    Median,
    Profile,
    Quantile,
    Ratio,
    Std,
    Sum,
    Together,
    TopK,
    Variance,
)
from steelyard.mechanisms._observe import observing
from steelyard.noise import TestNoise
from steelyard.privacy import users
from steelyard.tables import Capped, Limits, Quantity, read
from unit.bounding.remembered import terms

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")

NASTY = [math.nan, math.inf, -math.inf, 1e308, -1e308, None, -0.0, 5e-324]
VALUES = [*NASTY, *[(i * 37 % 400) / 7 - 20 for i in range(120)]]
ARROW = pa.table(
    {
        "user": pa.array([None if i == 3 else i % 8 for i in range(128)], pa.int64()),
        "x": pa.array(VALUES, pa.float64()),
        "day": pa.array([None if i % 17 == 3 else 20_000 + i for i in range(128)], pa.int32()).cast(pa.date32()),
        "k": pa.array([None if i % 31 == 7 else "abc"[i % 3] for i in range(128)]),
    }
)
BY: dict[str, Any] = {"by": "k", "keys": ["a", "c", "z"]}
TASKS: dict[str, Any] = {
    "signed sum": Sum("x", epsilon=1, cap=50, lower=-30),
    "automatic sum": Sum("x", epsilon=1, upper=1000),
    "sum by key": Sum("x", epsilon=1, cap=50, **BY),
    "automatic sum by key": Sum("x", epsilon=1, upper=1000, **BY),
    "automatic count": Count(epsilon=1, upper=64),
    "users by key": CountUsers(epsilon=1, max_keys=3, **BY),
    "mean": Mean("x", epsilon=1, lower=-7, upper=31, cap=4),
    "histogram": Histogram("x", epsilon=1, edges=[-10, 0, "0.5", 20], cap=3),
    "quantiles": Quantile("x", epsilon=1, quantile=["0.25", "0.5"], lower=-20, upper=40, resolution=1, cap=3),
    "bought mean": Mean("x", epsilon=1, lower="auto", upper="auto"),
    "bought histogram by key": Histogram("x", epsilon=1, edges=[-10, 0, "0.5", 20], **BY),
    "mean by key": Mean("x", epsilon=1, lower=-7, upper=31, cap=4, **BY),
    "histogram by key": Histogram("x", epsilon=1, edges=[-10, 0, "0.5", 20], cap=3, **BY),
    "quantile by key": Quantile("x", epsilon=1, lower=-20, upper=40, resolution=1, cap=3, **BY),
    "variance": Variance("x", epsilon=1, lower=-7, upper=31, cap=4),
    "bought deviation by key": Std("x", epsilon=1, lower=-7, upper="auto", **BY),
    "ratio": Ratio("x", "user", epsilon=1, cap=50, over_cap=9),
    "ratio by key": Ratio("x", "user", epsilon=1, cap=50, over_upper=900, **BY),
    "median": Median("x", epsilon=1, lower=-20, upper=40, resolution=1, cap=3),
    "distinct texts": CountDistinct("k", epsilon=1, cap=3),
    "distinct values by key": CountDistinct("user", epsilon=1, cap=3, **BY),
    "top values": TopK("k", k=2, epsilon=1, keys=["a", "b", "c", "z"]),
    "dates": Histogram("day", epsilon=1, edges=["2024-12-01", "2025-01-15", "2025-06-01"], cap=3),
    "bought dates by key": Histogram("day", epsilon=1, edges=["2024-12-01", "2025-01-15", "2025-06-01"], **BY),
    "texts": Histogram("k", epsilon=1, values=["a", "z"], cap=3),
    "all together": Together(
        [
            Sum("x", epsilon=1, cap=50, **BY),
            Mean("x", epsilon=1, lower=-7, upper=31, cap=4, **BY),
            Variance("x", epsilon=1, lower=-7, upper=31, cap=4, **BY),
            Ratio("x", "user", epsilon=1, cap=50, over_cap=9, **BY),
            CountUsers(epsilon=1, **BY),
            Histogram("x", epsilon=1, edges=[-10, 0, "0.5", 20], cap=3, **BY),
        ]
    ),
    "profile": Profile("x", epsilon=1, upper=1000),
    "found sums": Sum("x", epsilon=1, upper=1000, by="k", max_keys=3),  # no key is left out, whatever the secret
    "found users": CountUsers(epsilon=1, by="k", max_keys=3),
}


@pytest.fixture(scope="module")
def both(spark: Any) -> tuple[Any, Any]:
    """The same rows on DuckDB and on Spark."""
    return read(ARROW), read(spark.createDataFrame(ARROW))


@pytest.mark.parametrize("name", TASKS)
def test_the_same_integers_reach_the_noise_on_both_engines(name: str, both: tuple[Any, Any]) -> None:
    mine = terms(gaussian=name.startswith("found"), aside=name.startswith("found"))
    answers = []
    for table in both:
        with observing() as seen:
            outcome = TASKS[name].plan(table.schema, mine).run(table, TestNoise(11))
        answers.append((seen, outcome))
    assert answers[0] == answers[1]
    assert any(value for each in answers[0][0] for value in each.values)


def test_the_same_values_of_a_unit_count_on_both_engines(both: tuple[Any, Any]) -> None:
    limits = Limits(secret=b"sixteen bytes or more")
    for column, by, keys in (("k", None, ()), ("user", "k", ["a", "c", "z"]), ("k", "k", ["a", "b"])):
        one, two = (table.distinct_values(users("user"), column, (1, 2, 64), by, keys, limits) for table in both)
        assert one == two
        assert one[0] <= one[1] <= one[2] != [0] * len(one[2])


def test_found_keys_are_the_same_on_both_engines(both: tuple[Any, Any]) -> None:
    parts = [Capped(Quantity("x"), 40, "l2"), Capped(Quantity(None), 5)]
    limits = Limits(max_keys=2, rows_per_key=2, secret=b"sixteen bytes or more")
    one, two = (table.found_sums_by_key(users("user"), parts, "k", limits) for table in both)
    assert one == two
    assert sum(units for units, _ in one.values()) == 2 * 8
