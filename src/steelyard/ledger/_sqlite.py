"""The ledger in an SQLite file (or in memory).

Write-ahead log with synchronous=FULL: a commit returns after the log is synced, so an acknowledged charge survives a
power cut (NORMAL loses some, and the tests show it). Writers take the write lock at BEGIN IMMEDIATE; whoever finds the
file locked (a reader too: the log may be under recovery) tries again after short random pauses, for ``WAIT`` seconds.
Never keep the file on a network file system: its locks lie.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from steelyard.errors import LedgerError, LedgerForeign, LedgerLocked, LedgerTampered
from steelyard.ledger import _connection as connection
from steelyard.ledger._connection import Connection, Insert

T = TypeVar("T")
_SIZES = (64, 8, 1)  # 64 entries are 960 values, and older SQLite takes 999
_PRAGMAS: tuple[str, ...] = (
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
)
_NOTHING = " Nothing was charged."
_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the driver stumbles over text that is not UTF-8 in either way


class SqliteConnection(Connection):
    """One connection to an SQLite ledger."""

    types: ClassVar[dict[str, str]] = {"int": "INTEGER", "bytes": "BLOB"}
    errors: ClassVar[tuple[type[Exception], ...]] = _ERRORS

    def __init__(self, path: str, shown: str, *, create: bool) -> None:
        self._shown = shown
        self._logged = path == ":memory:"  # a file that may not be ours is switched to WAL only when it is written to
        mode = "memory" if path == ":memory:" else "rwc" if create else "rw"
        name = "file::memory:" if path == ":memory:" else Path(path).as_uri()
        try:
            if mode == "rwc":  # for its owner alone, and so are the log and the index beside it, which take its mode
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._driver = sqlite3.connect(
                f"{name}?mode={mode}", uri=True, timeout=0, isolation_level=None, check_same_thread=False
            )
        except OSError as error:
            raise LedgerError(f"{shown} cannot be made: {error.strerror}.") from None
        except sqlite3.Error as error:
            raise self._translate(error) from None
        try:
            self._prepare()
        except LedgerError:
            self.close()
            raise

    def _prepare(self) -> None:
        for pragma in _PRAGMAS:
            self.execute(pragma)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._run(statement, values)
        except _ERRORS as error:
            raise self._translate(error) from None

    def among(self, asked: Sequence[tuple[str, Sequence[tuple[Any, ...]]]]) -> list[list[tuple[Any, ...]]]:
        return [
            [row for part in _parts(keys) for row in self.rows(*_looked_up(statement, part))]
            for statement, keys in asked
        ]

    def put(self, updates: Sequence[tuple[str, Sequence[Any]]], inserts: Sequence[Insert]) -> list[int]:
        changed = [self.execute(statement, values) for statement, values in updates]
        added = [
            self.execute(_insertion(table, tuple(columns), len(part)), [value for row in part for value in row])
            for table, columns, rows in inserts
            for part in _parts(rows)
        ]
        return [*changed, sum(added)]

    def begin(self) -> tuple[int, str] | None:
        """Take the write lock and read the chain's head."""
        if not self._logged:
            self.execute("PRAGMA journal_mode = WAL")
            self._logged = True
        self.execute("BEGIN IMMEDIATE")
        return self.head()

    def look(self) -> None:
        self.execute("BEGIN")

    def head(self) -> tuple[int, str] | None:
        try:
            row = self.one("SELECT sequence, mac FROM head")
        except LedgerForeign:
            return None
        return None if row is None else (row[0], row[1])

    def commit(self) -> None:
        try:
            self.execute("COMMIT")
        except (LedgerLocked, LedgerTampered):
            raise
        except LedgerError as error:
            raise LedgerError(f"{str(error).removesuffix(_NOTHING)} {connection.UNKNOWN}") from None

    def rollback(self) -> None:
        if self._driver.in_transaction:
            self.execute("ROLLBACK")

    def close(self) -> None:
        """Let go of the file; the last one to do so also tidies the log away."""
        with contextlib.suppress(sqlite3.Error):
            self._driver.close()

    def tables(self) -> list[str]:
        return [row[0] for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]

    def objects(self) -> list[str]:
        found = self.rows("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master")
        return sorted(" | ".join(map(str, row)) for row in found)

    def faults(self) -> list[str]:
        """SQLite's own integrity check: pages, indexes against tables, constraints."""
        found = [str(row[0]) for row in self.rows("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    def _run(self, statement: str, values: Sequence[Any]) -> sqlite3.Cursor:
        deadline = None
        while True:
            try:
                return self._driver.execute(statement, values)
            except _ERRORS as error:
                ours = self._translate(error)
                if not isinstance(ours, LedgerLocked) or time.monotonic() > (deadline := deadline or _deadline()):
                    raise ours from None
            time.sleep(random.uniform(0.0002, 0.002))

    def _translate(self, error: Exception) -> LedgerError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
            return LedgerLocked(
                f"{self._shown} was locked by another process for {connection.WAIT:g} seconds; nothing was charged. "
                "Try again, or find out who holds it."
            )
        if code == sqlite3.SQLITE_NOTADB:
            return LedgerForeign(f"{self._shown} is not an SQLite file, so it is no ledger; choose another path.")
        if code == sqlite3.SQLITE_ERROR and "no such table" in str(error):
            return LedgerForeign(f"{self._shown} lacks the tables of a ledger ({error}); choose another path.")
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CONSTRAINT) or "decode" in str(error):
            return LedgerTampered(
                f"{self._shown} is damaged ({error}); nothing was charged. Run 'steelyard ledger verify'.",
                findings=[str(error)],
            )
        if code == sqlite3.SQLITE_CANTOPEN:
            return LedgerError(f"{self._shown} cannot be opened: does its folder exist, and may you write there?")
        return LedgerError(f"{self._shown} cannot be used: {error}.{_NOTHING}")


def _parts(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """Rows in parts of few sizes, so that the statements for them are few and stay prepared; the driver gives up Python's lock at every statement."""
    if len(rows) < 2:
        yield from [rows] * len(rows)
        return
    at = 0
    for size in _SIZES:
        while len(rows) - at >= size:
            yield rows[at : at + size]
            at += size


def _looked_up(statement: str, keys: Sequence[tuple[Any, ...]]) -> tuple[str, list[Any]]:
    return _question(statement, len(keys[0]), len(keys)), [value for key in keys for value in key]


@cache
def _question(statement: str, width: int, keys: int) -> str:
    """A statement that finds rows by keys: SQLite looks each key up by an index, where for a set of pairs it would read all rows."""
    named = ", ".join(f"column{i + 1} AS key_{i}" for i in range(width))
    values = ", ".join([f"({', '.join('?' * width)})"] * keys)
    return statement.format(keys=f"(SELECT {named} FROM (VALUES {values}))")


@cache
def _insertion(table: str, columns: tuple[str, ...], rows: int) -> str:
    each = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([each] * rows)}"


def _deadline() -> float:
    return time.monotonic() + connection.WAIT
