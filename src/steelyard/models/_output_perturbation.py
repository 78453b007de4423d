"""Fits by output perturbation, for comparison: the exact minimizer, rounded, with noise on it.

The minimizer of a ridge-penalized sum of losses moves by at most 1/ridge when one row of length one comes or goes, so
noise of that size hides it. Simple and valid for any convex loss of slope at most one, but noisier than perturbing the
objective. Paper: Chaudhuri, Monteleoni and Sarwate 2011; docs/proofs/output_perturbation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from steelyard.errors import InvalidTask
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.models._losses import LOGISTIC, LossFunction
from steelyard.models._newton import Problem
from steelyard.models._rows import Fitted
from steelyard.privacy import MICRO, Event

if TYPE_CHECKING:
    from steelyard.models._passes import Training
    from steelyard.noise import Noise

_FINE, _GRADIENT = 2**24, Fraction(1, 2**12)


@dataclass(frozen=True)
class OutputFit:
    """One model by output perturbation for ``micro`` of mu, or of pure epsilon (``Method``)."""

    width: int
    micro: int
    gaussian: bool
    ridge: Fraction
    loss: LossFunction = LOGISTIC

    def __post_init__(self) -> None:
        if self.micro < 1 or self.ridge <= 0:
            raise InvalidTask("output perturbation needs a price of at least one micro and a positive ridge.")
        if self.loss.steepness > 1:
            raise InvalidTask(
                f"output perturbation needs a loss of slope at most one; a {self.loss.name} one is steeper."
            )

    @classmethod
    def public(
        cls, width: int, micro: int, gaussian: bool, ridge: Fraction | None = None, loss: LossFunction = LOGISTIC
    ) -> OutputFit:
        """With a ridge from public facts unless one is given: the noise on a coefficient is then about a half, whatever the price.

        Of a linear model, whose coefficients are about one where a classifier's are several, about a sixteenth.
        """
        size, root = 2 if loss.classifies else 16, Fraction(math.isqrt(width * 10**6) + 1, 8000)
        return cls(
            width, micro, gaussian, ridge or Fraction(MICRO, max(1, micro)) * size * max(Fraction(1), root), loss
        )

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

    def fit(self, data: Training, noise: Noise) -> Fitted:
        """Minimize, round, noise."""
        passes = data.passes(self.loss)
        theta = Problem(passes, self.ridge, [Fraction(0)] * self.width, _GRADIENT).certified()
        steps = [round(Fraction(x) / self.step) for x in theta]
        answer = np.array([float(x * self.step) for x in self.mechanism.release(steps, noise)])
        return Fitted(answer, {"ridge": float(self.ridge)})
