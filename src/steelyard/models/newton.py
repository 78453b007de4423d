"""The minimizer of a perturbed sum of losses, certified: the true gradient is as short as asked, whatever the rows.

Damped Newton steps on doubles; every gradient comes with a bound on its own rounding, and the loop ends only when length
plus rounding is below the tolerance. Where doubles cannot certify it, point and sums are kept in decimals of many digits
and steps that do not shorten the gradient are replaced by short ones that must (1 over the largest curvature), so the
loop always ends, however many rows there are. How long it takes may depend on rows; what it promises may not.
Law: the returned point satisfies |grad| <= tolerance in real arithmetic; there is no limit on iterations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import repeat
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.models.columns import SIZE
from steelyard.models.losses import LOGISTIC, LossFunction

Floats = NDArray[np.float64]
Point = Floats | list[Decimal]
UNIT = 2.0**-53
SCALE = 2.0**60
_BLOCK = 64  # rows: 4 of them bound a block's rounding, that of adding 64 blocks, and that of p
_CHUNK = _BLOCK * 64
_PATIENCE = 60
_DIGITS = 60


@dataclass(frozen=True)
class Sums:
    """What one pass adds up: minus the gradient in steps of 2^-60 (whole numbers), the Hessian, rows and parts."""

    pull: NDArray[Any]
    hessian: Floats
    count: int
    parts: int

    def error(self, length: float, loss: LossFunction = LOGISTIC) -> float:
        """How far ``pull`` may be from the true sum, for a parameter of this length."""
        return _summed(loss, len(self.pull), self.count, self.parts, length)


def _summed(loss: LossFunction, width: int, count: int, parts: int, length: float) -> float:
    """A score errs by (width + 2) of its last digits, a slope by that times the curvature and by its own rounding."""
    each = 1.2 * loss.smoothness * (width + 2) * length + 4 * _BLOCK * loss.steepness
    return count * UNIT * each + parts * math.sqrt(width) / SCALE


def rounding(width: int, count: int, length: float, ridge: float, linear: float) -> float:
    """How short a gradient doubles can certify at best over so many rows in memory, for a parameter of this length.

    The sums' own error, that of adding the ridge and a linear term of length ``linear``, and the parameter's last digit.
    """
    own = 8 * UNIT * (count + ridge * length + linear)
    digit = UNIT * (count * LOGISTIC.smoothness + ridge) * length
    return _summed(LOGISTIC, width, count, count // _CHUNK + 1, length) + own + digit


class Passes(Protocol):
    """Rows that can be passed over, each of length at most one and as its loss reads it."""

    @property
    def loss(self) -> LossFunction:
        """The loss that is summed."""

    def sums(self, theta: Floats) -> Sums:
        """The sums at a parameter, on doubles."""

    def pull(self, theta: Point, digits: int) -> tuple[list[Decimal], int]:
        """Minus the exact gradient, to so many digits, and the number of rows."""


@dataclass(frozen=True)
class Memory:
    """Rows in memory in steps of 1/S, as the loss reads them: for the logistic one each times its label's sign.

    ``weights`` between 0 and 1 say how much of its loss each counts, and rows are then counted by them: what a row adds errs
    by its weight's share, and ``Sums.error`` has room for one more rounding of the slope.
    """

    rows: Floats
    weights: Floats | None = None
    loss: LossFunction = LOGISTIC
    labels: Floats | None = None

    def sums(self, theta: Floats) -> Sums:
        """The sums at a parameter."""
        width = self.rows.shape[1]
        pull, hessian = np.zeros(width, dtype=object), np.zeros((width, width))
        starts = range(0, len(self.rows), _CHUNK)
        for v, labels, weights in (self._part(start) for start in starts):
            slopes, curves = self.loss.derivatives(v @ theta, labels)
            if weights is not None:
                slopes, curves = slopes * weights, curves * weights
            blocks = [slopes[i : i + _BLOCK] @ v[i : i + _BLOCK] for i in range(0, len(v), _BLOCK)]
            pull = pull - np.array([int(x) for x in np.rint(np.sum(blocks, axis=0) * SCALE)], dtype=object)
            hessian += (v * curves[:, None]).T @ v
        return Sums(pull, hessian, self.count, len(starts))

    def _part(self, start: int) -> tuple[Floats, Floats | None, Floats | None]:
        """Some rows of length at most one, their labels and weights."""
        here = slice(start, start + _CHUNK)
        own = [None if values is None else values[here] for values in (self.labels, self.weights)]
        return self.rows[here] / SIZE, own[0], own[1]

    def pull(self, theta: Point, digits: int) -> tuple[list[Decimal], int]:
        """The same in decimals; slow, and needed only where doubles cannot certify."""
        with localcontext() as context:
            context.prec = digits
            parameter = [_decimal(x) for x in theta]
            total = [Decimal(0)] * self.rows.shape[1]
            for row, label, share in zip(self.rows.tolist(), _each(self.labels), _each(self.weights), strict=False):
                v = [Decimal(int(x)) / SIZE for x in row]
                score = sum((a * b for a, b in zip(v, parameter, strict=True)), Decimal(0))
                slope = self.loss.exact_slope(score, label) * (1 if share is None else share)
                total = [t - slope * a for t, a in zip(total, v, strict=True)]
            return total, self.count

    @property
    def count(self) -> int:
        """How many rows there are, or what they weigh together, rounded up."""
        return len(self.rows) if self.weights is None else math.ceil(self.weights.sum() * (1 + 1e-9))


def _each(values: Floats | None) -> Iterable[Decimal | None]:
    """Exact decimals, or None for ever."""
    return repeat(None) if values is None else map(Decimal, values.tolist())


@dataclass(frozen=True)
class Problem:
    """Minimize the sum of losses + ridge/2 |t|^2 + linear.t until the true gradient is at most ``tolerance``."""

    passes: Passes
    ridge: Fraction
    linear: Sequence[Fraction]
    tolerance: Fraction

    def solve(self) -> Floats:
        """A certified point, as near as doubles come to it."""
        return np.array([float(x) for x in self.certified()])

    def certified(self) -> Point:
        """A point whose gradient is as short as asked: doubles, or decimals where those cannot say it."""
        kept = theta = np.zeros(len(self.linear))
        short, tolerance = math.inf, float(self.tolerance) * (1 - 1e-9)
        for _ in range(_PATIENCE):
            sums, gradient, error = self._gradient(theta)
            length = float(np.linalg.norm(gradient))
            if length + error <= tolerance:
                return theta
            if length < short:
                kept, short = theta, length
                theta = theta + self._newton(sums.hessian, gradient)
            else:
                theta = 0.5 * (theta + kept)
        return self._slow(kept)

    def _gradient(self, theta: Floats) -> tuple[Sums, Floats, float]:
        sums, ridge = self.passes.sums(theta), float(self.ridge)
        linear = np.array([float(x) for x in self.linear])
        gradient = np.array([float(x) for x in sums.pull]) / -SCALE + ridge * theta + linear
        length = float(np.linalg.norm(theta))
        own = 8 * UNIT * (sums.count + ridge * length + float(np.linalg.norm(linear)) + float(np.linalg.norm(gradient)))
        return sums, gradient, sums.error(length, self.passes.loss) + own

    def _newton(self, hessian: Floats, gradient: Floats) -> Floats:
        curved = hessian + float(self.ridge) * np.eye(len(gradient))
        try:
            return np.asarray(-np.linalg.solve(curved, gradient))
        except np.linalg.LinAlgError:
            return np.asarray(-gradient / (float(np.trace(hessian)) + float(self.ridge)))

    def _slow(self, start: Floats) -> Point:
        """Refine in decimals; a step that does not shorten the gradient gives way to one that must."""
        theta: Point = [_decimal(x) for x in start]
        length, gradient, count = self._exact(theta)
        while length > self.tolerance:
            near = np.array([float(x) for x in theta])
            moved = _moved(theta, self._newton(self.passes.sums(near).hessian, gradient))
            trial = self._exact(moved)
            if not trial[0] < length:
                steepest = count * self.passes.loss.smoothness + float(self.ridge)
                moved = _moved(theta, -gradient / steepest)
                trial = self._exact(moved)
            theta, (length, gradient, count) = moved, trial
        return theta

    def _exact(self, theta: Point) -> tuple[Fraction, Floats, int]:
        """An upper bound of the true gradient's length, the gradient, and the number of rows."""
        pull, count = self.passes.pull(theta, _DIGITS)
        exact = [self.ridge * Fraction(t) + b - Fraction(p) for t, b, p in zip(theta, self.linear, pull, strict=True)]
        square = sum((x * x for x in exact), Fraction(0))
        slack = Fraction(count + 1, 10 ** (_DIGITS - 20))
        bits = 2 * 200
        root = Fraction(math.isqrt((square.numerator << bits) // square.denominator) + 1, 1 << (bits // 2))
        return root + slack, np.array([float(x) for x in exact]), count


def _decimal(value: float | Decimal) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(float(value))


def _moved(point: Point, by: Floats) -> list[Decimal]:
    """A point and a step, to so many digits that no step is swallowed."""
    with localcontext() as context:
        context.prec = _DIGITS
        return [_decimal(x) + Decimal(float(y)) for x, y in zip(point, by, strict=True)]
