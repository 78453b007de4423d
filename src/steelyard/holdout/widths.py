"""How wide the interval of a private answer is: what the noise may add, plus what the rows may have been overfitted.

The answers of a private mode are private as a whole; by the transfer theorem (docs/proofs/transfer.md) the population
then lies within the noise of an answer plus a total-variation distance, for all answers at once. The distance is read
from what the *account* may ever spend, so that other releases on it, and restarts, are covered.
Law: rounded up, and a function of public numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from steelyard.errors import UnitMismatch
from steelyard.holdout.transfer import (
    Transfer,
    gaussian_delta,
    gaussian_distance,
    largest_noise,
    positional_distance_at,
)
from steelyard.privacy import Currency, Neighbours, Terms

_NORMAL = NormalDist()
_SHARES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3)


def check_rows(terms: Terms, n: int) -> None:
    """Refuse an account that does not hide one replaced row among these n."""
    unit = terms.unit
    if unit.kind != "rows" or unit.neighbours is not Neighbours.REPLACE or unit.n != n:
        raise UnitMismatch(
            f"answers that are private and valid need an account of rows(neighbours='replace', n={n}); "
            f"this one hides {unit}."
        )


def account_distance(terms: Terms, beta: float, transfer: Transfer = positional_distance_at) -> float:
    """The distance of any question from the population that all an account may ever release leaves possible."""
    if terms.currency is Currency.PURE:
        return min(1.0, math.tanh(float(terms.cap.value) / 4) * (1 + 1e-12))
    mu, failure = math.sqrt(float(terms.cap.value)) * (1 + 1e-12), float(terms.cap.additive_delta)
    return gaussian_distance(mu, beta, transfer) if failure == 0 else _with_failure(mu, failure, beta, transfer)


@lru_cache(maxsize=256)
def _with_failure(mu: float, failure: float, beta: float, transfer: Transfer) -> float:
    """The least distance over points of a Gaussian loss curve raised by a chance of failure."""
    points = (mu * 1.1**step for step in range(-24, 31))
    return min(transfer(epsilon, min(1.0, gaussian_delta(epsilon, mu) + failure), beta) for epsilon in points)


@lru_cache(maxsize=4096)
def normal_design(n: int, questions: int, beta: float, delta: float) -> tuple[float, float]:
    """The mu of all answers together with the narrowest intervals for normal noise on n rows, and their half-width.

    A mu is never so small that whole micro-epsilons at delta, or whole shares for each question, would be too coarse.
    """
    least = max(3e-4, 3e-5 * math.sqrt(questions), 1.002 * 2 * _NORMAL.inv_cdf((1 + delta) / 2))
    best = 1.0, 1.0
    for share in _SHARES:
        noise, mu = largest_noise(questions, share * beta), 0.02
        # With c the distance per mu, noise sqrt(k)/(n mu) + c mu is least at mu = sqrt(noise sqrt(k) / (c n)).
        for _ in range(3):
            rate = gaussian_distance(mu, (1 - share) * beta) / mu
            mu = min(1.0, max(least, math.sqrt(noise * math.sqrt(questions) / (rate * n))))
        width = (noise * math.sqrt(questions) / mu + 0.5) / n + gaussian_distance(mu, (1 - share) * beta)
        best = min(best, (width, mu))
    return best[1], best[0]


def normal_width(sigma: float, questions: int, beta: float, distance: Callable[[float], float]) -> float:
    """The half-width of so many answers with normal noise of scale sigma; beta is shared for the least width."""
    return min(
        1.0,
        min(sigma * largest_noise(questions, share * beta) + distance((1 - share) * beta) for share in _SHARES),
    )


def laplace_width(
    scale: Fraction, whole: int, questions: int, beta: float, distance: Callable[[float], float]
) -> float:
    """The half-width of so many answers with discrete Laplace noise on totals of at most ``whole``.

    P[|X| > u] <= c e^(-u/scale), c = 2/(1 + e^(-1/scale)); the mean of the worst beta part of the largest of k is then
    at most scale (ln(k c / beta) + 1).
    """
    b = float(scale)
    tail = 2 * questions / (1 + math.exp(-1 / b))
    return min(
        1.0,
        min(b * (math.log(tail / (share * beta)) + 1) / whole + distance((1 - share) * beta) for share in _SHARES)
        * (1 + 1e-12),
    )
