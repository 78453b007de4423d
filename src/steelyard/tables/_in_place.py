"""A PostgreSQL server that adds up where the rows lie: only sums, counts and keys of enough units leave it.

A question comes as the same Ibis expression as on DuckDB, written by ``_postgres_sql``, and runs as one statement in a read-only transaction that
keeps one snapshot, under fixed settings and a search path of PostgreSQL's own functions. Public keys travel as arrays beside the text. What
cannot be asked so (views that compute, floats that are hashed, types that are not listed) is not taken, and the private DuckDB
fetches the columns and answers, with the same integers. Whether a question is taken depends on the question, the declared types and the
server, never on a row.
Law: once rows may have been read, every failure has one fixed text; a statement that the server does not parse is found out before.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from decimal import Decimal
from itertools import count
from typing import Any

from steelyard.tables import _soundness as soundness
from steelyard.tables._engine import guarded
from steelyard.tables._plain import KEYS, PLAIN
from steelyard.tables._postgres_sql import POSTGRES, is_own, is_plain_view
from steelyard.tables._totals import Dialect

SETTINGS = (
    "SET LOCAL datestyle = 'ISO, YMD'",
    "SET LOCAL timezone = 'UTC'",
    "SET LOCAL extra_float_digits = 3",
    "SET LOCAL bytea_output = 'hex'",
    "SET LOCAL intervalstyle = 'postgres'",
    "SET LOCAL client_encoding = 'UTF8'",
    "SET LOCAL statement_timeout = 0",  # else the amount of rows decides whether there is an answer
)
_OURS_ALONE = (
    "SET LOCAL search_path = pg_catalog, pg_temp",  # a session's own types come first where pg_temp is not named
    "SET LOCAL standard_conforming_strings = on",
    "SET LOCAL array_nulls = on",
)
_ONE_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_NO_HURRY = "SET LOCAL idle_in_transaction_session_timeout = 0"  # noise may be drawn between two questions
_OLDEST = 120_000
"""The first version that lets a named part of a statement be read where it is used; SHA-256 came one before."""

_OTHERS = ("Greenplum", "EnterpriseDB", "-YB-", "Redshift")
"""Servers that call themselves PostgreSQL and are not: their rows are fetched."""

_MOST_COLUMNS = 1600
"""An answer of more columns is more than a server gives."""

_REMEMBERED = 64  # texts; those that sample are new each time
_IDLE = 0
_TRIED = "steelyard_tried"
_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_making = threading.Lock()
_sound: dict[str, bool] = {}


def lock_of(connection: Any) -> threading.RLock:
    """The lock of a connection: one thread at a time has its transaction."""
    with _making:
        return _locks.setdefault(connection, threading.RLock())


class PostgresServer:
    """A server that answers questions about one stored table; the columns that it reads in place are known by their types."""

    dialect: Dialect = POSTGRES

    def __init__(self, connection: Any, source: str, cells: Mapping[str, str]) -> None:
        self._connection, self._source, self._cells = connection, source, dict(cells)
        self._lock, self._own = lock_of(connection), threading.local()
        self._parsed: dict[str, bool] = {}

    @property
    def columns(self) -> frozenset[str]:
        """The columns that are read in place."""
        return frozenset(self._cells)

    def takes(self, question: Any, columns: Sequence[str], rows: Any) -> bool:
        """Whether a question is answered here; ``rows`` is the table that it is asked of, the stored one or a view of it."""
        import ibis.expr.operations as ops

        named = {each.name for each in question.op().find(ops.UnboundTable)}
        return (
            named <= {PLAIN, KEYS}
            and self.columns.issuperset(columns)
            and len(question.columns) <= _MOST_COLUMNS
            and is_plain_view(rows)
            and is_own(question)
        )

    def parses(self, sql: str, columns: Sequence[str], beside: Mapping[str, Any]) -> bool:
        """Whether the server understands a statement; no row is read."""
        text = self._statement(sql, columns, beside)
        known = self._parsed.get(text)
        if known is None:
            known = self._prepared(text)
            if len(self._parsed) >= _REMEMBERED:
                self._parsed.clear()
            self._parsed[text] = known
        return known

    def rows(self, sql: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Run one question and fetch its small answer."""
        return guarded(lambda: self._asked(sql, columns, {})[1])

    def arrow(self, sql: str, columns: Sequence[str], beside: Mapping[str, Any]) -> Any:
        """Run one question beside public keys and fetch its answer."""
        return guarded(lambda: _as_arrow(*self._asked(sql, columns, beside)))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that this thread asks from its first question in place on is asked of one state of the table.

        In a transaction of the caller's own, of what that one sees. Whoever asks nothing in place holds nothing.
        """
        if self._held is not None:
            yield
            return
        with ExitStack() as held:
            self._own.held = held
            try:
                yield
            finally:
                self._own.held = None

    @property
    def _held(self) -> ExitStack | None:
        """What ends with the release that this thread makes."""
        held: ExitStack | None = getattr(self._own, "held", None)
        return held

    def _begin(self, until: ExitStack) -> None:
        """Have the connection, in a transaction of one snapshot, until something ends."""
        until.enter_context(self._lock)
        if int(self._connection.info.transaction_status) == _IDLE:
            until.enter_context(self._connection.transaction())
            self._connection.execute(_ONE_SNAPSHOT, prepare=False)
            self._connection.execute(_NO_HURRY, prepare=False)

    def _asked(
        self, sql: str, columns: Sequence[str], beside: Mapping[str, Any]
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        text, given = (
            self._statement(sql, columns, beside),
            [_array(c) for each in beside.values() for c in each.columns],
        )
        with self._reading() as cursor:
            cursor.execute(*((_for_driver(text, len(given)), given) if given else (text,)), prepare=False)
            return [column.name for column in cursor.description], cursor.fetchall()

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        with ExitStack() as here:
            self._begin(here if self._held is None else self._held)
            here.enter_context(self._connection.transaction(force_rollback=True))  # so that no setting outlives it
            cursor = here.enter_context(self._connection.cursor())
            cursor.execute("; ".join((*SETTINGS, *_OURS_ALONE)), prepare=False)  # several at once cannot be prepared
            yield cursor

    def _prepared(self, text: str) -> bool:
        """Whether a statement is analysed without complaint; it is neither planned nor run."""
        with suppress(self._connection.Error), self._reading() as cursor:
            cursor.execute(f"PREPARE {_TRIED} AS {text}", prepare=False)
            cursor.execute(f"DEALLOCATE {_TRIED}", prepare=False)
            return True
        return False

    def _statement(self, sql: str, columns: Sequence[str], beside: Mapping[str, Any]) -> str:
        """The text of a question over the plain form of its columns, its public keys being the parameters $1, $2, …"""
        kinds = [(name, table.column_names, table.schema.types) for name, table in beside.items()]
        numbers, parts = count(1), []
        for name, names, types in kinds:
            arrays = ", ".join(f"${next(numbers)}::{_sql_type(kind)}[]" for kind in types)
            parts.append(f"{name} AS (SELECT * FROM unnest({arrays}) AS given({', '.join(names)}))")
        shown = ", ".join(self._cells[name] for name in columns)
        parts.append(f"{PLAIN} AS NOT MATERIALIZED (SELECT {shown} FROM {self._source})")
        rest = f", {sql.removeprefix('WITH ')}" if sql.startswith("WITH ") else f" {sql}"
        return f"WITH {', '.join(parts)}{rest}"


def _for_driver(text: str, parameters: int) -> str:
    """The text as the driver takes it, which counts parameters by their order. They stand before any name or word that is not ours."""
    text = text.replace("%", "%%")
    for number in range(1, parameters + 1):
        text = text.replace(f"${number}::", "%s::", 1)
    return text


def _array(column: Any) -> list[Any]:
    """Public keys of one column; a text that no cell of the server can hold equals none."""
    return [None if isinstance(value, str) and "\0" in value else value for value in column.to_pylist()]


def _sql_type(kind: Any) -> str:
    import pyarrow as pa

    named = {pa.int64(): "int8", pa.float64(): "float8", pa.bool_(): "bool", pa.date32(): "date", pa.string(): "text"}
    return "numeric" if pa.types.is_decimal(kind) else named[kind]


def _as_arrow(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Any:
    """Few numbers as an Arrow table: sums of 38 digits, everything else 64 bits."""
    import pyarrow as pa

    parts = list(zip(*rows, strict=True)) or [()] * len(names)
    kinds = [pa.decimal128(38, 0) if name.startswith("s") else pa.int64() for name in names]
    arrays = [
        pa.array(map(int if kind == pa.int64() else Decimal, part), kind)
        for part, kind in zip(parts, kinds, strict=True)
    ]
    return pa.table(arrays, list(names))


def sound_server(connection: Any, source: str, cells: Mapping[str, str]) -> PostgresServer | None:
    """The server of a stored table, if it is a PostgreSQL that computes what the guarantees rest on; no row is read."""
    [(version,)] = connection.execute("SELECT pg_catalog.version()").fetchall()
    named = version.startswith("PostgreSQL ") and not any(other in version for other in _OTHERS)
    if connection.info.server_version < _OLDEST or not named:
        return None
    place = f"{version} {connection.info.host} {connection.info.port}"
    if place not in _sound:
        made_up = PostgresServer(connection, f"({soundness.made_up('double precision')}) AS t", {"i": "i", "x": "x"})
        with suppress(connection.Error):
            _sound[place] = soundness.computes(POSTGRES, lambda sql: made_up._asked(sql, ["i", "x"], {})[1], PLAIN)
    return PostgresServer(connection, source, cells) if _sound.get(place) else None


class _FirstQuestion(Exception):
    """The first question of a piece of work, which was not answered."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place


class Probe:
    """An engine that answers nothing: the first question ends the work, and tells whether a server would have answered it."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.server = ProbeServer(engine.server)

    def __getattr__(self, name: str) -> Any:
        if name in ("rows", "arrow", "batches", "fold", "unit_blocks"):
            raise _FirstQuestion(False)
        return getattr(self._engine, name)

    def showing(self, more: Mapping[str, Any]) -> Probe:
        """The same with other tables beside it."""
        return Probe(self._engine.showing(more))


class ProbeServer:
    """The server of such an engine."""

    def __init__(self, server: PostgresServer) -> None:
        self.dialect, self.takes, self._server = server.dialect, server.takes, server

    def parses(self, sql: str, columns: Sequence[str], beside: Mapping[str, Any]) -> bool:
        """Ends the work where the server understands the question; no row is read."""
        if self._server.parses(sql, columns, beside):
            raise _FirstQuestion(True)
        return False


def probed(work: Callable[[], object]) -> bool | None:
    """Whether the first question of some work is answered in place; None where there is none."""
    try:
        work()
    except _FirstQuestion as asked:
        return asked.in_place
    return None
