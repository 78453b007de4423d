"""CertifiedMode checks: what is shown, what it costs, and four twins that show or forget too much."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InvalidTask
from steelyard.holdout._answer import Answer
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._intervals import Rounding, Window
from steelyard.holdout._modes import Frame, Query
from steelyard.holdout._modes._certified import CertifiedMode
from steelyard.holdout._questions import Counter
from steelyard.ledger import open_account
from steelyard.privacy import holdout as unit_of


def frame(rows: int = 10_000, tolerance: str = "0.05", beta: str = "0.05") -> Frame:
    return Frame("h", rows, 1, Fraction(1), Fraction(tolerance), 1 - Fraction(beta))


def coins(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 2, n).astype(bool)


# --- what the nats count -------------------------------------------------------------------------------------------


def kraft_sum(price: Callable[[int, int], float], values: int, most: int) -> float:
    """The chance that any of the first ``most`` questions is certified wrongly, over all histories."""
    total = 0.0
    for number in range(1, most + 1):
        for history in itertools.product((0, 1), repeat=number - 1):
            total += values ** sum(history) * math.exp(-price(number, sum(history)))
    return total


@pytest.mark.parametrize("questions", [None, 8])
@pytest.mark.parametrize("steps", [1, 3, 20])
def test_the_levels_of_all_histories_sum_to_at_most_beta(steps: int, questions: int | None) -> None:
    mode = CertifiedMode(frame(tolerance="0.8", beta="0.5"), steps=steps, questions=questions)
    assert kraft_sum(mode.price, steps + 1, 8) <= 0.5


def test_the_same_sum_catches_a_price_that_forgets_the_grid() -> None:
    mode = CertifiedMode(frame(tolerance="0.8", beta="0.5"), steps=20)
    forgetful = lambda asked, paid: mode.price(asked, paid) - paid * math.log(21)  # noqa: E731
    assert kraft_sum(forgetful, 21, 8) > 0.5


@given(st.integers(0, 3000), st.integers(0, 3000), st.sampled_from([1, 7]))
def test_the_price_never_falls(asked: int, paid: int, steps: int) -> None:
    mode = CertifiedMode(frame(tolerance="0.8"), steps=steps)
    here = mode.price(asked, paid)
    assert mode.price(asked + 1, paid) >= here
    assert mode.price(asked, paid + 1) >= here


# --- what is shown -------------------------------------------------------------------------------------------------


def shown_by(answer: Callable[[int], object], whole: int) -> int:
    return len({answer(total) for total in range(whole + 1)})


def test_a_paid_answer_is_one_of_exactly_as_many_things_as_were_paid_for() -> None:
    for rows, steps in ((100, 10), (97, 13), (400, 150)):
        rounding = Rounding(rows, 1, steps)
        assert shown_by(lambda total, r=rounding: r.shown(r.nearest(total), 9.0), rows) <= steps + 1  # type: ignore[misc]


def test_a_grid_chosen_after_seeing_the_score_is_caught() -> None:
    def eager(total: int) -> object:
        steps = 10 if total % 2 else 7
        rounding = Rounding(100, 1, steps)
        return rounding.shown(rounding.nearest(total), 9.0)

    assert shown_by(eager, 100) > 11


@given(st.integers(0, 200), st.integers(1, 200), st.floats(1, 60))
def test_an_interval_made_from_a_cell_covers_the_interval_of_every_score_in_it(
    total: int, steps: int, nats: float
) -> None:
    rounding = Rounding(200, 1, steps)
    value, low, high = rounding.shown(rounding.nearest(total), nats)
    exact_low, exact_high = rounding.interval(total, nats)
    assert low <= exact_low <= exact_high <= high
    assert abs(value - Fraction(total, 200)) <= Fraction(1, 2 * steps)
    first, last = rounding.cell(rounding.nearest(total))
    assert first <= total <= last


@given(st.integers(0, 500), st.fractions(0, 1), st.floats(1, 40), st.sampled_from([1, 1000]))
def test_a_guess_is_free_only_where_the_interval_lies_within_the_tolerance(
    total: int, guess: Fraction, nats: float, scale: int
) -> None:
    rounding, window = Rounding(500, scale, 50), Window(guess, Fraction(1, 10))
    low, high = rounding.interval(total * scale, nats)
    inside = (window.low <= 0 or low >= window.low) and (window.high >= 1 or high <= window.high)
    free = rounding.within(total * scale, nats, window)
    assert free == inside or (
        free and low >= window.low - Fraction(1, 10**6) and high <= window.high + Fraction(1, 10**6)
    )


@pytest.mark.parametrize(("rows", "tolerance"), [(1000, "0.05"), (3000, "0.05"), (10_000, "0.02")])
def test_every_paid_answer_is_within_the_tolerance_until_the_nats_are_gone(rows: int, tolerance: str) -> None:
    mode = CertifiedMode(frame(rows, tolerance))
    rounding = Rounding(rows, 1, mode.steps)
    widest = max(rounding.half_width(place, mode.nats / 10**6) for place in range(mode.steps + 1))
    assert 0.9 * float(tolerance) < widest <= float(tolerance)


def test_declared_scores_allow_more_nats() -> None:
    assert CertifiedMode(frame(), between=("0.9", 1)).nats > 2 * CertifiedMode(frame()).nats
    with pytest.raises(InvalidTask, match="between"):
        CertifiedMode(frame(), between=("0.9", "0.1"))


def test_a_tolerance_that_cannot_be_certified_is_refused_with_one_that_can() -> None:
    with pytest.raises(InvalidTask, match=r"even one question needs 0\.053") as refused:
        CertifiedMode(frame(1000, "0.02"))
    assert "7,030 rows" in str(refused.value)
    assert CertifiedMode(frame(1000, "0.053")).nats > 0
    assert CertifiedMode(frame(7030, "0.02")).nats > 0


# --- twins that leak -----------------------------------------------------------------------------------------------


def voting_attack(holdout: Holdout, n: int, questions: int, seed: int) -> Answer:
    """Ask about coin flips, vote by whatever the answers show, and ask about the vote. The truth is 1/2 throughout."""
    rng, votes = np.random.default_rng(seed), np.zeros(n)
    for _ in range(questions):
        flips = rng.integers(0, 2, n).astype(bool)
        answer = holdout.check(flips, guess=0.5)
        assert answer.low is not None
        assert answer.high is not None
        votes += np.where(flips, 1, -1) * np.sign((answer.low + answer.high) / 2 - 0.5)
    return holdout.check(votes + rng.random(n) / 2 > 0.25, guess=0.5)


def covers(answer: Answer) -> bool:
    return answer.low is not None and answer.high is not None and answer.low <= 0.5 <= answer.high


class Chatty(CertifiedMode):
    """A twin whose free answers show the interval of the score."""

    def _answer(self, question: Query, counter: Counter) -> Answer | None:
        answer = super()._answer(question, counter)
        if answer is None or answer.kind != "free":
            return answer
        low, high = self._rounding.interval(question.total(), counter.nats)
        return self.frame.answer((low + high) / 2, low, high, "free")


def with_mode(holdout: Holdout, mode: type[CertifiedMode]) -> Holdout:
    holdout._mode = mode(holdout.frame)
    return holdout


def test_free_answers_give_an_attacker_nothing() -> None:
    labels = coins(5000, 1)
    assert covers(voting_attack(Holdout(labels, tolerance=0.08), 5000, 500, 2))


def test_an_answer_that_shows_its_interval_certifies_nonsense_on_coin_flips() -> None:
    labels = coins(5000, 1)
    answer = voting_attack(with_mode(Holdout(labels, tolerance=0.08), Chatty), 5000, 500, 2)
    assert not covers(answer)
    assert (answer.value or 0) > 0.58


# --- refusal is for good ---------------------------------------------------------------------------------------------


def exhaust(holdout: Holdout, n: int) -> int:
    """Ask without a guess until refused; how many were answered."""
    for count in itertools.count():
        if holdout.check(coins(n, count)).kind == "refused":
            return count
    raise AssertionError


def stays_refused(holdout: Holdout, labels: Any) -> bool:
    n = len(labels)
    exhaust(holdout, n)
    return all(holdout.check(labels ^ coins(n, 900 + i), guess=0.5).kind == "refused" for i in range(20))


def generous(labels: Any) -> Holdout:
    """A holdout whose account has far more nats than the tolerance allows, so that no ledger stops a twin."""
    return Holdout(labels, account=open_account(":memory:", "h", unit=unit_of("h"), nats=10_000))


class Forgiving(Counter):
    """A twin that forgets that it refused."""

    def take(self) -> bool:
        taken = super().take()
        if not taken:
            self.closed, self._over = False, False
            self._cap += 10**8
        return taken


def test_a_refusal_is_for_good_even_for_questions_that_would_be_free() -> None:
    labels = coins(3000, 3)
    assert stays_refused(generous(labels), labels)


def test_a_refusal_that_is_not_for_good_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = coins(3000, 3)
    monkeypatch.setattr("steelyard.holdout._questions.Counter", Forgiving)
    assert not stays_refused(generous(labels), labels)


def test_the_forecast_is_how_many_surprises_are_answered() -> None:
    holdout = Holdout(coins(10_000, 4))
    promised = holdout.forecast()
    assert promised >= 6
    assert exhaust(holdout, 10_000) == promised
    assert holdout.forecast() == 0


def test_a_grid_coarser_than_the_tolerance_is_refused() -> None:
    with pytest.raises(InvalidTask, match="rounds by more than the tolerance"):
        CertifiedMode(frame(), steps=5)


def test_declaring_the_number_of_questions_makes_each_cheaper_and_ends_after_them() -> None:
    labels = coins(10_000, 5)
    holdout = Holdout(labels, questions=1_000_000)
    assert holdout.forecast() >= 3
    few = Holdout(labels, questions=3)
    kinds = [few.check(coins(10_000, 50 + i), guess=0.5).kind for i in range(5)]
    assert kinds == ["free"] * 3 + ["refused"] * 2
