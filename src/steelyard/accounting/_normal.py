"""The normal law: quantiles and tails as floats, and tails as two decimals that surely enclose them.

Floats (``normal_tail``, ``normal_quantile``) serve widths and plans; every price stands on the decimals. For x >= 0 the upper tail is 1/2 - phi(x) (x + x^3/3 + x^5/(3*5) + ...); every term of the series is positive, so the
only loss is the final subtraction, which the number of digits allows for. Far out (x > 60) the classical bounds
phi(x)/x (1 - 1/x^2) <= tail <= phi(x)/x are close enough.
Law: ``low <= true value <= high`` always; callers pick the side that is safe for them.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

FAR = 60
_LN10 = 2.302585092994045
_STANDARD = NormalDist()


def normal_quantile(probability: float) -> float:
    """What a standard normal draw stays below with this probability, to within a few units in the last place.

    >>> round(normal_quantile(0.975), 6)
    1.959964
    """
    return _STANDARD.inv_cdf(probability)


def normal_tail(x: float) -> float:
    """P[Z > x] of a standard normal draw, to within a few units in the last place, far out as well.

    >>> normal_tail(0.0), normal_tail(30.0) < 1e-190
    (0.5, True)
    """
    return math.erfc(x / math.sqrt(2)) / 2


def digits_for(x: Fraction) -> int:
    """Digits that leave about forty correct ones in the tail at x, counted from the tail's own size."""
    reach = min(float(abs(x)), FAR)
    return 60 + math.ceil(reach * reach / (2 * _LN10))


def upper_tail(x: Fraction, digits: int) -> tuple[Decimal, Decimal]:
    """Bounds on P[Z > x], computed with ``digits`` digits."""
    if x < 0:
        low, high = upper_tail(-x, digits)
        with precise(digits):
            return 1 - high, 1 - low
    with precise(digits):
        return _far(as_decimal(x)) if x > FAR else _near(as_decimal(x), digits)


def tail_above(x: Fraction) -> Fraction:
    """An upper bound on P[Z > x], above it by no more than about 1e-40 of itself."""
    return Fraction(upper_tail(x, digits_for(x))[1])


def precise(digits: int) -> AbstractContextManager[Context]:
    """A decimal context of so many digits with an exponent range nothing here can leave."""
    return localcontext(Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[]))


def as_decimal(x: Fraction) -> Decimal:
    """A fraction in the current decimal context (one rounding)."""
    return Decimal(x.numerator) / Decimal(x.denominator)


def _near(x: Decimal, digits: int) -> tuple[Decimal, Decimal]:
    square = x * x
    term = total = x
    odd = 1
    smallest = Decimal(10) ** -digits
    while term > smallest * total or 2 * square > odd:
        odd += 2
        term = term * square / odd
        total += term
    middle = Decimal("0.5") - _density(square, digits) * total
    # Fewer than 10^5 roundings, each below 10^-digits of a quantity below one half.
    slack = Decimal(10) ** (8 - digits)
    return max(middle - slack, Decimal(0)), middle + slack


def _far(x: Decimal) -> tuple[Decimal, Decimal]:
    peak = _density(x * x, 40) / x
    loose = Decimal("1e-20")
    return peak * (1 - 1 / (x * x)) * (1 - loose), peak * (1 + loose)


def _density(square: Decimal, digits: int) -> Decimal:
    return (-square / 2).exp() / (2 * pi(digits)).sqrt()


@lru_cache(maxsize=64)
def pi(digits: int) -> Decimal:
    """The circle constant by Machin's formula, in integers."""
    unit = 10 ** (digits + 10)
    value = 4 * (4 * _arctan_inverse(5, unit) - _arctan_inverse(239, unit))
    with precise(digits + 10):
        return Decimal(value) / Decimal(unit)


def _arctan_inverse(n: int, unit: int) -> int:
    power = unit // n
    total, odd, sign = power, 1, 1
    while power:
        power //= n * n
        odd += 2
        sign = -sign
        total += sign * (power // odd)
    return total
