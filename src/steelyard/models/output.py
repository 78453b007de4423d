"""Logistic regression by output perturbation: the exact minimizer, rounded, with noise on it.

The minimizer of a ridge-penalized sum of losses moves by at most 1/ridge when one row of length one comes or goes, so
noise of that size hides it. Simple and valid for any convex loss of slope at most one, but noisier than perturbing the
objective: offered for comparison. Paper: Chaudhuri, Monteleoni and Sarwate 2011; docs/proofs/output_perturbation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from steelyard.errors import InvalidTask
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.models.method import Fitted
from steelyard.models.newton import Floats, Memory, Passes, Problem
from steelyard.privacy import MICRO, Event

if TYPE_CHECKING:
    from steelyard.models.passes import Reading
    from steelyard.models.rows import Rows
    from steelyard.noise import Noise

_FINE, _GRADIENT = 2**24, Fraction(1, 2**12)


@dataclass(frozen=True)
class OutputFit:
    """One binary model by output perturbation for ``micro`` of mu, or of pure epsilon (``Method``)."""

    width: int
    micro: int
    gaussian: bool
    ridge: Fraction

    def __post_init__(self) -> None:
        if self.micro < 1 or self.ridge <= 0:
            raise InvalidTask("output perturbation needs a price of at least one micro and a positive ridge.")

    @property
    def step(self) -> Fraction:
        """The grid of the answer."""
        return 1 / (self.ridge * _FINE)

    @property
    def sensitivity(self) -> int:
        """How far one row moves the rounded answer, in steps: 1/ridge, twice the solver's error, both roundings."""
        return math.ceil(_FINE * (1 + 2 * _GRADIENT)) + math.isqrt(self.width) + 1

    @property
    def mechanism(self) -> Gaussian | Laplace:
        """The noise that is charged for; a sum of sizes is at most the root of the width times the length."""
        if self.gaussian:
            return Gaussian(self.sensitivity, Fraction(self.sensitivity * MICRO, self.micro))
        total = self.sensitivity * (math.isqrt(self.width - 1) + 1)
        return Laplace(total, Fraction(total * MICRO, self.micro))

    @property
    def event(self) -> Event:
        """What one model is charged for."""
        return self.mechanism.event

    def solve(self, passes: Passes, noise: Noise) -> Floats:
        """Minimize, round, noise."""
        theta = Problem(passes, self.ridge, [Fraction(0)] * self.width, _GRADIENT).certified()
        steps = [round(Fraction(x) / self.step) for x in theta]
        return np.array([float(x * self.step) for x in self.mechanism.release(steps, noise)])

    def fit(self, rows: Rows, noise: Noise) -> Fitted:
        """Fit rows whose label is above zero (positive), below (negative) or zero (left out)."""
        return self.run(Memory(rows.x * np.sign(rows.y)[:, None]), noise)

    def learn(self, data: Reading, target: int, noise: Noise) -> Fitted:
        """Fit one class, passing over its rows."""
        return self.run(data.passes(target), noise)

    def run(self, passes: Passes, noise: Noise) -> Fitted:
        """The same over rows wherever they are."""
        return Fitted(self.solve(passes, noise), {"ridge": float(self.ridge)})
