"""Spherical noise: the stated law, near an ideal vector always, and twins that draw another law."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from steelyard.errors import InvalidTask
from steelyard.mechanisms._sphere import error, spherical
from steelyard.noise import Noise, TestNoise

SCALE = Fraction(10**9)
Draw = Callable[[Fraction, int, Noise], list[int]]


def short_length(scale: Fraction, size: int, noise: Noise) -> list[int]:
    """The twin whose length is a sum of d - 1 exponentials: a Laplace vector's exponent with the wrong volume."""
    return [*spherical(scale, size - 1, noise), 0] if noise.below(2) else [0, *spherical(scale, size - 1, noise)]


def coarse_direction(scale: Fraction, size: int, noise: Noise) -> list[int]:
    """The twin whose direction is rounded to a few points."""
    length = sum(x if x >= 0 else -x - 1 for x in noise.laplace(scale, size))
    while True:
        direction = noise.normal(Fraction(1), size)
        norm = math.sqrt(sum(x * x for x in direction))
        if norm:
            return [int(length * x / norm) for x in direction]


def misfit(draw: Draw, size: int, runs: int = 4000) -> float:
    """The smaller p-value of two tests: the length is Gamma(d), an entry of the direction has its uniform law."""
    noise = TestNoise(f"spherical {size}")
    sample = np.array([draw(SCALE, size, noise) for _ in range(runs)], dtype=float) / float(SCALE)
    length = np.sqrt((sample**2).sum(axis=1))
    cosine = sample[:, 0] / np.maximum(length, 1e-300)
    half = stats.beta((size - 1) / 2, (size - 1) / 2)
    by_length = stats.kstest(length, stats.gamma(size).cdf).pvalue
    by_direction = stats.kstest((cosine + 1) / 2, half.cdf).pvalue
    return float(min(by_length, by_direction))


@pytest.mark.parametrize("size", [2, 3, 6])
def test_the_length_is_a_sum_of_exponentials_and_the_direction_uniform(size: int) -> None:
    assert misfit(spherical, size, 2500) > 1e-3


@pytest.mark.parametrize("twin", [short_length, coarse_direction])
def test_a_wrong_length_or_a_coarse_direction_is_caught(twin: Draw) -> None:
    assert misfit(twin, 3, 1500) < 1e-6


def test_in_one_dimension_it_is_a_laplace_number() -> None:
    noise = TestNoise(7)
    sample = [spherical(SCALE, 1, noise)[0] / float(SCALE) for _ in range(3000)]
    assert stats.kstest(sample, stats.laplace.cdf).pvalue > 1e-3


def test_a_tiny_scale_gives_a_vector_within_the_stated_distance_of_zero() -> None:
    noise = TestNoise(1)
    assert all(math.hypot(*spherical(Fraction(1, 50), 5, noise)) <= error(5) for _ in range(200))


def test_parameters_without_meaning_are_refused() -> None:
    for scale, size in ((Fraction(0), 3), (Fraction(1), 0)):
        with pytest.raises(InvalidTask):
            spherical(scale, size, TestNoise(0))
