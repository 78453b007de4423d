"""The epsilon of one objective perturbation where neighbours replace a row: that of one Gaussian release, for large epsilon.

From epsilon = 1/ridge + s^2/2 on, adding a row costs no more than a Gaussian release of shift s = R/sigma, and removing
one never does. Two such steps make a replacement, and their best split is the one of two Gaussian releases: from
2/ridge + 2 s^2 on, delta is at most that of mu = 2 s. The ledger's price is the mu that holds for every epsilon.
Law: an epsilon below that threshold is never claimed (docs/proofs/objective_replaced.md).
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from steelyard.accounting._gaussian import delta_above
from steelyard.accounting._normal import digits_for, precise, upper_tail
from steelyard.errors import InvalidTask
from steelyard.privacy import MICRO

_STEP = 2**40
_ROOT = 10**12
_SMALLEST = Fraction(1, 10**300)  # 40 (2 s + output) and half its square above the threshold are enough for it


def threshold(shift: int, ridge: Fraction) -> Fraction:
    """The epsilon from which on replacing a row costs what one Gaussian release of twice the shift does."""
    s = Fraction(shift, MICRO)
    return 2 / ridge + 2 * s * s


def delta_replaced(epsilon: Fraction, shift: int, ridge: Fraction, output: int) -> Decimal:
    """An upper bound of delta for the covered answer, rows of length one; 1 where nothing is claimed.

    The cover is a Gaussian release of ``output`` micro-mu given the answer: its loss is added, and the chance that it
    is so large that too little epsilon is left for the answer.
    """
    s, mu = Fraction(shift, MICRO), Fraction(output, MICRO)
    spare = epsilon - threshold(shift, ridge)
    if spare <= 0:
        return Decimal(1)
    both = Fraction(math.isqrt(math.floor((4 * s * s + mu * mu) * _ROOT**2)) + 1, _ROOT)
    far = spare / mu - mu / 2
    beyond = upper_tail(far, digits_for(far))[1]
    with precise(60):
        return min((delta_above(epsilon, both) + beyond) * (1 + Decimal("1e-40")), Decimal(1))


def epsilon_replaced(shift: int, ridge: Fraction, output: int, delta: Fraction) -> float:
    """The smallest epsilon that is claimed at this delta, rounded up; it is known before a row is read.

    >>> round(epsilon_replaced(20_000, Fraction(25), 200, Fraction(1, 10**6)), 3)
    0.149
    """
    if not _SMALLEST <= delta < 1 or min(shift, output) < 1 or ridge <= 0:
        raise InvalidTask("a replaced row needs a delta between 0 and 1, and a shift, an output and a ridge above 0.")
    s = Fraction(2 * shift + output, MICRO)
    low = math.floor(threshold(shift, ridge) * _STEP)
    high = low + math.ceil((s * s / 2 + 40 * s) * _STEP)
    while high - low > 1:
        middle = (low + high) // 2
        claimed = Fraction(delta_replaced(Fraction(middle, _STEP), shift, ridge, output))
        low, high = (low, middle) if claimed <= delta else (middle, high)
    return math.nextafter(high / _STEP, math.inf)
