"""How ridge statistics are measured: exact integers in, Gaussian noise again and again or Laplace noise along a path on top.

*Gaussian* (``Design``): every product x_i x_j is released twice, as (i, j) and (j, i), with one sigma; the average of the
two has half the variance off the diagonal, which is the law the certificate is made for. Measurements are averaged by
precision, so a path costs exactly its last level (docs/proofs/ridge_certificate.md).
*Laplace* (``Triangle``): each product once. A replaced row moves the weighted integers by less than two rows' lengths: two
outer products of vectors in the unit ball are at most sqrt(2) apart, and the sum of absolute entries is at most the
distance times a root of their number (docs/proofs/pure_paths.md).
Law: rows have |x| <= S and |y| <= S in whole grid steps; the statistics are exact integers; sensitivities are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, release_array, sigma_for
from steelyard.models._columns import SIZE
from steelyard.models._rows import products
from steelyard.models.accuracy._family import Integers
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Neighbours

Array = NDArray[np.float64]
MODEL_BITS = 48
"""A ridge model that is looked at is told in whole steps of 2^-48."""

MATRIX = 32
"""The whole number by which products of features are multiplied before the noise; those with the label take ``vector``."""

_WIDEST = 128  # the label's weight where rows are added or removed
_SPLITS = [Fraction(k, 32) for k in range(1, 65)]  # how much a label's products count beside those of features


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

    @lazy
    def narrow(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """The sums as 64-bit integers with room for every weight, where the public n says that they fit."""
        if self.n * self.unit**2 * MATRIX >= 2**61:
            return None
        limit = self.n * self.unit**2  # holds anyway; said again so that no table can make this fail
        gram, moment = (np.clip(part, -limit, limit).astype(np.int64) for part in (self.gram, self.moment))
        return gram, moment

    @lazy
    def _weighted(self) -> dict[int, NDArray[Any]]:
        return {}

    def weighted(self, vector: int) -> NDArray[Any]:
        """Products of features times ``MATRIX`` and those with the label times ``vector``, kept for every level of a path."""
        if vector not in self._weighted:
            gram, moment = self.narrow or (self.gram, self.moment)
            self._weighted[vector] = np.concatenate([MATRIX * gram.ravel(), vector * moment])
        return self._weighted[vector]

    @classmethod
    def of(cls, sums: NDArray[np.object_], n: int, unit: int) -> Exact:
        """From the products of features and, last, the label with each other."""
        return cls(n, unit, sums[:-1, :-1], sums[:-1, -1], int(sums[-1, -1]))

    @classmethod
    def of_rows(cls, x: Array, y: Array) -> Exact:
        """Add up whole-number rows in memory."""
        return cls.of(products(np.vstack([x.T, y]), y)[0], len(y), SIZE)


@dataclass(frozen=True)
class Design:
    """How a path measures: the row bound S, the number of features, and the weight c of the label's products.

    u = (c / 32)^2 is the weight the certificate knows; it must be at most 2.
    """

    unit: int
    width: int
    vector: int
    neighbours: Neighbours = Neighbours.REPLACE

    @property
    def weight(self) -> float:
        """The certificate's u: the label's products have variance t/u."""
        return (self.vector / MATRIX) ** 2

    @property
    def square(self) -> int:
        """The squared distance by which one row can move everything.

        Replaced: S^4 (2 a^2 + c^2)^2 / (2 a^2); added or removed: S^4 (a^2 + c^2).
        """
        if self.neighbours is Neighbours.ADD_REMOVE:
            return self.unit**4 * (MATRIX**2 + self.vector**2)
        return -(-(self.unit**4) * (2 * MATRIX**2 + self.vector**2) ** 2 // (2 * MATRIX**2))

    def coarse(self, cost: int) -> int:
        """By how many steps a measurement of this price rounds first: a power of two that keeps sigma in 64 bits.

        Rounding down moves an entry of a difference by less than one coarse step, so the distance grows by the root of
        the number of entries; where that were more than 3e-7 of it, the noise is drawn as Python integers instead.
        """
        return 1 << _coarse_bits(self.square, self.entries, cost)

    @property
    def entries(self) -> int:
        """How many integers a measurement hides."""
        return self.width * (self.width + 1)

    def step(self, cost: int) -> Gaussian:
        """The measurement whose price is exactly ``cost`` (1e-12 of mu squared), in coarse steps."""
        coarse, square = self.coarse(cost), self.square
        if coarse > 1:
            square = (math.isqrt(square) // coarse + math.isqrt(self.entries) + 3) ** 2
        return Gaussian(None, sigma_for(square, cost), self.neighbours, square)

    def values(self, exact: Exact, coarse: int = 1) -> NDArray[Any]:
        """The integers that one measurement hides, rounded down to multiples of a power of two."""
        found = exact.weighted(self.vector) >> (coarse.bit_length() - 1)
        if found.dtype == object and exact.n * exact.unit**2 * MATRIX < 2**61 * coarse:
            found = np.clip(found, -(2**62), 2**62).astype(np.int64)  # clips nothing, and no table can make it fail
        return found

    def measure(self, exact: Exact, cost: int, noise: Noise, step: Gaussian | None = None) -> NDArray[Any]:
        """One measurement: the sums of mirrored products (upper triangle), then the label's products.

        ``step`` is that of the price, where it is at hand. 64-bit integers where all of them fit, else Python's; which of the two is a matter of released numbers.
        """
        coarse, size = self.coarse(cost), self.width
        released = release_array(step or self.step(cost), self.values(exact, coarse), noise)
        square = released[: size * size].reshape(size, size)
        pairs = (square + square.T).take(_upper(size))
        return _times(coarse, np.concatenate([pairs, released[size * size :]]))

    def variance(self, cost: int) -> float:
        """The certificate's t after measurements that cost this much in all; rounding adds less than 1e-6 of it."""
        added = self.neighbours is Neighbours.ADD_REMOVE
        square = 1 + self.weight if added else (2 + self.weight) ** 2 / 2
        return square / (cost / MICRO**2) * (1 + 1e-6)


@lru_cache(maxsize=256)
def _coarse_bits(square: int, entries: int, cost: int) -> int:
    """The bits that a measurement of this price leaves out: worked out once for its event, its noise and its place in the average."""
    sigma, most = math.isqrt(square * MICRO**2 // cost), math.isqrt(square) // 3_000_000
    for bits in (43, 47):  # narrow noise is drawn faster
        left_out = (max(1, sigma >> bits) - 1).bit_length()
        if not left_out or (math.isqrt(entries) + 3) << left_out <= most:
            return left_out
    return 0


class PooledDesign:
    """Measurements averaged by precision, one more at a time."""

    def __init__(self, design: Design) -> None:
        self.design, self.levels = design, 0
        self._spent, self._coarsest = 0, 1
        self._total: Array = np.zeros(1)

    def add(self, cost: int, values: Integers) -> None:
        """One more measurement of this price."""
        self._total = self._total + cost * np.array(values, dtype=np.float64)
        self._spent += cost
        self._coarsest = max(self._coarsest, self.design.coarse(cost))
        self.levels += 1

    def noisy(self, ridge: Ridge) -> Noisy:
        """The average, in units where |x| <= 1 and |y| <= 1."""
        design, unit = self.design, self.design.unit**2
        average, pairs = self._total / self._spent, design.width * (design.width + 1) // 2
        matrix = _penalized(average[:pairs] / (2 * MATRIX * unit), ridge)
        vector = average[pairs:] / (design.vector * unit)
        # rounding moves an entry by a coarse step and a half at most; doubles, of at most n, by 2^-53 per operation
        rounding = 2 * self._coarsest / (min(MATRIX, design.vector) * unit) + (self.levels + 4) * 2.5e-16 * ridge.n
        return Noisy(matrix, vector, design.variance(self._spent), design.weight, design.width * rounding)


@cache
def _upper(width: int) -> NDArray[Any]:
    """Where the upper triangle lies in a square matrix that is laid out row by row."""
    return np.flatnonzero(np.triu(np.ones((width, width), dtype=np.bool_)))


@cache
def _mirrored(width: int) -> NDArray[Any]:
    """Which entry of an upper triangle belongs to each place of the symmetric matrix."""
    order = np.zeros((width, width), dtype=np.intp)
    order.ravel()[_upper(width)] = np.arange(width * (width + 1) // 2)
    return np.maximum(order, order.T)


def _penalized(triangle: Array, ridge: Ridge) -> Array:
    """The symmetric matrix of an upper triangle, with the penalty on its diagonal."""
    matrix: Array = triangle.take(_mirrored(ridge.width))
    matrix.ravel()[:: ridge.width + 1] += ridge.floor
    return matrix


def _times(coarse: int, whole: NDArray[Any]) -> NDArray[Any]:
    """Released coarse steps as steps, exactly."""
    if whole.dtype == np.int64 and max(int(whole.max()), -int(whole.min())) > (2**63 - 1) // coarse:
        whole = whole.astype(object)
    return whole if coarse == 1 else coarse * whole


def best_weight(norm: float, neighbours: Neighbours = Neighbours.REPLACE) -> int:
    """The weight c that makes the residual shortest for a best model of this length: u minimizes t (1/u + h)."""
    if neighbours is Neighbours.ADD_REMOVE:
        return max(1, min(_WIDEST, round(MATRIX * math.sqrt(math.sqrt(2) / norm))))
    h = norm**2 / 2
    u = (-1 + math.sqrt(1 + 16 * h)) / (4 * h)
    return max(1, min(math.isqrt(2 * MATRIX**2), round(MATRIX * math.sqrt(u))))


def norm_bound(square: Fraction, penalty: float) -> float:
    """What the best model is at most long, given a bound on the mean of y squared: half its root over root lambda."""
    return 0.5 * math.sqrt(max(float(square), 0.0) / penalty) * (1 + 1e-12)


def as_model(steps: Sequence[int]) -> Array:
    """Whole steps of 2^-48 as the model they stand for."""
    return np.array(steps, dtype=np.float64) / 2.0**MODEL_BITS


def in_ball(model: Array, ball: float) -> tuple[int, ...]:
    """A model as whole steps of 2^-48, shortened where it is longer than the ball."""
    length = float(np.linalg.norm(model))
    shrunk = model * min(1.0, ball / length * (1 - 1e-9)) if length > 0 else model
    return tuple(int(k) for k in np.trunc(shrunk * 2.0**MODEL_BITS))


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
        matrix = _penalized(whole[:pairs] / MATRIX, ridge)
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
    tried = [Triangle(unit, width, vector, busy) for vector in range(1, 2 * MATRIX + 1)]
    return min(tried, key=lambda each: each.sensitivity**2 * (1 / each.vector**2 + (length / MATRIX) ** 2))


def _root_above(square: Fraction) -> int:
    """The least whole number that is no less than the root."""
    return math.isqrt(math.ceil(square) - 1) + 1
