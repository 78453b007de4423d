"""Broken twins: a ledger that checks and then acts, a worker that delivers before it stores, one that forgets the anchor."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from faults.histories import History, read_deliveries
from steelyard.account import Charge
from steelyard.errors import BudgetExceeded, LedgerTampered
from steelyard.ledger import Account
from steelyard.ledger import _anchor as anchors
from steelyard.ledger._anchor import FileAnchor, Witness
from steelyard.ledger._chain import Position
from steelyard.ledger._transaction import Transaction
from steelyard.privacy import Currency, Loss


class RacyCharge:
    """A charge of the racy ledger; storing is done properly, so that only the race is on trial."""

    def __init__(self, path: str, account: str, key: str) -> None:
        self._path, self._name = path, (account, key)
        with closing(_connect(path)) as link:
            row = link.execute("SELECT answer FROM answers WHERE account = ? AND name = ?", self._name).fetchone()
        self.answer: bytes | None = row[0] if row else None

    def raise_to(self, level: Loss) -> None:
        """The racy ledger knows no paths."""

    def store(self, payload: bytes) -> bytes:
        """First writer wins."""
        with closing(_connect(self._path)) as link:
            link.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", (*self._name, payload))
            row = link.execute("SELECT answer FROM answers WHERE account = ? AND name = ?", self._name).fetchone()
        return bytes(row[0])


class RacyAccount:
    """Reads the balance, decides, and only then writes: the classic race."""

    def __init__(self, path: str, name: str) -> None:
        self._path, self.name = path, name

    @classmethod
    def open(cls, path: str, name: str, cap: int) -> None:
        """Open an account with a cap."""
        with closing(_connect(path)) as link:
            link.execute("CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, cap INTEGER, spent INTEGER)")
            link.execute("CREATE TABLE IF NOT EXISTS charges (account TEXT, name TEXT, PRIMARY KEY (account, name))")
            link.execute("CREATE TABLE IF NOT EXISTS answers (account, name, answer, PRIMARY KEY (account, name))")
            link.execute("INSERT INTO accounts VALUES (?, ?, 0)", (name, cap))

    def charge(self, loss: Loss, *, key: str, request: bytes) -> RacyCharge:
        """Check, then act."""
        with closing(_connect(self._path)) as link:
            known = link.execute("SELECT 1 FROM charges WHERE account = ? AND name = ?", (self.name, key)).fetchone()
            cap, spent = link.execute("SELECT cap, spent FROM accounts WHERE name = ?", (self.name,)).fetchone()
            if not known:
                if spent + loss.amount > cap:
                    raise BudgetExceeded("spent", wanted=loss, remaining=Loss(Currency.PURE, max(cap - spent, 0)))
                time.sleep(0.001)
                link.execute("INSERT OR IGNORE INTO charges VALUES (?, ?)", (self.name, key))
                link.execute("UPDATE accounts SET spent = spent + ? WHERE name = ?", (loss.amount, self.name))
        return RacyCharge(self._path, self.name, key)


class ChargedApart(Account):
    """An account whose parent is charged in a transaction of its own, after it: a kill in between leaves them apart."""

    def charge(self, loss: Loss, *, key: str, request: bytes, **_: Any) -> Charge:
        """Charge here, and then above."""
        made = super().charge(loss, key=key, request=request)
        parent, _slash, child = self.name.partition("/")
        Account(self.location, parent).charge(loss, key=f"{child}/{key}", request=request)
        return made


def of_racy(path: str, folder: Path) -> History:
    """The history of the racy ledger."""
    history = History(delivered=read_deliveries(folder))
    with closing(_connect(path)) as link:
        for name, cap, spent in link.execute("SELECT name, cap, spent FROM accounts"):
            history.caps[name], history.spent[name] = cap, spent
        history.charged = {(row[0], row[1]) for row in link.execute("SELECT account, name FROM charges")}
        for account, name, answer in link.execute("SELECT account, name, answer FROM answers"):
            history.stored[account, name] = hashlib.sha256(answer).hexdigest()
    return history


def _connect(path: str) -> sqlite3.Connection:
    link = sqlite3.connect(path, timeout=30, isolation_level=None)
    link.execute("PRAGMA synchronous = OFF")
    return link


def glance_at_the_anchor(witness: Witness, transaction: Transaction, anchor: Position | None, known: object) -> None:
    """Takes a missing or unsound anchor for no reason to refuse, and remembers nothing."""
    if anchor is not None and transaction.sequence < anchor.sequence:
        raise LedgerTampered("an older copy was put back")


def write_whatever_is_there(anchor: FileAnchor, mark: Position) -> Position:
    """Makes a fresh anchor where there is none, and overwrites an unsound one."""
    anchor.path.write_bytes(anchors._line(mark, anchor._key))
    return mark
