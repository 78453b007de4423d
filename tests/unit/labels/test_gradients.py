"""What noisy labels do to a gradient: bias and variance, against many draws."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InvalidTask
from steelyard.labels import gradient_error, solve_unbiased
from steelyard.labels._baselines import AddedNoise
from steelyard.labels._bins import response_on_bins
from steelyard.labels._sampler import sampler_of
from steelyard.noise import TestNoise

PRIOR = [6, 1, 1, 1, 1]
Y = np.array([0.0, 0.0, 1.25, 2.0, 3.5, 4.0, 0.0, 0.75])
X = np.column_stack([np.ones(8), np.linspace(-1, 1, 8)])


@pytest.mark.parametrize("kind", ["unbiased", "absolute", "bins", "laplace", "coarse", "staircase", "discrete_laplace"])
def test_bias_and_variance_are_those_of_many_draws(kind: str) -> None:
    makers: dict[str, Callable[[], Any]] = {
        "unbiased": lambda: solve_unbiased(range(5), PRIOR, 2).mechanism,
        "absolute": lambda: solve_unbiased(range(5), PRIOR, 2, loss="absolute").mechanism,
        "bins": lambda: response_on_bins(range(5), PRIOR, 2),
        "laplace": lambda: AddedNoise.of(tuple(Fraction(y) for y in range(5)), Fraction(2), "laplace"),
        # two nodes: labels lie between them, where a coin would throw them wide and noise on finer steps does not
        "coarse": lambda: AddedNoise.of((Fraction(0), Fraction(4)), Fraction(8), "laplace"),
        "staircase": lambda: AddedNoise.of((Fraction(0), Fraction(4)), Fraction(8), "staircase"),
        "discrete_laplace": lambda: AddedNoise.of((Fraction(0), Fraction(4)), Fraction(8), "discrete_laplace"),
    }
    mechanism = makers[kind]()
    found, draws = gradient_error(mechanism, Y, X), 20_000
    noisy = sampler_of(mechanism, None).noisy(np.tile(Y, draws), TestNoise(3)).reshape(draws, -1)
    errors = -(noisy - Y) @ X / len(Y)
    spread = np.sqrt(found.variance / draws)
    assert np.abs(errors.mean(axis=0) - found.bias).max() < 6 * spread
    assert errors.var(axis=0).sum() == pytest.approx(found.variance, rel=0.05)
    assert (found.squared_bias < 1e-18) == (kind != "bins")


def test_with_more_records_variance_falls_and_bias_stays() -> None:
    mechanism = response_on_bins(range(5), PRIOR, 1)
    few, many = gradient_error(mechanism, Y, X), gradient_error(mechanism, np.tile(Y, 10), np.tile(X, (10, 1)))
    assert many.variance == pytest.approx(few.variance / 10)
    assert many.bias == pytest.approx(few.bias)


@pytest.mark.parametrize(("labels", "slopes"), [([], []), ([1.0], [1.0]), ([np.nan], [[1.0]]), ([1.0, 2.0], [[1.0]])])
def test_labels_and_slopes_must_fit(labels: list[float], slopes: list[float]) -> None:
    with pytest.raises(InvalidTask, match="one row of slopes"):
        gradient_error(response_on_bins(range(5), PRIOR, 1), labels, slopes)
