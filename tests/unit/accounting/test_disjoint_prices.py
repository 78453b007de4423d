"""Steps on two disjoint parts of the units: together they cost the dearer part, exactly, and never less."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.accounting import disjoint, paid_apart, price
from steelyard.errors import CurrencyMismatch, OurBug
from steelyard.mechanisms import Gaussian, Laplace, sigma_for
from steelyard.privacy import Currency, Event, Loss, Neighbours, Terms, Unit, rows

MOVES = 12_345
PARTS = ("these", "those")


def terms(unit: Unit, currency: Currency = Currency.GAUSSIAN) -> Terms:
    return Terms(unit, Loss(currency, 10**14), Fraction(8), Fraction(1, 10**6))


def step(cost: int) -> Event:
    return Gaussian(MOVES, sigma_for(MOVES**2, cost)).event


def walk(costs: list[tuple[str, int]]) -> tuple[list[Event], dict[str, int]]:
    spent, events = dict.fromkeys(PARTS, 0), []
    for part, cost in costs:
        events.append(disjoint(step(cost), part, spent))
        spent[part] += cost
    return events, spent


@given(st.lists(st.tuples(st.sampled_from(PARTS), st.integers(1, 10**11)), min_size=1, max_size=12))
def test_steps_together_cost_the_dearer_part_and_a_unit_for_each_that_raises_it_by_nothing(
    costs: list[tuple[str, int]],
) -> None:
    events, spent = walk(costs)
    charged = [price(event, terms(rows())).amount for event in events]
    top, free = 0, 0
    for k in range(len(costs)):
        reached = max(sum(cost for part, cost in costs[: k + 1] if part == name) for name in PARTS)
        free += reached == top
        top = reached
    assert sum(charged) == max(spent.values()) + free
    assert min(charged) >= 1


@given(st.lists(st.tuples(st.sampled_from(PARTS), st.integers(1, 10**11)), min_size=1, max_size=8))
def test_where_units_are_replaced_such_a_step_is_paid_fourfold_which_covers_both_parts(
    costs: list[tuple[str, int]],
) -> None:
    events, spent = walk(costs)
    swapped = terms(rows(neighbours="replace", n=9))
    charged = sum(price(event, swapped).amount for event in events)
    assert charged >= 4 * max(spent.values()) >= sum(spent.values())


@pytest.mark.parametrize(
    "change",
    [
        {"those_after": 1},
        {"these_before": 1},
        {"these_after": 5 * 10**6 - 1},
        {"these_after": 5 * 10**6 + 1},
        {"these_before": 10**7, "these_after": 10**7 - 5 * 10**6},
        {"those_before": -1, "those_after": -1},
        {"these_after": "5000000"},
        {"more": 1},
        {"third_before": 0, "third_after": 0},
    ],
)
def test_numbers_that_do_not_fit_the_step_are_refused(change: dict[str, int | str]) -> None:
    good = disjoint(step(5 * 10**6), "these", dict.fromkeys(PARTS, 0))
    assert price(good, terms(rows())).amount == 5 * 10**6
    with pytest.raises(OurBug):
        price(Event("disjoint", {**good.parameters, **change}), terms(rows()))


def test_a_pure_step_has_its_tight_mu_and_steps_for_other_neighbours_are_refused() -> None:
    before = dict.fromkeys(PARTS, 0)
    pure = Laplace(1, Fraction(3)).event
    assert price(disjoint(pure, "these", before), terms(rows())) == price(pure, terms(rows()))
    for event in (
        Gaussian(1, Fraction(3), Neighbours.REPLACE).event,
        Event("laplace", {**pure.parameters, "failure_atto": 1}),
    ):
        with pytest.raises(OurBug):
            disjoint(event, "these", before)
    with pytest.raises(CurrencyMismatch):
        price(disjoint(step(10), "those", before), terms(rows(), Currency.PURE))


def test_a_step_says_what_each_part_had_paid_and_has_paid() -> None:
    event = disjoint(step(7), "those", {"these": 5, "those": 3})
    assert paid_apart(event) == ({"these": 5, "those": 3}, {"these": 5, "those": 10})
