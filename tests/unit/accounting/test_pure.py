"""The price of a pure step on a Gaussian account, against the step that needs all of it."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from scipy.special import ndtri

from steelyard.accounting._gaussian import delta_of
from steelyard.accounting._pure import pure_to_mu, range_to_mu
from steelyard.errors import InvalidTask
from steelyard.privacy import MICRO

EPSILONS = ["0.000001", "0.01", "0.3", "1", "5", "30", "300"]


def covers_randomized_response(mu: float, epsilon: float) -> bool:
    """Whether mu-GDP allows what the most telling epsilon-DP mechanism does, at every epsilon."""
    for share in range(100):
        e = epsilon * share / 100
        needed = (math.exp(epsilon) - math.exp(e)) / (1 + math.exp(epsilon))
        if needed > delta_of(e, mu):
            return False
    return True


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_price_is_the_smallest_micro_mu_that_is_enough(epsilon: str) -> None:
    exact = Fraction(epsilon)
    c = pure_to_mu(exact)
    with mpmath.workdps(400):
        corner = 1 / (1 + mpmath.exp(mpmath.mpf(exact.numerator) / exact.denominator))
        assert mpmath.ncdf(-mpmath.mpf(c) / (2 * MICRO)) <= corner < mpmath.ncdf(-mpmath.mpf(c - 1) / (2 * MICRO))


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0])
def test_the_price_covers_randomized_response_at_every_epsilon(epsilon: float) -> None:
    assert covers_randomized_response(pure_to_mu(Fraction(epsilon)) / MICRO, epsilon)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0])
def test_the_zcdp_price_is_caught(epsilon: float) -> None:
    assert not covers_randomized_response(epsilon, epsilon)


@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_a_price_a_thousandth_too_low_is_caught(epsilon: float) -> None:
    assert not covers_randomized_response(pure_to_mu(Fraction(epsilon)) / MICRO * 0.999, epsilon)


def worst_offset(span: float) -> float:
    """The largest mu that a pair of laws needs whose loss lies in [t - span, t], over a grid of t."""
    grid = [span * part / 400 for part in range(1, 400)]
    corners = [(math.expm1(span - t) / math.expm1(span), math.expm1(t) / math.expm1(span)) for t in grid]
    return max(-float(ndtri(x) + ndtri(y)) for x, y in corners)


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "0.3", "1", "2", "5", "20"])
def test_the_price_of_a_range_covers_every_offset_and_is_needed_in_the_middle(epsilon: str) -> None:
    paid = range_to_mu(Fraction(epsilon)) / MICRO
    worst = worst_offset(float(epsilon))
    assert worst <= paid + 1e-9
    assert worst >= paid - 2e-6
    assert worst > 0.99 * range_to_mu(Fraction(epsilon) * 49 / 50) / MICRO


def test_a_range_costs_about_a_quarter_in_mu_squared() -> None:
    falls = [(pure_to_mu(Fraction(e)) / range_to_mu(Fraction(e))) ** 2 for e in ("0.3", "1", "2")]
    assert [round(fall, 1) for fall in falls] == [4.0, 3.9, 3.7]


def test_a_huge_epsilon_has_a_safe_price_and_zero_costs_nothing() -> None:
    assert pure_to_mu(Fraction(0)) == 0
    with mpmath.workdps(50):
        assert mpmath.ncdf(-mpmath.mpf(pure_to_mu(Fraction(5000))) / (2 * MICRO)) <= 1 / (1 + mpmath.exp(5000))
    with pytest.raises(InvalidTask):
        pure_to_mu(Fraction(-1))
