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

from steelyard.models._losses import SCALE, UNIT, Floats, Passes, Point, Sums, decimal_of

_PATIENCE = 60
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
        theta: Point = [decimal_of(x) for x in start]
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


def _moved(point: Point, by: Floats) -> list[Decimal]:
    """A point and a step, to so many digits that no step is swallowed."""
    with localcontext() as context:
        context.prec = _DIGITS
        return [decimal_of(x) + Decimal(float(y)) for x, y in zip(point, by, strict=True)]
