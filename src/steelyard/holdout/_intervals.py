"""Confidence intervals for a mean of independent rows, at error levels far below what a float can hold.

A description-length argument multiplies the error level by the number of histories, so levels such as exp(-5000) are
ordinary here and everything is done with logarithms: Clopper and Pearson (1934) for losses of 0 or 1, the binary
relative entropy (Hoeffding 1963, Theorem 1) or Hoeffding's width for losses anywhere in [0, 1]. Of a paid answer only
the nearest of ``steps + 1`` grid values is shown, with an interval that covers every score of that cell, so both are
functions of the rounded score alone; the grid is fixed when the holdout is opened and includes both ends of the range.
Law: every end is rounded outward; where a tail is not known exactly, an upper bound of it is used. Rows need be
independent and no more: each may have a mean of its own, and the interval is for the mean of those
(docs/proofs/nats.md).
"""

from __future__ import annotations

import math
from bisect import bisect
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from steelyard.errors import InvalidTask
from steelyard.holdout._links import Link
from steelyard.privacy import Number, decimal_text, exact, positive

_ULP = 2.0**-52
_TERMS = 4096
_STEPS = 60
_SLACK = 2.0**-46
_ALL = 512
_MOST, _SMALLEST = 10**15, Fraction(1, 10**100)


class Window:
    """The scores within a tolerance of a guess; ``floor`` and ``ceiling`` are how far it stays from 0 and from 1."""

    __slots__ = ("ceiling", "floor", "high", "low")

    def __init__(self, guess: Fraction, tolerance: Fraction) -> None:
        self.low, self.high = guess - tolerance, guess + tolerance
        self.floor, self.ceiling = float(self.low), float(1 - self.high)


@dataclass(frozen=True)
class Rounding:
    """Totals in 0..rows * scale, rounded to the nearest of steps + 1 values; with a ``link`` what is shown is a function of the mean."""

    rows: int
    scale: int
    steps: int
    link: Link | None = None

    @property
    def whole(self) -> int:
        """The largest total."""
        return self.rows * self.scale

    def nearest(self, total: int) -> int:
        """The cell of a total: the nearest grid value, halves upward."""
        if self.link is not None:
            return bisect(range(1, self.steps + 1), total, key=lambda place: self.cell(place)[0])
        return (2 * total * self.steps + self.whole) // (2 * self.whole)

    def cell(self, place: int) -> tuple[int, int]:
        """The least and the largest total of a cell."""
        if self.link is not None:
            low, high = (self.link.mean(Fraction(2 * place + side, 2 * self.steps)) for side in (-1, 1))
            first = 0 if place == 0 else max(0, math.ceil(low * self.whole))
            return first, self.whole if place == self.steps else max(0, math.ceil(high * self.whole) - 1)
        first = -(-(2 * place - 1) * self.whole // (2 * self.steps))
        last = -(-(2 * place + 1) * self.whole // (2 * self.steps)) - 1
        return max(0, first), min(self.whole, last)

    def interval(self, total: int, nats: float) -> tuple[float, float]:
        """The exact interval of a score at level exp(-nats): for our eyes only."""
        if self.link is not None:
            low, high = self._means(total, nats)
            return self.link.lowest(low), self.link.highest(high)
        if self.scale == 1:
            return clopper_pearson(total, self.rows, -nats)
        return kl_chernoff(total / self.whole, self.rows, -nats)

    def value(self, total: int) -> Fraction:
        """What a score is, exactly or to the last digit of a float."""
        return Fraction(total, self.whole) if self.link is None else Fraction(self.link.shown(total / self.whole))

    def _means(self, total: int, nats: float) -> tuple[float, float]:
        """The interval of the mean that is behind a score; totals may be rounded down."""
        assert self.link is not None
        level = -(nats + self.link.extra)
        low, _ = kl_chernoff(total / self.whole, self.rows, level)
        return low, kl_chernoff(min(1.0, (total + 1) / self.whole), self.rows, level)[1]

    def shown(self, place: int, nats: float) -> tuple[Fraction, float, float]:
        """What may be shown of a cell: its value, and an interval that holds whichever of its totals it was."""
        first, last = self.cell(place)
        return Fraction(place, self.steps), self.interval(first, nats)[0], self.interval(last, nats)[1]

    def within(self, total: int, nats: float, window: Window) -> bool:
        """Whether the exact interval of a score lies in a window."""
        if self.link is not None:
            least, most = self._means(total, nats)
            clear = window.low <= 0 or Fraction(least) >= self.link.least(window.low)
            return clear and (window.high >= 1 or Fraction(most) <= self.link.most(window.high))
        mean = total / self.whole
        if self._clears(mean, window.floor, nats) and self._clears(1 - mean, window.ceiling, nats):
            return True
        low, high, value = window.low, window.high, Fraction(total, self.whole)
        if (low > 0 and value <= low) or (high < 1 and value >= high):
            return False
        below, above = self.interval(total, nats)
        return (low <= 0 or Fraction(below) >= low) and (high >= 1 or Fraction(above) <= high)

    def _clears(self, mean: float, end: float, nats: float) -> bool:
        """Whether Chernoff's bound alone puts the interval above ``end``: what it allows the exact one allows too."""
        if end <= 0:
            return True
        if mean <= end or end >= 1:
            return False
        entropy = mean * math.log(mean / end)
        if mean < 1:
            entropy += (1 - mean) * math.log((1 - mean) / (1 - end))
        return self.rows * (entropy - _SLACK) >= nats + math.log(2)

    def half_width(self, place: int, nats: float) -> float:
        """How far the truth may lie from a cell's value."""
        value, low, high = self.shown(place, nats)
        return max(float(value) - low, high - float(value))


@lru_cache(maxsize=256)
def nats_allowed(rounding: Rounding, tolerance: Fraction, lowest: Fraction, highest: Fraction) -> int:
    """The micro-nats at which rounded scores between ``lowest`` and ``highest`` are still within the tolerance; or 0.

    *Cost:* tens of milliseconds. The widest cells are those nearest 1/2; all are looked at in the end (beyond 512,
    some).
    """
    places = [k for k in range(rounding.steps + 1) if lowest <= Fraction(k, rounding.steps) <= highest]
    allowed, linked = float(tolerance), rounding.link is not None
    if linked:  # where its function is steepest is where it is widest
        places = places[:: -(-len(places) // _ALL)] + places[-1:]
        places.sort(key=lambda k: -rounding.half_width(k, math.log(20)))
    else:
        places.sort(key=lambda k: abs(2 * k - rounding.steps))

    def fits(micro: int, some: list[int]) -> bool:
        return all(rounding.half_width(k, micro / 10**6) <= allowed for k in some)

    low, high = (
        0,
        math.ceil(-rounding.rows * math.log1p(-min(allowed, 1 - 1e-9)) * 10**6) * (4 if linked else 1) + 10**6,
    )
    while high - low > max(1000, low // 10**4):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle, places[:5]) else (low, middle)
    every = -(-len(places) // _ALL)
    while low and not fits(low, places[:64] + places[64::every]):
        low -= max(1, low // 1000)
    return low


@lru_cache(maxsize=4096)
def clopper_pearson(successes: int, n: int, log_alpha: float) -> tuple[float, float]:
    """The exact binomial interval, two-sided, at level exp(log_alpha), for rows that may have chances of their own.

    *Accuracy:* outward by a ten-millionth of its width, by a little more above a million rows.
    *Cost:* about 100 microseconds; equal questions are remembered.

    >>> low, high = clopper_pearson(80, 100, math.log(0.05))
    >>> print(f"{low:.4f} {high:.4f}")
    0.7082 0.8733
    """
    _check(n, log_alpha)
    if isinstance(successes, bool) or not isinstance(successes, int) or not 0 <= successes <= n:
        raise InvalidTask(f"successes must be a whole number between 0 and n = {n}; got {successes!r}.")
    return _low_end(successes, n, log_alpha), min(1.0, _above(1 - _low_end(n - successes, n, log_alpha)))


def hoeffding(mean: float, n: int, log_alpha: float) -> tuple[float, float]:
    """The interval that holds for any losses in [0, 1], two-sided, at level exp(log_alpha)."""
    _check(n, log_alpha)
    if not 0 <= mean <= 1:
        raise InvalidTask(f"a mean of losses in [0, 1] lies there, too; got {mean!r}.")
    half = half_width(n, log_alpha)
    return max(0.0, _below(mean - half)), min(1.0, _above(mean + half))


def half_width(n: int, log_alpha: float) -> float:
    """Hoeffding's half-width sqrt((ln 2 - log_alpha) / 2n) for losses in [0, 1], rounded up."""
    return _above(math.sqrt((math.log(2) - log_alpha) / (2 * n)))


@lru_cache(maxsize=4096)
def kl_chernoff(mean: float, n: int, log_alpha: float) -> tuple[float, float]:
    """The relative-entropy interval for losses in [0, 1] that are not all 0 or 1, two-sided, at level exp(log_alpha).

    *Accuracy:* never wider than Hoeffding's, and much narrower near 0 and 1.
    """
    wide = hoeffding(mean, n, log_alpha)
    allowed = (math.log(2) - log_alpha) / n * (1 + 8 * _ULP)
    low, high = _nearest_refuted(mean, 1 - mean, allowed), _above(1 - _nearest_refuted(1 - mean, mean, allowed))
    return max(low, wide[0]), min(high, wide[1])


def _check(n: int, log_alpha: float) -> None:
    read_whole(n, "n")
    if not -1e12 < log_alpha <= 0:
        raise InvalidTask(f"log_alpha is the logarithm of a probability, at most 0 and finite; got {log_alpha!r}.")


def _low_end(x: int, n: int, log_alpha: float) -> float:
    """The binomial's lower end, held where unequal chances with the same mean have no heavier tail.

    That is at least a success below x (Hoeffding 1956); for one success it is where the chances add up to half the
    level.
    """
    most = (x - 1) / n if x != 1 else math.exp(log_alpha - math.log(2 * n))
    return max(0.0, min(_lowest(x, n, log_alpha), _below(most)))


def _lowest(x: int, n: int, log_alpha: float) -> float:
    """The lower end: a p, close to the largest, with P[Binomial(n, p) >= x] <= exp(log_alpha) / 2.

    Newton's method on the logarithm u of p. The log tail is concave in u, so every step from below lands below; what
    is returned has been checked itself, with an upper bound on the tail.
    """
    if x == 0:
        return 0.0
    target = log_alpha - math.log(2)
    choices = math.lgamma(n + 1) - math.lgamma(x + 1) - math.lgamma(n - x + 1)
    error = 32 * _ULP * (3 * abs(math.lgamma(n + 1)) + abs(target) + n)
    u = math.log(_wilson(x, n, -target))
    best = -math.inf
    for _ in range(_STEPS):
        p = math.exp(u)
        total = _tail_over_mass(x, n, p)
        rest = (n - x) * math.log1p(-p) if x < n else 0.0
        log_tail = choices + x * u + rest + math.log(total) + error + 8 * _ULP * (abs(x * u) + abs(rest))
        if log_tail <= target:
            best = max(best, u)
            if target - log_tail <= 1e-7 * abs(target) + 2 * error:
                break
        u -= (log_tail - target) * total / x + 1e-15 * (1 + abs(u))
    return max(0.0, _below(math.exp(best)))


def _wilson(x: int, n: int, nats: float) -> float:
    """A first guess below x/n."""
    square = 2 * nats
    middle = x + square / 2
    spread = math.sqrt(square * (x * (n - x) / n + square / 4))
    return max((middle - spread) / (n + square), 1e-300)


def _tail_over_mass(x: int, n: int, p: float) -> float:
    """An upper bound on P[X >= x] / P[X = x] for p below x/n; what is left out is below a geometric sum."""
    if x == n:
        return 1.0
    count = min(n - x, 32 + math.isqrt(n) // 2, _TERMS)
    odds = p / (1 - p)
    places = np.arange(x, x + count, dtype=np.float64)
    ratios = (n - places) / (places + 1) * odds
    terms = np.cumprod(ratios)
    last = float(ratios[-1])
    rest = float(terms[-1]) * last / (1 - last) if count < n - x else 0.0
    return (1 + float(terms.sum()) + rest) * (1 + 16 * count * _ULP)


def _nearest_refuted(mean: float, other: float, allowed: float) -> float:
    """A p below the mean, close to the largest, with kl(mean, p) >= allowed; ``other`` is 1 - mean.

    Newton's method on the logarithm u of p, in which kl is convex: every step from below lands below.
    """
    if mean == 0 or allowed > 600 * mean:
        return 0.0
    inner = mean * math.log(mean) + (other * math.log(other) if other else 0.0)
    slack = 16 * _ULP * (2 + allowed)
    u, best = math.log(mean) - allowed / mean - 1, -math.inf
    for _ in range(_STEPS):
        p = math.exp(u)
        gain = inner - mean * u - (other * math.log1p(-p) if other else 0.0) - slack * (1 + mean * abs(u)) - allowed
        slope = mean - (other * p / (1 - p) if other else 0.0)
        if gain >= 0:
            best = max(best, u)
        if slope <= 0 or (gain >= 0 and gain <= 1e-9 * allowed):
            break
        u += gain / slope - 1e-15 * (1 + abs(u))
    return max(0.0, _below(math.exp(best)))


def _below(value: float) -> float:
    return value - 4 * _ULP * abs(value) - 5e-324


def _above(value: float) -> float:
    return value + 4 * _ULP * abs(value) + 5e-324


def read_whole(value: int, name: str, least: int = 1) -> int:
    """A whole number between ``least`` and 10^15, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        told = "more" if isinstance(value, int) and value > _MOST else repr(value)
        raise InvalidTask(f"{name} must be a whole number of at least {least} and at most 10^15; got {told}.")
    return value


def read_confidence(value: Number) -> Fraction:
    """How sure all intervals are together: a number between 0 and 1, or an error."""
    sure = exact(value, "confidence")
    if not 0 < sure < 1:
        raise InvalidTask(f"confidence must be between 0 and 1, such as 0.95; got {value!r}.")
    return sure


def read_size(value: Number, name: str) -> Fraction:
    """A positive number that floats can be computed with, or an error that names it."""
    size = positive(value, name)
    if not _SMALLEST <= size <= 1 / _SMALLEST:
        raise InvalidTask(f"{name} must lie between 1e-100 and 1e100; got {decimal_text(size, 6)}.")
    return size
