"""Plans: the known capacities, order in every argument, plain words, and refusals."""

from __future__ import annotations

import math
import re
import time
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import InvalidTask
from steelyard.holdout import Thresholdout
from steelyard.holdout import _published as published
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._modes import Frame, make_mode
from steelyard.holdout._modes._certified import CertifiedMode
from steelyard.holdout._planner import HoldoutPlan, plan
from steelyard.holdout._transfer import design, planned_width
from steelyard.ledger import open_account

NUMBER = count()

ROWS = st.integers(10, 3_000_000)
QUESTIONS = st.integers(1, 20_000)
TOLERANCES = st.floats(0.005, 0.5)
CONFIDENCES = st.sampled_from([0.5, 0.9, 0.95, 0.97, 0.99, 0.999])


def by_name(found: HoldoutPlan) -> dict[str, int]:
    return {row.name: row.questions for row in found.rows}


def test_adversarial_questions_reach_the_promised_capacity() -> None:
    assert by_name(plan(100_000, 270, 0.05))["bounded noise"] >= 880
    assert plan(100_000, 880, 0.05).possible
    assert by_name(plan(1_000_000, 28_000, 0.05))["bounded noise"] >= 92_600
    assert plan(1_000_000, 92_600, 0.05).best.name == "bounded noise"


def test_a_million_questions_fit_on_ten_thousand_rows_when_guesses_are_good() -> None:
    found = plan(10_000, 1_000_000, 0.05, guess_error=0.019)
    assert found.possible
    assert found.best.name == "certified checks"
    assert found.misses == 1
    assert not plan(10_000, 1_000_000, 0.05).possible


def no_worse(better: HoldoutPlan, worse: HoldoutPlan) -> bool:
    rows = zip(better.rows, worse.rows, strict=True)
    each = all(a.questions >= b.questions and a.half_width <= b.half_width for a, b in rows)
    return each and better.half_width <= worse.half_width and better.allowed >= worse.allowed


@settings(max_examples=8)
@given(ROWS, QUESTIONS, TOLERANCES, CONFIDENCES, st.integers(1, 500_000))
def test_more_rows_never_promise_less(n: int, k: int, tolerance: float, confidence: float, more: int) -> None:
    assert no_worse(plan(n + more, k, tolerance, confidence), plan(n, k, tolerance, confidence))


@settings(max_examples=8)
@given(ROWS, QUESTIONS, TOLERANCES, CONFIDENCES, st.integers(1, 5_000))
def test_more_questions_never_promise_more(n: int, k: int, tolerance: float, confidence: float, more: int) -> None:
    assert no_worse(plan(n, k, tolerance, confidence), plan(n, k + more, tolerance, confidence))


@settings(max_examples=8)
@given(ROWS, QUESTIONS, TOLERANCES, CONFIDENCES, st.floats(0, 0.3))
def test_a_larger_tolerance_never_allows_less(n: int, k: int, tolerance: float, confidence: float, more: float) -> None:
    assert no_worse(plan(n, k, tolerance + more, confidence), plan(n, k, tolerance, confidence))


@settings(max_examples=8)
@given(ROWS, QUESTIONS, TOLERANCES, st.floats(0.5, 0.99), st.floats(0, 0.009))
def test_more_confidence_never_promises_more(n: int, k: int, tolerance: float, confidence: float, more: float) -> None:
    assert no_worse(plan(n, k, tolerance, confidence), plan(n, k, tolerance, confidence + more))


@settings(max_examples=8)
@given(ROWS, QUESTIONS, TOLERANCES, st.floats(0, 0.2), st.floats(0, 0.2))
def test_better_guesses_never_promise_less(n: int, k: int, tolerance: float, error: float, more: float) -> None:
    better, worse = (plan(n, k, tolerance, guess_error=e) for e in (error, error + more))
    assert no_worse(better, worse)


@settings(max_examples=8)
@given(ROWS, QUESTIONS, TOLERANCES, CONFIDENCES)
def test_what_is_possible_is_what_is_allowed(n: int, k: int, tolerance: float, confidence: float) -> None:
    found = plan(n, k, tolerance, confidence)
    rounded_up = found.allowed >= k
    # Questions are counted in three digits on the safe side, so only the borderline may differ.
    assert found.possible == rounded_up or k / found.allowed == pytest.approx(1, abs=0.02)


def test_a_plan_that_cannot_be_says_what_could() -> None:
    found = plan(10_000, 500, 0.02)
    text = str(found)
    assert not found.possible
    assert "±0.02 cannot be certified" in text
    assert re.search(r"±0\.\d{4} can, by", text)
    assert plan(10_000, 500, found.half_width).possible
    assert all(row.name in text for row in found.rows)


def answers(found: HoldoutPlan) -> bool:
    """Whether the mode that a plan recommends opens with its options, and all questions are within the tolerance."""
    options, made = found.options, Fraction(str(found.tolerance))
    frame = Frame("h", found.n, 1, Fraction(1), made, Fraction(str(found.confidence)))
    mode: Any = make_mode(options.pop("mode"), frame, options)
    if not isinstance(mode, CertifiedMode):
        terms = open_account(":memory:", f"plan-{next(NUMBER)}", **mode.terms()).terms
        return bool(mode.width(terms) <= found.half_width * (1 + 1e-9))
    surprises = 0 if found.best.name == "certified checks" else found.questions - 1
    return mode.price(found.questions, surprises) * 10**6 <= mode.nats


@pytest.mark.parametrize("questions", [1, 3, 7, 20, 50, 91, 150, 400])
def test_the_width_that_is_printed_or_handed_out_opens(questions: int) -> None:
    """Rounded to the nearest digit, half of all printed widths would be refused."""
    for found in (plan(n, questions, 0.001, 0.8, None, "0.01") for n in (199, 5_000, 41_000)):
        printed = re.search(r"±(0\.\d+) can, by", str(found))
        assert (printed is None) == (found.half_width > 0.9999)
        for width in [] if printed is None else [found.half_width, float(printed[1])]:
            offered = plan(found.n, questions, width, 0.8, None, "0.01")
            assert offered.possible
            assert answers(offered)


def test_where_nothing_can_be_certified_nothing_is_offered() -> None:
    assert "Nothing can; within ±0.5 at most 0" in str(plan(2, 100, 0.5))


GRID = [
    (n, questions, tolerance)
    for n in (300, 10_000, 100_000, 1_000_000)
    for questions, tolerance in ((1, 0.2), (3, 0.1), (60, 0.05), (5_000, 0.05), (93_100, 0.0502))
]


@pytest.mark.parametrize(("n", "questions", "tolerance"), GRID)
def test_what_a_plan_recommends_opens_and_so_does_what_it_offers_instead(
    n: int, questions: int, tolerance: float
) -> None:
    found = plan(n, questions, tolerance)
    instead = [plan(n, questions, round(found.half_width * 1.001 + 1e-6, 6))] if found.half_width < 0.99 else []
    if found.allowed:
        instead.append(plan(n, found.allowed, tolerance))
    for each in [found] if found.possible else instead:
        assert each.possible
        assert answers(each)


@pytest.mark.slow
@settings(max_examples=300)
@given(ROWS, st.integers(1, 100_000), TOLERANCES, CONFIDENCES, st.sampled_from([None, 0.0, 0.01]))
def test_whatever_a_plan_recommends_opens(n: int, k: int, tolerance: float, confidence: float, error: Any) -> None:
    found = plan(n, k, round(tolerance, 6), confidence, error)
    assert not found.possible or answers(found)


@pytest.mark.parametrize(("n", "questions", "tolerance"), [(10_000, 7, 0.05), (2_000, 3, 0.1)])
def test_a_recommended_holdout_answers_every_question_within_the_tolerance(
    n: int, questions: int, tolerance: float
) -> None:
    """All of them surprises, at the score where intervals are widest."""
    found = plan(n, questions, tolerance)
    assert found.best.best_at == "certified"
    hold = Holdout(np.arange(n) % 2, tolerance=tolerance, **found.options)
    for turn in range(questions):
        answer = hold.check(np.roll(np.arange(n) % 4 < 2, turn), guess=0.95)
        assert answer.kind == "paid"
        assert answer.high is not None
        assert answer.high - float(answer.value or 0) <= tolerance


def test_a_plan_for_bounded_noise_opens_at_the_usual_delta() -> None:
    """The twin: with the slack that a bound on the transform's Euclidean error has, no price at this delta is left."""
    found = plan(1_000_000, 92_600, 0.05)
    assert found.options == {"mode": "private", "questions": 92_600, "noise": "bounded", "delta": "0.000001"}
    assert answers(found)
    chosen = design(1_000_000, 92_600, 0.05, 5e-7)
    assert chosen is not None
    assert chosen.noise.curve.infinite < 4e-8
    assert not replace(chosen.noise.curve, infinite=1.1e-6).epsilon(5e-7) < math.inf


def test_a_plan_recommends_no_method_that_is_there_for_comparison() -> None:
    found = plan(100_000, 60, 0.05)
    assert all(row.origin == "ours" or not row.best_at or row.valid_for != "any questions" for row in found.rows)
    assert found.best.best_at
    assert f"questions={found.questions}" in str(found)


@pytest.mark.parametrize("questions", [10, 10_000])
def test_thresholdout_is_a_row_of_a_plan_as_its_theorem_says(questions: int) -> None:
    """Its width is the tolerance at which Theorem 3.3 asks for these rows, to the planner's digits."""
    found = plan(10**9, questions, 0.05)
    rows = {row.name: row for row in found.rows}
    for name, budget in (("Thresholdout, all paid", questions), ("Thresholdout", 1)):
        needed = Thresholdout.rows_needed(budget, questions, rows[name].half_width, 0.05)
        assert 10**9 / 1.01 < needed <= 10**9
        assert (rows[name].origin, rows[name].best_at) == ("published", "")
    most = rows["Thresholdout, all paid"].questions
    assert Thresholdout.rows_needed(most, most, 0.05, 0.05) <= 10**9
    assert Thresholdout.rows_needed(2 * most, 2 * most, 0.05, 0.05) > 10**9
    assert found.best.half_width < rows["Thresholdout"].half_width


def test_thresholdout_needs_guesses_within_three_eighths_of_its_tolerance() -> None:
    rows = [{row.name: row for row in plan(10**8, 100, 0.05, guess_error=e).rows} for e in (0.0, 0.018, 0.019)]
    assert [row["Thresholdout"].questions > 0 for row in rows] == [True, True, False]
    assert [row["Thresholdout"].half_width <= 0.05 for row in rows] == [True, True, False]


def test_a_plan_draws_itself() -> None:
    drawn = plan(100_000, 100, 0.05).chart()
    assert "bounded noise" in drawn.svg()


def test_the_name_of_the_package_leads_to_the_function() -> None:
    holdout: Any = import_module("steelyard.holdout")
    assert holdout.plan(1000, 3, 0.2).best.half_width <= 0.2


@pytest.mark.parametrize(
    "asked",
    [
        (123_000, 321, 0.0456, 0.93),
        (1_000_000, 27_900, 0.051, 0.96),
        (999_000, 990_000, 0.05),
        (68_182, 12_499, 0.2, 0.9),
    ],
)
def test_a_plan_takes_a_tenth_of_a_second(asked: tuple[int, int, float]) -> None:
    started = time.process_time()
    plan(*asked)
    assert time.process_time() - started < 0.4  # a busy machine counts more than a quiet one; there it is below 0.1


def test_few_questions_and_no_room_for_error_keep_their_order() -> None:
    for n, beta in ((3_000, 1e-6), (40_000, 0.001), (200_000, 0.01)):
        widths = [planned_width(n, k, beta, 0.01) for k in (1, 2, 3, 5, 8, 20, 50, 60, 100)]
        assert widths == sorted(widths)
        assert widths[0] < widths[-1] / 1.5


def test_a_step_in_a_published_bound_breaks_no_order() -> None:
    """One more copy of the conversation at a beta just below a half or a tenth must not promise more."""
    for beta in (0.5, 0.1, 0.05):
        assert published.bassily(10**6, 5, beta * 1.001) <= published.bassily(10**6, 5, beta)
        assert published.bassily(10**6, 5, beta) <= published.bassily(10**6, 5, beta * 0.999)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": 0},
        {"n": True},
        {"n": 1.5},
        {"questions": 0},
        {"questions": -3},
        {"tolerance": 0.0},
        {"tolerance": 1.0},
        {"tolerance": math.nan},
        {"confidence": 0.0},
        {"confidence": 1.0},
        {"confidence": math.nan},
        {"confidence": 1 - 1e-15},
        {"guess_error": -0.1},
        {"guess_error": math.nan},
        {"delta": 0},
        {"delta": 1},
    ],
)
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    given_numbers: dict[str, Any] = {"n": 1000, "questions": 3, "tolerance": 0.1, "confidence": 0.95}
    with pytest.raises(InvalidTask, match=next(iter(wrong))):
        plan(**{**given_numbers, **wrong})
