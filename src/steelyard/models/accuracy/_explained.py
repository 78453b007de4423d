"""R squared as a look: a model's squared errors beside those of the label's own mean, in one sum.

R squared is at least 1 - u if the mean of e^2 - u (y - mean)^2 is at most zero. The mean is private, but for any c the mean of (y - c)^2
is that of (y - mean)^2 plus (mean - c)^2: a noisy mean c that is off by w at most costs a slack of u w^2, which is next to nothing. So a rough
count of the labels and their squares is bought first, and the sum of e^2 - u (y - c)^2 is looked at like any other loss.
Law: what is added up is never below what a row loses; everything else (the variance) is a guess that decides the price alone
(docs/proofs/explained.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.mechanisms import Gaussian, sigma_for
from steelyard.models._columns import SIZE
from steelyard.models.accuracy._crowd import Counts
from steelyard.models.accuracy._family import LOSS_BITS, WHOLE, Step
from steelyard.models.accuracy._losses import ClippedLoss
from steelyard.models.accuracy._quantiles import normal_quantile
from steelyard.privacy import MICRO

MOVES = 2 * SIZE**2 + SIZE + 1
"""How far a replaced unit moves the labels and their squares, together: two, and what rounding the means of a user may add."""

_FIRST, _SHARP, _DEAREST = 100, 10, 20_000  # noise of a hundredth; the target to a tenth; millionths of mu
_LEAST = 1e-9  # no variance is taken for less


class Moments(Counts):
    """The labels and their squares, counted roughly, and then twice as sharply until a target is known to a tenth."""

    def step(self, others: Callable[[Any], list[int]] | None = None, first: int | None = None) -> Step | None:
        """The next count; None where nothing more has to be known."""
        if self.told and self._enough():
            return None
        cost = 4 * self.told[-1][0] if self.told else max(100, round(2 * _FIRST * MICRO / self.n)) ** 2
        making = lambda: Gaussian(MOVES, sigma_for(MOVES**2, cost), self.crowd.neighbours)  # noqa: E731
        return Step("size", making, lambda noisy, rows, noise: noisy.release(sums(rows), noise), {"moments": True})

    def mean(self, index: int) -> float:
        """The last of the sums, labels in [-1, 1]; earlier ones are rougher, and its noise is its own."""
        return self.told[-1][1][index] / SIZE**2

    @property
    def spread(self) -> float:
        """The deviation of a sum."""
        return MOVES * MICRO / math.sqrt(self.told[-1][0]) / SIZE**2 * (1 + 1e-7)

    @property
    def centre(self) -> int:
        """The mean of the labels, about, in steps of 2^-20."""
        return min(max(round(self.mean(0) / self.n * WHOLE), -WHOLE), WHOLE)

    def off(self, failure: float) -> float:
        """How far the mean may be from there, but for a failure probability: half of it for the first count, a quarter for the second, ..."""
        share = failure * 0.5 ** len(self.told) / 2
        return normal_quantile(share) * self.spread / self.n + 2 / SIZE + 2 / WHOLE

    @property
    def variance(self) -> float:
        """About how much the labels vary."""
        mean, square = self.mean(0) / self.n, self.mean(1) / self.n
        return min(max(square - mean**2, _LEAST), 1.0)

    def _enough(self) -> bool:
        doubt = self.spread / self.n * math.sqrt(1 + 4 * (self.mean(0) / self.n) ** 2)
        return self.told[-1][0] >= _DEAREST**2 or _SHARP * doubt <= self._target * self.variance


def sums(rows: Any) -> list[int]:
    """The labels and their squares, each unit's mean rounded up, in steps of 1/S^2."""
    return [int(rows.summed(_labels)) * SIZE, int(rows.summed(_squares))]


def _labels(rows: Any) -> NDArray[np.int64]:
    return np.asarray(rows.y, dtype=np.int64)


def _squares(rows: Any) -> NDArray[np.int64]:
    return np.asarray(_labels(rows) ** 2)


@dataclass(frozen=True)
class Unexplained(ClippedLoss):
    """A look at e^2 - u (y - c)^2, u the ``share`` of the labels' variance that may stay unexplained and c the ``centre``.

    ``target`` is about what a row may lose, u times the variance: it shifts every row's loss, and so decides nothing.
    ``off`` is how far the mean of the labels may be from the centre.
    """

    share: float = 1.0
    centre: int = 0
    off: float = 0.0

    @property
    def theta(self) -> float:
        """By which part squares are weighed down against rounding: the better, the nearer it is to the error that rounding hides."""
        return min(max(self.hidden / math.sqrt(max(self.target, _LEAST)), 2.0**-16), 0.1)

    @property
    def part(self) -> int:
        """The share, weighed down, in steps of 2^-20, rounded down."""
        return math.floor(self.share * (1 - self.theta) / (1 + self.theta) * WHOLE)

    @property
    def slack(self) -> int:
        """What rounding and the centre may hide from the mean, in whole steps, rounded up."""
        theta, grid = self.theta, 1 / SIZE
        hidden = (1 + 1 / theta) * self.hidden**2 + self.share * (grid**2 / theta + self.off**2)
        return math.ceil(hidden * WHOLE) + 1

    @property
    def allowed(self) -> int:
        """About what a row may lose, in whole steps."""
        return max(1, round(self.target * WHOLE))

    @property
    def most(self) -> int:
        """The loss of a row bends upward in its label, so it is largest at a bound."""
        nearest = (WHOLE - abs(self.centre)) ** 2 * self.part >> 2 * LOSS_BITS
        return ((WHOLE + self.longest) ** 2 >> LOSS_BITS) + 2 - nearest + self.slack + self.allowed

    @property
    def least(self) -> int:
        """No error, and a label as far from the centre as one can be."""
        farthest = (WHOLE + abs(self.centre)) ** 2 * self.part >> 2 * LOSS_BITS
        return self.slack + self.allowed - farthest

    def each(self, rows: Any) -> NDArray[np.int64]:
        """The losses; a row's squared error is rounded up, what is taken off it down."""
        y, missed = self.missed(rows)
        apart = y - self.centre
        lost = -(-(missed * missed) >> LOSS_BITS) - (apart * apart * self.part >> 2 * LOSS_BITS)
        return np.asarray(lost + (self.slack + self.allowed))
