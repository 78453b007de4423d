"""Exact binomial confidence bounds (Clopper and Pearson), with nothing but ``math``.

The bound on a probability is the point where the binomial tail, a regularized incomplete beta function, equals the
allowed error. The function is evaluated by its continued fraction (Lentz's method, Numerical Recipes 6.4), inverted
by bisection, and every bound is moved outward by far more than the arithmetic can be wrong, so that a certificate
never rests on a rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_TINY = 1e-300
_SLACK = 1e-6  # relative: the tail is computed to about 1e-8 at ten million samples


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b): the chance that a Beta(a, b) variable is below x.

    >>> round(incomplete_beta(0.5, 2.0, 2.0), 12)
    0.5
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return min(1.0, math.exp(log_front) * _fraction(x, a, b) / a)
    return max(0.0, 1.0 - math.exp(log_front) * _fraction(1 - x, b, a) / b)


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1.0 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 1_000_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / _away(1 + term * d)
            c = _away(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _away(x: float) -> float:
    return x if abs(x) > _TINY else _TINY


def lower_bound(hits: int, trials: int, error: float) -> float:
    """A probability that is above the truth in at most ``error`` of all experiments.

    >>> round(lower_bound(100, 100, 0.05), 4)
    0.9705
    """
    if hits == 0:
        return 0.0
    goal = error * (1 - _SLACK)
    return _root(lambda x: incomplete_beta(x, hits, trials - hits + 1), goal)[0] * (1 - _SLACK * 1e-3)


def upper_bound(hits: int, trials: int, error: float) -> float:
    """A probability that is below the truth in at most ``error`` of all experiments.

    >>> round(upper_bound(0, 100, 0.05), 4)
    0.0295
    """
    if hits == trials:
        return 1.0
    goal = error * (1 - _SLACK)
    # by symmetry the miss probability has a lower bound; solve for it so that tiny tails keep their digits
    top = _root(lambda x: -incomplete_beta(1 - x, trials - hits, hits + 1), -goal)[1]
    return min(1.0, top * (1 + _SLACK * 1e-3))


def _root(rising: Callable[[float], float], goal: float) -> tuple[float, float]:
    """A bracket in (0, 1), tight to its last digits, around the point where a rising function meets ``goal``."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = math.sqrt(low * high) if low > 0 and high > 4 * low else (low + high) / 2
        if not low < middle < high:
            break
        if rising(middle) < goal:
            low = middle
        else:
            high = middle
        if high - low <= 1e-13 * high:
            break
    return low, high
