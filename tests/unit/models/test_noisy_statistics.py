"""Solving noisy statistics: never wild, dull where the signal is weak, and from the release alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.bounding._amounts import Spend
from steelyard.models._columns import Floats
from steelyard.models._rows import Rows
from steelyard.models._statistics import NoisyStatistics, StatisticsRelease
from steelyard.noise import TestNoise

ROOT = np.sqrt(0.5)


def rows(n: int, columns: int, *, wide: float, centre: float = 0.0) -> tuple[Floats, Floats]:
    """Rows (x, 1) of length at most one, and labels that x explains; ``wide`` says how generous the label's bounds are."""
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (n, columns)) / np.sqrt(columns)
    weights = random.normal(size=columns)
    label = x @ (weights / np.linalg.norm(weights)) * np.sqrt(columns) / (1.8 * wide) + centre
    return np.column_stack([x, np.ones(n)]) * ROOT, np.clip(label, -1, 1)


def draw(z: Floats, y: Floats, deviation: float, seed: int) -> NoisyStatistics:
    random = np.random.default_rng(seed)
    width = z.shape[1]
    noise = np.triu(random.normal(size=(width, width)), 1) / np.sqrt(2)
    noise = (noise + noise.T + np.diag(random.normal(size=width))) * deviation
    vector = z.T @ y + random.normal(size=width) * deviation
    return NoisyStatistics(z.T @ z + noise, vector, deviation, deviation / np.sqrt(2), deviation)


def quality(theta: Floats, z: Floats, y: Floats) -> float:
    return float(1 - np.mean((y - np.clip(z @ theta, -1, 1)) ** 2) / np.var(y))


def floor_alone(noisy: NoisyStatistics) -> Floats:
    """What is left of the rule when signals are not shrunk and the middle is the anchor: its broken twin."""
    values, axes = np.linalg.eigh(noisy.matrix)
    return np.asarray(axes @ ((axes.T @ noisy.vector) / np.maximum(values, noisy.floor)))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1e-9, 1.0, 1e6]), st.booleans(), st.integers(1, 8))
def test_any_release_gives_finite_coefficients_and_no_divisor_below_the_floor(
    seed: int, size: float, intercept: bool, width: int
) -> None:
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(width, width)) * size
    noisy = NoisyStatistics(matrix + matrix.T, random.normal(size=width) * size, 2.0, 1.4, 2.0)
    theta, held = noisy.solve(intercept)
    assert np.isfinite(theta).all()
    assert (held >= noisy.floor * (1 - 1e-12)).all()
    assert noisy.excess(theta, held) >= 0
    assert 0 <= noisy.floored <= width


def test_where_the_noise_is_small_the_solution_is_least_squares() -> None:
    z, y = rows(20_000, 4, wide=1, centre=0.3)
    theta, _ = draw(z, y, 0.01, 1).solve()
    assert theta == pytest.approx(np.linalg.lstsq(z, y, rcond=None)[0], abs=1e-3)


def test_a_label_with_generous_bounds_off_their_centre_is_not_made_wild_and_the_floor_alone_would_make_it_so() -> None:
    z, y = rows(9_000, 4, wide=8, centre=0.8)
    found = [draw(z, y, 98, seed) for seed in range(60)]
    kept = [quality(noisy.solve()[0], z, y) for noisy in found]
    twin = [quality(floor_alone(noisy), z, y) for noisy in found]
    assert np.mean(kept) > np.mean(twin) + 0.2
    assert min(kept) > 0.6 * min(twin)
    assert np.quantile(twin, 0.05) < -1


def test_a_model_that_heard_nothing_predicts_the_mean_and_not_the_middle() -> None:
    z, y = rows(40_000, 4, wide=200, centre=0.7)
    theta, _ = draw(z, y, 30, 3).solve()
    assert np.mean(z @ theta) == pytest.approx(0.7, abs=0.01)
    assert np.std(z @ theta) < 0.01


def test_an_empty_table_gives_a_model_and_its_release_has_no_other_input() -> None:
    empty = Rows(np.empty((0, 4)), np.empty(0), None)
    noisy = StatisticsRelease(4, Spend(True, 10_000)).release(*empty.products(), TestNoise(2))
    theta, held = noisy.solve()
    again = NoisyStatistics(noisy.matrix, noisy.vector, noisy.on_diagonal, noisy.above, noisy.on_label)
    assert again.solve()[0].tolist() == theta.tolist()
    assert noisy.excess(theta, held) > 0
