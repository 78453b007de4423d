"""The ledger in PostgreSQL, in a schema of its own named ``steelyard``.

Writers take a row lock on the chain's head, so they come one after another; the balance moves by a conditional update
under a CHECK constraint. Nothing rests on the isolation level. A server that does not sync its log is refused, since
an acknowledged charge must survive a power cut.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import psycopg
from psycopg import errors

from steelyard.errors import LedgerError, LedgerForeign, LedgerLocked, LedgerTampered
from steelyard.ledger import _connection as connection
from steelyard.ledger._connection import Connection, ConnectionLost, Insert

_BEGIN, _LOCKED = "BEGIN ISOLATION LEVEL READ COMMITTED", "SELECT sequence, mac FROM head FOR UPDATE"
_LONG = 2**24  # characters and bytes of rows that are sent together; as JSON they are longer, at most some ten times
_CREATION_LOCK = 0x5354454C  # any fixed number: one creation at a time
_OBJECTS = """
SELECT 'relation', c.relname::text, c.relkind::text, c.relrowsecurity::text
  FROM pg_class c WHERE c.relnamespace = 'steelyard'::regnamespace
UNION ALL SELECT 'column', a.attrelid::regclass::text, a.attname::text,
         concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid))
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'r'
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  WHERE c.relnamespace = 'steelyard'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname::text, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = 'steelyard'::regnamespace AND contype IN ('c', 'p', 'u', 'f', 'x')
UNION ALL SELECT 'index', tablename::text, indexname::text, indexdef FROM pg_indexes WHERE schemaname = 'steelyard'
UNION ALL SELECT 'rule', tablename::text, rulename::text, definition FROM pg_rules WHERE schemaname = 'steelyard'
UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname::text, pg_get_triggerdef(t.oid)
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = 'steelyard'::regnamespace
UNION ALL SELECT 'function', p.proname::text, '', '' FROM pg_proc p WHERE p.pronamespace = 'steelyard'::regnamespace
"""


class PostgresConnection(Connection):
    """One connection to a PostgreSQL ledger."""

    types: ClassVar[dict[str, str]] = {"int": "BIGINT", "bytes": "BYTEA"}
    errors: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error,)
    distant: ClassVar[bool] = True

    def __init__(self, url: str, shown: str) -> None:
        self._shown = shown
        self._known = False  # whether the tables are there
        try:
            self._driver = psycopg.connect(url, autocommit=True, connect_timeout=10)
        except psycopg.Error as error:
            raise ConnectionLost(f"{shown} cannot be reached: {str(error).strip()}.") from None
        try:
            self._prepare()
        except LedgerError:
            self.close()
            raise

    def _prepare(self) -> None:
        self.execute("SET search_path TO steelyard")
        self.execute("SET synchronous_commit TO on")
        self.execute(f"SET lock_timeout TO {int(connection.WAIT * 1000)}")
        if self.one("SHOW fsync") != ("on",):
            raise LedgerError(
                f"the server of {self._shown} runs with fsync off, so a power cut could lose charges that were "
                "acknowledged. Switch fsync on."
            )

    def rows(self, statement: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows; streamed inside a transaction."""
        inside = self._driver.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        if not (inside and statement.startswith("SELECT") and not values):
            yield from self._run(statement, values)
            return
        try:
            with self._driver.cursor("steelyard_stream") as cursor:
                cursor.itersize = 2000
                cursor.execute(_dialect(statement))
                yield from cursor
        except psycopg.Error as error:
            raise self._translate(error) from None

    def among(self, asked: Sequence[tuple[str, Sequence[tuple[Any, ...]]]]) -> list[list[tuple[Any, ...]]]:
        done = iter(self._at_once([_looked_up(statement, keys) for statement, keys in asked if keys]))
        return [next(done).fetchall() if keys else [] for _, keys in asked]

    def put(self, updates: Sequence[tuple[str, Sequence[Any]]], inserts: Sequence[Insert]) -> list[int]:
        filled = [statement for each in inserts if each[2] for statement in _insertions(*each)]
        counts = [each.rowcount for each in self._at_once([*updates, *filled])]
        return [*counts[: len(updates)], sum(counts[len(updates) :])]

    def _at_once(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[psycopg.Cursor[tuple[Any, ...]]]:
        """Run statements in one round trip, where the driver's library can."""
        if len(statements) < 2 or not psycopg.Pipeline.is_supported():
            return [self._run(*each) for each in statements]
        try:
            with self._driver.pipeline():
                return [self._driver.execute(_dialect(statement), values) for statement, values in statements]
        except psycopg.Error as error:
            raise self._translate(error) from None

    def begin(self) -> tuple[int, str] | None:
        """Lock the head's row; where there is no ledger yet, the right to make one."""
        if self._known:
            return self._head(f"{_BEGIN}; {_LOCKED}")
        self.execute(_BEGIN)
        if not self._is_there():
            self.execute("SELECT pg_advisory_xact_lock(?)", (_CREATION_LOCK,))
            if not self._is_there():
                self.execute("CREATE SCHEMA IF NOT EXISTS steelyard")
                return None
        self._known = True
        return self._head(_LOCKED)

    def _is_there(self) -> bool:
        return self.one("SELECT to_regclass('steelyard.head') IS NOT NULL") == (True,)

    def look(self) -> None:
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def head(self) -> tuple[int, str] | None:
        return self._head("SELECT sequence, mac FROM head")

    def _head(self, question: str) -> tuple[int, str]:
        """The chain's head by a question, or by the last of several statements that go to the server together."""
        cursor = self._run(question, ())
        while cursor.nextset():
            pass
        row = cursor.fetchone()
        if row is None:
            raise LedgerTampered(f"{self._shown} has lost the head of its chain.", findings=["head: empty"])
        return row[0], row[1]

    def commit(self) -> None:
        """Commit; the server syncs its log before it answers."""
        said = self._run("COMMIT", ()).statusmessage
        if said != "COMMIT":  # an aborted one is rolled back here without an error; nobody may be told that it stands
            raise ConnectionLost(f"{self._shown} answered {said!r} to a commit; nothing was charged.")

    def rollback(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._driver.rollback()

    def close(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._driver.close()

    def tables(self) -> list[str]:
        found = [row[0] for row in self.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'steelyard'")]
        if found and self.one("SELECT has_schema_privilege('steelyard', 'USAGE')") != (True,):
            raise self._not_allowed()
        return found

    def _not_allowed(self) -> LedgerError:
        role = (self.one("SELECT current_user") if self._calm() else None) or ("yours",)
        return LedgerError(
            f"the role {str(role[0])!r} may not do this on {self._shown}; nothing was charged. Whoever owns the ledger grants it: steelyard ledger "
            f"grant URL {role[0]} --may spend (to open or freeze accounts: --may keep)."
        )

    def _calm(self) -> bool:
        return self._driver.info.transaction_status in (
            psycopg.pq.TransactionStatus.IDLE,
            psycopg.pq.TransactionStatus.INTRANS,
        )

    def objects(self) -> list[str]:
        return sorted(" | ".join(map(str, row)) for row in self._run(_OBJECTS, ()))

    def faults(self) -> list[str]:
        """The server looks after its own files."""
        return []

    def _run(self, statement: str, values: Sequence[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
        try:
            return self._driver.execute(_dialect(statement), values or None)
        except psycopg.Error as error:
            raise self._translate(error) from None

    def _translate(self, error: psycopg.Error) -> LedgerError:
        text = str(error).strip()
        if isinstance(error, errors.LockNotAvailable):
            return LedgerLocked(
                f"{self._shown} was locked by another session for {connection.WAIT:g} seconds; nothing was charged. "
                "Try again, or find out who holds it."
            )
        if self._driver.closed or self._driver.broken:
            return ConnectionLost(f"the connection to {self._shown} was lost: {text}.")
        if isinstance(error, errors.InsufficientPrivilege):
            return self._not_allowed()
        if isinstance(error, errors.IntegrityError):
            return LedgerTampered(f"{self._shown} is damaged ({text}); nothing was charged.", findings=[text])
        if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
            return LedgerForeign(f"{self._shown} lacks the tables of a ledger ({text}).")
        return LedgerError(f"{self._shown} cannot be used: {text}.")


def _dialect(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


def _looked_up(statement: str, keys: Sequence[tuple[Any, ...]]) -> tuple[str, tuple[str]]:
    """A statement that finds rows by its keys, which go to the server as one JSON text; names are text there, and numbers are not."""
    named = ", ".join(
        f"(k->>{i})::{'text' if isinstance(part, str) else 'bigint'} AS key_{i}" for i, part in enumerate(keys[0])
    )
    told = f"(SELECT {named} FROM json_array_elements(?::json) AS asked(k)) AS keys"
    return statement.format(keys=told), (json.dumps(keys),)


def _insertions(
    table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[str, tuple[str]]]:
    """Statements that insert rows, which go to the server as JSON texts and are read there by the table's own types.

    Mostly it is one; rows that are long together are sent in parts, since the server hangs up on a message of a gigabyte.
    """
    half = len(rows) // 2
    if half and sum(len(value) for row in rows for value in row if isinstance(value, str | bytes)) > _LONG:
        yield from _insertions(table, columns, rows[:half])
        yield from _insertions(table, columns, rows[half:])
        return
    named, data = ", ".join(columns), [dict(zip(columns, row, strict=True)) for row in rows]
    text = json.dumps(data, default=lambda payload: f"\\x{payload.hex()}")
    yield f"INSERT INTO {table} ({named}) SELECT {named} FROM json_populate_recordset(NULL::{table}, ?::json)", (text,)
