"""The exponential mechanism: its exact law, and the ratio that law keeps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import product

import pytest

from steelyard.errors import InvalidTask, OurBug
from steelyard.mechanisms import Exponential
from steelyard.noise import TestNoise
from steelyard.privacy import Neighbours
from unit.mechanisms.fit import fits
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
