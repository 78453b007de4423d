"""The three ways to a cap: a public number, a released profile, or a private choice inside the release itself.

A number or a profile fixes the bounds before any row is read. ``"auto"`` splits the price by a public rule: one part
buys a noisy histogram of totals, from which the cap follows without further cost, the rest buys the capped total.
Both prices are fixed in advance and do not depend on the cap, so together they cost exactly what was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

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
from steelyard.bounding._grouping import Grouping
from steelyard.bounding._serving import Serving, check_minimise
from steelyard.errors import InvalidTask
from steelyard.mechanisms import Gaussian, Laplace, Staircase
from steelyard.noise import Noise
from steelyard.privacy import Number, Terms
from steelyard.tables import Capped, Limits, Quantity

if TYPE_CHECKING:
    from steelyard.tables import Table

Cap = Number | ContributionProfile | str


@dataclass(frozen=True)
class Bounds:
    """What one unit's total is clamped to, and what that is believed to cut off (``None``: nothing is known); ``note`` says more of it."""

    lower: Fraction
    upper: Fraction
    cut: Cut | None = None
    note: str = ""


@dataclass(frozen=True)
class CapRule:
    """How a task comes by its bounds; where ``lower`` is None they are as wide below zero as above, so that no sign is lost."""

    cap: Cap
    lower: Fraction | None
    upper: Fraction | None
    resolution: Number | None
    rows: bool
    grouping: Grouping
    minimise: str = "mean"

    @classmethod
    def read(
        cls, cap: Cap, lower: Number | None, upper: Number | None, resolution: Number | None, *, rows: bool,
        grouping: Grouping, minimise: str = "mean",
    ) -> CapRule:  # fmt: skip
        """Check what a task was given; says what to do when something is missing."""
        check_minimise(minimise)
        low = None if lower is None else bound(lower, "lower")
        high = None if upper is None else bound(upper, "upper")
        if low is not None and low > 0:
            raise InvalidTask(f"lower must be zero or below, since an absent unit adds nothing; got {lower!r}.")
        if high is not None and high < 0:
            raise InvalidTask(f"upper must be zero or above, since an absent unit adds nothing; got {upper!r}.")
        if isinstance(cap, str) and cap == "auto":
            return cls._auto(low, high, resolution, rows=rows, grouping=grouping, minimise=minimise)
        if isinstance(cap, ContributionProfile):
            if (cap.column is None) != rows or low:
                raise InvalidTask("this profile is of another kind of total; profile what you release.")
            return cls(cap, low, high, None, rows, grouping, minimise)
        number = bound(cap, "cap")
        if number <= 0:
            raise InvalidTask(f"cap must be above zero; got {cap!r}.")
        if rows and number.denominator != 1:
            raise InvalidTask(f"cap must be a whole number of rows; got {cap!r}.")
        return cls(number, low, high, None, rows, grouping, minimise)

    @classmethod
    def _auto(
        cls,
        low: Fraction | None,
        high: Fraction | None,
        resolution: Number | None,
        *,
        rows: bool,
        grouping: Grouping,
        minimise: str,
    ) -> CapRule:
        if high is None:
            raise InvalidTask(
                "cap='auto' searches below upper=, the public largest total per unit worth considering; "
                "give upper=, or cap= as a number or a profile."
            )
        rule = cls("auto", low, high, resolution, rows, grouping, minimise)
        _ = rule.grid(gaussian=False)
        return rule

    def grid(self, *, gaussian: bool) -> TotalsGrid:
        """The public grid on which caps are looked for; L2 norms of whole numbers are none."""
        low = self.lower or Fraction(0)
        high = max(self.upper or Fraction(0), -low)
        if self.rows:
            return TotalsGrid.of_values(high, 1) if gaussian and not self.scalar else TotalsGrid.of_rows(high)
        return TotalsGrid.of_values(high, self.resolution, signed=low < 0)

    @property
    def scalar(self) -> bool:
        """Whether one number is released."""
        return not self.grouping.by

    def of_kind(self, kind: str) -> CapRule:
        """The rule for a column of this kind: booleans are never negative, so nothing need be kept below zero."""
        return replace(self, lower=Fraction(0)) if kind == "boolean" and self.lower is None and self.scalar else self

    def parts(self, spend: Spend) -> tuple[Spend | None, Spend]:
        """What buys the choice (nothing, unless it is private) and what buys the total."""
        if self.cap != "auto":
            return None, spend
        return spend.split(choice_share(spend.level, spend.law, self.grouping.size))

    def serving(self, spend: Spend, keys: int, *, profiled: bool = False) -> Serving:
        """What the cap serves, of so many keys."""
        return Serving(max(keys, 1), self.minimise, spend.gaussian and not self.scalar, profiled=profiled)

    def fixed(self, spend: Spend) -> Bounds | None:
        """The bounds, where they are known before any row is read."""
        if isinstance(self.cap, ContributionProfile):
            seen, step = self.cap.histogram, self.cap.step
            cap, serving = self.cap.cap, self.serving(spend, self.grouping.size, profiled=True)
            if cap is None:
                cap = choose_cap(seen, spend.level, self._law(spend), serving).cap * step / serving.shrink
            return self._bounds(seen, step, cap, spend)
        return None if self.cap == "auto" else Bounds(*self._ends(Fraction(self.cap)), None, self._note(known=False))

    def bought(
        self, table: Table, terms: Terms, column: str | None, look: BoughtCounts, total: Spend, noise: Noise, keys: int
    ) -> Bounds:
        """The bounds that ``look`` buys for noise of ``total`` on so many keys."""
        grid = self.grid(gaussian=total.gaussian)
        seen, step = grid.look(self._count(table, terms, column, grid.step, total), look, noise), grid.step
        cap = choose_cap(seen, total.level, self._law(total), self.serving(total, keys)).cap * step
        return self._bounds(seen, step, cap, total)

    def _count(
        self, table: Table, terms: Terms, column: str | None, step: Fraction, total: Spend
    ) -> Callable[[Sequence[int]], Sequence[int]]:
        """The question that is looked at: totals or their sizes, by key the norms that the cap will bound."""
        grouping, sizes = self.grouping, self.lower is None
        if not grouping.by:
            return lambda edges: table.totals_histogram(terms.unit, Quantity(column, step), edges, sizes=sizes)
        part, limits = self._part(column, step, total), Limits(grouping.max_keys, grouping.rows_per_key)
        return lambda edges: table.norms_histogram(terms.unit, part, edges, grouping.by, grouping.public, limits)

    def _part(self, column: str | None, step: Fraction, total: Spend) -> Capped:
        return Capped(Quantity(column, step), 0, "l2" if total.gaussian else "l1")

    def look_by_key(self, column: str | None, total: Spend) -> tuple[Capped, tuple[int, ...]]:
        """What ``bought`` will look at by key, for whoever wants several looks in one pass."""
        grid = self.grid(gaussian=total.gaussian)
        return self._part(column, grid.step, total), grid.edges

    def _ends(self, cap: Fraction) -> tuple[Fraction, Fraction]:
        """What one total is clamped to at a cap; a chosen one is not above what was said to be worth considering."""
        if self.cap != "auto":
            return (-cap if self.lower is None else self.lower), cap
        upper = cap if self.upper is None else min(cap, self.upper)
        return (-upper if self.lower is None else max(-cap, self.lower)), upper

    def _bounds(self, seen: NoisyHistogram, step: Fraction, cap: Fraction, total: Spend) -> Bounds:
        """Bounds that were chosen, and what they are believed to cut off: of both signs, where neither was ruled out."""
        ends = self._ends(cap)
        one_side = self.scalar and self.lower is not None
        noise = Added(float(max(-ends[0], ends[1])), total.level, self._law(total), one_side)
        return Bounds(*ends, Cut.of(seen, *ends, step, noise), self._note(known=True))

    def _note(self, *, known: bool) -> str:
        """By key: what the estimate is of, and what ``max_keys`` leaves out (of totals under keys that are found, nothing)."""
        most = None if self.grouping.private else self.grouping.max_keys
        said = (
            ["what is cut off lies under several keys; under any one of them it is at most that much"] if known else []
        )
        if most is not None:
            said.append(
                f"a unit with rows under more than {most} keys counts under {most} of them, and is missing under the others"
            )
        return "" if self.scalar else "; ".join(said)

    def noise(self, look: Spend | None, total: Spend) -> tuple[BoughtCounts | None, Noisy]:
        """What is looked at with which noise, where a look is bought, and the noise of the total.

        The total's grid has as many steps whatever the cap, so that its price does not depend on it. One number takes the least
        noise there is; a vector, noise that composes.
        """
        kind, steps, least = Gaussian if total.gaussian else Laplace, total.steps, self.scalar and not total.gaussian
        once, scale = None if look is None else look.scale(1), total.scale(steps)
        seen = None if look is None or once is None else BoughtCounts(look, kind(1, once))
        if least:
            return seen, Staircase.least(steps, steps / scale)
        return seen, kind(steps, scale)

    def _law(self, spend: Spend) -> str:
        return "staircase" if self.scalar and not spend.gaussian else spend.law
