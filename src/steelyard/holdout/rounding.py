"""Rounded scores and the intervals that may be shown beside them, and how many nats a tolerance allows.

A paid answer shows the nearest of ``steps + 1`` grid values and an interval that covers every score of that cell: the
union of their exact intervals. So both are functions of the rounded score alone. The grid is fixed when the holdout is
opened and includes both ends of the range, so that an answer is one of exactly steps + 1 (docs/proofs/nats.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from steelyard.holdout.intervals import clopper_pearson, kl_chernoff

_SLACK = 2.0**-46
_ALL = 512


class Window:
    """The scores within a tolerance of a guess; ``floor`` and ``ceiling`` are how far it stays from 0 and from 1."""

    __slots__ = ("ceiling", "floor", "high", "low")

    def __init__(self, guess: Fraction, tolerance: Fraction) -> None:
        self.low, self.high = guess - tolerance, guess + tolerance
        self.floor, self.ceiling = float(self.low), float(1 - self.high)


@dataclass(frozen=True)
class Rounding:
    """Totals in 0..rows * scale, rounded to the nearest of steps + 1 values."""

    rows: int
    scale: int
    steps: int

    @property
    def whole(self) -> int:
        """The largest total."""
        return self.rows * self.scale

    def nearest(self, total: int) -> int:
        """The cell of a total: the nearest grid value, halves upward."""
        return (2 * total * self.steps + self.whole) // (2 * self.whole)

    def cell(self, place: int) -> tuple[int, int]:
        """The least and the largest total of a cell."""
        first = -(-(2 * place - 1) * self.whole // (2 * self.steps))
        last = -(-(2 * place + 1) * self.whole // (2 * self.steps)) - 1
        return max(0, first), min(self.whole, last)

    def interval(self, total: int, nats: float) -> tuple[float, float]:
        """The exact interval of a score at level exp(-nats): for our eyes only."""
        if self.scale == 1:
            return clopper_pearson(total, self.rows, -nats)
        return kl_chernoff(total / self.whole, self.rows, -nats)

    def shown(self, place: int, nats: float) -> tuple[Fraction, float, float]:
        """What may be shown of a cell: its value, and an interval that holds whichever of its totals it was."""
        first, last = self.cell(place)
        return Fraction(place, self.steps), self.interval(first, nats)[0], self.interval(last, nats)[1]

    def within(self, total: int, nats: float, window: Window) -> bool:
        """Whether the exact interval of a score lies in a window."""
        mean = total / self.whole
        if self._clears(mean, window.floor, nats) and self._clears(1 - mean, window.ceiling, nats):
            return True
        low, high, value = window.low, window.high, Fraction(total, self.whole)
        if (low > 0 and value <= low) or (high < 1 and value >= high):
            return False
        below, above = self.interval(total, nats)
        return (low <= 0 or Fraction(below) >= low) and (high >= 1 or Fraction(above) <= high)

    def _clears(self, mean: float, end: float, nats: float) -> bool:
        """Whether Chernoff's bound alone puts the interval above ``end``: what it allows the exact one allows too."""
        if end <= 0:
            return True
        if mean <= end or end >= 1:
            return False
        entropy = mean * math.log(mean / end)
        if mean < 1:
            entropy += (1 - mean) * math.log((1 - mean) / (1 - end))
        return self.rows * (entropy - _SLACK) >= nats + math.log(2)

    def half_width(self, place: int, nats: float) -> float:
        """How far the truth may lie from a cell's value."""
        value, low, high = self.shown(place, nats)
        return max(float(value) - low, high - float(value))


@lru_cache(maxsize=256)
def nats_allowed(rounding: Rounding, tolerance: Fraction, lowest: Fraction, highest: Fraction) -> int:
    """The micro-nats at which rounded scores between ``lowest`` and ``highest`` are still within the tolerance; or 0.

    *Cost:* tens of milliseconds. The widest cells are those nearest 1/2; all are looked at in the end (beyond 512, some).
    """
    places = [k for k in range(rounding.steps + 1) if lowest <= Fraction(k, rounding.steps) <= highest]
    places.sort(key=lambda k: abs(2 * k - rounding.steps))
    allowed = float(tolerance)

    def fits(micro: int, some: list[int]) -> bool:
        return all(rounding.half_width(k, micro / 10**6) <= allowed for k in some)

    low, high = 0, math.ceil(-rounding.rows * math.log1p(-min(allowed, 1 - 1e-9)) * 10**6) + 10**6
    while high - low > max(1000, low // 10**4):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle, places[:5]) else (low, middle)
    every = -(-len(places) // _ALL)
    while low and not fits(low, places[:64] + places[64::every]):
        low -= max(1, low // 1000)
    return low
