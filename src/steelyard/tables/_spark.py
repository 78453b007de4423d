"""Spark data frames, classic or Connect, asked where they live.

The same Ibis expressions, compiled for Spark and run on the data frame's own session. The session's settings and
catalogue are left alone: a view with a random name exists while a question runs, or while a Connect server reads it. No expression
used can fail under ANSI rules, so the answers do not depend on that setting.
"""

from __future__ import annotations

import copy
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

from steelyard.errors import EngineMissing, TableError
from steelyard.interrupts import attempt
from steelyard.tables import _plain as plain
from steelyard.tables import _soundness as soundness
from steelyard.tables import _spark_connect as connect
from steelyard.tables._engine import GuardedBlocks, InPlace, guarded, guarded_batches, typed
from steelyard.tables._folding import Step, on_spark
from steelyard.tables._identity import SPARK_ROWS, description, is_connect, is_frame, simple_name
from steelyard.tables._kinds import check_names
from steelyard.tables._plain import KEYS, SOURCE
from steelyard.tables._quiet_spark import quiet_spark
from steelyard.tables._table import Table
from steelyard.tables._totals import SPARK
from steelyard.tables._unit_blocks import Convert, SparkBlocks, UnitBlocks

INSTALL = "pip install 'steelyard[spark]'"
_GUESSES = "spark.sql.sources.partitionColumnTypeInference.enabled"
_HELD = {*SPARK_ROWS, "Range", "OneRowRelation"}
"""What a plan may begin with that is no file, no RDD and no other system's table."""


def spark_frame(where: str, place: str) -> Any:
    """A data frame by its place, a table of the catalogue or (with a slash) Parquet files, of a master or a Connect server."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise EngineMissing("a source on Spark needs its driver.", install=INSTALL) from None
    builder: Any = SparkSession.builder
    if where.startswith("sc://"):
        session = builder.remote(where).getOrCreate()  # a server has settings of its own
    else:
        session = builder.master(where).appName("steelyard").config("spark.ui.enabled", "false").getOrCreate()
    with quiet_spark():
        found = attempt(lambda: _known(session.read.parquet(place) if "/" in place else session.table(place)))
    if found is None:
        raise TableError(f"Spark at {where} finds no {'Parquet files' if '/' in place else 'table'} at {place}.")
    return found[0]


def _known(frame: Any) -> Any:
    """A frame whose columns were asked for: a Connect server looks for what it reads only then."""
    _ = frame.schema
    return frame


_lock = threading.Lock()
_asking: dict[str, int] = {}  # how many questions look at a view that exists while they run


class SparkEngine:
    """The session of a Spark data frame."""

    dialect = SPARK

    def __init__(self, frame: Any) -> None:
        self.source = f"{SOURCE}_{secrets.token_hex(8)}"
        self._frame = frame
        self._session = frame.sparkSession
        self.token = object()
        self.origin: frozenset[str] = frozenset()
        self.held: object = None
        self.server: InPlace | None = None
        self._shown: Mapping[str, Callable[[], Any]] = {self.source: lambda: frame}

    @property
    def session(self) -> Any:
        """The Spark session that answers."""
        return self._session

    @property
    def frame(self) -> Any:
        """The data frame with its columns in plain form."""
        return self._frame

    def showing(self, more: Mapping[str, Callable[[], Any]]) -> SparkEngine:
        """The same data frame with others beside it."""
        made = copy.copy(self)
        made._shown = {**self._shown, **more}
        return made

    def bind(self, sql: str, columns: Sequence[str], empty: Mapping[str, Any]) -> bool:
        """Whether Spark can analyse a question."""
        return attempt(lambda: self._analysed(sql)) is not None

    def _analysed(self, sql: str) -> list[str]:
        with self._view(sql) as question:
            return list(question.columns)

    def rows(self, sql: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Run one question and fetch its small answer."""
        return guarded(lambda: self._rows(sql))

    def arrow(self, sql: str, columns: Sequence[str], beside: Mapping[str, Any]) -> Any:
        """Run one question beside public tables and fetch its answer."""
        return guarded(lambda: self._arrow(sql, beside))

    def beside(self) -> str:
        """A name nobody else has in the session."""
        return f"{KEYS}_{secrets.token_hex(8)}"

    def held_batches(self, columns: Sequence[str], size: int) -> None:
        """None: rows lie with the workers."""

    def batches(self, sql: str, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Run one question and stream its answer, one partition of the data frame at a time."""
        return guarded_batches(self._batches(sql, size))

    def fold(self, sql: str, columns: Sequence[str], size: int, step: Step, start: Sequence[Any]) -> list[Any]:
        """Run one question and add up what a step makes of each batch, on the workers."""
        return guarded(lambda: self._fold(sql, step, start))

    def require_workers(self) -> None:
        """Refuse a Connect session whose workers cannot run what fits send them; classic executors are given what this Python has."""
        if is_connect(self._frame):
            connect.require_workers(self._session)

    def unit_blocks(
        self,
        sql: str,
        columns: Sequence[str],
        whose: str | None,
        convert: Convert,
        width: int,
        aside: Step | None = None,
    ) -> UnitBlocks:
        """Divide an answer by unit among the workers, and keep its blocks there."""
        return GuardedBlocks(guarded(lambda: self._unit_blocks(sql, whose, convert)))

    def _unit_blocks(self, sql: str, whose: str | None, convert: Convert) -> UnitBlocks:
        with self._view(sql) as question:
            return SparkBlocks(question, whose, convert)

    def _fold(self, sql: str, step: Step, start: Sequence[Any]) -> list[Any]:
        with self._view(sql) as question:
            return on_spark(question, step, start)

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._view(sql) as question:
            return [tuple(row) for row in question.collect()]

    def _arrow(self, sql: str, beside: Mapping[str, Any]) -> Any:
        public = {name: partial(self._session.createDataFrame, table) for name, table in beside.items()}
        with self.showing(public)._view(sql) as question:
            return question.toArrow()

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
        with quiet_spark(), self._connected(sql) if is_connect(self._frame) else self._catalogued(sql) as question:
            yield question

    @contextmanager
    def _connected(self, sql: str) -> Iterator[Any]:
        yield connect.asked(self._session, sql, {name: frame() for name, frame in self._shown.items()})

    @contextmanager
    def _catalogued(self, sql: str) -> Iterator[Any]:
        with _lock:
            for name, frame in self._shown.items():
                _asking[name] = _asking.get(name, 0) + 1
                if _asking[name] == 1:
                    frame().createOrReplaceTempView(name)
        try:
            yield self._session.sql(sql)
        finally:
            with _lock:
                for name in self._shown:
                    _asking[name] -= 1
                    if not _asking[name]:
                        del _asking[name]
                        self._session.catalog.dropTempView(name)


def read_spark(frame: Any, *, stored: bool) -> Table:
    """A table over a Spark data frame; only its schema is looked at."""
    import ibis

    if not is_frame(frame):
        raise TableError(f"a Spark {type(frame).__name__} is not a table; give a DataFrame.")
    remote = is_connect(frame)
    if remote:
        connect.check_description(frame)
    if connect.told(lambda: frame.isStreaming) if remote else frame.isStreaming:
        raise TableError("a streaming Spark DataFrame never ends; give a batch one.")
    load_dialect()
    from ibis.backends.pyspark.datatypes import PySparkType

    if remote:
        connect.check_sound(frame.sparkSession)
        frame = connect.pinned(frame)
    else:
        soundness.once("Spark", lambda: soundness.spark_passes(frame.sparkSession))
    check_names(connect.told(lambda: frame.columns) if remote else frame.columns)
    frame = plain.in_spark(frame, doubtful(frame))
    fields = connect.told(lambda: frame.schema.fields) if remote else frame.schema.fields
    schema = {field.name: _ibis_type(PySparkType, field.dataType) for field in fields}
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
    scans, guesses = list(_scans(leaves)), str(frame.sparkSession.conf.get(_GUESSES, "true")).lower() != "false"
    named = {name.casefold() for scan in scans for name in _by_folders(scan)} if guesses else set()
    if is_connect(frame):  # whose server may still know what it guessed before it was told not to
        texts = set() if guesses else {field.name.casefold() for field in frame.schema.fields if _is_text(field)}
        named = connect.by_folders(frame) - texts
    kinds = {field.name: str(field.dataType.typeName()) for field in frame.schema.fields}
    return {name for name, kind in kinds.items() if kind.startswith("timestamp") or name.casefold() in named}


def _is_text(field: Any) -> bool:
    return str(field.dataType.typeName()) == "string"


def _leaves(frame: Any) -> list[tuple[str, Any]]:
    """What a plan reads, each with its kind; Spark Connect tells only whether that is rows of its own."""
    if is_connect(frame):
        return [(type(description(frame)).__name__, None)]
    found = frame._jdf.queryExecution().analyzed().collectLeaves()
    return [(simple_name(leaf), leaf) for leaf in map(found.apply, range(found.size()))]


def _scans(leaves: Sequence[tuple[str, Any]]) -> Iterator[Any]:
    """The scans of files; one that a single row can make fail is refused."""
    for kind, leaf in leaves:
        if kind == "LogicalRelation" and simple_name(leaf.relation()) == "HadoopFsRelation":
            mode = leaf.relation().options().get("mode")
            if mode.isDefined() and str(mode.get()).upper() == "FAILFAST":
                raise TableError(connect.STRICT)
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
