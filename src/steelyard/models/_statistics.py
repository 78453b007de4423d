"""Least squares from sufficient statistics: X'X and X'y as exact integers, noised together as one vector, then solved.

Off-diagonal entries stand once but weigh about sqrt(2): then one row's matrix has exactly its Frobenius norm S^2, and half
of the noise's variance is saved where it matters. Solving is post-processing, from released and public numbers alone
(Wang's AdaSSP adds a ridge instead). Two things must not be divided by: eigenvalues that noise alone could have made, which
are lifted to a floor, and a signal that is weaker than the noise on X'y, which is shrunk. How strong coefficients are is not
known, so every strength on a public grid is tried, weighed by how likely it makes the released X'y, and the models are
averaged. What is shrunk is what goes beyond the mean label, so that a model that heard nothing predicts the mean and not
the bounds' middle. Proof: docs/proofs/sufficient_statistics.md.
Law: the weights and the sensitivity are functions of the width, the price and the neighbours alone; the solver sees no row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.bounding import Spend
from steelyard.mechanisms import Gaussian, Laplace, sigma_for
from steelyard.models._columns import SIZE, Floats
from steelyard.models._rows import Fitted, Target
from steelyard.privacy import Event, Neighbours, finite

if TYPE_CHECKING:
    from steelyard.models._passes import Training
    from steelyard.noise import Noise

EDGE = 3.0
"""How far above its typical largest eigenvalue the noise is allowed to reach before it passes for signal; in standard
deviations. Three was fixed once, on generated tables; about one draw in a hundred is beyond."""

STRENGTHS = np.geomspace(0.01, 3.0, 40)
"""Root mean squares of the coefficients beyond the mean that are tried. Labels are at most one and so are rows."""


@dataclass(frozen=True)
class EntryWeights:
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


GAUSSIAN = EntryWeights(29, 41, 29)
LAPLACE = EntryWeights(8, 10, 8)


@dataclass(frozen=True)
class StatisticsRelease:
    """One noisy release of both statistics at a price fixed beforehand."""

    width: int
    spend: Spend
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    @property
    def weights(self) -> EntryWeights:
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

    def release(self, gram: Any, moment: Any, noise: Noise) -> NoisyStatistics:
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
        return NoisyStatistics(matrix, vector, self.deviation / weights.diagonal, self.deviation / weights.above,
                     self.deviation / weights.label)  # fmt: skip

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on a statistic of weight one, in units of a full row."""
        mechanism = self.mechanism
        size = mechanism.sigma if isinstance(mechanism, Gaussian) else mechanism.scale
        return float(size / SIZE**2) * (1.0 if isinstance(mechanism, Gaussian) else math.sqrt(2))


@dataclass(frozen=True)
class NoisyStatistics:
    """Released statistics, for rows of length at most one and labels in [-1, 1], and the noise's deviations."""

    matrix: Floats
    vector: Floats
    on_diagonal: float
    above: float
    on_label: float

    @property
    def floor(self) -> float:
        """The largest eigenvalue that noise alone is likely to make: below it nothing can be told from noise."""
        return 2 * self.above * math.sqrt(len(self.vector)) + EDGE * self.on_diagonal

    @property
    def floored(self) -> int:
        """How many directions noise alone could have made."""
        return int((np.linalg.eigvalsh(self.matrix) <= self.floor).sum())

    def solve(self, intercept: bool = True) -> tuple[Floats, Floats]:
        """The coefficients, and what each direction's share of X'y was divided by, smallest eigenvalue first.

        With an intercept (the last feature) the mean label is fitted first and the others explain what is left.
        """
        mean, left = self._anchor(intercept)
        values, axes = np.linalg.eigh(self.matrix)
        seen = axes.T @ left
        held = self._divisors(values, seen, float(mean @ mean))
        return np.asarray(mean + axes @ (seen / held)), held

    def excess(self, coefficients: Floats, held: Floats) -> float:
        """How much the noise is expected to add to the sum of squared errors; from released facts alone.

        What the floor and the shrinking pull toward the mean comes on top and cannot be told from the release.
        """
        spread = self.on_label**2 + self.above**2 * float(coefficients @ coefficients)
        values = np.asarray(np.linalg.eigvalsh(self.matrix), dtype=np.float64)
        return float(spread * np.sum(self._curvature(values) / held**2))

    def _anchor(self, intercept: bool) -> tuple[Floats, Floats]:
        """The model that predicts one mean, and what of X'y it leaves to the others."""
        mean = np.zeros_like(self.vector)
        if not intercept:
            return mean, self.vector
        mean[-1] = self.vector[-1] / max(self.matrix[-1, -1], self.floor)
        left = self.vector - self.matrix @ mean
        left[-1] = 0.0
        return mean, np.asarray(left)

    def _curvature(self, values: Floats) -> Floats:
        """Eigenvalues as they may be: those under half of the floor cannot be told from noise, nor from half of it."""
        return np.asarray(np.maximum(values, self.floor / 2))

    def _divisors(self, values: Floats, seen: Floats, mean: float) -> Floats:
        """What to divide by: the best for each strength (never below the floor), averaged over the strengths.

        For coefficients of strength t the share of X'y along an eigenvector of eigenvalue w has variance (t w)^2 + v, v
        being the noise's, and the best divisor is w + v / (t^2 w). Strengths are equally likely beforehand.
        """
        curvature = self._curvature(values)[:, None]
        noise = self.on_label**2 + self.above**2 * mean
        variance = (STRENGTHS * curvature) ** 2 + noise
        likely = -0.5 * np.sum(np.log(variance) + seen[:, None] ** 2 / variance, axis=0) + np.log(STRENGTHS)
        weights = np.exp(likely - likely.max())
        divisors = np.maximum(curvature + noise / (STRENGTHS**2 * curvature), self.floor)
        return np.asarray(1 / ((1 / divisors) @ (weights / weights.sum())))


@dataclass(frozen=True)
class LeastSquares:
    """A linear model from one release of the statistics (``Method``); ``norm`` and ``intercept`` are its features'."""

    statistics: StatisticsRelease
    target: Target
    norm: str
    intercept: bool

    @property
    def event(self) -> Event:
        """What is charged."""
        return self.statistics.event

    def fit(self, data: Training, noise: Noise) -> Fitted:
        """Add up, noise, solve; the details say what the noise adds to the mean squared error, where that can be told."""
        noisy = self.statistics.release(*data.products(), noise)
        theta, held = noisy.solve(self.intercept)
        rows = self._rows(noisy)
        point = {"floor": noisy.floor, "floored": noisy.floored, "noise": noisy.on_label, "rows": rows}
        if rows is not None:
            excess = noisy.excess(theta, held) / rows
            point["expected_excess"] = finite(Fraction(excess) * Fraction(self.target.half) ** 2)
        return Fitted(theta, point)

    def _rows(self, noisy: NoisyStatistics) -> float | None:
        """About how many rows there were, read off the released matrix where it says so."""
        if self.norm == "scale":
            return max(float(noisy.matrix.trace()), 1.0)
        return max(2 * float(noisy.matrix[-1, -1]), 1.0) if self.intercept else None
