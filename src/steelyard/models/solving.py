"""From noisy sufficient statistics to coefficients: post-processing, from released and public numbers alone.

Two things must not be divided by: eigenvalues that noise alone could have made, which are lifted to a floor, and a
signal that is weaker than the noise on X'y, which is shrunk. How strong coefficients are is not known, so every strength
on a public grid is tried, weighed by how likely it makes the released X'y, and the models are averaged. What is shrunk
is what goes beyond the mean label, so that a model that heard nothing predicts the mean and not the bounds' middle.
Law: nothing here sees a row; every number used is in the release, or is a function of the width and the price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EDGE = 3.0
"""How far above its typical largest eigenvalue the noise is allowed to reach before it passes for signal; in standard
deviations. Three was fixed once, on generated tables; about one draw in a hundred is beyond."""

STRENGTHS = np.geomspace(0.01, 3.0, 40)
"""Root mean squares of the coefficients beyond the mean that are tried. Labels are at most one and so are rows."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Noisy:
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
