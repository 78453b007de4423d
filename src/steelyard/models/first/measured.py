"""Noisy statistics of a ridge question, measured again and again: exact integers in, independent Gaussian noise on top.

Every product x_i x_j is released twice, as (i, j) and (j, i), with one sigma; the average of the two has half the
variance off the diagonal, which is the law the certificate is made for, and no entry needs a root of two.
Measurements are averaged by precision, so a path costs exactly its last level (docs/proofs/ridge_certificate.md).
Law: rows have |x| <= S and |y| <= S in whole grid steps; the statistics are exact integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.bounding.amounts import sigma_for
from steelyard.mechanisms import Gaussian
from steelyard.models.columns import SIZE, Features
from steelyard.models.first.certificate import Array, Noisy, Ridge
from steelyard.models.rows import Label, Rows
from steelyard.models.statistics import EXACT_ROWS, Products, products
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Neighbours
from steelyard.tables import Table

MATRIX = 32
"""The whole number by which products of features are multiplied before the noise; those with the label take ``vector``."""


@dataclass(frozen=True)
class Exact:
    """The exact statistics of the rows, as integers in units of S squared: private, never released as they are."""

    n: int
    unit: int
    gram: NDArray[np.object_]
    moment: NDArray[np.object_]
    square: int

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.moment)

    @classmethod
    def of_table(cls, table: Table, features: Features, label: Label, n: int) -> Exact:
        """Add up a table in one streaming pass; ``n`` is public and not counted."""
        step = _Totals(features, label)
        gram, moment, square = table.fold([*features.source, label.column], step, step.start)
        return cls(n, SIZE, gram, moment, int(square[0]))

    @classmethod
    def of_rows(cls, x: Array, y: Array) -> Exact:
        """Add up whole-number rows in memory."""
        gram, moment = products(Rows(x, y, None))
        square = sum(int(y[i : i + EXACT_ROWS] @ y[i : i + EXACT_ROWS]) for i in range(0, len(y), EXACT_ROWS))
        return cls(len(y), SIZE, gram, moment, square)


@dataclass(frozen=True)
class _Totals:
    """The step of a fold: X'X, X'y and y'y of a batch."""

    features: Features
    label: Label

    @property
    def start(self) -> list[Any]:
        return [*Products(self.features, self.label).start, np.zeros(1, dtype=np.int64)]

    def __call__(self, batch: Any) -> list[Any]:
        y = self.label.whole(batch.column(len(self.features.columns)))
        parts = (y[i : i + EXACT_ROWS] for i in range(0, len(y), EXACT_ROWS))
        square = np.array([sum(int(part @ part) for part in parts)], dtype=object)
        return [*Products(self.features, self.label)(batch), square]


@dataclass(frozen=True)
class Design:
    """How a path measures: the row bound S, the number of features, and the weight c of the label's products.

    u = (c / 32)^2 is the weight the certificate knows; it must be at most 2.
    """

    unit: int
    width: int
    vector: int

    @property
    def weight(self) -> float:
        """The certificate's u: the label's products have variance t/u."""
        return (self.vector / MATRIX) ** 2

    @property
    def square(self) -> int:
        """The squared distance by which replacing one row can move everything: S^4 (2 a^2 + c^2)^2 / (2 a^2)."""
        return -(-(self.unit**4) * (2 * MATRIX**2 + self.vector**2) ** 2 // (2 * MATRIX**2))

    def step(self, cost: int) -> Gaussian:
        """The measurement whose price is exactly ``cost`` (1e-12 of mu squared)."""
        return Gaussian(None, sigma_for(self.square, cost), Neighbours.REPLACE, self.square)

    def values(self, exact: Exact) -> list[int]:
        """The integers that one measurement hides."""
        matrix = [MATRIX * int(entry) for entry in exact.gram.ravel()]
        return [*matrix, *(self.vector * int(entry) for entry in exact.moment)]

    def measure(self, exact: Exact, cost: int, noise: Noise) -> list[int]:
        """One measurement: the sums of mirrored products (upper triangle), then the label's products."""
        released = self.step(cost).release(self.values(exact), noise)
        size = self.width
        pairs = [released[i * size + j] + released[j * size + i] for i in range(size) for j in range(i, size)]
        return [*pairs, *released[size * size :]]

    def noisy(self, ridge: Ridge, levels: Sequence[tuple[int, Sequence[int]]]) -> Noisy:
        """All measurements so far as one: the average by precision, in units where |x| <= 1 and |y| <= 1."""
        spent = sum(cost for cost, _ in levels)
        weighted = [cost / spent * np.array(values, dtype=np.float64) for cost, values in levels]
        average: Array = np.sum(weighted, axis=0)
        upper = np.triu_indices(self.width)
        matrix = np.zeros((self.width, self.width))
        matrix[upper] = average[: len(upper[0])] / (2 * MATRIX * self.unit**2)
        matrix = matrix + np.triu(matrix, 1).T + ridge.floor * np.eye(self.width)
        vector = average[len(upper[0]) :] / (self.vector * self.unit**2)
        # rounding moves an entry by half a step at most; doubles by a few units in the last place of at most n
        slack = self.width * (1 / (min(MATRIX, self.vector) * self.unit**2) + 1e-15 * ridge.n)
        return Noisy(matrix, vector, self.variance(spent), self.weight, slack)

    def variance(self, cost: int) -> float:
        """The certificate's t after measurements that cost this much in all."""
        return (2 + self.weight) ** 2 / 2 / (cost / MICRO**2) * (1 + 1e-9)


def best_weight(norm: float) -> int:
    """The weight c that makes the residual shortest for a best model of this length: u minimizes t (1/u + h)."""
    h = norm**2 / 2
    u = (-1 + math.sqrt(1 + 16 * h)) / (4 * h)
    return max(1, min(math.isqrt(2 * MATRIX**2), round(MATRIX * math.sqrt(u))))


def label_step(unit: int, cost: int) -> Gaussian:
    """The measurement of the sum of y squared: replacing one row moves it by at most S squared."""
    return Gaussian(unit**2, sigma_for(unit**4, cost), Neighbours.REPLACE)


def norm_bound(square: Fraction, penalty: float) -> float:
    """What the best model is at most long, given a bound on the mean of y squared: half its root over root lambda."""
    return 0.5 * math.sqrt(max(float(square), 0.0) / penalty) * (1 + 1e-12)
