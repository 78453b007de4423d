"""What the ledger asks of a database, and one transaction on it; SQLite and PostgreSQL each answer in their own file.

Statements are written once, with ``?`` for parameters. A connection turns every error of its driver into one of ours.
Several moves may share a transaction (group commit). A move that is refused raises before it has written anything, so
it leaves the others alone. Entries are appended to the chain, whose head is written back once, at the end.
A reading transaction sees one snapshot, takes no write lock, and refuses to change anything.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from steelyard.errors import LedgerError, OurBug
from steelyard.lazy import lazy
from steelyard.ledger._chain import BLANK, COLUMNS, GENESIS, Identity, Position, tie
from steelyard.privacy import canonical

WAIT = 30.0
"""Seconds a writer waits for another one before it says LedgerLocked."""

UNKNOWN = (
    "It is not known whether a charge was made; ask again with the same key, and it is made once, whichever it is."
)
_INSERT = f"INSERT INTO entries ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


class ConnectionLost(LedgerError):
    """The connection broke; whether the last commit reached the disk is unknown, and every move may be repeated."""


class Connection(ABC):
    """One open connection to the database of a ledger."""

    types: ClassVar[dict[str, str]]
    """The engine's names of the column types."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """What the driver raises."""

    @abstractmethod
    def _run(self, statement: str, values: Sequence[Any]) -> Any:
        """The driver's cursor after a statement; its errors as ours."""

    @abstractmethod
    def _translate(self, error: Any) -> LedgerError:
        """An error of the driver as one of ours, saying whether anything was charged."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and say how many rows it changed."""
        changed: int = self._run(statement, values).rowcount
        return changed

    def one(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row, or None."""
        try:
            row: tuple[Any, ...] | None = self._run(statement, values).fetchone()
        except self.errors as error:
            raise self._translate(error) from None
        return row

    @abstractmethod
    def rows(self, statement: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows, streamed."""

    @abstractmethod
    def begin(self) -> tuple[int, str] | None:
        """Start a writing transaction, alone; the chain's (sequence, head), or None where there is no ledger yet."""

    @abstractmethod
    def look(self) -> None:
        """Start a reading transaction, without a lock: its snapshot holds what was committed, and that was synced before it showed."""

    @abstractmethod
    def head(self) -> tuple[int, str] | None:
        """The chain's (sequence, head), or None where there is no ledger."""

    @abstractmethod
    def commit(self) -> None:
        """Make it durable: on return the transaction is on disk."""

    @abstractmethod
    def rollback(self) -> None:
        """Drop the transaction, if there is one."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""

    @abstractmethod
    def tables(self) -> list[str]:
        """The names of the tables where a ledger would live."""

    @abstractmethod
    def objects(self) -> list[str]:
        """Every schema object (table, column, index, constraint, trigger, view, rule, function), as text, sorted."""

    def fingerprint(self) -> str:
        """The digest of every schema object; chained when the ledger is made, so a foreign trigger is found."""
        return hashlib.sha256(canonical(self.objects())).hexdigest()

    @abstractmethod
    def faults(self) -> list[str]:
        """What the engine's own check of its files finds wrong."""


class Transaction:
    """A view of the ledger that can append, unless it is for reading; made by the writer, handed to each move in turn."""

    def __init__(self, connection: Connection, identity: Identity, *, reading: bool = False) -> None:
        self.connection = connection
        self.identity = identity
        self._reading = reading
        if reading:
            connection.look()
        start = connection.head() if reading else connection.begin()
        self.empty = start is None
        self.sequence, self.head = start or (0, GENESIS)
        self._began = self.sequence

    @property
    def position(self) -> Position:
        """How far the chain has come in this transaction."""
        return Position(self.sequence, self.head, self.identity.name)

    def one(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row, or None."""
        return self.connection.one(statement, values)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and say how many rows it changed."""
        if self._reading:
            raise OurBug("a move that only reads was about to change the ledger.")
        return self.connection.execute(statement, values)

    @lazy
    def now(self) -> str:
        """The time for openings and charges, to the second."""
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def append(self, kind: str, **fields: Any) -> tuple[int, str]:
        """Add an entry to the chain, with these fields of an ``Entry``; its sequence and the new head."""
        self.sequence += 1
        content = (self.sequence, kind, *(BLANK | fields).values())
        self.head = tie(self.identity.key, self.head, content)
        self.execute(_INSERT, (*content, self.head))
        return self.sequence, self.head

    def commit(self) -> Position | None:
        """Write the head back and make everything durable; the new position, or None if nothing changed."""
        if self.sequence == self._began:
            self.connection.rollback()
            return None
        self.connection.execute("UPDATE head SET sequence = ?, mac = ? WHERE one = 1", (self.sequence, self.head))
        self.connection.commit()
        return self.position
