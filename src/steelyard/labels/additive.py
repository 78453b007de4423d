"""What the other unbiased mechanisms would cost: exact variance formulas, in units of the labels.

All of them are unbiased only while their outputs are not clipped. Staircase: Geng and Viswanath (2014); two-point:
Duchi et al. (2013); piecewise and hybrid: Wang et al. (2019). Standard library only.
"""

from __future__ import annotations

import math

from steelyard.errors import InvalidTask


def laplace_variance(width: float, epsilon: float) -> float:
    """The variance of Laplace noise of scale width/epsilon, width = largest minus smallest label.

    >>> laplace_variance(400, 0.5)
    1280000.0
    """
    _check(width, epsilon)
    return 2 * (width / epsilon) ** 2


def discrete_laplace_variance(width: float, epsilon: float, step: float = 1.0) -> float:
    """The variance of discrete Laplace noise on the multiples of ``step``; a little below Laplace's."""
    _check(width, epsilon)
    rate = epsilon * step / width
    return step**2 / (2 * math.sinh(rate / 2) ** 2)


def staircase_variance(width: float, epsilon: float, gamma: float | None = None) -> float:
    """The variance of staircase noise, at the ``gamma`` that makes it least unless one is given.

    >>> round(staircase_variance(400, 0.5))
    1266723
    """
    _check(width, epsilon)
    if gamma is None:
        gamma = best_gamma(epsilon)
    fall = math.exp(-epsilon)
    first, second = fall / (1 - fall), fall * (1 + fall) / (1 - fall) ** 2
    near = gamma / (gamma + (1 - gamma) * fall)
    inner = second + gamma * first + gamma**2 / 3
    outer = second + (1 + gamma) * first + (1 + gamma + gamma**2) / 3
    return width**2 * (near * inner + (1 - near) * outer)


def two_point_variance(label: float, lower: float, upper: float, epsilon: float) -> float:
    """The variance of the two-point mechanism at one label: c^2 - t^2 in half widths."""
    half, t = _scaled(label, lower, upper, epsilon)
    return half**2 * ((1 / math.tanh(epsilon / 2)) ** 2 - t * t)


def piecewise_variance(label: float, lower: float, upper: float, epsilon: float) -> float:
    """The variance of the piecewise mechanism at one label: t^2/(h - 1) + (h + 3)/(3 (h - 1)^2), h = e^(epsilon/2)."""
    half, t = _scaled(label, lower, upper, epsilon)
    over = math.expm1(epsilon / 2)
    return half**2 * (t * t / over + (over + 4) / (3 * over**2))


def hybrid_variance(label: float, lower: float, upper: float, epsilon: float) -> float:
    """The variance of the hybrid of piecewise (chance 1 - e^(-epsilon/2), above epsilon 0.61) and two-point."""
    share = -math.expm1(-epsilon / 2) if epsilon > 0.61 else 0.0
    wide = piecewise_variance(label, lower, upper, epsilon)
    return share * wide + (1 - share) * two_point_variance(label, lower, upper, epsilon)


def best_gamma(epsilon: float) -> float:
    """Where the lowest step of the staircase of least variance ends, in widths: golden section, one valley."""
    low, high, ratio = 0.0, 0.5, (math.sqrt(5) - 1) / 2
    for _ in range(90):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        first, second = staircase_variance(1.0, epsilon, left), staircase_variance(1.0, epsilon, right)
        low, high = (low, right) if first < second else (left, high)
    return (low + high) / 2


def _scaled(label: float, lower: float, upper: float, epsilon: float) -> tuple[float, float]:
    _check(upper - lower, epsilon)
    if not lower <= label <= upper:
        raise InvalidTask(f"the label {label:g} lies outside [{lower:g}, {upper:g}].")
    half = (upper - lower) / 2
    return half, (label - lower) / half - 1


def _check(width: float, epsilon: float) -> None:
    if not (0 < width < math.inf and 0 < epsilon < math.inf):
        raise InvalidTask(f"the label range and epsilon must be above zero; got {width!r} and {epsilon!r}.")
