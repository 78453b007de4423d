"""The Gaussian curve against two oracles, and the cap against its own definition."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant, accountant, privacy_loss_distribution, privacy_loss_mechanism
from dp_accounting.rdp import RdpAccountant

from steelyard.accounting._gaussian import delta_of, epsilon_of, mu_cap, mu_request
from steelyard.accounting._pure import pure_to_mu
from steelyard.errors import InvalidTask
from steelyard.privacy import MICRO, Currency

EPSILONS = ["0.0001", "0.003", "0.1", "1", "4.7", "20", "100"]
DELTAS = ["1e-18", "1e-12", "1e-6", "0.01", "0.5"]


def true_delta(epsilon: Fraction, mu: Fraction) -> mpmath.mpf:
    """delta(epsilon; mu) by 120-digit arithmetic of another library."""
    with mpmath.workdps(120):
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        m = mpmath.mpf(mu.numerator) / mu.denominator
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


def is_largest_safe(c: int, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether c micro-mu keeps the promise and c + 1 does not."""
    bound = mpmath.mpf(delta.numerator) / delta.denominator
    return bool(true_delta(epsilon, Fraction(c, MICRO)) <= bound < true_delta(epsilon, Fraction(c + 1, MICRO)))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_cap_is_the_largest_micro_mu_that_keeps_the_promise(epsilon: str, delta: str) -> None:
    c = mu_request(Fraction(epsilon), Fraction(delta))
    assert is_largest_safe(c, Fraction(epsilon), Fraction(delta))
    assert mu_cap(Fraction(epsilon), Fraction(delta)).amount == c * c
    assert mu_cap(Fraction(epsilon), Fraction(delta)).currency is Currency.GAUSSIAN


def test_a_cap_one_micro_too_high_is_caught_by_the_same_check() -> None:
    twin = mu_request(Fraction(1), Fraction("1e-6")) + 1
    assert not is_largest_safe(twin, Fraction(1), Fraction("1e-6"))


@pytest.mark.parametrize("mu", [0.001, 0.2, 1.0, 3.0, 14.0, 45.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 10.0, 100.0])
def test_a_reported_delta_is_never_below_the_true_one_and_hardly_above(mu: float, epsilon: float) -> None:
    truth = true_delta(Fraction(epsilon), Fraction(mu))
    reported = mpmath.mpf(delta_of(epsilon, mu))
    assert reported >= truth
    assert reported <= truth * (1 + mpmath.mpf("5e-16")) + mpmath.mpf("5e-324")


@pytest.mark.parametrize("mu", [0.001, 0.2, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_a_reported_epsilon_is_enough_and_a_little_less_is_not(mu: float, delta: float) -> None:
    epsilon = epsilon_of(mu, delta)
    assert true_delta(Fraction(epsilon), Fraction(mu)) <= mpmath.mpf(delta)
    less = Fraction(epsilon) - Fraction(1, 2**39)
    assert less < 0 or true_delta(less, Fraction(mu)) > mpmath.mpf(delta)


@pytest.mark.parametrize(("sigma", "delta"), [(4.0, 1e-6), (1.0, 1e-5), (0.5, 1e-3)])
def test_epsilon_agrees_with_the_oracle_accountant(sigma: float, delta: float) -> None:
    oracle = privacy_loss_mechanism.GaussianPrivacyLoss(sigma, sensitivity=1)
    assert oracle.get_delta_for_epsilon(epsilon_of(1 / sigma, delta)) == pytest.approx(delta, rel=1e-6)
    cap = accountant.get_smallest_gaussian_noise(
        privacy_loss_mechanism.common.DifferentialPrivacyParameters(1.0, delta), 1
    )
    assert mu_request(Fraction(1), Fraction(delta)) / MICRO == pytest.approx(1 / cap, rel=1e-4)


@pytest.mark.parametrize("steps", [1, 30])
def test_the_sum_of_mu_squared_agrees_with_two_oracle_accountants(steps: int) -> None:
    event = SelfComposedDpEvent(GaussianDpEvent(6.0), steps)
    ours = epsilon_of(math.sqrt(steps) / 6, 1e-6)
    tight = PLDAccountant().compose(event).get_epsilon(1e-6)
    loose = RdpAccountant().compose(event).get_epsilon(1e-6)
    assert ours == pytest.approx(tight, rel=1e-3)
    assert ours <= loose


@pytest.mark.parametrize("steps", [1, 5, 40])
def test_pure_steps_stay_under_their_gaussian_price_in_the_oracle(steps: int) -> None:
    epsilon = 0.4
    # dp-accounting's noise parameter is the chance of a uniformly random answer: 2 / (1 + e^epsilon) for two answers.
    flips = privacy_loss_distribution.from_randomized_response(
        2 / (1 + math.exp(epsilon)), 2, value_discretization_interval=1e-4
    )
    composed = flips.self_compose(steps)
    mu = math.sqrt(steps) * pure_to_mu(Fraction(2, 5)) / MICRO
    for share in (0.0, 0.3, 0.7):
        at = share * epsilon * steps
        assert composed.get_delta_for_epsilon(at) <= delta_of(at, mu) * (1 + 1e-3)


def test_zero_mu_costs_nothing_and_nonsense_is_refused() -> None:
    assert delta_of(1.0, 0.0) == 0.0
    assert epsilon_of(0.0, 1e-6) == 0.0
    with pytest.raises(InvalidTask):
        delta_of(-1.0, 1.0)
    for mu, delta in ((-1.0, 0.1), (1.0, 0.0)):
        with pytest.raises(InvalidTask):
            epsilon_of(mu, delta)
    for pair in (("0", "0.1"), ("1", "0"), ("1", "1"), ("1001", "0.1"), ("1e-9", "1e-18")):
        with pytest.raises(InvalidTask):
            mu_request(Fraction(pair[0]), Fraction(pair[1]))
