"""The look at the root of the excess: one row moves it as little as is proved, and the number noised is the true one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from steelyard.models._columns import SIZE
from steelyard.models.accuracy._certificate import STEPS, RootExcess
from steelyard.models.accuracy._designs import Ridge, in_ball
from unit.models.accuracy.made_up import Array, Data, whole

RIDGE = Ridge(3000, 3, 0.05)
BALL = 0.5 / math.sqrt(RIDGE.penalty)


def ask(model: Array, alpha: float = 0.02, ball: float = BALL) -> RootExcess:
    return RootExcess(RIDGE, in_ball(model, ball), Fraction(ball), alpha)


def nasty(seed: int) -> tuple[Data, Data, Array]:
    """Neighbours that differ in one extreme row, nearly nothing else curving the risk, and a model off the best."""
    draws = np.random.default_rng(seed)
    x, y = np.zeros((RIDGE.n, 3)), np.zeros(RIDGE.n)
    busy = int(draws.integers(1, 200))
    x[:busy] = whole(np.eye(3)[draws.integers(0, 2, busy)])
    y[:busy] = SIZE * draws.choice([-1, 1], busy)
    other_x, other_y = x.copy(), y.copy()
    other_x[0], other_y[0] = x[0] * draws.choice([-1, 0, 1]), SIZE * draws.choice([-1, 1])
    data = Data((x, y))
    best = data.solve(RIDGE.penalty)[1]
    return data, Data((other_x, other_y)), best + np.eye(3)[draws.integers(0, 2)] * draws.uniform(-3, 3)


def largest_move(ball: float = BALL) -> float:
    """The largest move over many neighbours, in units of the sensitivity."""
    moves = []
    for seed in range(300):
        one, other, model = nasty(seed)
        look = ask(model, ball=ball)
        moves.append(abs(look.value(one) - look.value(other)) / look.moves)
    return max(moves)


def test_replacing_a_row_moves_the_root_by_no_more_than_its_sensitivity() -> None:
    assert 0.4 < largest_move() <= 1


def test_a_small_ball_keeps_the_promise_even_where_the_best_model_lies_outside() -> None:
    assert largest_move(ball=0.3) <= 1


def test_a_sensitivity_of_the_mean_loss_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RootExcess, "sensitivity", property(lambda self: 0.1 * math.sqrt(2 / 0.05) / RIDGE.n))
    assert largest_move() > 1


def test_the_number_is_the_true_root_rounded_down() -> None:
    for seed in range(20):
        one, _, model = nasty(seed)
        look = ask(model, alpha=0.001)
        true = math.sqrt(one.excess(np.array(look.model) / 2.0**48, RIDGE.penalty))
        told = look.value(one) * float(look.step)
        assert told == pytest.approx(max(true, look.floor), rel=1e-4, abs=2 * float(look.step))
        assert look.moves / STEPS < 1.001


def test_the_ball_is_searched_where_the_best_model_lies_outside_it() -> None:
    one, _, _ = nasty(3)
    matrix, best = one.solve(RIDGE.penalty)
    ball = float(np.linalg.norm(best)) / 2
    look = ask(np.zeros(3), alpha=1e-4, ball=ball)
    values, basis = np.linalg.eigh(matrix)
    weights = np.geomspace(1e-3, 1e5, 200_000)
    seen = basis.T @ (matrix @ best)
    lengths = np.linalg.norm(seen / (values + weights[:, None]), axis=1)
    held = basis @ (seen / (values + weights[np.argmin(np.abs(lengths - ball))]))
    gain = float(2 * (matrix @ best) @ held - held @ matrix @ held) / (2 * RIDGE.n)
    assert look.value(one) * float(look.step) == pytest.approx(math.sqrt(gain), rel=1e-3)
