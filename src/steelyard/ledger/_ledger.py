"""A ledger as a user holds it: the whole of one address, to open accounts on, to list, verify and export.

It lends what is shared by all its accounts: locks, seals, a glance at its anchor, notes of the whole ledger.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from steelyard.account import Receipt
from steelyard.errors import InvalidTask, LedgerError, LedgerTampered
from steelyard.ledger import _address as address
from steelyard.ledger import _moves as moves
from steelyard.ledger import _verify as verify
from steelyard.ledger._account import LedgerAccount, check_name, login, seal, write_note
from steelyard.ledger._anchor import FileAnchor, older
from steelyard.ledger._chain import COLUMNS, Entry, Position
from steelyard.ledger._creation import recognize
from steelyard.ledger._lock import Lock
from steelyard.ledger._receipts import public_key
from steelyard.ledger._store import Store, open_store
from steelyard.ledger._terms import CapGiven, differences, read_terms, share_terms, warn_if_weak
from steelyard.ledger._verify import Verification
from steelyard.privacy import Number, Terms, Unit

_ALL = f"SELECT {', '.join(COLUMNS)} FROM entries ORDER BY sequence"
_CHARGES = f"SELECT {', '.join(COLUMNS)} FROM entries WHERE kind = 'charge'"
_UNANSWERED = "NOT EXISTS (SELECT 1 FROM answers WHERE answers.charge = entries.sequence) ORDER BY sequence"
_PENDING, _PENDING_OF = f"{_CHARGES} AND {_UNANSWERED}", f"{_CHARGES} AND account = ? AND {_UNANSWERED}"
_NOTES = (
    f"SELECT {', '.join(COLUMNS)} FROM entries WHERE kind IN ('note', 'freeze', 'unfreeze', 'close') ORDER BY sequence"
)
_LIKE = f"SELECT {', '.join(COLUMNS)} FROM entries WHERE kind = 'charge' AND name LIKE ? ORDER BY sequence"


def open_account(
    ledger: str | os.PathLike[str],
    name: str,
    *,
    unit: Unit | None = None,
    parent: str | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    mu: Number | None = None,
    additive_delta: Number | None = None,
    nats: Number | None = None,
) -> LedgerAccount:
    """Open an account, or open it again with the same terms; other terms under the same name are refused.

    *Privacy:* epsilon alone is a cap on the sum of epsilon; epsilon and delta (or mu) cap the sum of mu squared;
    ``additive_delta`` sets a part of delta aside for steps that fail with a probability. An epsilon above 50 or a delta above 1/100
    is opened with a ``WeakPromise`` warning.

    With ``parent`` it is opened below an account that exists: of the same unit and currency, with a cap of its own that is at most its parent's. Each
    charge to it is charged to every account above as well, in one step, and refused when any of them has not enough. The caps
    below an account may add up to more than its own: what holds is each cap by itself.
    """
    check_name(name, "an account's name")
    asked = CapGiven(epsilon, delta, mu, additive_delta, nats)
    if parent is None:
        terms = read_terms(unit, asked)
        store = open_store(ledger, create=True)
    else:
        store = open_store(ledger)
        above = LedgerAccount(store.address.text, check_name(parent, "an account's name")).terms
        terms = share_terms(above, parent, unit, asked)
    if terms.unit.spans:
        raise InvalidTask("several periods have no account of their own: each pays; account.during(first, last).")
    warn_if_weak(terms, level=3)
    found = Terms.from_json(json.loads(store.write(moves.open_account(name, terms))))
    different = differences(terms, found)
    if different:
        raise LedgerError(
            f"the account {name!r} exists on {store.address.shown} with other terms: {'; '.join(different)}. Terms never "
            "change: open it with its own."
        )
    account = LedgerAccount(store.address.text, name)
    account.__dict__.update(_store=store, terms=found)
    return account


class Ledger:
    """A ledger that exists, opened to be read; it opens even when it would be refused for spending.

    >>> from steelyard.ledger import open_account
    >>> from steelyard.privacy import rows
    >>> account = open_account(":memory:", "demo", unit=rows(), epsilon="1")
    >>> Ledger(account.location).verify().ok
    True
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self._store: Store = open_store(location, check=False)
        self.location = self._store.address.text

    @property
    def id(self) -> str:
        """The ledger's random name."""
        with self._store.reading() as connection:
            return recognize(connection, self._store.address, self._store.identity.key)

    @property
    def public_key(self) -> str:
        """The key with which anybody can check the signature of a receipt of this ledger: 64 hexadecimal digits."""
        return public_key(self._store.identity.key)

    def accounts(self) -> list[LedgerAccount]:
        """Every account, by name."""
        with self._store.reading() as connection:
            names = [row[0] for row in connection.rows("SELECT name FROM accounts ORDER BY name")]
        return [LedgerAccount(self.location, name) for name in names]

    def account(self, name: str) -> LedgerAccount:
        """One account; it must exist."""
        account = LedgerAccount(self.location, name)
        _ = account.terms
        return account

    def entries(self) -> Iterator[Entry]:
        """Every entry in order, streamed from one snapshot."""
        with self._store.reading() as connection:
            for row in connection.rows(_ALL):
                yield Entry.read(row)

    def charges(self, keys: str) -> list[Entry]:
        """The charges whose keys are like a pattern, in which % stands for anything."""
        with self._store.reading() as connection:
            return [Entry.read(row) for row in connection.rows(_LIKE, (keys,))]

    def pending(self, account: str | None = None) -> list[Entry]:
        """The charges that have no answer yet, in order: of one account, or of all.

        Each says its key (``name``), its request (``task``), its table, its view, and who asked. Releasing that task under that key, of that table,
        answers it for nothing more.
        """
        with self._store.reading() as connection:
            found = connection.rows(_PENDING) if account is None else connection.rows(_PENDING_OF, (account,))
            return [Entry.read(row) for row in found]

    def note(self, text: str, *, act: str = "note", account: str = "", person: str = "", key: str | None = None) -> int:
        """Write a note on the chain, of an account or of the whole ledger: who, when, what was done, and a text. Its number.

        The same ``key`` again is the same note. It moves no amount; write nothing that depends on private rows.
        """
        who = check_name(person, "a person's name") if person else login()
        self._store.check()
        return write_note(self._store, account, text, act, who, key)

    def notes(self, account: str | None = None) -> list[Entry]:
        """The notes and acts on the chain, in order: of one account, or all."""
        with self._store.reading() as connection:
            found = [Entry.read(row) for row in connection.rows(_NOTES)]
        return [entry for entry in found if account is None or entry.account == account]

    def lock(self, name: str) -> Lock:
        """The lock of this name on the ledger: ``with`` it one holder at a time goes on, whichever process it is in."""
        return self._store.lock(name)

    def seal(self, purpose: str, data: bytes) -> bytes:
        """A keyed digest that only holders of the ledger's own key can compute; the same from every account of the ledger."""
        return seal(self._store.identity.key, [purpose], data)

    def glance(self) -> bytes | None:
        """What the anchor holds, which changes with every charge; None where other machines may write, or nothing is kept.

        A charge moves it between its commit and the return of the call that made it.
        """
        anchor = self._watched
        return None if anchor is None else anchor.glance()

    def anchored(self, sequence: int) -> None:
        """Refuse to go on where a glance of another process would miss an entry: the anchor must have come that far."""
        anchor = self._watched
        position = None if anchor is None else anchor.read()
        if anchor is not None and (position is None or position.sequence < sequence):
            raise LedgerError("the ledger's anchor could not be written; make room on its disk and ask again.")

    @property
    def _watched(self) -> FileAnchor | None:
        anchor = self._store.anchor
        return anchor if self._store.address.kind == "sqlite" and isinstance(anchor, FileAnchor) else None

    def export(self) -> Iterator[str]:
        """Every entry as a line of JSON; answers appear as digests only."""
        for entry in self.entries():
            yield json.dumps(entry._asdict(), sort_keys=True)

    def verify(self, *, anchor: str | os.PathLike[str] | None = None, receipts: Sequence[Receipt] = ()) -> Verification:
        """Check every table against the chain, its prices, the chain against the anchor, and receipts against the chain.

        ``anchor`` is a copy of the anchor kept elsewhere; by default the ledger's own is read.
        """
        key, store = self._store.identity.key, self._store
        here = store.anchor if anchor is None else FileAnchor(Path(anchor), key)
        seen, known = store.witness.chain, store.witness.anchor if anchor is None else None
        try:
            position = here.read()  # before the snapshot is taken, so that the anchor cannot be ahead of it
        except LedgerTampered as error:
            return Verification(False, error.findings, 0, "")
        with store.reading() as connection:
            positions = [position, *([] if seen is None else [seen]), *map(_position, receipts)]
            report = verify.examine(connection, store.identity, positions, prices=True)
            wrong = [text for receipt in receipts for text in verify.compare_receipt(connection, receipt, key)]
        wrong += [] if position is None else older(known, position)
        return dataclasses.replace(report, ok=report.ok and not wrong, findings=(*report.findings, *wrong))

    def accept(self) -> Verification:
        """Anchor the ledger as it is, after a move or a restore that you can explain; its chain must be whole.

        Other processes that saw a longer ledger go on refusing this one until they are started anew.
        *Privacy:* what was spent after the copy was made is forgotten. Accept only what no one was told.
        """
        store = self._store
        with store.reading() as connection:
            report = verify.examine(connection, store.identity, [])
        if report.ok:
            store.witness.forget()
            position = Position(report.entries, report.head, self.id)
            (store.anchor.write if self._forward(position) else store.anchor.reset)(position)
        return report

    def _forward(self, position: Position) -> bool:
        """Whether the present anchor is one that this ledger passed through, or that others moved on meanwhile."""
        present = self._store.anchor.peek()
        if present is None or present.ledger != position.ledger:
            return False
        with self._store.reading() as connection:
            row = connection.one("SELECT mac FROM entries WHERE sequence = ?", (present.sequence,))
        return row == (present.head,)

    def __repr__(self) -> str:
        return f"Ledger({address.parse(self.location).shown!r})"


def _position(receipt: Receipt) -> Position:
    return Position(receipt.sequence, receipt.head, receipt.ledger_id)
