"""Engines: the one place where a question is run on private rows.

An engine is a dialect and a way to run SQL; the SQL is written by Ibis. Each table has its own private in-memory
DuckDB, never the caller's default one, so names cannot collide and nothing of the caller's can be changed.
Law: once rows may have been read, every failure has one fixed text, and neither its cause nor its context survives.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Protocol, TypeVar, cast

from steelyard.errors import TableError
from steelyard.interrupts import attempt
from steelyard.tables import _plain as plain
from steelyard.tables import _soundness as soundness
from steelyard.tables._folding import Step, added
from steelyard.tables._plain import PLAIN, SOURCE, Bind
from steelyard.tables._totals import DUCKDB, Dialect

FAILED = (
    "the engine could not answer. Nothing more is said here, because the reason may depend on private rows. "
    "Check that the files are complete, that nobody changed them meanwhile, and that memory and disk suffice."
)

BLIND = "statistics_propagation,filter_pushdown,join_filter_pushdown,join_order"
"""What DuckDB must not do: look at statistics about rows, be it to fold a guard, to skip rows it would drop or to order joins.

Parquet's least and largest values leave NaN out, so a planner that believes them lets NaN pass, or not, by other rows.
One that only looks fails where it cannot convert one of them, though nobody asked for that column.
"""

T = TypeVar("T")


class Engine(Protocol):
    """What can answer."""

    dialect: Dialect

    def rows(self, sql: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """All rows of a small answer; ``columns`` are those the question reads."""
        ...

    def batches(self, sql: str, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Arrow record batches of an answer, streamed; at least one, which tells the types where there is no row."""
        ...

    def fold(self, sql: str, columns: Sequence[str], size: int, step: Step, start: Sequence[Any]) -> list[Any]:
        """The start plus what a step makes of every batch of an answer, added up."""
        ...


def guarded(action: Callable[[], T]) -> T:
    """Do something that reads rows; any failure becomes one fixed-text ``TableError`` without cause or context."""
    made = attempt(action)
    if made is None:
        raise TableError(FAILED)
    return made[0]


def typed(batches: Iterable[Any], schema: Any) -> Iterator[Any]:
    """The same batches; where there are none, one without rows, so that no rows have the types of some."""
    import pyarrow as pa

    none = True
    for batch in batches:
        none = False
        yield batch
    if none:
        yield pa.RecordBatch.from_pylist([], schema)


def guarded_batches(batches: Iterator[T]) -> Iterator[T]:
    """The same for a stream: each step is guarded, and closing the stream early closes the question."""
    end = object()
    try:
        while (batch := guarded(lambda: next(batches, end))) is not end:
            yield cast("T", batch)
    finally:
        guarded(getattr(batches, "close", lambda: None))


class DuckEngine:
    """A private in-memory DuckDB that sees one source."""

    dialect = DUCKDB

    def __init__(self, bind: Bind, text: str = plain.REPAIRED) -> None:
        self._bind, self._text = bind, text
        self._kinds: dict[str, str] = {}
        self._lock = threading.Lock()
        self._connection: Any = None

    def describe(self) -> list[tuple[str, str]] | None:
        """Column names and DuckDB types, or None where the source has no schema; reads no row.

        Only the source's own errors are kept silent, since they may quote it: an engine that cannot start says so.
        """
        import duckdb

        with closing(self._cursor()) as cursor, suppress(duckdb.Error):
            self._bind(cursor, (), True)
            self._kinds = {row[0]: row[1] for row in cursor.execute(f"DESCRIBE {SOURCE}").fetchall()}
            return list(self._kinds.items())
        return None

    def rows(self, sql: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Run one question and fetch its small answer."""
        return guarded(lambda: self._rows(sql, columns))

    def batches(self, sql: str, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Run one question and stream its answer."""
        return guarded_batches(self._batches(sql, columns, size))

    def fold(self, sql: str, columns: Sequence[str], size: int, step: Step, start: Sequence[Any]) -> list[Any]:
        """Run one question and add up what a step makes of each batch."""
        return guarded(lambda: added(start, map(step, self._narrow(sql, columns, size))))

    def _rows(self, sql: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        with closing(self._cursor()) as cursor:
            self._show(cursor, columns, _once(sql))
            return list(cursor.execute(sql).fetchall())

    def _batches(self, sql: str, columns: Sequence[str], size: int) -> Iterator[Any]:
        with closing(self._cursor()) as cursor:
            self._show(cursor, columns, _once(sql))
            reader = cursor.sql(sql).to_arrow_reader(size)
            yield from typed(reader, reader.schema)

    def _narrow(self, sql: str, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Batches from a DuckDB of their own that reads little ahead: adding up is what takes the time."""
        spill = tempfile.mkdtemp(prefix="steelyard-")
        connection = _connect(spill, {"threads": "2", "disable_parquet_prefetching": "true"})
        try:
            self._show(connection, columns, _once(sql))
            yield from connection.sql(sql).to_arrow_reader(size)
        finally:
            _close(connection, spill)

    def _show(self, cursor: Any, columns: Sequence[str], once: bool) -> None:
        """Bind the source, and before it the needed columns in plain form."""
        self._bind(cursor, columns, once)
        forms = [(name, plain.in_duckdb(name, self._kinds[name], self._text)) for name in columns]
        shown = ", ".join(form + ' AS "' + name.replace('"', '""') + '"' for name, form in forms)
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {PLAIN} AS SELECT {shown} FROM {SOURCE}")

    def _cursor(self) -> Any:
        with self._lock:
            if self._connection is None:
                self._connection = self._open()
            return self._connection.cursor()

    def _open(self) -> Any:
        spill = tempfile.mkdtemp(prefix="steelyard-")  # private to this user, and gone with the table
        connection = _connect(spill, {})
        weakref.finalize(self, _close, connection, spill)
        soundness.once("DuckDB", lambda: soundness.duckdb_passes(connection, spill))
        return connection


def _connect(spill: str, more: Mapping[str, str]) -> Any:
    import duckdb

    own = {
        "temp_directory": spill,
        "preserve_insertion_order": "false",
        "autoinstall_known_extensions": "false",
        "python_enable_replacements": "false",
        "disabled_optimizers": BLIND,
    }
    connection = duckdb.connect(":memory:", config={**own, **more})
    _hide_progress(connection)
    return connection


def _hide_progress(connection: Any) -> None:
    """Turn the progress bar off, which would tell how many rows there are.

    In a notebook without ipywidgets there is no bar and DuckDB refuses to be told so; hence the question first.
    """
    [(shown,)] = connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()
    if shown:
        connection.execute("SET enable_progress_bar = false")


def _once(sql: str) -> bool:
    """Whether the source is named once, and outside any part that the engine may choose to run again."""
    return sql.count(PLAIN) == 1 and not sql.startswith("WITH")


def _close(connection: Any, spill: str) -> None:
    with suppress(RuntimeError, OSError):
        connection.close()
    shutil.rmtree(spill, ignore_errors=True)
