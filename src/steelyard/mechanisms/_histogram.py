"""Histograms in which every unit stands in exactly one bin.

One unit added or removed moves one count by one (L1 and L2 distance 1); one unit replaced moves two counts (L1 distance
2, squared L2 distance 2). The bins are public and catch everything, overflow included.
Law: a unit is in exactly one bin; whoever fills the counts must make it so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from steelyard.errors import OurBug
from steelyard.mechanisms._gaussian import Gaussian
from steelyard.mechanisms._integers import check_sensitivity
from steelyard.mechanisms._laplace import Laplace
from steelyard.privacy import Event, Neighbours

if TYPE_CHECKING:
    from steelyard.noise import Noise


@dataclass(frozen=True)
class NoisyCounts:
    """Noisy counts of ``bins`` disjoint bins; make one with ``laplace`` or ``gaussian``."""

    bins: int
    mechanism: Laplace | Gaussian

    def __post_init__(self) -> None:
        check_sensitivity(self.bins, "bins")
        replaced = self.mechanism.neighbours is not Neighbours.ADD_REMOVE
        have = self.mechanism.sensitivity if isinstance(self.mechanism, Laplace) else self.mechanism.square
        if have != (2 if replaced else 1):
            raise OurBug("a histogram's distance is 1 when a unit is added or removed and 2 when it is replaced.")

    @classmethod
    def laplace(cls, bins: int, scale: Fraction, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> NoisyCounts:
        """Counts with discrete Laplace noise.

        >>> NoisyCounts.laplace(8, Fraction(10)).event.parameters["sensitivity"]
        1
        """
        return cls(bins, Laplace(1 if neighbours is Neighbours.ADD_REMOVE else 2, scale, neighbours))

    @classmethod
    def gaussian(cls, bins: int, sigma: Fraction, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> NoisyCounts:
        """Counts with rounded normal noise."""
        if neighbours is Neighbours.ADD_REMOVE:
            return cls(bins, Gaussian(1, sigma, neighbours))
        return cls(bins, Gaussian(None, sigma, neighbours, squared_sensitivity=2))

    @property
    def event(self) -> Event:
        """What a release is charged for."""
        return self.mechanism.event

    def release(self, counts: Sequence[int], noise: Noise) -> list[int]:
        """The counts with noise; a count may come out negative.

        *Privacy:* as the mechanism inside says, for all bins together.
        """
        if len(counts) != self.bins:
            raise OurBug("a histogram was filled with another number of bins than it declares.")
        return self.mechanism.release(counts, noise)
