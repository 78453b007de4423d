"""How far a replaced row or user moves what a pure ridge path releases, and the questions about its models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.models._columns import SIZE, Categorical, Features, Numeric, Plain
from steelyard.models._rows import Target
from steelyard.models.accuracy._certificate import RootExcess
from steelyard.models.accuracy._designs import MATRIX, Exact, Ridge, Triangle, best_triangle, in_ball
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._losses import ClippedLoss
from steelyard.models.accuracy._ridge import RidgeSearch
from steelyard.models.accuracy._users import weighed, weights
from steelyard.models.accuracy._watch import STEPS, room
from unit.models.accuracy.made_up import Array, Data, generated, whole
from unit.models.accuracy.pure_paths import account

FEATURES = Features([Numeric("a", -3, 10), Plain("b"), Categorical("c", ["u", "v"])], "clip", 2)
LABEL = Target("y", -2, 7)
ODD = st.sampled_from(
    [0.0, -0.0, 1.0, -3.0, 10.0, 1e300, -1e300, 2.0**63, -(2.0**63), math.nan, math.inf, -math.inf, 5e-324]
)
ROW = st.tuples(ODD | st.floats(), ODD | st.floats(), st.sampled_from(["u", "v", "w", None]), ODD | st.floats())


def exact(*found: tuple[float, float, str | None, float]) -> Exact:
    """The statistics of these rows, as a table's batch gives them."""
    a, b, c, y = zip(*found, strict=True)
    batch = pa.record_batch({"a": pa.array(a), "b": pa.array(b), "c": pa.array(c, pa.string())})
    return Exact.of_rows(FEATURES.rows(batch).astype(np.float64), LABEL.whole(pa.array(y)))


def moved(one: Exact, other: Exact, triangle: Triangle) -> int:
    return sum(abs(a - b) for a, b in zip(triangle.values(one), triangle.values(other), strict=True))


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, max_size=3), ROW, ROW, st.integers(1, 64))
def test_a_replaced_row_moves_the_statistics_by_no_more_than_their_sensitivity(
    others: list[Any], row: Any, another: Any, vector: int
) -> None:
    triangle = Triangle(SIZE, FEATURES.width, vector, 4)
    assert moved(exact(*others, row), exact(*others, another), triangle) <= triangle.sensitivity


@settings(max_examples=40, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=4), st.lists(ROW, min_size=1, max_size=4))
def test_a_replaced_user_moves_them_no_further_than_a_row_of_a_finer_grid(one: list[Any], other: list[Any]) -> None:
    sums = []
    for found in (one, other):
        a, b, c, y = zip(*found, strict=True)
        batch = pa.record_batch({"a": pa.array(a), "b": pa.array(b), "c": pa.array(c, pa.string())})
        z = np.vstack([FEATURES.whole(batch), LABEL.whole(pa.array(y))])
        total = weighed(z, weights(np.full(len(found), len(found))))
        sums.append(Exact(1, SIZE * 2**10, total[:-1, :-1], total[:-1, -1], 0))
    triangle = Triangle(SIZE * 2**10, FEATURES.width, 20, 4)
    assert moved(sums[0], sums[1], triangle) <= triangle.sensitivity


def farthest(width: int, vector: int) -> float:
    """How far rows of the whole grid, at their corners, take the statistics: a share of the sensitivity."""
    triangle, ends = Triangle(SIZE, width, vector, width), [np.zeros(width), np.eye(width)[0]]
    ends += [np.array(signs) / math.sqrt(width) for signs in product((-1, 1), repeat=width)]
    pairs = product([(whole(x[None]), np.array([s * SIZE], float)) for x in ends for s in (-1, 1)], repeat=2)
    return max(moved(Exact.of_rows(*a), Exact.of_rows(*b), triangle) for a, b in pairs) / triangle.sensitivity


@pytest.mark.parametrize("width", [1, 2, 4])
def test_the_sensitivity_is_nearly_reached(width: int) -> None:
    assert 0.6 < max(farthest(width, vector) for vector in (8, 32)) <= 1


def test_half_the_sensitivity_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true = Triangle(SIZE, 4, 8, 4).sensitivity
    monkeypatch.setattr(Triangle, "sensitivity", property(lambda self: true // 2))
    assert farthest(4, 8) > 1


def test_the_proved_distance_is_smaller_than_that_of_two_rows() -> None:
    for width in (1, 3, 30):
        best = best_triangle(SIZE, width, 4.0, width)
        assert best.sensitivity < 0.8 * best._twice()
        assert best.vector < 2 * MATRIX


VOCABULARY = [f"v{i}" for i in range(40)]
WIDE = Features([Numeric("a", 0, 1), Categorical("c", VOCABULARY), Categorical("d", VOCABULARY)], "clip")


def of_values(found: list[tuple[float, str, str]], y: list[float]) -> Exact:
    a, c, d = zip(*found, strict=True)
    batch = pa.record_batch({"a": pa.array(a), "c": pa.array(c), "d": pa.array(d)})
    return Exact.of_rows(WIDE.rows(batch).astype(np.float64), LABEL.whole(pa.array(y)))


def test_values_of_a_vocabulary_that_a_row_does_not_have_move_nothing() -> None:
    sparse = RidgeSearch(WIDE, LABEL, Fraction(1, 100)).laplace(Goal("loss", 0.1, 0.9), account().terms).triangle
    assert (sparse.width, sparse.busy) == (82, 4)
    assert sparse.sensitivity < Triangle(SIZE, 82, sparse.vector, 82).sensitivity / 8
    draws, most = np.random.default_rng(6), 0
    for _ in range(40):
        c, d = draws.choice(VOCABULARY, (2, 2))
        one, other = ([(float(draws.integers(2)), str(c[i]), str(d[i]))] for i in range(2))
        ends = [of_values(row, [float(draws.choice([-2, 7]))]) for row in (one, other)]
        most = max(most, moved(ends[0], ends[1], sparse))
    assert 0.5 * sparse.sensitivity < most <= sparse.sensitivity


def test_counting_a_column_as_nothing_is_caught() -> None:
    row, other = [(1.0, "v0", "v1")], [(0.0, "v2", "v3")]
    twin = Triangle(SIZE, 82, 8, 1)
    assert moved(of_values(row, [7.0]), of_values(other, [7.0]), twin) > twin.sensitivity


RIDGE = Ridge(3000, 3, 0.05)
BALL = 0.5 / math.sqrt(RIDGE.penalty)


def neighbours(seed: int) -> tuple[Data, Data, Array]:
    draws = np.random.default_rng(seed)
    one = generated(RIDGE.n, 3, seed)
    x, y = one.rows[0].copy(), one.rows[1].copy()
    x[0], y[0] = whole(draws.choice([-1, 1]) * np.eye(3)[draws.integers(3)]), SIZE * draws.choice([-1, 1])
    return one, Data((x, y)), np.asarray(draws.uniform(-2, 2, 3))


@pytest.mark.parametrize("seed", range(12))
def test_a_replaced_row_moves_any_question_by_no_more_than_its_steps(seed: int) -> None:
    one, other, model = neighbours(seed)
    steps = in_ball(model, BALL)
    looks: list[Any] = [RootExcess(RIDGE, steps, Fraction(BALL), 0.02), ClippedLoss(steps, 0.1, 2**19)]
    looks.append(ClippedLoss((0, 0, 0), 0.1))
    for look in looks:
        assert abs(room(look, look.value(one)) - room(look, look.value(other))) <= STEPS


@dataclass(frozen=True)
class Published:
    """The excess itself, with the sensitivity that was published for it in 2017."""

    ridge: Ridge
    model: Array
    alpha: float

    @property
    def moves(self) -> int:
        return math.ceil(0.5 * (1 / math.sqrt(self.ridge.penalty) + 1) ** 2 * 1000)

    def limit(self) -> float:
        return self.alpha * self.ridge.n * 1000

    def value(self, data: Data) -> int:
        return round(data.excess(self.model, self.ridge.penalty) * self.ridge.n * 1000)


def test_the_published_sensitivity_of_an_excess_is_caught_and_the_root_is_not() -> None:
    ridge, long = Ridge(20_000, 2, 0.005), 1 / math.sqrt(0.005)
    x, y = np.tile([0.0, 1 / long], (ridge.n, 1)), np.ones(ridge.n)  # whose best model is as long as it can be
    x[0], y[0] = (1, 0), -1
    other_x, other_y = x.copy(), y.copy()
    other_x[0] = 0, 1
    one, other = Data((whole(x), y * SIZE)), Data((whole(other_x), other_y * SIZE))
    twin = Published(ridge, np.array([long, 0.0]), 0.01)
    assert abs(room(twin, twin.value(one)) - room(twin, twin.value(other))) > 1.1 * STEPS
    steps = in_ball(twin.model, long / 2)
    ours = RootExcess(ridge, steps, Fraction(long / 2), 0.01)
    assert abs(room(ours, ours.value(one)) - room(ours, ours.value(other))) <= STEPS
