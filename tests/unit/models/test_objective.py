"""Objective perturbation end to end: prices, what covers the solver, and exact one-dimensional losses with twins."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from steelyard.accounting._gaussian import delta_of
from steelyard.accounting._prices import price
from steelyard.audit._suite import gaussian, pure
from steelyard.errors import InvalidTask
from steelyard.mechanisms import PureObjective
from steelyard.models._columns import SIZE
from steelyard.models._losses import LOGISTIC, Memory, Point, Sums
from steelyard.models._newton import Problem
from steelyard.models._objective import gaussian_objective, pure_objective
from steelyard.models._rows import Rows
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO
from steelyard.privacy import rows as each_row

Array = NDArray[np.float64]
Loss = Callable[[Array], tuple[Array, Array]]
T = np.linspace(-40, 40, 80_001)


def logistic(t: Array) -> tuple[Array, Array]:
    """Slope and curvature of the logistic loss of one row at t."""
    p = expit(-t)
    return -p, p * (1 - p)


def hinge(t: Array, width: float = 0.5) -> tuple[Array, Array]:
    """The same for a Huberized hinge, whose slope is at its largest where it is still curved."""
    u = np.clip((1 + width - t) / (2 * width), 0, 1)
    return -u, np.where((t > 1 - width) & (t < 1 + width), 1 / (2 * width), 0.0)


def density(loss: Loss, rows: int, push: float, ridge: float, noise: Callable[[Array], Array]) -> Array:
    """The exact law, on the grid T, of the minimizer of ``rows`` equal losses, a ridge and a random linear term.

    ``push`` is the pull of other rows so far on one side that they only push.
    """
    slope, curve = loss(T)
    b = -ridge * T - rows * slope - push
    return np.asarray(noise(b) * (ridge + rows * curve))


def pairs(loss: Loss, ridge: float, noise: Callable[[Array], Array]) -> Iterator[tuple[Array, Array]]:
    """Laws of neighbours, both ways round."""
    for rows, push in itertools.product((0, 5), (-12.0, -6.0, -3.0, 0.0, 3.0, 6.0)):
        a, b = (density(loss, count, push, ridge, noise) for count in (rows, rows + 1))
        yield a, b
        yield b, a


def normal_noise(sigma: float) -> Callable[[Array], Array]:
    return lambda b: np.exp(-((b / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))


def laplace_noise(scale: float) -> Callable[[Array], Array]:
    return lambda b: np.exp(-np.abs(b) / scale) / (2 * scale)


def worst_delta(loss: Loss, ridge: float, sigma: float, epsilon: float) -> float:
    each = pairs(loss, ridge, normal_noise(sigma))
    return max(float(np.trapezoid(np.maximum(a - math.exp(epsilon) * b, 0), T)) for a, b in each)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_in_one_dimension_the_exact_loss_stays_below_the_price(epsilon: float) -> None:
    fit = gaussian_objective(1, 300_000)
    m = fit.mechanism
    mu = m.price / MICRO  # type: ignore[union-attr]
    worst = worst_delta(logistic, float(m.ridge), float(m.sigma), epsilon)  # type: ignore[union-attr]
    assert worst <= delta_of(epsilon, mu) + 1e-9


def test_a_hinge_priced_by_the_logistic_curvature_is_caught() -> None:
    fit = gaussian_objective(1, 300_000)
    m = fit.mechanism
    mu = m.price / MICRO  # type: ignore[union-attr]
    assert worst_delta(hinge, float(m.ridge), float(m.sigma), 1.0) > 3 * delta_of(1.0, mu)  # type: ignore[union-attr]


def worst_ratio(ridge: float, scale: float, loss: Loss | None = None) -> float:
    each = pairs(loss or logistic, ridge, laplace_noise(scale))
    return max(float((np.log(a) - np.log(b)).max()) for a, b in each)


def test_pure_noise_with_the_ridge_at_its_scale_costs_exactly_one_over_the_scale() -> None:
    for scale in (0.5, 1.0, 4.0):
        assert worst_ratio(scale, scale) <= 1 / scale + 1e-9
        assert worst_ratio(scale, scale) >= 0.99 / scale


def with_row(length: float, others: int, push: float, scale: float) -> Array:
    """The exact law with one more row of this length, of either sign, beside equal ones; ridge and scale are equal."""
    slope, curve = logistic(T)
    own, bend = logistic(length * T)
    b = -scale * T - others * slope - push - length * own
    return np.asarray(laplace_noise(scale)(b) * (scale + others * curve + length**2 * bend))


def lost(first: float, second: float, scale: float) -> float:
    """The largest log ratio between tables with the one row or the other; length zero is no row."""
    laws = (
        (with_row(a, others, push, scale), with_row(b, others, push, scale))
        for a, b in ((first, second), (second, first))
        for others, push in itertools.product((0, 5), (-12.0, -3.0, 0.0, 3.0, 12.0))
    )
    return max(float((np.log(a) - np.log(b)).max()) for a, b in laws)


@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_a_longer_row_loses_more_and_a_replaced_one_at_most_twice_as_much(scale: float) -> None:
    shorter = [lost(length, 0, scale) for length in (0.25, 0.5, 0.75, 1.0)]
    assert shorter == sorted(shorter)
    assert shorter[-1] <= 1 / scale + 1e-9
    replaced = [lost(a, b, scale) for a, b in ((1, -1), (1, -0.5), (0.5, 1), (1, 0.25))]
    assert 1 / scale < max(replaced) <= 2 / scale + 1e-9


@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_a_replaced_row_charged_once_is_caught_in_two_dimensions(scale: float) -> None:
    """One t, far on the wrong side of two nearly opposite rows; very many other rows turn b towards their difference."""
    t, others = np.array([-300.0, 0.0]), 10**6 * np.array([0.0, 0.5])
    ends = [np.array([0.1, sign * math.sqrt(0.99)]) for sign in (1, -1)]
    b = [others + expit(-v @ t) * v - scale * t for v in ends]
    curves = [np.eye(2) * scale + np.diag([0, 10**6 / 4]) + expit(-v @ t) * expit(v @ t) * np.outer(v, v) for v in ends]
    loss = (np.linalg.norm(b[0]) - np.linalg.norm(b[1])) / scale
    loss += np.linalg.slogdet(curves[1])[1] - np.linalg.slogdet(curves[0])[1]
    assert 1.9 / scale < loss <= 2 / scale + 1e-9


def test_pure_noise_with_a_smaller_ridge_would_cost_more_and_is_refused() -> None:
    assert worst_ratio(0.1, 1.0) > 1.2
    with pytest.raises(InvalidTask):
        PureObjective(1, Fraction(1), Fraction(9, 10), 10)


def test_a_peer_that_forgets_to_square_the_norm_is_caught() -> None:
    """Calibrated as if rows of length 100 bent the objective by 100/4 instead of 100^2/4 (claimed: epsilon 1)."""
    norm, epsilon = 100.0, 1.0
    ridge = norm / 4 / (math.exp(epsilon / 4) - 1)

    def long_row(t: Array) -> tuple[Array, Array]:
        p = expit(-norm * t)
        return -norm * p, norm**2 * p * (1 - p)

    assert worst_ratio(ridge, 2 * norm / (epsilon / 2), long_row) > 1.5 * epsilon


@pytest.mark.parametrize("micro", [236_704, 2_700_000])
def test_a_gaussian_fit_costs_what_was_asked_almost_exactly(micro: int) -> None:
    fit = gaussian_objective(12, micro)
    assert micro**2 - 3 * micro <= price(fit.event, gaussian(each_row())).amount <= micro**2
    assert fit.mechanism.shift >= 0.98 * micro  # type: ignore[union-attr]


def test_a_pure_fit_costs_exactly_what_was_asked() -> None:
    assert price(pure_objective(12, 500_000).event, pure(each_row())).amount == 500_000


def test_the_answer_is_within_reach_of_the_minimizer_and_the_cover_is_small() -> None:
    for fit in (gaussian_objective(5, 236_704), pure_objective(5, 10**6)):
        m = fit.mechanism
        data = np.rint(np.random.default_rng(1).normal(size=(400, 5)) * SIZE / 8)
        linear = [Fraction(k, 7) for k in range(5)]
        answer = Problem(Memory(data), m.ridge, linear, m.gradient).solve()
        closest = Problem(Memory(data), m.ridge, linear, m.gradient / 2**20).solve()
        assert np.linalg.norm(answer - closest) <= float(m.reach)
        spread = float(m.sigma if hasattr(m, "sigma") else m.scale) / float(m.ridge)
        assert float(m.cover * m.step) < 0.01 * spread


def test_a_ridge_that_is_too_small_is_refused_and_a_larger_one_is_kept() -> None:
    with pytest.raises(InvalidTask):
        gaussian_objective(3, 236_704, Fraction(1, 100))
    assert gaussian_objective(3, 236_704, Fraction(9)).ridge == 9


def test_a_fit_learns_and_rows_without_a_class_change_nothing() -> None:
    draw = np.random.default_rng(2)
    x = np.rint(draw.normal(size=(30_000, 3)) * SIZE / 6)
    y = np.where(x[:, 0] > 0, 1.0, -1.0)
    fit = gaussian_objective(3, 236_704)
    theta = fit.fit(Rows(x, y, None), TestNoise(1)).coefficients
    assert theta[0] > 5 * np.abs(theta[1:]).max()
    more = Rows(np.vstack([x, x[:50]]), np.append(y, np.zeros(50)), None)
    assert np.allclose(fit.fit(more, TestNoise(1)).coefficients, theta, atol=1e-4)


@dataclass(frozen=True)
class Crowd:
    """So many copies of two rows of length 0.9 that differ in their labels alone: nothing is the best model."""

    copies: int
    loss = LOGISTIC
    pair: ClassVar = Memory(np.rint(np.array([[0.9, 0], [-0.9, 0]]) * SIZE))

    def sums(self, theta: Array, curved: bool = True) -> Sums:
        one = self.pair.sums(theta)
        return Sums(one.pull * self.copies, one.hessian * self.copies, one.count * self.copies, self.copies)

    def pull(self, theta: Point, digits: int) -> tuple[list[Decimal], int]:
        found, count = self.pair.pull(theta, digits)
        return [each * self.copies for each in found], count * self.copies


@pytest.mark.parametrize("copies", [0, 1000, 10**7])
def test_the_expected_excess_is_bounded_by_a_sum_and_something_for_each_row(copies: int) -> None:
    fit, crowd = pure_objective(2, 100_000), Crowd(copies)
    ridge = float(fit.ridge)

    def above(theta: Array) -> float:
        return copies * 2 * math.log(math.cosh(0.45 * theta[0])) + ridge / 2 * float(theta @ theta)

    found = np.mean([above(fit.solve(crowd, TestNoise(seed))) for seed in range(1000)])
    assert found <= fit.excess + 2 * copies * fit.excess_row
    if copies == 10**7:  # the sum alone bounds nothing here: the answer's own noise is what is left
        assert found > 2 * fit.excess
