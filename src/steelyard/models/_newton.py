"""The minimizer of a perturbed sum of losses, certified: the true gradient is as short as asked, whatever the rows.

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

import numpy as np

from steelyard.models._losses import SCALE, UNIT, Floats, Memory, Passes, Point, Sums, decimal_of

_PATIENCE = 60
_STALE = 0.1
_MANY, _EVERY = 16_384, 8
_DIGITS = 60


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
        found, point = self._descend(float(self.tolerance) * (1 - 1e-9))
        return point if found else self._slow(point)

    def _descend(self, tolerance: float) -> tuple[bool, Floats]:
        """Newton steps until the gradient is certainly as short as that, or patience ends; the shortest point found.

        While each step shortens the gradient tenfold the curvature is not read again, but corrected by what the step met (BFGS).
        """
        kept = theta = self._start()
        short, ratio, stale = math.inf, math.inf, False
        before, hessian = np.zeros_like(theta), np.eye(len(theta))
        for _ in range(_PATIENCE):
            curved = ratio > _STALE
            sums, gradient, error = self._gradient(theta, curved)
            length = float(np.linalg.norm(gradient))
            if length + error <= tolerance:
                return True, theta
            if length < short:
                hessian = sums.hessian + self._penalty if curved else _met(hessian, theta - kept, gradient - before)
                ratio = length / short if short < math.inf or theta.any() else math.inf
                kept, short, stale, before = theta, length, not curved, gradient
                theta = theta + _step(hessian, gradient)
            elif stale:
                theta, short, ratio = kept, math.inf, math.inf
            else:
                theta = 0.5 * (theta + kept)
        return False, kept

    @property
    def _penalty(self) -> Floats:
        return float(self.ridge) * np.eye(len(self.linear))

    def _start(self) -> Floats:
        """Zero, or where there are many rows the minimum over some of them, nearer than another sample would be."""
        passes = self.passes
        if not isinstance(passes, Memory) or len(passes.rows) < _MANY:
            return np.zeros(len(self.linear))
        some = Problem(passes.thinned(_EVERY), self.ridge / _EVERY, [x / _EVERY for x in self.linear], Fraction(1))
        return some._descend(math.sqrt(len(passes.rows)) / 100)[1]

    def _gradient(self, theta: Floats, curved: bool) -> tuple[Sums, Floats, float]:
        sums, ridge = self.passes.sums(theta, curved), float(self.ridge)
        linear = np.array([float(x) for x in self.linear])
        gradient = np.array([float(x) for x in sums.pull]) / -SCALE + ridge * theta + linear
        length = float(np.linalg.norm(theta))
        own = 8 * UNIT * (sums.count + ridge * length + float(np.linalg.norm(linear)) + float(np.linalg.norm(gradient)))
        return sums, gradient, sums.error(length, self.passes.loss) + own

    def _slow(self, start: Floats) -> Point:
        """Refine in decimals; a step that does not shorten the gradient gives way to one that must."""
        theta: Point = [decimal_of(x) for x in start]
        length, gradient, count = self._exact(theta)
        while length > self.tolerance:
            near = np.array([float(x) for x in theta])
            moved = _moved(theta, _step(self.passes.sums(near).hessian + self._penalty, gradient))
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


def _step(hessian: Floats, gradient: Floats) -> Floats:
    try:
        return np.asarray(-np.linalg.solve(hessian, gradient))
    except np.linalg.LinAlgError:
        return np.asarray(-gradient / float(np.trace(hessian)))


def _met(hessian: Floats, moved: Floats, change: Floats) -> Floats:
    """The curvature, corrected by how the gradient changed along a step; unchanged where rounding says that it did not rise."""
    along, bent = float(change @ moved), hessian @ moved
    if not along > 0:
        return hessian
    return np.asarray(hessian + np.outer(change, change) / along - np.outer(bent, bent) / float(bent @ moved))


def _moved(point: Point, by: Floats) -> list[Decimal]:
    """A point and a step, to so many digits that no step is swallowed."""
    with localcontext() as context:
        context.prec = _DIGITS
        return [decimal_of(x) + Decimal(float(y)) for x, y in zip(point, by, strict=True)]
