from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import CurrencyMismatch, InvalidTask
from steelyard.privacy import (
    MICRO,
    Currency,
    Event,
    Loss,
    Neighbours,
    Status,
    Terms,
    Unit,
    canonical,
    decimal_text,
    exact,
    holdout,
    labels,
    positive,
    probability,
    rows,
    users,
    whole_number,
    written,
)
from steelyard.release import Guarantee


@pytest.mark.parametrize("typed", [0.1, "0.1", Decimal("0.1"), Fraction(1, 10), "1/10", " 0.10 ", "1e-1"])
def test_a_number_is_the_decimal_that_was_typed(typed: float | str | Decimal | Fraction) -> None:
    assert exact(typed, "epsilon") == Fraction(1, 10)


@pytest.mark.parametrize(
    "bad", ["abc", "", "nan", float("nan"), float("inf"), "-inf", None, True, "1/0", "1e999999999"]
)
def test_what_is_no_finite_number_is_refused_by_name(bad: object) -> None:
    with pytest.raises(InvalidTask, match="epsilon"):
        exact(bad, "epsilon")  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0, -1, "-0.5", "0"])
def test_a_budget_must_be_above_zero(bad: int | str) -> None:
    with pytest.raises(InvalidTask, match="above zero"):
        positive(bad, "epsilon")


@pytest.mark.parametrize("bad", [1, 1.5, -0.1])
def test_a_delta_lies_in_zero_to_one(bad: float) -> None:
    with pytest.raises(InvalidTask, match="delta"):
        probability(bad, "delta")


def test_what_is_asked_for_rounds_down() -> None:
    assert Loss.pure("0.1000009").amount == 100_000
    assert Loss.mu("0.1000009").amount == 100_000**2


def test_what_is_below_one_step_is_refused() -> None:
    with pytest.raises(InvalidTask, match="below one step"):
        Loss.pure("0.0000009")


@given(st.fractions(min_value=0, max_value=1000))
def test_a_computed_cost_rounds_up(epsilon: Fraction) -> None:
    for currency in (Currency.PURE, Currency.GAUSSIAN):
        cost = Loss.cost(currency, epsilon)
        assert cost.value >= epsilon
        assert cost.value - epsilon < Fraction(1, MICRO)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=20))
def test_losses_add_without_rounding(amounts: list[int]) -> None:
    total = sum((Loss(Currency.PURE, a) for a in amounts), Loss.zero(Currency.PURE))
    assert total.amount == sum(amounts)


def test_currencies_do_not_mix() -> None:
    with pytest.raises(CurrencyMismatch):
        Loss.pure(1) + Loss.mu(1)
    with pytest.raises(CurrencyMismatch):
        assert Loss.pure(1) <= Loss.mu(1)


def test_a_loss_is_never_negative() -> None:
    with pytest.raises(InvalidTask):
        Loss.pure(1) - Loss.pure(2)


def test_a_smaller_delta_does_not_make_up_for_a_larger_amount() -> None:
    assert not Loss(Currency.GAUSSIAN, 5, 1) <= Loss(Currency.GAUSSIAN, 4, 2)
    assert not Loss(Currency.GAUSSIAN, 4, 3) <= Loss(Currency.GAUSSIAN, 5, 2)


def test_units_say_whose_presence_is_hidden() -> None:
    assert "user_id" in str(users("user_id"))
    assert "added or removed" in str(rows())
    assert "n = 10" in str(rows(neighbours="replace", n=10))
    assert str(users("u", neighbours="replace", n=10)) == "all rows of one value of 'u', replaced (n = 10 is public)"
    assert "changed" in str(labels("y"))
    assert "holdout" in str(holdout("test"))


@pytest.mark.parametrize(
    "arguments", [{"neighbours": "replace"}, {"neighbours": "replace", "n": 0}, {"n": 5}, {"neighbours": "swap"}]
)
def test_units_ask_for_a_public_n_exactly_when_neighbours_replace(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidTask):
        rows(**arguments)  # type: ignore[arg-type]
    with pytest.raises(InvalidTask):
        users("u", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [users, labels, holdout])
def test_a_unit_needs_a_name(make: object) -> None:
    with pytest.raises(InvalidTask):
        make("")  # type: ignore[operator]


UNITS = [
    users("u"),
    users("u", neighbours="replace", n=3),
    rows(),
    rows(neighbours="replace", n=3),
    labels("y"),
    holdout("h"),
]


@pytest.mark.parametrize("unit", UNITS)
def test_nouns_survive_json(unit: Unit) -> None:
    terms = Terms(unit, Loss(Currency.GAUSSIAN, 9, 4), Fraction(1, 3), Fraction(1, 10**6))
    assert Unit.from_json(unit.to_json()) == unit
    assert Terms.from_json(terms.to_json()) == terms
    event = Event("laplace", {"sensitivity": 2}, Neighbours.REPLACE, Status.UNREVIEWED)
    assert Event.from_json(event.to_json()) == event
    promise = Guarantee(unit, Loss.pure(1), "1", "0")
    assert Guarantee.from_json(promise.to_json()) == promise


def test_a_guarantee_is_a_sentence_fit_to_publish() -> None:
    promise = Guarantee(users("user_id"), Loss.pure("0.5"), "2", "0")
    assert str(promise) == (
        "2-differential privacy for the whole account, of which this release spent epsilon 0.5. "
        "Hidden: all rows of one value of 'user_id', added or removed. Status of this release: proved."
    )
    assert "(1, 0.000001)" in str(Guarantee(rows(), Loss.mu("0.2"), "1", "0.000001"))
    assert "ex post" in str(Guarantee(rows(), Loss.pure(1), "1", "0", "ex-post"))


def test_test_noise_promises_nothing_whatever_else_is_true() -> None:
    promise = Guarantee(rows(), Loss.pure(1), "1", "0", status=Status.TEST_NOISE)
    assert "NO GUARANTEE" in str(promise)


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_decimal_text_is_close_and_short(value: Fraction) -> None:
    assert math.isclose(float(decimal_text(value)), float(value), rel_tol=1e-11)


def test_canonical_bytes_do_not_depend_on_the_order_of_keys() -> None:
    assert canonical({"b": 1, "a": [1, 2]}) == canonical({"a": [1, 2], "b": 1}) == b'{"a":[1,2],"b":1}'
    with pytest.raises(ValueError, match="JSON"):
        canonical({"a": float("nan")})


@pytest.mark.parametrize(
    "value", ["1e99999999", "1e3", "0.5", " 1", "1_0", "+1", "1/0", "1/-2", "", "٣", "9" * 1001, 1, 1.0, True, None]
)
def test_a_number_in_a_document_is_a_bounded_text_of_digits(value: object) -> None:
    with pytest.raises(InvalidTask):
        written(value, "a number")


@pytest.mark.parametrize("value", [10**4000, "1" * 1001, "0." + "1" * 1001, "1e99999999", "1e-99999999"])
def test_a_number_too_long_to_be_meant_is_refused_at_once(value: int | str) -> None:
    with pytest.raises(InvalidTask):
        exact(value, "epsilon")


@pytest.mark.parametrize(
    "text", ["１", "٣", "1_000", "1 000", "0x10", "nan", "inf", "1e", "", "1.2.3", "1,5", "½", "1e99999999"]
)
def test_a_number_is_written_in_the_digits_zero_to_nine(text: str) -> None:
    with pytest.raises(InvalidTask):
        exact(text, "epsilon")
    with pytest.raises(InvalidTask):
        whole_number(text)


@pytest.mark.parametrize(
    ("text", "value"), [("0.5", "1/2"), (" 3 ", "3"), ("+1e-3", "1/1000"), ("1/3", "1/3"), (".5", "1/2")]
)
def test_a_number_is_decimal_or_a_ratio(text: str, value: str) -> None:
    assert exact(text, "epsilon") == Fraction(value)


def test_numbers_without_end_are_refused_at_once() -> None:
    for value in (10**5000, "9" * 5000, "1e-5000", float("nan"), Decimal("inf")):
        with pytest.raises(InvalidTask):
            exact(value, "epsilon")
