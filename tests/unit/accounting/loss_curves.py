"""Loss curves of known mechanisms and their plain convolution, against which curves are tested.

Convolution is plain: all its terms are positive, so its float error is relative. Float errors move mass towards larger loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from steelyard.accounting._curves import Curve
from steelyard.errors import InvalidTask

Masses = np.ndarray[Any, Any]
_ULP = 2.0**-52
_TAIL = 1e-22


class Composable(Curve):
    """A curve that can be added to others, step by step."""

    def __add__(self, other: Curve) -> Composable:
        """Both steps, independent and fixed in advance."""
        if self.step != other.step:
            raise InvalidTask(f"curves on different grids cannot be added; steps {self.step} and {other.step}.")
        masses = np.convolve(self.masses, other.masses) * _outward(2 * min(len(self.masses), len(other.masses)) + 4)
        infinite = self.infinite + other.infinite
        return _trimmed(self.step, self.lowest + other.lowest, masses, infinite * _outward(4))

    def __mul__(self, times: int) -> Composable:
        """The same step so many times, by repeated doubling."""
        if times < 1:
            raise InvalidTask(f"a step is taken at least once; got {times!r}.")
        if times == 1:
            return self
        half = self * (times // 2)
        return half + half + self if times % 2 else half + half


def gaussian_curve(mu: float, step: Fraction) -> Composable:
    """The loss of a mu-GDP step: normal with mean mu^2/2 and standard deviation mu."""
    width = float(step)
    if not 0 < mu < 100 or not 1e-6 * mu < width < mu:
        raise InvalidTask(f"a curve needs 0 < mu < 100 and a grid step below mu, not absurdly so; got {mu!r}, {step}.")
    lowest, highest = math.floor((mu * mu / 2 - 11 * mu) / width), math.ceil((mu * mu / 2 + 11 * mu) / width)
    ends = np.arange(lowest, highest + 1, dtype=np.float64) * width
    ends -= 4 * _ULP * np.abs(ends)
    under_p, size_p = _cells(ends / mu - mu / 2)
    under_q, size_q = _cells(ends / mu + mu / 2)
    growth = np.exp(ends[:-1])
    # An end is off by a few ulps, and a tail at x magnifies that by x; the growth by its exponent.
    far = (np.abs(ends[:-1]) + width) / mu + mu / 2
    error = 16 * _ULP * (size_p + growth * size_q) * (2 + far * (far + mu) + np.abs(ends[:-1]))
    raised = np.clip((under_p - growth * under_q + error) / -math.expm1(-width), 0.0, under_p + error)
    masses = np.zeros(len(ends))
    masses[:-1] += under_p - np.minimum(raised, under_p)
    masses[1:] += raised
    masses[0] += 0.5 * math.erfc(11 / math.sqrt(2)) * 2
    return Composable(step, lowest, masses * _outward(64), 0.5 * math.erfc(10.999 / math.sqrt(2)))


def _cells(ends: Masses) -> tuple[Masses, Masses]:
    """The normal mass between consecutive ends, and the size of the tails it was subtracted from."""
    tails = np.array([0.5 * math.erfc(abs(x) / math.sqrt(2)) for x in ends])
    left, right = tails[:-1], tails[1:]
    straddles = (ends[:-1] < 0) & (ends[1:] >= 0)
    return np.where(straddles, 1 - left - right, np.abs(left - right)), np.where(straddles, 1.0, left + right)


def laplace_curve(sensitivity: int, scale: Fraction, step: Fraction) -> Composable:
    """The loss of one integer moved by the sensitivity under discrete Laplace noise of this scale."""
    rate = float(1 / scale)
    ratio = math.exp(-rate)
    # Noise of 0 or less loses sensitivity/scale, noise k in between (sensitivity - 2k)/scale, the rest minus the first.
    outer = 1 / (1 + ratio)
    inner = [outer * -math.expm1(-rate) * ratio**k for k in range(1, sensitivity)]
    losses = [Fraction(sensitivity - 2 * k) / scale for k in range(sensitivity + 1)]
    return _from_points(losses, [outer, *inner, outer * ratio**sensitivity], step)


def finite_curve(first: Sequence[Fraction], second: Sequence[Fraction], step: Fraction) -> Composable:
    """The loss of a finite pair of laws, in the direction first against second."""
    both = [(p, q) for p, q in zip(first, second, strict=True) if p > 0]
    # math.log is within an ulp; 1e-12 outward covers it and the quotient's rounding.
    losses = [Fraction(math.log(p / q) + 1e-12 * (1 + abs(math.log(p / q)))) for p, q in both if q > 0]
    curve = _from_points(losses, [float(p) for p, q in both if q > 0], step)
    escaped = float(sum((p for p, q in both if q == 0), Fraction(0)))
    return Composable(step, curve.lowest, curve.masses, escaped * _outward(4))


def _from_points(losses: Sequence[Fraction], masses: Sequence[float], step: Fraction) -> Composable:
    places = [math.floor(loss / step) for loss in losses]
    lowest = min(places, default=0)
    grid = np.zeros(max(places, default=0) - lowest + 2)
    for place, loss, mass in zip(places, losses, masses, strict=True):
        into = float(loss - place * step)
        share = min(1.0, math.expm1(-into) / math.expm1(-float(step)) * (1 + 1e-12)) if into else 0.0
        grid[place - lowest] += mass * (1 - share)
        grid[place - lowest + 1] += mass * share
    return Composable(step, lowest, grid * _outward(len(masses) + 64), 0.0)


def _trimmed(step: Fraction, lowest: int, masses: Masses, infinite: float) -> Composable:
    """The same curve without its far ends: the upper one to infinity, the lower one up to what is kept."""
    below, above = np.cumsum(masses), np.cumsum(masses[::-1])
    first = int(np.searchsorted(below, _TAIL))
    last = len(masses) - int(np.searchsorted(above, _TAIL))
    kept = masses[first:last].copy()
    kept[0] += float(below[first - 1]) if first else 0.0
    escaped = float(above[len(masses) - last - 1]) if last < len(masses) else 0.0
    return Composable(step, lowest + first, kept, infinite + escaped * _outward(len(masses)))


def _outward(operations: int) -> float:
    return 1 + 4 * operations * _ULP
