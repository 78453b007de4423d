"""Spark data frames that are queries: those whose plan keeps people apart are checked views, all others stay tables as given."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import steelyard as sy
from steelyard.errors import SteelyardError, UncheckedQuery, ViewRefused
from steelyard.tables import _spark_plans as plans
from steelyard.tables import read

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")
ROWS = [(1, "FR", 2, 3.0), (1, "DE", -1, 2.5), (2, "DE", 4, None), (3, None, None, float("nan"))]


@pytest.fixture(scope="module")
def orders(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = str(tmp_path_factory.mktemp("plans") / "orders.parquet")
    spark.createDataFrame(ROWS, "user long, land string, quantity int, price double").write.parquet(path)
    frame = spark.read.parquet(path)
    frame.createOrReplaceTempView("orders")
    yield frame
    spark.catalog.dropTempView("orders")


def account(unit: Any = None) -> Any:
    return sy.open_account(":memory:", "a", unit=unit or sy.users("user"), epsilon=10)


def opened(frame: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncheckedQuery)
        return read(frame)


CHECKED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "filter and column": lambda t, f, s: t.where("quantity > 0").withColumn("spent", f.col("quantity") * f.col("price")),
    "sql": lambda t, f, s: s.sql("select user, land, quantity * price as spent from orders where land in ('FR', 'DE')"),
    "per unit": lambda t, f, s: t.groupBy("user").agg(f.sum("quantity").alias("n"), f.count("*").alias("rows"), f.avg("price").alias("mean")),
    "renamed": lambda t, f, s: t.withColumnRenamed("quantity", "n").filter("n is not null or land = 'FR'").drop("price"),
    "case": lambda t, f, s: t.select("user", f.when(f.col("quantity") > 0, "in").otherwise("out").alias("way")).orderBy("way"),
    "written rows": lambda t, f, s: s.sql("select * from values (1L, 'FR', 3.0D), (2L, 'DE', 1.0D) as t(user, land, price)").where("price > 2"),
}  # fmt: skip

AS_GIVEN: dict[str, Callable[[Any, Any, Any], Any]] = {
    "limit": lambda t, f, s: t.limit(2),
    "first rows": lambda t, f, s: t.orderBy("price").limit(1).select("user"),
    "random": lambda t, f, s: t.withColumn("z", f.rand(7)),
    "sub-query": lambda t, f, s: s.sql("select user, quantity - (select avg(quantity) from orders) as v from orders"),
    "window": lambda t, f, s: s.sql("select user, avg(price) over (order by price) as m from orders"),
    "distinct": lambda t, f, s: t.dropDuplicates(["land"]),
    "rows of an RDD": lambda t, f, s: s.createDataFrame(t.rdd, t.schema).where("quantity > 0"),
    "sample": lambda t, f, s: t.sample(0.5, seed=1),
    "two of a name": lambda t, f, s: t.select("user", f.col("quantity").alias("v"), f.col("price").alias("V")),
}


@pytest.mark.parametrize("name", CHECKED)
def test_a_plan_that_keeps_people_apart_is_a_checked_view_with_the_same_rows(
    name: str, orders: Any, spark: Any
) -> None:
    from pyspark.sql import functions

    frame = CHECKED[name](orders, functions, spark)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncheckedQuery)
        table = read(frame)
    assert table.stored
    shown = sorted(repr(row) for batch in table.batches(frame.columns) for row in batch.to_pylist())
    assert shown == sorted(repr(_plain(row.asDict())) for row in frame.collect())
    sy.Session(table, account())


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """NaN that was worked out is null in a view."""
    return {name: None if value != value and name != "price" else value for name, value in row.items()}


@pytest.mark.parametrize("name", [name for name in AS_GIVEN if name != "two of a name"])
def test_any_other_plan_stays_a_table_as_given(name: str, orders: Any, spark: Any) -> None:
    from pyspark.sql import functions

    frame = AS_GIVEN[name](orders, functions, spark)
    assert plans.checked(frame) is None
    with pytest.warns(UncheckedQuery):
        assert not read(frame).stored


def test_what_only_bears_the_name_of_the_unit_is_not_the_unit(orders: Any, spark: Any) -> None:
    from pyspark.sql import functions

    for column in (functions.lit(7), functions.col("quantity")):
        made = opened(orders.withColumn("user", column))
        assert made.stored, "it is a checked view, in which no column carries the unit"
        with pytest.raises(ViewRefused):
            sy.Session(made, account())
    mixed = opened(orders.groupBy("land").agg(functions.sum("quantity").alias("user")))
    with pytest.raises(SteelyardError):
        sy.Session(mixed, account())
    assert plans.checked(AS_GIVEN["two of a name"](orders, functions, spark)) is None


@pytest.mark.parametrize("lists", [("_THROUGH", ("GlobalLimit", "LocalLimit", "Sort")), ("_EXPRESSIONS", frozenset({"AttributeReference", "Rand", "Literal"}))])  # fmt: skip
def test_a_longer_list_would_be_seen(lists: tuple[str, Any], orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twins: LIMIT taken for a node that only passes rows on; rand(), which then the checker itself must refuse."""
    from pyspark.sql import functions

    monkeypatch.setattr(plans, *lists)
    limited, drawn = plans.checked(orders.limit(2)), plans.checked(orders.select("user", functions.rand(7).alias("z")))
    assert (limited is not None) == (lists[0] == "_THROUGH")
    assert drawn is None
