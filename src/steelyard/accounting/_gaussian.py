"""Gaussian privacy: what mu promises at (epsilon, delta), and which mu a promise allows.

A step is mu-GDP when telling two neighbours apart is at least as hard as telling N(0, 1) from N(mu, 1). Its curve is
delta(epsilon; mu) = P[Z > epsilon/mu - mu/2] - e^epsilon P[Z > epsilon/mu + mu/2] (Dong, Roth and Su; Balle and
Wang), which rises with mu and falls with epsilon.
Law: a cap is never above the exact solution and a reported delta or epsilon never below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from steelyard.accounting._normal import as_decimal, digits_for, precise, upper_tail
from steelyard.errors import InvalidTask
from steelyard.privacy import MICRO, Currency, Loss, Terms, decimal_text

_LARGEST_EPSILON = 1000
_SMALLEST_DELTA = Fraction(1, 10**300)


def delta_above(epsilon: Fraction, mu: Fraction) -> Decimal:
    """An upper bound on delta(epsilon; mu), above it by no more than about 1e-30 of itself."""
    far = epsilon / mu + mu / 2
    digits = digits_for(far)
    first = upper_tail(epsilon / mu - mu / 2, digits)[1]
    second = upper_tail(far, digits)[0]
    with precise(digits):
        product = as_decimal(epsilon).exp() * second
        # The slack covers the roundings here, the exponential's included, for epsilon up to 10^6.
        slack = Decimal(10) ** (8 - digits) * (first + product)
        return min(max(first - product + slack, Decimal(0)), Decimal(1))


def delta_of(epsilon: float | Fraction, mu: float | Fraction) -> float:
    """The delta at which a mu-GDP transcript is (epsilon, delta)-DP, rounded up.

    >>> round(delta_of(1.0, 1.0), 6)
    0.126937
    """
    exact_epsilon, exact_mu = Fraction(epsilon), Fraction(mu)
    if exact_epsilon < 0 or exact_mu < 0:
        raise InvalidTask(f"epsilon and mu cannot be negative; got {epsilon!r} and {mu!r}.")
    if exact_mu == 0:
        return 0.0
    bound = delta_above(exact_epsilon, exact_mu)
    nearest = float(bound)
    return nearest if Decimal(nearest) >= bound and nearest > 0 else math.nextafter(nearest, math.inf)


def epsilon_of(mu: float | Fraction, delta: float | Fraction) -> float:
    """The smallest epsilon at which mu-GDP gives this delta, rounded up.

    >>> round(epsilon_of(1.0, 1e-6), 4)
    4.8866
    """
    exact_mu, target = Fraction(mu), _delta(Fraction(delta))
    if exact_mu < 0:
        raise InvalidTask(f"mu cannot be negative; got {mu!r}.")
    if exact_mu == 0 or _holds(Fraction(0), exact_mu, target):
        return 0.0
    # mu^2/2 + 40 mu bounds the answer for every delta above 1e-300.
    top = math.ceil((exact_mu * exact_mu / 2 + 40 * exact_mu) * 2**40)
    steps = _smallest(lambda k: _holds(Fraction(k, 2**40), exact_mu, target), top)
    value = steps / 2**40
    return value if Fraction(value) >= Fraction(steps, 2**40) else math.nextafter(value, math.inf)


def mu_cap(epsilon: Fraction, delta: Fraction) -> Loss:
    """The mu squared that a Gaussian account promising (epsilon, delta) may spend, never above the exact solution.

    >>> str(mu_cap(Fraction(1), Fraction(1, 10**6)))
    'mu 0.236704'
    """
    return Loss(Currency.GAUSSIAN, mu_request(epsilon, delta) ** 2)


@lru_cache(maxsize=1024)
def mu_request(epsilon: Fraction, delta: Fraction) -> int:
    """The largest whole number c of micro-mu with delta(epsilon; c/1e6) <= delta."""
    target = _delta(delta)
    if not 0 < epsilon <= _LARGEST_EPSILON:
        raise InvalidTask(f"epsilon must be above 0 and at most {_LARGEST_EPSILON}; got {float(epsilon)!r}.")
    # delta(epsilon; mu) >= 1/2 - e^epsilon P[Z > mu] once mu^2 >= 2 epsilon; the search needs some failing top.
    top = MICRO * (math.isqrt(2 * math.ceil(epsilon)) + 1 + 40)
    first_refused = _smallest(lambda c: not _holds(epsilon, Fraction(c, MICRO), target), top)
    if first_refused <= 1:
        raise InvalidTask(
            f"epsilon {float(epsilon):g} at delta {float(delta):g} allows less than mu = 0.000001, the smallest step; "
            "raise epsilon or delta."
        )
    return first_refused - 1


def told(loss: Loss, terms: Terms, *, cost: bool = False) -> str:
    """An amount as somebody who opened an account with these terms said it: on a Gaussian one in epsilon at its delta, beside mu.

    On a Gaussian account squares of mu add up, not epsilons: two halves of what is left cost less than the whole.
    An epsilon that is told fits where this amount does; of a ``cost`` it is rounded up instead.

    >>> from steelyard.privacy import rows
    >>> delta = Fraction(1, 10**6)
    >>> told(Loss.mu("0.1"), Terms(rows(), mu_cap(Fraction(3), delta), Fraction(3), delta))
    'epsilon 0.3968 at delta 0.000001 (mu 0.1)'
    """
    delta = terms.filter_delta
    if loss.currency is not Currency.GAUSSIAN or not delta:
        return str(loss)
    if loss.amount == terms.cap.amount and terms.epsilon is not None:
        epsilon = terms.epsilon
    else:
        epsilon = _in_epsilon(loss.amount, delta, up=cost)
    return f"epsilon {decimal_text(epsilon)} at delta {decimal_text(delta)} ({loss})"


@lru_cache(maxsize=1024)
def _in_epsilon(amount: int, delta: Fraction, *, up: bool) -> Fraction:
    """The largest epsilon of four decimals (small ones have four digits) whose mu fits into an amount; or the least that covers it."""
    root = math.isqrt(amount)
    mu = Fraction(root + (up and root * root < amount), MICRO)
    if mu == 0:
        return Fraction(0)
    found = Fraction(epsilon_of(mu, delta))
    places = max(4, 3 - math.floor(math.log10(found))) if found else 4
    if up:
        return Fraction(math.ceil(found * 10**places), 10**places)
    nearest = Fraction(round(found * 10**places), 10**places)
    fits = 0 < nearest <= _LARGEST_EPSILON and mu_request(nearest, delta) ** 2 <= amount
    return nearest if fits else Fraction(math.floor(found * 10**places), 10**places)


def _holds(epsilon: Fraction, mu: Fraction, delta: Decimal) -> bool:
    return delta_above(epsilon, mu) <= delta


def _delta(delta: Fraction) -> Decimal:
    if not _SMALLEST_DELTA <= delta < 1:
        raise InvalidTask(f"a Gaussian promise needs a delta above 0 and below 1; got {float(delta)!r}.")
    with precise(60) as context:
        context.rounding = "ROUND_FLOOR"
        return as_decimal(delta)


def _smallest(true_at: Callable[[int], bool], top: int) -> int:
    """The smallest k >= 1 with ``true_at(k)``, for a test that turns true once; ``top`` when it never does below."""
    low, high = 0, top
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if true_at(middle) else (middle, high)
    return high
