"""Ledger: the whole book of one place, to list, verify and export."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from steelyard.account import Receipt
from steelyard.errors import LedgerError, LedgerTampered
from steelyard.ledger import birth, place, verify
from steelyard.ledger.account import LedgerAccount, seal
from steelyard.ledger.chain import COLUMNS, Entry
from steelyard.ledger.guard import FileAnchor, Mark
from steelyard.ledger.store import Store, reach
from steelyard.ledger.turns import Turns
from steelyard.ledger.verify import Report
from steelyard.ledger.witness import older

_ALL = f"SELECT {', '.join(COLUMNS)} FROM entries ORDER BY sequence"
_LIKE = f"SELECT {', '.join(COLUMNS)} FROM entries WHERE kind = 'charge' AND name LIKE ? ORDER BY sequence"


class Ledger:
    """A ledger that exists, opened to be read; it opens even when it would be refused for spending.

    >>> from steelyard.ledger import open_account
    >>> from steelyard.privacy import rows
    >>> account = open_account(":memory:", "demo", unit=rows(), epsilon="1")
    >>> Ledger(account.location).verify().ok
    True
    """

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self._store: Store = reach(location, check=False)
        self.location = self._store.place.text

    @property
    def id(self) -> str:
        """The ledger's random name."""
        with self._store.reading() as link:
            return birth.recognize(link, self._store.place, self._store.identity.key)

    def accounts(self) -> list[LedgerAccount]:
        """Every account, by name."""
        with self._store.reading() as link:
            names = [row[0] for row in link.rows("SELECT name FROM accounts ORDER BY name")]
        return [LedgerAccount(self.location, name) for name in names]

    def account(self, name: str) -> LedgerAccount:
        """One account; it must exist."""
        account = LedgerAccount(self.location, name)
        _ = account.terms
        return account

    def entries(self) -> Iterator[Entry]:
        """Every entry in order, streamed from one snapshot."""
        with self._store.reading() as link:
            for row in link.rows(_ALL):
                yield Entry.read(row)

    def charges(self, keys: str) -> list[Entry]:
        """The charges whose keys are like a pattern, in which % stands for anything."""
        with self._store.reading() as link:
            return [Entry.read(row) for row in link.rows(_LIKE, (keys,))]

    def lock(self, name: str) -> Turns:
        """The lock of this name on the ledger: ``with`` it one holder at a time goes on, whichever process it is in."""
        return self._store.turns(name)

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
        mark = None if anchor is None else anchor.read()
        if anchor is not None and (mark is None or mark.sequence < sequence):
            raise LedgerError("the ledger's anchor could not be written; make room on its disk and ask again.")

    @property
    def _watched(self) -> FileAnchor | None:
        anchor = self._store.anchor
        return anchor if self._store.place.kind == "sqlite" and isinstance(anchor, FileAnchor) else None

    def export(self) -> Iterator[str]:
        """Every entry as a line of JSON; answers appear as digests only."""
        for entry in self.entries():
            yield json.dumps(dataclasses.asdict(entry), sort_keys=True)

    def verify(self, *, anchor: str | os.PathLike[str] | None = None, receipts: Sequence[Receipt] = ()) -> Report:
        """Check every table against the chain, its prices, the chain against the anchor, and receipts against the chain.

        ``anchor`` is a copy of the anchor kept elsewhere; by default the ledger's own is read.
        """
        key, store = self._store.identity.key, self._store
        here = store.anchor if anchor is None else FileAnchor(Path(anchor), key)
        seen, known = store.witness.chain, store.witness.anchor if anchor is None else None
        try:
            mark = here.read()  # before the snapshot is taken, so that the anchor cannot be ahead of it
        except LedgerTampered as error:
            return Report(False, error.findings, 0, "")
        with store.reading() as link:
            marks = [mark, *([] if seen is None else [seen]), *map(_mark, receipts)]
            report = verify.examine(link, store.identity, marks, prices=True)
            wrong = [text for receipt in receipts for text in verify.compare_receipt(link, receipt)]
        wrong += [] if mark is None else older(known, mark)
        return dataclasses.replace(report, ok=report.ok and not wrong, findings=(*report.findings, *wrong))

    def accept(self) -> Report:
        """Anchor the ledger as it is, after a move or a restore that you can explain; its chain must be whole.

        Other processes that saw a longer ledger go on refusing this one until they are started anew.
        *Privacy:* what was spent after the copy was made is forgotten. Accept only what no one was told.
        """
        store = self._store
        with store.reading() as link:
            report = verify.examine(link, store.identity, [])
        if report.ok:
            store.witness.forget()
            mark = Mark(report.entries, report.head, self.id)
            (store.anchor.write if self._forward(mark) else store.anchor.reset)(mark)
        return report

    def _forward(self, mark: Mark) -> bool:
        """Whether the present anchor is one that this ledger passed through, or that others moved on meanwhile."""
        present = self._store.anchor.peek()
        if present is None or present.ledger != mark.ledger:
            return False
        with self._store.reading() as link:
            row = link.one("SELECT mac FROM entries WHERE sequence = ?", (present.sequence,))
        return row == (present.head,)

    def __repr__(self) -> str:
        return f"Ledger({place.find(self.location).shown!r})"


def _mark(receipt: Receipt) -> Mark:
    return Mark(receipt.sequence, receipt.head, receipt.ledger_id)
