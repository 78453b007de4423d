"""Pessimistic curves: never below the truth, hardly above it, checked against closed forms and an oracle."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as oracle

from steelyard.accounting._curves import Curve
from steelyard.accounting._gaussian import delta_of, epsilon_of
from steelyard.errors import InvalidTask
from unit.accounting.loss_curves import Composable, finite_curve, gaussian_curve, laplace_curve

STEP = Fraction(1, 100)


def never_below(curve: Curve, mu: float) -> bool:
    """Whether a curve promises no less loss than mu-GDP at any of many epsilons."""
    return all(curve.delta(e) >= delta_of(e, mu) for e in np.linspace(0, 6 * mu, 25).tolist())


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 4.0])
def test_a_gaussian_curve_is_never_below_the_closed_form_and_close_to_it(mu: float) -> None:
    curve = gaussian_curve(mu, STEP)
    assert never_below(curve, mu)
    assert curve.delta(mu) <= delta_of(mu, mu) * 1.02
    assert never_below(gaussian_curve(mu, STEP / 10), mu)


def test_a_hundred_gaussian_steps_compose_to_their_closed_form() -> None:
    curve = gaussian_curve(0.1, STEP) * 100
    assert never_below(curve, 1.0)
    assert epsilon_of(1.0, 1e-6) <= curve.epsilon(1e-6) <= 1.002 * epsilon_of(1.0, 1e-6)


def test_a_curve_rounded_down_is_caught() -> None:
    curve = gaussian_curve(0.1, STEP)
    twin = Composable(curve.step, curve.lowest - 1, curve.masses, curve.infinite) * 100
    assert not never_below(twin, 1.0)


def test_a_curve_that_forgets_its_tail_is_caught() -> None:
    curve = gaussian_curve(1.0, STEP)
    twin = Curve(curve.step, curve.lowest, curve.masses[:-800], 0.0)
    assert not never_below(twin, 1.0)


@pytest.mark.parametrize(("sensitivity", "scale", "times"), [(1, 10, 100), (3, 10, 10), (2, 5, 1)])
def test_laplace_curves_agree_with_the_oracle(sensitivity: int, scale: int, times: int) -> None:
    ours = laplace_curve(sensitivity, Fraction(scale), Fraction(1, 1000)) * times
    theirs = oracle.from_discrete_laplace_mechanism(
        1 / scale, sensitivity, value_discretization_interval=1e-4
    ).self_compose(times)
    for delta in (1e-2, 1e-4):
        assert ours.epsilon(delta) == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=4e-3)


def test_a_single_laplace_curve_has_the_closed_form() -> None:
    curve = laplace_curve(1, Fraction(2), Fraction(1, 1000))
    ratio = math.exp(-0.5)
    for epsilon in (0.0, 0.2, 0.4):
        exact = (1 - math.exp(epsilon) * ratio) / (1 + ratio)
        assert exact <= curve.delta(epsilon) <= exact * (1 + 1e-9)
    assert curve.delta(0.501) <= 1e-20


def test_randomized_response_composes_as_the_binomial_says() -> None:
    p = [Fraction(3, 4), Fraction(1, 4)]
    curve = finite_curve(p, p[::-1], STEP) * 8
    for epsilon in (0.0, 1.0, 3.3):
        exact = sum(
            math.comb(8, k) * max(0.0, 0.75**k * 0.25 ** (8 - k) - math.exp(epsilon) * 0.25**k * 0.75 ** (8 - k))
            for k in range(9)
        )
        assert exact <= curve.delta(epsilon) <= exact * 1.001 + 1e-18


def test_an_outcome_that_only_one_side_can_have_is_infinite_loss() -> None:
    curve = finite_curve([Fraction(1, 10), Fraction(9, 10)], [Fraction(0), Fraction(1)], STEP)
    assert curve.delta(50.0) == pytest.approx(0.1)
    assert curve.epsilon(0.05) == math.inf
    assert curve.epsilon(0.9) == 0.0


def test_what_cannot_be_composed_is_refused() -> None:
    curve = laplace_curve(1, Fraction(2), STEP)
    with pytest.raises(InvalidTask):
        curve * 0
    with pytest.raises(InvalidTask):
        curve + laplace_curve(1, Fraction(2), STEP / 2)
    for mu, step in ((0.0, STEP), (1.0, Fraction(2)), (1.0, Fraction(1, 10**8))):
        with pytest.raises(InvalidTask):
            gaussian_curve(mu, step)
