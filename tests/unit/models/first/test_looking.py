"""Looks at one model, averaged: what they cost is fixed beforehand, and each passes wrongly as rarely as it may."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.bounding.amounts import sigma_for
from steelyard.models.first.looking import FIRST, LEAST, MOST, SHARES, Series
from steelyard.privacy import MICRO

MOVES, PAID = 1 << 20, (20_000) ** 2
SIGMA = MOVES * MICRO / math.isqrt(PAID)


def walk(loss: float, limit: float, failures: list[float], draws: np.random.Generator) -> tuple[bool, int]:
    """Look until a look passes or the model has had its turn; what was spent."""
    tried: list[tuple[int, int]] = []
    while (found := Series(MOVES, limit, PAID, tried, failures).next()) is not None:
        cost, most = found
        answer = round(loss + float(sigma_for(MOVES**2, cost)) * draws.standard_normal())
        tried.append((cost, answer))
        if answer <= most:
            return True, sum(cost for cost, _ in tried)
    return False, sum(cost for cost, _ in tried)


@settings(max_examples=60)
@given(st.lists(st.integers(-(10**9), 10**9), max_size=8), st.integers(10**8, 10**12))
def test_what_a_look_costs_does_not_depend_on_what_looks_said(answers: list[int], paid: int) -> None:
    """The averages are normal only if their weights were fixed before the first answer."""
    costs: list[int] = []
    for answer in answers:
        found = Series(MOVES, 1e15, paid, [*zip(costs, answers, strict=False)], [0.01] * 10).next()
        if found is None:
            break
        costs.append(found[0])
        other = Series(MOVES, 1e15, paid, [(cost, -answer) for cost in costs[:-1]], [0.01] * 10).next()
        assert other is None or other[0] == costs[-1]
    assert math.isqrt(sum(costs)) <= math.ceil(MOST * math.isqrt(paid))


@pytest.mark.parametrize(("limit", "first"), [(1e15, LEAST), (20 * SIGMA, FIRST)])
def test_the_first_look_is_cheap_and_the_last_average_as_sharp_as_it_may_be(limit: float, first: float) -> None:
    costs: list[int] = []
    while (found := Series(MOVES, limit, PAID, [(cost, 0) for cost in costs], [0.01] * 60).next()) is not None:
        costs.append(found[0])
    assert costs[0] == math.ceil(first * math.isqrt(PAID)) ** 2
    assert MOST / 1.25 < math.isqrt(sum(costs)) / math.isqrt(PAID) <= MOST


def wrong(failures: list[float], runs: int = 4000) -> float:
    """How often a model whose loss is just above the limit passes."""
    draws = np.random.default_rng(7)
    limit = 40 * SIGMA
    return sum(walk(limit + 1, limit, failures, draws)[0] for _ in range(runs)) / runs


def test_a_model_above_the_target_passes_as_rarely_as_it_may() -> None:
    failures = [0.05] * 6
    assert wrong(failures) <= sum(failures)
    assert wrong([0.02, *[1e-9] * 9]) <= 0.02 + 4 * math.sqrt(0.02 / 4000)


def test_averages_of_another_weight_than_their_spread_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin takes the noise of an average for that of the path itself."""
    monkeypatch.setattr(Series, "_sigma", lambda self, cost: 0.2 * float(sigma_for(self.moves**2, cost)))
    assert wrong([0.02, *[1e-9] * 9]) > 0.02 + 4 * math.sqrt(0.02 / 4000)


def test_a_good_model_passes_and_a_bad_one_is_left_early() -> None:
    draws, limit, failures = np.random.default_rng(1), 40 * SIGMA, [0.1 * share for share in SHARES]
    good = [walk(limit - 5 * SIGMA, limit, failures, draws) for _ in range(100)]
    bad = [walk(limit + 20 * SIGMA, limit, failures, draws) for _ in range(100)]
    assert sum(passed for passed, _ in good) > 90
    assert max(spent for _, spent in bad) == math.ceil(FIRST * math.isqrt(PAID)) ** 2


def test_no_look_is_made_that_even_a_perfect_model_would_fail() -> None:
    assert Series(MOVES, SIGMA, PAID, [], [0.01] * 5).next() is None
