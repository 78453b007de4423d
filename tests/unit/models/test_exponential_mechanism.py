"""Choosing among public models: integer losses that only rise, and an exact law of the choice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.accounting._prices import price
from steelyard.audit._suite import pure
from steelyard.errors import InvalidTask
from steelyard.models._columns import SIZE
from steelyard.models._exponential_mechanism import MOST, WIDEST, BallChoice, Hypotheses
from steelyard.models._losses import CEILING, COST_BITS, LOG_COSH, LOGISTIC, SQUARED, LossFunction
from steelyard.models._rows import Rows
from steelyard.noise import TestNoise
from steelyard.privacy import rows

CANDIDATES = [[3.0, 0.0], [-3.0, 0.0], [0.0, 500.0], [0.0, 0.0]]


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 6.28), st.integers(0, 100))
def test_one_row_raises_every_cost_by_at_most_the_declared_ceiling(angle: float, seed: int) -> None:
    choice = Hypotheses(CANDIDATES, 10**6)
    data = np.rint(np.random.default_rng(seed).normal(size=(10, 2)) * SIZE / 4)
    row = np.trunc([[SIZE * np.cos(angle), SIZE * np.sin(angle)]])
    (before,), (after,) = choice.costs(data), choice.costs(np.vstack([data, row]))
    assert all(0 <= b - a <= choice.mechanism.sensitivity for a, b in zip(before, after, strict=True))


def test_a_loss_without_a_ceiling_would_break_the_declared_sensitivity() -> None:
    margins = np.array([-16.0])
    assert np.logaddexp(0, -margins)[0] > CEILING
    assert LOGISTIC.costs(margins).tolist() == [CEILING << 16]


def test_the_better_model_is_chosen_and_the_price_is_exact() -> None:
    x = np.rint(np.random.default_rng(1).normal(size=(2000, 2)) * SIZE / 4)
    choice = Hypotheses(CANDIDATES, 500_000)
    fitted = choice.fit(Rows(x, np.where(x[:, 0] > 0, 1.0, -1.0), None), TestNoise(2))
    assert fitted.coefficients.tolist() == CANDIDATES[0]
    assert price(choice.event, pure(rows())).amount == 500_000


def test_without_rows_every_candidate_is_as_likely_as_another() -> None:
    choice, noise = Hypotheses(CANDIDATES, 10**6), TestNoise(5)
    empty = Rows(np.zeros((0, 2)), np.zeros(0), None)
    counts = np.bincount([choice.fit(empty, noise).details["chosen"] for _ in range(2000)], minlength=4)
    assert abs(counts - 500).max() < 5 * math.sqrt(500)


def test_candidates_without_meaning_are_refused() -> None:
    for bad in ([], [[1.0], [1.0, 2.0]], [[math.nan]], [[1000.0]]):
        with pytest.raises(InvalidTask):
            Hypotheses(bad, 10**6)
    with pytest.raises(InvalidTask):
        Hypotheses(CANDIDATES, 0)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([LOGISTIC, LOG_COSH, SQUARED]),
    st.floats(0.01, 12),
    st.floats(-1, 1),
    st.floats(0, 1),
    st.integers(0, 10**6),
)
def test_costs_of_one_row_lie_between_zero_and_the_spread(
    loss: LossFunction, radius: float, label: float, length: float, seed: int
) -> None:
    source = np.random.default_rng(seed)
    turns = source.normal(size=(40, 2))
    turns /= np.linalg.norm(turns, axis=1)[:, None]
    choice = Hypotheses([*(radius * turns).tolist(), [radius, 0.0], [-radius, 0.0]], 10**6, loss)
    x = np.trunc(np.array([[SIZE, 0], [SIZE * length * 0.6, SIZE * length * 0.8], [0, 0]]))
    y = np.rint(np.array([np.sign(label), label, 1.0]) * SIZE)
    for place in range(3):
        (costs,) = choice.costs(*loss.oriented(x[place : place + 1], y[place : place + 1]))
        assert 0 <= min(costs) <= max(costs) <= choice.mechanism.sensitivity


@pytest.mark.parametrize("loss", [LOGISTIC, LOG_COSH], ids=["logistic", "log cosh"])
@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
def test_half_of_the_spread_would_be_caught(loss: LossFunction, radius: float) -> None:
    choice = Hypotheses([[radius], [-radius]], 10**6, loss)
    (costs,) = choice.costs(*loss.oriented(np.array([[float(SIZE)]]), np.array([float(SIZE)])))
    assert max(costs) > 0.99 * choice.mechanism.sensitivity
    if loss is LOGISTIC:
        assert choice.mechanism.sensitivity / 2**COST_BITS == pytest.approx(radius, abs=0.01)


@pytest.mark.parametrize("width", range(1, WIDEST + 1))
def test_the_grid_covers_the_ball_within_what_is_said(width: int) -> None:
    choice = BallChoice.over(width, 2.0, 10**6, LOGISTIC)
    points = np.array(choice.candidates)
    assert MOST // 2 < len(points) <= MOST
    assert np.linalg.norm(points, axis=1).max() == pytest.approx(2.0)
    inside = np.random.default_rng(3).normal(size=(60, width))
    inside /= np.linalg.norm(inside, axis=1)[:, None] / np.linspace(1, 2, 60)[:, None]
    apart = np.linalg.norm(points[None] - inside[:, None], axis=2).min(axis=1)
    assert apart.max() <= choice.coarseness
    assert apart.max() > choice.coarseness / 6  # the twin: a step taken for a sixth of what it is


def test_a_ball_finds_a_good_model_and_tells_what_the_grid_and_the_choice_may_cost() -> None:
    source = np.random.default_rng(6)
    x = source.normal(size=(4000, 2))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    rows = Rows(np.trunc(x * SIZE), np.where(x @ [0.8, -0.6] > 0, 1.0, -1.0), None)
    choice = BallChoice.over(2, 1.0, 10**6, LOGISTIC)
    costs = choice.costs(*LOGISTIC.oriented(rows.x, rows.y))[0].tolist()
    noise = TestNoise(4)
    found = [costs[choice.choose(costs, noise).details["chosen"]] - min(costs) for _ in range(15)]
    assert np.mean(found) / 2**COST_BITS <= choice.excess
    told = choice.choose(costs, noise).details
    assert told["expected_excess_sum"] == pytest.approx(math.log(len(choice.candidates)), rel=1e-3)
    assert told["grid_excess"] == pytest.approx((told["grid_step"] + 2**-16) * math.sqrt(2))
