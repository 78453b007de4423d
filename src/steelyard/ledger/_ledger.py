"""A ledger and the accounts on it, as a user holds them: handles; the truth is in the store.

A ``LedgerAccount`` implements ``steelyard.account.Account``: what a desk charges. A ``Ledger`` is the whole of one address, to list, verify
and export, and lends what is shared by all its accounts: locks, seals, a glance at its anchor.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from steelyard.account import Charge, Receipt, Standing, told_more
from steelyard.errors import CurrencyMismatch, InvalidTask, LedgerError, LedgerTampered
from steelyard.lazy import lazy
from steelyard.ledger import _address as address
from steelyard.ledger import _moves as moves
from steelyard.ledger import _verify as verify
from steelyard.ledger._anchor import FileAnchor, older
from steelyard.ledger._chain import COLUMNS, Entry, Position
from steelyard.ledger._connection import UNKNOWN, ConnectionLost
from steelyard.ledger._creation import recognize
from steelyard.ledger._lock import Lock
from steelyard.ledger._store import Store, open_store
from steelyard.ledger._terms import CapGiven, check_size, differences, read_terms
from steelyard.ledger._verify import Verification
from steelyard.privacy import Event, Loss, Number, Terms, Unit, canonical

_ALL = f"SELECT {', '.join(COLUMNS)} FROM entries ORDER BY sequence"
_LIKE = f"SELECT {', '.join(COLUMNS)} FROM entries WHERE kind = 'charge' AND name LIKE ? ORDER BY sequence"


class LedgerAccount:
    """A handle on an account that exists; picklable, since it carries nothing but where and which.

    >>> from steelyard.privacy import rows
    >>> account = open_account(":memory:", "demo", unit=rows(), epsilon="1")
    >>> charge = account.charge(Loss.pure("0.25"), key="first", request=b"count")
    >>> charge.store(b"42"), str(account.remaining)
    (b'42', 'epsilon 0.75')
    """

    def __init__(self, location: str | os.PathLike[str], name: str) -> None:
        self.location = address.parse(location).text
        self.name = check_name(name, "an account's name")

    @lazy
    def _store(self) -> Store:
        return open_store(self.location)

    @lazy
    def terms(self) -> Terms:
        """What the account promises; fixed when it was opened."""
        return _terms_on_ledger(self._store, self.name)

    @property
    def spent(self) -> Loss:
        """What has been charged so far."""
        return self._balance()[0]

    @property
    def remaining(self) -> Loss:
        """What is left."""
        spent, cap = self._balance()
        return cap - spent

    def charge(self, loss: Loss, *, key: str, request: bytes, event: Event | None = None, of: str = "") -> Charge:
        """Charge a loss durably: when this returns, the charge is synced to disk (see ``steelyard.account.Account``)."""
        if loss.currency is not self.terms.currency:
            raise CurrencyMismatch(
                f"account {self.name!r} counts in {self.terms.currency} and this step costs {loss.currency}; "
                "currencies do not convert. Use an account of the other kind."
            )
        check_size(loss, "the cost")
        check_name(key, "a key")
        if not isinstance(request, bytes):
            raise InvalidTask(f"a request is bytes (its canonical JSON); got {type(request).__name__}.")
        detail = "" if event is None else canonical(event.to_json()).decode()
        try:
            standing = self._store.write(moves.charge(self.name, key, moves.bound_to(request, of), loss, detail))
        except ConnectionLost as error:
            raise told_more(error, UNKNOWN) from None
        return self._charge(key, standing)

    def find(self, *, key: str, request: bytes, of: str = "") -> Charge | None:
        """The charge that this key and request made before, or None; costs nothing."""
        standing = self._store.read(moves.find(self.name, key, moves.bound_to(request, of), self.terms.currency))
        return None if standing is None else self._charge(key, standing)

    def _charge(self, key: str, standing: Standing) -> Charge:
        return Charge(self._store, self._store.identity.name, self.name, key, standing, fresh=True)

    def bound_to(self, request: bytes, of: str) -> str:
        """What a key is bound to: the digest of its request, and the public identity of what it is asked of."""
        return moves.bound_to(request, of)

    def answered(self, key: str) -> dict[str, tuple[str, int]]:
        """Every answered charge that is named by this key or by a step of it: what its key is bound to, and its cost by now."""
        return self._store.read(moves.answered(self.name, key))

    def seal(self, purpose: str, data: bytes) -> bytes:
        """A keyed digest, under a key that is derived from the ledger's own for this account and purpose."""
        return seal(self._store.identity.key, [self.name, purpose], data)

    @property
    def durable(self) -> bool:
        """Whether the account outlives this process."""
        return address.parse(self.location).kind != "memory"

    def _balance(self) -> tuple[Loss, Loss]:
        row = self._store.read(lambda transaction: transaction.one(moves.BALANCE, (self.name,)))
        if row is None:
            raise _no_account(self._store, self.name)
        return Loss(self.terms.currency, row[0], row[1]), Loss(self.terms.currency, row[2], row[3])

    def __getstate__(self) -> dict[str, Any]:
        return {"location": self.location, "name": self.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LedgerAccount) and (self.location, self.name) == (other.location, other.name)

    def __hash__(self) -> int:
        return hash((self.location, self.name))

    def __repr__(self) -> str:
        return f"Account({address.parse(self.location).shown!r}, {self.name!r})"


def open_account(
    ledger: str | os.PathLike[str],
    name: str,
    *,
    unit: Unit,
    epsilon: Number | None = None,
    delta: Number | None = None,
    mu: Number | None = None,
    additive_delta: Number | None = None,
    nats: Number | None = None,
) -> LedgerAccount:
    """Open an account, or open it again with the same terms; other terms under the same name are refused.

    *Privacy:* epsilon alone is a cap on the sum of epsilon; epsilon and delta (or mu) cap the sum of mu squared;
    ``additive_delta`` sets a part of delta aside for steps that fail with a probability.
    """
    check_name(name, "an account's name")
    terms = read_terms(unit, CapGiven(epsilon, delta, mu, additive_delta, nats))
    store = open_store(ledger, create=True)
    found = Terms.from_json(json.loads(store.write(moves.open_account(name, terms))))
    different = differences(terms, found)
    if different:
        raise LedgerError(
            f"the account {name!r} exists on {store.address.shown} with other terms: {'; '.join(different)}. Terms never "
            "change: open it with its own."
        )
    account = LedgerAccount(store.address.text, name)
    account.__dict__["_store"] = store
    return account


def check_name(text: str, what: str) -> str:
    """Refuse a name that some engine could not keep as it is."""
    if not isinstance(text, str) or not 0 < len(text) <= 500 or not text.isprintable():
        raise InvalidTask(f"{what} is 1 to 500 printable characters; got {text!r:.80}.")
    return text


def seal(key: bytes, purpose: list[str], data: bytes) -> bytes:
    """A digest of data under a key of its own for each purpose: of one account, or of the whole ledger."""
    return hmac.digest(hmac.digest(key, canonical(purpose), hashlib.sha256), data, hashlib.sha256)


def _terms_on_ledger(store: Store, name: str) -> Terms:
    row = store.read(lambda transaction: transaction.one(moves.TERMS, (name,)))
    if row is None:
        raise _no_account(store, name)
    return Terms.from_json(json.loads(row[0]))


def _no_account(store: Store, name: str) -> LedgerError:
    with store.reading() as connection:
        names = [row[0] for row in connection.rows("SELECT name FROM accounts ORDER BY name LIMIT 20")]
    return LedgerError(
        f"there is no account {name!r} on {store.address.shown}; it has {', '.join(map(repr, names)) or 'none'}."
    )


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
            yield json.dumps(dataclasses.asdict(entry), sort_keys=True)

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
            wrong = [text for receipt in receipts for text in verify.compare_receipt(connection, receipt)]
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
