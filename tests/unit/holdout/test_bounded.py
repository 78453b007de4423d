"""Bounded noise as a holdout: what it certifies, and that its answers really stay there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from steelyard.holdout._transfer import (
    bounded_width,
    design,
    down,
    noise_width,
    planned_capacity,
    shared_distance_at,
    up,
)
from steelyard.noise import ExactNoise

FAILURE = 5e-7  # half of a holdout's usual delta


@pytest.mark.parametrize(("n", "ours"), [(100_000, 884), (1_000_000, 92_600)])
def test_the_promised_questions_fit(n: int, ours: int) -> None:
    assert bounded_width(n, ours, 0.05, FAILURE) <= 0.05
    assert bounded_width(n, round(ours * 1.05), 0.05, FAILURE) > 0.05


def test_the_sharper_transfer_would_promise_more_than_is_proved_for_predictions() -> None:
    assert bounded_width(1_000_000, 93_100, 0.05, FAILURE, shared_distance_at) <= 0.05
    assert bounded_width(1_000_000, 93_100, 0.05, FAILURE) > 0.05


def test_noise_that_gives_a_row_away_too_often_certifies_nothing() -> None:
    assert bounded_width(10_000, 100, 0.05, 1e-3) < 0.15
    assert bounded_width(10_000, 100, 0.05, FAILURE) == 1.0


def test_the_chosen_radius_is_close_to_the_best() -> None:
    found = design(30_000, 20, 0.05, FAILURE)
    assert found is not None
    for radius in (found.noise.radius * 8 // 10, found.noise.radius * 12 // 10):
        other = type(found.noise)(found.noise.power, radius, 30_000, 20)
        assert noise_width(other, 0.05) >= found.half_width * 0.995


def test_an_attacker_who_adds_up_noisy_answers_stays_within_the_certificate() -> None:
    """Random questions, then the one that goes with every answer's sign: the boosting attack on coin flips."""
    n, questions = 20_000, 60
    found = design(n, questions, 0.05, 1e-4)
    assert found is not None
    generator, noise = np.random.default_rng(3), ExactNoise()
    labels = generator.integers(0, 2, n)
    votes = np.zeros(n)
    for _ in range(questions - 1):
        guess = generator.integers(0, 2, n)
        answer = (int((guess == labels).sum()) + found.noise.draw(noise)) / n
        assert abs(answer - 0.5) <= found.half_width
        votes += np.where(guess == 1, 1, -1) * (1 if answer > 0.5 else -1)
    final = (int(((votes > 0) == labels).sum()) + found.noise.draw(noise)) / n
    assert abs(final - 0.5) <= found.half_width


def test_numbers_of_three_digits_lie_on_the_safe_side() -> None:
    for value in (1, 9, 99, 100, 999, 1000, 1001, 123_456, 999_999, 10**12 - 1):
        assert down(value) <= value <= up(value)
        assert up(value) - down(value) <= 0.01 * value


def test_a_tolerance_nothing_reaches_allows_nothing() -> None:
    assert planned_capacity(500, 0.01, 0.05, 0.5) == 0
    assert design(3, 1, 0.05, 0.5) is None or math.isfinite(bounded_width(3, 1, 0.05, 0.5))


@pytest.mark.parametrize(("n", "tolerance"), [(20_000, 0.04), (150_000, 0.03)])
def test_the_capacity_does_not_depend_on_where_the_search_starts(n: int, tolerance: float) -> None:
    alone = planned_capacity(n, tolerance, 0.05, 1e-4)
    assert alone > 0
    assert {planned_capacity(n, tolerance, 0.05, 1e-4, up(alone * part // 4)) for part in (1, 3, 4, 5, 16)} == {alone}
