"""From privacy to validity: whole mechanisms on small worlds, walked exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from steelyard.accounting.curves import gaussian_curve
from steelyard.errors import InvalidTask
from steelyard.holdout import transfer
from steelyard.holdout.transfer import curve_distance, distance_at, gaussian_distance, pair_distance_at

Floats = NDArray[np.float64]
EPSILONS = (0.0, 0.1, 0.3, 0.7, 1.2, 2.0)


@dataclass(frozen=True)
class World:
    """Rows of n letters drawn with these chances, and the law of the transcript for every table (one row each)."""

    chances: Floats
    n: int
    mechanism: Floats

    @property
    def tables(self) -> list[tuple[int, ...]]:
        return list(itertools.product(range(len(self.chances)), repeat=self.n))

    def delta(self, epsilon: float) -> float:
        """The exact delta over all pairs of tables that differ in one row, both orders."""
        pairs = [
            (i, j)
            for (i, a), (j, b) in itertools.permutations(enumerate(self.tables), 2)
            if sum(x != y for x, y in zip(a, b, strict=True)) == 1
        ]
        gaps = (np.maximum(self.mechanism[i] - math.exp(epsilon) * self.mechanism[j], 0).sum() for i, j in pairs)
        return float(max(gaps, default=0.0))

    def distances(self) -> tuple[Floats, Floats]:
        """The chance of each transcript, and how far the average posterior row then is from the population."""
        prior = np.array([np.prod(self.chances[list(table)]) for table in self.tables])
        joint = prior[:, None] * self.mechanism
        shares = np.array([[row.count(x) / self.n for x in range(len(self.chances))] for row in self.tables])
        chance = joint.sum(axis=0)
        posterior = (joint.T @ shares) / np.maximum(chance, 1e-300)[:, None]
        return chance, np.abs(posterior - self.chances).sum(axis=1) / 2


def mean_excess_allowed(world: World, base: Callable[[float], float], rest: Callable[[float], float]) -> bool:
    """Whether E (distance - base(epsilon))_+ <= rest(epsilon) delta(epsilon), which is what Markov's step uses."""
    chance, distance = world.distances()
    return all(float(chance @ np.maximum(distance - base(e), 0)) <= rest(e) * world.delta(e) + 1e-12 for e in EPSILONS)


def half(e: float) -> float:
    return math.tanh(e / 2)


def quarter(e: float) -> float:
    return math.tanh(e / 4)


def both(e: float) -> float:
    return 2 / (1 + math.exp(e))


def one(e: float) -> float:
    return 1.0


def normalized(rows: Sequence[Sequence[float]]) -> Floats:
    table = np.array(rows, dtype=np.float64)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    letters, n, outputs = draw(st.integers(2, 3)), draw(st.integers(1, 3)), draw(st.integers(2, 4))
    weight = st.floats(0.01, 1) | st.just(0.0)
    chances = normalized([[draw(st.floats(0.05, 1)) for _ in range(letters)]])[0]
    rows = [[draw(weight) + 1e-9 for _ in range(outputs)] for _ in range(letters**n)]
    return World(chances, n, normalized(rows))


@settings(max_examples=60)
@given(worlds())
def test_no_mechanism_on_a_small_world_is_further_off_than_either_theorem_says(world: World) -> None:
    assert mean_excess_allowed(world, half, both)
    assert mean_excess_allowed(world, quarter, one)


def coin(epsilon: float, rare: float) -> World:
    """One row of two letters, answered by randomized response."""
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    return World(np.array([rare, 1 - rare]), 1, np.array([[truth, 1 - truth], [1 - truth, truth]]))


def reveals(letters: int, chance: float) -> World:
    """One row of many letters, told outright with a small chance and otherwise not at all."""
    told = np.eye(letters) * chance
    return World(np.full(letters, 1 / letters), 1, np.hstack([told, np.full((letters, 1), 1 - chance)]))


TIGHT = [coin(e, 1 / (1 + math.exp(e / 2))) for e in EPSILONS[1:]] + [reveals(20, 0.01)]


def test_the_worst_worlds_reach_the_pair_bound_and_do_not_pass_it() -> None:
    assert all(mean_excess_allowed(world, half, both) and mean_excess_allowed(world, quarter, one) for world in TIGHT)
    for world, epsilon in zip(TIGHT, EPSILONS[1:], strict=False):
        assert world.distances()[1].max() == pytest.approx(math.tanh(epsilon / 4))


@pytest.mark.parametrize(
    ("base", "rest"),
    [
        (lambda e: math.tanh(e / 5), one),
        (lambda e: math.tanh(e / 2), lambda e: 1 / (1 + math.exp(e))),
        (quarter, lambda e: 0.5),
        (lambda e: 0.0, one),
    ],
    ids=["a fifth of epsilon", "one direction of delta", "half of delta", "no epsilon at all"],
)
def test_a_theorem_that_promises_more_is_caught(base: Callable[[float], float], rest: Callable[[float], float]) -> None:
    assert not all(mean_excess_allowed(world, base, rest) for world in TIGHT)


def test_forgetting_to_divide_by_the_slack_is_caught() -> None:
    world = reveals(20, 0.01)
    chance, distance = world.distances()
    delta = world.delta(0.0)
    assert float(chance[distance >= 0.5].sum()) <= delta / 0.5
    assert float(chance[distance >= 0.9].sum()) > delta * 0.9


def test_normal_answers_keep_the_known_constants() -> None:
    assert gaussian_distance(1e-3, 0.05) / 1e-3 == pytest.approx(1.169, abs=2e-3)
    assert gaussian_distance(1e-3, 0.01) / 1e-3 == pytest.approx(1.446, abs=2e-3)
    assert gaussian_distance(1e-3, 0.05, pair_distance_at) / 1e-3 == pytest.approx(0.6473, abs=2e-3)


def test_a_curve_gives_the_distance_of_its_closed_form() -> None:
    from fractions import Fraction

    curve = gaussian_curve(0.04, Fraction(1, 2000))
    for bound in (distance_at, pair_distance_at):
        exact = gaussian_distance(0.04, 0.05, bound)
        assert exact * 0.999 <= curve_distance(curve, 0.05, bound) <= exact * 1.01


@pytest.mark.parametrize(("questions", "beta"), [(1, 0.05), (40, 0.01), (1000, 0.5)])
def test_the_largest_noise_is_the_mean_of_the_worst_part(questions: int, beta: float) -> None:
    generator = np.random.default_rng(5)
    largest = np.sort(np.abs(generator.normal(size=(4000, questions))).max(axis=1))
    worst = largest[int(4000 * (1 - beta)) :].mean()
    assert worst * 0.97 <= transfer.largest_noise(questions, beta) <= worst * 1.2


@pytest.mark.parametrize("wrong", [(-0.1, 0.1, 0.1), (0.1, 1.1, 0.1), (0.1, 0.1, 0.0), (math.nan, 0.1, 0.1)])
def test_what_is_no_point_of_a_curve_is_refused(wrong: tuple[float, float, float]) -> None:
    for bound in (distance_at, pair_distance_at):
        with pytest.raises(InvalidTask):
            bound(*wrong)
