"""Laws of conversions: none ever understates, against the arithmetic of another library."""

from __future__ import annotations

from fractions import Fraction

import mpmath
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.accounting._gaussian import delta_of, epsilon_of, mu_cap, mu_request
from steelyard.accounting._odometers import LinearOdometer, MixtureOdometer
from steelyard.accounting._pure import pure_to_mu
from steelyard.privacy import MICRO

epsilons = st.fractions(min_value=Fraction(1, 10**4), max_value=100, max_denominator=10**6)
deltas = st.builds(lambda m, k: Fraction(m, 10 ** (k + 1)), st.integers(1, 5), st.integers(0, 17))
mus = st.fractions(min_value=Fraction(1, 10**4), max_value=15, max_denominator=10**6)


def exact(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def true_delta(epsilon: Fraction, mu: Fraction) -> mpmath.mpf:
    e, m = exact(epsilon), exact(mu)
    return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


@settings(deadline=None, max_examples=60)
@given(epsilons, deltas)
def test_a_cap_round_trips_and_is_the_largest(epsilon: Fraction, delta: Fraction) -> None:
    c = mu_request(epsilon, delta)
    with mpmath.workdps(120):
        assert true_delta(epsilon, Fraction(c, MICRO)) <= exact(delta)
        assert true_delta(epsilon, Fraction(c + 1, MICRO)) > exact(delta)
    assert mu_cap(epsilon, delta).amount == c * c
    assert Fraction(epsilon_of(Fraction(c, MICRO), delta)) <= epsilon + Fraction(1, 10**11)


@settings(deadline=None, max_examples=60)
@given(epsilons, mus)
def test_a_delta_is_never_understated(epsilon: Fraction, mu: Fraction) -> None:
    with mpmath.workdps(400):
        assert mpmath.mpf(delta_of(epsilon, mu)) >= true_delta(epsilon, mu)


@settings(deadline=None, max_examples=40)
@given(mus, deltas)
def test_an_epsilon_is_never_understated(mu: Fraction, delta: Fraction) -> None:
    with mpmath.workdps(120):
        assert true_delta(Fraction(epsilon_of(mu, delta)), mu) <= exact(delta)


@settings(deadline=None, max_examples=40)
@given(epsilons, epsilons)
def test_the_price_of_pure_steps_covers_their_corner_and_never_falls(first: Fraction, second: Fraction) -> None:
    with mpmath.workdps(120):
        assert mpmath.ncdf(-mpmath.mpf(pure_to_mu(first)) / (2 * MICRO)) <= 1 / (1 + mpmath.exp(exact(first)))
    low, high = sorted((first, second))
    assert pure_to_mu(low) <= pure_to_mu(high)
    assert pure_to_mu(low + high) <= pure_to_mu(low) + pure_to_mu(high)


@settings(deadline=None, max_examples=40)
@given(epsilons, deltas, deltas)
def test_a_larger_promise_allows_no_less(epsilon: Fraction, first: Fraction, second: Fraction) -> None:
    low, high = sorted((first, second))
    assert mu_request(epsilon, low) <= mu_request(epsilon, high)
    assert mu_request(epsilon / 2, high) <= mu_request(epsilon, high) if epsilon > Fraction(1, 1000) else True


@settings(deadline=None, max_examples=60)
@given(st.floats(1e-6, 50), st.floats(1e-6, 50), st.sampled_from([1e-9, 1e-6, 0.01]))
def test_odometers_are_never_below_their_formulas_and_never_fall(v: float, tuned_at: float, delta: float) -> None:
    with mpmath.workdps(40):
        slope = mpmath.sqrt(2 * mpmath.log(1 / mpmath.mpf(delta)) / mpmath.mpf(tuned_at))
        linear = (slope + 1) * mpmath.mpf(v) / 2 + mpmath.log(1 / mpmath.mpf(delta)) / slope
        assert mpmath.mpf(LinearOdometer(delta, tuned_at).epsilon(v)) >= linear * (1 - mpmath.mpf(2) ** -50)
    mixture = MixtureOdometer(delta, tuned_at)
    assert mixture.epsilon(v) <= mixture.epsilon(v * 1.01)


def test_a_delta_rounded_down_would_be_caught() -> None:
    with mpmath.workdps(60):
        truth = true_delta(Fraction(1), Fraction(1))
        assert mpmath.mpf(delta_of(1.0, 1.0)) >= truth
        assert mpmath.mpf(delta_of(1.0, 1.0) - 2**-54) < truth
