"""Engines: the one place where a question is run on private rows.

An engine is a dialect and a way to run SQL; the SQL is written by Ibis. Each table has its own private in-memory
DuckDB, never the caller's default one, so names cannot collide and nothing of the caller's can be changed.
Law: once rows may have been read, every failure has one fixed text, and neither its cause nor its context survives.
"""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any, Protocol, TypeVar, cast

from steelyard.errors import TableError
from steelyard.interrupts import attempt
from steelyard.tables import _plain as plain
from steelyard.tables import _soundness as soundness
from steelyard.tables._folding import Step, added
from steelyard.tables._frames import InMemory
from steelyard.tables._plain import KEYS, PLAIN, SOURCE, Bind
from steelyard.tables._totals import DUCKDB, Dialect
from steelyard.tables._unit_blocks import ROWS, Convert, Made, Pass, UnitBlocks, held

FAILED = (
    "the engine could not answer. Nothing more is said here, because the reason may depend on private rows. "
    "Check that the files are complete, that nobody changed them meanwhile, and that memory and disk suffice."
)

BLIND = "statistics_propagation,filter_pushdown,join_filter_pushdown,join_order"
"""What DuckDB must not do: look at statistics about rows, be it to fold a guard, to skip rows it would drop or to order joins.

Parquet's least and largest values leave NaN out, so a planner that believes them lets NaN pass, or not, by other rows.
One that only looks fails where it cannot convert one of them, though nobody asked for that column.
"""

WRONG = "top_n_window_elimination"
"""What DuckDB does wrongly without the others: of each group's first rows in an order it may give one too few, and it keeps them in memory."""

MEMORY = 600_000_000
"""Bytes that a private DuckDB works in before it goes to disk, unless a table was read with another number."""

_ANSWER, _FEW = "steelyard_answer", 1000  # an answer by so few public keys, or fewer, is held by its cursor
_KEPT = 8  # cursors on a source

T = TypeVar("T")


class InPlace(Protocol):
    """What answers some questions where the rows lie, so that only few numbers leave it; the others are its engine's."""

    dialect: Dialect

    def takes(self, question: Any, columns: Sequence[str], rows: Any) -> bool:
        """Whether a question can be answered there; a public fact."""
        ...

    def parses(self, sql: str, columns: Sequence[str], beside: Mapping[str, Any]) -> bool:
        """Whether a statement is understood there; no row is read."""
        ...

    def rows(self, sql: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """All rows of a small answer."""
        ...

    def arrow(self, sql: str, columns: Sequence[str], beside: Mapping[str, Any]) -> Any:
        """The same beside public Arrow tables, as an Arrow table."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """All that is asked in between is asked of one state of the rows."""
        ...


class Engine(Protocol):
    """What can answer."""

    dialect: Dialect
    token: object  # the same for engines that read one source
    origin: frozenset[str]  # the files or objects that the rows lie in, as far as it is known
    held: object  # the source, as it was given
    server: InPlace | None  # who adds up where the rows lie, where that is another than who streams them

    def showing(self, more: Mapping[str, Callable[[], Any]]) -> Engine:
        """The same source with other tables beside it, each under a name of its own and made anew for each question."""
        ...

    def bind(self, sql: str, columns: Sequence[str], empty: Mapping[str, Any]) -> bool:
        """Whether a question can be bound at all; no row is read. ``empty`` has the schemas of what is shown beside."""
        ...

    def rows(self, sql: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """All rows of a small answer; ``columns`` are those the question reads."""
        ...

    def arrow(self, sql: str, columns: Sequence[str], beside: Mapping[str, Any]) -> Any:
        """All rows of an answer as an Arrow table; ``beside`` are public Arrow tables that the question names."""
        ...

    def beside(self) -> str:
        """A name for a public table that no other question has at the same time."""
        ...

    def batches(self, sql: str, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Arrow record batches of an answer, streamed; at least one, which tells the types where there is no row."""
        ...

    def held_batches(self, columns: Sequence[str], size: int) -> Iterator[Any] | None:
        """The same of the source's own rows, where they lie in memory and asking would change nothing about them."""
        ...

    def fold(self, sql: str, columns: Sequence[str], size: int, step: Step, start: Sequence[Any]) -> list[Any]:
        """The start plus what a step makes of every batch of an answer, added up."""
        ...

    def unit_blocks(
        self,
        sql: str,
        columns: Sequence[str],
        whose: str | None,
        convert: Convert,
        width: int,
        aside: Step | None = None,
    ) -> UnitBlocks:
        """An answer as blocks of whole numbers in which equal values of the column ``whose`` lie together.

        What ``aside`` makes of each batch that is kept is added up; only an engine on this machine is asked for it.
        """
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


def _cut(table: Any, size: int) -> Iterator[Any]:
    yield from typed(table.to_batches(max_chunksize=size), table.schema)


class GuardedBlocks:
    """Blocks whose every pass is guarded."""

    def __init__(self, blocks: UnitBlocks) -> None:
        self._blocks, self.aside = blocks, blocks.aside

    def mapped(self, made: Made, width: int) -> UnitBlocks:
        """The same with something made of each block's rows."""
        return GuardedBlocks(guarded(lambda: self._blocks.mapped(made, width)))

    def in_memory(self) -> list[tuple[Any, Any]] | None:
        """All blocks, where they are held."""
        return self._blocks.in_memory()

    def fold(self, step: Pass, start: Sequence[Any]) -> list[Any]:
        """One pass; any failure has the fixed text."""
        return guarded(lambda: self._blocks.fold(step, start))


def guarded_batches(batches: Iterator[T]) -> Iterator[T]:
    """The same for a stream: each step is guarded, and closing the stream early closes the question."""
    end = object()
    try:
        while (batch := guarded(lambda: next(batches, end))) is not end:
            yield cast("T", batch)
    finally:
        guarded(getattr(batches, "close", lambda: None))


def integers_by_place(answer: Any, size: int, parts: int) -> list[list[int]]:
    """From an Arrow table of ``k``, ``s0``, … to one integer per place for each part, 0 where no row has it."""
    import numpy as np

    column, found = answer.column("k").combine_chunks(), []
    places = np.array(column.to_pylist(), dtype=np.int64)  # Arrow's own way to NumPy loads pandas first
    for i in range(parts):
        given = wide_integers(answer.column(f"s{i}").combine_chunks())
        sums = np.zeros(size, dtype=given.dtype)
        sums[places] = given
        found.append(sums.tolist())
    return found


def wide_integers(column: Any) -> Any:
    """An Arrow column of decimal(38, 0) as integers, read from its 128-bit words: of 64 bits where all fit, else Python's own."""
    import numpy as np

    if not len(column):
        return np.zeros(0, dtype=np.int64)
    words = np.frombuffer(column.buffers()[1], dtype=np.int64).reshape(-1, 2)[
        column.offset : column.offset + len(column)
    ]
    low, high = words[:, 0], words[:, 1]
    if np.array_equal(low >> 63, high):
        return low
    return high.astype(object) * 2**64 + low.view(np.uint64).astype(object)


class DuckEngine:
    """A private in-memory DuckDB that sees one source."""

    dialect = DUCKDB

    def __init__(self, bind: Bind, text: str = plain.REPAIRED) -> None:
        self._bind, self._text = bind, text
        self.token = object()
        self.origin: frozenset[str] = frozenset()
        self.held: object = None
        self.server: InPlace | None = None
        self._others: Mapping[str, Callable[[], Any]] = {}
        self._owner: DuckEngine | None = None
        self._kinds: dict[str, str] = {}
        self._lock = threading.Lock()
        self._connection: Any = None
        self._memory = MEMORY
        self._kept: dict[tuple[str, ...], Any] = {}

    def work_in(self, memory: int) -> None:
        """Go to disk beyond so many bytes."""
        self._memory = memory
        with closing(self._cursor()) as cursor:
            cursor.execute(f"SET memory_limit = '{memory} bytes'")

    def showing(self, more: Mapping[str, Callable[[], Any]]) -> DuckEngine:
        """The same connection, which shows Arrow tables beside the source."""
        made = copy.copy(self)
        made._others, made._owner = {**self._others, **more}, self  # who owns the connection must live as long
        return made

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

    def bind(self, sql: str, columns: Sequence[str], empty: Mapping[str, Any]) -> bool:
        """Whether DuckDB takes a question, asked of the schemas alone."""
        import duckdb

        with closing(self._cursor()) as cursor, suppress(duckdb.Error):
            self._bind(cursor, (), True)
            self._plain(cursor, columns)
            for name, table in empty.items():
                cursor.register(name, table)
            cursor.execute(f"DESCRIBE {sql}")
            return True
        return False

    def rows(self, sql: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Run one question and fetch its small answer."""
        return guarded(lambda: self._within(lambda: self._rows(sql, columns)))

    def arrow(self, sql: str, columns: Sequence[str], beside: Mapping[str, Any]) -> Any:
        """Run one question beside public tables and fetch its answer."""
        return guarded(lambda: self._within(lambda: self._arrow(sql, columns, beside)))

    def _within(self, ask: Callable[[], T]) -> T:
        """Ask; where the memory does not suffice even with a disk, ask again with all there is."""
        import duckdb

        with suppress(duckdb.OutOfMemoryException):
            return ask()
        self.work_in(_everything())
        return ask()

    def beside(self) -> str:
        """Every question has a cursor of its own, so one name serves all."""
        return KEYS

    def batches(self, sql: str, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Run one question and stream its answer."""
        return guarded_batches(self._batches(sql, columns, size))

    def held_batches(self, columns: Sequence[str], size: int) -> Iterator[Any] | None:
        """Columns of numbers of an Arrow table, with no engine between: it would copy them to hand out the same."""
        found = self._bind.numbers(columns) if isinstance(self._bind, InMemory) else None
        return None if found is None else guarded_batches(_cut(found, size))

    def fold(self, sql: str, columns: Sequence[str], size: int, step: Step, start: Sequence[Any]) -> list[Any]:
        """Run one question and add up what a step makes of each batch."""
        return guarded(lambda: self._within(lambda: added(start, map(step, self._narrow(sql, columns, size)))))

    def unit_blocks(
        self,
        sql: str,
        columns: Sequence[str],
        whose: str | None,
        convert: Convert,
        width: int,
        aside: Step | None = None,
    ) -> UnitBlocks:
        """Sort an answer by unit, on disk where it is large, and keep its blocks."""
        if whose is not None:
            sql = f"SELECT * FROM ({sql}) ORDER BY " + '"' + whose.replace('"', '""') + '"'
        return GuardedBlocks(
            guarded(lambda: self._within(lambda: held(self._narrow(sql, columns, ROWS), convert, width, whose, aside)))
        )

    def _rows(self, sql: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        with self._shown(sql, columns) as cursor:
            return list(cursor.execute(sql).fetchall())

    def _arrow(self, sql: str, columns: Sequence[str], beside: Mapping[str, Any]) -> Any:
        with self._shown(sql, columns) as cursor:
            for name, table in beside.items():
                cursor.register(name, table)
            if sum(table.num_rows for table in beside.values()) <= _FEW:
                cursor.execute(f"CREATE OR REPLACE TEMP TABLE {_ANSWER} AS {sql}")
                sql = f"FROM {_ANSWER}"  # a relation is planned twice: let it be a short one
            answer = cursor.sql(sql).to_arrow_table()
            cursor.execute(f"DROP TABLE IF EXISTS {_ANSWER}")
            for name in beside:
                cursor.unregister(name)
            return answer

    def _batches(self, sql: str, columns: Sequence[str], size: int) -> Iterator[Any]:
        with closing(self._cursor()) as cursor:
            self._show(cursor, columns, _once(sql))
            reader = cursor.sql(sql).to_arrow_reader(size)
            yield from typed(reader, reader.schema)

    def _narrow(self, sql: str, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Batches from a DuckDB of their own that reads little ahead: adding up is what takes the time, and its part of the memory."""
        spill = tempfile.mkdtemp(prefix="steelyard-")
        room = self._memory * 3 // 4
        more = {"threads": "2", "disable_parquet_prefetching": "true", "memory_limit": f"{room} bytes"}
        connection = _connect(spill, more)
        try:
            self._show(connection, columns, _once(sql))
            yield from connection.sql(sql).to_arrow_reader(size)
        finally:
            _close(connection, spill)

    @contextmanager
    def _shown(self, sql: str, columns: Sequence[str]) -> Iterator[Any]:
        """A cursor that sees the source; of files it is kept for the next question of the same columns, unless this one fails."""
        lasting, name, sound = getattr(self._bind, "lasting", False) and not self._others, tuple(columns), False
        known = self._kept.pop(name, None) if lasting else None
        cursor = known or self._cursor()
        try:
            if known is None:
                self._show(cursor, columns, _once(sql))
            yield cursor
            sound = True
        finally:
            if not (lasting and sound and len(self._kept) < _KEPT and self._kept.setdefault(name, cursor) is cursor):
                cursor.close()

    def _show(self, cursor: Any, columns: Sequence[str], once: bool) -> None:
        """Bind the source, and before it the needed columns in plain form."""
        # what is fetched beside may come from the same connection as a stream, and would end it
        self._bind(cursor, columns, once and not self._others)
        self._plain(cursor, columns)
        for name, table in self._others.items():
            cursor.register(name, table())

    def _plain(self, cursor: Any, columns: Sequence[str]) -> None:
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
        connection = _connect(spill, {"memory_limit": f"{self._memory} bytes"})
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
        "disabled_optimizers": ",".join(filter(None, (BLIND, WRONG))),
        "allocator_background_threads": "true",
    }
    connection = duckdb.connect(":memory:", config={**own, **more})
    _hide_progress(connection)
    return connection


def _everything() -> int:
    """Four fifths of this machine's memory, as DuckDB takes where nobody says a number."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 4 // 5


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
