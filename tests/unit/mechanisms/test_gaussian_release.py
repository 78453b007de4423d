"""Gaussian release: exactly mu-GDP, which the discrete Gaussian is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import pytest

from steelyard.errors import InvalidTask
from steelyard.mechanisms import Gaussian
from steelyard.mechanisms._integers import WIDEST
from steelyard.noise import TestNoise
from unit.mechanisms.fit import fits

NORMAL = NormalDist()


def rounded_below(n: int, sigma: float) -> float:
    """P[round(sigma Z) < n]."""
    return NORMAL.cdf((n - 0.5) / sigma)


def discrete_below(n: int, sigma: float) -> float:
    """P[X < n] for the discrete Gaussian: the twin."""
    weight = {x: math.exp(-x * x / (2 * sigma * sigma)) for x in range(-100, 101)}
    return math.fsum(w for x, w in weight.items() if x < n) / math.fsum(weight.values())


def smallest_mu(below: Callable[[int, float], float], sensitivity: int, sigma: float) -> float:
    """The smallest true mu of an integer noise with log-concave law: the largest gap of normal scores."""
    score = [NORMAL.inv_cdf(below(n, sigma)) for n in range(-8, 9)]
    return max(b - a for a, b in zip(score, score[sensitivity:], strict=False))


@pytest.mark.parametrize(("sensitivity", "sigma"), [(1, 2), (3, 4), (2, 3)])
def test_rounded_normal_noise_is_exactly_as_private_as_it_is_priced(sensitivity: int, sigma: int) -> None:
    claimed = math.sqrt(Gaussian(sensitivity, Fraction(sigma)).mu_squared)
    assert smallest_mu(rounded_below, sensitivity, sigma) <= claimed * (1 + 1e-9)


@pytest.mark.parametrize(("sensitivity", "sigma"), [(1, 2), (2, 3)])
def test_the_discrete_gaussian_at_the_same_price_is_caught(sensitivity: int, sigma: int) -> None:
    claimed = math.sqrt(Gaussian(sensitivity, Fraction(sigma)).mu_squared)
    assert smallest_mu(discrete_below, sensitivity, sigma) > claimed * (1 + 1e-3)


def cells(sigma: float) -> Any:
    return lambda x: rounded_below(x + 1, sigma) - rounded_below(x, sigma)


def test_a_release_is_the_value_plus_rounded_normal_noise() -> None:
    sample = [x + 3 for x in Gaussian(1, Fraction(5, 2)).release([-3] * 40_000, TestNoise(3))]
    assert fits(sample, cells(2.5), range(-30, 31))
    assert not fits(sample, cells(2.6), range(-30, 31))


def test_the_square_of_the_sensitivity_may_be_given_instead() -> None:
    mechanism = Gaussian(None, Fraction(3, 2), squared_sensitivity=2)
    assert mechanism.mu_squared == Fraction(8, 9)
    assert mechanism.event.parameters == {"sensitivity_squared": 2, "sigma_numerator": 3, "sigma_denominator": 2}
    assert Gaussian(3, Fraction(6)).event.parameters["sensitivity"] == 3


def test_no_value_can_make_a_release_fail() -> None:
    released = Gaussian(1, Fraction(10)).release([10**60, -(10**60), 0], TestNoise(2))
    assert all(-WIDEST <= x <= WIDEST for x in released)


def test_parameters_that_promise_nothing_are_refused() -> None:
    for sensitivity, sigma, square in ((0, 1, None), (None, 1, None), (1, 1, 1), (None, 1, 0), (1, -1, None)):
        with pytest.raises(InvalidTask):
            Gaussian(sensitivity, Fraction(sigma), squared_sensitivity=square)


class SeededButSecure(TestNoise):
    """Seeded noise that passes for secure."""

    secure = True


def test_noise_drawn_ahead_is_that_of_so_many_releases_and_no_two_share_it() -> None:
    mechanism = Gaussian(1, Fraction(5, 2))
    rows = mechanism.ahead(4000, 10, SeededButSecure(5))
    drawn = [int(value) for row in rows if row is not None for value in row]
    assert len(drawn) == 40_000
    assert fits(drawn, cells(2.5), range(-30, 31))
    assert not fits(drawn, cells(2.6), range(-30, 31))
    assert abs(sum(a * b for a, b in zip(drawn, drawn[10:], strict=False))) < 5 * 2.5**2 * math.sqrt(len(drawn))


def test_noise_that_an_audit_watches_is_not_drawn_ahead() -> None:
    assert Gaussian(1, Fraction(2)).ahead(3, 2, TestNoise(1)) == [None] * 3
