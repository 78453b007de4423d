"""What is special to Spark: its settings, its catalogue, its two kinds of session."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from steelyard.errors import TableError, UncheckedQuery
from steelyard.privacy import users
from steelyard.tables import Capped, Quantity, read

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")

NASTY = "u long, k string, x double, i long"
DATA = [(1, "a", float("nan"), 2**63 - 1), (1, "b", 1e308, -(2**63)), (2, "a", None, None), (None, "a", 5.0, 1)]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_answers_do_not_depend_on_ansi_mode(spark: Any, ansi: str) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        table = read(spark.createDataFrame(DATA, NASTY))
        assert table.capped_sum(users("u"), Quantity("x", Fraction(1, 2)), -10, 2**60) == 2**53
        parts = [Capped(Quantity("i"), 10, norm) for norm in ("l1", "l2")]
        assert table.sums_by_key(users("u"), parts, "k", ["a", "b"]) == [[5, -5], [7, -7]]
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_the_catalogue_and_the_settings_are_left_alone(spark: Any) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        table = read(spark.createDataFrame(DATA, NASTY))
        table.count_units(users("u"))
        list(table.batches(["u"], 2))
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert spark.catalog.listTables() == []
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_streaming_frame_is_refused(spark: Any) -> None:
    with pytest.raises(TableError, match="never ends"):
        read(spark.readStream.format("rate").load())


def test_a_spark_frame_that_computes_is_a_table_as_given(spark: Any, tmp_path: Path) -> None:
    rows = spark.createDataFrame(pa.table({"u": [1, 2], "v": [1.0, 2.0]}))
    rows.write.parquet(str(tmp_path / "rows"))
    assert read(rows).stored
    assert read(spark.read.parquet(str(tmp_path / "rows"))).stored
    rows.createOrReplaceTempView("as_given")
    for query in (rows.filter("u > 1"), rows.limit(1), spark.sql("SELECT u, max(v) OVER () AS v FROM as_given")):
        with pytest.warns(UncheckedQuery):
            assert not read(query).stored
    spark.catalog.dropTempView("as_given")
