"""The reusable holdout's own theorems, with their slips mended: known numbers and consistency."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from papers import holdout_figures
from papers.thresholdout_theory import paid_answers, paid_answers_tightened
from steelyard.accounting import epsilon_of, price
from steelyard.errors import InvalidTask
from steelyard.holdout import Holdout, Overfitting, Thresholdout
from steelyard.privacy import MICRO, Loss, Terms, rows

BUDGETS, SIGMAS, TOLERANCES, BETAS = (1, 7, 1000), (1e-5, 0.001, 0.3), (0.001, 0.05, 0.5, 1.0), (1e-9, 0.05, 0.9)
GRID = list(product(BUDGETS, SIGMAS, TOLERANCES, BETAS))


def classic(budget: int, sigma: float, n: int = 1) -> Thresholdout:
    return Thresholdout(n, budget, threshold="0.01", sigma=sigma)


@pytest.mark.parametrize(("budget", "millions"), [(1, 8.35), (10, 83.5), (200, 1670)])
def test_thresholdout_needs_the_known_number_of_rows(budget: int, millions: float) -> None:
    assert Thresholdout.rows_needed(budget, 10_000, 0.05, 0.05) / 1e6 == pytest.approx(millions, rel=2e-3)


def test_thresholdout_certifies_nothing_at_practical_sizes() -> None:
    by_theorem = [paid_answers(n, 10_000, 0.05, 0.05) for n in (10**4, 10**6, 10**7, 10**8)]
    assert by_theorem == [0, 0, 1, 11]
    tightened = [paid_answers_tightened(n, 10_000, 0.05, 0.05) for n in (10**6, 10**7, 10**8)]
    assert tightened[0] == 0
    assert 5 < tightened[1] < 40
    assert 1000 < tightened[2] < 2000


def test_the_mended_pure_theorem_gives_its_corollary_and_the_printed_one_says_nothing() -> None:
    n, tolerance = 5_000, 0.05
    asked, chance = Overfitting(n, tolerance), math.exp(-2 * tolerance**2 * n)
    assert 2 * asked.by_privacy(chance * (1 - 1e-9)) == pytest.approx(asked.beyond(tolerance))
    assert asked.beyond(tolerance) == pytest.approx(6 * math.exp(-(tolerance**2) * n))
    assert Overfitting(n, tolerance * 1.01).by_privacy(chance) == 1.0
    assert 3 / math.sqrt(chance) > 1


def test_information_and_hoeffding_give_the_first_corollary() -> None:
    n, tolerance = 4_000, 0.05
    asked = Overfitting(n, tolerance**2)
    assert asked.max_information == pytest.approx(math.log2(math.e) * tolerance**2 * n)
    one_sided = math.exp(-2 * tolerance**2 * n)
    assert asked.by_information(one_sided) == pytest.approx(math.exp(-(tolerance**2) * n))
    assert asked.by_information(one_sided) == pytest.approx(2**asked.max_information * one_sided)


def test_randomized_response_over_many_letters_reaches_what_information_allows() -> None:
    """One row, one question: whether it is the letter that was told. Half of epsilon would promise too little."""
    epsilon, letters = 1.25, 10_000
    right = math.exp(epsilon) / (letters - 1 + math.exp(epsilon))
    allowed = Overfitting(1, epsilon).by_information(1 / letters)
    assert 0.999 * allowed < right <= allowed
    assert right > Overfitting(1, epsilon / 2).by_information(1 / letters)


def test_a_delta_leaves_only_the_theorem_that_allows_one() -> None:
    n, tolerance, beta = 200_000, 0.05, 0.01
    delta = (beta / 8) ** (4 / tolerance)
    asked = Overfitting(n, tolerance / 4, delta)
    assert asked.beyond(tolerance) == pytest.approx(beta)
    assert asked.max_information == math.inf
    assert asked.by_information(0.001) == asked.by_privacy(0.001) == 1.0
    assert Overfitting(n, tolerance / 3, delta).beyond(tolerance) == 1.0
    few = math.ceil(48 * math.log(8 / beta) / tolerance**2)
    assert Overfitting(few, tolerance / 4, delta).beyond(tolerance) == pytest.approx(beta)
    assert Overfitting(few // 2, tolerance / 4, delta).beyond(tolerance) > beta


def test_deltas_that_no_float_can_hold_are_read() -> None:
    tolerance, beta = Fraction(1, 100), 0.05
    delta = Fraction(1, 10**882)  # (beta / 8)^(4 / tolerance) is 2e-882
    asked = Overfitting(10**9, tolerance / 4, delta)
    assert beta / 2 < asked.beyond(tolerance) < beta
    assert classic(1000, 0.1, 10**6).epsilon_at(delta) == float(classic(1000, 0.1, 10**6).epsilon)
    assert 0.08 < classic(10**9, 0.1, 10**9).epsilon_at(delta) < 0.081  # 20 without a delta


@pytest.mark.parametrize("given", GRID)
def test_n1_with_the_printed_constants_meets_the_theorem_it_comes_from(given: Any) -> None:
    """sqrt(32 B (4/tau ln(8/beta) + ln 2)) / (sigma n) <= tau/4; sqrt(ln 2 B) is enough in the second term."""
    budget, sigma, tolerance, beta = given
    n = classic(budget, sigma).rows_approximate(tolerance, beta)
    first, second = 128 * budget * math.log(8 / beta) / tolerance, 32 * budget * math.log(2)
    assert math.sqrt(first + second) / (sigma * n) <= tolerance / 4 * (1 + 1e-12)
    assert first >= second / 8  # which is all that (sqrt(first) + sqrt(second / 2))^2 >= first + second needs
    printed = 4 / (sigma * tolerance) * (math.sqrt(first) + math.sqrt(second / 2))
    assert n == pytest.approx(max(printed, 48 * math.log(8 / beta) / tolerance**2))


def test_smaller_constants_in_n1_would_not_do() -> None:
    """The twins: no second term, and half of the first."""
    budget, tolerance, beta = 50, 1.0, 0.9
    first, second = 128 * budget * math.log(8 / beta) / tolerance, 32 * budget * math.log(2)
    for broken in (math.sqrt(first), math.sqrt(first) / 2 + math.sqrt(second / 2)):
        assert math.sqrt(first + second) / (4 / tolerance * broken) > tolerance / 4 * (1 + 1e-3)


def test_wide_noise_leaves_the_rows_that_the_theorem_itself_needs() -> None:
    wide = classic(1, 10.0)
    assert wide.rows_approximate(0.05, 0.01) == pytest.approx(48 * math.log(8 / 0.01) / 0.05**2)
    assert wide.rows_pure(0.05, 0.01) == pytest.approx(math.log(6 / 0.01) / 0.05**2)


def test_theorem_3_3_never_meets_the_least_number_of_rows() -> None:
    for budget, questions, tolerance, beta in product((1, 10), (10, 10**6), TOLERANCES[:3], BETAS):
        plan = Thresholdout.published(1000, budget, questions, tolerance, beta)
        share = tolerance / 8, beta / (2 * questions)
        assert plan.rows_approximate(*share) > 1.1 * 48 * math.log(8 / share[1]) / share[0] ** 2


@pytest.mark.parametrize("given", GRID)
def test_n0_meets_the_corollary_it_comes_from(given: Any) -> None:
    budget, sigma, tolerance, beta = given
    n = math.ceil(classic(budget, sigma).rows_pure(tolerance, beta) * (1 + 1e-12))
    plan = classic(budget, sigma, n)
    assert Overfitting(n, plan.epsilon).beyond(tolerance) <= beta * (1 + 1e-9)
    assert float(plan.epsilon) == pytest.approx(2 * budget / (sigma * n))


def test_the_second_price_of_the_lemma_is_above_what_a_gaussian_account_pays() -> None:
    plan, delta = classic(200, 0.01, 10_000), 1e-6
    assert plan.epsilon_at(delta) == pytest.approx(math.sqrt(32 * 200 * math.log(2 / delta)) / 100)
    paid = price(plan.event, Terms(rows(neighbours="replace", n=10_000), Loss.mu(10), Fraction(5), Fraction(1, 10**6)))
    assert epsilon_of(math.sqrt(paid.amount) / MICRO, delta) < plan.epsilon_at(delta)
    assert classic(1, 0.01, 10_000).epsilon_at(delta) == 2 / 100
    assert classic(10**6, 0.001, 1000).epsilon_at(0.5) == 2 * 10**6  # too large for the lemma's second-order term


def test_the_published_parameters_are_those_of_the_theorem() -> None:
    plan = Thresholdout.published(10**7, 1, 10_000, "0.05", "0.05")
    assert float(plan.threshold) == 0.0375
    assert float(plan.sigma) == pytest.approx(0.05 / (96 * math.log(4 * 10_000 / 0.05)), rel=1e-6)
    n0, n1 = (rule(0.05 / 8, 0.05 / 20_000) for rule in (plan.rows_pure, plan.rows_approximate))
    assert Thresholdout.rows_needed(1, 10_000, 0.05, 0.05) == pytest.approx(min(n0, n1), rel=1e-6)


@pytest.mark.parametrize("wrong", [(0.0, 0.05, 10), (0.05, 1.0, 10), (math.nan, 0.05, 10), (0.05, 0.05, 0)])
def test_numbers_that_make_no_sense_are_refused(wrong: tuple[float, float, int]) -> None:
    tolerance, beta, questions = wrong
    for count in (paid_answers, paid_answers_tightened):
        with pytest.raises(InvalidTask):
            count(1000, questions, tolerance, beta)
    with pytest.raises(InvalidTask):
        Thresholdout.rows_needed(1, questions, tolerance, beta)
    with pytest.raises(InvalidTask):
        Thresholdout.published(1000, 1, questions, tolerance, beta)


@pytest.mark.parametrize("wrong", [{"n": 0}, {"n": 1.5}, {"epsilon": 0}, {"epsilon": "x"}, {"delta": 1}, {"delta": -1}])
def test_a_conversation_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match=next(iter(wrong))):
        Overfitting(**{"n": 100, "epsilon": 1, **wrong})
    with pytest.raises(InvalidTask, match="chance"):
        Overfitting(100, 1).by_information(1.5)
    with pytest.raises(InvalidTask, match="tolerance"):
        Overfitting(100, 1).beyond(0)
    with pytest.raises(InvalidTask, match="budget"):
        Thresholdout.rows_needed(11, 10, 0.05, 0.05)


@pytest.mark.parametrize(
    "wrong",
    [{"budget": 10**400}, {"questions": 10**400}, {"sigma": "1e400"}, {"sigma": 1e-300}, {"threshold": "1e400"}],
)
def test_numbers_beyond_all_floats_are_refused_by_their_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match=next(iter(wrong))):
        Holdout([0, 1] * 50, mode="classic", classes=[0, 1], **wrong)


def test_the_paper_s_figures_say_who_answered() -> None:
    """Two pictures of Thresholdout: the experiment's variant, and Algorithm 1 behind the public door."""
    opened = holdout_figures.algorithm(np.arange(400) % 2 > 0)
    assert (opened.mode, opened.forecast()) == ("classic", 100)
    drawn = holdout_figures.pictures(holdout_figures.studies(400, 1, 1))
    assert [each.title.split(": ")[0] for each in drawn] == [
        "Figure 1", "Figure 2", "Figure 2", "Beside figure 2", "Figure 3", "Figure 4", "Figure 4", "Beside figure 4",
    ]  # fmt: skip
    assert [each.title.split(": ")[1] for each in drawn[1:4]] == [
        "Thresholdout, the published experiment",
        "Thresholdout, Algorithm 1",
        "a certified holdout",
    ]
    assert all(each.chart.svg().startswith("<svg") for each in drawn)
