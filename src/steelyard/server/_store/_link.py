"""The server's own database: what can be lost without losing a promise. SQLite by default, a PostgreSQL schema for teams.

Statements are written once, with ``?`` for parameters. Each thread has a connection of its own; a writing transaction is alone in SQLite
and ordinary in PostgreSQL, where the few races that matter are decided by unique keys. Law: nothing that decides or proves spending
is kept here alone.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from steelyard.errors import EngineMissing, InvalidTask, LedgerLocked, SteelyardError

SCHEMA = "steelyard_server"
_WAIT = 10.0
_ODD = "a text or a number of the request is none that the server's database can hold."


class DatabaseError(SteelyardError):
    """The server's own database cannot be used."""


class StoreLink:
    """One connection inside a transaction."""

    def __init__(self, driver: Any, postgres: bool) -> None:
        self.driver, self.postgres, self.busy = driver, postgres, False
        weakref.finalize(self, driver.close)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and say how many rows it changed."""
        changed: int = self._run(statement, values).rowcount
        return changed

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Every row."""
        return list(self._run(statement, values).fetchall())

    def one(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row, or None."""
        found: tuple[Any, ...] | None = self._run(statement, values).fetchone()
        return found

    def _run(self, statement: str, values: Sequence[Any]) -> Any:
        if self.postgres:
            return self.driver.execute(statement.replace("?", "%s"), tuple(values) or None)
        return self.driver.execute(statement, tuple(values))


class Database:
    """The database at an address: a path, or a postgresql:// URL."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.postgres = address.startswith(("postgresql://", "postgres://"))
        self._own = threading.local()
        self._errors: tuple[type[Exception], ...] = (sqlite3.Error,)
        if self.postgres:
            self._errors = (_psycopg().Error,)

    @contextlib.contextmanager
    def write(self) -> Iterator[StoreLink]:
        """A transaction; it is durable when the block ends, and gone if the block raises. One inside another is a part of it."""
        with self._transaction("BEGIN" if self.postgres else "BEGIN IMMEDIATE") as link:
            yield link

    @contextlib.contextmanager
    def read(self) -> Iterator[StoreLink]:
        """A transaction on one snapshot that only looks."""
        with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if self.postgres else "BEGIN") as link:
            yield link

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Every row of one statement that only looks."""
        with self._translated():
            return self._link().rows(statement, values)

    def one(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row of one statement that only looks, or None."""
        with self._translated():
            return self._link().one(statement, values)

    def changed(self) -> int:
        """A number that moves when another process has written; always another one where that cannot be told cheaply."""
        if self.postgres:
            return time.monotonic_ns()
        found = self.one("PRAGMA data_version")
        return 0 if found is None else int(found[0])

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[StoreLink]:
        with self._translated():
            link = self._link()
            if link.busy:  # a part of the transaction around it, which decides
                yield link
                return
            link.driver.execute(begin)
            link.busy = True
            try:
                yield link
                link.driver.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(*self._errors):
                    link.driver.execute("ROLLBACK")
                raise
            finally:
                link.busy = False

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except UnicodeEncodeError:
            raise InvalidTask(_ODD) from None
        except self._errors as error:
            if self.postgres:
                self._drop()
                if isinstance(error, _psycopg().DataError):
                    raise InvalidTask(_ODD) from None
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise LedgerLocked("the server's database is busy; nothing was charged. Try again.") from None
            raise DatabaseError(f"the server's database cannot be used ({type(error).__name__}).") from error

    def _link(self) -> StoreLink:
        found: StoreLink | None = getattr(self._own, "link", None)
        if found is None or self._own.process != os.getpid():
            found = self._own.link = StoreLink(self._connect(), self.postgres)
            self._own.process = os.getpid()
        return found

    def _drop(self) -> None:
        """Let go of a connection that may be broken; the next statement makes another."""
        link = getattr(self._own, "link", None)
        if link is not None and (link.driver.closed or link.driver.broken):
            self._own.link = None

    def _connect(self) -> Any:
        if self.postgres:
            driver = _psycopg().connect(self.address, autocommit=True, connect_timeout=10)
            driver.execute(f"SET search_path TO {SCHEMA}")
            return driver
        path = Path(self.address)
        if not path.exists():
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        driver = sqlite3.connect(self.address, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        for setting in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
            driver.execute(f"PRAGMA {setting}")
        return driver


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise EngineMissing(
            "a server's database in PostgreSQL needs its driver.", install="pip install 'steelyard[postgres]'"
        ) from None
    return psycopg
