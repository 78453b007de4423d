"""How large the noise can be: quantiles on the safe side, computed and never simulated.

The largest eigenvalue of a symmetric Gaussian matrix (variance 1 on the diagonal, 1/2 off it) exceeds s with at most
the expected number of eigenvalues above s, the tail of a density that is known in closed form (Mehta, Random Matrices,
chapter 7). Weighted chi-squares are one integral over a normal variable.

A perturbed logistic objective may carry more ridge than the question: the best model t* is at most sqrt(W/lambda) long,
W = max s/(1 + e^s), and with mu more the excess is at most |mu t* + b/n|^2/(2(lambda + 2 mu)), where t* does not know b.
What the pull costs is less than what it spares where the noise is as long as t* may be (docs/proofs/one_shot.md).
Law: every quantile returned here is at or above the true one, for the longest t*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy  # its rooms load when they are first used: most processes that know of models never need them
from numpy.typing import NDArray

_OUTWARD = 1 + 1e-6  # far above the error of the quadratures below, far below anything that matters
_NODES = 4001
_FAR = 12.0


def normal_quantile(failure: float) -> float:
    """The z with P[Z > z] = failure."""
    return float(-scipy.special.ndtri(failure)) * _OUTWARD


@lru_cache(maxsize=4096)
def joint_quantile(failure: float, *correlations: float) -> float:
    """A z that a row of normal variables, each correlated with the next one, exceeds anywhere with probability failure at most.

    If any exceeds z, the first does, or some one does whose neighbour before it does not: the sum of these
    probabilities is a bound, whatever the rest of the joint law.
    """
    nodes, weights = np.polynomial.legendre.leggauss(200)

    def over(z: float) -> float:
        x, w = (z + _FAR) / 2 * nodes + (z - _FAR) / 2, (z + _FAR) / 2 * weights
        density = w * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        rises = (float(density @ scipy.special.ndtr((r * x - z) / math.sqrt(1 - r**2))) for r in correlations)
        return float(scipy.special.ndtr(-z)) + sum(rises) + len(correlations) * float(scipy.special.ndtr(-_FAR))

    low, high = float(-scipy.special.ndtri(failure)), float(-scipy.special.ndtri(failure / (len(correlations) + 1)))
    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (middle, high) if over(middle) > failure * (1 - 1e-6) else (low, middle)
    return high * _OUTWARD


def chi_square(dimension: int, failure: float) -> float:
    """The q with P[chi-square > q] <= failure.

    >>> round(chi_square(28, 0.1), 2)
    37.92
    """
    return float(scipy.special.chdtri(dimension, failure)) * _OUTWARD


@lru_cache(maxsize=4096)
def weighted_chi_square(dimension: int, first: float, rest: float, failure: float) -> float:
    """The q with P[first Z_1^2 + rest (Z_2^2 + ... + Z_d^2) > q] <= failure."""
    if dimension == 1:
        return first * chi_square(1, failure)
    least, most = min(first, rest), max(first, rest)
    low, high = least * chi_square(dimension, failure) / 2, most * chi_square(dimension, failure) * 1.01

    def over(q: float) -> float:
        return weighted_tail(dimension, first, rest, q) - failure * (1 - 1e-6)

    return float(scipy.optimize.brentq(over, low, high, xtol=1e-9 * high)) * _OUTWARD


def weighted_tail(dimension: int, first: float, rest: float, q: float) -> float:
    """P[first Z_1^2 + rest (Z_2^2 + ... + Z_d^2) > q]: the first variable alone is too large, or the others help.

    The others' part ends in a root at z = sqrt(q / first), which z = end sin(angle) makes smooth.
    """
    end = math.sqrt(q / first)
    if end >= _FAR:  # nothing of the normal density is left there
        z, weights = _half_normal()
    else:
        angle, weights = _angles(math.pi / 4, 160)
        z = end * np.sin(angle)
        weights = weights * end * np.cos(angle) * np.exp(-(z**2) / 2) * math.sqrt(2 / math.pi)
    left = np.maximum((q - first * z**2) / rest, 0.0)
    return float(weights @ scipy.special.chdtrc(dimension - 1, left)) + 2 * float(scipy.special.ndtr(-end))


def gamma_quantile(shape: int, failure: float) -> float:
    """The q with P[Gamma(shape, 1) > q] <= failure."""
    return float(scipy.special.gammainccinv(shape, failure)) * _OUTWARD


@lru_cache(maxsize=256)
def largest_eigenvalue(dimension: int, failure: float) -> float:
    """The s with P[largest eigenvalue > s] <= failure, for variances 1 on the diagonal and 1/2 off it."""
    edge = math.sqrt(2 * dimension)
    sure = edge + math.sqrt(2 * math.log(1 / failure))  # concentration around a mean of at most the edge
    grid = np.linspace(max(0.25 * edge - 1, edge - 6), sure + 4, _NODES)
    above = _tail_integral(grid, _density(dimension, grid))
    if above[0] < failure:
        return min(float(grid[0]) * _OUTWARD, sure)
    first = int(np.argmax(above <= failure * (1 - 1e-3)))  # the margin covers the trapezium rule
    return min(float(grid[first]), sure) if first else sure


@lru_cache(maxsize=1)
def _half_normal() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    nodes = np.linspace(0.0, _FAR, 601)  # the trapezium rule is nearly exact for so smooth an integrand
    weights = np.exp(-(nodes**2) / 2) * math.sqrt(2 / math.pi) * (nodes[1] - nodes[0])
    weights[0] /= 2
    return nodes, weights


@lru_cache(maxsize=2)
def _angles(half: float, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where to add up an integral over angles from nothing to twice ``half``, and with what weights."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) * half, weights * half


def _tail_integral(grid: NDArray[np.float64], density: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each grid point, the integral of the density from there on."""
    pieces = (density[1:] + density[:-1]) / 2 * np.diff(grid)
    return np.concatenate([np.cumsum(pieces[::-1])[::-1], [0.0]])


def _density(dimension: int, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """The expected number of eigenvalues per unit length: an oscillator sum and the correction of real matrices."""
    waves = _oscillators(dimension, grid)
    far = np.linspace(float(grid[-1]), float(grid[-1]) + 6, 64)
    beyond = float(_tail_integral(far, _oscillators(dimension, far)[dimension])[0])
    right = _tail_integral(grid, waves[dimension]) + beyond
    half = 0.0 if dimension % 2 else _whole_integral(dimension) / 2
    density = (waves[:dimension] ** 2).sum(axis=0) + math.sqrt(dimension / 2) * waves[dimension - 1] * (half - right)
    if dimension % 2:
        density = density + waves[dimension - 1] / _whole_integral(dimension - 1)
    return np.asarray(np.maximum(density, 0.0), dtype=np.float64)


def _oscillators(count: int, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """The orthonormal Hermite functions 0 to ``count`` on a grid, by their stable recurrence.

    The first of them are too small for doubles beyond 38, the last are not: each grid point carries its own logarithm.
    """
    waves = np.zeros((count + 1, grid.size))
    shift = -(grid**2) / 2
    before, now = np.zeros(grid.size), np.full(grid.size, math.pi**-0.25)
    waves[0] = now * np.exp(shift)
    for k in range(1, count + 1):
        before, now = now, math.sqrt(2 / k) * grid * now - math.sqrt((k - 1) / k) * before
        size = np.maximum(np.maximum(np.abs(now), np.abs(before)), 1.0)
        before, now, shift = before / size, now / size, shift + np.log(size)
        waves[k] = now * np.exp(shift)
    return waves


def _whole_integral(even: int) -> float:
    """The integral of an even Hermite function over the line."""
    return math.exp(
        0.5 * math.lgamma(even + 1) + 0.5 * math.log(2) + 0.25 * math.log(math.pi) - even / 2 * math.log(2)
        - math.lgamma(even / 2 + 1)
    )  # fmt: skip


LONGEST = 0.2784645427610739
"""W: the largest s/(1 + e^s), rounded up; lambda |t*|^2 is at most this."""

LEANS = tuple(Fraction(k, 100) for k in (0, 40, 60, 75, 85, 95))
"""Shares of the pull that would be best if the noise were orthogonal to the best model."""

_STEPS = 1000
_END = 1 - 1e-15
_RARE = 1e-13


@dataclass(frozen=True)
class Length:
    """The law of a spherical noise's length, at scale one: normal entries, or density exp(-|b|)."""

    quantile: Callable[[int, float], float]
    above: Callable[[int, float], float]
    density: Callable[[int, NDArray[np.float64]], NDArray[np.float64]]


def _normal_above(width: int, length: float) -> float:
    return float(scipy.special.gammaincc(width / 2, length * length / 2))


def _normal_density(width: int, length: NDArray[np.float64]) -> NDArray[np.float64]:
    log = (width - 1) * np.log(length) - length**2 / 2 - (width / 2 - 1) * math.log(2) - math.lgamma(width / 2)
    return np.asarray(np.exp(log))


def _laplace_density(width: int, length: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.exp((width - 1) * np.log(length) - length - math.lgamma(width)))


NORMAL = Length(lambda width, failure: math.sqrt(chi_square(width, failure)), _normal_above, _normal_density)
LAPLACE = Length(gamma_quantile, lambda width, length: float(scipy.special.gammaincc(width, length)), _laplace_density)


def pull(alpha: float, lean: Fraction) -> Fraction:
    """The ridge to add, as a part of the question's own, for an excess of ``alpha``."""
    return Fraction(round(2 * alpha / LONGEST * float(lean) * _STEPS), _STEPS)


@lru_cache(maxsize=4096)
def shifted_quantile(law: Length, width: int, shift: float, failure: float) -> float:
    """The q with P[|b + a| > q] <= failure, for a fixed vector a of length ``shift`` and noise b of scale one.

    It rises with the shift, from the quantile of |b| on and by no more than the shift.
    """
    least = law.quantile(width, failure)
    if shift <= 0:
        return least
    low, high = least * (1 - 1e-5), (least + shift) * (1 + 1e-5)
    found = scipy.optimize.brentq(lambda q: shifted_tail(law, width, shift, q) - failure, low, high, xtol=1e-10 * high)
    return float(found) * _OUTWARD


def shifted_tail(law: Length, width: int, shift: float, q: float) -> float:
    """P[|b + a| > q]: b is long enough whatever its direction, or its direction helps.

    The cotangent of the angle between b and a, times sqrt(d - 1), has Student's law. The lengths between |q - a| and
    q + a, as far as they are not too rare to count, are run through by the cosine of an angle, which makes the ends smooth.
    """
    if width == 1:
        return (law.above(1, max(q - shift, 0.0)) + law.above(1, q + shift)) / 2 + _inside(law, 1, shift - q) / 2
    low = max(abs(q - shift), law.quantile(width, 1 - _RARE))
    high = max(min(q + shift, law.quantile(width, _RARE)), low)
    angle, weights = _angles(math.pi / 2, 240)
    length = (low + high) / 2 - (high - low) / 2 * np.cos(angle)
    cosine = np.clip((q * q - shift * shift - length**2) / (2 * shift * length), -_END, _END)
    helped = scipy.special.stdtr(width - 1, -cosine * np.sqrt((width - 1) / (1 - cosine**2)))
    between = float(weights @ (law.density(width, length) * helped * (high - low) / 2 * np.sin(angle)))
    return law.above(width, high) + between + _inside(law, width, shift - q) + _RARE


def _inside(law: Length, width: int, short: float) -> float:
    """Where the shift alone is longer than q, noise shorter than the difference never brings it back."""
    return 1 - law.above(width, short) if short > 0 else 0.0
