"""Logistic regression by full-batch noisy descent, one row at a time clipped: exactly mu, in a fixed number of steps.

A row's gradient is its residual times its features: two integers multiplied, so the sum is exact and one row moves it by
at most clip times one. No subsampling, so no accountant: the price of T Gaussian steps is their sum of mu squared.
Offered for comparison and for very small budgets; the number of steps and the rate are settings that nobody can tune
for free. Law: the residual comes from a table of integers, so that a row's integers depend on that row alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from steelyard.accounting.prices import composed
from steelyard.accounting.prices import steps as repeated
from steelyard.errors import InvalidTask
from steelyard.mechanisms import Gaussian, sigma_for
from steelyard.models.columns import SIZE
from steelyard.models.method import Fitted
from steelyard.models.user_logistic import residuals
from steelyard.privacy import positive

if TYPE_CHECKING:
    from steelyard.models.newton import Floats
    from steelyard.models.passes import Reading
    from steelyard.models.rows import Rows
    from steelyard.noise import Noise
    from steelyard.privacy import Event, Number

_BITS, _MARGIN, _THETA = 14, 10, 16
_RADIUS = 512.0
_CHUNK = 1 << 16


@dataclass(frozen=True)
class DescentFit:
    """One binary model by ``steps`` noisy steps of length ``rate`` over the noisy number of rows (``Method``)."""

    width: int
    micro: int
    steps: int = 30
    clip: Number = 1
    rate: float = 4.0

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= 10_000 or self.micro**2 < 4 * (self.steps + 1):
            raise InvalidTask(
                f"a descent needs 1 to 10,000 steps and a price that can be shared among them; got {self}."
            )
        if not Fraction(1, 1000) <= positive(self.clip, "clip") <= 1:
            raise InvalidTask(f"clip must lie between 0.001 and 1, the longest gradient there is; got {self.clip!r}.")

    @property
    def bound(self) -> int:
        """The largest residual that counts, in steps of 2^-14."""
        return math.floor(positive(self.clip, "clip") * (1 << _BITS))

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

    def fit(self, rows: Rows, noise: Noise) -> Fitted:
        """Fit rows whose label is above zero (positive), below (negative) or zero (left out)."""
        signed = rows.x * np.sign(rows.y)[:, None]
        count = max(self.counting.release([int(np.count_nonzero(rows.y))], noise)[0], 1)
        theta, mechanism = np.zeros(self.width), self.mechanism
        for _ in range(self.steps):
            pull = np.array(mechanism.release(self.pull(signed, theta), noise), dtype=float)
            theta = theta + self.rate * pull / (count * float(SIZE << _BITS))
            length = float(np.linalg.norm(theta))
            theta = theta * min(1.0, _RADIUS / length) if length else theta
        return Fitted(theta, {"steps": self.steps, "clip": float(positive(self.clip, "clip")), "rows": count})

    def learn(self, data: Reading, target: int, noise: Noise) -> Fitted:
        """Fit one class in memory."""
        return self.fit(data.rows(target), noise)

    def pull(self, signed: Floats, theta: Floats) -> list[int]:
        """The sum over rows of residual times features, as integers."""
        table, middle = residuals(), (len(residuals()) - 1) // 2
        whole = np.rint(theta * 2.0**_THETA)
        total = np.zeros(self.width, dtype=object)
        for start in range(0, len(signed), _CHUNK):
            v = signed[start : start + _CHUNK]
            margins = np.rint((v @ whole) * (2.0 ** (_MARGIN - _THETA) / SIZE))
            places = np.asarray(np.clip(margins, -middle, middle), dtype=np.int64) + middle
            weights = np.minimum(table[places], self.bound)
            total = total + (weights @ v.astype(np.int64)).astype(object)
        return [int(x) for x in total]
