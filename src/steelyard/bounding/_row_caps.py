"""The most rows one unit counts for: a public number, from a released profile of rows, or chosen privately inside the release.

Where the row is the unit it is one. ``"auto"`` pays for a look at how many rows units have, as a private cap on a total does
(docs/proofs/cap.md), and the rest buys the answer. A release's ball has the same radius in grid steps whatever the cap, so its price
does not depend on what was chosen; with the cap only the width of a step changes. For every task that weighs rows down.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from steelyard.bounding._amounts import Spend
from steelyard.bounding._cap_choice import (
    BoughtCounts,
    ContributionProfile,
    NoisyHistogram,
    TotalsGrid,
    choice_share,
    choose_cap,
)
from steelyard.bounding._grouping import Grouping
from steelyard.bounding._serving import Serving
from steelyard.bounding._tails import Estimate
from steelyard.errors import InvalidTask
from steelyard.noise import Noise
from steelyard.privacy import Terms
from steelyard.tables import Bins, Capped, Quantity

if TYPE_CHECKING:
    from steelyard.tables import Table

RowCap = int | str | ContributionProfile | None

_MOST_ROWS = 2**20
"""No unit is looked for with more rows than that; it may be generous, caps lie on a logarithmic grid."""


def check_cap(cap: RowCap) -> None:
    """A cap is a whole number of rows, "auto", or a profile of rows."""
    if isinstance(cap, ContributionProfile):
        if cap.column is not None:
            raise InvalidTask("this profile is of totals; a cap on rows needs one of rows: Profile(rows=True, ...).")
    elif cap is None or cap == "auto":
        return
    elif isinstance(cap, bool) or not isinstance(cap, int) or not 1 <= cap <= 2**30:
        raise InvalidTask(f"cap must be a whole number of rows, at least 1, 'auto' or a profile of rows; got {cap!r}.")


def row_cap(cap: RowCap, terms: Terms) -> int:
    """A cap that is known before anything is bought: a number, that of a profile at a cap of one's own, one where the row is the unit."""
    if terms.unit.kind == "rows":
        return 1
    known = cap.cap if isinstance(cap, ContributionProfile) else cap
    if known is None or isinstance(known, str):
        raise InvalidTask(
            "give cap=, the most rows one unit may count for, as a public number: nothing else is known beforehand."
        )
    return int(known)


@dataclass(frozen=True)
class FixedRows:
    """A cap on rows that is fixed, and what is known of the units that it weighs down (``kept`` of all rows, where that was looked at)."""

    cap: Fraction
    kept: Estimate | None = None
    squared: bool = False

    @property
    def told(self) -> str:
        """What the cap does, in words; nothing where it is not known to do anything."""
        if self.kept is None:
            return ""
        kept, cap = self.kept, float(self.cap)
        whom = (
            f"units whose rows have an L2 norm above {cap:.4g} over the bins"
            if self.squared
            else f"units with more than {cap:g} rows"
        )
        between = f"{1 - kept.high:.1%} to {1 - kept.low:.1%} at {kept.confidence:.0%}, calibrated"
        return f"{whom} are weighed down as a whole, by about {1 - kept.value:.1%} of all rows ({between})"


@dataclass(frozen=True)
class RowRule:
    """How a task of values comes by its cap on rows: which rows count, and how many numbers the cap serves.

    ``bins`` are what a unit's rows fall into where the cap bounds an L2 norm over them (``serving.gaussian``); else rows are counted.
    """

    cap: RowCap
    column: str
    grouping: Grouping
    terms: Terms
    serving: Serving
    bins: Bins | None = None
    most: int = _MOST_ROWS

    @classmethod
    def read(
        cls, cap: RowCap, column: str, grouping: Grouping, terms: Terms, serving: Serving, bins: Bins | None = None
    ) -> RowRule:
        """One where the row is the unit; refuses a cap that was not said."""
        if terms.unit.kind == "rows":
            cap = 1
        if cap is None:
            raise InvalidTask("give cap=, the most rows one unit may count for: a public number, 'auto', or a profile.")
        return cls(cap, column, grouping, terms, serving, bins)

    def parts(self, spend: Spend) -> tuple[BoughtCounts | None, Spend]:
        """What buys the choice (nothing, unless it is private) and what is left."""
        if self.cap != "auto":
            return None, spend
        first, rest = spend.split(choice_share(spend.level, spend.law, self.serving.keys))
        return BoughtCounts(first, first.mechanism(1)), rest

    def fixed(self, spend: Spend) -> FixedRows | None:
        """The cap, where it is known before any row is read."""
        if isinstance(self.cap, ContributionProfile):
            return self._chosen(self.cap.histogram, self.cap.step, spend, self.cap.cap)
        return None if self.cap == "auto" else FixedRows(Fraction(self.cap or 1))

    def bought(self, table: Table, look: BoughtCounts, spend: Spend, noise: Noise) -> FixedRows:
        """The cap that ``look`` buys for an answer at ``spend``."""
        grid = (
            TotalsGrid.of_values(Fraction(self.most), 1) if self._squared else TotalsGrid.of_rows(Fraction(self.most))
        )
        part = Capped(Quantity(None, grid.step), 0, "l2" if self._squared else "l1")
        bins = self.bins if self._squared and self.bins is not None else Bins(Quantity(self.column), (0, 1))
        grouping, unit = self.grouping, self.terms.unit
        seen = grid.look(
            lambda edges: table.norms_by_bin(unit, part, edges, bins, grouping.by or None, grouping.public or ()),
            look,
            noise,
        )
        return self._chosen(seen, grid.step, spend)

    @property
    def _squared(self) -> bool:
        return self.serving.gaussian

    def _chosen(self, seen: NoisyHistogram, step: Fraction, spend: Spend, said: Fraction | None = None) -> FixedRows:
        chosen = choose_cap(seen, spend.level, spend.law, self.serving).cap
        cap = said or min(chosen * step / self.serving.shrink, Fraction(self.most))
        cap = cap if self._squared else Fraction(max(1, int(cap)))
        return FixedRows(cap, Estimate.of(seen.smooth.kept(float(cap / step)), 0.95), self._squared)
