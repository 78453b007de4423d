"""Keys that are shown only with enough units behind them: the exact chance of a slip, the price, and the twins."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from steelyard.accounting._prices import price
from steelyard.errors import CurrencyMismatch, InvalidTask, NeighbourMismatch
from steelyard.lazy import lazy
from steelyard.mechanisms import KeyThreshold
from steelyard.mechanisms._observe import observing
from steelyard.noise import ExactNoise, TestNoise
from steelyard.privacy import ATTO, Currency, Loss, Terms, rows, users

FAILURE = Fraction(1, 10**6)


def chance(mechanism: KeyThreshold, counts: list[int]) -> float:
    """The chance that any of these counts is shown: P[n + round(sigma Z) >= t] = P[Z >= (t - n - 1/2) / sigma]."""
    places = [(mechanism.threshold - count - 0.5) / float(mechanism.sigma) for count in counts]
    return -math.expm1(math.fsum(float(stats.norm.logcdf(place)) for place in places))


def slips(mechanism: KeyThreshold, rows_of_one_unit: dict[str, int]) -> bool:
    """Whether a unit's own keys, which nobody else has, slip out more often than was paid for.

    At most ``max_keys`` of them are kept, and each counts the unit once, however many rows it has.
    """
    kept = dict(list(rows_of_one_unit.items())[: mechanism.max_keys])
    return chance(mechanism, mechanism_counts(mechanism, kept)) > float(mechanism.failure) * (1 + 1e-9)


def mechanism_counts(mechanism: KeyThreshold, kept: dict[str, int]) -> list[int]:
    """What is counted for a unit under each key: one, or what a twin thinks."""
    count = getattr(mechanism, "counts_of_one", lambda number_of_rows: 1)
    return [count(number) for number in kept.values()]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 500),
    st.fractions(min_value=Fraction(1, 20), max_value=400),
    st.integers(1, 15).map(lambda n: Fraction(1, 10**n)),
)
def test_the_threshold_is_the_lowest_that_keeps_the_promise(keys: int, sigma: Fraction, failure: Fraction) -> None:
    mechanism = KeyThreshold(keys, sigma, failure)
    allowed, t = float(failure / keys), mechanism.threshold
    tail = [float(stats.norm.sf((place - 1.5) / float(sigma))) for place in (t, t - 1)]
    assert tail[0] <= allowed * (1 + 1e-9)
    assert tail[1] >= allowed * (1 - 1e-9) or t == 1


@pytest.mark.parametrize("keys", [1, 3, 40])
def test_keys_of_one_unit_slip_out_no_more_often_than_was_paid_for(keys: int) -> None:
    mechanism = KeyThreshold(keys, Fraction(7), FAILURE)
    assert not slips(mechanism, {f"k{i}": 1000 for i in range(100)})
    assert chance(mechanism, [1] * keys) > 0.3 * float(FAILURE)  # and not absurdly seldom either


class LooksAtMoreForNothing(KeyThreshold):
    """Broken twin: keys of few units are left out, and the threshold stays where it was."""

    @lazy
    def threshold(self) -> int:
        return KeyThreshold(self.max_keys, self.sigma, self.failure).threshold


@pytest.mark.parametrize("least", [1, 2, 5, 40])
def test_keys_that_a_unit_lifts_over_the_least_number_slip_out_no_more_often(least: int) -> None:
    def lifted(mechanism: KeyThreshold) -> float:
        """The chance that keys which one unit brings to ``least`` units, and which are unseen without it, are shown."""
        return chance(mechanism, [mechanism.least] * mechanism.max_keys)

    allowed = float(FAILURE) * (1 + 1e-9)
    assert lifted(KeyThreshold(3, Fraction(7), FAILURE, least)) <= allowed
    assert (lifted(LooksAtMoreForNothing(3, Fraction(7), FAILURE, least)) <= allowed) is (least == 1)
    shown = KeyThreshold(3, Fraction(1, 20), FAILURE, least).release({"few": least - 1, "many": 10**6}, ExactNoise())
    assert list(shown) == ["many"]


def told_apart(mechanism: KeyThreshold, epsilon: float, lifted: int) -> tuple[float, float]:
    """The exact delta at epsilon when a unit comes, and when it leaves: ``lifted`` of its keys are unseen without it, the others are seen.

    With it the release is a mixture: what it is if no lifted key is shown, and something that never happens without it.
    """
    p = chance(mechanism, [mechanism.least] * lifted)
    mu = math.sqrt(mechanism.max_keys - lifted) / float(mechanism.sigma)
    comes, leaves = gaussian_delta(epsilon - math.log1p(-p), mu), gaussian_delta(epsilon + math.log1p(-p), mu)
    return p + (1 - p) * comes, leaves


def gaussian_delta(epsilon: float, mu: float) -> float:
    if not mu:
        return max(0.0, -math.expm1(epsilon))
    places = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return float(stats.norm.cdf(places[0]) - math.exp(epsilon) * stats.norm.cdf(places[1]))


@pytest.mark.parametrize("kind", [KeyThreshold, LooksAtMoreForNothing])
def test_a_unit_is_hidden_in_both_directions_at_every_epsilon(kind: type[KeyThreshold]) -> None:
    for failure, sigma, keys in ((FAILURE, 7, 3), (Fraction(1, 50), 2, 4), (Fraction(1, 50), 9, 1)):
        mechanism = kind(keys, Fraction(sigma), failure, max(2, sigma // 4))
        mu = math.sqrt(keys) / sigma
        kept = [
            max(told_apart(mechanism, epsilon, lifted)) <= gaussian_delta(epsilon, mu) + float(failure) + 1e-13
            for epsilon in (0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0)
            for lifted in range(keys + 1)
        ]
        assert all(kept) is (kind is KeyThreshold)


class IgnoresMaxKeys(KeyThreshold):
    """Broken twin: the threshold is that of a unit with a single key."""

    @property
    def threshold(self) -> int:
        return KeyThreshold(1, self.sigma, self.failure).threshold


class CountsRows(KeyThreshold):
    """Broken twin: a key's rows are counted, not the units behind it."""

    @staticmethod
    def counts_of_one(number_of_rows: int) -> int:
        return number_of_rows


class ForgetsTheUnitItself(KeyThreshold):
    """Broken twin: the noise alone must not reach the threshold, but the count begins at one."""

    @property
    def threshold(self) -> int:
        return KeyThreshold(self.max_keys, self.sigma, self.failure).threshold - 1


@pytest.mark.parametrize("twin", [IgnoresMaxKeys, CountsRows, ForgetsTheUnitItself])
def test_a_twin_of_the_threshold_is_caught(twin: type[KeyThreshold]) -> None:
    assert slips(twin(40, Fraction(7), FAILURE), {f"k{i}": 30 for i in range(100)})


def test_a_frequent_key_is_shown_and_a_rare_one_is_not() -> None:
    mechanism, noise = KeyThreshold(2, Fraction(3), FAILURE), ExactNoise()
    for _ in range(200):
        shown = mechanism.release({"common": 500, "rare": 1, "unheard of": 0}, noise)
        assert list(shown) == ["common"]
        assert abs(shown["common"] - 500) < 30


def test_shown_counts_carry_the_noise_that_was_declared() -> None:
    mechanism, noise = KeyThreshold(4, Fraction(5), FAILURE), ExactNoise()
    errors = [mechanism.release({"k": 1000}, noise)["k"] - 1000 for _ in range(600)]
    assert abs(sum(errors) / 600) < 5 * 5 / 600**0.5
    assert 0.85 < sum(error**2 for error in errors) / 600 / (25 + 1 / 12) < 1.15


def test_a_key_at_the_threshold_is_shown_half_of_the_time() -> None:
    mechanism, noise = KeyThreshold(1, Fraction(20), FAILURE), ExactNoise()
    shown = sum(bool(mechanism.release({"k": mechanism.threshold}, noise)) for _ in range(600))
    assert 240 < shown < 380


@pytest.mark.parametrize(
    "keys",
    [
        ["b", "a", "c"],
        [3, 1, 2],
        [2.5, -1.0, math.inf],
        [True, False],
        [datetime.date(2026, 1, 2), datetime.date(2025, 1, 1)],
        [Decimal("1.5"), Decimal(1)],
    ],
)
def test_keys_come_in_their_own_order_and_not_the_engines(keys: list[Any]) -> None:
    mechanism = KeyThreshold(1, Fraction(2), FAILURE)
    one = mechanism.release(dict.fromkeys(keys, 900), TestNoise(5))
    two = mechanism.release(dict.fromkeys(reversed(keys), 900), TestNoise(5))
    assert list(one.items()) == list(two.items())
    assert list(one) == sorted(keys)


def test_no_keys_at_all_are_no_keys() -> None:
    assert KeyThreshold(1, Fraction(2), FAILURE).release({}, ExactNoise()) == {}


def test_the_audit_sees_every_count_before_noise_with_its_norm() -> None:
    mechanism = KeyThreshold(3, Fraction(9), FAILURE)
    with observing() as seen:
        mechanism.release({"b": 2, "a": 1}, TestNoise(1))
    (one,) = seen
    assert one.values == (1, 2)
    assert one.event.parameters["sensitivity_squared"] == 3


def aside(delta: int = 10**12) -> Terms:
    return Terms(users("u"), Loss(Currency.GAUSSIAN, 10**13, delta), Fraction(1), Fraction(2, 10**6))


def test_both_prices_are_charged() -> None:
    event = KeyThreshold(4, Fraction(8), FAILURE).event
    assert price(event, aside()) == Loss(Currency.GAUSSIAN, 4 * 10**12 // 64, ATTO // 10**6)


def test_an_account_that_sets_nothing_aside_is_refused() -> None:
    event = KeyThreshold(4, Fraction(8), FAILURE).event
    with pytest.raises(CurrencyMismatch, match="additive_delta"):
        price(event, aside(0))
    with pytest.raises(CurrencyMismatch, match="delta"):
        price(event, Terms(users("u"), Loss.pure(1), Fraction(1)))


def test_where_neighbours_replace_a_unit_it_is_refused() -> None:
    mine = Terms(
        rows(neighbours="replace", n=5), Loss(Currency.GAUSSIAN, 10**13, 10**12), Fraction(1), Fraction(2, 10**6)
    )
    with pytest.raises(NeighbourMismatch, match="doubled"):
        price(KeyThreshold(4, Fraction(8), FAILURE).event, mine)


@pytest.mark.parametrize(
    "arguments",
    [(0, 1, FAILURE), (1, 0, FAILURE), (1, 1, 0), (1, 1, 1), (1, 1, Fraction(1, 10**19)), (1, -1, FAILURE)],
)
def test_numbers_that_make_no_sense_are_refused(arguments: tuple[int, int, Fraction]) -> None:
    with pytest.raises(InvalidTask):
        KeyThreshold(arguments[0], Fraction(arguments[1]), Fraction(arguments[2]))
