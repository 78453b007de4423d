"""Where a quotient of noised totals lies: the values that the noise could have led to what was released (after Fieller 1954).

If A / B is the truth p then A - p B is zero, and what was released in its place is noise alone: of known law, at every p. The p for which that
noise is not surprising hold the truth in 95 of 100 draws, however small B is: nothing is linearised. The same twice over gives a variance.
Law: the size of c1 X1 + c2 X2 + ... is bounded by its 2-norm times ``reach``, for every c at once (docs/proofs/variance.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.accounting import normal_quantile
from steelyard.mechanisms import Gaussian, Laplace

Floats = NDArray[np.float64]
MISSED = 0.05
_CENTRE, _SPREAD = 0.01, 0.04
"""Of the chance that a variance is missed, the parts for the mean it is taken around and for the spread about that."""

_OVER = 1.01
"""What the reach of Laplace noise has above that of one term alone, so that all directions can be walked in cells."""

_ROUNDS = 6
_COARSE = 4.0
"""Grid steps by which rounding moves a mean, or the root of a variance of values between 0 and 1 by its square, at most."""


def reach(mechanism: Laplace | Gaussian, terms: int, chance: float = MISSED) -> float:
    """A size that a sum of so many noise terms, weighed by a vector of 2-norm one, passes with at most this chance."""
    if isinstance(mechanism, Gaussian):
        return float(mechanism.sigma) * normal_quantile(1 - chance / 2) + math.sqrt(terms) / 2
    return float(mechanism.scale) * _OVER * math.log(1 / chance) + math.sqrt(terms)


def floats(numbers: Any) -> Floats:
    """Integers of any size as doubles."""
    return np.array([float(each) for each in numbers], dtype=np.float64)


def share_ends(above: Floats, below: Floats, size: float) -> tuple[Floats, Floats]:
    """Where the share of ``above`` in both together lies, between 0 and 1."""
    whole, square = above + below, size * size
    lead = whole * whole - 2 * square
    sure = (whole > 0) & (lead > 0)
    middle = above * whole - square
    half = size * np.sqrt(np.maximum(above * above + below * below - square, 0.0))
    return _within(sure, middle, half, lead, 0.0, 1.0)


def ratio_ends(upper: Floats, lower: Floats, size: float) -> tuple[Floats, Floats]:
    """Where a quotient lies; infinite where the denominator cannot be told from zero."""
    lead = lower * lower - size * size
    half = size * np.sqrt(np.maximum(upper * upper + lower * lower - size * size, 0.0))
    return _within(lead > 0, upper * lower, half, lead, -np.inf, np.inf)


def variance_ends(low: Floats, cross: Floats, high: Floats, centre: float, spread: float) -> tuple[Floats, Floats]:
    """Where the variance of values between 0 and 1 lies, from the sums of (1 - y)^2, 2 y (1 - y) and y^2, each noised.

    ``centre`` and ``spread`` are the reaches for the mean and for the spread about it.
    """
    whole, total = low + cross + high, high + cross / 2
    lead = whole * whole - 3 * centre * centre
    sure = (whole > 0) & (lead > 0)
    middle = total * whole - 1.5 * centre * centre
    inside = middle * middle - lead * (total * total - 1.25 * centre * centre)
    left, right = _within(sure, middle, np.sqrt(np.maximum(inside, 0.0)), lead, 0.0, 1.0)
    safe = np.where(sure, whole, 1.0)
    most, least = _squares(high, total, whole, left, right)
    floor, roof = np.zeros_like(safe), _widest(left, right)
    for _ in range(_ROUNDS):
        norm = np.sqrt(
            np.maximum(right**2 - floor, roof - left**2) ** 2
            + (roof + _widest(left, right)) ** 2
            + np.maximum((1 - left) ** 2 - floor, roof - (1 - right) ** 2) ** 2
        )
        floor, roof = (
            np.where(sure, np.clip((least - spread * norm) / safe, floor, roof), 0.0),
            np.where(sure, np.clip((most + spread * norm) / safe, floor, roof), 0.25),
        )
    return floor, roof


def _widest(left: Floats, right: Floats) -> Floats:
    """The largest y (1 - y) between two ends: a variance about a mean there is no larger."""
    near = np.clip(0.5, left, right)
    return np.asarray(near * (1 - near))


def _squares(high: Floats, total: Floats, whole: Floats, left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """The largest and the least sum of squared distances from a point between two ends."""

    def about(point: Floats) -> Floats:
        return np.asarray(high - 2 * point * total + point * point * whole)

    lowest = np.clip(total / np.where(whole > 0, whole, 1.0), left, right)
    return np.maximum(about(left), about(right)), about(lowest)


def _within(
    sure: NDArray[np.bool_], middle: Floats, half: Floats, lead: Floats, least: float, most: float
) -> tuple[Floats, Floats]:
    """The two roots, held between ends; the ends themselves where nothing is known."""
    safe = np.where(sure, lead, 1.0)
    low, high = np.clip((middle - half) / safe, least, most), np.clip((middle + half) / safe, least, most)
    return np.where(sure, low, least), np.where(sure, high, most)


def spread_reaches(mechanism: Laplace | Gaussian) -> tuple[float, float]:
    """The reaches for the mean and the spread of a variance."""
    return reach(mechanism, 3, _CENTRE), reach(mechanism, 3, _SPREAD)


def coarse(steps: int) -> float:
    """How far the grid alone moves a share, or a variance of values between 0 and 1."""
    return _COARSE / steps
