"""One transaction on a ledger, shared by the moves of a group (group commit).

What the moves of a group say they will look up is read at once, before the first of them. What they change is held here and written in as few
statements as there are tables: at the end, and before anything else is asked of the database, so that no move can tell the difference.
A move that is refused raises before it has changed anything, so it leaves the others alone. Entries are appended to the chain, whose head is written
back once, at the end. Balances move by conditional updates, under the write lock and a CHECK constraint; one that does not move breaks the transaction, and so
does an answer that is not in the store, byte for byte, when it is read back.
A reading transaction sees one snapshot, takes no write lock, and refuses to change anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from steelyard.errors import LedgerTampered, OurBug
from steelyard.lazy import lazy
from steelyard.ledger._chain import BLANK, COLUMNS, GENESIS, Identity, Position, tie
from steelyard.ledger._connection import Connection

T = TypeVar("T")
Row = tuple[Any, ...]
PARENT, STATE, SPENT, SPENT_DELTA, CAP, CAP_DELTA = range(6)
"""The places in a balance, in the order in which its table is read."""

_COLUMNS = ", ".join(COLUMNS)
_ACCOUNT, _NAME = COLUMNS.index("account"), COLUMNS.index("name")
_KEYS = "FROM {keys} CROSS JOIN"
_NAMED_1 = f"SELECT {_COLUMNS} FROM entries WHERE kind = 'charge' AND account = ? AND name = ?"
_STANDS_1 = "SELECT account, parent, state, spent, spent_delta, cap, cap_delta FROM balances WHERE account = ?"
_HELD_1 = "SELECT charge, step, payload FROM answers WHERE charge = ? AND step = ?"
_SAID_1 = "SELECT charge, step FROM entries WHERE kind = 'answer' AND charge = ? AND step = ?"
_NAMED, _STANDS, _HELD, _SAID = (
    each.replace("FROM", _KEYS, 1).replace("= ?", "= key_0", 1).replace("= ?", "= key_1", 1)
    for each in (_NAMED_1, _STANDS_1, _HELD_1, _SAID_1)
)  # the same for many keys at once
_SPEND = (
    "UPDATE balances SET spent = spent + ?, spent_delta = spent_delta + ? WHERE account = ? AND parent = ? AND state = 'open' "
    "AND ? <= cap - spent AND ? <= cap_delta - spent_delta"
)
_HEAD = "UPDATE head SET sequence = ?, mac = ? WHERE one = 1"
_ANSWER = ("charge", "step", "sequence", "payload")


@dataclass(slots=True)
class Foreseen(Generic[T]):
    """A move that says beforehand what it will look up, so that a group asks for all of it at once; it may look up more."""

    work: Callable[[Transaction], T]
    charges: tuple[tuple[str, str], ...] = ()
    accounts: tuple[str, ...] = ()
    answers: tuple[tuple[int, int], ...] = ()

    def __call__(self, transaction: Transaction) -> T:
        return self.work(transaction)


class Transaction:
    """A view of the ledger that can append, unless it is for reading; made by the writer, handed to each move in turn."""

    def __init__(self, connection: Connection, identity: Identity, *, reading: bool = False) -> None:
        self.connection = connection
        self.identity = identity
        self.changes = 0
        """How often something was changed: a move that is refused must have left it as it was."""
        self._reading = reading
        if reading:
            connection.look()
        start = connection.head() if reading else connection.begin()
        self.empty = start is None
        self.sequence, self.head = start or (0, GENESIS)
        self._began = self._headed = self.sequence
        self._entries: list[Row] = []
        self._answers: list[Row] = []
        self._paid: dict[str, tuple[int, int]] = {}
        self._forget()

    def _forget(self) -> None:
        self._named: dict[tuple[str, str], Row | None] = {}
        self._stands: dict[str, Row | None] = {}
        self._held: dict[tuple[int, int], tuple[bytes | None, bool]] = {}

    @property
    def position(self) -> Position:
        """How far the chain has come in this transaction."""
        return Position(self.sequence, self.head, self.identity.name)

    @lazy
    def now(self) -> str:
        """The time for openings and charges, to the second."""
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def one(self, statement: str, values: Sequence[Any] = ()) -> Row | None:
        """The first row, or None."""
        self._write()
        return self.connection.one(statement, values)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows."""
        self._write()
        return self.connection.rows(statement, values)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and say how many rows it changed."""
        self._change()
        self._write()
        self._forget()  # it may have changed whatever was read before
        return self.connection.execute(statement, values)

    def expect(self, moves: Iterable[Callable[[Transaction], Any]]) -> None:
        """Read at once what moves are about to look up, as far as they say so."""
        told = [move for move in moves if isinstance(move, Foreseen)]
        if len(told) > 1 or (told and self.connection.distant):
            self._read(
                dict.fromkeys(pair for move in told for pair in move.charges),
                dict.fromkeys(name for move in told for name in move.accounts),
                dict.fromkeys(pair for move in told for pair in move.answers),
            )

    def _read(
        self, charges: Iterable[tuple[str, str]], accounts: Iterable[str], answers: Iterable[tuple[int, int]]
    ) -> None:
        """Look up what is not known yet; whatever is held here and not written was known first."""
        pairs = [pair for pair in charges if pair not in self._named]
        names = [(name,) for name in accounts if name not in self._stands]
        steps = [step for step in answers if step not in self._held]
        named, stands, held, said = self.connection.among(
            [(_NAMED, pairs), (_STANDS, names), (_HELD, steps), (_SAID, steps)]
        )
        self._named.update(dict.fromkeys(pairs))
        self._named.update(((row[_ACCOUNT], row[_NAME]), row) for row in named)
        self._stands.update({name: None for (name,) in names} | {row[0]: row[1:] for row in stands})
        payloads, answered = {(row[0], row[1]): bytes(row[2]) for row in held}, {(row[0], row[1]) for row in said}
        self._held.update({step: (payloads.get(step), step in answered) for step in steps})

    def named(self, account: str, key: str) -> Row | None:
        """The entry of the charge that a key made, in the order of COLUMNS, or None."""
        if (account, key) not in self._named:
            self._named[account, key] = self.connection.one(_NAMED_1, (account, key))
        return self._named[account, key]

    def stands(self, account: str) -> Row | None:
        """How an account stands: parent, state, spent, spent_delta, cap, cap_delta; None where there is no such account."""
        if account not in self._stands:
            row = self.connection.one(_STANDS_1, (account,))
            self._stands[account] = None if row is None else row[1:]
        return self._stands[account]

    def held(self, charge: int, step: int) -> tuple[bytes | None, bool]:
        """The stored answer of a charge's step, and whether the chain has one."""
        if (charge, step) not in self._held:
            row, said = (self.connection.one(each, (charge, step)) for each in (_HELD_1, _SAID_1))
            self._held[charge, step] = None if row is None else bytes(row[2]), said is not None
        return self._held[charge, step]

    def spend(self, line: Iterable[str], amount: int, delta: int) -> None:
        """Move the balances of accounts that were found to stand so that they can pay."""
        self._change()
        for account in line:
            row = self._stands[account]
            assert row is not None
            before = self._paid.get(account, (0, 0))
            self._paid[account] = before[0] + amount, before[1] + delta
            self._stands[account] = (*row[:SPENT], row[SPENT] + amount, row[SPENT_DELTA] + delta, *row[CAP:])

    def append(self, kind: str, **fields: Any) -> tuple[int, str]:
        """Add an entry to the chain, with these fields of an ``Entry``; its sequence and the new head."""
        self._change()
        self.sequence += 1
        content = (self.sequence, kind, *(BLANK | fields).values())
        self.head = tie(self.identity.key, self.head, content)
        row: Row = (*content, self.head)
        self._entries.append(row)
        if kind == "charge":
            self._named[row[_ACCOUNT], row[_NAME]] = row
        return self.sequence, self.head

    def answer(self, account: str, charge: int, step: int, payload: bytes, digest: str) -> None:
        """Store an answer that was found not to be there, and its digest on the chain."""
        sequence, _ = self.append("answer", account=account, charge=charge, step=step, digest=digest)
        self._answers.append((charge, step, sequence, payload))
        self._held[charge, step] = payload, True

    def _change(self) -> None:
        if self._reading:
            raise OurBug("a move that only reads was about to change the ledger.")
        self.changes += 1

    def _write(self, *more: tuple[str, Sequence[Any]]) -> None:
        """Write what is held, and make further updates of one row each."""
        if not (self._entries or self._paid or more):
            return
        updates = [(_SPEND, (*paid, name, self._parent(name), *paid)) for name, paid in self._paid.items()]
        inserts = [("entries", COLUMNS, self._entries), ("answers", _ANSWER, self._answers)]
        *changed, added = self.connection.put([*updates, *more], inserts)
        if any(count != 1 for count in changed):  # a LedgerError rolls the whole transaction back
            raise LedgerTampered("a balance did not move as it was found to; nothing was charged.")
        if added != len(self._entries) + len(self._answers) or (self._answers and not self._stored()):
            raise LedgerTampered("the ledger does not hold what was just written to it; nothing was charged or stored.")
        self._entries, self._answers, self._paid = [], [], {}

    def _stored(self) -> bool:
        """Whether the store, read back, holds the answers that will be delivered, byte for byte (law 1)."""
        given = {(charge, step): payload for charge, step, _, payload in self._answers}
        (found,) = self.connection.among([(_HELD, list(given))])
        return {(row[0], row[1]): bytes(row[2]) for row in found} == given

    def _parent(self, account: str) -> str:
        row = self._stands[account]
        assert row is not None
        return str(row[PARENT])

    def settle(self) -> None:
        """Write all that is held, and the head, if anything changed since it was last written."""
        if self.sequence != self._headed:
            self._write((_HEAD, (self.sequence, self.head)))
            self._headed = self.sequence

    def commit(self) -> Position | None:
        """Make everything durable; the new position, or None if nothing changed."""
        if self.sequence == self._began:
            self.connection.rollback()
            return None
        self.settle()
        self._write()
        self.connection.commit()
        return self.position
