"""One paid look at how good a released model is: the square root of its excess risk, which one row hardly moves.

Replacing a row moves the excess risk itself by at most 2 c sqrt(excess), because a model that is nearly the best has
nearly the best one's loss on every row; so the root moves by about c, and by less the better the model is. The best
model is sought inside a public ball, which makes the privacy hold whatever the data.
Law: the number that is noised is an integer within a proved distance of the true root, whatever the rows
(docs/proofs/sqrt_excess.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from steelyard.models.accuracy.certificate import Array, Ridge
from steelyard.models.accuracy.losses import LOSS_BITS
from steelyard.models.accuracy.measured import Exact
from steelyard.models.accuracy.models import MODEL_BITS, Statistics
from steelyard.models.accuracy.secular import in_decimals

STEPS = 2**16
"""Grid steps in one sensitivity: rounding adds one step in 65,536."""

_TOLERANCE = Fraction(1, 2**18)  # of the sensitivity, for the solver


@dataclass(frozen=True)
class RootExcess:
    """A question about one released model: is the root of its excess risk below the root of alpha?

    ``model`` is in whole steps of 2^-48; ``ball`` is the public radius that holds it.
    """

    ridge: Ridge
    model: tuple[int, ...]
    ball: Fraction
    alpha: float

    @property
    def floor(self) -> float:
        """Roots below this are told as this: they pass anyway, and a floor keeps the sensitivity small."""
        return math.sqrt(self.alpha) / 4

    @property
    def sensitivity(self) -> float:
        """The most one replaced row moves the root: c + c^2 / (2 floor)."""
        length: float = math.sqrt(sum(k * k for k in self.model)) / 2**MODEL_BITS
        c = (1 + (length + float(self.ball)) / 4) * math.sqrt(2 / self.ridge.penalty) / self.ridge.n
        return c * (1 + c / (2 * self.floor)) * (1 + 1e-9)

    @property
    def reach(self) -> int:
        """Nothing is clipped but to the label's range."""
        return 1 << LOSS_BITS

    @property
    def step(self) -> Fraction:
        """The grid on which the root is told."""
        return Fraction(self.sensitivity) / STEPS

    @property
    def moves(self) -> int:
        """The sensitivity in grid steps: one for rounding, and twice the solver's tolerance."""
        return STEPS + 1 + math.ceil(2 * _TOLERANCE * STEPS)

    def limit(self) -> float:
        """The root of alpha in grid steps."""
        return math.sqrt(self.alpha) / float(self.step) * (1 - 1e-12)

    def value(self, private: Statistics) -> int:
        """The root of the excess risk in whole grid steps, rounded down: private, to be noised."""
        gap = 2 * Fraction(self.floor) * Fraction(self.sensitivity) * _TOLERANCE
        above = max(excess_above(self, private.exact, gap), Fraction(self.floor) ** 2)
        square = above / self.step**2
        return math.isqrt(square.numerator // square.denominator)


def excess_above(check: RootExcess, exact: Exact, gap: Fraction) -> Fraction:
    """The excess risk over the best model in the ball: at or above it, by no more than ``gap``.

    A solver proposes a point and a multiplier; duality bounds the best risk from below in exact arithmetic. Doubles nearly
    always propose well enough; where they do not, decimals do, of as many digits as it takes: no rows make this fail.
    """
    whole = _Objective.of(exact, check.ridge)
    asked = whole.value(Point(check.model, MODEL_BITS))
    if not check.ball:
        return max(asked, Fraction(0)) / (2 * exact.n)  # the ball is one point, and it loses nothing
    for point, multiplier in _proposals(whole, check.ball):  # pragma: no branch - it ends inside
        lower = whole.dual(point, multiplier, check.ball)
        upper = whole.value(_held(point, check.ball))
        if (upper - lower) / (2 * exact.n) <= gap:
            break
    return max(asked - lower, Fraction(0)) / (2 * exact.n)


@dataclass(frozen=True)
class Point:
    """A point in whole steps of 2^-bits."""

    steps: tuple[int, ...]
    bits: int


@dataclass(frozen=True)
class _Objective:
    """w'Aw - 2R'w with A = X'X + n lambda I, in whole numbers: 2 n times the risk, but for the labels' own part."""

    gram: NDArray[np.object_]
    moment: NDArray[np.object_]
    scale: int
    penalty: Fraction

    @classmethod
    def of(cls, exact: Exact, ridge: Ridge) -> _Objective:
        return cls(exact.gram, exact.moment, exact.unit**2, Fraction(ridge.penalty) * exact.n)

    def value(self, point: Point) -> Fraction:
        w, bits = np.array(point.steps, dtype=object), 1 << point.bits
        data = Fraction(int(w @ self.gram @ w) - 2 * bits * int(self.moment @ w), self.scale * bits**2)
        return data + self.penalty * Fraction(int(w @ w), bits**2)

    def dual(self, point: Point, multiplier: Fraction, ball: Fraction) -> Fraction:
        """A lower bound on the value anywhere in the ball, good when the gradient at the point is small."""
        w, bits = np.array(point.steps, dtype=object), 1 << point.bits
        weight = self.penalty + multiplier
        # the gradient over two, times scale * bits * denominator, entry by entry in whole numbers
        numerator, denominator = weight.numerator, weight.denominator
        slope = denominator * (self.gram @ w - bits * self.moment) + numerator * self.scale * w
        square = Fraction(int(slope @ slope), (self.scale * bits * denominator) ** 2)
        length = Fraction(int(w @ w), bits**2)
        return self.value(point) + multiplier * (length - ball**2) - square / weight


def _held(point: Point, ball: Fraction) -> Point:
    square = sum(k * k for k in point.steps)
    most = ball * (1 << point.bits)
    if square <= most**2:
        return point
    ratio = Fraction(math.isqrt(math.floor(most**2)), math.isqrt(square) + 1)
    return Point(tuple(int(k * ratio) for k in point.steps), point.bits)


def _proposals(whole: _Objective, ball: Fraction) -> Iterator[tuple[Point, Fraction]]:
    """Points near the best in the ball and their multipliers: from doubles, then from more and more digits, without end."""
    with suppress(np.linalg.LinAlgError, ArithmeticError, ValueError):  # doubles that gave up are no proposal
        yield from _in_doubles(whole, float(ball))
    digits = 40
    while True:
        point, multiplier = in_decimals(whole.gram, whole.moment, whole.scale, whole.penalty, ball, digits)
        bits = 3 * digits
        yield Point(tuple(round(each * (1 << bits)) for each in point), bits), multiplier
        digits *= 2


def _in_doubles(whole: _Objective, ball: float) -> Iterator[tuple[Point, Fraction]]:
    """With and without a few steps of refinement."""
    gram = whole.gram.astype(np.float64) / whole.scale
    values, basis = np.linalg.eigh(gram)
    seen = basis.T @ (whole.moment.astype(np.float64) / whole.scale)
    values = np.maximum(values, 0.0) + float(whole.penalty)
    multiplier = _multiplier(values, seen, ball)
    point = basis @ (seen / (values + multiplier))
    weight = Fraction(multiplier)
    steps = _steps(point)
    yield Point(steps, MODEL_BITS), weight
    for _ in range(3):
        steps = _refined(whole, steps, weight, basis, values + multiplier)
    yield Point(steps, MODEL_BITS), weight


def _refined(
    whole: _Objective, point: tuple[int, ...], multiplier: Fraction, basis: Array, values: Array
) -> tuple[int, ...]:
    w = np.array(point, dtype=object)
    weight = whole.penalty + multiplier
    slope = whole.gram @ w - 2**MODEL_BITS * whole.moment
    rest = np.array(
        [
            float((Fraction(int(g), whole.scale) + weight * int(k)) / 2**MODEL_BITS)
            for g, k in zip(slope, w, strict=True)
        ]
    )
    move = basis @ ((basis.T @ rest) / values)
    return tuple(int(k) - int(m) for k, m in zip(point, np.rint(move * 2.0**MODEL_BITS), strict=True))


def _steps(point: Array) -> tuple[int, ...]:
    return tuple(int(k) for k in np.rint(point * 2.0**MODEL_BITS))


def _multiplier(values: Array, seen: Array, ball: float) -> float:
    """The multiplier of the ball: zero where the free solution lies inside."""

    def length(multiplier: float) -> float:
        return float(np.linalg.norm(seen / (values + multiplier)))

    if length(0.0) <= ball:
        return 0.0
    low, high = 0.0, float(np.linalg.norm(seen)) / ball
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if length(middle) > ball else (low, middle)
    return high
