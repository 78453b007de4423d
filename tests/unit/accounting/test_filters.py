"""What may be summed, and the sum that looks the same and is not."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from steelyard.accounting._gaussian import mu_request
from steelyard.accounting._pure import pure_to_mu
from steelyard.privacy import ATTO, MICRO, Currency, Loss

LEVELS = 64


def tail(x: float) -> float:
    return 0.5 * math.erfc(x / math.sqrt(2))


def delta(epsilon: float, mu: float) -> float:
    """delta(epsilon; mu) for epsilon of either sign."""
    if mu <= 0:
        return max(0.0, -math.expm1(epsilon))
    return tail(epsilon / mu - mu / 2) - math.exp(epsilon) * tail(epsilon / mu + mu / 2)


def mu_squared(epsilon: float) -> float:
    return (pure_to_mu(Fraction(epsilon)) / MICRO) ** 2


def best_analyst(cap: float, epsilon: float, *, topping_up: bool) -> float:
    """The largest delta an adaptive analyst can reach on a Gaussian account with one pure path and Gaussian steps.

    The path is a randomized response whose level rises step by step (each coarser answer a garbling of the finer); the
    analyst may leave it after any answer and spend all that is left on one Gaussian step. Exact, by dynamic programme.
    """
    highest = math.log(1 / tail(cap / 2) - 1) * (1 - 1e-5)
    levels = [highest * math.sqrt((k + 1) / LEVELS) for k in range(LEVELS)]
    chance = [1 / (1 + math.exp(-level)) for level in levels]
    value: dict[int, float] = {}
    for k in reversed(range(LEVELS)):
        paid = mu_squared(levels[k] if topping_up else levels[-1])
        left = math.sqrt(max(cap * cap - paid, 0.0))
        now = {sign: delta(epsilon - sign * levels[k], left) for sign in (1, -1)}
        if k < LEVELS - 1:
            keep = (chance[k] + chance[k + 1] - 1) / (2 * chance[k + 1] - 1)
            for sign in (1, -1):
                up = chance[k + 1] * (keep if sign > 0 else 1 - keep)
                down = (1 - chance[k + 1]) * (1 - keep if sign > 0 else keep)
                now[sign] = max(now[sign], (up * value[1] + down * value[-1]) / (up + down))
        value = now
    return chance[0] * value[1] + (1 - chance[0]) * value[-1]


@pytest.mark.parametrize("cap", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_path_charged_at_its_highest_level_keeps_the_promise(cap: float, share: float) -> None:
    assert best_analyst(cap, share * cap, topping_up=False) <= delta(share * cap, cap) * (1 + 1e-9)


@pytest.mark.parametrize("cap", [0.5, 1.0, 1.5])
def test_topping_a_pure_path_up_on_a_gaussian_account_is_caught(cap: float) -> None:
    assert best_analyst(cap, cap, topping_up=True) > delta(cap, cap) * 1.005


def best_flipper(epsilon: float, paid: float, cap: float, at: float) -> float:
    """The largest delta at ``at`` for an analyst who buys randomized responses one by one, each for ``paid`` of mu
    squared, until he likes where he stands, and then spends all that is left on one Gaussian step."""
    steps = math.floor(cap * cap / paid + 1e-12)
    heads = 1 / (1 + math.exp(-epsilon))
    value: dict[int, float] = {}
    for taken in reversed(range(steps + 1)):
        left = math.sqrt(max(cap * cap - taken * paid, 0.0))
        now = {net: delta(at - net * epsilon, left) for net in range(-taken, taken + 1, 2)}
        if value:
            now = {net: max(v, heads * value[net + 1] + (1 - heads) * value[net - 1]) for net, v in now.items()}
        value = now
    return value[0]


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7])
@pytest.mark.parametrize("at", [0.0, 0.4, 1.0])
def test_an_analyst_who_adapts_cannot_beat_the_sum_of_mu_squared(epsilon: float, at: float) -> None:
    assert best_flipper(epsilon, mu_squared(epsilon), 1.0, at) <= delta(at, 1.0) * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "excess"), [(0.1, 1.001), (0.3, 1.01), (0.7, 1.1)])
def test_an_analyst_who_pays_the_zcdp_price_is_caught(epsilon: float, excess: float) -> None:
    assert best_flipper(epsilon, epsilon * epsilon, 1.0, 0.4) > delta(0.4, 1.0) * excess


def worst_of_failing_steps(mu: float, fails: float, steps: int, at: float) -> float:
    """The exact delta of steps that each give everything away with a probability and are mu-GDP together otherwise."""
    sound = (1 - fails) ** steps
    return 1 - sound + sound * delta(at, mu)


def test_steps_that_fail_keep_the_promise_when_their_share_was_set_aside() -> None:
    whole, aside, steps = Fraction(1, 10**5), Fraction(4, 10**6), 4
    for epsilon in (0.5, 1.0, 3.0):
        cap = mu_request(Fraction(epsilon), whole - aside) / MICRO
        assert worst_of_failing_steps(cap, float(aside / steps), steps, epsilon) <= float(whole)
        twin = mu_request(Fraction(epsilon), whole) / MICRO
        assert worst_of_failing_steps(twin, float(aside / steps), steps, epsilon) > float(whole)


def test_a_filter_adds_exactly_and_stops_at_the_cap() -> None:
    cap, step, spent = Loss.pure(1), Loss.pure("0.1"), Loss.zero(Currency.PURE)
    taken = 0
    while spent + step <= cap:
        spent, taken = spent + step, taken + 1
    assert taken == 10


def test_a_failure_probability_has_its_own_cap() -> None:
    cap = Loss(Currency.GAUSSIAN, 10**12, ATTO // 10**9)
    assert Loss(Currency.GAUSSIAN, 1, ATTO // 10**9) <= cap
    assert not Loss(Currency.GAUSSIAN, 1, 1) + Loss(Currency.GAUSSIAN, 1, ATTO // 10**9) <= cap
