"""The private cap: from one noisy histogram of totals to the cap on a user's total, and to the whole trade-off.

The histogram is the only private look; the cap, its predicted bias and every plan made from it are post-processing.
Inside one release the budget is split by a public rule (``choice_share``): a part buys the histogram, the rest the
capped sum. A histogram bought on its own (a profile) serves any number of later releases of the same totals.
What must not change: the cap is one of the grid's public caps, and nothing here sees an exact count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from steelyard.bounding.capgrid import CapGrid
from steelyard.bounding.laws import check_law
from steelyard.bounding.posterior import Curves, Posterior, Setting, posterior
from steelyard.bounding.theory import Tradeoff, curve
from steelyard.errors import InvalidTask


@dataclass(frozen=True)
class NoisyHistogram:
    """Released counts of users by the size of their total: ``level`` is the epsilon or mu they cost at sensitivity 1."""

    grid: CapGrid
    counts: tuple[float, ...]
    law: str
    level: float

    def __post_init__(self) -> None:
        if len(self.counts) != self.grid.bins:
            raise InvalidTask(f"a histogram on this grid has {self.grid.bins} counts; got {len(self.counts)}.")
        _check_count_law(self.law, self.level)


@dataclass(frozen=True)
class SignedHistogram:
    """Released counts of users by the size of a signed total: largest negative bin first, the middle bin around zero.

    ``grid`` counts magnitudes; use ``signed_edges(grid)`` to count and ``signed_bins(grid)`` for how many counts.
    """

    grid: CapGrid
    counts: tuple[float, ...]
    law: str
    level: float

    def __post_init__(self) -> None:
        if len(self.counts) != signed_bins(self.grid):
            raise InvalidTask(f"a signed histogram here has {signed_bins(self.grid)} counts; got {len(self.counts)}.")
        _check_count_law(self.law, self.level)


@dataclass(frozen=True)
class CapChoice:
    """A cap of the public grid, its index there, and what to expect of it; for signed totals ``cap`` is the magnitude."""

    index: int
    cap: int
    bias: float
    noise: float
    error: float


def choice_share(level: float, noise: str = "laplace") -> Fraction:
    """The public share of epsilon (for Gaussian noise of mu, whose squares add) that buys the histogram.

    *Accuracy:* measured on generated totals with bench/bounding_accuracy.py; flat around the values given.
    """
    check_law(level, noise)
    if noise == "gaussian":
        return Fraction(45, 100)
    return Fraction(25, 100) if level < 5 else Fraction(40, 100)


def choose_cap(histogram: NoisyHistogram, level: float, noise: str | None = None) -> CapChoice:
    """The cap with the smallest expected loss when the sum is released at ``level`` (epsilon, or mu) with this noise.

    *Privacy:* post-processing of the histogram. *Accuracy:* predictions are trimmed posterior means, not guarantees.
    *Cost:* some milliseconds; the first choice at a new level builds a table and takes some tens.

    >>> counts = (0, 0, 10, 40, 100, 80, 30)
    >>> choose_cap(NoisyHistogram(CapGrid(1, 16), counts, "laplace", 3.0), 1.0).cap
    16
    """
    return _choice(histogram.grid, _curves(histogram, level, noise))


def plan_caps(histogram: NoisyHistogram, level: float, noise: str | None = None) -> Tradeoff:
    """The predicted trade-off of every candidate cap for a release at ``level``; free, however often it is asked."""
    law, curves = noise or histogram.law, _curves(histogram, level, noise)
    caps = np.array(histogram.grid.caps, dtype=float)
    return curve(caps, curves.bias, curves.noise, curves.error, curves.chosen, float(level), law)


def choose_signed_cap(histogram: SignedHistogram, level: float, noise: str | None = None) -> CapChoice:
    """One magnitude for both caps of a signed total: clamp to [-cap, cap], inside the declared bounds.

    *Accuracy:* under add/remove the sensitivity is the larger of the two caps, so a smaller one on the other side
    would save no noise; the bias counted is the difference of what the two sides lose.
    """
    above, below = signed_sides(histogram)
    curves = _tables(histogram, level, noise or histogram.law).two_sided_curves(above, below)
    return _choice(histogram.grid, curves)


def signed_edges(grid: CapGrid) -> tuple[int, ...]:
    """Half-open bins for signed totals: magnitudes on ``grid`` to both sides, and one middle bin around zero."""
    return (*(-top for top in reversed(grid.tops)), *(top + 1 for top in grid.tops))


def signed_bins(grid: CapGrid) -> int:
    """How many counts a signed histogram on this grid of magnitudes has."""
    return 2 * grid.bins - 1


def signed_sides(histogram: SignedHistogram) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The counts of positive and of negative totals by magnitude; both begin with the middle bin."""
    counts, middle = np.array(histogram.counts, dtype=float), histogram.grid.bins - 1
    return counts[middle:], counts[: middle + 1][::-1]


def _curves(histogram: NoisyHistogram, level: float, noise: str | None) -> Curves:
    tables = _tables(histogram, level, noise or histogram.law)
    return tables.curves(np.array(histogram.counts, dtype=float))


def _tables(histogram: NoisyHistogram | SignedHistogram, level: float, noise: str) -> Posterior:
    check_law(level, noise)
    return posterior(Setting(histogram.grid, histogram.law, float(histogram.level), noise, float(level)))


def _choice(grid: CapGrid, curves: Curves) -> CapChoice:
    at = curves.chosen
    return CapChoice(at, grid.caps[at], float(curves.bias[at]), float(curves.noise[at]), float(curves.error[at]))


def _check_count_law(law: str, level: float) -> None:
    if law not in ("laplace", "gaussian") or not (level > 0 and math.isfinite(level)):
        raise InvalidTask(f"counts carry laplace or gaussian noise at a positive level; got {law!r} at {level!r}.")
