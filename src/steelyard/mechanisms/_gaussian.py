"""Rounded normal noise on a vector of integers.

q + round(sigma Z) = round(q + sigma Z) for whole q, so the release is a rounding of the Gaussian mechanism and exactly
mu-GDP with mu = sensitivity/sigma, for every epsilon at once. (The discrete Gaussian is not: its mu is larger.)
Law: the mechanism carries its own event, so the noise and the price cannot be mismatched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from steelyard.accounting import normal_quantile, normal_tail
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms._integers import check_scale, check_sensitivity, noisy
from steelyard.mechanisms._observe import show
from steelyard.privacy import MICRO, Event, Neighbours

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from steelyard.noise import Noise

_NORMAL_95 = normal_quantile(0.975)


@dataclass(frozen=True)
class Gaussian:
    """Adds independent rounded normal noise to every entry.

    ``sensitivity`` is the L2 distance between neighbours as a whole number; where only its square is whole, give
    ``Gaussian(None, sigma, squared_sensitivity=2)``.

    >>> Gaussian(3, Fraction(6)).mu_squared
    Fraction(1, 4)
    """

    sensitivity: int | None
    sigma: Fraction
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    squared_sensitivity: int | None = None

    def __post_init__(self) -> None:
        check_scale(self.sigma, "sigma")
        if self.squared_sensitivity is None:
            check_sensitivity(self.sensitivity)
        elif self.sensitivity is not None:
            raise InvalidTask("give the sensitivity or its square, not both.")
        else:
            check_sensitivity(self.squared_sensitivity, "squared_sensitivity")

    @property
    def square(self) -> int:
        """The squared L2 sensitivity."""
        return self.squared_sensitivity or (self.sensitivity or 0) ** 2

    @property
    def mu_squared(self) -> Fraction:
        """The exact mu squared."""
        return self.square / self.sigma**2

    @lazy
    def size(self) -> tuple[float, float]:
        """The mean size of the noise, and the whole number it stays within in 95 of 100 draws."""
        s = float(self.sigma)
        tails = [2 * normal_tail((k + 0.5) / s) for k in range(64)] if s < 5 else []
        mean = math.fsum(tails) if tails else s * math.sqrt(2 / math.pi)
        return mean, max(0, math.ceil(_NORMAL_95 * s - 0.5))

    @lazy
    def event(self) -> Event:
        """What a release is charged for."""
        if self.sensitivity is not None:
            return Event.of("gaussian", self.neighbours, sigma=self.sigma, sensitivity=self.sensitivity)
        return Event.of("gaussian", self.neighbours, sigma=self.sigma, sensitivity_squared=self.square)

    def release(self, values: Sequence[int], noise: Noise) -> list[int]:
        """The integers with noise.

        *Privacy:* mu-GDP with mu = sensitivity/sigma for the whole vector. *Accuracy:* variance about
        sigma squared + 1/12 per entry.
        """
        show(self.event, values, noise)
        return noisy(values, lambda: noise.normal(self.sigma, len(values)))

    def ahead(self, times: int, width: int, noise: Noise) -> Sequence[NDArray[np.int64] | None]:
        """The noise of ``times`` releases of ``width`` integers each, drawn at once; adding one of them is a release.

        Insecure noise is not drawn ahead: there a mechanism shows its integers before it draws, and the rows are None.
        *Privacy:* noise does not depend on the data, so it may be drawn before what it hides is known; each row of it must
        be added once. Sigma must be below 2^48.
        """
        if noise.secure is False:
            return [None] * times
        return list(noise.normal_array(self.sigma, times * width).reshape(times, width))


def sigma_for(squared_sensitivity: int, cost: int) -> Fraction:
    """The smallest sigma on a fine grid whose price is at most, and so exactly, ``cost`` (1e-12 of mu squared)."""
    bits = cost.bit_length() * 3 // 2 + 4
    return Fraction(math.isqrt((squared_sensitivity * MICRO**2 << 2 * bits) // cost) + 1, 1 << bits)
