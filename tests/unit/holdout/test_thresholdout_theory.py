"""The reusable holdout's own theorems, with their slips mended: known numbers and consistency."""

from __future__ import annotations

import math

import pytest

from papers import thresholdout_theory as classic
from steelyard.errors import InvalidTask


@pytest.mark.parametrize(("paid", "millions"), [(1, 8.35), (10, 83.5), (200, 1670)])
def test_thresholdout_needs_the_known_number_of_rows(paid: int, millions: float) -> None:
    assert classic.rows_needed(paid, 10_000, 0.05, 0.05) / 1e6 == pytest.approx(millions, rel=2e-3)


def test_thresholdout_certifies_nothing_at_practical_sizes() -> None:
    by_theorem = [classic.paid_answers(n, 10_000, 0.05, 0.05) for n in (10**4, 10**6, 10**7, 10**8)]
    assert by_theorem == [0, 0, 1, 11]
    tightened = [classic.paid_answers_tightened(n, 10_000, 0.05, 0.05) for n in (10**6, 10**7, 10**8)]
    assert tightened[0] == 0
    assert 5 < tightened[1] < 40
    assert 1000 < tightened[2] < 2000


def test_the_mended_pure_theorem_gives_its_corollary_and_the_printed_one_says_nothing() -> None:
    n, tolerance = 5_000, 0.05
    beta = math.exp(-2 * tolerance**2 * n)
    assert 2 * classic.overfitting_pure(tolerance * (1 - 1e-12), n, beta) == pytest.approx(
        classic.overfitting_at(tolerance, n)
    )
    assert classic.overfitting_pure(tolerance * 1.01, n, beta) == 1.0
    assert 3 / math.sqrt(beta) > 1


def test_information_and_hoeffding_give_the_first_corollary() -> None:
    n, tolerance = 4_000, 0.05
    bits = classic.max_information(tolerance**2, n)
    bound = classic.overfitting_by_information(bits, math.exp(-2 * tolerance**2 * n))
    assert bound == pytest.approx(math.exp(-(tolerance**2) * n))


def test_the_mended_sample_size_meets_the_theorem_it_comes_from() -> None:
    paid, sigma, tolerance, beta = 50, 0.002, 0.05, 0.01
    epsilon, log_delta, least = classic.approximate_needs(tolerance, beta)
    n = classic.rows_approximate(paid, sigma, tolerance, beta)
    spent = math.sqrt(32 * paid * (math.log(2) - log_delta)) / (sigma * n)
    assert spent <= epsilon * (1 + 1e-12)
    assert n >= least
    exact_first = 4 * math.sqrt(32 * paid * (math.log(2) - log_delta)) / (sigma * tolerance)
    assert exact_first <= n
    assert classic.rows_approximate(1, 10.0, tolerance, beta) == pytest.approx(least)


@pytest.mark.parametrize("wrong", [(0.0, 0.05, 10), (0.05, 1.0, 10), (math.nan, 0.05, 10), (0.05, 0.05, 0)])
def test_numbers_that_make_no_sense_are_refused(wrong: tuple[float, float, int]) -> None:
    tolerance, beta, questions = wrong
    for count in (classic.paid_answers, classic.paid_answers_tightened):
        with pytest.raises(InvalidTask):
            count(1000, questions, tolerance, beta)
