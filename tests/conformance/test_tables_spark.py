"""What is special to Spark: its settings, its catalogue, its two kinds of session."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import steelyard as sy
from steelyard.errors import InvalidTask, TableError, UncheckedQuery
from steelyard.labels import LabelRandomizer
from steelyard.privacy import users
from steelyard.tables import Capped, Quantity, _spark, read
from steelyard.tables import _plain as plain
from steelyard.tables._quiet_spark import quiet_spark

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::steelyard.errors.UncheckedQuery"),
]

NASTY = "u long, k string, x double, i long"
DATA = [(1, "a", float("nan"), 2**63 - 1), (1, "b", 1e308, -(2**63)), (2, "a", None, None), (None, "a", 5.0, 1)]


SECRET = b"s" * 32


@contextmanager
def told(spark: Any, setting: str, value: str) -> Iterator[None]:
    """A session with one setting changed for a while."""
    before = spark.conf.get(setting)
    spark.conf.set(setting, value)
    try:
        yield
    finally:
        spark.conf.set(setting, before)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_answers_do_not_depend_on_ansi_mode(spark: Any, ansi: str) -> None:
    with told(spark, "spark.sql.ansi.enabled", ansi):
        table = read(spark.createDataFrame(DATA, NASTY))
        assert table.capped_sum(users("u"), Quantity("x", Fraction(1, 2)), -10, 2**60) == 2**53
        parts = [Capped(Quantity("i"), 10, norm) for norm in ("l1", "l2")]
        assert table.sums_by_key(users("u"), parts, "k", ["a", "b"]) == [[5, -5], [7, -7]]
        rows = pa.table({"i": range(9), "k": [f"k{i}" for i in range(9)]})
        found = read(spark.createDataFrame(rows)).fingerprint(["i", "k"], SECRET)
        assert found == read(rows).fingerprint(["i", "k"], SECRET)


@pytest.fixture
def printed() -> Iterator[StringIO]:
    """What PySpark writes of errors, read from its own loggers."""
    from pyspark.logger import PySparkLogger

    handler = logging.StreamHandler(StringIO())
    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("DataFrame", "SQL")]
    for logger in loggers:
        logger.addHandler(handler)
    yield handler.stream
    for logger in loggers:
        logger.removeHandler(handler)


def test_a_cell_that_spark_cannot_cast_is_not_printed_by_pyspark(spark: Any, printed: StringIO) -> None:
    rows = spark.createDataFrame(pa.table({"u": [1], "c": ["a secret"]})).selectExpr("u", "CAST(trim(c) AS INT) AS n")
    account = sy.open_account(":memory:", "quiet", unit=users("u"), epsilon=9, delta="1e-6")
    session = sy.Session(read(rows), account)
    fit = sy.FitLinear([sy.models.Numeric("n", 0, 1)], "u", 0, 1, epsilon=1)  # rows are laid aside, then passed over
    for task in (sy.Sum("n", epsilon=1, cap=3), fit):
        with pytest.raises(TableError, match="The reason is not told"):
            session.release(task)
    assert printed.getvalue() == ""
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        rows.collect()
    assert "a secret" in printed.getvalue(), "PySpark prints nothing any more: what keeps it quiet can go"


@pytest.fixture
def everything(spark: Any) -> Iterator[StringIO]:
    """Whatever is logged in this process, to the last detail, by records that do not say their thread."""
    handler, root = logging.StreamHandler(StringIO()), logging.getLogger()
    level, threads = root.level, logging.logThreads
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    logging.logThreads = False
    yield handler.stream
    logging.logThreads = threads
    root.setLevel(level)
    root.removeHandler(handler)


def test_no_cell_is_logged_by_the_wire_to_java_nor_where_records_do_not_say_their_thread(
    spark: Any, printed: StringIO, everything: StringIO
) -> None:
    rows = spark.createDataFrame(pa.table({"u": [1], "c": ["a secret"]})).selectExpr("u", "CAST(trim(c) AS INT) AS n")
    account = sy.open_account(":memory:", "quiet wires", unit=users("u"), epsilon=9)
    session = sy.Session(read(rows), account)
    with pytest.raises(TableError, match="The reason is not told"):
        session.release(sy.Sum("n", epsilon=1, cap=3))
    assert "a secret" not in printed.getvalue() + everything.getvalue()
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        rows.collect()
    assert "a secret" in printed.getvalue()
    assert "a secret" in everything.getvalue(), "Py4J logs nothing any more: what keeps it quiet can go"


def test_loggers_are_made_once_and_whoever_logs_in_another_thread_is_heard(spark: Any, printed: StringIO) -> None:
    from pyspark.logger import PySparkLogger

    made = PySparkLogger.getLogger("SQLQueryContextLogger")
    kinds = list[type]()
    with quiet_spark():
        made.warning("of this thread")
        other = threading.Thread(target=made.warning, args=("of another",))
        other.start()
        other.join()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(logging, "setLoggerClass", kinds.append)
            with quiet_spark():
                made.warning("within")
        made.warning("still of this thread")
    made.warning("after it")
    assert [json.loads(line)["msg"] for line in printed.getvalue().splitlines()] == ["of another", "after it"]
    assert kinds == []
    assert logging.getLoggerClass() is logging.Logger


def test_the_catalogue_and_the_settings_are_left_alone(spark: Any) -> None:
    before = spark.catalog.listTables()  # other tests share the session
    with told(spark, "spark.sql.session.timeZone", "Asia/Tokyo"):
        table = read(spark.createDataFrame(DATA, NASTY))
        table.count_units(users("u"))
        list(table.batches(["u"], 2))
        assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
        assert spark.catalog.listTables() == before


def test_a_streaming_frame_is_refused(spark: Any) -> None:
    with pytest.raises(TableError, match="never ends"):
        read(spark.readStream.format("rate").load())


def test_a_spark_frame_that_computes_is_a_table_as_given(spark: Any, tmp_path: Path) -> None:
    rows = spark.createDataFrame(pa.table({"u": [1, 2], "v": [1.0, 2.0]}))
    rows.write.parquet(str(tmp_path / "rows"))
    assert read(rows).stored
    assert read(spark.read.parquet(str(tmp_path / "rows"))).stored
    rows.createOrReplaceTempView("as_given")
    window = spark.sql("SELECT u, max(v) OVER () AS v FROM as_given")
    behind = spark.createDataFrame(window.rdd, window.schema)  # an RDD does not tell what was done to its rows
    assert read(rows.filter("u > 1")).stored  # a filter is checked by its plan, and keeps people apart
    for query in (rows.limit(1), window, behind):
        with pytest.warns(UncheckedQuery):
            assert not read(query).stored
    spark.catalog.dropTempView("as_given")


def test_a_frame_that_reads_otherwise_each_time_gives_no_unit_more_rows_than_its_limit(spark: Any) -> None:
    def tossed(place: int) -> bool:
        return random.SystemRandom().random() < 0.5

    rows = spark.sparkContext.parallelize(range(400), 2).filter(tossed).map(lambda i: (i % 4, i))
    table = read(spark.createDataFrame(rows, "u long, v long"))
    kept = [row["u"] for batch in table.keep_rows(users("u"), 50).batches(["u"]) for row in batch.to_pylist()]
    assert max(Counter(kept).values()) <= 50  # half of the readings have more, half fewer, and two of them up to 100


HALF_PAST = 1_698_539_400_000_000
"""Half past midnight in UTC on the morning when Berlin's clocks are set back: half past two there, as an hour later."""


def set_back(spark: Any) -> Any:
    moments = [HALF_PAST, HALF_PAST + 1_800_000_000, HALF_PAST + 3_600_000_000]
    return spark.createDataFrame(pa.table({"m": pa.array(moments, pa.timestamp("us", "UTC")), "u": [1, 2, 3]}))


@pytest.fixture
def berlin(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Python and Spark by Berlin's clocks."""
    with monkeypatch.context() as patched, told(spark, "spark.sql.session.timeZone", "Europe/Berlin"):
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_clocks_that_are_set_back_make_two_units_one_nowhere(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched() -> int:
        batches = read(set_back(spark)).batches_by_unit(["u"], users("m"))
        return len({row["m"] for batch in batches for row in batch.to_pylist()})

    assert fetched() == 3
    monkeypatch.setattr(plain, "_on_one_clock", lambda moment: moment)
    assert fetched() == 2


def scan(spark: Any, folder: Path, last: int, *lands: str) -> Any:
    """A partitioned Parquet table with a column of moments that is counted in milliseconds."""
    body = b"".join(moment.to_bytes(8, "little") for moment in [*range(len(lands) - 1), last])
    moments = pa.Array.from_buffers(pa.timestamp("ms"), len(lands), [None, pa.py_buffer(body)])
    table = pa.table({"m": moments, "land": list(lands)})
    pq.write_to_dataset(table, folder, partition_cols=["land"])
    return spark.read.parquet(str(folder))


def test_what_spark_may_fail_to_read_cannot_be_asked_for(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = read(scan(spark, tmp_path, 2**62, "1", "2"))
    with pytest.raises(TableError, match="cannot name a unit"):
        table.count_units(users("m"))
    monkeypatch.setattr(_spark, "doubtful", lambda frame: set())
    with pytest.raises(TableError, match="could not answer"):
        read(spark.read.parquet(str(tmp_path))).count_units(users("m"))


def test_no_folder_decides_the_kind_of_the_others_on_spark_either(spark: Any, tmp_path: Path) -> None:
    for name, lands in {"few": ("1", "2"), "more": ("1", "2", "n/a")}.items():
        assert read(scan(spark, tmp_path / name, 3, *lands)).columns["land"] == "other"
        with told(spark, _spark._GUESSES, "false"):
            assert read(spark.read.parquet(str(tmp_path / name))).columns["land"] == "string"


def test_files_that_one_row_can_make_unreadable_are_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("1,2.0\n")
    files = spark.read.schema("u int, v double")
    assert read(files.csv(str(tmp_path))).stored
    for mode in ("FAILFAST", "failfast"):
        strict = files.option("mode", mode).csv(str(tmp_path))
        for guesses in ("true", "false"):
            with told(spark, _spark._GUESSES, guesses), pytest.raises(TableError, match="one row decides"):
                read(strict)


def test_labels_of_a_spark_frame_are_refused_with_what_to_do_and_nothing_is_charged(spark: Any) -> None:
    frame = spark.createDataFrame([(1.0,), (2.0,)], "y double")
    randomizer = LabelRandomizer(epsilon=1, lower=0, upper=10).fit()
    before = randomizer.account_.remaining
    for given in (frame, frame.select("y"), frame.y, frame.rdd):
        with pytest.raises(InvalidTask, match=r"drawn anew, for one charge.*randomize_spark.*steelyard labels apply"):
            randomizer.transform(given)
        with pytest.raises(InvalidTask, match="drawn anew, for one charge"):
            LabelRandomizer(epsilon=1, lower=0, upper=10, prior="private").fit(given)
    assert randomizer.account_.remaining == before
    randomizer.transform([1.0, 2.0])
    assert randomizer.account_.remaining != before
