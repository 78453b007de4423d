"""What this process has seen of a ledger, against which it is held before every group of moves.

The chain only grows and the anchor only goes forward. So a running process refuses a ledger that does not pass through what
it saw, and an anchor that is missing or older than it was, whoever else has been writing meanwhile. It knows this without a
file: an older ledger put back together with its older anchor is found as long as one process remembers.
"""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.errors import LedgerTampered
from steelyard.ledger.guard import Mark
from steelyard.ledger.transaction import Transaction

_WHAT_TO_DO = (
    "Nothing was charged. Bring the newest ledger and its anchor back; if you can explain the difference and accept the "
    "ledger as it is, Ledger(location).accept() anchors it again, for processes that start after it."
)


class Witness:
    """The furthest marks of one ledger that this process saw: of its chain, and of its anchor."""

    def __init__(self) -> None:
        self.chain: Mark | None = None
        self.anchor: Mark | None = None

    def forget(self) -> None:
        """Begin anew, after somebody accepted the ledger as it is."""
        self.chain = self.anchor = None

    def check(self, transaction: Transaction, anchor: Mark | None) -> None:
        """Refuse to write on a ledger that is not the one that was seen; ``anchor`` was read before the lock was taken."""
        findings = [*older(self.anchor, anchor), *_not_passed(transaction, self.chain, anchor)]
        if findings:
            raise LedgerTampered(f"{findings[0]}. {_WHAT_TO_DO}", findings=findings)
        self.chain = _further(self.chain, Mark(transaction.sequence, transaction.head, transaction.identity.name))
        self.anchor = _further(self.anchor, anchor)

    def saw(self, chain: Mark, anchor: Mark | None) -> None:
        """Remember what was just committed, and where the anchor stands."""
        self.chain, self.anchor = chain, _further(self.anchor, anchor)


def older(known: Mark | None, found: Mark | None) -> Iterator[str]:
    """What is wrong with an anchor, if another one was seen before."""
    if found is None:
        yield "the anchor is missing, so an older copy put back could not be told from the newest one"
    elif known is not None and found.sequence < known.sequence:
        yield f"the anchor stands at entry {found.sequence}, but was seen at {known.sequence}: an older one was put back"


def _further(known: Mark | None, found: Mark | None) -> Mark | None:
    return known if known is not None and (found is None or found.sequence < known.sequence) else found


def _not_passed(transaction: Transaction, *marks: Mark | None) -> Iterator[str]:
    for mark in {mark for mark in marks if mark is not None and mark.sequence}:
        if transaction.sequence < mark.sequence:
            yield (
                f"the ledger ends at entry {transaction.sequence}, but entry {mark.sequence} was seen: "
                "an older copy was put back"
            )
        elif _head_at(transaction, mark.sequence) != mark.head or (
            transaction.identity.name and mark.ledger != transaction.identity.name
        ):
            yield f"entry {mark.sequence} is not the one that was seen: another history was put in its place"


def _head_at(transaction: Transaction, sequence: int) -> str:
    if sequence == transaction.sequence:
        return transaction.head
    row = transaction.one("SELECT mac FROM entries WHERE sequence = ?", (sequence,))
    return "" if row is None else str(row[0])
