"""The least price at which every number of a report is within its tolerance, and how it is divided between them.

A chance of missing is shared out between the numbers together with the price: the total is least where a little more chance
would save the same everywhere, so numbers that cost much get more of it. With Laplace noise a number costs (bound / tolerance)
ln(1 / chance), hence chances in proportion to costs; a table of costs by chance does the same for every kind of number.
Chances add up (a union bound), whatever depends on whatever. Prices add up: epsilons, or squares of mu.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.bounding._laws import Floats
from steelyard.bounding._odds import MOST, Odds
from steelyard.errors import InvalidTask
from steelyard.privacy import figure

if TYPE_CHECKING:
    from steelyard.bounding._reading import ErrorReading

_HALVES, _FINE = 14, 8
_LOOSER = 2.0
_CHANCES = 2.0 ** -np.arange(0, _HALVES, 1 / _FINE)
"""Shares of the chance of missing that a number may get, from all of it down."""


@dataclass(frozen=True)
class ChanceCurve:
    """What a number costs at each of the chances: infinite where no price is enough."""

    odds: Odds
    levels: Floats

    @classmethod
    def of(cls, odds: Odds, chance: float) -> ChanceCurve:
        """The least level at every second power of the chance, straight lines of logarithms between."""
        odds = odds.near_best(chance)
        found = np.array([odds.least(chance * 2.0**-k)[0] for k in range(_HALVES)])
        places = np.flatnonzero(np.isfinite(found))
        if not places.size:
            return cls(odds, np.full(_CHANCES.size, math.inf))
        at = np.arange(_CHANCES.size) / _FINE
        between = np.exp(np.interp(at, places, np.log(found[places])))
        return cls(odds, np.where(at <= places.max(), between, math.inf))

    def level(self, share: float) -> float:
        """The level at a share of the chance, between those of the table."""
        known = np.isfinite(self.levels)
        found = np.interp(-math.log2(share), -np.log2(_CHANCES[known]), np.log(self.levels[known]))
        return math.exp(float(found))


def shares(curves: Sequence[ChanceCurve], chance: float, *, squared: bool) -> list[float] | None:
    """The chance that each number gets, so that the total is least; None where they cannot all be met."""
    costs = [curve.levels**2 if squared else curve.levels for curve in curves]
    least = sum(float(_CHANCES[np.flatnonzero(np.isfinite(cost))[-1]]) for cost in costs)
    if least > 1:
        return None
    low, high = -60.0, 60.0  # logarithms of what a chance is worth
    for _ in range(60):
        middle = (low + high) / 2
        over = sum(_CHANCES[_cheapest(cost, middle)] for cost in costs) > 1
        low, high = (middle, high) if over else (low, middle)
    taken = np.array([_CHANCES[_cheapest(cost, high)] for cost in costs])
    return [float(each) for each in taken / taken.sum() * chance] if taken.sum() <= 1 else _even(costs, chance)


def _even(costs: Sequence[Floats], chance: float) -> list[float]:
    """As little to each as will do, and what is left in equal parts."""
    least = np.array([_CHANCES[np.flatnonzero(np.isfinite(cost))[-1]] for cost in costs])
    return [float(each) for each in (least + (1 - least.sum()) / least.size) * chance]


def _cheapest(cost: Floats, worth: float) -> int:
    return int(np.argmin(cost + math.exp(worth) * _CHANCES))


def total(curves: Sequence[ChanceCurve], chance: float, *, squared: bool) -> float:
    """The least total, read off the curves; zero for no numbers at all."""
    if not curves:
        return 0.0
    given = shares(curves, chance, squared=squared)
    if given is None:
        return math.inf
    found = [curve.level(share / chance) for curve, share in zip(curves, given, strict=True)]
    return sum(level**2 if squared else level for level in found)


class Savings:
    """What would be saved by other wishes, read off the curves."""

    def __init__(
        self, readings: Sequence[ErrorReading], curves: Sequence[ChanceCurve], chance: float, squared: bool
    ) -> None:
        self._readings, self._curves, self._chance, self._squared = readings, list(curves), chance, squared
        self._now = self._total(self._curves)

    def _total(self, curves: Sequence[ChanceCurve]) -> float:
        return total(curves, self._chance, squared=self._squared)

    def dropped(self, at: int) -> float:
        """The share of the whole price that is saved without this number."""
        return 1 - self._total(self._curves[:at] + self._curves[at + 1 :]) / self._now

    def looser(self, at: int) -> float:
        """The share that is saved with twice the tolerance for it."""
        other = ChanceCurve.of(self._readings[at].odds(_LOOSER), self._chance)
        return 1 - self._total([*self._curves[:at], other, *self._curves[at + 1 :]]) / self._now


def refuse(reading: ErrorReading, chance: float) -> InvalidTask:
    """That a tolerance is met at no price, and the nearest that is."""
    wish, (size, relative) = reading.wish, reading.wish.size
    times, odds = nearest(reading, chance), reading.odds()
    can = f"{size * times:.3%}" if relative else figure(size * times)
    nearest_said = "" if math.isinf(times) else f" The nearest tolerance that can be met is about {can}."
    cut = bool(np.all(odds.rooms.weights @ (odds.rooms.near <= 0) > chance))
    why = "without any noise, because of what the cap may cut off" if cut else "because noise remains"
    return InvalidTask(
        f"{wish.name}: a tolerance of {wish.tolerance if relative else figure(size)} is met at no epsilon (or mu) up to {MOST:g}, "
        f"{why}.{nearest_said}"
    )


def nearest(reading: ErrorReading, chance: float) -> float:
    """How many times as wide a tolerance must be to be met at all."""
    low, high = 0.0, 1.0
    while math.isinf(reading.odds(2.0**high).least(chance)[0]):
        low, high = high, 2 * high
        if high > 64:
            return math.inf
    for _ in range(12):
        middle = (low + high) / 2
        enough = math.isfinite(reading.odds(2.0**middle).least(chance)[0])
        low, high = (low, middle) if enough else (middle, high)
    return float(2.0**high)
