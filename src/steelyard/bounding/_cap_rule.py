"""The three ways to a cap: a public number, a released profile, or a private choice inside the release itself.

A number or a profile fixes the bounds before any row is read. ``"auto"`` splits the price by a public rule: one part
buys a noisy histogram of totals, from which the cap follows without further cost, the rest buys the capped total.
Both prices are fixed in advance and do not depend on the cap, so together they cost exactly what was asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from steelyard.bounding._amounts import Noisy, Spend, bound
from steelyard.bounding._cap_choice import (
    BoughtCounts,
    ContributionProfile,
    NoisyHistogram,
    TotalsGrid,
    choice_share,
    choose_cap,
)
from steelyard.bounding._cut import Added, Cut
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, Laplace, Staircase
from steelyard.noise import Noise
from steelyard.privacy import Number, Terms
from steelyard.tables import Table

Cap = Number | ContributionProfile | str


@dataclass(frozen=True)
class Bounds:
    """What one unit's total is clamped to, and what that is believed to cut off (``None``: nothing is known)."""

    lower: Fraction
    upper: Fraction
    cut: Cut | None = None


@dataclass(frozen=True)
class CapRule:
    """How a task comes by its bounds."""

    cap: Cap
    lower: Fraction
    upper: Fraction | None
    resolution: Number | None
    rows: bool
    scalar: bool

    @classmethod
    def read(
        cls, cap: Cap, lower: Number, upper: Number | None, resolution: Number | None, *, rows: bool, scalar: bool
    ) -> CapRule:
        """Check what a task was given; says what to do when something is missing."""
        low = bound(lower, "lower")
        high = None if upper is None else bound(upper, "upper")
        if low > 0:
            raise InvalidTask(f"lower must be zero or below, since an absent unit adds nothing; got {lower!r}.")
        if high is not None and high < 0:
            raise InvalidTask(f"upper must be zero or above, since an absent unit adds nothing; got {upper!r}.")
        if isinstance(cap, str) and cap == "auto":
            return cls._auto(low, high, resolution, rows=rows, scalar=scalar)
        if isinstance(cap, ContributionProfile):
            if (cap.column is None) != rows or low:
                raise InvalidTask("this profile is of another kind of total; profile what you release.")
            return cls(cap, low, high, None, rows, scalar)
        number = bound(cap, "cap")
        if number <= 0:
            raise InvalidTask(f"cap must be above zero; got {cap!r}.")
        if rows and number.denominator != 1:
            raise InvalidTask(f"cap must be a whole number of rows; got {cap!r}.")
        return cls(number, low, high, None, rows, scalar)

    @classmethod
    def _auto(
        cls, low: Fraction, high: Fraction | None, resolution: Number | None, *, rows: bool, scalar: bool
    ) -> CapRule:
        if high is None:
            raise InvalidTask(
                "cap='auto' searches below upper=, the public largest total per unit worth considering; "
                "give upper=, or cap= as a number or a profile."
            )
        rule = cls("auto", low, high, resolution, rows, scalar)
        _ = rule.grid
        return rule

    @lazy
    def grid(self) -> TotalsGrid:
        """The public grid on which caps are looked for."""
        high = max(self.upper or Fraction(0), -self.lower)
        if self.rows:
            return TotalsGrid.of_rows(high)
        return TotalsGrid.of_values(high, self.resolution, signed=self.lower < 0)

    def parts(self, spend: Spend) -> tuple[Spend | None, Spend]:
        """What buys the choice (nothing, unless it is private) and what buys the total."""
        if self.cap != "auto":
            return None, spend
        return spend.split(choice_share(spend.level, spend.law))

    def fixed(self, spend: Spend) -> Bounds | None:
        """The bounds, where they are known before any row is read."""
        if isinstance(self.cap, ContributionProfile):
            seen, step = self.cap.histogram, self.cap.step
            cap = choose_cap(seen, spend.level, self._law(spend)).cap * step
            return self._bounds(seen, step, (self.lower, cap), spend)
        return None if self.cap == "auto" else Bounds(self.lower, Fraction(self.cap))

    def bought(
        self, table: Table, terms: Terms, column: str | None, look: BoughtCounts, total: Spend, noise: Noise
    ) -> Bounds:
        """The bounds that ``look`` buys for noise of ``total``."""
        seen, step = self.grid.look(table, terms, column, look, noise), self.grid.step
        cap = choose_cap(seen, total.level, self._law(total)).cap * step
        upper = cap if self.upper is None else min(cap, self.upper)
        return self._bounds(seen, step, (max(-cap, self.lower), upper), total)

    def _bounds(self, seen: NoisyHistogram, step: Fraction, ends: tuple[Fraction, Fraction], total: Spend) -> Bounds:
        """Bounds that were chosen, and what they are believed to cut off."""
        noise = Added(float(max(-ends[0], ends[1])), total.level, self._law(total), self.scalar)
        return Bounds(*ends, Cut.of(seen, *ends, step, noise))

    def noise(self, look: Spend | None, total: Spend) -> tuple[BoughtCounts | None, Noisy]:
        """What is looked at with which noise, where a look is bought, and the noise of the total.

        The total's grid has as many steps whatever the cap, so that its price does not depend on it. One number takes the least
        noise there is; a vector, noise that composes.
        """
        kind, steps = Gaussian if total.gaussian else Laplace, total.steps
        once, scale = None if look is None else look.scale(1), total.scale(steps)
        seen = None if look is None or once is None else BoughtCounts(look, kind(1, once))
        if self.scalar and not total.gaussian:
            return seen, Staircase.least(steps, steps / scale)
        return seen, kind(steps, scale)

    def _law(self, spend: Spend) -> str:
        return "staircase" if self.scalar and not spend.gaussian else spend.law
