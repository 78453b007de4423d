"""Scores that are a rising function of a mean: what is shown of it, and what an interval of the mean says about it.

Ends are mapped outward. ``extra`` are nats for what was told of the labels when the holdout was opened: one of so many values
is one of so many histories (docs/proofs/ratios.md). Law: what a link holds is a function of those values and of public facts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

_ULPS = 8 * 2.0**-52


@dataclass(frozen=True)
class Link:
    """A share that is shown as it is; others override it. All shares are in [0, 1]."""

    extra: float = 0.0

    def mean(self, shown: Fraction) -> Fraction:
        """The mean at which so much is shown, exactly."""
        return shown

    def shown(self, mean: float) -> float:
        """What is shown of a mean."""
        return mean

    def lowest(self, mean: float) -> float:
        """What the truth is at least if the true mean is at least this."""
        return _down(self.shown(mean))

    def highest(self, mean: float) -> float:
        """What the truth is at most if the true mean is at most this."""
        return _up(self.shown(mean))

    def least(self, end: Fraction) -> Fraction:
        """A mean from which on the truth is at least ``end``."""
        return self.mean(end)

    def most(self, end: Fraction) -> Fraction:
        """A mean up to which the truth is at most ``end``."""
        return self.mean(end)


class RootLink(Link):
    """The square root of a mean."""

    def mean(self, shown: Fraction) -> Fraction:
        """Its square."""
        return shown * shown

    def shown(self, mean: float) -> float:
        """Its root."""
        return math.sqrt(mean)


class F1Link(Link):
    """F1 = 2J / (1 + J) of the share J of true positives among rows that are positive or called so."""

    def mean(self, shown: Fraction) -> Fraction:
        """The share J."""
        return shown / (2 - shown)

    def shown(self, mean: float) -> float:
        """F1."""
        return 2 * mean / (1 + mean)


@dataclass(frozen=True)
class R2Link(Link):
    """R2 = 1 - (1 - m) / v, at least 0: m is the mean of one less the squared error, v the variance, both in squared ranges.

    The variance is told as ``told`` and truly lies between ``low`` and ``high``.
    """

    told: Fraction = Fraction(1)
    low: Fraction = Fraction(1)
    high: Fraction = Fraction(1)

    def mean(self, shown: Fraction) -> Fraction:
        """One less the squared error."""
        return 1 - (1 - shown) * self.told

    def shown(self, mean: float) -> float:
        """R2 by the variance that was told."""
        return max(0.0, 1 - (1 - mean) / float(self.told))

    def lowest(self, mean: float) -> float:
        """R2 of the least variance."""
        return max(0.0, _down(1 - _up(1 - mean) / _down(float(self.low))))

    def highest(self, mean: float) -> float:
        """R2 of the largest variance."""
        return max(0.0, _up(1 - _down(1 - mean) / _up(float(self.high))))

    def least(self, end: Fraction) -> Fraction:
        """As if the variance were the least."""
        return 1 - (1 - end) * self.low

    def most(self, end: Fraction) -> Fraction:
        """As if it were the largest."""
        return 1 - (1 - end) * self.high


def _down(value: float) -> float:
    return value - _ULPS * (1 + abs(value))


def _up(value: float) -> float:
    return value + _ULPS * (1 + abs(value))
