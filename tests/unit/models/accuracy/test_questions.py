"""A look at a mean squared error: its range, its rounding, and a search that stops paying when no look is left."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from off_ledger import OffLedger, ridge_judge, search
from steelyard.models._columns import SIZE
from steelyard.models.accuracy import _looks as looks
from steelyard.models.accuracy._designs import MODEL_BITS, in_ball
from steelyard.models.accuracy._family import LOSS_BITS
from steelyard.models.accuracy._goal import IMPOSSIBLE, MET, NULL, Goal
from steelyard.models.accuracy._losses import ClippedLoss
from steelyard.models.accuracy._search import run
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO
from unit.models.accuracy.made_up import Array, Data, generated, whole

models = st.lists(st.floats(-1.5, 1.5), min_size=3, max_size=3)
labelled = st.tuples(st.lists(st.floats(-1, 1), min_size=3, max_size=3), st.floats(-1, 1))


def look(model: list[float]) -> ClippedLoss:
    return ClippedLoss(in_ball(np.array(model), 9.0), 0.5)


def one(row: tuple[list[float], float]) -> Data:
    x = np.array([row[0]]) / max(1.0, float(np.linalg.norm(row[0])))
    return Data((whole(x), np.rint(np.array([row[1]]) * SIZE)))


@settings(max_examples=150)
@given(models, labelled, labelled)
def test_a_replaced_row_moves_the_sum_by_the_models_own_range_at_most(
    model: list[float], row: tuple[list[float], float], other: tuple[list[float], float]
) -> None:
    ask = look(model)
    assert abs(ask.value(one(row)) - ask.value(one(other))) <= ask.moves
    length = min(1.0, float(np.linalg.norm(model)))
    assert ask.moves <= (1 + length) ** 2 * 2**LOSS_BITS + 8


def test_a_range_that_forgets_the_prediction_is_caught() -> None:
    ask = look([0.5, 0.0, 0.0])
    near, far = one(([1.0, 0.0, 0.0], 0.5)), one(([-1.0, 0.0, 0.0], 1.0))
    assert abs(ask.value(near) - ask.value(far)) > 1 << LOSS_BITS


@settings(max_examples=100)
@given(models, labelled)
def test_rounding_hides_no_more_than_the_limit_allows(model: list[float], row: tuple[list[float], float]) -> None:
    ask, data = look(model), one(row)
    x, y = (part / SIZE for part in data.rows)
    weights: Array = np.array(ask.model) / 2.0**MODEL_BITS
    true = float((y[0] - np.clip(x[0] @ weights, -1, 1)) ** 2)
    assert ask.value(data) <= ask.limit() or true > 0.5 - 1e-4
    assert true * 2**LOSS_BITS - ask.losses(data) <= 0.5 * 2**LOSS_BITS - ask.allowed


class Forgetful(ClippedLoss):
    """The twin: it takes the grid for the features themselves."""

    @property
    def allowed(self) -> int:
        return math.floor(self.target * (1 << LOSS_BITS))


def kept(kind: type[ClippedLoss], seed: int) -> bool:
    """Whether the least target that passes is above the true loss: features a step above the grid, predictions above their labels."""
    draws = np.random.default_rng(seed)
    model = in_ball(np.abs(draws.standard_normal(24)) * draws.choice([0.1, 1.0]), 9.0)
    weights: Array = np.array(model) / 2.0**MODEL_BITS
    x = (draws.integers(0, SIZE // 8, (400, 24)) + 1 - 1e-6) / SIZE
    y = np.clip(x @ weights, -1, 1) - draws.choice([0.001, 0.02, 0.3])
    data, low, high = Data((whole(x), np.rint(y * SIZE))), 0.0, 4.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (low, middle) if kind(model, middle).value(data) <= 0 else (middle, high)
    return bool(np.mean((y - np.clip(x @ weights, -1, 1)) ** 2) <= high)


def test_what_the_grid_hides_from_errors_does_not_break_a_promise() -> None:
    assert all(kept(ClippedLoss, seed) for seed in range(30))
    assert not any(kept(Forgetful, seed) for seed in range(30))


def test_a_small_target_is_not_eaten_up_by_rounding() -> None:
    """An error of at most two would hide forty times as much of a target of a five-hundredth."""
    wide = ClippedLoss(in_ball(np.full(24, 0.9), 9.0), 0.002)
    assert 0.99 < wide.allowed / 2**LOSS_BITS / 0.002 < 1


def test_a_search_without_a_look_left_stops_paying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "SHARES", (0.5, 0.3, 0.2))
    goal = Goal("loss", 0.06, 0.9, "every")
    found = search(generated(4000, 3, 5, noise=0.3), goal, 4000, 3, 0.01, TestNoise(1))
    assert found.reason == IMPOSSIBLE
    assert found.looks == 3
    assert found.judge.family.levels == 3


@pytest.mark.parametrize("alpha", [0.004, 0.008, 0.016])
def test_no_look_is_dearer_than_the_free_certificate_it_would_spare(alpha: float) -> None:
    x, y = generated(50_000, 40, 8).rows
    data, goal = Data((x, np.rint(0.2 * y))), Goal("excess", alpha, 0.9)
    for seed in range(4):
        found = search(data, goal, 50_000, 40, 0.04, TestNoise(seed))
        free = [stop.micro for stop in found.judge.family.stops if stop.failure]
        size = found.judge.family.sizes.told[0][0]
        assert found.reason in (MET, NULL)
        assert round(found.spent * MICRO**2) <= size + (free[-1] if free else 0) ** 2


def test_a_search_uses_one_thread_of_blas_and_gives_the_others_back() -> None:
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped, unused-ignore]

    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    seen, before = list[list[int]](), threads()
    judge = ridge_judge(Goal("excess", 0.05, 0.9), 4000, 3, 0.04)
    steps: Any = OffLedger(generated(4000, 3, 5), 4000, TestNoise(1))
    run(judge, steps, lambda _: seen.append(threads()))
    assert seen
    assert all(count == 1 for counts in seen for count in counts)
    assert threads() == before
