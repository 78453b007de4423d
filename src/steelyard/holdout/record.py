"""The one place where a holdout charges and stores: a row of numbered entries on its account.

Entry k of a holdout has the key "holdout/NAME/k", so two processes cannot both add it: whoever knows entries 0..k-1
alone can add entry k, and every entry a process did not know shows up before it can add its own. An entry is charged
first; then it is claimed by storing what it is for, and the first claim stands for ever (law 1).
A glance at the ledger's anchor, which moves between a commit and the return of the call that committed, tells in
microseconds whether anyone has added anything since. The proof is docs/proofs/holdout_ledger.md.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.errors import KeyConflict, LedgerError, UnitMismatch
from steelyard.ledger import Account, Charge, Ledger, place
from steelyard.ledger.guard import FileAnchor
from steelyard.ledger.store import Store, reach
from steelyard.ledger.turns import Turns
from steelyard.privacy import Event, Loss, canonical

_OPEN = "open"


@dataclass
class Entry:
    """One entry: what kind it is, what it cost, what claimed it, and what was noted under it later."""

    number: int
    kind: str
    loss: Loss
    charge: Charge = field(repr=False)
    held: Mapping[str, Any] | None = None
    notes: int = 0


class Record:
    """The entries of one holdout, as far as this process knows them."""

    def __init__(self, account: Account, name: str, bound: bytes, kinds: tuple[str, ...], hidden: bool = False) -> None:
        self.account = account
        self._other = "another" if hidden else "other labels, another"
        self.name = name
        self.entries: list[Entry] = []
        self._store: Store = reach(account.location, check=False)
        self._watched = self._store.anchor if place.find(account.location).kind == "sqlite" else None
        self._mark: bytes | None = None
        seal = hmac.digest(self.secret("binding"), bound, hashlib.sha256).hex()
        self._requests = {
            kind: canonical({"holdout": name, "bound": seal, "kind": kind}) for kind in (*dict.fromkeys(kinds), _OPEN)
        }

    def secret(self, purpose: str) -> bytes:
        """A key that only holders of the ledger's own key can derive."""
        return hmac.digest(self._store.identity.key, f"holdout/{self.name}/{purpose}".encode(), hashlib.sha256)

    def open(self, loss: Loss, event: Event, first: Callable[[Ledger], None] = lambda ledger: None) -> None:
        """Bind the account by entry 0, or find it bound already.

        ``first`` may refuse what is new; no other holdout is opened on the ledger meanwhile.
        """
        self.refresh()
        if not self.entries:
            with self._store.turns("holdouts opened"):
                self.refresh()
                if not self.entries:
                    first(Ledger(self.account.location))
                    self.add(_OPEN, loss, event)
            self.refresh()

    def seal(self, purpose: str, data: bytes) -> str:
        """A keyed digest that equal data have under every name and account of this ledger."""
        key = hmac.digest(self._store.identity.key, f"holdouts/{purpose}".encode(), hashlib.sha256)
        return hmac.digest(key, data, hashlib.sha256).hex()

    def turns(self) -> Turns:
        """One asker of this holdout at a time, in whichever process, and whether the last one came to an end."""
        return self._store.turns(canonical([self.account.name, self.name]).decode())

    def current(self) -> bool:
        """Whether no entry was added that this process does not know."""
        if self._mark is None:
            return False
        if self._watched is None:
            return self._find(len(self.entries)) is None
        return self._glance() == self._mark

    def refresh(self) -> list[Entry]:
        """Learn what was added; the new entries."""
        mark, known = self._glance(), len(self.entries)
        for entry in self.entries:
            if entry.held is None and entry.kind != _OPEN:
                self.reread(entry)
        while (added := self._find(len(self.entries))) is not None:
            self.entries.append(added)
        self._mark = mark
        return self.entries[known:]

    def add(self, kind: str, loss: Loss, event: Event) -> Entry | None:
        """Charge for the next entry, durably; None when someone else added one that was not known here."""
        number = len(self.entries)
        try:
            charge = self.account.charge(loss, key=self._key(number), request=self._requests[kind], event=event)
        except KeyConflict:
            self._mark = None
            return None
        self._mark = None
        entry = _entry(number, kind, charge)
        self.entries.append(entry)
        return entry

    def claim(self, entry: Entry, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Store what an entry is for, unless something is stored already; what it holds may be delivered."""
        held = entry.charge.store(canonical(content))
        self._mark = None
        self._seen_by_others(entry.charge.sequence)
        entry.held = json.loads(held)
        assert entry.held is not None
        return entry.held

    def note(self, entry: Entry, content: Mapping[str, Any]) -> None:
        """Store one more thing under an entry that this process claimed."""
        entry.notes += 1
        entry.charge.store(canonical(content), step=entry.notes)
        self._mark = None

    def notes(self, entry: Entry) -> list[Mapping[str, Any]]:
        """What was noted under an entry when it was read."""
        return [json.loads(text) for step, text in sorted(entry.charge.answers.items()) if step > 0]

    def _key(self, number: int) -> str:
        return f"holdout/{self.name}/{number}"

    def _find(self, number: int) -> Entry | None:
        for kind, request in self._requests.items():
            try:
                charge = self.account.find(key=self._key(number), request=request)
            except KeyConflict:
                continue
            return None if charge is None else _entry(number, kind, charge)
        raise UnitMismatch(
            f"account {self.account.name!r} already keeps a holdout named {self.name!r} with {self._other} metric, "
            "number of rows, tolerance, confidence, mode or option. A holdout has one budget for good: open it as it was."
        )

    def reread(self, entry: Entry) -> None:
        """Learn what was stored under an entry since it was read."""
        again = self.account.find(key=self._key(entry.number), request=self._requests[entry.kind])
        if again is not None:
            fresh = _entry(entry.number, entry.kind, again)
            entry.charge, entry.held, entry.notes = fresh.charge, fresh.held, fresh.notes

    def _glance(self) -> bytes:
        """The anchor's bytes; nothing where other machines may write (then entries are looked up instead)."""
        if not isinstance(self._watched, FileAnchor):
            return b""
        handle = os.open(self._watched.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(handle, 4096)
        finally:
            os.close(handle)

    def _seen_by_others(self, sequence: int) -> None:
        """Deliver nothing that a glance of another process would miss: the anchor must have come this far."""
        if isinstance(self._watched, FileAnchor):
            mark = self._watched.read()
            if mark is None or mark.sequence < sequence:
                raise LedgerError("the ledger's anchor could not be written; make room on its disk and ask again.")


def _entry(number: int, kind: str, charge: Charge) -> Entry:
    answers = charge.answers
    held = json.loads(answers[0]) if 0 in answers else None
    return Entry(number, kind, charge.level, charge, held, max(answers, default=0))
