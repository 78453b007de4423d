"""``Profile``: one private look at how much users contribute; every plan made from it afterwards is free.

Each user's total falls in exactly one bin of a public grid, two to the octave; the counts are noised and released. From
them, for any later epsilon, come the cap, the noise it needs, the bias it brings, and the whole curve between (papers:
Amin, Kulesza, Munoz and Vassilvitskii; proofs/cap.md). The grid depends on the request alone (law 6).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from steelyard.bounding._amounts import Spend, bound, check_unit, noise_error
from steelyard.bounding._cap_choice import BoughtCounts, ContributionProfile, TotalsGrid
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.noise import Noise
from steelyard.plan import Outcome, Plan
from steelyard.privacy import Number, Terms, positive
from steelyard.tables import Quantity, Schema, Table


@dataclass(frozen=True)
class Profile:
    """One private look at the distribution of the sizes of per-user totals of a column, or (``rows=True``) of row counts.

    *Privacy:* each user is in one bin, so the counts move by one. *Cost:* exactly ``epsilon``; plans are free.
    ``upper`` is the public largest total worth considering, ``resolution`` the smallest worth keeping.
    """

    column: str | None = None
    epsilon: Number | None = None
    upper: Number | None = None
    resolution: Number | None = None
    rows: bool = False
    mu: Number | None = None

    def __post_init__(self) -> None:
        if (self.column is None) == (not self.rows):
            raise InvalidTask("a profile looks at a column, or with rows=True at the number of rows; give one of them.")
        if self.upper is None:
            raise InvalidTask("a profile needs upper=, the public largest total per user worth considering.")
        for name in ("epsilon", "mu", "upper", "resolution"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive(getattr(self, name), name))
        _ = self.grid

    @lazy
    def grid(self) -> TotalsGrid:
        """The public grid."""
        upper = bound(self.upper or 0, "upper")
        return TotalsGrid.of_rows(upper) if self.rows else TotalsGrid.of_values(upper, self.resolution)

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One noisy histogram; the error is that of each count."""
        check_unit(schema, terms)
        if self.column is not None:
            schema.require_numeric(self.column)
        spend = Spend.read(self.epsilon, self.mu, terms)
        bought = BoughtCounts(spend, spend.mechanism(1))
        error = replace(noise_error(bought.mechanism, Fraction(1)), unit="units in each bin")

        def look(table: Table, noise: Noise) -> Outcome:
            quantity = Quantity(self.column, self.grid.step)
            seen = self.grid.look(partial(table.totals_histogram, terms.unit, quantity, sizes=True), bought, noise)
            found = ContributionProfile(self.column, str(terms.unit), self.grid.step, seen)
            tops = [float(top * self.grid.step) for top in seen.grid.tops]
            return Outcome(found.to_json(), error, {"bins": len(seen.counts), "tops": tops})

        return Plan(bought.mechanism.event, error, look, ContributionProfile.from_json)
