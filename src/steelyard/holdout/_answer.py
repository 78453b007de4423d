"""What a holdout says, and no more: a value, its interval, and whether it was free, paid for or refused.

Law: every field is a function of the guess, the tolerance and the rounded score. An interval computed from the exact
score, a count of matches or the time it took would each undo the certificate (docs/proofs/holdout_ledger.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FREE, PAID, REFUSED = "free", "paid", "refused"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. ``kind`` is "free" (the guess holds), "paid" (a surprise, rounded) or "refused" (for good).

    >>> print(Answer(0.83, 0.78, 0.88, "free"))
    0.83, between 0.78 and 0.88 (free)
    """

    value: float | None
    low: float | None
    high: float | None
    kind: str

    def __str__(self) -> str:
        if self.value is None or self.low is None or self.high is None:
            return "refused: this holdout answers no more questions; what it said before stays valid"
        return f"{self.value:.6g}, between {self.low:.6g} and {self.high:.6g} ({self.kind})"

    def _repr_html_(self) -> str:
        from steelyard.charts import fragment

        return fragment("Answer of a holdout", str(self))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``Answer.from_json`` reads it back."""
        return {"value": self.value, "low": self.low, "high": self.high, "kind": self.kind}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Answer:
        """Read back what ``to_json`` wrote."""
        return cls(data["value"], data["low"], data["high"], data["kind"])


NO_MORE = Answer(None, None, None, REFUSED)
