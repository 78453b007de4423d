"""Laplace release: its law, its event, and that no value can make it fail."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from steelyard.errors import InvalidTask
from steelyard.mechanisms import Laplace
from steelyard.mechanisms._integers import WIDEST
from steelyard.noise import TestNoise
from steelyard.privacy import Neighbours
from unit.mechanisms.fit import fits
from unit.mechanisms.twins import pmf

SUPPORT = range(-60, 61)


def law(scale: float) -> Any:
    return lambda x: pmf(x, scale)


def test_a_release_is_the_value_plus_discrete_laplace_noise() -> None:
    sample = [x - 7 for x in Laplace(1, Fraction(5, 2)).release([7] * 40_000, TestNoise(1))]
    assert fits(sample, law(2.5), SUPPORT)


def test_a_scale_a_twentieth_too_small_is_caught() -> None:
    twin = [x - 7 for x in Laplace(1, Fraction(95 * 5, 200)).release([7] * 40_000, TestNoise(1))]
    assert not fits(twin, law(2.5), SUPPORT)


def test_the_exact_ratio_between_neighbours_is_the_price() -> None:
    mechanism = Laplace(3, Fraction(4))
    worst = max(abs(math.log(pmf(x, 4) / pmf(x - 3, 4))) for x in range(-20, 20))
    assert worst == pytest.approx(float(mechanism.epsilon))


def test_the_event_carries_the_very_noise_that_is_drawn() -> None:
    event = Laplace(3, Fraction(7, 2), Neighbours.REPLACE).event
    assert event.to_json() == {
        "name": "laplace",
        "parameters": {"sensitivity": 3, "scale_numerator": 7, "scale_denominator": 2},
        "neighbours": "replace",
        "status": "proved",
    }


def test_no_value_can_make_a_release_fail() -> None:
    values = [0, -(10**60), 10**60, WIDEST, -WIDEST, 2**63]
    released = Laplace(1, Fraction(10)).release(values, TestNoise(2))
    assert len(released) == len(values)
    assert all(-WIDEST <= x <= WIDEST for x in released)
    assert Laplace(1, Fraction(10)).release([], TestNoise(2)) == []


@pytest.mark.parametrize(("sensitivity", "scale"), [(0, Fraction(1)), (True, Fraction(1)), (1, Fraction(0)), (1, 0.5)])
def test_parameters_that_promise_nothing_are_refused(sensitivity: int, scale: Any) -> None:
    with pytest.raises(InvalidTask):
        Laplace(sensitivity, scale)
