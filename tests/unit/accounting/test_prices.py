"""Every rule by which an event becomes a cost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.accounting._gaussian import mu_cap
from steelyard.accounting._prices import log_above, price
from steelyard.accounting._pure import pure_to_mu
from steelyard.errors import CurrencyMismatch, NeighbourMismatch, OurBug
from steelyard.privacy import ATTO, MICRO, Currency, Event, Loss, Neighbours, Terms, canonical, holdout, labels, rows

DELTA = Fraction(1, 10**6)
PURE = Terms(rows(), Loss.pure(10), Fraction(10))
GAUSS = Terms(rows(), mu_cap(Fraction(1), DELTA), Fraction(1), DELTA)
REPLACE = Terms(rows(neighbours="replace", n=100), Loss.pure(10), Fraction(10))
REPLACE_GAUSS = Terms(rows(neighbours="replace", n=100), Loss.mu(10), Fraction(10), DELTA)
LABELS = Terms(labels("y"), Loss.pure(10), Fraction(10))
SET_ASIDE = Terms(rows(), Loss(Currency.GAUSSIAN, 10**12, ATTO // 10**7), Fraction(1), DELTA)


def laplace(sensitivity: int = 1, scale: Fraction = Fraction(3), **more: Any) -> Event:
    given = {"sensitivity": sensitivity, "scale_numerator": scale.numerator, "scale_denominator": scale.denominator}
    neighbours = more.pop("neighbours", Neighbours.ADD_REMOVE)
    return Event("laplace", {**given, **more}, neighbours)


def gaussian(**more: Any) -> Event:
    neighbours = more.pop("neighbours", Neighbours.ADD_REMOVE)
    return Event("gaussian", {"sensitivity": 2, "sigma_numerator": 7, "sigma_denominator": 1, **more}, neighbours)


def test_a_laplace_step_costs_sensitivity_over_scale_rounded_up() -> None:
    assert price(laplace(), PURE) == Loss(Currency.PURE, 333_334)


def test_a_pure_step_on_a_gaussian_account_costs_its_tight_mu() -> None:
    assert price(laplace(), GAUSS) == Loss(Currency.GAUSSIAN, pure_to_mu(Fraction(1, 3)) ** 2)


def test_a_gaussian_step_costs_mu_squared_rounded_up() -> None:
    assert price(gaussian(), GAUSS) == Loss(Currency.GAUSSIAN, -(-4 * 10**12 // 49))


def test_a_known_square_is_priced_without_its_root() -> None:
    event = Event("gaussian", {"sensitivity_squared": 2, "sigma_numerator": 3, "sigma_denominator": 2})
    assert price(event, GAUSS).value == pytest.approx(8 / 9, abs=1e-12)


def test_a_gaussian_step_on_a_pure_account_is_refused() -> None:
    with pytest.raises(CurrencyMismatch, match="delta"):
        price(gaussian(), PURE)


def test_an_add_remove_step_costs_double_where_units_are_replaced() -> None:
    assert price(laplace(scale=Fraction(4)), REPLACE) == Loss.pure("0.5")
    assert price(laplace(scale=Fraction(4)), LABELS) == Loss.pure("0.5")
    assert price(laplace(scale=Fraction(4)), REPLACE_GAUSS).amount == pure_to_mu(Fraction(1, 2)) ** 2
    assert price(gaussian(), REPLACE_GAUSS).amount == -(-16 * 10**12 // 49)


def test_a_step_for_the_accounts_own_relation_is_not_doubled() -> None:
    own = laplace(scale=Fraction(4), neighbours=Neighbours.REPLACE)
    assert price(own, REPLACE) == Loss.pure("0.25")
    assert price(own, LABELS) == Loss.pure("0.25")


@pytest.mark.parametrize("neighbours", [Neighbours.REPLACE, Neighbours.CHANGE_LABEL])
def test_a_weaker_relation_is_refused_on_an_add_remove_account(neighbours: Neighbours) -> None:
    with pytest.raises(NeighbourMismatch):
        price(laplace(neighbours=neighbours), PURE)
    with pytest.raises(NeighbourMismatch):
        price(laplace(neighbours=Neighbours.CHANGE_LABEL), REPLACE)


def test_a_failure_probability_is_charged_only_where_some_delta_is_set_aside() -> None:
    event = gaussian(failure_atto=ATTO // 10**9)
    assert price(event, SET_ASIDE) == Loss(Currency.GAUSSIAN, -(-4 * 10**12 // 49), ATTO // 10**9)
    with pytest.raises(CurrencyMismatch, match="additive_delta"):
        price(event, GAUSS)
    with pytest.raises(NeighbourMismatch):
        price(event, Terms(REPLACE.unit, SET_ASIDE.cap, Fraction(1), DELTA))


def test_composed_prices_add() -> None:
    parts = [laplace(), gaussian(), laplace(scale=Fraction(5))]
    text = canonical([part.to_json() for part in parts]).decode()
    total = price(Event("composed", {"events": text}), GAUSS)
    assert total == price(parts[0], GAUSS) + price(parts[1], GAUSS) + price(parts[2], GAUSS)


def test_an_above_threshold_row_costs_more_when_it_is_not_monotone() -> None:
    given = {
        "sensitivity": 3,
        "threshold_scale_numerator": 30,
        "threshold_scale_denominator": 1,
        "question_scale_numerator": 60,
        "question_scale_denominator": 1,
        "stops": 2,
    }
    assert price(Event("above_threshold", {**given, "monotone": 0}), PURE) == Loss.pure("0.3")
    assert price(Event("above_threshold", {**given, "monotone": 1}), PURE) == Loss.pure("0.2")


def test_paths_are_priced_at_the_level_they_carry() -> None:
    given: dict[str, int | str | list[int]] = {"sensitivity": 1, "scale_numerator": 4, "scale_denominator": 1}
    assert price(Event("laplace_path", given), PURE) == Loss.pure("0.25")
    path = Event("gaussian_path", {"sensitivity_squared": 2, "precision_numerator": 1, "precision_denominator": 8})
    assert price(path, GAUSS).value == Fraction(1, 4)


def test_a_choice_costs_its_epsilon_and_a_table_the_log_of_its_ratio() -> None:
    choice = Event("exponential", {"epsilon_numerator": 1, "epsilon_denominator": 7})
    assert price(choice, PURE).amount == 142_858
    table = Event("finite", {"ratio_numerator": 3, "ratio_denominator": 1}, Neighbours.CHANGE_LABEL)
    assert price(table, LABELS).amount == 1_098_613


@pytest.mark.parametrize("ratio", ["1", "1.0000001", "2.718281828459045", "1e40", "7/3"])
def test_a_logarithm_is_rounded_up_by_less_than_a_micro(ratio: str) -> None:
    with mpmath.workdps(100):
        truth = mpmath.log(mpmath.mpf(Fraction(ratio).numerator) / Fraction(ratio).denominator)
        bound = log_above(Fraction(ratio))
        assert 0 <= mpmath.mpf(bound.numerator) / bound.denominator - truth < mpmath.mpf(1) / MICRO


def test_what_has_no_price_is_our_bug() -> None:
    for event in (
        Event("unheard of"),
        Event("laplace", {"sensitivity": 1}),
        Event("finite", {"ratio_numerator": 1, "ratio_denominator": 2}, Neighbours.ADD_REMOVE),
        laplace(failure_atto=-1),
        laplace(scale_numerator=-3),
        laplace(scale_numerator=0),
        laplace(sensitivity=1.5),  # type: ignore[arg-type]
        Event("composed"),
        Event("composed", {"events": "no json"}),
    ):
        with pytest.raises(OurBug):
            price(event, PURE)


WIDTHS = {
    "laplace": "scale",
    "laplace_path": "scale",
    "gaussian": "sigma",
    "gaussian_steps": "sigma",
    "thresholdout": "scale",
}
WIDTHS |= {
    "above_threshold": "threshold_scale",
    "objective": "ridge",
    "objective_users": "ridge",
    "objective_pure": "ridge",
}


def sold(name: str, ask: Callable[[Event, Terms], object] = price) -> set[object]:
    """What is asked for a step whose noise is over nothing wide; empty where every one of them is refused."""
    told: dict[str, Any] = {"sensitivity": 1, "times": 3, "budget": 2, "stops": 1, "monotone": 0, "shift_micro": MICRO}
    told |= {
        "mu_micro": 10**9,
        "output_micro": 1,
        "extra_micro": 1,
        "question_scale": Fraction(9),
        "scale": Fraction(1, 4),
    }
    event, found = Event.of(name, **{**told, WIDTHS[name]: Fraction(9)}), set()
    assert price(event, GAUSS).amount > 0
    for nothing in (0, False):
        for terms in (PURE, GAUSS):
            with contextlib.suppress(OurBug, CurrencyMismatch):
                found.add(
                    ask(replace(event, parameters={**event.parameters, f"{WIDTHS[name]}_denominator": nothing}), terms)
                )
    return found


@pytest.mark.parametrize("name", WIDTHS)
def test_noise_that_is_wide_over_nothing_is_not_sold(name: str) -> None:
    assert not sold(name)


def test_a_width_that_is_turned_upside_down_before_it_is_looked_at_is_caught() -> None:
    def upside_down(event: Event, _: Terms) -> object:
        told: Any = event.parameters
        return told["sensitivity"] * Fraction(told["scale_denominator"], told["scale_numerator"])

    assert sold("laplace", upside_down) == {Fraction(0)}


@given(st.fractions(), st.integers())
def test_a_fraction_is_read_back_from_an_event_as_it_was_given(part: Fraction, whole: int) -> None:
    event = Event.of("odd", Neighbours.REPLACE, part=part, whole=whole, text="t")
    assert Event.from_json(event.to_json()) == event
    assert (event.fraction("part"), event.parameters["whole"], event.parameters["text"]) == (part, whole, "t")
    assert "part" not in event.parameters


def test_a_validity_account_sells_no_privacy() -> None:
    with pytest.raises(CurrencyMismatch):
        price(laplace(), Terms(holdout("h"), Loss.nats(3)))
