"""The enclosed tails against another library's arithmetic."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest

from steelyard.accounting import normal_quantile, normal_tail
from steelyard.accounting._normal import digits_for, pi, upper_tail

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


@pytest.mark.parametrize("failure", ["0.5", "0.025", "1e-3", "1e-12", "1e-100", "1e-300"])
def test_a_quantile_and_a_tail_as_floats_are_near_the_truth_far_out_as_well(failure: str) -> None:
    with mpmath.workdps(400):
        truth = -mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(failure) - 1)
        assert abs(-normal_quantile(float(failure)) - truth) <= mpmath.mpf("1e-15") * (1 + truth)
        assert abs(normal_tail(float(truth)) / mpmath.mpf(failure) - 1) <= mpmath.mpf("1e-12")
