"""The methods of 2017: their noise has the law they need, and they find what they look for, dearly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize

from papers import noise_reduction as classic
from papers.noise_reduction import log_loss

Array = NDArray[np.float64]

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


def passed(levels: int, gap: float, runs: int = 4000) -> float:
    """How often one of so many hopeless models passes, each beyond the threshold by this many units of noise."""
    bar = DRAWS.laplace(scale=2.0, size=(runs, 1))
    return float(np.mean((DRAWS.laplace(scale=4.0, size=(runs, levels)) - bar > gap).any(axis=1)))


@pytest.mark.parametrize("levels", [10, 100])
def test_a_tuned_watch_lets_no_more_models_pass_than_it_may(levels: int) -> None:
    gap = classic.one_sided(levels, 0.1)
    assert passed(levels, gap) == pytest.approx(0.1, abs=0.025)
    assert passed(levels, gap / 2) > 0.3  # the twin: a threshold set for noise of half the size


def test_a_tuned_walk_is_cheaper_and_finds_a_model_within_the_excess() -> None:
    problem = classic.ridge(X, Y, 0.01, 0.02, published=False)
    made = [classic.ridge(x, y, 0.01, 0.02, published=False) for x, y in classic.made_up(4000, 3, 1.0)]
    found = classic.tuned(problem, made, 0.02, 0.1, 15)
    plain = [classic.noise_reduction(problem, 0.02, 0.1, DRAWS, 30).epsilon for _ in range(15)]
    assert found.missed <= 3
    assert found.median < 0.9 * float(np.median(plain))


def test_the_published_sensitivity_of_an_excess_can_be_exceeded() -> None:
    penalty = 0.005
    long = 1 / np.sqrt(penalty)
    published = 0.5 * (long + 1) ** 2
    theta, best = np.array([long, 0.0]), np.array([0.0, long / 2])
    x, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    one, two = (0.5 * ((-1 - z @ theta) ** 2 - (-1 - z @ best) ** 2) for z in (x, other))
    assert one - two > published * 1.1
    assert classic.ridge(X, Y, penalty, 0.1, published=False).moves * len(Y) == pytest.approx((long / 2 + 1) ** 2)


def replaced(loss: Callable[[Array, Array], Array], models: Array, found: Array) -> float:
    """The most that two of these rows let the difference of two models' losses vary."""
    gaps = loss(models[0], found) - loss(models[1], found)
    return float(gaps.max() - gaps.min())


def log_losses(model: Array, signed: Array) -> Array:
    return np.logaddexp(0, -signed @ model)


def squares(model: Array, labelled: Array) -> Array:
    return 0.5 * (labelled[:, 2] - labelled[:, :2] @ model) ** 2


def test_the_sensitivities_that_hold_are_not_exceeded_and_nearly_attained() -> None:
    penalty, n, seen = 0.005, 1000, [0.0, 0.0]
    binary = classic.logistic(np.zeros(2), lambda _: 0.0, n, penalty, 0.1, published=False)
    linear = classic.ridge(X, Y, penalty, 0.1, published=False)
    far = np.full(2, 1e6)
    for _ in range(3000):
        unit = DRAWS.standard_normal((62, 2))
        unit /= np.linalg.norm(unit, axis=1)[:, None]
        v, labels = unit[2:], DRAWS.choice([-1.0, 1.0], size=(60, 1))
        length = float(np.linalg.norm(binary.model(far)))
        seen[0] = max(seen[0], replaced(log_losses, unit[:2] * length, v))
        seen[1] = max(seen[1], replaced(squares, unit[:2] * 0.5 / math.sqrt(penalty), np.hstack([v, labels])))
    assert 0.98 * binary.moves * n < seen[0] <= binary.moves * n * (1 + 1e-12)
    assert 0.97 * linear.moves * len(Y) < seen[1] <= linear.moves * len(Y) * (1 + 1e-12)
    assert binary.moves < classic.logistic(np.zeros(2), lambda _: 0.0, n, penalty, 0.1).moves


def test_the_papers_sensitivity_of_a_logistic_excess_can_be_exceeded_too() -> None:
    published, held = (classic.logistic(np.zeros(1), lambda _: 0.0, 1, 0.005, 0.1, published=p) for p in (True, False))
    model, best, ends = published.model(np.array([1e6])), held.model(np.array([-1e6])), np.array([[1.0], [-1.0]])
    assert replaced(log_losses, np.array([model, best]), ends) > 1.3 * published.moves
    assert replaced(log_losses, np.array([-best, best]), ends) == pytest.approx(held.moves)


def test_models_that_are_hopeless_are_skipped_and_nothing_else_changes() -> None:
    signed, penalty = X * np.sign(Y)[:, None], 0.01
    best = np.asarray(minimize(log_loss, np.zeros(3), (signed, penalty), tol=1e-12).x)
    asked = []

    def risk(model: Array) -> float:
        asked.append(model)
        return log_loss(model, signed, penalty)

    quick = classic.logistic(best, risk, len(Y), penalty, 0.01, published=False)
    slow = replace(quick, no_less=lambda _: -math.inf)
    for seed in range(3):
        counts, found = [], []
        for problem in (quick, slow):
            asked.clear()
            found.append(classic.noise_reduction(problem, 0.01, 0.1, np.random.default_rng(seed), 100))
            counts.append(len(asked))
        assert found[0] == found[1]
        assert counts[0] < counts[1]
    for _ in range(50):
        model = quick.model(DRAWS.standard_normal(3) * 10)
        assert quick.no_less(model) <= quick.excess(model)
