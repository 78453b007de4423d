"""Exact coins: their laws by walking every branch."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from steelyard.mechanisms._coins import exp_coin, geometric, two_sided
from steelyard.noise import Noise
from unit.mechanisms.trees import agrees, law


@pytest.mark.parametrize("exponent", ["0", "1/3", "2/3", "1", "3/2", "3"])
def test_a_coin_comes_up_with_exactly_its_probability(exponent: str) -> None:
    found, left = law(lambda noise: exp_coin(Fraction(exponent), noise), 1e-8)
    heads = math.exp(-float(Fraction(exponent)))
    assert left < Fraction(1, 10**4)
    assert agrees(found, left, lambda up: heads if up else 1 - heads)


def test_a_coin_whose_series_is_off_by_one_is_caught() -> None:
    def twin(noise: Noise) -> bool:
        tosses = 1
        while noise.below(2 * (tosses + 1)) < 1:
            tosses += 1
        return tosses % 2 == 1

    found, left = law(twin, 1e-8)
    assert not agrees(found, left, lambda up: math.exp(-0.5) if up else 1 - math.exp(-0.5))


@pytest.mark.parametrize("scale", ["1", "2", "1/2", "3/2"])
def test_a_geometric_variable_has_exactly_its_law(scale: str) -> None:
    found, left = law(lambda noise: geometric(Fraction(scale), noise), 3e-5)
    ratio = math.exp(-1 / float(Fraction(scale)))
    assert left < Fraction(1, 4)
    assert agrees(found, left, lambda k: (1 - ratio) * ratio**k)


@pytest.mark.parametrize("scale", ["1", "1/2"])
def test_a_two_sided_variable_has_exactly_its_law(scale: str) -> None:
    found, left = law(lambda noise: two_sided(Fraction(scale), noise), 3e-5)
    ratio = math.exp(-1 / float(Fraction(scale)))
    assert left < Fraction(1, 4)
    assert agrees(found, left, lambda x: (1 - ratio) / (1 + ratio) * ratio ** abs(x))
