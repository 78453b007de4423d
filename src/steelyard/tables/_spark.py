"""Spark data frames, classic or Connect, asked where they live.

The same Ibis expressions, compiled for Spark and run on the data frame's own session. The session's settings and
catalogue are left alone: a view with a random name exists while a question runs. No expression used can fail under
ANSI rules, so the answers do not depend on that setting.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from steelyard.errors import EngineMissing, TableError
from steelyard.tables import _plain as plain
from steelyard.tables import _soundness as soundness
from steelyard.tables._engine import guarded, guarded_batches, typed
from steelyard.tables._folding import Step, on_spark
from steelyard.tables._identity import SPARK_ROWS, simple_name
from steelyard.tables._kinds import check_names
from steelyard.tables._plain import SOURCE
from steelyard.tables._table import Table
from steelyard.tables._totals import SPARK

INSTALL = "pip install 'steelyard[spark]'"
_GUESSES = "spark.sql.sources.partitionColumnTypeInference.enabled"
_HELD = {*SPARK_ROWS, "Range", "OneRowRelation"}
"""What a plan may begin with that is no file, no RDD and no other system's table."""


class SparkEngine:
    """The session of a Spark data frame."""

    dialect = SPARK

    def __init__(self, frame: Any) -> None:
        self.source = f"{SOURCE}_{secrets.token_hex(8)}"
        self._frame = frame
        self._session = frame.sparkSession
        self._lock = threading.Lock()
        self._asking = 0

    def rows(self, sql: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Run one question and fetch its small answer."""
        return guarded(lambda: self._rows(sql))

    def batches(self, sql: str, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Run one question and stream its answer, one partition of the data frame at a time."""
        return guarded_batches(self._batches(sql, size))

    def fold(self, sql: str, columns: Sequence[str], size: int, step: Step, start: Sequence[Any]) -> list[Any]:
        """Run one question and add up what a step makes of each batch, on the workers."""
        return guarded(lambda: self._fold(sql, step, start))

    def _fold(self, sql: str, step: Step, start: Sequence[Any]) -> list[Any]:
        with self._view(sql) as question:
            return on_spark(question, step, start)

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._view(sql) as question:
            return [tuple(row) for row in question.collect()]

    def _batches(self, sql: str, size: int) -> Iterator[Any]:
        import pyarrow
        from pyspark.sql.pandas.types import to_arrow_schema

        with self._view(sql) as question:
            schema = to_arrow_schema(question.schema)
            rows = iter(question.toLocalIterator())
            held = iter(lambda: [row.asDict() for row in islice(rows, size)], [])
            yield from typed((pyarrow.RecordBatch.from_pylist(each, schema) for each in held), schema)

    @contextmanager
    def _view(self, sql: str) -> Iterator[Any]:
        with self._lock:
            self._asking += 1
            if self._asking == 1:
                self._frame.createOrReplaceTempView(self.source)
        try:
            yield self._session.sql(sql)
        finally:
            with self._lock:
                self._asking -= 1
                if self._asking == 0:
                    self._session.catalog.dropTempView(self.source)


def read_spark(frame: Any, *, stored: bool) -> Table:
    """A table over a Spark data frame; only its schema is looked at."""
    import ibis

    if not hasattr(frame, "createOrReplaceTempView"):
        raise TableError(f"a Spark {type(frame).__name__} is not a table; give a DataFrame.")
    if frame.isStreaming:
        raise TableError("a streaming Spark DataFrame never ends; give a batch one.")
    load_dialect()
    from ibis.backends.pyspark.datatypes import PySparkType

    soundness.once("Spark", lambda: soundness.spark_passes(frame.sparkSession))
    check_names(frame.columns)
    frame = plain.in_spark(frame, doubtful(frame))
    schema = {field.name: _ibis_type(PySparkType, field.dataType) for field in frame.schema.fields}
    engine = SparkEngine(frame)
    return Table(engine, ibis.table(schema, name=engine.source), stored=stored)


def doubtful(frame: Any) -> set[str]:
    """The columns that are shown but cannot be used, as the plan says.

    A moment of a file may be counted in milliseconds, and Spark fails at one that microseconds cannot count. What folders name has a type
    that Spark guessed from all of them, unless it was told to guess none; a catalogue declares it.
    """
    leaves = _leaves(frame)
    if all(kind in _HELD for kind, _ in leaves):
        return set()
    named = {name.casefold() for scan in _scans(leaves) for name in _by_folders(scan)}
    if str(frame.sparkSession.conf.get(_GUESSES, "true")).lower() == "false":
        named = set()
    kinds = {field.name: str(field.dataType.typeName()) for field in frame.schema.fields}
    return {name for name, kind in kinds.items() if kind.startswith("timestamp") or name.casefold() in named}


def _leaves(frame: Any) -> list[tuple[str, Any]]:
    """What a plan reads, each with its kind; Spark Connect tells only whether that is rows of its own."""
    if not hasattr(frame, "_jdf"):
        return [(type(getattr(frame, "_plan", None)).__name__, None)]
    found = frame._jdf.queryExecution().analyzed().collectLeaves()
    return [(simple_name(leaf), leaf) for leaf in map(found.apply, range(found.size()))]


def _scans(leaves: Sequence[tuple[str, Any]]) -> Iterator[Any]:
    """The scans of files; one that a single row can make fail is refused."""
    for kind, leaf in leaves:
        if kind == "LogicalRelation" and simple_name(leaf.relation()) == "HadoopFsRelation":
            mode = leaf.relation().options().get("mode")
            if mode.isDefined() and str(mode.get()).upper() == "FAILFAST":
                raise TableError(
                    "the files are read with mode FAILFAST, in which one row decides a failure; read them with PERMISSIVE."
                )
            yield leaf


def _by_folders(scan: Any) -> list[str]:
    """The columns that folders name, and no catalogue declares."""
    return list(scan.relation().partitionSchema().fieldNames()) if scan.catalogTable().isEmpty() else []


def load_dialect() -> None:
    """Load Ibis's Spark compiler, or say how to install what it needs."""
    import ibis

    missing = False
    try:
        _ = ibis.pyspark
    except (ImportError, AttributeError):
        missing = True
    if missing:
        raise EngineMissing("Spark tables need PySpark.", install=INSTALL)


def _ibis_type(mapper: Any, kind: Any) -> Any:
    import ibis.expr.datatypes as dt
    from ibis.common.exceptions import IbisError

    try:
        return mapper.to_ibis(kind)
    except (IbisError, KeyError, TypeError, ValueError, NotImplementedError):
        return dt.unknown
