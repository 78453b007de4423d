"""The oracle: exact samplers of Canonne, Kamath and Steinke (2020), written for reading and used in tests only.

Their running time depends on the value drawn, which is why they are not the product; it makes them the slow twin that
the timing check must catch.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

Below = Callable[[int], int]


def bernoulli(below: Below, p: Fraction) -> bool:
    """True with probability p."""
    return below(p.denominator) < p.numerator


def bernoulli_exp(below: Below, gamma: Fraction) -> bool:
    """True with probability exp(-gamma)."""
    while gamma > 1:
        if not bernoulli_exp(below, Fraction(1)):
            return False
        gamma -= 1
    n = 1
    while bernoulli(below, gamma / n):
        n += 1
    return n % 2 == 1


def laplace(below: Below, scale: Fraction) -> int:
    """A discrete Laplace integer of this scale."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = below(t)
        if not bernoulli_exp(below, Fraction(u, t)):
            continue
        v = 0
        while bernoulli_exp(below, Fraction(1)):
            v += 1
        y = (u + t * v) // s
        negative = below(2)
        if not (negative and y == 0):
            return -y if negative else y


def discrete_gaussian(below: Below, sigma: Fraction) -> int:
    """A discrete Gaussian integer: NOT the rounded normal, and not S/sigma-Gaussian-private."""
    t = int(sigma) + 1
    while True:
        y = laplace(below, Fraction(t))
        gap = abs(y) - sigma * sigma / t
        if bernoulli_exp(below, gap * gap / (2 * sigma * sigma)):
            return y
