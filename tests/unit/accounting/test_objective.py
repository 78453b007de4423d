"""The price of objective perturbation: never below what an adversary attains, and close to one Gaussian release."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from steelyard.accounting._objective import _COARSE, _FINE, _above_chords, _Programme, curvature, near_one, objective_mu
from steelyard.errors import InvalidTask
from steelyard.privacy import MICRO
from unit.accounting.grid_adversaries import attained, gaussian_delta


def excess(mu: float, slope: float, shift: float) -> float:
    """The largest attained delta over what mu allows, over a range of epsilons."""
    ratios = (Fraction(k, 2) for k in range(min(int(2 * slope) + 2, 10)))
    return max(
        attained(slope, shift, float(r) * shift) / gaussian_delta(float(r) * shift, mu)
        for r in ratios
        if gaussian_delta(float(r) * shift, mu) > 1e-12
    )


@pytest.mark.parametrize(
    ("slope", "shift"),
    [("2.5", 236_700), ("1", 3_500_000), pytest.param("4", 1_000_000, marks=pytest.mark.slow)],
)
def test_no_adversary_on_a_grid_exceeds_the_price(slope: str, shift: int) -> None:
    mu = objective_mu(Fraction(slope), shift) / MICRO
    assert excess(mu, float(slope), shift / MICRO) <= 1.0


def test_charging_one_gaussian_release_for_a_small_ridge_is_caught() -> None:
    assert excess(0.3, 10.0, 0.3) > 1.02


def test_a_coarse_grid_is_a_bound_too_and_a_finer_one_a_better_bound() -> None:
    slope, shift, epsilon = 2.5, 0.2367, np.array([0.0, 0.2, 0.4])
    coarse, fine = (_Programme(slope, shift, epsilon, step)._needs() for step in (_COARSE, _FINE))
    best = [attained(slope, shift, each) for each in epsilon.tolist()]
    assert (coarse >= fine).all()
    assert coarse[-1] > fine[-1]
    assert (fine >= best).all()
    assert (fine <= np.multiply(best, 1.03)).all()


@pytest.mark.parametrize(("slope", "room", "shift"), [("2.5", 1.007, 236_700), ("1", 1.0008, 3_500_000)])
def test_with_a_ridge_of_the_default_rule_the_price_is_within_a_hundredth_of_one_release(
    slope: str, room: float, shift: int
) -> None:
    assert shift < objective_mu(Fraction(slope), shift) <= shift * room


def test_a_larger_slope_never_costs_less() -> None:
    assert objective_mu(Fraction(5, 2), 236_700) <= objective_mu(Fraction(7, 2), 236_700)


def test_settings_without_a_proved_price_are_refused() -> None:
    for slope, shift in (
        (Fraction(5), 100_000),
        (Fraction(0), 100_000),
        (Fraction(2), 10),
        (Fraction(2), 10**8),
    ):
        with pytest.raises(InvalidTask):
            objective_mu(slope, shift)
    for mu in (math.inf, 0.5):
        with pytest.raises(InvalidTask):
            _above_chords(np.array([0.0, 0.5]), mu)


def second_derivative(shift: float, points: list[tuple[float, float]], move: float) -> float:
    """Of the sum of +-Phi(w + s c) over alternating switch points, as all logits move together."""
    h = 1e-3
    total = 0.0
    for k, (w, q) in enumerate(points):
        values: NDArray[np.float64] = ndtr(w + shift * expit(q + move + h * np.array([-1.0, 0.0, 1.0])))
        total += (-1.0) ** (k + 1) * float(values[0] - 2 * values[1] + values[2]) / h**2
    return total


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.05, 3),
    st.lists(st.tuples(st.floats(0.001, 2), st.floats(0, 2)), min_size=1, max_size=12),
    st.floats(-3, 1),
)
def test_no_row_of_switches_bends_down_faster_than_the_bound(
    shift: float, moves: list[tuple[float, float]], first: float
) -> None:
    w, q, points = -3.0, first, []
    for dw, dq in moves:
        w, q = w + dw, q + dq
        points.append((w, q))
    if len(points) % 2:
        points.append((w + 30, q))
    bound = float(curvature(shift, np.inf, np.array([expit(points[0][1])]))[0])
    assert second_derivative(shift, points, 0.0) >= -bound - 1e-5


@pytest.mark.parametrize(("slope", "shift"), [(2.0, 0.1), (3.3, 0.5), (4.0, 2.0)])
def test_near_weight_one_leaving_early_never_pays(slope: float, shift: float) -> None:
    """Lemma 3 of the note, on a grid of epsilons and weights: what is won later is less than what was given up."""
    x0 = near_one(slope, shift)
    for x in np.linspace(x0 / 20, x0, 8):
        c = 1 - x
        for epsilon in np.linspace(0, slope * shift + shift**2 / 2, 9):
            b = -epsilon / (shift * c) - shift * c / 2
            w = np.linspace(b, b + 2 * slope * x0 + 1, 4000)
            ts = np.linspace(0, x, 30)[:, None]
            log = np.log1p(shift * slope * ts * (1 - ts)) - shift * w * (1 - ts) - (shift * (1 - ts)) ** 2 / 2
            density = np.exp(-w * w / 2) / np.sqrt(2 * np.pi)
            later = np.trapezoid(density * np.maximum(np.exp(log.max(axis=0)) - np.exp(epsilon), 0), w)
            total = ndtr(b + shift * c) - np.exp(epsilon) * ndtr(b) + later
            assert total <= gaussian_delta(epsilon, shift) + 1e-9
