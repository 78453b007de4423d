"""How far bounded noise carries: the radius that suits a number of questions, and the half-width it certifies.

Noise never above a radius R and a distance D between posterior and population give answers within R + D, all at once
(docs/proofs/bounded_noise.md, transfer.md). Both terms are about equal at the best radius, which a normal approximation
finds; what is certified is then computed from the whole weights that would be drawn, once.
Law: the approximation only chooses the noise; the half-width comes from the pessimistic loss curve.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

from steelyard.holdout.transfer import Transfer, curve_distance, gaussian_distance, positional_distance_at
from steelyard.mechanisms.bounded import BoundedNoise

_POWERS = (2, 3, 4, 6, 8, 12, 16, 24)
_MOST = 1 << 22
_FEWEST_PLANNED, _MOST_PLANNED = 100, 10**6
_PLANNED_RADIUS = 48_000


@dataclass(frozen=True)
class Design:
    """Bounded noise for so many questions, and the half-width its answers have with probability 1 - beta."""

    noise: BoundedNoise
    half_width: float


@lru_cache(maxsize=16)
def design(
    n: int, questions: int, beta: float, failure: float, transfer: Transfer = positional_distance_at
) -> Design | None:
    """The best bounded noise for 0/1 losses on n rows that gives a row away with less than ``failure``; None if none does.

    *Cost:* milliseconds up to a hundred thousand questions; remembered.
    """
    found = [
        Design(noise, half_width(noise, beta, transfer))
        for power in _powers(questions, beta)
        if (noise := _noise(n, questions, beta, power, transfer)) is not None and noise.has_price(failure)
    ]
    return min(found, key=lambda one: one.half_width, default=None)


def half_width(noise: BoundedNoise, beta: float, transfer: Transfer = positional_distance_at) -> float:
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
    """R + c mu(R) is least where both are equal; mu(R) = sqrt(k) pi p / (2 sqrt(p - 1) n R), from Fisher information."""
    fisher = math.sqrt(questions) * math.pi / 2 * power / math.sqrt(power - 1) / n
    rate = gaussian_distance(0.01, beta, transfer) / 0.01
    radius = math.ceil(math.sqrt(rate * fisher) * n)
    if not 2 <= radius < min(n, _MOST):
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
    a few looks are enough. The first is at ``near``, whose width a plan needs anyway, if that is not far from the guess.
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
