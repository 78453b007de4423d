"""The exponential mechanism: its exact law, and the ratio that law keeps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import product

import pytest

from steelyard.accounting import price, range_to_mu
from steelyard.errors import InvalidTask, OurBug
from steelyard.mechanisms import Exponential
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO, Neighbours
from unit.bounding.remembered import terms
from unit.mechanisms.fit import fits, needed_mu
from unit.mechanisms.trees import agrees, law

GENERAL = list(product((-1, 0, 1), repeat=3))
ONE_WAY = list(product((0, 1), repeat=3))


def chances(mechanism: Exponential, costs: Sequence[int]) -> list[float]:
    weights = [math.exp(-float(mechanism.weight) * cost) for cost in costs]
    return [weight / math.fsum(weights) for weight in weights]


def worst(mechanism: Exponential, moves: Iterable[tuple[int, ...]]) -> float:
    """The largest loss over moves of a few cost vectors, both ways."""
    return max(
        abs(math.log(a / b))
        for costs in ((0, 0, 0), (0, 40, 40), (3, 1, 0))
        for move in moves
        for a, b in zip(
            chances(mechanism, costs),
            chances(mechanism, [c + m for c, m in zip(costs, move, strict=True)]),
            strict=True,
        )
    )


def test_no_choice_loses_more_than_epsilon() -> None:
    assert worst(Exponential(Fraction(1), 1), GENERAL) <= 1 + 1e-9
    assert worst(Exponential(Fraction(1), 1, monotone=True), ONE_WAY) <= 1 + 1e-9


def test_the_double_weight_for_costs_that_move_both_ways_is_caught() -> None:
    assert worst(Exponential(Fraction(1), 1, monotone=True), GENERAL) > 1.3


def worst_mu(mechanism: Exponential, moves: Iterable[tuple[int, ...]]) -> float:
    """The largest mu that any move of a few cost vectors needs, both ways."""
    pairs = [
        (chances(mechanism, costs), chances(mechanism, [c + m for c, m in zip(costs, move, strict=True)]))
        for costs in ((0, 0, 0), (0, 40, 40), (3, 1, 0), (0, 3, 3), (1, 0, 0))
        for move in moves
    ]
    return max(max(needed_mu(less, more), needed_mu(more, less)) for less, more in pairs)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3), Fraction(10)])
def test_a_choice_is_no_more_telling_than_the_mu_it_costs(epsilon: Fraction) -> None:
    paid = range_to_mu(epsilon) / MICRO
    general, one_way = Exponential(epsilon, 1), Exponential(epsilon, 1, monotone=True)
    assert price(general.event, terms(gaussian=True)).amount == range_to_mu(epsilon) ** 2
    assert 0.4 * paid < worst_mu(general, GENERAL) <= paid + 1e-9
    assert 0.4 * paid < worst_mu(one_way, ONE_WAY) <= paid + 1e-9


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
def test_what_is_no_exponential_choice_is_caught_at_its_price(epsilon: Fraction) -> None:
    paid, yes = range_to_mu(epsilon) / MICRO, 1 / (1 + math.exp(-float(epsilon)))
    assert needed_mu([yes, 1 - yes], [1 - yes, yes]) > 1.5 * paid
    laplace = [[math.exp(-float(epsilon) * abs(at - centre)) for at in range(-200, 201)] for centre in (0, 1)]
    assert needed_mu(*([each / math.fsum(law) for each in law] for law in laplace)) > 1.3 * paid
    assert worst_mu(Exponential(epsilon, 1, monotone=True), GENERAL) > 1.2 * paid


def test_the_drawn_law_is_exactly_the_stated_one() -> None:
    mechanism = Exponential(Fraction(2), 1)
    found, left = law(lambda noise: mechanism.choose([5, 6, 5], noise), 1e-5)
    assert left < Fraction(1, 10)
    assert agrees(found, left, lambda index: chances(mechanism, [5, 6, 5])[index])


def test_large_choices_have_the_stated_law() -> None:
    mechanism, noise = Exponential(Fraction(1, 2), 3), TestNoise(1)
    costs = [10**30, 7, 0, 12, 3, 3, 25]
    sample = [mechanism.choose(costs, noise) for _ in range(4000)]
    right, twin = chances(mechanism, [400, *costs[1:]]), chances(Exponential(Fraction(1), 3), [400, *costs[1:]])
    assert fits(sample, lambda i: right[i], range(7))
    assert not fits(sample, lambda i: twin[i], range(7))


def test_what_has_no_proof_or_no_candidate_is_refused() -> None:
    with pytest.raises(OurBug):
        Exponential(Fraction(1), 1, True, Neighbours.REPLACE)
    with pytest.raises(OurBug):
        Exponential(Fraction(1), 1).choose([], TestNoise(1))
    with pytest.raises(InvalidTask):
        Exponential(Fraction(0), 1)
