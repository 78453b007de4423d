"""What the ledger asks of a database; SQLite and PostgreSQL each answer in their own file.

Statements are written once, with ``?`` for parameters. A connection turns every error of its driver into one of ours.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from steelyard.errors import LedgerError
from steelyard.privacy import canonical

WAIT = 30.0
"""Seconds a writer waits for another one before it says LedgerLocked."""

UNKNOWN = (
    "It is not known whether a charge was made; ask again with the same key, and it is made once, whichever it is."
)


Insert = tuple[str, Sequence[str], Sequence[tuple[Any, ...]]]
"""A table, its columns, and rows for it."""


class ConnectionLost(LedgerError):
    """The connection broke; whether the last commit reached the disk is unknown, and every move may be repeated."""


class Connection(ABC):
    """One open connection to the database of a ledger."""

    types: ClassVar[dict[str, str]]
    """The engine's names of the column types."""

    distant: ClassVar[bool] = False
    """Whether a question is a round trip to a server, so that even two are better asked at once."""

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
    def among(self, asked: Sequence[tuple[str, Sequence[tuple[Any, ...]]]]) -> list[list[tuple[Any, ...]]]:
        """For each statement and its keys, all rows; ``{keys}`` in it is a table of its keys, with columns key_0, … Without keys there are none."""

    @abstractmethod
    def put(self, updates: Sequence[tuple[str, Sequence[Any]]], inserts: Sequence[Insert]) -> list[int]:
        """Make updates, then insert rows into tables, in few calls of the database; how many rows each update changed, and how many were inserted in all."""

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
