"""A replaced row at a large epsilon costs one Gaussian release of twice the shift; at a small one that is not so."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit

from steelyard.accounting._gaussian import epsilon_of
from steelyard.accounting._objective_replaced import delta_replaced, epsilon_replaced, threshold
from steelyard.errors import InvalidTask
from steelyard.privacy import MICRO
from unit.accounting.grid_adversaries import attained, gaussian_delta

Array = NDArray[np.float64]
MILLIONTH = Fraction(1, 10**6)


@given(st.floats(0.01, 2.0), st.floats(0.0, 6.0))
def test_two_gaussian_steps_at_the_best_split_are_one_of_twice_the_shift(s: float, more: float) -> None:
    epsilon = s * s + more * s
    first = (epsilon - s * s) / 2
    both = gaussian_delta(first, s) + math.exp(first) * gaussian_delta(epsilon - first, s)
    assert both == pytest.approx(gaussian_delta(epsilon, 2 * s), rel=1e-9, abs=1e-14)


def composed(slope: float, shift: float, epsilon: float) -> float:
    """The two-step bound when the adversary's first step is as bad as a grid finds, over splits of epsilon."""
    splits = [*np.linspace(0, epsilon, 13), max((epsilon - shift * shift) / 2, 0.0)]
    return min(attained(slope, shift, e) + math.exp(e) * gaussian_delta(epsilon - e, shift) for e in splits)


@pytest.mark.parametrize(("slope", "shift"), [(1.0, 0.5), (3.0, 0.3)])
def test_from_the_threshold_on_two_steps_are_within_the_claim(slope: float, shift: float) -> None:
    ridge = Fraction(1 / (slope * shift))
    least = float(threshold(round(shift * MICRO), ridge))
    for factor in (1.001, 1.3):
        claim = float(delta_replaced(Fraction(least * factor), round(shift * MICRO), ridge, 1))
        assert composed(slope, shift, least * factor) <= claim + 1e-12
        assert claim == pytest.approx(gaussian_delta(least * factor, 2 * shift), rel=1e-4)


def test_the_claim_at_a_small_epsilon_is_caught() -> None:
    slope, shift = 10.0, 0.3
    assert composed(slope, shift, 0.3) > 1.01 * gaussian_delta(0.3, 2 * shift)
    assert delta_replaced(Fraction(3, 10), 300_000, Fraction(1 / (slope * shift)), 1) == 1


def law(row: tuple[float, float], push: float, ridge: float, sigma: float, at: tuple[Array, Array]) -> Array:
    """The exact density of the minimizer in the plane: one row, and others so far on one side that they only push."""
    p = expit(-(row[0] * at[0] + row[1] * at[1]))
    b = (-ridge * at[0] + p * row[0] + push) ** 2 + (-ridge * at[1] + p * row[1]) ** 2
    slope = ridge * (ridge + p * (1 - p) * (row[0] ** 2 + row[1] ** 2))
    return np.asarray(np.exp(-b / (2 * sigma**2)) / (2 * math.pi * sigma**2) * slope)


@pytest.mark.parametrize(("slope", "shift"), [(0.5, 1.0), (1.0, 1.0)])
def test_exact_laws_of_a_replaced_row_stay_within_the_claim_and_come_near_it(slope: float, shift: float) -> None:
    sigma, ridge = 1 / shift, 1 / (slope * shift)
    exact = Fraction(ridge)
    epsilon = float(threshold(round(shift * MICRO), exact)) * 1.01
    claim, worst = float(delta_replaced(Fraction(epsilon), round(shift * MICRO), exact, 1)), 0.0
    for push, angle in ((0.0, 1.3), (6.0, 1.3), (60.0, 1.45), (1000.0, 1.55)):
        wide = (8 * sigma + 2) / ridge
        first, second = np.linspace(-wide, wide, 900) + push / ridge, np.linspace(-wide, wide, 900)
        cell = (first[1] - first[0]) * (second[1] - second[0])
        at = (first[:, None], second[None, :])
        laws = [law((-math.cos(angle), side * math.sin(angle)), push, ridge, sigma, at) for side in (1, -1)]
        assert float(laws[0].sum() * cell) == pytest.approx(1, abs=1e-3)
        worst = max(worst, float(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0).sum() * cell))
    assert 0.8 * claim < worst <= claim * (1 + 1e-4)


def test_the_epsilon_is_that_of_one_release_above_the_threshold_and_never_below_it() -> None:
    found = epsilon_replaced(20_000, Fraction(25), 200, MILLIONTH)
    assert epsilon_of(0.04, 1e-6) <= found <= epsilon_of(0.04, 1e-6) * 1.0002
    assert delta_replaced(Fraction(found), 20_000, Fraction(25), 200) <= Fraction(MILLIONTH)
    assert (
        epsilon_replaced(20_000, Fraction(5), 200, MILLIONTH) > threshold(20_000, Fraction(5)) > epsilon_of(0.04, 1e-6)
    )
    assert epsilon_replaced(20_000, Fraction(25), 20_000, MILLIONTH) > epsilon_of(math.sqrt(5) * 0.02, 1e-6)


@pytest.mark.parametrize(
    "given", [(0, Fraction(1), 1, MILLIONTH), (1, Fraction(0), 1, MILLIONTH), (1, Fraction(1), 1, Fraction(1))]
)
def test_what_has_no_claim_is_refused(given: tuple[int, Fraction, int, Fraction]) -> None:
    with pytest.raises(InvalidTask):
        epsilon_replaced(*given)
