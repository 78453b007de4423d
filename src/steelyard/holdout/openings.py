"""One budget for the same labels: what a ledger keeps already, looked at before another holdout is opened on it.

Under a second name the same labels would have a second budget, and votes over many names see through both. Where labels
are not hidden, entry 0 carries a sealed digest of them, and equal labels are refused. Where they are, a comparison would
tell for nothing whether any label has changed, so nothing is made of them: a holdout of as many rows is refused unless
whoever opens it states that no row is in both. The argument is docs/proofs/holdout_ledger.md.
Law: a refusal that looks at labels is for modes that do not hide them, on both sides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from steelyard.errors import UnitMismatch
from steelyard.holdout.modes import HIDING
from steelyard.ledger import Ledger

OPENED = "holdout opened"


@dataclass(frozen=True)
class Opening:
    """What entry 0 says of a holdout; ``labels`` is the seal of its labels, None where they are hidden."""

    name: str
    account: str
    rows: int
    mode: str
    labels: str | None
    separate: bool = False

    def parameters(self) -> dict[str, str]:
        """What goes on the ledger beside the settings."""
        seal = {} if self.labels is None else {"labels": self.labels}
        return seal | ({"separate": "declared"} if self.separate else {})

    def refuse_second_budget(self, ledger: Ledger) -> None:
        """Refuse labels that have a budget on the ledger under another name."""
        for other in _kept(ledger):
            if (other.name, other.account) != (self.name, self.account):
                self._compare(other)

    def _compare(self, other: Opening) -> None:
        told = f"the holdout {other.name!r} (account {other.account!r}, mode {other.mode!r}, {other.rows:,} rows)"
        if self.mode in HIDING or other.mode in HIDING:
            if other.rows == self.rows and not self.separate:
                raise UnitMismatch(
                    f"this ledger keeps {told}, and hidden labels cannot be compared without telling of them. If these "
                    "are the same rows, open that holdout: they have one budget. If no row is in both, say so with "
                    "separate=True (--separate)."
                )
        elif self.labels is not None and self.labels == other.labels:
            raise UnitMismatch(
                f"these are the labels of {told}. The same labels have one budget for good: open that holdout, with "
                "its settings."
            )


def _kept(ledger: Ledger) -> Iterator[Opening]:
    for entry in ledger.charges("holdout/%/0"):
        event: dict[str, Any] = json.loads(entry.detail) if entry.detail else {}
        if event.get("name") == OPENED:
            facts = event["parameters"]
            yield Opening(facts["holdout"], entry.account, int(facts["rows"]), facts["mode"], facts.get("labels"))
