"""Above-threshold: the exact loss of every short row of answers, ours and the broken ones."""

from __future__ import annotations

import copy
import math
import os
import pickle
from collections.abc import Iterable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from steelyard.errors import BudgetExceeded, InvalidTask, OurBug
from steelyard.mechanisms import AboveThreshold
from steelyard.noise import TestNoise
from steelyard.privacy import Neighbours
from unit.mechanisms.fit import fits
from unit.mechanisms.twins import ABOVE, BELOW, BROKEN, NO_END, SOUND, STOPPED, SparseVector

Row = tuple[int, ...]


def as_law(mechanism: AboveThreshold) -> SparseVector:
    """The exact law of our mechanism, in the form the twins have."""
    scales = float(mechanism.threshold_scale), float(mechanism.question_scale)
    return SparseVector("ours", float(mechanism.epsilon), *scales, mechanism.stops, False, (), (), ())


def loss(law: SparseVector, first: Row, second: Row, rows: Iterable[Row]) -> float:
    """The largest log-ratio of any row of answers."""
    worst = 0.0
    for answers in rows:
        a, b = law.probability(first, answers), law.probability(second, answers)
        if a > 0:
            worst = max(worst, math.log(a / b) if b > 0 else math.inf)
    return worst


def all_rows(length: int, stops: int) -> list[Row]:
    """Every row of answers that can occur."""
    rows = []
    for bits in product((BELOW, ABOVE), repeat=length):
        shown, above = [], 0
        for bit in bits:
            shown.append(STOPPED if above >= stops else bit)
            above += bit == ABOVE
        rows.append(tuple(shown))
    return sorted(set(rows))


def worst_loss(mechanism: AboveThreshold, moves: Iterable[Row], length: int = 3) -> float:
    law, rows = as_law(mechanism), all_rows(length, mechanism.stops)
    base = [(0,) * length, (2,) * (length - 1) + (-2,)][: 1 if mechanism.stops > 1 else 2]
    return max(
        max(loss(law, values, moved, rows), loss(law, moved, values, rows))
        for values in base
        for move in moves
        for moved in [tuple(v + m for v, m in zip(values, move, strict=True))]
    )


GENERAL = list(product((-1, 0, 1), repeat=3))
ONE_WAY = list(product((0, 1), repeat=3))


@pytest.mark.parametrize("stops", [1, 2])
def test_no_row_of_answers_loses_more_than_the_price(stops: int) -> None:
    mechanism = AboveThreshold(1, Fraction(2), Fraction(3), stops)
    assert worst_loss(mechanism, GENERAL) <= float(mechanism.epsilon) + 1e-9


@pytest.mark.parametrize("stops", [1, 2])
def test_answers_that_move_one_way_lose_no_more_than_the_lower_price(stops: int) -> None:
    mechanism = AboveThreshold(1, Fraction(2), Fraction(3), stops, monotone=True)
    assert worst_loss(mechanism, ONE_WAY) <= float(mechanism.epsilon) + 1e-9


@pytest.mark.parametrize("stops", [1, 3])
def test_the_price_is_nearly_reached_and_not_passed(stops: int) -> None:
    mechanism = AboveThreshold(1, Fraction(3), Fraction(3), stops, monotone=True)
    row = (BELOW,) * 40 + (ABOVE,) * stops
    reached = loss(as_law(mechanism), (0,) * 40 + (-20,) * stops, (1,) * 40 + (-20,) * stops, [row])
    assert 0.95 * float(mechanism.epsilon) < reached <= float(mechanism.epsilon) + 1e-9


def test_the_one_way_price_for_answers_that_move_both_ways_is_caught() -> None:
    twin = AboveThreshold(1, Fraction(3), Fraction(3), monotone=True)
    row = (BELOW,) * 40 + (ABOVE,)
    assert loss(as_law(twin), (0,) * 40 + (-20,), (1,) * 40 + (-21,), [row]) > 1.3 * float(twin.epsilon)


@pytest.mark.parametrize("twin", BROKEN, ids=lambda twin: twin.name)
def test_the_published_broken_variants_are_caught(twin: SparseVector) -> None:
    assert loss(twin, twin.first, twin.second, [twin.telling]) > twin.epsilon + 0.5


def test_the_published_sound_variant_passes_the_same_check() -> None:
    assert loss(SOUND, SOUND.first, SOUND.second, all_rows(6, 2)) <= SOUND.epsilon


@pytest.mark.parametrize("twin", [SOUND, *BROKEN], ids=lambda twin: twin.name)
def test_the_twins_draw_from_the_law_they_state(twin: SparseVector) -> None:
    drawn = twin.sample(twin.first, 40_000, np.random.default_rng(5))
    share = float(np.mean((drawn == np.array(twin.telling)).all(axis=1)))
    expected = twin.probability(twin.first, twin.telling)
    assert abs(share - expected) <= 5 * math.sqrt(expected / 40_000)


def test_a_running_row_of_questions_has_the_exact_law() -> None:
    mechanism = AboveThreshold(1, Fraction(1), Fraction(2), 1)
    noise, sample = TestNoise(4), []
    for _ in range(6_000):
        questions = mechanism.start(0, noise)
        answers = [STOPPED] * 3
        for place, value in enumerate((0, 1, -1)):
            if questions.left:
                answers[place] = ABOVE if questions.above(value) else BELOW
        sample.append(tuple(answers))
    law, rows = as_law(mechanism), all_rows(3, 1)
    assert fits(sample, lambda answers: law.probability((0, 1, -1), answers), rows)
    assert not fits(sample, lambda answers: NO_END.probability((0, 1, -1), answers), rows)


def test_after_its_last_above_it_answers_no_more() -> None:
    questions = AboveThreshold(1, Fraction(1), Fraction(1), 2).start(0, TestNoise(1))
    assert [questions.above(10**40), questions.above(-(10**40)), questions.above(10**6)] == [True, False, True]
    assert questions.left == 0
    with pytest.raises(BudgetExceeded):
        questions.above(10**6)


def test_a_running_row_cannot_be_copied_or_stored_or_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = AboveThreshold(1, Fraction(1), Fraction(1)).start(0, TestNoise(1))
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(OurBug):
            attempt(questions)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(BudgetExceeded):
        questions.above(0)


def test_parameters_without_a_proof_are_refused() -> None:
    with pytest.raises(OurBug):
        AboveThreshold(1, Fraction(1), Fraction(1), 1, True, Neighbours.REPLACE)
    for stops, scale in ((0, Fraction(1)), (1, Fraction(0))):
        with pytest.raises(InvalidTask):
            AboveThreshold(1, Fraction(1), scale, stops)
