"""Receipt: what a charge leaves in the hands of whoever got its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steelyard.privacy import Loss


@dataclass(frozen=True)
class Receipt:
    """Proof of a charge: the entry that set its price, the chain's head there, and the exact cost.

    Anyone who keeps a receipt can later show that a ledger which does not pass through it was rolled back.
    """

    sequence: int
    head: str
    cost: Loss
    account: str
    ledger_id: str

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``Receipt.from_json`` reads it back."""
        return {
            "sequence": self.sequence,
            "head": self.head,
            "cost": self.cost.to_json(),
            "account": self.account,
            "ledger_id": self.ledger_id,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Receipt:
        """Read back what ``to_json`` wrote."""
        cost = Loss.from_json(data["cost"])
        return cls(data["sequence"], data["head"], cost, data["account"], data["ledger_id"])
