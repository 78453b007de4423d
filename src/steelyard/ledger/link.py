"""What the ledger asks of a database connection; SQLite and PostgreSQL each answer in their own file.

Statements are written once, with ``?`` for parameters. A link turns every error of its driver into one of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol

from steelyard.errors import LedgerError

WAIT = 30.0
"""Seconds a writer waits for another one before it says LedgerLocked."""


UNKNOWN = (
    "It is not known whether a charge was made; ask again with the same key, and it is made once, whichever it is."
)


class LinkLost(LedgerError):
    """The connection broke; whether the last commit reached the disk is unknown, and every move may be repeated."""


class Link(Protocol):
    """One open connection."""

    types: ClassVar[dict[str, str]]

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and say how many rows it changed."""

    def one(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row, or None."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows, streamed."""

    def begin(self) -> tuple[int, str] | None:
        """Start a writing transaction, alone; the chain's (sequence, head), or None where there is no ledger yet."""

    def look(self) -> None:
        """Start a reading transaction, without a lock: its first question takes a snapshot of all that was committed."""

    def head(self) -> tuple[int, str] | None:
        """The chain's (sequence, head), or None where there is no ledger."""

    def commit(self) -> None:
        """Make it durable: on return the transaction is on disk."""

    def rollback(self) -> None:
        """Drop the transaction, if there is one."""

    def close(self) -> None:
        """Let go of the connection."""

    def tables(self) -> list[str]:
        """The names of the tables where a ledger would live."""

    def objects(self) -> list[str]:
        """Every schema object, as text, sorted."""

    def faults(self) -> list[str]:
        """What the engine's own check of its files finds wrong."""
