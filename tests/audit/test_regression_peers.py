"""The audit finds two known flaws of regression packages, re-made here, and none in our own fits of the same rows."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.audit import Epsilon, certify
from steelyard.audit._sampling import Bound, Feature, Sampler
from steelyard.bounding._amounts import Spend
from steelyard.models._columns import SIZE
from steelyard.models._losses import Memory
from steelyard.models._objective import pure_objective
from steelyard.models._statistics import StatisticsRelease
from steelyard.noise import ExactNoise
from steelyard.privacy import MICRO, Neighbours

Array = NDArray[Any]
NORM = 100.0
SIZE_OF = Feature("the coefficient's size", np.abs)


def shown(sides: list[Sampler], samples: int) -> Bound:
    """What samples of two neighbours prove against a claim of epsilon 1."""
    left, right = sides
    return certify(left, right, Epsilon(1.0), samples=samples, look_at=(SIZE_OF,))


def forgetful_logistic(rows: int, squared: bool, size: int) -> Array:
    """Pure objective perturbation as published, for rows of length 100, with the norm squared or (the flaw) not."""
    epsilon, bend = 1.0, NORM**2 / 4 if squared else NORM / 4
    ridge = bend / (math.exp(epsilon / 4) - 1)
    linear = np.random.default_rng().laplace(0, 2 * NORM / (epsilon / 2), size)
    low, high = -(np.abs(linear) + 2 * NORM) / ridge, (np.abs(linear) + 2 * NORM) / ridge
    for _ in range(60):
        middle = (low + high) / 2
        slope = ridge * middle + linear - rows * NORM / (1 + np.exp(np.clip(NORM * middle, -700, 700)))
        low, high = np.where(slope > 0, low, middle), np.where(slope > 0, middle, high)
    return low


def our_logistic(rows: int, size: int) -> Array:
    """Our own fit, through the certified solver and both noises."""
    fit, noise, data = pure_objective(1, MICRO), ExactNoise(), Memory(np.full((rows, 1), float(SIZE)))
    return np.array([fit.solve(data, noise)[0] for _ in range(size)])


def test_a_norm_that_is_not_squared_is_found() -> None:
    sides: list[Sampler] = [partial(forgetful_logistic, rows, False) for rows in (0, 1)]
    assert shown(sides, 60_000).shown > 1.5


def test_the_published_calibration_is_clean() -> None:
    sides: list[Sampler] = [partial(forgetful_logistic, rows, True) for rows in (0, 1)]
    assert not shown(sides, 60_000).broken


def test_our_logistic_fit_is_clean() -> None:
    sides: list[Sampler] = [partial(our_logistic, rows) for rows in (0, 1)]
    assert not shown(sides, 3000).broken


def boundless_linear(rows: int, upper_counts: bool, size: int) -> Array:
    """The noisy sum of squares of values in [0, 1], in thousandths; the flaw takes the lower bound for both."""
    bound = 1.0 if upper_counts else 0.0
    return np.asarray(1000 * rows + np.rint(np.random.default_rng().laplace(0, 1000, size) * bound))


def test_a_sensitivity_that_forgets_the_upper_bound_is_found() -> None:
    sides: list[Sampler] = [partial(boundless_linear, rows, False) for rows in (3, 4)]
    assert shown(sides, 20_000).broken


def test_the_same_sum_with_both_bounds_is_clean() -> None:
    sides: list[Sampler] = [partial(boundless_linear, rows, True) for rows in (3, 4)]
    assert not shown(sides, 20_000).broken


def our_diagonal(rows: int, size: int) -> Array:
    """The released sum of squares of our own least squares, for rows of full length."""
    statistics, noise = StatisticsRelease(1, Spend(False, MICRO), Neighbours.ADD_REMOVE), ExactNoise()
    gram, moment = np.array([[rows * SIZE**2]], dtype=object), np.array([0], dtype=object)
    return np.array([float(statistics.release(gram, moment, noise).matrix[0, 0]) for _ in range(size)])


def test_our_linear_fit_is_clean() -> None:
    sides: list[Sampler] = [partial(our_diagonal, rows) for rows in (3, 4)]
    assert not shown(sides, 4000).broken
