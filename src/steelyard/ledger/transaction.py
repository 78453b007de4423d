"""One transaction: statements, and entries appended to the chain, which is written back once at the end.

Several moves may share a transaction (group commit). A move that is refused raises before it has written anything, so
it leaves the others alone. A reading transaction sees one snapshot, takes no write lock, and refuses to change anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from steelyard.errors import OurBug
from steelyard.lazy import lazy
from steelyard.ledger.chain import COLUMNS, tie
from steelyard.ledger.guard import GENESIS, Mark
from steelyard.ledger.link import Link

_INSERT = f"INSERT INTO entries ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


@dataclass
class Identity:
    """Which ledger this is: its random name, once known, and the key of its chain."""

    key: bytes
    name: str = ""


class Transaction:
    """A view of the ledger that can append, unless it is for reading; made by the writer, handed to each move in turn."""

    def __init__(self, link: Link, identity: Identity, *, reading: bool = False) -> None:
        self.link = link
        self.identity = identity
        self._reading = reading
        if reading:
            link.look()
        start = link.head() if reading else link.begin()
        self.empty = start is None
        self.sequence, self.head = start or (0, GENESIS)
        self._began = self.sequence

    def one(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row, or None."""
        return self.link.one(statement, values)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and say how many rows it changed."""
        if self._reading:
            raise OurBug("a move that only reads was about to change the ledger.")
        return self.link.execute(statement, values)

    @lazy
    def now(self) -> str:
        """The time for openings and charges, to the second."""
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def append(
        self,
        kind: str,
        account: str = "",
        name: str = "",
        request: str = "",
        amount: int = 0,
        delta: int = 0,
        charge: int = 0,
        step: int = 0,
        digest: str = "",
        detail: str = "",
        at: str = "",
    ) -> tuple[int, str]:
        """Add an entry to the chain; its sequence and the new head."""
        self.sequence += 1
        content = (self.sequence, kind, account, name, request, amount, delta, charge, step, digest, detail, at)
        self.head = tie(self.identity.key, self.head, content)
        self.execute(_INSERT, (*content, self.head))
        return self.sequence, self.head

    def commit(self) -> Mark | None:
        """Write the head back and make everything durable; the new mark, or None if nothing changed."""
        if self.sequence == self._began:
            self.link.rollback()
            return None
        self.link.execute("UPDATE head SET sequence = ?, mac = ? WHERE one = 1", (self.sequence, self.head))
        self.link.commit()
        return Mark(self.sequence, self.head, self.identity.name)
