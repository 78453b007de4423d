"""Discrete Laplace noise on a vector of integers.

P[x] is proportional to exp(-|x|/scale), drawn exactly; a vector whose L1 distance between neighbours is at most the
sensitivity is then released with pure epsilon = sensitivity/scale, exactly (Ghosh, Roughgarden and Sundararajan).
Law: the mechanism carries its own event, so the noise and the price cannot be mismatched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from steelyard.lazy import lazy
from steelyard.mechanisms._integers import check_scale, check_sensitivity, noisy
from steelyard.mechanisms._observe import show
from steelyard.privacy import Event, Neighbours

if TYPE_CHECKING:
    from steelyard.noise import Noise


@dataclass(frozen=True)
class Laplace:
    """Adds independent discrete Laplace noise to every entry.

    >>> Laplace(3, Fraction(6)).epsilon
    Fraction(1, 2)
    """

    sensitivity: int
    scale: Fraction
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        check_sensitivity(self.sensitivity)
        check_scale(self.scale)

    @property
    def epsilon(self) -> Fraction:
        """The exact pure epsilon."""
        return self.sensitivity / self.scale

    @lazy
    def size(self) -> tuple[float, float]:
        """The mean size of the noise, and the whole number it stays within in 95 of 100 draws.

        P[|X| > k] = 2 r^(k+1) / (1 + r) with r = exp(-1/scale).

        >>> [Laplace(1, Fraction(scale)).size[1] for scale in ("1000", "1", "1/9")]
        [2996, 3, 0]
        """
        b = float(self.scale)
        r = math.exp(-1 / b)
        return 2 * r / -math.expm1(-2 / b), max(0, math.ceil(b * math.log(40 / (1 + r)) - 1))

    @lazy
    def event(self) -> Event:
        """What a release is charged for."""
        return Event.of("laplace", self.neighbours, sensitivity=self.sensitivity, scale=self.scale)

    def release(self, values: Sequence[int], noise: Noise) -> list[int]:
        """The integers with noise.

        *Privacy:* pure epsilon = sensitivity/scale for the whole vector. *Accuracy:* standard deviation about
        1.41 scale per entry.
        """
        show(self.event, values, noise)
        return noisy(values, lambda: noise.laplace(self.scale, len(values)))
