"""What a holdout keeps on its account: a row of numbered entries, each charged, claimed and read back at a desk.

Entry k of a holdout has the key "holdout/NAME/k", so two processes cannot both add it: whoever knows entries 0..k-1
alone can add entry k, and every entry a process did not know shows up before it can add its own. An entry is charged
first; then it is claimed by storing what it is for, and the first claim stands for ever (law 1). A glance at the
ledger's anchor, which moves between a commit and the return of the call that committed, tells in microseconds whether
anyone has added anything since. Entry 0 is the opening. Under a second name the same labels would have a second budget,
and votes over many names see through both. Where labels are not hidden, entry 0 carries a sealed digest of them, and
equal labels are refused. Where they are, a comparison would tell for nothing whether any label has changed, so nothing
is made of them: a holdout of as many rows is refused unless whoever opens it states that no row is in both. The proof
is docs/proofs/holdout_ledger.md.
Law: a refusal that looks at labels is for modes that do not hide them, on both sides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.account import Charge
from steelyard.desk import Desk, NoTable
from steelyard.errors import KeyConflict, UnitMismatch
from steelyard.holdout._modes import HIDING, Mode, NoisyMode
from steelyard.ledger import Account, Ledger, Lock
from steelyard.noise import Noise
from steelyard.privacy import Event, Loss, Neighbours, canonical

OPENED = "holdout opened"
_OPEN = "open"
Content = Mapping[str, Any] | Callable[[Noise], Mapping[str, Any]]


@dataclass
class HoldoutEntry:
    """One entry: what kind it is, what it cost, what claimed it, and how many notes were stored under it later."""

    number: int
    kind: str
    loss: Loss
    charge: Charge = field(repr=False)
    held: Mapping[str, Any] | None = None
    notes: int = 0


class Record:
    """The entries of one holdout, as far as this process knows them."""

    def __init__(self, account: Account, name: str, bound: bytes, mode: Mode) -> None:
        self.account, self.name = account, name
        self.entries: list[HoldoutEntry] = []
        self._ledger = Ledger(account.location)
        self._lock_name = canonical([account.name, name]).decode()
        self._other = "another" if isinstance(mode, NoisyMode) else "other labels, another"
        self._fresh, self._mark = False, b""
        request = {"holdout": name, "bound": self.secret("binding", bound).hex()}
        self._desks = {
            kind: Desk(NoTable(), mode.source, account, f"holdout/{name}", {**request, "kind": kind})
            for kind in (*mode.kinds, _OPEN)
        }

    def secret(self, purpose: str, data: bytes = b"") -> bytes:
        """A key, or the keyed digest of data, that only holders of the ledger's own key can derive."""
        return self.account.seal(f"holdout/{self.name}/{purpose}", data)

    def seal(self, purpose: str, data: bytes) -> str:
        """A keyed digest that equal data have under every name and account of this ledger."""
        return self._ledger.seal(f"holdouts/{purpose}", data).hex()

    def open(self, settings: Mapping[str, Any]) -> None:
        """Bind the account by entry 0, or find it bound already; no other holdout is opened on the ledger meanwhile."""
        self.refresh()
        if not self.entries:
            with self._ledger.lock("holdouts opened"):
                self.refresh()
                if not self.entries:
                    refuse_second_budget(self._ledger, self.account.name, settings)
                    event = Event(OPENED, dict(settings), Neighbours.REPLACE)
                    self.add(_OPEN, Loss.zero(self.account.terms.currency), event)
            self.refresh()

    def lock(self) -> Lock:
        """One asker of this holdout at a time, in whichever process, and whether the last one came to an end."""
        return self._ledger.lock(self._lock_name)

    def current(self) -> bool:
        """Whether no entry was added that this process does not know."""
        if not self._fresh:
            return False
        glance = self._ledger.glance()
        return self._find(len(self.entries)) is None if glance is None else glance == self._mark

    def refresh(self) -> list[HoldoutEntry]:
        """Learn what was added; the new entries."""
        mark, known = self._ledger.glance(), len(self.entries)
        for entry in self.entries:
            if entry.held is None and entry.kind != _OPEN:
                self.reread(entry)
        while (added := self._find(len(self.entries))) is not None:
            self.entries.append(added)
        self._fresh, self._mark = True, mark or b""
        return self.entries[known:]

    def add(self, kind: str, loss: Loss, event: Event) -> HoldoutEntry | None:
        """Charge for the next entry, durably; None when someone else added one that was not known here."""
        number = len(self.entries)
        self._fresh = False
        try:
            charge = self._desks[kind].charge(event, str(number), loss=loss)
        except KeyConflict:
            return None
        self.entries.append(self._entry(number, kind, charge))
        return self.entries[-1]

    def claim(self, entry: HoldoutEntry, content: Content) -> Mapping[str, Any]:
        """Store what an entry is for, unless something is stored already; what it holds may be delivered.

        Nothing is delivered that a glance of another process would miss.
        """
        self._fresh = False
        held = self._desks[entry.kind].claim(entry.charge, content)
        self._ledger.anchored(entry.charge.sequence)
        entry.held = held
        return held

    def note(self, entry: HoldoutEntry, content: Content) -> Mapping[str, Any]:
        """Store one more thing under an entry that this process claimed; what may be delivered."""
        self._fresh = False
        entry.notes += 1
        return self._desks[entry.kind].claim(entry.charge, content, step=entry.notes)

    def notes(self, entry: HoldoutEntry) -> list[Mapping[str, Any]]:
        """What was noted under an entry when it was read."""
        return [note for step, note in self._desks[entry.kind].claims(entry.charge).items() if step > 0]

    def reread(self, entry: HoldoutEntry) -> None:
        """Learn what was stored under an entry since it was read."""
        again = self._desks[entry.kind].paid(str(entry.number))
        if again is not None:
            fresh = self._entry(entry.number, entry.kind, again)
            entry.charge, entry.held, entry.notes = fresh.charge, fresh.held, fresh.notes

    def _find(self, number: int) -> HoldoutEntry | None:
        for kind, desk in self._desks.items():
            try:
                charge = desk.paid(str(number))
            except KeyConflict:
                continue
            return None if charge is None else self._entry(number, kind, charge)
        raise UnitMismatch(
            f"account {self.account.name!r} already keeps a holdout named {self.name!r} with {self._other} metric, "
            "number of rows, tolerance, confidence, mode or option. A holdout has one budget for good: open it as it was."
        )

    def _entry(self, number: int, kind: str, charge: Charge) -> HoldoutEntry:
        claims = self._desks[kind].claims(charge)
        return HoldoutEntry(number, kind, charge.level, charge, claims.get(0), max(claims, default=0))


def refuse_second_budget(ledger: Ledger, account: str, mine: Mapping[str, Any]) -> None:
    """Refuse labels that have a budget on the ledger under another name; ``mine`` is what entry 0 will say of them."""
    for entry in ledger.charges("holdout/%/0"):
        event: dict[str, Any] = json.loads(entry.detail) if entry.detail else {}
        other = event.get("parameters", {})
        if event.get("name") == OPENED and (other["holdout"], entry.account) != (mine["holdout"], account):
            _compare(mine, other, entry.account)


def _compare(mine: Mapping[str, Any], other: Mapping[str, Any], account: str) -> None:
    rows, mode = int(other["rows"]), other["mode"]
    told = f"the holdout {other['holdout']!r} (account {account!r}, mode {mode!r}, {rows:,} rows)"
    if mine["mode"] in HIDING or mode in HIDING:
        if rows == mine["rows"] and "separate" not in mine:
            raise UnitMismatch(
                f"this ledger keeps {told}, and hidden labels cannot be compared without telling of them. If these "
                "are the same rows, open that holdout: they have one budget. If no row is in both, say so with "
                "separate=True (--separate)."
            )
    elif mine["labels"] == other["labels"]:
        raise UnitMismatch(
            f"these are the labels of {told}. The same labels have one budget for good: open that holdout, with "
            "its settings."
        )
