"""Losses as predictions and sums of labels with public features see them: derivatives by the score, and the mean at a score.

Ways of fitting that hide rows or users need whole numbers of a loss besides (``LossFunction``); the Poisson loss has none,
and is fitted where labels alone are hidden.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.models._columns import SIZE

if TYPE_CHECKING:
    from steelyard.models._rows import Target

Floats = NDArray[np.float64]

MOST = 10**9
"""The largest count that a label's bounds may name."""


class SmoothLoss(ABC):
    """The loss of a row as a function of its score and its label in [-1, 1], with two derivatives."""

    name: ClassVar[str]
    """What a model fitted to this loss is called in its saved form."""
    classifies: ClassVar[bool]
    """Whether labels are the signs of two classes; else they are numbers between declared bounds."""
    flattens: ClassVar[bool]
    """Whether the curvature fades at scores far out, so that a noisy sum of labels may have no minimum."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """The largest second derivative by the score."""

    @property
    def nats(self) -> float:
        """How many nats of likelihood one unit of this loss is."""
        return 1.0

    def between(self, target: Target) -> SmoothLoss:
        """This loss for a number between these bounds; refused where it has none."""
        return self

    @abstractmethod
    def oriented(self, x: Floats, y: Floats) -> tuple[Floats, Floats | None]:
        """Rows and labels (whole numbers in steps of 1/S) as this loss reads them; labels are None once rows hold them."""

    @abstractmethod
    def value(self, scores: Floats, labels: Floats | None) -> Floats:
        """Each row's loss."""

    @abstractmethod
    def derivatives(self, scores: Floats, labels: Floats | None) -> tuple[Floats, Floats]:
        """The first and second derivative of each row's loss by its score."""

    @abstractmethod
    def mean(self, scores: Floats) -> Floats:
        """The label to expect at a score, or the probability of the positive class."""


@dataclass(frozen=True)
class PoissonLoss(SmoothLoss):
    """e^score - count * score, in half ranges of the count: the label is (count - middle) / half.

    The mean is e^score up to twice the upper bound and a straight line beyond, so that it is finite at any score and the loss
    stays convex.
    """

    middle: float = 1.0
    half: float = 1.0

    name, classifies, flattens = "poisson", False, True

    def between(self, target: Target) -> PoissonLoss:
        lower, upper = Fraction(target.lower), Fraction(target.upper)
        if lower < 0 or upper > MOST or lower.denominator != 1 or upper.denominator != 1:
            raise InvalidTask(
                f"counts lie between whole numbers from 0 to {MOST:,}; got {target.lower} and {target.upper}."
            )
        return PoissonLoss(target.middle, target.half)

    @property
    def smoothness(self) -> float:
        return self._most / self.half

    @property
    def nats(self) -> float:
        return self.half

    def oriented(self, x: Floats, y: Floats) -> tuple[Floats, Floats | None]:
        return x, y / SIZE

    def value(self, scores: Floats, labels: Floats | None) -> Floats:
        counts, over = self._counts(labels), np.maximum(scores - math.log(self._most), 0.0)
        return np.asarray((self._curve(scores) * (1 + over + over**2 / 2) - counts * scores) / self.half)

    def derivatives(self, scores: Floats, labels: Floats | None) -> tuple[Floats, Floats]:
        return (self._expected(scores) - self._counts(labels)) / self.half, self._curve(scores) / self.half

    def mean(self, scores: Floats) -> Floats:
        return np.asarray((self._expected(scores) - self.middle) / self.half)

    @property
    def _most(self) -> float:
        return 2 * (self.middle + self.half)

    def _counts(self, labels: Floats | None) -> Floats:
        return np.asarray(self.middle if labels is None else self.middle + self.half * labels)

    def _curve(self, scores: Floats) -> Floats:
        return np.asarray(np.exp(np.minimum(scores, math.log(self._most))))

    def _expected(self, scores: Floats) -> Floats:
        return np.asarray(self._curve(scores) * (1 + np.maximum(scores - math.log(self._most), 0.0)))
