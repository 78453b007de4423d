"""The model that is tried for a target: what to expect behind noisy statistics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.models.accuracy._designs import Array, Noisy, Ridge
from steelyard.models.accuracy._posterior import expected_model
from steelyard.models.accuracy._schedule import guess

N, WIDTH, PENALTY = 50_000, 12, 0.002
RIDGE = Ridge(N, WIDTH, PENALTY)


def truth(seed: int, length: float) -> tuple[Array, Array]:
    """A mean of x x', its eigenvalues falling, and a model of this length."""
    draws = np.random.default_rng(seed)
    basis = np.linalg.qr(draws.standard_normal((WIDTH, WIDTH)))[0]
    values = np.exp(-0.5 * np.arange(WIDTH))
    model = draws.standard_normal(WIDTH)
    return (basis * values / values.sum()) @ basis.T, length * model / np.linalg.norm(model)


def released(mean: Array, model: Array, variance: float, seed: int) -> Noisy:
    """Sums over the rows, noised as a measurement noises them."""
    draws = np.random.default_rng(seed)
    square = draws.standard_normal((WIDTH, WIDTH))
    matrix = N * mean + RIDGE.floor * np.eye(WIDTH) + np.sqrt(variance) * (square + square.T) / 2
    return Noisy(matrix, N * mean @ model + np.sqrt(variance) * draws.standard_normal(WIDTH), variance, 1.0)


@pytest.mark.parametrize(("length", "most"), [(0.5, 0.75), (3.0, 1.05)])
@pytest.mark.parametrize("noise", [100.0, 300.0, 1000.0])
def test_it_is_nearer_to_a_short_model_than_a_penalized_one_and_as_near_to_a_long_one(
    length: float, most: float, noise: float
) -> None:
    off = {"expected": 0.0, "penalized": 0.0}
    for seed in range(20):
        mean, model = truth(seed, length)
        noisy = released(mean, model, noise**2, seed + 100)
        tried = {"expected": expected_model(RIDGE, noisy, 8.0), "penalized": guess(RIDGE, noisy, 8.0, noise**2).model}
        for name, found in tried.items():
            off[name] += float((found - model) @ mean @ (found - model))
    assert off["expected"] < most * off["penalized"]


def test_without_noise_it_is_the_least_squares_model_and_drowned_it_is_nearly_nothing() -> None:
    mean, model = truth(1, 2.0)
    sharp = expected_model(RIDGE, released(mean, model, 1e-12, 2), 8.0)
    assert np.allclose(sharp, model, atol=1e-6)
    lengths = [np.linalg.norm(expected_model(RIDGE, released(mean, model, 1e12, seed), 8.0)) for seed in range(20)]
    assert np.median(lengths) < 0.2


@given(st.integers(0, 1000), st.floats(0.1, 5), st.floats(10, 1e4))
def test_turning_the_features_turns_the_model(seed: int, length: float, noise: float) -> None:
    noisy = released(*truth(seed, length), noise**2, seed + 1)
    turn = np.linalg.qr(np.random.default_rng(seed + 2).standard_normal((WIDTH, WIDTH)))[0]
    turned = Noisy(turn @ noisy.matrix @ turn.T, turn @ noisy.vector, noisy.variance, noisy.weight)
    model = expected_model(RIDGE, noisy, 8.0)
    assert np.allclose(expected_model(RIDGE, turned, 8.0), turn @ model, atol=1e-6 * (1 + np.linalg.norm(model)))


@given(st.floats(1e-6, 1e6), st.floats(0, 1e9), st.floats(1e-9, 1e12))
def test_it_is_finite_and_in_the_ball_whatever_was_released(norm: float, scale: float, noise: float) -> None:
    draws = np.random.default_rng(3)
    square = scale * draws.standard_normal((WIDTH, WIDTH))
    noisy = Noisy(square + square.T, scale * draws.standard_normal(WIDTH), noise**2, 0.5)
    model = expected_model(RIDGE, noisy, norm)
    assert np.isfinite(model).all()
    assert np.linalg.norm(model) <= norm * (1 + 1e-9)
