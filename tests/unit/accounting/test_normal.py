"""The enclosed tails against another library's arithmetic."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest

from steelyard.accounting.normal import digits_for, pi, upper_tail

POINTS = ["-30", "-3.5", "0", "1e-9", "0.5", "4", "17.25", "59.9", "60", "60.001", "200"]


@pytest.mark.parametrize("point", POINTS)
def test_a_tail_lies_between_its_two_bounds_and_they_are_close(point: str) -> None:
    x = Fraction(point)
    low, high = upper_tail(x, digits_for(x))
    with mpmath.workdps(1200):
        truth = mpmath.erfc(mpmath.mpf(x.numerator) / x.denominator / mpmath.sqrt(2)) / 2
        below, above = mpmath.mpf(str(low)), mpmath.mpf(str(high))
        assert below <= truth <= above
        assert above - below <= truth * (mpmath.mpf("1e-40") if x <= 60 else mpmath.mpf("3e-4"))


def test_pi_is_pi() -> None:
    with mpmath.workdps(150):
        assert abs(mpmath.mpf(str(pi(100))) - mpmath.pi) < mpmath.mpf("1e-105")
