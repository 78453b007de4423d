"""Two bounds on a ridge model's excess risk: one from noisy statistics alone, and one paid look at its square root.

*Free* (``certify``). With A = X'X + n lambda I, R = X'y and noisy copies A^ = A + E, R^ = R + e, the best model satisfies
R^ - A^ best = e - E best, whose law is known. Two events (that residual is short, -E has no large eigenvalue) then
confine the best model, and the S-procedure turns the confinement into a bound on the risk of a model chosen for it
(docs/proofs/ridge_certificate.md).
*Paid* (``RootExcess``). Replacing a row moves the excess risk itself by at most 2 c sqrt(excess), because a model that is
nearly the best has nearly the best one's loss on every row; so the root moves by about c, and by less the better the
model is. The best model is sought inside a public ball, which makes the privacy hold whatever the data. A solver proposes,
in doubles or in decimals of as many digits as it takes, and exact arithmetic judges (docs/proofs/sqrt_excess.md).
Law: the free bound holds on its two events whatever the data; the number that is noised is an integer within a proved
distance of the true root, whatever the rows.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.models.accuracy._designs import MODEL_BITS, Array, Exact, Noisy, Ridge
from steelyard.models.accuracy._family import WHOLE
from steelyard.models.accuracy._quantiles import largest_eigenvalue, weighted_chi_square

STEPS = 2**16
"""Grid steps in one sensitivity of a root: rounding adds one step in 65,536."""

_OUTWARD = 1 + 1e-9  # eigenvalues and sums in double precision err by far less than this
_TINY = 1e-200  # keeps a singular matrix from dividing by zero; its bound is then useless, and never chosen
_TOLERANCE = Fraction(1, 2**18)  # of the sensitivity, for the solver
Vector = list[Decimal]


@dataclass(frozen=True)
class Rated:
    """A model and its excess risk: what it is at most, on the event a certificate was made for, or what it is expected to be."""

    model: Array
    excess: float


def certify(ridge: Ridge, noisy: Noisy, norm: float, failure: float) -> Rated:
    """The model whose certified excess risk is smallest, and that bound; fails with probability ``failure`` at most.

    ``norm`` bounds the length of the best model. *Privacy:* post-processing of the noisy statistics.
    """
    values, basis = np.linalg.eigh(noisy.matrix)
    seen = basis.T @ noisy.vector
    push = math.sqrt(noisy.variance) * largest_eigenvalue(ridge.width, failure / 2) + noisy.slack
    radius = residual_square(ridge.width, noisy, norm, failure / 2)
    shorter = min(norm, shortest(values, seen, radius))
    radius = residual_square(ridge.width, noisy, shorter, failure / 2)
    top = float(np.max(values**2))
    tried = np.concatenate([[0.0], np.geomspace(top * 1e-10, top, 160)])  # amounts of shrinkage
    bounds = _bounds(ridge, values, seen, push, radius, shorter, tried)
    best = int(np.argmin(bounds))
    model = basis @ (values * seen / (values**2 + tried[best] + _TINY))
    return Rated(model, max(float(bounds[best]), 0.0) / (2 * ridge.n) * _OUTWARD)


def residual_square(width: int, noisy: Noisy, norm: float, failure: float) -> float:
    """What |e - E best|^2 is at most, for a best model no longer than ``norm``."""
    spread = norm**2 / 2
    quantile = weighted_chi_square(width, 1 / noisy.weight + 2 * spread, 1 / noisy.weight + spread, failure)
    return (math.sqrt(noisy.variance * quantile) + noisy.slack * (1 + norm)) ** 2


def shortest(values: Array, seen: Array, radius: float) -> float:
    """A bound on the length of any w with |R^ - A^ w|^2 <= radius, by a one-dimensional dual; infinite if none."""
    least = float(np.min(values**2))
    if least <= 0:
        return math.inf
    duals = np.geomspace(1 + 1e-6, 1e6, 400)[:, None] / least
    squares = (duals[:, 0] * radius) + (duals * seen**2 / (duals * values**2 - 1)).sum(axis=1)
    return math.sqrt(float(squares.min())) * _OUTWARD


def _bounds(ridge: Ridge, values: Array, seen: Array, push: float, radius: float, norm: float, tried: Array) -> Array:
    """2 n times the excess risk of each shrunk model, at most."""
    squares = values**2 + tried[:, None] + _TINY
    first = np.max(np.maximum(values + push, ridge.floor) / squares, axis=1)
    models = values * seen / squares
    miss = ((seen - values * models) ** 2).sum(axis=1)
    return np.asarray(first * (radius - miss) + first * tried * (norm**2 - (models**2).sum(axis=1)))


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
        return WHOLE

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

    def value(self, rows: Any) -> int:
        """The root of the excess risk in whole grid steps, rounded down: private, to be noised."""
        gap = 2 * Fraction(self.floor) * Fraction(self.sensitivity) * _TOLERANCE
        above = max(excess_above(self, rows.exact, gap), Fraction(self.floor) ** 2)
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
        point, multiplier = in_decimals(whole, ball, digits)
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
    point, weight = basis @ (seen / (values + multiplier)), Fraction(multiplier)
    steps = tuple(int(k) for k in np.rint(point * 2.0**MODEL_BITS))
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


def in_decimals(whole: _Objective, ball: Fraction, digits: int) -> tuple[list[Fraction], Fraction]:
    """Where w'Aw - 2R'w is about least in the ball, A = gram/scale + penalty and R = moment/scale; and the multiplier.

    The multiplier m of the ball solves |(A + m)^-1 R| = B. One over that length is concave and rises with m, so Newton's
    steps on it from m = 0 never pass the root and come nearer each time; more digits always make it better.
    """
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = digits, MAX_EMAX, MIN_EMIN
        matrix = [[Decimal(int(x)) / whole.scale for x in row] for row in whole.gram]
        pull = [Decimal(int(x)) / whole.scale for x in whole.moment]
        floor, radius = _decimal(whole.penalty), _decimal(ball)
        multiplier = Decimal(0)
        for _ in range(digits):  # each about doubles the digits that are right, near the root
            point, slower = _solved(matrix, floor + multiplier, pull)
            length = _dot(point, point).sqrt()
            step = Decimal(0) if length <= radius else length * length / slower * (length - radius) / radius
            if multiplier + step == multiplier:
                break
            multiplier += step
        return [Fraction(x) for x in point], Fraction(multiplier)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / value.denominator


def _dot(one: Sequence[Decimal], other: Sequence[Decimal]) -> Decimal:
    return sum(map(operator.mul, one, other), Decimal(0))


def _solved(matrix: list[Vector], floor: Decimal, pull: Vector) -> tuple[Vector, Decimal]:
    """v with (matrix + floor) v = pull, and v'(matrix + floor)^-1 v; a pivot that digits swallowed is the floor, which none is below."""
    rows: list[Vector] = []
    pivots: Vector = []
    for i, given in enumerate(matrix):
        row: Vector = []
        for j in range(i):
            row.append(given[j] - _dot([a * p for a, p in zip(row, pivots, strict=False)], rows[j]))
            row[j] = row[j] / pivots[j]
        own = given[i] + floor - _dot([a * p for a, p in zip(row, pivots, strict=False)], row)
        rows.append(row)
        pivots.append(max(own, floor))
    point = _backward(rows, pivots, _forward(rows, pull))
    half = _forward(rows, point)
    return point, sum((x * x / p for x, p in zip(half, pivots, strict=True)), Decimal(0))


def _forward(rows: list[Vector], pull: Vector) -> Vector:
    found: Vector = []
    for row, value in zip(rows, pull, strict=True):
        found.append(value - _dot(row, found))
    return found


def _backward(rows: list[Vector], pivots: Vector, pull: Vector) -> Vector:
    found = [value / pivot for value, pivot in zip(pull, pivots, strict=True)]
    for i in range(len(rows) - 1, -1, -1):
        for j, entry in enumerate(rows[i]):
            found[j] -= entry * found[i]
    return found
