"""A bound on a ridge model's excess risk from its noisy statistics alone: no row is asked, nothing is paid.

With A = X'X + n lambda I, R = X'y and noisy copies A^ = A + E, R^ = R + e, the best model satisfies
R^ - A^ best = e - E best, whose law is known. Two events (that residual is short, -E has no large eigenvalue) then
confine the best model, and the S-procedure turns the confinement into a bound on the risk of a model chosen for it.
Law: the bound holds on the two events whatever the data; docs/proofs/ridge_certificate.md derives it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.models.accuracy.quantiles import largest_eigenvalue, weighted_chi_square

Array = NDArray[np.float64]
_OUTWARD = 1 + 1e-9  # eigenvalues and sums in double precision err by far less than this
_TINY = 1e-200  # keeps a singular matrix from dividing by zero; its bound is then useless, and never chosen


@dataclass(frozen=True)
class Ridge:
    """The public facts of a ridge question on rows with |x| <= 1 and |y| <= 1."""

    n: int
    width: int
    penalty: float

    @property
    def floor(self) -> float:
        """What every eigenvalue of A is at least."""
        return self.n * self.penalty


@dataclass(frozen=True)
class Noisy:
    """Noisy statistics: ``matrix`` estimates A with variance t (off the diagonal t/2), ``vector`` R with t/u.

    ``slack`` bounds the norm of what rounding adds to the residual and to the matrix.
    """

    matrix: Array
    vector: Array
    variance: float
    weight: float
    slack: float = 0.0


@dataclass(frozen=True)
class Certified:
    """A model and what its excess risk is at most, on the event the certificate was made for."""

    model: Array
    excess: float


def certify(ridge: Ridge, noisy: Noisy, norm: float, failure: float) -> Certified:
    """The model whose certified excess risk is smallest, and that bound; fails with probability ``failure`` at most.

    ``norm`` bounds the length of the best model. *Privacy:* post-processing of the noisy statistics.
    """
    values, basis = np.linalg.eigh(noisy.matrix)
    seen = basis.T @ noisy.vector
    push = math.sqrt(noisy.variance) * largest_eigenvalue(ridge.width, failure / 2) + noisy.slack
    radius = residual_square(ridge.width, noisy, norm, failure / 2)
    shorter = min(norm, shortest(values, seen, radius))
    radius = residual_square(ridge.width, noisy, shorter, failure / 2)
    tried = _candidates(values)
    bounds = _bounds(ridge, values, seen, push, radius, shorter, tried)
    best = int(np.argmin(bounds))
    model = basis @ (values * seen / (values**2 + tried[best] + _TINY))
    return Certified(model, max(float(bounds[best]), 0.0) / (2 * ridge.n) * _OUTWARD)


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


def _candidates(values: Array) -> Array:
    """Amounts of shrinkage to try: none, and a ladder up to the largest eigenvalue squared."""
    top = float(np.max(values**2))
    return np.concatenate([[0.0], np.geomspace(top * 1e-10, top, 160)])


def _bounds(ridge: Ridge, values: Array, seen: Array, push: float, radius: float, norm: float, tried: Array) -> Array:
    """2 n times the excess risk of each shrunk model, at most."""
    squares = values**2 + tried[:, None] + _TINY
    first = np.max(np.maximum(values + push, ridge.floor) / squares, axis=1)
    models = values * seen / squares
    miss = ((seen - values * models) ** 2).sum(axis=1)
    return np.asarray(first * (radius - miss) + first * tried * (norm**2 - (models**2).sum(axis=1)))
