"""Enumeration: brackets that hold the truth, meet where they can, and catch what is broken."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from steelyard.audit import Epsilon
from steelyard.audit._exact import (
    ONE,
    Tape,
    TapeNoise,
    enumerate_tape,
    enumerated,
    laplace_weights,
    largest_ratio,
    law_of,
    matrix_check,
)
from steelyard.errors import InvalidTask, OurBug
from steelyard.mechanisms import AboveThreshold, Exponential, Finite, Laplace
from steelyard.noise import Noise
from steelyard.noise._stream import uniform_below
from unit.mechanisms.twins import pmf


def test_the_ratio_of_a_matrix_is_exact() -> None:
    assert largest_ratio([[3, 1], [1, 3]]) == 3
    assert largest_ratio([[6, 2], [1, 3]]) == 3
    assert largest_ratio([[1, 0], [1, 1]]) is None
    assert largest_ratio([[1, 0], [5, 0]]) == 1


def test_a_matrix_off_by_one_in_four_thousand_million_is_seen() -> None:
    top, low = 2**32 * 3 // 4, 2**32 // 4
    claim = Epsilon(math.log(3))
    assert matrix_check([[top, low], [low, top]], claim).ok
    assert not matrix_check([[top + 1, low - 1], [low, top]], claim).ok


@pytest.mark.parametrize("weights", [[], [[0, 0]], [[1, -1]]])
def test_no_matrix_is_no_mechanism(weights: list[list[int]]) -> None:
    with pytest.raises(InvalidTask):
        largest_ratio(weights)


def test_laplace_weights_are_lower_bounds_that_nearly_add_up() -> None:
    weights = laplace_weights(Fraction(3, 2), 1e-14)
    assert 0 < ONE - sum(weights) < ONE * 2e-14
    for index, value in enumerate((0, 1, -1, 2, -2)):
        assert weights[index] / ONE == pytest.approx(pmf(value, 1.5), rel=1e-12)


def test_a_loop_without_end_leaves_a_rest_and_brackets_the_truth() -> None:
    def geometric(tape: Tape) -> int:
        count = 0
        while tape.word(1):
            count += 1
        return count

    outcomes = enumerate_tape(geometric, runs=40)
    assert 0 < outcomes.rest < ONE
    assert outcomes.reached[3] <= ONE / 16 <= outcomes.reached[3] + outcomes.rest


def uneven(draw: Callable[[Tape], int]) -> float:
    """How far from one third any of three outcomes provably is, by enumerating the bits a draw reads."""
    outcomes = enumerate_tape(draw, runs=4_000)
    shares = [outcomes.reached[value] / ONE for value in range(3)]
    return max(max(shares) - 1 / 3, 1 / 3 - min(shares) - outcomes.rest / ONE)


def test_uniform_integers_are_even_bit_by_bit_and_a_remainder_is_not() -> None:
    assert uneven(lambda tape: uniform_below(lambda: tape.word(4), 4, 3)) <= 1e-12
    assert uneven(lambda tape: tape.word(4) % 3) > 0.02


def test_an_additive_release_is_exactly_as_private_as_it_says() -> None:
    mechanism = Laplace(2, Fraction(3))
    bracket = enumerated(lambda x, noise: mechanism.release([x], noise)[0] >= 2, [0, 2])
    assert bracket.low == pytest.approx(2 / 3, abs=1e-9)
    assert bracket.high == pytest.approx(2 / 3, abs=1e-9)


def test_finite_and_exponential_mechanisms_keep_their_claim() -> None:
    finite = Finite(((3, 1), (1, 3)))
    assert enumerated(lambda i, noise: finite.release([i], noise)[0], [0, 1]).low == pytest.approx(math.log(3))
    chooser = Exponential(Fraction(1), 1)
    bracket = enumerated(chooser.choose, [(1, 0, 0), (0, 1, 1)], runs=8_000)
    weights = [[math.exp(-c / 2) for c in costs] for costs in ((1, 0, 0), (0, 1, 1))]
    shares = [[w / sum(row) for w in row] for row in weights]
    truth = max(abs(math.log(a / b)) for a, b in zip(*shares, strict=True))
    assert bracket.low - 1e-9 <= truth <= bracket.high + 1e-9
    assert bracket.high < 1


def answers(mechanism: AboveThreshold, values: Sequence[int], noise: Noise) -> tuple[bool, ...]:
    questions = mechanism.start(0, noise)
    given: list[bool] = []
    while questions.left and len(given) < len(values):
        given.append(questions.above(values[len(given)]))
    return tuple(given)


def test_questions_keep_their_price_almost_exactly() -> None:
    mechanism = AboveThreshold(1, Fraction(1), Fraction(1, 2))
    bracket = enumerated(partial(answers, mechanism), [(1, 1, -1), (0, 0, 0)], runs=6_000, rest=1e-6)
    assert 4.9 < bracket.low <= bracket.high < 4.91 < mechanism.epsilon == 5


def test_the_price_for_questions_that_move_one_way_is_broken_by_questions_that_do_not() -> None:
    cheap = AboveThreshold(1, Fraction(1), Fraction(1, 2), monotone=True)
    claim = Epsilon(float(cheap.epsilon))
    one_way = enumerated(partial(answers, cheap), [(0, 0), (1, 1)], runs=6_000, rest=1e-6)
    both_ways = enumerated(partial(answers, cheap), [(0, 0), (1, -1)], runs=6_000, rest=1e-6)
    assert one_way.check("one way", claim).ok
    assert not both_ways.check("both ways", claim).ok


def test_a_narrower_release_is_broken_exactly() -> None:
    mechanism = Laplace(1, Fraction(99, 100))
    bracket = enumerated(lambda x, noise: mechanism.release([x], noise)[0] >= 1, [0, 1])
    assert not bracket.check("narrow", Epsilon(1.0)).ok


def test_a_tape_offers_no_gaussian_noise() -> None:
    noise: Any = TapeNoise(Tape())
    for draw in (noise.normal, noise.normal_array):
        with pytest.raises(OurBug):
            draw(Fraction(1), 1)
    with pytest.raises(OurBug):
        noise.bits(1)


def test_laws_of_arrays_and_lists_are_the_same() -> None:
    one = law_of(lambda noise: noise.laplace(Fraction(1, 2), 1)[0])
    two = law_of(lambda noise: int(noise.laplace_array(Fraction(1, 2), 1)[0]))
    assert one == two
