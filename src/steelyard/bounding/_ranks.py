"""The search behind quantiles: the exponential mechanism on ranks, halving the list of quantiles at each level.

The middle quantile is chosen from all candidates, then each half is searched inside the part of the grid that is left.
One unit's rows are shared out between the parts, and the loss of a choice is proportional to the rows it sees, so all
choices of one level together cost what one costs (docs/proofs/quantile.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise

from steelyard.accounting import range_to_mu
from steelyard.bounding._amounts import Spend
from steelyard.errors import InvalidTask
from steelyard.mechanisms import Exponential
from steelyard.noise import Noise
from steelyard.plan import Error
from steelyard.privacy import MICRO, Event, composed

WEIGHT = 2**20
"""What one row weighs, so that a unit beyond its cap can be weighed down in integers."""

_MISSED = 0.025
"""How often one end of an interval may lie on the wrong side."""


@dataclass(frozen=True)
class QuantileSearch:
    """Public facts of a search: which quantiles, the cap on a unit's rows, and the price."""

    quantiles: tuple[Fraction, ...]
    cap: int
    spend: Spend
    weight: int = WEIGHT
    ball: int | None = None

    def at(self, cap: int) -> QuantileSearch:
        """The same search at a cap that was chosen: a row weighs less, a unit at most as much."""
        return self if self.ball is None else replace(self, cap=cap, weight=self.ball // cap)

    @property
    def levels(self) -> int:
        """How often the list can be halved."""
        return len(self.quantiles).bit_length()

    @property
    def epsilon(self) -> Fraction:
        """The pure epsilon of one level, rounded down to a micro."""
        micro = level_epsilon(self.spend, self.levels)
        if micro < 1:
            raise InvalidTask("what this release may spend is too little for so many quantiles.")
        return Fraction(micro, MICRO)

    def mechanism(self, quantile: Fraction) -> Exponential:
        """The choice of one quantile: costs are |denominator * rows below - numerator * rows|."""
        return Exponential(self.epsilon, (self.ball or self.cap * self.weight) * _largest(quantile))

    @property
    def event(self) -> Event:
        """One choice per level."""
        return composed(*[self.mechanism(Fraction(1, 2)).event] * self.levels)

    def error(self, candidates: int) -> Error:
        """The rank error of one choice, in rows: usual, and in 95 of 100."""
        unit = 2 * self.cap / float(self.epsilon) * float(max(max(q, 1 - q) for q in self.quantiles))
        return Error(unit * math.log(candidates), unit * math.log(candidates / 0.05), unit="rows of rank")

    def run(self, counts: Sequence[int], noise: Noise) -> list[int]:
        """The chosen edge for each quantile, as an index from 0 to the number of bins."""
        below = [0, *accumulate(counts)]
        found: dict[Fraction, int] = {}
        self._search(below, list(self.quantiles), (0, len(counts)), (Fraction(0), Fraction(1)), found, noise)
        return [found[q] for q in self.quantiles]

    def _search(
        self,
        below: Sequence[int],
        wanted: list[Fraction],
        part: tuple[int, int],
        ranks: tuple[Fraction, Fraction],
        found: dict[Fraction, int],
        noise: Noise,
    ) -> None:
        if not wanted:
            return
        middle = wanted[len(wanted) // 2]
        first, last = part
        inside = (middle - ranks[0]) / (ranks[1] - ranks[0])
        rows = below[last] - below[first]
        costs = [
            abs(inside.denominator * (below[edge] - below[first]) - inside.numerator * rows)
            for edge in range(first, last + 1)
        ]
        found[middle] = place = first + self.mechanism(inside).choose(costs, noise)
        half = len(wanted) // 2
        self._search(below, wanted[:half], (first, place), (ranks[0], middle), found, noise)
        self._search(below, wanted[half + 1 :], (place, last), (middle, ranks[1]), found, noise)


@dataclass(frozen=True)
class Flanks:
    """For each quantile two bins, one that lies surely below it and one surely above: where the true one is in 95 of 100 draws.

    A choice aims ``slack`` beyond the wanted rank, and misses its aim by more than that in one of forty draws.
    """

    quantiles: tuple[Fraction, ...]
    cap: int
    spend: Spend
    weight: int = WEIGHT
    ball: int | None = None

    def at(self, cap: int) -> Flanks:
        """The same at a cap that was chosen."""
        return self if self.ball is None else replace(self, cap=cap, weight=self.ball // cap)

    def mechanism(self, quantile: Fraction) -> Exponential:
        """One choice: costs are how far a bin's ranks are from the aim, and move as those of a search do."""
        micro = level_epsilon(self.spend, 2 * len(self.quantiles))
        if micro < 1:
            raise InvalidTask(
                "what this release may spend is too little for intervals of so many quantiles; interval=False."
            )
        return Exponential(Fraction(micro, MICRO), (self.ball or self.cap * self.weight) * _largest(quantile))

    @property
    def event(self) -> Event:
        """Two choices for each quantile."""
        return composed(*[self.mechanism(q).event for q in self.quantiles for _ in range(2)])

    def run(self, counts: Sequence[int], noise: Noise) -> list[tuple[int, int]]:
        """For each quantile an edge that lies at or below it and one at or above, as indices from 0 to the number of bins."""
        below = [0, *accumulate(counts)]
        return [self._around(below, quantile, noise) for quantile in self.quantiles]

    def _around(self, below: Sequence[int], quantile: Fraction, noise: Noise) -> tuple[int, int]:
        mechanism, last = self.mechanism(quantile), len(below) - 1
        ranks = [quantile.denominator * each for each in below]
        slack = math.ceil(math.log((last + 1) / _MISSED) / mechanism.weight)
        aim = quantile.numerator * below[-1] - slack
        low = mechanism.choose([max(0, aim), *(max(0, a - aim, aim - b) for a, b in pairwise(ranks))], noise)
        aim += 2 * slack
        high = mechanism.choose(
            [*(max(0, a - aim, aim - b) for a, b in pairwise(ranks)), max(0, ranks[-1] - aim)], noise
        )
        return max(low - 1, 0), min(high + 1, last)


def _largest(quantile: Fraction) -> int:
    return max(quantile.numerator, quantile.denominator - quantile.numerator)


def level_epsilon(spend: Spend, levels: int) -> int:
    """Micro-epsilon of one of ``levels`` equal exponential choices that together cost no more than the spend."""
    if not spend.gaussian:
        return spend.micro // levels
    share = math.isqrt(spend.micro**2 // levels)
    low, high = 0, 100 * MICRO
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if range_to_mu(Fraction(middle, MICRO)) <= share else (low, middle)
    return low
