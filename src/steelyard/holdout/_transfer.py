"""From privacy to validity: how far any question's answer may be from the population, given a loss curve.

If the answers are (epsilon, delta(epsilon))-private when a row is replaced, every row's law given the answers is close
to what it was before, on average over the rows: P[distance >= tanh(epsilon/4) + d] <= 2 delta / ((1 + e^(epsilon/2))
d), for every question at once, also those asked afterwards. A question that is one function for all rows may use a
little more: P[distance >= g] <= delta / (g - (e^epsilon - 1)(1 - g)^2 / 4). Both come from comparing pairs of values of
a row and sharpen the posterior argument of Jung et al. (2020); proved in docs/proofs/transfer.md. An interval is what
the noise may add plus that distance: for normal noise and on the account's terms, read from what the *account* may ever
spend, so that other releases on it, and restarts, are covered; for bounded noise of radius R, R plus the distance of
its own pessimistic loss curve (docs/proofs/bounded_noise.md). An approximation only chooses the noise.
Law: widths are rounded up and functions of public numbers alone; rows are independent, every value of a question lies
in [0, 1]; predictions, one for each row, are a function of the row's place, so whatever takes them uses the first
bound.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from steelyard.accounting import normal_quantile, normal_tail
from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.mechanisms import BoundedNoise
from steelyard.privacy import Currency, Neighbours, Terms

if TYPE_CHECKING:
    from steelyard.accounting import Curve

_SMALL = 2.0**-48
_LOOKS, _FAR = 4096, 300.0
_POWERS = (2, 3, 4, 6, 8, 12, 16, 24)
_LARGEST = 1 << 22
_FEWEST_PLANNED, _MOST_PLANNED = 100, 10**6
_PLANNED_RADIUS = 48_000
_SHARES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3)
Transfer = Callable[[float, float, float], float]


def positional_distance_at(epsilon: float, delta: float, beta: float) -> float:
    """The distance that is exceeded with probability at most beta, from one point of the loss curve, rounded up.

    For questions that may treat each row by its place, as predictions do; rows need not be drawn from one law.

    >>> positional_distance_at(0.1, 0.0, 0.05) / math.tanh(0.1 / 4) < 1 + 1e-12
    True
    """
    _check(epsilon, delta, beta)
    rest = 2 * delta / ((1 + math.exp(min(epsilon, 600.0) / 2)) * beta)
    return min(1.0, (math.tanh(epsilon / 4) + rest) * (1 + 1e-14))


def shared_distance_at(epsilon: float, delta: float, beta: float) -> float:
    """The same for questions that are one function for all rows, drawn from one law; never larger."""
    _check(epsilon, delta, beta)
    share = delta / beta
    if share >= 1:
        return 1.0
    # g - c (1 - g)^2 / 4 = share, solved for g; every term is positive, so nothing cancels.
    grown = math.expm1(min(epsilon, 600.0)) * (1 - share)
    root = 1 + math.sqrt(1 + grown)
    return min(1.0, (grown / root + 2 * share) / root * (1 + 1e-14))


def curve_distance(curve: Curve, beta: float, transfer: Transfer = positional_distance_at) -> float:
    """The least distance any point of a loss curve gives; every epsilon is valid, so the search may be coarse."""
    import numpy as np

    start = max(0, -curve.lowest)
    block = 1 + (len(curve.masses) - start) // _LOOKS
    kept = np.add.reduceat(curve.masses[start:], np.arange(0, len(curve.masses) - start, block))
    epsilon = (curve.lowest + start + block * np.arange(len(kept), dtype=np.float64)) * float(curve.step)
    epsilon = np.minimum(epsilon, _FAR)
    # As if every block's mass were at its start: near enough to choose, and what is chosen is then computed in full.
    mass, tilted = np.cumsum(kept[::-1])[::-1], np.cumsum((kept * np.exp(-epsilon))[::-1])[::-1]
    delta = curve.infinite + mass - np.exp(epsilon) * tilted
    bound = np.tanh(epsilon / 4) + 2 * delta / ((1 + np.exp(epsilon / 2)) * beta)
    found = int(np.argmin(bound))
    chosen, first = float(epsilon[found]), max(0, start + found * block - 1)
    # Losses below that place count for nothing at an epsilon there.
    above = replace(curve, lowest=curve.lowest + first, masses=curve.masses[first:])
    return transfer(chosen, above.delta(chosen), beta)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The delta of a mu-GDP step at this epsilon, rounded up by 1e-14."""
    first = normal_tail(epsilon / mu - mu / 2)
    second = math.exp(min(epsilon, 600.0)) * normal_tail(epsilon / mu + mu / 2)
    return min(1.0, max(0.0, first - second) + 1e-14)


def gaussian_distance(mu: float, beta: float, transfer: Transfer = positional_distance_at) -> float:
    """The distance after answers that are mu-GDP together.

    >>> round(gaussian_distance(0.01, 0.05) / 0.01, 3)
    0.648
    """
    if not mu < 100:
        return 1.0
    tail, found = beta / 4, 1.0
    for _ in range(5):
        epsilon = mu * max(0.0, mu / 2 - normal_quantile(tail))
        delta = gaussian_delta(epsilon, mu)
        found = min(found, transfer(epsilon, delta, beta))
        # Where the bound is least the normal tail is this.
        if transfer is shared_distance_at:
            tail = beta * (1 + found) ** 2 / 4
        else:
            tail = min(0.5, delta + max(0.0, beta - delta) * (1 + math.tanh(epsilon / 4)) / 4)
    return found


def largest_noise(questions: int, beta: float) -> float:
    """A t, in deviations, that posterior means of so many normal noises all stay below, but for probability beta.

    It is an upper bound on the mean of the worst beta part of the largest |Z|.
    """
    s = max(0.0, -normal_quantile(max(min(beta / (2 * questions), 0.5), 1e-300)))
    density = math.exp(s * s / -2.0) / math.sqrt(2 * math.pi)
    excess = max(0.0, density - s * normal_tail(s)) + _SMALL * density
    return (s + 2 * questions * excess / beta) * (1 + 1e-12)


def _check(epsilon: float, delta: float, beta: float) -> None:
    if not 0 < beta < 1 or not epsilon >= 0 or not 0 <= delta <= 1:
        raise InvalidTask(f"needs epsilon >= 0, delta in [0, 1], beta in (0, 1); got {epsilon!r}, {delta!r}, {beta!r}.")


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
    least = max(3e-4, 3e-5 * math.sqrt(questions), 1.002 * 2 * normal_quantile((1 + delta) / 2))
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
    """The half-width of so many answers with normal noise of scale sigma."""
    return shared_width(lambda part: sigma * largest_noise(questions, part), distance, beta)


def laplace_width(
    scale: Fraction, whole: int, questions: int, beta: float, distance: Callable[[float], float]
) -> float:
    """The half-width of so many answers with discrete Laplace noise on totals of at most ``whole``.

    P[|X| > u] <= c e^(-u/scale), c = 2/(1 + e^(-1/scale)); the mean of the worst beta part of the largest of k is then
    at most scale (ln(k c / beta) + 1).
    """
    b = float(scale)
    tail = 2 * questions / (1 + math.exp(-1 / b))
    return shared_width(lambda part: b * (math.log(tail / part) + 1) / whole, distance, beta)


def shared_width(noise: Callable[[float], float], distance: Callable[[float], float], beta: float) -> float:
    """What noise and distance come to at the best of some ways to share beta between them; at most 1."""
    widths = (noise(share * beta) + distance((1 - share) * beta) for share in _SHARES)
    return min(1.0, min(widths) * (1 + 1e-12))


@dataclass(frozen=True)
class BoundedDesign:
    """Bounded noise for so many questions, and the half-width its answers have with probability 1 - beta."""

    noise: BoundedNoise
    half_width: float


@lru_cache(maxsize=16)
def design(
    n: int, questions: int, beta: float, failure: float, transfer: Transfer = positional_distance_at
) -> BoundedDesign | None:
    """The best bounded noise for 0/1 losses on n rows that gives a row away with less than ``failure``, if any.

    *Cost:* milliseconds up to a hundred thousand questions; remembered.
    """
    found = [
        BoundedDesign(noise, noise_width(noise, beta, transfer))
        for power in _powers(questions, beta)
        if (noise := _noise(n, questions, beta, power, transfer)) is not None and noise.has_price(failure)
    ]
    return min(found, key=lambda one: one.half_width, default=None)


def noise_width(noise: BoundedNoise, beta: float, transfer: Transfer = positional_distance_at) -> float:
    """What every answer is within of the population, all at once, with probability 1 - beta."""
    return min(1.0, float(noise.half_width) * (1 + 1e-15) + curve_distance(noise.curve, beta, transfer))


@lru_cache(maxsize=4096)
def bounded_width(
    n: int, questions: int, beta: float, failure: float, transfer: Transfer = positional_distance_at
) -> float:
    """The half-width of the best bounded noise; 1 when it certifies nothing, or has no price at this failure.

    A little more than it is, so that a tolerance of as much, as a decimal, is enough.
    """
    found = design(n, questions, beta, failure, transfer)
    return 1.0 if found is None else min(1.0, found.half_width * (1 + 1e-12))


def _powers(questions: int, beta: float) -> tuple[int, ...]:
    """The powers worth a look. Few questions and a small beta need thinner tails than cos^2 has; a fit to searches."""
    wanted = 1 - (math.log(beta) + 1) / (1 + math.log(questions) / 4)
    place = max(1, bisect_left(_POWERS, min(wanted, _POWERS[-1])))
    return _POWERS[:1] if wanted <= _POWERS[0] else _POWERS[place - 1 : place + 1]


def _noise(n: int, questions: int, beta: float, power: int, transfer: Transfer) -> BoundedNoise | None:
    """R + c mu(R) is least where both are equal; mu(R) = sqrt(k) pi p / (2 sqrt(p - 1) n R), by Fisher information."""
    fisher = math.sqrt(questions) * math.pi / 2 * power / math.sqrt(power - 1) / n
    rate = gaussian_distance(0.01, beta, transfer) / 0.01
    radius = math.ceil(math.sqrt(rate * fisher) * n)
    if not 2 <= radius < min(n, _LARGEST):
        return None
    return BoundedNoise(power, radius, n, questions)


def planned_width(n: int, questions: int, beta: float, failure: float) -> float:
    """The half-width on at most as many rows as a plan has time for; more rows are left unused, which only widens it.

    On fewer than a hundred rows whole radii are too coarse to keep the widths in order, so nothing is promised there.
    """
    if questions > _MOST_PLANNED or n < _FEWEST_PLANNED:
        return 1.0
    return bounded_width(down(min(n, _rows_planned(questions, beta))), questions, beta, failure)


def planned_capacity(n: int, tolerance: float, beta: float, failure: float, near: int = 1) -> int:
    """How many questions, in three significant digits, bounded noise answers within the tolerance; 0 when none.

    The half-width grows like the fourth root of the questions, and like the square root where rows are left unused, so
    a few looks are enough. The first is at ``near``, whose width a plan needs anyway, if that is not far from the
    guess.
    """
    rate = gaussian_distance(0.01, beta) / 0.01 * math.pi
    guess = min((tolerance / 2) ** 4 * (n / rate) ** 2, (tolerance / 2 * _PLANNED_RADIUS / rate) ** 2)
    guess = near if guess / 8 < near < 8 * guess else guess
    low, high, none = 0, (_MOST_PLANNED + 1 if n >= _FEWEST_PLANNED else 1), False
    while up(low + 1) < high:
        questions = _inside(guess, low, high)
        width = planned_width(n, questions, beta, failure)
        low, high, none = (questions, high, none) if width <= tolerance else (low, questions, width >= 1)
        guess = questions * (tolerance / width) ** (4 if n <= _rows_planned(questions, beta) else 2)
        if none:  # there is no noise for so many, and that tells nothing of how wide fewer are
            guess = min(guess, math.sqrt(low * high)) if width < 1 else math.sqrt(max(low, 1) * high)
    return low


def _rows_planned(questions: int, beta: float) -> int:
    """The rows at which the best radius reaches the largest one a plan looks at."""
    rate = gaussian_distance(0.01, beta) / 0.01 * math.pi
    return max(1, int(_PLANNED_RADIUS**2 / (rate * math.sqrt(questions))))


def _inside(guess: float, low: int, high: int) -> int:
    """The guess in three digits if it lies between; else the end that it lies beyond."""
    return max(up(low + 1), down(int(min(guess, high - 1))))


def down(value: int) -> int:
    """The largest whole number of three significant digits that is not above.

    >>> down(123_456), up(123_456), up(999_001)
    (123000, 124000, 1000000)
    """
    unit: int = 10 ** max(0, len(str(value)) - 3)
    return value // unit * unit


def up(value: int) -> int:
    """The smallest whole number of three significant digits that is not below."""
    unit: int = 10 ** max(0, len(str(value)) - 3)
    return -(-value // unit) * unit
