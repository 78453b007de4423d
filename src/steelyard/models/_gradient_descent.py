"""Fits by full-batch noisy gradient descent, for comparison: each row clipped, exactly mu, in a fixed number of steps.

A row's gradient is its residual times its features: two integers multiplied, so the sum is exact and one row moves it by
at most clip times one. No subsampling, so no accountant: the price of T Gaussian steps is their sum of mu squared.
Also for very small budgets; the number of steps and the rate are settings that nobody can tune for free.
Papers: Song, Chaudhuri and Sarwate 2013; Bassily, Smith and Thakurta 2014. Proof: docs/proofs/descent.md.
Law: the residual is a whole number made by the loss, so that a row's integers depend on that row alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.accounting import steps as repeated
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, sigma_for
from steelyard.models._columns import RESIDUAL_BITS, SIZE, exact_scores
from steelyard.models._losses import LOGISTIC, LossFunction
from steelyard.models._rows import Fitted
from steelyard.privacy import composed, positive

if TYPE_CHECKING:
    from steelyard.models._columns import Floats
    from steelyard.models._passes import Training
    from steelyard.noise import Noise
    from steelyard.privacy import Event, Number

_RADIUS = 512.0
_CHUNK = 1 << 16


@dataclass(frozen=True)
class DescentFit:
    """One model by ``steps`` noisy steps of length ``rate`` over the noisy number of rows (``Method``)."""

    width: int
    micro: int
    steps: int = 30
    clip: Number = 1
    rate: float = 4.0
    loss: LossFunction = LOGISTIC

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= 10_000 or self.micro**2 < 4 * (self.steps + 1):
            raise InvalidTask(
                f"a descent needs 1 to 10,000 steps and a price that can be shared among them; got {self}."
            )
        if not Fraction(1, 1000) <= positive(self.clip, "clip") <= 1:
            raise InvalidTask(f"clip must lie between 0.001 and 1, the longest gradient there is; got {self.clip!r}.")

    @lazy
    def bound(self) -> int:
        """The largest residual that counts, in steps of 2^-14."""
        return math.floor(positive(self.clip, "clip") * (1 << RESIDUAL_BITS))

    @property
    def mechanism(self) -> Gaussian:
        """One step's noise: the gradients' integer sum has sensitivity bound times S."""
        each = self.micro**2 // (self.steps + 1)
        reach = self.bound * SIZE
        return Gaussian(reach, sigma_for(reach**2, each))

    @property
    def counting(self) -> Gaussian:
        """The noise on the number of rows, by which steps are scaled."""
        return Gaussian(1, sigma_for(1, self.micro**2 // (self.steps + 1)))

    @property
    def event(self) -> Event:
        """The steps and the count."""
        return composed(repeated(self.mechanism.event, self.steps), self.counting.event)

    def fit(self, data: Training, noise: Noise) -> Fitted:
        """Count the rows, then descend; both with noise."""
        count = max(self.counting.release([data.heard(self.loss)], noise)[0], 1)
        theta, mechanism = np.zeros(self.width), self.mechanism
        for _ in range(self.steps):
            pull = np.array(mechanism.release(self._pulled(data, theta), noise), dtype=float)
            theta = theta + self.rate * pull / (count * float(SIZE << RESIDUAL_BITS))
            length = float(np.linalg.norm(theta))
            theta = theta * min(1.0, _RADIUS / length) if length else theta
        return Fitted(theta, {"steps": self.steps, "clip": float(positive(self.clip, "clip")), "rows": count})

    def _pulled(self, data: Training, theta: Floats) -> list[int]:
        """The sum over all rows, wherever they lie."""

        def step(x: Floats, labels: Floats | None) -> list[Any]:
            return [np.array(self.pull(x, theta, labels), dtype=object)]

        [total] = data.fold(self.loss, step, [np.zeros(self.width, dtype=object)], whole=True)
        return [int(each) for each in total]

    def pull(self, x: Floats, theta: Floats, labels: Floats | None = None) -> list[int]:
        """Minus the gradient: the sum over rows of clipped residual times features, as integers.

        Added up in doubles, which hold it: a residual has 14 bits, a feature 18, and a chunk 2^16 rows.
        """
        total = [0] * self.width
        for start in range(0, len(x), _CHUNK):
            v, own = x[start : start + _CHUNK], None if labels is None else labels[start : start + _CHUNK]
            weights = np.clip(self.loss.residuals(exact_scores(v, theta), own), -self.bound, self.bound)
            pulled = weights.astype(np.float64) @ np.asarray(v, dtype=np.float64)
            total = [sum_ - int(more) for sum_, more in zip(total, pulled.tolist(), strict=True)]
        return total
