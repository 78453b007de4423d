"""Which keys occur, released only where enough units stand behind them.

Every key's number of units gets noise, and a key is shown only if its noisy count reaches a threshold so high that a key
with a single unit behind it would be shown with probability at most ``failure`` / ``max_keys`` (Korolova, Kenthapadi,
Mishra and Ntoulas 2009; with Gaussian noise Wilkins, Kifer, Zhang and Karrer 2024). A unit stands behind at most
``max_keys`` keys. Keys of fewer than ``least`` units need not be looked at, where the threshold is as much higher. Law: the threshold comes from tail bounds that enclose the truth, and the failure is charged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from steelyard.accounting import tail_above
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms._gaussian import Gaussian
from steelyard.mechanisms._integers import check_scale, check_sensitivity
from steelyard.privacy import ATTO, Event

if TYPE_CHECKING:
    from steelyard.noise import Noise


@dataclass(frozen=True)
class KeyThreshold:
    """Shows keys whose noisy number of units reaches the threshold.

    >>> KeyThreshold(1, Fraction(4), Fraction(1, 10**6)).threshold
    21
    """

    max_keys: int
    sigma: Fraction
    failure: Fraction
    least: int = 1

    def __post_init__(self) -> None:
        check_sensitivity(self.max_keys, "max_keys")
        check_sensitivity(self.least, "least")
        check_scale(self.sigma, "sigma")
        if not 0 < self.failure < 1 or self.failure < Fraction(1, ATTO):
            raise InvalidTask(f"failure must be a probability of at least 1e-18; got {float(self.failure)!r}.")

    @property
    def counts(self) -> Gaussian:
        """The noise on the counts: a unit moves at most ``max_keys`` of them by one."""
        return Gaussian(None, self.sigma, squared_sensitivity=self.max_keys)

    @property
    def event(self) -> Event:
        """A Gaussian step that may fail with a probability, both charged."""
        event = self.counts.event
        return replace(event, parameters={**event.parameters, "failure_atto": math.ceil(self.failure * ATTO)})

    @lazy
    def threshold(self) -> int:
        """The smallest count at which ``least`` units are shown with probability at most failure / max_keys."""
        allowed = self.failure / self.max_keys
        low, high = 0, 2 + math.ceil(60 * self.sigma)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._shown_alone(middle) <= allowed else (middle, high)
        return high + self.least - 1

    def _shown_alone(self, threshold: int) -> Fraction:
        """An upper bound on P[1 + round(sigma Z) >= threshold]."""
        place = (threshold - 1 - Fraction(1, 2)) / self.sigma
        return tail_above(place)

    def release(self, units: Mapping[Any, int], noise: Noise) -> dict[Any, int]:
        """The shown keys with their noisy numbers of units, in the order of the keys; those of fewer than ``least`` units are left out.

        *Privacy:* mu-GDP with mu squared = max_keys / sigma squared, except with probability ``failure``.
        """
        enough = [key for key, count in units.items() if count >= self.least]
        keys = sorted(enough, key=lambda key: (str(type(key)), key))
        noised = self.counts.release([units[key] for key in keys], noise)
        return {key: count for key, count in zip(keys, noised, strict=True) if count >= self.threshold}
