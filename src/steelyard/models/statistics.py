"""Sufficient statistics of least squares: X'X and X'y as exact integers, noised together as one vector.

Rows are whole numbers of norm at most S and the label is at most S, so products of doubles add up exactly as long as a
partial sum stays below 2^53: 2^17 rows at a time, then Python integers. Off-diagonal entries stand once but weigh
about sqrt(2): then one row's matrix has exactly its Frobenius norm S^2, and half of the noise's variance is saved where
it matters. Solving is post-processing (``solving``; Wang's AdaSSP adds a ridge instead).
Proof: docs/proofs/sufficient_statistics.md.
Law: the weights and the sensitivity are functions of the width, the price and the neighbours alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from steelyard.bounding import Spend
from steelyard.mechanisms import Gaussian, Laplace, sigma_for
from steelyard.models.columns import SIZE, Features
from steelyard.models.rows import Label, Rows
from steelyard.models.solving import Noisy
from steelyard.noise import Noise
from steelyard.privacy import Event, Neighbours

EXACT_ROWS = 2**53 // SIZE**2
"""How many rows' products may be added as doubles without any rounding."""

BLOCK = 16_384


@dataclass(frozen=True)
class Products:
    """The step of a fold: X'X and X'y of a batch, exact."""

    features: Features
    label: Label

    @property
    def start(self) -> list[Any]:
        """Zeros of the right shapes."""
        width = self.features.width
        return [np.zeros((width, width), dtype=np.int64), np.zeros(width, dtype=np.int64)]

    def __call__(self, batch: Any) -> list[Any]:
        """The sums over the batch's rows of xx' and x*y as Python integers."""
        gram, moment = (array.astype(object) for array in self.start)
        for start in range(0, batch.num_rows, EXACT_ROWS):
            part = batch.slice(start, EXACT_ROWS)
            blocks = [self._block(part.slice(i, BLOCK)) for i in range(0, part.num_rows, BLOCK)]
            gram = gram + sum(g for g, _ in blocks).astype(np.int64).astype(object)
            moment = moment + sum(m for _, m in blocks).astype(np.int64).astype(object)
        return [gram, moment]

    def _block(self, batch: Any) -> tuple[Any, Any]:
        x = self.features.whole(batch)
        y = self.label.whole(batch.column(len(self.features.columns)))
        return x @ x.T, x @ y


def products(rows: Rows) -> tuple[Any, Any]:
    """The same of rows in memory."""
    width = rows.x.shape[1]
    gram, moment = np.zeros((width, width), dtype=object), np.zeros(width, dtype=object)
    for start in range(0, len(rows.y), EXACT_ROWS):
        x, y = rows.x[start : start + EXACT_ROWS], rows.y[start : start + EXACT_ROWS]
        gram, moment = gram + (x.T @ x).astype(np.int64), moment + (x.T @ y).astype(np.int64)
    return gram, moment


@dataclass(frozen=True)
class Weights:
    """Whole-number weights of diagonal entries, entries above it, and the label's vector."""

    diagonal: int
    above: int
    label: int

    def squared_norm(self) -> int:
        """The largest squared L2 norm of one row's weighted statistic, in units of S^4; needs above^2 <= 2 diagonal^2."""
        return self.diagonal**2 + self.label**2

    def squared_distance(self) -> int:
        """The largest squared L2 distance between two rows' statistics, in units of S^4, rounded up."""
        return 2 * self.squared_norm() + math.ceil(Fraction(self.label**4, self.above**2))

    def norm(self, width: int) -> int:
        """The largest L1 norm of one row's weighted statistic; needs ``above`` even and at most twice ``diagonal``."""
        longest = math.isqrt(width * SIZE**2)
        half = self.above // 2
        return (self.diagonal - half) * SIZE**2 + half * longest**2 + self.label * SIZE * longest


GAUSSIAN = Weights(29, 41, 29)
LAPLACE = Weights(8, 10, 8)


@dataclass(frozen=True)
class Statistics:
    """One noisy release of both statistics at a price fixed beforehand."""

    width: int
    spend: Spend
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    @property
    def weights(self) -> Weights:
        """The weights of this noise."""
        return GAUSSIAN if self.spend.gaussian else LAPLACE

    @property
    def mechanism(self) -> Gaussian | Laplace:
        """The noise: its sensitivity bounds what one row can do to the weighted integers."""
        if not self.spend.gaussian:
            return self.spend.mechanism(self.weights.norm(self.width))
        replaced = self.neighbours is Neighbours.REPLACE
        square = (self.weights.squared_distance() if replaced else self.weights.squared_norm()) * SIZE**4
        return Gaussian(None, sigma_for(square, self.spend.micro**2), self.neighbours, square)

    @property
    def event(self) -> Event:
        """What is charged."""
        return self.mechanism.event

    def fit(self, rows: Rows, noise: Noise) -> Noisy:
        """Noise the statistics of rows in memory."""
        return self.release(*products(rows), noise)

    def release(self, gram: Any, moment: Any, noise: Noise) -> Noisy:
        """Noise the statistics: one vector, the upper triangle and the label's, weighted.

        *Privacy:* the mechanism's price, for any sums over rows of norm at most S and labels of at most S.
        """
        i, j = np.triu_indices(self.width)
        weigh, weights = np.where(i == j, self.weights.diagonal, self.weights.above).astype(object), self.weights
        values = [int(v) for v in (gram[i, j] * weigh).tolist()] + [int(v) * weights.label for v in moment.tolist()]
        noised = self.mechanism.release(values, noise)
        unit = Fraction(1, SIZE**2)
        upper = [float(v * unit / w) for v, w in zip(noised, weigh.tolist(), strict=False)]
        matrix = np.zeros((self.width, self.width))
        matrix[i, j] = upper
        matrix[j, i] = upper
        vector = np.array([float(v * unit / weights.label) for v in noised[len(upper) :]])
        return Noisy(matrix, vector, self.deviation / weights.diagonal, self.deviation / weights.above,
                     self.deviation / weights.label)  # fmt: skip

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on a statistic of weight one, in units of a full row."""
        mechanism = self.mechanism
        size = mechanism.sigma if isinstance(mechanism, Gaussian) else mechanism.scale
        return float(size / SIZE**2) * (1.0 if isinstance(mechanism, Gaussian) else math.sqrt(2))
