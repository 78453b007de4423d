"""Looks at one model, averaged: what they cost is fixed beforehand, and each passes wrongly as rarely as it may."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.mechanisms import sigma_for
from steelyard.models.accuracy import _looks as looking
from steelyard.models.accuracy._looks import FIRST, LEAST, MOST, SHARES, Series
from steelyard.models.accuracy._quantiles import joint_quantile, normal_quantile
from steelyard.privacy import MICRO

MOVES, PAID = 1 << 20, (20_000) ** 2
SIGMA = MOVES * MICRO / math.isqrt(PAID)


def walk(loss: float, limit: float, failure: float, draws: np.random.Generator, paid: int = PAID) -> tuple[bool, int]:
    """Look until a look passes or the model has had its turn; what was spent."""
    tried: list[tuple[int, int]] = []
    while (found := Series(MOVES, limit, paid, tried, failure).next()) is not None:
        cost, most = found
        answer = round(loss + float(sigma_for(MOVES**2, cost)) * draws.standard_normal())
        tried.append((cost, answer))
        if answer <= most:
            return True, sum(cost for cost, _ in tried)
    return False, sum(cost for cost, _ in tried)


@settings(max_examples=60)
@given(st.lists(st.integers(-(10**9), 10**9), max_size=8), st.integers(0, 10**12))
def test_what_a_look_costs_does_not_depend_on_what_looks_said(answers: list[int], paid: int) -> None:
    """The averages have a known law only if their weights were fixed before the first answer; and none is free."""
    costs: list[int] = []
    for answer in answers:
        found = Series(MOVES, 1e15, paid, [*zip(costs, answers, strict=False)], 0.01).next()
        if found is None:
            break
        costs.append(found[0])
        other = Series(MOVES, 1e15, paid, [(cost, -answer) for cost in costs[:-1]], 0.01).next()
        assert other is None or other[0] == costs[-1]
    assert all(cost > 0 for cost in costs)
    assert math.isqrt(sum(costs)) <= max(math.ceil(MOST * math.isqrt(paid)), len(costs))


@pytest.mark.parametrize(("limit", "first"), [(1e15, LEAST), (20 * SIGMA, FIRST)])
def test_the_first_look_is_cheap_and_the_last_average_as_sharp_as_it_may_be(limit: float, first: float) -> None:
    costs: list[int] = []
    while (found := Series(MOVES, limit, PAID, [(cost, 0) for cost in costs], 0.01).next()) is not None:
        costs.append(found[0])
    assert costs[0] == math.ceil(first * math.isqrt(PAID)) ** 2
    assert MOST / 1.25 < math.isqrt(sum(costs)) / math.isqrt(PAID) <= MOST


def test_looks_that_were_planned_otherwise_end_the_series() -> None:
    cost, _ = Series(MOVES, 1e15, PAID, [], 0.01).next() or (0, 0)
    assert Series(MOVES, 1e15, PAID, [(cost, 0)], 0.01).next() is not None
    assert Series(MOVES, 1e15, PAID, [(cost + 1, 0)], 0.01).next() is None


def wrong(failure: float, models: int = 1, runs: int = 4000) -> float:
    """How often one of several models whose losses are just above the limit passes, as a path meets them."""
    draws, limit = np.random.default_rng(7), 60 * SIGMA
    shares = [failure] if models == 1 else [failure * share for share in SHARES[:models]]
    paid = [math.isqrt(PAID * round(1.69**k * 1000) // 1000) ** 2 for k in range(models)]
    tries = ([walk(limit + 1, limit, f, draws, p)[0] for f, p in zip(shares, paid, strict=True)] for _ in range(runs))
    return sum(any(each) for each in tries) / runs


def test_a_model_above_the_target_passes_as_rarely_as_it_may() -> None:
    assert wrong(0.1) <= 0.1 + 3 * math.sqrt(0.1 / 4000)
    assert wrong(0.02) <= 0.02 + 3 * math.sqrt(0.02 / 4000)


def test_a_whole_path_of_models_above_the_target_keeps_to_its_failure_probability() -> None:
    assert wrong(0.2, models=12, runs=600) <= 0.2 + 3 * math.sqrt(0.2 / 600)


def test_quantiles_of_single_looks_are_caught_where_there_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin gives every look at a model the failure probability of all of them."""
    monkeypatch.setattr(looking, "joint_quantile", lambda failure, *_: normal_quantile(failure))
    assert wrong(0.1) > 0.1 + 3 * math.sqrt(0.1 / 4000)
    assert wrong(0.2, models=12, runs=600) > 0.2 + 3 * math.sqrt(0.2 / 600)


def test_averages_taken_for_less_noisy_than_they_are_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "_sigma", lambda moves, cost: 0.2 * float(sigma_for(moves**2, cost)))
    assert wrong(0.02) > 0.02 + 3 * math.sqrt(0.02 / 4000)


def test_a_good_model_passes_and_a_bad_one_is_left_early() -> None:
    draws, limit = np.random.default_rng(1), 60 * SIGMA
    good = [walk(limit - 5 * SIGMA, limit, 0.1 * SHARES[0], draws) for _ in range(100)]
    bad = [walk(limit + 30 * SIGMA, limit, 0.1 * SHARES[0], draws) for _ in range(100)]
    assert sum(passed for passed, _ in good) > 90
    assert max(spent for _, spent in bad) == math.ceil(FIRST * math.isqrt(PAID)) ** 2


def test_no_look_is_made_that_even_a_perfect_model_would_fail() -> None:
    assert Series(MOVES, SIGMA, PAID, [], 0.01).next() is None


def test_the_shares_of_the_models_are_one_at_most() -> None:
    assert math.fsum(SHARES) <= 1


@pytest.mark.parametrize("failure", [0.2, 0.01, 1e-5])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_joint_quantile_lies_between_one_variable_and_as_many_independent_ones(failure: float, count: int) -> None:
    found = joint_quantile(failure, *[0.8] * (count - 1))
    assert normal_quantile(failure) * (1 - 1e-6) <= found <= normal_quantile(failure / count) * (1 + 1e-6)
    draws = np.random.default_rng(3)
    row = draws.standard_normal((20_000, count))
    for k in range(1, count):
        row[:, k] = 0.8 * row[:, k - 1] + 0.6 * row[:, k]
    assert np.mean(row.max(axis=1) > found) <= failure + 4 * math.sqrt(failure / 20_000)


@given(st.integers(1, 2**60), st.integers(1, 10**18))
def test_a_look_is_planned_with_no_less_noise_than_it_has(moves: int, cost: int) -> None:
    drawn = float(sigma_for(moves**2, cost))
    assert drawn <= looking._sigma(moves, cost) * (1 + 1e-12)
    assert looking._sigma(moves, cost) <= drawn * (1 + 2e-7)
