"""The free certificate: true on its event, wrong no more often than it says; with too little noise assumed it is caught."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from steelyard.models.accuracy._certificate import certify, shortest
from steelyard.models.accuracy._designs import Noisy, Ridge
from unit.models.accuracy.made_up import Array, Data, generated

RIDGE = Ridge(400, 5, 0.02)


def noised(data: Data, variance: float, weight: float, draws: np.random.Generator) -> Noisy:
    matrix, best = data.solve(RIDGE.penalty)
    square = draws.standard_normal(matrix.shape)
    noise = (square + square.T) / 2
    vector = matrix @ best + math.sqrt(variance / weight) * draws.standard_normal(len(best))
    return Noisy(matrix + math.sqrt(variance) * noise, vector, variance, weight)


def violations(failure: float, variance: float, claimed: float, runs: int = 400) -> tuple[float, float]:
    """How often the bound is broken, and how loose it is in the middle."""
    draws = np.random.default_rng(5)
    broken, ratios = 0, []
    for run in range(runs):
        data = generated(RIDGE.n, RIDGE.width, run % 20, decay=0.5)
        noisy = replace(noised(data, variance, 0.5, draws), variance=claimed)
        norm = float(np.linalg.norm(data.solve(RIDGE.penalty)[1])) * 1.05
        found = certify(RIDGE, noisy, norm, failure)
        true = data.excess(found.model, RIDGE.penalty)
        broken += true > found.excess
        ratios.append(found.excess / max(true, 1e-12))
    return broken / runs, float(np.median(ratios))


@pytest.mark.parametrize("variance", [0.02, 0.4, 4.0])
def test_the_bound_fails_no_more_often_than_it_may_even_where_it_may_often(variance: float) -> None:
    rate, loose = violations(0.5, variance, variance)
    assert rate <= 0.5
    assert loose < 40


def test_a_certificate_that_assumes_too_little_noise_is_caught() -> None:
    rate, _ = violations(0.05, 0.4, 0.4 / 16)
    assert rate > 0.2


def test_an_indefinite_or_singular_matrix_is_no_accident() -> None:
    matrix: Array = np.diag([50.0, -3.0, 0.0, 20.0, 9.0])
    found = certify(RIDGE, Noisy(matrix, np.ones(5), 1.0, 0.5), 2.0, 0.1)
    assert math.isfinite(found.excess)
    assert np.isfinite(found.model).all()


def test_the_dual_bound_on_the_best_models_length_holds() -> None:
    draws = np.random.default_rng(3)
    for _ in range(200):
        values, best = draws.uniform(0.5, 3, 4), draws.standard_normal(4)
        miss = draws.standard_normal(4) * 0.3
        seen = values * best + miss
        assert shortest(values, seen, float(miss @ miss)) >= np.linalg.norm(best)
