"""Noisy statistics of a ridge question on a pure account: each product once, exact integers in, Laplace noise on top.

The upper triangle of X'X, the diagonal included, and X'y, each block by its own whole weight. A replaced row moves the
weighted integers by less than two rows' lengths: two outer products of vectors in the unit ball are at most sqrt(2)
apart, and the sum of absolute entries is at most the distance times a root of their number (docs/proofs/pure_paths.md).
Law: rows have |x| <= S and |y| <= S in whole grid steps; the sensitivity is a whole number, rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from steelyard.lazy import lazy
from steelyard.models.accuracy.certificate import Noisy, Ridge
from steelyard.models.accuracy.measured import MATRIX, Exact, Integers
from steelyard.privacy import MICRO

MOST = 2 * MATRIX
_SPLITS = [Fraction(k, 32) for k in range(1, 65)]  # how much a label's products count beside those of features


@dataclass(frozen=True)
class Triangle:
    """How a pure path measures: the row bound S, the number of features, and the weight of the label's products.

    ``busy`` is how many features of a row are not zero at most: one for each column, however many values it may have.
    """

    unit: int
    width: int
    vector: int
    busy: int

    @lazy
    def sensitivity(self) -> int:
        """By how much one replaced row, or user, moves all integers together: the least that is proved."""
        return min(self._twice(), *(self._apart(split) for split in _SPLITS))

    def _twice(self) -> int:
        """Two rows, each as large as can be: 2 S^2 (a (k + 1)/2 + c sqrt k) where k features are busy."""
        block = MATRIX * (self.busy + 1) * self.unit**2
        return block + _root_above(Fraction(4 * self.vector**2 * self.busy * self.unit**4))

    def _apart(self, split: Fraction) -> int:
        """The root of S^4 (2 + t)^2/2 (a^2 (p/4 + q) + c^2 q/t), t in (0, 2], where p pairs and q features may move."""
        d, k, a, c = self.width, self.busy, MATRIX, self.vector
        pairs, alone = min(d * (d - 1), 2 * k * (k - 1)), min(d, 2 * k)
        entries = a * a * (Fraction(pairs, 4) + alone) + c * c * alone / split
        return _root_above(self.unit**4 * (2 + split) ** 2 / 2 * entries)

    def values(self, exact: Exact) -> list[int]:
        """The integers that a release hides: weighted products, row by row, then those with the label."""
        pairs = exact.gram[np.triu_indices(self.width)]
        return [MATRIX * int(value) for value in pairs] + [self.vector * int(value) for value in exact.moment]

    def noisy(self, ridge: Ridge, released: Integers, micro: int) -> Noisy:
        """A release at this level, where |x| <= 1 and |y| <= 1; its variance is a guess at what models need."""
        whole = np.array([float(value) for value in released]) / self.unit**2
        pairs = self.width * (self.width + 1) // 2
        matrix = np.zeros((self.width, self.width))
        matrix[np.triu_indices(self.width)] = whole[:pairs] / MATRIX
        matrix = np.triu(matrix) + np.triu(matrix, 1).T + ridge.floor * np.eye(self.width)
        return Noisy(matrix, whole[pairs:] / self.vector, self.variance(micro), 2 * (self.vector / MATRIX) ** 2)

    def variance(self, micro: int) -> float:
        """Twice the variance of an entry of the matrix, which off the diagonal is what ``Noisy`` calls t/2."""
        return (2 * self.sensitivity / self.unit**2 * MICRO / micro / MATRIX) ** 2

    def level(self, ridge: Ridge, length: float, excess: float, curvature: float) -> int:
        """The level, in millionths of epsilon, whose model likely has this excess, where A is n times ``curvature``."""
        each = 1 / self.vector**2 + (length / MATRIX) ** 2
        found = self.sensitivity / self.unit**2 * math.sqrt(self.width * each / (excess * curvature)) / ridge.n
        return max(1, min(math.ceil(found * MICRO), 10**12))


@lru_cache(maxsize=64)
def best_triangle(unit: int, width: int, length: float, busy: int) -> Triangle:
    """The weight that makes the residual of a model of this length shortest."""
    tried = [Triangle(unit, width, vector, busy) for vector in range(1, MOST + 1)]
    return min(tried, key=lambda each: each.sensitivity**2 * (1 / each.vector**2 + (length / MATRIX) ** 2))


def _root_above(square: Fraction) -> int:
    """The least whole number that is no less than the root."""
    return math.isqrt(math.ceil(square) - 1) + 1
