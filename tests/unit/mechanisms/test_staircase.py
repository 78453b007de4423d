from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.accounting._prices import price
from steelyard.errors import InvalidTask, OurBug
from steelyard.mechanisms import Staircase
from steelyard.mechanisms._staircase import draws_for
from steelyard.noise import ExactNoise
from steelyard.privacy import Loss, Terms, rows

CASES = [(1, 1), (2, 1), (5, 1), (5, 2), (5, 3), (8, 4)]


class Scripted:
    """Noise that answers with a given Laplace level and given uniform integers."""

    name, secure = "scripted", True

    def __init__(self, level: int, uniforms: list[int]) -> None:
        self.level, self.uniforms, self.bounds = level, uniforms, list[int]()

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        return [self.level] * size

    def below(self, bound: int) -> int:
        self.bounds.append(bound)
        return self.uniforms.pop(0)


def drawn(mechanism: Staircase, level: int) -> Iterator[tuple[int, Fraction]]:
    """Every noise that a Laplace level leads to, with its exact probability given that level (a redraw is left out)."""
    if level == 0:
        for keep in range(2 * mechanism.first - 1):
            for place in range(2 * mechanism.first - 1):
                noise = Scripted(0, [keep, place])
                yield mechanism.draw(noise), Fraction(1, math.prod(noise.bounds))  # type: ignore[arg-type]
        return
    for place in range(mechanism.sensitivity):
        noise = Scripted(level, [place])
        yield mechanism.draw(noise), Fraction(1, math.prod(noise.bounds))  # type: ignore[arg-type]


def worst_step(mechanism: Staircase, reach: int) -> int:
    """The most exp(-epsilon) factors between the weights of x and x + s, |s| <= sensitivity, as the sampler draws them.

    Raises when the places of one level are not equally likely.
    """
    level_of: dict[int, int] = {}
    for level in range(-reach, reach + 1):
        weights = Counter[int]()
        for x, share in drawn(mechanism, level):
            weights[x] += share  # type: ignore[assignment]
            level_of[x] = abs(level)
        assert set(weights.values()) == {Fraction(1, mechanism.sensitivity)}
    inside = [x for x in level_of if abs(x) <= (reach - 2) * mechanism.sensitivity]
    return max(
        abs(level_of[x] - level_of[x + shift])
        for x in inside
        for shift in range(-mechanism.sensitivity, mechanism.sensitivity + 1)
    )


@pytest.mark.parametrize(("sensitivity", "first"), CASES)
def test_moving_by_the_sensitivity_crosses_one_step_at_most(sensitivity: int, first: int) -> None:
    assert worst_step(Staircase(sensitivity, first, Fraction(1)), 6) == 1


class ShortSteps(Staircase):
    """Broken twin: steps one integer shorter than the sensitivity."""

    def draw(self, noise: object) -> int:
        level = noise.laplace(1 / self.epsilon, 1)[0]  # type: ignore[attr-defined]
        if level:
            size: int = self.first + (abs(level) - 1) * (self.sensitivity - 1) + noise.below(self.sensitivity)  # type: ignore[attr-defined]
            return size if level > 0 else -size
        noise.below(self.sensitivity)  # type: ignore[attr-defined]
        place: int = noise.below(2 * self.first - 1)  # type: ignore[attr-defined]
        return place - self.first + 1


class ForgetsToRedraw(Staircase):
    """Broken twin: the lowest step keeps all the mass that a redraw should spread."""

    def draw(self, noise: object) -> int:
        level = noise.laplace(1 / self.epsilon, 1)[0]  # type: ignore[attr-defined]
        if level:
            return super().draw(Scripted(level, [noise.below(self.sensitivity)]))  # type: ignore[attr-defined,arg-type]
        noise.below(2 * self.first - 1)  # type: ignore[attr-defined]
        place: int = noise.below(2 * self.first - 1)  # type: ignore[attr-defined]
        return place - self.first + 1


def test_the_broken_twins_are_caught() -> None:
    assert worst_step(ShortSteps(5, 2, Fraction(1)), 6) > 1
    with pytest.raises(AssertionError):
        worst_step(ForgetsToRedraw(5, 2, Fraction(1)), 6)


@given(st.integers(1, 10**6), st.fractions(min_value=Fraction(1, 1000), max_value=50), st.integers(-(10**9), 10**9))
def test_draws_and_sizes_are_inverse(sensitivity: int, epsilon: Fraction, size: int) -> None:
    mechanism = Staircase.least(sensitivity, epsilon)
    level, uniforms = draws_for(size, sensitivity, mechanism.first)
    assert mechanism.draw(Scripted(level, uniforms)) == size  # type: ignore[arg-type]


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=100))
def test_the_price_is_epsilon_rounded_up(epsilon: Fraction) -> None:
    cost = price(Staircase.least(10**6, epsilon).event, Terms(rows(), Loss.pure(1000)))
    assert 0 <= cost.value - epsilon < Fraction(1, 10**6)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_sizes_are_as_stated_and_never_larger_than_laplace(epsilon: str) -> None:
    mechanism, noise = Staircase.least(10**6, Fraction(epsilon)), ExactNoise()
    draws = [abs(mechanism.release([0], noise)[0]) for _ in range(8000)]
    assert 0.93 < statistics.fmean(draws) / mechanism.mean_size() < 1.07
    assert 0.94 < sum(draw <= mechanism.within(0.95) for draw in draws) / 8000 < 0.96
    assert mechanism.mean_size() <= 10**6 / float(Fraction(epsilon)) * 1.000001
    assert math.isclose(mechanism.mean_size(), 10**6 / (2 * math.sinh(float(Fraction(epsilon)) / 2)), rel_tol=1e-5)


@given(st.integers(1, 10**15), st.fractions(min_value=Fraction(1, 10**6), max_value=1000))
def test_any_request_makes_a_lawful_staircase(sensitivity: int, epsilon: Fraction) -> None:
    mechanism = Staircase.least(sensitivity, epsilon)
    assert 1 <= 2 * mechanism.first - 1 <= sensitivity
    assert math.isfinite(mechanism.mean_size())
    assert math.isfinite(mechanism.within(0.95))


def test_one_number_only_and_steps_that_fit() -> None:
    with pytest.raises(OurBug):
        Staircase(5, 2, Fraction(1)).release([1, 2], ExactNoise())
    with pytest.raises(InvalidTask):
        Staircase(5, 4, Fraction(1))
