"""What can be typed when an account is opened, and what it becomes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from steelyard.errors import InvalidTask
from steelyard.ledger import open_account
from steelyard.ledger._terms import CapGiven, differences, read_terms
from steelyard.privacy import Currency, Loss, Terms, holdout, rows


def terms(unit: Any = None, **given: Any) -> Terms:
    names = ("epsilon", "delta", "mu", "additive_delta", "nats")
    return read_terms(rows() if unit is None else unit, CapGiven(*(given.get(name) for name in names)))


def test_epsilon_alone_is_pure() -> None:
    assert terms(epsilon="0.1") == Terms(rows(), Loss.pure("0.1"), Fraction(1, 10))


def test_epsilon_and_delta_solve_for_mu_never_above() -> None:
    from steelyard.accounting._gaussian import delta_of

    made = terms(epsilon="1", delta="1e-6")
    assert (made.currency, made.delta, made.epsilon) == (Currency.GAUSSIAN, Fraction(1, 10**6), Fraction(1))
    mu = float(made.cap.value) ** 0.5
    assert delta_of(1.0, mu) <= 1e-6 < delta_of(1.0, mu + 2e-6)


def test_what_is_set_aside_leaves_less_for_the_rest() -> None:
    whole, rest = terms(epsilon="1", delta="1e-6"), terms(epsilon="1", delta="1e-6", additive_delta="4e-7")
    assert rest.cap.delta == 4 * 10**11
    assert rest.cap.amount < whole.cap.amount
    assert rest.filter_delta == Fraction(6, 10**7)
    assert rest.cap.amount == terms(epsilon="1", delta="6e-7").cap.amount


def test_nats_go_with_a_holdout() -> None:
    assert terms(holdout("h"), nats="3").cap == Loss.nats("3")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "one cap"),
        ({"epsilon": 1, "mu": 1}, "epsilon and mu"),
        ({"epsilon": 1, "nats": 1}, "epsilon and nats"),
        ({"nats": 1}, "nats go with"),
        ({"unit": holdout("h"), "epsilon": 1}, "nats go with"),
        ({"unit": holdout("h"), "nats": 1, "delta": "1e-6"}, "no delta"),
        ({"epsilon": 1, "delta": 0}, "leave it out"),
        ({"epsilon": 1, "delta": "1e-6", "additive_delta": "1e-6"}, "must be below it"),
        ({"epsilon": 1, "additive_delta": "1e-6"}, "give delta too"),
        ({"epsilon": -1}, "above zero"),
        ({"epsilon": "nan"}, "finite"),
        ({"epsilon": "1e-9"}, "below one step"),
        ({"mu": 4000}, "larger than the ledger can count"),
        ({"unit": "rows", "epsilon": 1}, "whose presence is hidden"),
    ],
)
def test_terms_that_make_no_sense_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidTask, match=message):
        terms(**given)


def test_a_cap_that_was_solved_for_may_be_solved_for_better_later() -> None:
    asked = terms(epsilon="1", delta="1e-6")
    older = Terms(asked.unit, Loss(Currency.GAUSSIAN, asked.cap.amount - 5), asked.epsilon, asked.delta)
    assert differences(asked, older) == []


def test_a_gaussian_account_reopens_with_its_own_terms() -> None:
    account = open_account(":memory:", "g", unit=rows(), epsilon="1", delta="1e-6", additive_delta="1e-7")
    again = open_account(account.location, "g", unit=rows(), epsilon=1, delta=1e-6, additive_delta=1e-7)
    assert again.terms == account.terms
