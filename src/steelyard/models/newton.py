"""The minimizer of a perturbed logistic sum, certified: the true gradient is as short as asked, whatever the rows.

Damped Newton steps on doubles; every gradient comes with a bound on its own rounding, and the loop ends only when length
plus rounding is below the tolerance. Where doubles cannot certify it, point and sums are kept in decimals of many digits
and steps that do not shorten the gradient are replaced by short ones that must (1 over the largest curvature), so the
loop always ends, however many rows there are. How long it takes may depend on rows; what it promises may not.
Law: the returned point satisfies |grad| <= tolerance in real arithmetic; there is no limit on iterations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.models.columns import SIZE

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

    def error(self, length: float) -> float:
        """How far ``pull`` may be from the true sum, for a parameter of this length."""
        return _summed(len(self.pull), self.count, self.parts, length)


def _summed(width: int, count: int, parts: int, length: float) -> float:
    each = 0.3 * (width + 2) * length + 4 * _BLOCK
    return count * UNIT * each + parts * math.sqrt(width) / SCALE


def rounding(width: int, count: int, length: float, ridge: float, linear: float) -> float:
    """How short a gradient doubles can certify at best over so many rows in memory, for a parameter of this length.

    The sums' own error, that of adding the ridge and a linear term of length ``linear``, and the parameter's last digit.
    """
    own = 8 * UNIT * (count + ridge * length + linear)
    return _summed(width, count, count // _CHUNK + 1, length) + own + UNIT * (count / 4 + ridge) * length


class Passes(Protocol):
    """Rows that can be passed over: each row times its label's sign, of length at most one."""

    def sums(self, theta: Floats) -> Sums:
        """The sums at a parameter, on doubles."""

    def pull(self, theta: Point, digits: int) -> tuple[list[Decimal], int]:
        """The exact sum of p v, to so many digits, and the number of rows."""


def batch_sums(signed: Floats, theta: Floats, weights: Floats | None = None) -> list[NDArray[Any]]:
    """The sums over a batch of signed rows in steps of 1/S: [pull, Hessian, rows, parts].

    Weights, where given, lie between 0 and 1 and rows are counted by them: what a row adds errs by its weight's share, and
    ``Sums.error`` has room for one more rounding of p.
    """
    width = signed.shape[1]
    pull, hessian = np.zeros(width, dtype=object), np.zeros((width, width))
    parts = 0
    for start in range(0, len(signed), _CHUNK):
        v = signed[start : start + _CHUNK] / SIZE
        p = 0.5 * (1 - np.tanh(0.5 * (v @ theta)))
        pulls, curves = p, p * (1 - p)
        if weights is not None:
            pulls, curves = (part * weights[start : start + _CHUNK] for part in (pulls, curves))
        blocks = [pulls[i : i + _BLOCK] @ v[i : i + _BLOCK] for i in range(0, len(v), _BLOCK)]
        pull = pull + np.array([int(x) for x in np.rint(np.sum(blocks, axis=0) * SCALE)], dtype=object)
        hessian += (v * curves[:, None]).T @ v
        parts += 1
    return [pull, hessian, np.array([counted(signed, weights)], dtype=object), np.array([parts], dtype=object)]


def counted(signed: Floats, weights: Floats | None) -> int:
    """How many rows there are, or what they weigh together, rounded up."""
    return len(signed) if weights is None else math.ceil(weights.sum() * (1 + 1e-9))


def exact_pull(signed: Floats, theta: Point, digits: int, weights: Floats | None = None) -> list[Decimal]:
    """The (weighted) sum of p v over signed rows in decimals; slow, and needed only where doubles cannot certify."""
    with localcontext() as context:
        context.prec = digits
        parameter = [_decimal(x) for x in theta]
        total = [Decimal(0)] * signed.shape[1]
        shares = [1.0] * len(signed) if weights is None else weights.tolist()
        for row, share in zip(signed.tolist(), shares, strict=True):
            v = [Decimal(int(x)) / SIZE for x in row]
            margin = sum((a * b for a, b in zip(v, parameter, strict=True)), Decimal(0))
            p = Decimal(share) / (1 + margin.exp()) if margin < 10**5 else Decimal(0)
            total = [t + p * a for t, a in zip(total, v, strict=True)]
        return total


@dataclass(frozen=True)
class Memory:
    """Signed rows in memory; ``weights`` between 0 and 1 say how much of its loss each counts."""

    signed: Floats
    weights: Floats | None = None

    def sums(self, theta: Floats) -> Sums:
        """The sums at a parameter."""
        pull, hessian, count, parts = batch_sums(self.signed, theta, self.weights)
        return Sums(pull, hessian, int(count[0]), int(parts[0]))

    def pull(self, theta: Point, digits: int) -> tuple[list[Decimal], int]:
        """The same in decimals."""
        return exact_pull(self.signed, theta, digits, self.weights), counted(self.signed, self.weights)


@dataclass(frozen=True)
class Problem:
    """Minimize sum log(1 + exp(-v.t)) + ridge/2 |t|^2 + linear.t until the true gradient is at most ``tolerance``."""

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
        return sums, gradient, sums.error(length) + own

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
                moved = _moved(theta, -gradient / (count / 4 + float(self.ridge)))
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
