"""The watch of a pure path: what its answers lose, what it costs, and how often it passes what it should not."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from steelyard.mechanisms import AboveThreshold
from steelyard.models.accuracy import _watch as watches
from steelyard.models.accuracy._watch import QUESTIONS, STEPS, Watch, passes
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO, Neighbours
from unit.mechanisms.twins import ABOVE, BELOW, SparseVector

SMALL = AboveThreshold(1, Fraction(3), Fraction(4), neighbours=Neighbours.REPLACE)


def law(mechanism: AboveThreshold) -> SparseVector:
    scales = float(mechanism.threshold_scale), float(mechanism.question_scale)
    return SparseVector("ours", float(mechanism.epsilon), *scales, mechanism.stops, False, (), (), ())


def redrawn(mechanism: AboveThreshold) -> Callable[[tuple[int, ...], tuple[int, ...]], float]:
    """A watch whose threshold is noised anew for every question, at the price of one."""
    once = law(mechanism)

    def probability(values: tuple[int, ...], answers: tuple[int, ...]) -> float:
        return math.prod(once.probability((value,), (answer,)) for value, answer in zip(values, answers, strict=True))

    return probability


def loss(probability: Callable[[tuple[int, ...], tuple[int, ...]], float], length: int = 24) -> float:
    """What one move shows in a row of answers "below" with "above" as the last or not at all."""
    ends = [(BELOW,) * length, (*(BELOW,) * (length - 1), ABOVE)]
    low, high = (0,) * length, (*(1,) * (length - 1), -1)
    return max(abs(math.log(probability(low, end) / probability(high, end))) for end in ends)


def test_a_long_row_of_answers_loses_no_more_than_the_price() -> None:
    assert loss(law(SMALL).probability) <= float(SMALL.epsilon) + 1e-9


def test_a_threshold_that_is_redrawn_for_every_question_is_caught() -> None:
    assert loss(redrawn(SMALL)) > float(SMALL.epsilon) + 0.1


@pytest.mark.parametrize("failure", [0.45, 0.09, 0.009])
def test_a_watch_costs_what_it_says_to_the_last_unit(failure: float) -> None:
    bought = Watch.of(50.0, failure)
    assert bought.mechanism.epsilon * MICRO == bought.micro
    assert bought.threshold <= 50 * STEPS * 1.01
    assert passes(bought.mechanism, bought.threshold) <= failure < passes(bought.mechanism, bought.threshold * 49 // 50)


def passing_rate(threshold: int, mechanism: AboveThreshold, runs: int = 300) -> float:
    """How often any of the questions passes a model that is just not good enough."""
    noise, found = TestNoise(5), 0
    for _ in range(runs):
        row = mechanism.start(threshold, noise)
        found += any(row.above(-1) for _ in range(QUESTIONS))
    return found / runs


def test_models_without_room_pass_as_rarely_as_was_paid_for_and_not_much_more_rarely() -> None:
    bought = Watch.of(50.0, 0.45)
    assert 0.3 < passing_rate(bought.threshold, bought.mechanism) < 0.54


def test_a_threshold_for_one_question_is_caught() -> None:
    bought = Watch.of(50.0, 0.45)
    tail = watches.tail(np.arange(bought.threshold, dtype=float), float(bought.mechanism.question_scale))
    once = int(np.argmax(tail <= 0.45))
    assert passing_rate(once, bought.mechanism) > 0.54
