"""Laws of prices: they add, they never fall as the step grows, requests round down and costs round up."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.accounting import grouped
from steelyard.accounting._prices import price
from steelyard.mechanisms import AboveThreshold, Exponential, Gaussian, Laplace, LaplacePath
from steelyard.privacy import MICRO, Currency, Event, Loss, Neighbours, Terms, canonical, rows

PURE = Terms(rows(), Loss.pure(100), Fraction(100))
GAUSS = Terms(rows(), Loss.mu(100), Fraction(100), Fraction(1, 10**6))
REPLACE = Terms(rows(neighbours="replace", n=9), Loss.mu(100), Fraction(100), Fraction(1, 10**6))
whole = st.integers(1, 10**9)
scales = st.fractions(min_value=Fraction(1, 100), max_value=10**12, max_denominator=10**6)
pure_events = st.one_of(
    st.builds(lambda s, t: Laplace(s, t * s).event, st.integers(1, 10**6), scales),
    st.builds(lambda s, a, b: AboveThreshold(s, a * s, b * s).event, st.integers(1, 100), scales, scales),
    st.builds(lambda e, s: Exponential(1 / e, s).event, scales, whole),
    st.builds(lambda s, t: LaplacePath(s, (t * s,)).event, st.integers(1, 100), scales),
)
gaussian_events = st.builds(lambda s, t: Gaussian(s, t * s).event, st.integers(1, 10**6), scales)
events = st.one_of(pure_events, gaussian_events)


def composed(*parts: Event) -> Event:
    return Event("composed", {"events": canonical([part.to_json() for part in parts]).decode()})


@settings(deadline=None, max_examples=40)
@given(events, events)
def test_prices_add(first: Event, second: Event) -> None:
    assert price(composed(first, second), GAUSS) == price(first, GAUSS) + price(second, GAUSS)


@settings(deadline=None, max_examples=40)
@given(events)
def test_an_event_read_back_from_text_has_the_same_price(event: Event) -> None:
    assert price(Event.from_json(event.to_json()), GAUSS) == price(event, GAUSS)


@settings(deadline=None)
@given(whole, scales)
def test_a_cost_rounds_up_by_less_than_one_step(sensitivity: int, scale: Fraction) -> None:
    laplace, gaussian = Laplace(sensitivity, scale * sensitivity), Gaussian(sensitivity, scale * sensitivity)
    for exact, loss in (
        (laplace.epsilon * MICRO, price(laplace.event, PURE)),
        (gaussian.mu_squared * MICRO**2, price(gaussian.event, GAUSS)),
    ):
        assert exact <= loss.amount < exact + 1


@settings(deadline=None)
@given(st.integers(1, 50), scales, scales, st.integers(1, 9), st.booleans())
def test_the_epsilon_a_mechanism_states_is_the_one_it_is_charged(
    sensitivity: int, first: Fraction, second: Fraction, stops: int, monotone: bool
) -> None:
    threshold = AboveThreshold(sensitivity, first, second, stops, monotone)
    assert price(threshold.event, PURE).amount == math.ceil(threshold.epsilon * MICRO)
    path = LaplacePath(sensitivity, (first + second, first))
    for step in (0, 1):
        assert price(path.event_at(step), PURE).amount == math.ceil(path.epsilon_at(step) * MICRO)


@settings(deadline=None)
@given(st.decimals(min_value="0.000001", max_value=1000, allow_nan=False, places=9))
def test_a_request_rounds_down_so_its_noise_never_costs_more_than_it(epsilon: object) -> None:
    asked = Loss.pure(str(epsilon))
    scale = Fraction(MICRO, asked.amount)
    assert price(Laplace(1, scale).event, PURE) == asked
    assert asked.value <= Fraction(str(epsilon))


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 1000), scales, st.integers(1, 5))
def test_more_sensitivity_never_costs_less(sensitivity: int, scale: Fraction, more: int) -> None:
    for terms in (GAUSS, REPLACE):
        small, large = (price(Laplace(s, scale * 1000).event, terms) for s in (sensitivity, sensitivity + more))
        assert small <= large
        small, large = (price(Gaussian(s, scale * 1000).event, terms) for s in (sensitivity, sensitivity + more))
        assert small <= large


@settings(deadline=None)
@given(whole, scales)
def test_replacing_costs_no_more_than_a_group_of_two(sensitivity: int, scale: Fraction) -> None:
    for event in (Laplace(sensitivity, scale * sensitivity).event, Gaussian(sensitivity, scale * sensitivity).event):
        assert price(event, REPLACE) <= price(grouped(event, 2), GAUSS)
        own = Event(event.name, event.parameters, Neighbours.REPLACE)
        assert price(own, REPLACE) == price(event, GAUSS)


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**9), max_size=30), st.integers(0, 10**10))
def test_a_filter_never_lets_the_sum_pass_the_cap(steps: list[int], cap: int) -> None:
    spent, limit = Loss.zero(Currency.PURE), Loss(Currency.PURE, cap)
    for step in (Loss(Currency.PURE, amount) for amount in steps):
        if spent + step <= limit:
            spent = spent + step
        else:
            assert spent.amount + step.amount > cap
    assert spent.amount <= cap


def test_a_price_rounded_down_would_be_caught() -> None:
    exact = Laplace(1, Fraction(3)).epsilon * MICRO
    twin = int(exact)
    assert not exact <= twin < exact + 1
