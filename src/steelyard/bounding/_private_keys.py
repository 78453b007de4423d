"""Keys that are not public: found in the rows, shown only where enough units stand behind them, and paid for.

A part of the price buys noisy numbers of units by key, and the keys that reach the threshold; the rest buys the totals
of those keys. A rare key may slip out with a small probability, charged on what the account sets aside for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from steelyard.bounding._amounts import Spend
from steelyard.errors import CurrencyMismatch
from steelyard.mechanisms import KeyThreshold, sigma_for
from steelyard.noise import Noise
from steelyard.privacy import Terms
from steelyard.tables import Capped, Limits, Table

SHARE = Fraction(1, 2)
"""The share of mu that buys the keys; squares add, so the totals keep 87 % of it."""

_SLICE = 10
"""One release may use a tenth of the probability that an account sets aside."""


@dataclass(frozen=True)
class PrivateKeys:
    """How the keys of a column are found."""

    by: str
    limits: Limits
    threshold: KeyThreshold

    @classmethod
    def plan(cls, by: str, max_keys: int, rows_per_key: int | None, spend: Spend, terms: Terms) -> PrivateKeys:
        """Everything about the search that is known in advance."""
        if not spend.gaussian or not terms.cap.delta:
            raise CurrencyMismatch(
                f"which keys {by!r} holds is private. Give the public list keys=[...], or open the account with delta= and "
                "additive_delta=, a part of it set aside for keys that slip out."
            )
        failure = Fraction(terms.cap.delta // _SLICE, 10**18)
        mechanism = KeyThreshold(max_keys, sigma_for(max_keys, spend.micro**2), failure)
        return cls(by, Limits(max_keys, rows_per_key), mechanism)

    def look(self, table: Table, terms: Terms, part: Capped, noise: Noise) -> dict[Any, tuple[int, int]]:
        """The shown keys, each with its noisy number of units and its exact bounded total (still to be noised)."""
        found = table.found_sums_by_key(terms.unit, [part], self.by, self.limits)
        shown = self.threshold.release({key: units for key, (units, _) in found.items()}, noise)
        return {key: (count, found[key][1][0]) for key, count in shown.items()}
