"""What one cap serves: how many released numbers, and which of their errors is to be small.

With K keys the noise of a cap is paid K times and what it cuts off once, so the cap that makes the mean error over keys least cuts about
K times as many units as the one for a single total: for Laplace noise the ceil(K/epsilon)-th largest (docs/proofs/cap.md).
What must not change: the number of keys is public or released, and nothing here reads a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from steelyard.bounding._laws import Floats, mean_error, mean_noise
from steelyard.errors import InvalidTask

MINIMISE = ("mean", "relative", "total")
_NORMAL = math.sqrt(2.0)  # the deviation of Laplace noise at epsilon 1


def check_minimise(minimise: str) -> None:
    """Refuse an error that has no name."""
    if minimise not in MINIMISE:
        raise InvalidTask(f"minimise must be one of {', '.join(MINIMISE)}; got {minimise!r}.")


@dataclass(frozen=True)
class Serving:
    """``keys`` numbers share one cap, and ``minimise`` says of which error: "mean" over keys, "relative", or of their "total".

    ``gaussian``: the cap bounds a unit's L2 norm over the keys, else its L1 norm. ``profiled``: what was looked at are totals all the same.
    ``weight`` is how many times the noise of one number counts beside what is cut off it.
    """

    keys: int = 1
    minimise: str = "mean"
    gaussian: bool = False
    profiled: bool = False
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_minimise(self.minimise)
        if isinstance(self.keys, bool) or not isinstance(self.keys, int) or self.keys < 1:
            raise InvalidTask(f"keys must be the number of keys, at least 1; got {self.keys!r}.")

    @property
    def alone(self) -> bool:
        """Whether the cap serves one plain total."""
        return self.keys == 1 and self.weight == 1

    @property
    def spread(self) -> int:
        """Under how many keys a unit's rows are taken to lie: one, the worst case of the mean; in L2, where one and all K differ most, the root of K."""
        return round(math.sqrt(self.keys)) if self.gaussian else 1

    @property
    def shrink(self) -> Fraction:
        """What a total is divided by to be an L2 norm; one where norms were looked at."""
        if not (self.gaussian and self.profiled):
            return Fraction(1)
        return Fraction(math.isqrt(self.spread * 10**6), 1000)

    def loss(self, lost: Floats, caps: Floats, level: float, law: str) -> Floats:
        """What is made small, up to a factor: ``lost`` is what looked-at caps cut off, in the norm that was looked at."""
        real = caps / float(self.shrink)
        if self.minimise == "total" and self.keys > 1:
            wide = math.sqrt(self.keys) * (1.0 if law == "gaussian" else _NORMAL)
            return mean_error(self._all(lost), real * self.weight, level / wide, "gaussian")
        return self._over_keys(lost, real, level, law, self._noises)

    def told(self, lost: Floats, caps: Floats, level: float, law: str) -> tuple[Floats, Floats]:
        """What is cut off and the error to expect, each a mean over the keys."""
        real = caps / float(self.shrink)
        return self._all(lost) / self.keys, self._over_keys(lost, real, level, law, self.keys) / self.keys

    def _over_keys(self, lost: Floats, caps: Floats, level: float, law: str, noises: float) -> Floats:
        some = self.spread
        under_one = self._all(lost) / some
        return np.asarray(
            some * mean_error(under_one, caps, level, law) + max(noises - some, 0.0) * caps * mean_noise(level, law)
        )

    def _all(self, lost: Floats) -> Floats:
        """What is cut off under all keys together."""
        return np.asarray(lost * (1.0 if self.profiled else math.sqrt(self.spread)))

    @property
    def _noises(self) -> float:
        """How often the noise is paid for: once for each key, or by what keys lack in size where sizes fall as 1, 1/2, 1/3, ..."""
        if self.minimise == "relative":
            return self.weight * (self.keys + 1) / 2 * sum(1 / place for place in range(1, min(self.keys, 10**5) + 1))
        return self.weight * self.keys


ALONE = Serving()
