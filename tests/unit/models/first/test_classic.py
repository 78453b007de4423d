"""The methods of 2017: their noise has the law they need, and they find what they look for, dearly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from steelyard.models.first import classic

DRAWS = np.random.default_rng(4)
X = DRAWS.uniform(-1, 1, (4000, 3)) / 3
Y = np.clip(X @ [1.0, -1.0, 0.5], -1, 1)


def test_a_walk_has_laplace_noise_of_its_scale_at_every_level() -> None:
    scales = np.array([9.0, 4.0, 1.0])
    noise = classic.walk(scales, 20_000, DRAWS)
    for row, scale in zip(noise, scales, strict=True):
        assert stats.kstest(row, stats.laplace(scale=scale).cdf).pvalue > 1e-4
    assert np.mean(noise[0] == noise[1]) == pytest.approx((4 / 9) ** 2, abs=0.02)


def test_a_walk_with_fresh_noise_at_every_level_is_caught() -> None:
    fresh = DRAWS.laplace(scale=np.array([[9.0], [4.0]]), size=(2, 20_000))
    assert np.mean(fresh[0] == fresh[1]) < 0.01


@pytest.mark.parametrize("published", [True, False])
def test_both_searches_find_a_model_within_the_excess(published: bool) -> None:
    problem = classic.ridge(X, Y, 0.01, 0.02, published=published)
    for _ in range(5):
        found = classic.noise_reduction(problem, 0.02, 0.1, DRAWS, 200)
        assert found.excess <= 0.02
        assert found.check < found.epsilon
    assert classic.doubling(problem, 0.02, 0.1, DRAWS).epsilon > found.check


def test_the_papers_sensitivity_of_an_excess_can_be_exceeded() -> None:
    penalty = 0.005
    long = 1 / np.sqrt(penalty)
    published = 0.5 * (long + 1) ** 2
    theta, best = np.array([long, 0.0]), np.array([0.0, long / 2])
    x, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    one, two = (0.5 * ((-1 - z @ theta) ** 2 - (-1 - z @ best) ** 2) for z in (x, other))
    assert one - two > published * 1.1
    assert classic.ridge(X, Y, penalty, 0.1, published=False).moves * len(Y) == pytest.approx((long / 2 + 1) ** 2)
