"""Sets of classes: the law of every set, exactly; no bias; the least error there is; and twins that must be caught."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from steelyard.accounting import price
from steelyard.audit._exact import largest_ratio
from steelyard.errors import InvalidTask
from steelyard.labels._classes import ClassSampler, simplex
from steelyard.labels._mechanism import growth_below
from steelyard.labels._top import TopSampler, share_of, top_event
from steelyard.noise import TestNoise
from steelyard.privacy import Loss, Terms, labels

EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(3), Fraction(8))
TERMS = Terms(labels("y"), Loss.pure(9), Fraction(9))


def broken_promise(made: ClassSampler, epsilon: Fraction) -> bool:
    """Whether some set is more than e^epsilon times likelier under one class than under another."""
    ratio = largest_ratio(made.weights())
    return ratio is None or ratio > growth_below(epsilon)


@pytest.mark.parametrize(("size", "epsilon"), list(product((2, 3, 5, 8), EPSILONS)))
def test_no_set_is_likelier_than_promised_and_the_price_is_epsilon(size: int, epsilon: Fraction) -> None:
    for chosen in (None, *range(1, size)):
        made = ClassSampler.of(size, epsilon, chosen=chosen)
        assert not broken_promise(made, epsilon)
        assert largest_ratio(made.weights()) == made.ratio
        assert price(made.event, TERMS) == Loss.pure(epsilon)
        assert price(top_event(epsilon), TERMS) == Loss.pure(epsilon)


def test_a_share_one_part_in_a_million_too_large_is_caught() -> None:
    made = ClassSampler.of(5, 1)
    assert broken_promise(replace(made, share=made.share + made.share // 10**6), Fraction(1))


@pytest.mark.parametrize(("size", "epsilon"), list(product((2, 3, 5, 8), EPSILONS)))
def test_the_mean_of_a_label_vector_is_the_true_class_exactly(size: int, epsilon: Fraction) -> None:
    made = ClassSampler.of(size, epsilon)
    low, high = made.ends
    sets = [set(each) for each in combinations(range(size), made.chosen)]
    for label, weights in enumerate(made.weights()):
        for place in range(size):
            mean = sum((w * (high if place in s else low) for w, s in zip(weights, sets, strict=True)), Fraction(0))
            assert mean / sum(weights) == (place == label)


def worst(made: ClassSampler, rounds: int, twin: Any = None) -> float:
    """The largest distance, in standard deviations, of how often a set came from how often it should have."""
    sampler, sets = twin or made, list(combinations(range(made.size), made.chosen))
    place = {each: number for number, each in enumerate(sets)}
    far = 0.0
    for label, weights in enumerate(made.weights()):
        drawn = sampler.members(sampler.draw(np.full(rounds, label), TestNoise(label + 1)))
        counts = np.bincount([place[tuple(np.flatnonzero(row).tolist())] for row in drawn], minlength=len(sets))
        expected = rounds * np.array([w / sum(weights) for w in weights])
        far = max(far, float(np.abs((counts - expected) / np.sqrt(expected)).max()))
    return far


def test_sets_come_as_often_as_the_table_says() -> None:
    for made in (ClassSampler.of(5, 1), ClassSampler.of(6, Fraction(1, 10)), ClassSampler.of(3, 3)):
        assert worst(made, 20_000) < 5


class Lazy(ClassSampler):
    """A twin that leaves out the shuffle: it picks the same other classes for everybody."""

    def _members(self, places: Any, noise: Any) -> Any:
        found = super()._members(places, noise)
        first = np.zeros_like(found)
        first[:, : self.chosen] = True
        return np.where((found & (np.arange(self.size) == places[:, None])).any(axis=1)[:, None], found, first)


def test_a_twin_that_does_not_shuffle_is_caught() -> None:
    made = ClassSampler.of(5, 1)
    assert worst(made, 2000, Lazy(made.size, made.chosen, made.share)) > 20


def general_optimum(size: int, growth: float) -> float:
    """The least mean square of an unbiased estimate of the one-hot vector under any mechanism, even over classes.

    A mechanism is a mass for each column of weights 1 and e^epsilon whose rows add up to one; the best estimate for it is a
    least squares one, and its mean square the trace of an inverse: convex in the masses.
    """
    from scipy.optimize import minimize

    columns = np.array(list(product((1.0, growth), repeat=size)))
    outer = np.einsum("si,sj->sij", columns, columns) / columns.mean(axis=1)[:, None, None]

    def square(mass: Any) -> float:
        return float(np.trace(np.linalg.inv(np.tensordot(mass, outer, 1) + 1e-12 * np.eye(size))))

    rows = {"type": "eq", "fun": lambda mass: mass @ columns - 1}
    start = np.full(len(columns), 1 / columns.sum(axis=0)[0])
    start = start * (1 + 0.5 * np.random.default_rng(0).random(len(columns)))
    found = minimize(
        square, start, constraints=rows, bounds=[(0, None)] * len(columns), options={"maxiter": 500, "ftol": 1e-12}
    )
    assert found.x @ columns == pytest.approx(np.ones(size))
    return float(found.fun)


@pytest.mark.parametrize(("size", "epsilon"), [(2, 1), (3, 1), (4, Fraction(3, 10)), (4, 2), (5, 1)])
def test_no_other_unbiased_mechanism_has_less_error_on_all_classes_alike(size: int, epsilon: Any) -> None:
    ours = ClassSampler.of(size, epsilon).error + 1
    assert ours == pytest.approx(general_optimum(size, math.exp(epsilon)), rel=1e-3)
    worse = ClassSampler.of(size, epsilon, chosen=size - 1).error + 1
    assert size == 2 or worse > ours * 1.01


def test_sets_beat_randomized_response_from_four_classes_on_and_are_it_for_two() -> None:
    assert ClassSampler.of(2, 1).chosen == 1
    for size in (10, 100, 1000):
        assert ClassSampler.of(size, 1).error < ClassSampler.of(size, 1, chosen=1).error * 0.72
    assert ClassSampler.of(10, 5).chosen == 1


def test_drawing_is_total_and_the_words_read_owe_nothing_to_labels() -> None:
    made = ClassSampler.of(7, 1)
    left, right = TestNoise(3), TestNoise(3)
    first = made.draw(np.array([0, 1, 2, 3]), left)
    other = made.draw(np.array([0, 99, 2, -5]), right)
    assert left.bits(1) == right.bits(1)
    assert first[0] == other[0]
    assert first[2] == other[2]
    assert made.draw(np.zeros(0), left).shape == (0,)


def laws(prior: Any, epsilon: Fraction, least: int = 1) -> tuple[TopSampler, Any]:
    """The exact law of one record's answer under every label."""
    made = TopSampler.of(np.array([prior]), epsilon, least)
    size, top = len(prior), int(made.tops[0])
    known, word = made.order[0, :top].tolist(), Fraction(1, 1 << 64)
    own = share_of(epsilon, top) * word if top > 1 else Fraction(1)
    table = [
        [
            Fraction(0) if z not in known
            else Fraction(1, top) if y not in known
            else own if y == z
            else (1 - own) / (top - 1)
            for z in range(size)
        ]
        for y in range(size)
    ]  # fmt: skip
    return made, table


@pytest.mark.parametrize("prior", [[0.5, 0.3, 0.15, 0.05], [0.9, 0.05, 0.03, 0.02], [0.25] * 4])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_answers_among_likely_classes_keep_the_promise_and_are_drawn_as_said(prior: Any, epsilon: Fraction) -> None:
    made, table = laws(prior, epsilon)
    for column in zip(*table, strict=True):
        if max(column):
            assert max(column) <= growth_below(epsilon) * min(column)
    rounds = 4000
    many = TopSampler(
        made.epsilon, np.repeat(made.prior, rounds, 0), np.repeat(made.order, rounds, 0), np.repeat(made.tops, rounds)
    )
    for label, law in enumerate(table):
        found = np.bincount(many.draw(np.full(rounds, label), TestNoise(label)), minlength=4)
        expected = rounds * np.array([float(p) for p in law])
        assert np.all(np.abs(found - expected) < 5 * np.sqrt(expected) + 1e-9)


def test_label_vectors_of_answers_have_no_bias_where_the_prior_is_right() -> None:
    prior, epsilon = [0.5, 0.3, 0.15, 0.05], Fraction(1)
    made, table = laws(prior, epsilon, least=2)
    each = np.array([made.vectors(np.array([z]))[0] for z in made.order[0, : made.tops[0]]])
    mean = sum(
        prior[y] * sum(float(table[y][z]) * each[k] for k, z in enumerate(made.order[0, : made.tops[0]]))
        for y in range(4)
    )
    assert np.asarray(mean) == pytest.approx(prior)


def test_probabilities_are_the_nearest_ones() -> None:
    found = simplex(np.array([[1.2, -0.1, 0.3], [0.2, 0.3, 0.5], [np.nan, np.inf, 0.0]]))
    assert found.sum(axis=1) == pytest.approx(np.ones(3))
    assert found.min() >= 0
    assert found[1].tolist() == pytest.approx([0.2, 0.3, 0.5])


@pytest.mark.parametrize("size", [0, 1, 1025])
def test_too_few_or_too_many_classes_are_refused(size: int) -> None:
    with pytest.raises(InvalidTask, match="classes"):
        ClassSampler.of(size, 1)
