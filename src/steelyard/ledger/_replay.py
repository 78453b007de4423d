"""The chain followed entry by entry: what every other table must hold, and what an entry says that cannot be.

A charge or a raise of an account moves its balance and that of every account above it, as it did when it was made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from steelyard.ledger._acts import AFTER, CLOSED, OPEN
from steelyard.ledger._chain import GENESIS, Entry
from steelyard.ledger._transaction import CAP, CAP_DELTA, SPENT, SPENT_DELTA, STATE

if TYPE_CHECKING:
    from steelyard.ledger._prices import Prices


@dataclass
class LedgerReplay:
    """What the other tables must hold, rebuilt from the chain entry by entry."""

    key: bytes
    prices: Prices | None = None
    sequence: int = 0
    head: str = GENESIS
    origin: dict[str, Any] = field(default_factory=dict)
    accounts: dict[str, tuple[str, int]] = field(default_factory=dict)
    balances: dict[str, list[Any]] = field(default_factory=dict)
    levels: dict[int, int] = field(default_factory=dict)
    answers: int = 0
    _lines: dict[str, list[tuple[str, list[Any]]]] = field(default_factory=dict)

    def take(self, entry: Entry, stored: int | None, payload: object) -> Iterator[str]:
        """Follow one entry; says what is wrong with it."""
        if entry.sequence != self.sequence + 1:
            yield f"entry {self.sequence + 1} is missing (the next one is {entry.sequence})"
        if not entry.authentic(self.key, self.head):
            yield f"entry {entry.sequence} ({entry.kind}) was changed, or what stood before it was"
        elif entry.kind == "answer":
            yield from self._answer(entry, stored, payload)
        else:
            yield from self._follow(entry)
        self.sequence, self.head = entry.sequence, entry.mac

    def _follow(self, entry: Entry) -> Iterator[str]:
        if entry.kind == "charge":
            return self._charge(entry)
        if entry.kind in AFTER:
            return self._act(entry)
        kinds = {"ledger": self._ledger, "upgrade": self._upgrade, "account": self._account, "raise": self._raise}
        return kinds.get(entry.kind, self._note)(entry)

    def _ledger(self, entry: Entry) -> Iterator[str]:
        if entry.sequence != 1:
            yield f"entry {entry.sequence} claims to be the beginning of a ledger"
        self.origin = parsed(entry.detail)

    def _upgrade(self, entry: Entry) -> Iterator[str]:
        said = parsed(entry.detail)
        if said.get("from") != self.origin.get("version"):
            yield f"entry {entry.sequence} upgrades from format {said.get('from')}, which this ledger did not have"
        self.origin |= {name: said.get(name) for name in ("version", "schema")}

    def _account(self, entry: Entry) -> Iterator[str]:
        if entry.account in self.accounts:
            yield f"entry {entry.sequence} opens the account {entry.account!r} a second time"
        terms = parsed(entry.detail)
        parent = terms.get("parent") or ""
        balance = [parent, OPEN, 0, 0, entry.amount, entry.delta]
        self.accounts[entry.account], self.balances[entry.account] = (entry.detail, entry.sequence), balance
        self._lines[entry.account] = [(entry.account, balance), *self._lines.get(parent, [])]
        if parent:
            yield from self._below(entry, terms, parent)
        if self.prices is not None:
            self.prices.opened(entry)

    def _below(self, entry: Entry, terms: dict[str, Any], parent: str) -> Iterator[str]:
        if parent not in self.accounts:
            yield f"entry {entry.sequence} opens an account below the unknown account {parent!r}"
            return
        above = parsed(self.accounts[parent][0])
        if _kind(above) != _kind(terms):
            yield f"entry {entry.sequence} opens an account of another unit or currency than {parent!r} above it"
        if any(balance[STATE] != OPEN for _, balance in self._lines[parent]):
            yield f"entry {entry.sequence} opens an account below one that is not open"

    def _charge(self, entry: Entry) -> Iterator[str]:
        yield from self._spend(entry, entry.amount, entry.delta)
        if self.prices is not None:
            yield from self.prices.charge(entry)

    def _raise(self, entry: Entry) -> Iterator[str]:
        detail = parsed(entry.detail)
        before = detail.get("from", -1)
        if not isinstance(before, int) or self.levels.get(entry.charge, before) != before or entry.amount <= before:
            yield f"entry {entry.sequence} does not raise charge {entry.charge}"
            return
        self.levels[entry.charge] = entry.amount
        yield from self._spend(entry, entry.amount - before, 0)
        if self.prices is not None:
            yield from self.prices.raised(entry, detail.get("event"))

    def _spend(self, entry: Entry, amount: int, delta: int) -> Iterator[str]:
        line = self._lines.get(entry.account)
        if line is None:
            yield f"entry {entry.sequence} charges the unknown account {entry.account!r}"
            return
        for name, balance in line:
            balance[SPENT] += amount
            balance[SPENT_DELTA] += delta
            if balance[SPENT] > balance[CAP] or balance[SPENT_DELTA] > balance[CAP_DELTA]:
                yield f"entry {entry.sequence} overspends the account {name!r}"
            if balance[STATE] != OPEN:
                yield f"entry {entry.sequence} charges the {balance[STATE]} account {name!r}"

    def _answer(self, entry: Entry, stored: int | None, payload: object) -> Iterator[str]:
        self.answers += 1
        if stored is None or not isinstance(payload, bytes):
            yield f"the answer {entry.step} of charge {entry.charge} is missing"
        elif stored != entry.sequence or hashlib.sha256(payload).hexdigest() != entry.digest:
            yield f"the answer {entry.step} of charge {entry.charge} was changed"

    def _act(self, entry: Entry) -> Iterator[str]:
        balance = self.balances.get(entry.account)
        if balance is None or balance[STATE] == CLOSED:
            yield f"entry {entry.sequence} is a {entry.kind} of account {entry.account!r}, which is closed or unknown"
            return
        balance[STATE] = AFTER[entry.kind]

    def _note(self, entry: Entry) -> Iterator[str]:
        if entry.kind != "note":
            yield f"entry {entry.sequence} is of a kind that this steelyard does not know ({entry.kind!r:.40})"
        elif entry.amount or entry.delta:
            yield f"entry {entry.sequence} is a note and moves an amount"


def _kind(terms: dict[str, Any]) -> tuple[Any, Any]:
    cap = terms.get("cap")
    return terms.get("unit"), cap.get("currency") if isinstance(cap, dict) else None


def parsed(text: str) -> dict[str, Any]:
    """A JSON object; an empty one for whatever is none."""
    try:
        data = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
