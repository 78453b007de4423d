"""A user in a perturbed logistic objective: exact densities in one and two dimensions, and what breaks without weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit

from steelyard.accounting._prices import price
from steelyard.ledger import open_account
from steelyard.models.accuracy._crowd import Crowd
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._logistic import GaussianDraws
from steelyard.privacy import Terms, Unit, rows, users

Array = NDArray[np.float64]
BETA = 0.7


def slopes(t: Array, signed: Array, weight: Array, ridge: float) -> tuple[Array, Array]:
    """Minus the gradient and the Hessian, at each of many t, of weighted log losses and a ridge."""
    p = weight * expit(-t @ signed.T)
    curve = p * expit(t @ signed.T)
    pull = p @ signed - ridge * t
    return pull, np.einsum("ti,ij,ik->tjk", curve, signed, signed) + ridge * np.eye(signed.shape[1])


def log_density(t: Array, signed: Array, weight: Array, ridge: float, push: Array) -> Array:
    """Of the minimizer at t, b having density proportional to exp(-|b|/beta); ``push`` is the pull of rows far away."""
    pull, hessian = slopes(t, signed, weight, ridge)
    width = signed.shape[1]
    sphere = 2 * math.pi ** (width / 2) / math.gamma(width / 2) * math.gamma(width) * BETA**width
    b = pull + push
    return np.asarray(-np.linalg.norm(b, axis=1) / BETA + np.log(np.linalg.det(hessian)) - math.log(sphere))


def grid(width: int) -> tuple[Array, float]:
    axis = np.linspace(-40, 40, 4001 if width == 1 else 401)
    points = np.stack(np.meshgrid(*[axis] * width), axis=-1).reshape(-1, width)
    return points, float(axis[1] - axis[0]) ** width


@st.composite
def owned(draw: st.DrawFn, width: int) -> tuple[Array, Array]:
    """A user's signed rows and weights that add up to one at most."""
    size = draw(st.integers(1, 5))
    angles = np.array([draw(st.integers(0, 15)) for _ in range(size)]) * math.pi / 8
    length = np.array([draw(st.sampled_from([0.0, 0.5, 1.0])) for _ in range(size)])
    found = np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :width] * length[:, None]
    given_weights = np.array([draw(st.integers(0, 10)) for _ in range(size)], dtype=float)
    return found, given_weights / max(given_weights.sum(), 10.0)


def worst(t: Array, base: tuple[Array, Array], user: tuple[Array, Array], ridge: float, push: Array) -> float:
    """The largest log ratio of the two densities, either way round."""
    both = np.concatenate([base[0], user[0]]), np.concatenate([base[1], user[1]])
    apart = log_density(t, *both, ridge, push) - log_density(t, *base, ridge, push)
    return float(np.abs(apart).max())


def several(width: int) -> tuple[Array, list[Array]]:
    draws = np.random.default_rng(width)
    points = draws.standard_normal((4000, width)) * 10 ** draws.uniform(-1, 1.3, (4000, 1))
    return points, [size * direction for size in (0.0, 3.0, 60.0) for direction in (np.eye(width)[0], -np.ones(width))]


@pytest.mark.parametrize("width", [1, 2])
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_user_moves_the_density_by_what_a_row_is_charged_for(width: int, data: st.DataObject) -> None:
    base, user = data.draw(owned(width)), data.draw(owned(width))
    points, pushes = several(width)
    for push in pushes:
        assert worst(points, base, user, BETA, push) <= 1 / BETA + 1e-9


def found_worst(ridge: float, weight: Array) -> float:
    """The worst over hand-made users: rows all alike, or crosswise, seen from where the noise helps most."""
    points, pushes = several(2)
    none = np.zeros((1, 2)), np.zeros(1)
    made = [np.array([[1.0, 0.0]] * 2), np.array([[0.6, 0.8], [0.6, -0.8]]), np.array([[1.0, 0.0], [0.0, 1.0]])]
    return max(worst(points, none, (rows, weight), ridge, push) for rows in made for push in pushes)


def test_the_price_is_reached_and_a_smaller_ridge_or_whole_rows_exceed_it() -> None:
    half = np.array([0.5, 0.5])
    assert 0.95 / BETA <= found_worst(BETA, half) <= 1 / BETA + 1e-9
    assert found_worst(BETA / 10, half) > 1.02 / BETA  # a twin whose ridge is below the scale
    assert found_worst(BETA, 2 * half) > 1.5 / BETA  # a twin in which every row counts


@pytest.mark.parametrize("width", [1, 2])
def test_the_densities_are_densities(width: int) -> None:
    points, cell = grid(width)
    user = np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]])[:, :width], np.array([0.25, 0.5, 0.25])
    total = float(np.exp(log_density(points, *user, 2.0, np.zeros(width))).sum() * cell)
    assert total == pytest.approx(1, abs=0.02 if width == 2 else 0.005)


def draws(unit: Unit) -> tuple[GaussianDraws, Terms]:
    terms = open_account(":memory:", "a", unit=unit, epsilon="50", delta="1e-6").terms
    return GaussianDraws(Goal("loss", 0.5, 0.9), 3, Crowd(unit)), terms


@pytest.mark.parametrize("shift", [100, 5000, 400_000, 4_000_000])
def test_a_level_for_users_has_their_price_and_costs_about_what_it_may(shift: int) -> None:
    made, terms = draws(users("who", neighbours="replace", n=1000))
    event = made.level((2 * shift) ** 2).event
    assert event.name == "objective_users"
    assert price(event, terms).amount == pytest.approx((2 * shift) ** 2, rel=0.1)
    made, _ = draws(rows(neighbours="replace", n=1000))
    assert made.level((2 * shift) ** 2).event.name == "objective"
