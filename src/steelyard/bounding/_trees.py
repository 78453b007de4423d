"""A histogram made for ranges: every count of a binary tree over the bins is noised, then made to agree.

A range of many bins is the sum of a few nodes instead of many leaves, so its noise grows with the logarithm of its
length. The price is shared equally between the levels; a unit's rows move one level by at most the cap. Afterwards the
counts are replaced by the nearest ones that add up (Hay, Rastogi, Miklau and Suciu 2010), which only helps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.bounding._amounts import Spend
from steelyard.errors import InvalidTask


@dataclass(frozen=True)
class Tree:
    """A complete binary tree over ``bins`` leaves, padded with empty ones to a power of two."""

    bins: int

    @property
    def levels(self) -> int:
        """How many levels are noised, the leaves and the root included."""
        return (self.bins - 1).bit_length() + 1

    def share(self, spend: Spend) -> Spend:
        """What one level may spend, so that all of them together cost no more than the whole."""
        micro = math.isqrt(spend.micro**2 // self.levels) if spend.gaussian else spend.micro // self.levels
        if micro < 1:
            raise InvalidTask("what this release may spend is too little for so many bins; use fewer, or ranges=False.")
        return Spend(spend.gaussian, micro)

    def sums(self, leaves: Sequence[int]) -> list[list[int]]:
        """The exact counts of every level, leaves first."""
        level = [*leaves, *[0] * (2 ** (self.levels - 1) - self.bins)]
        made = [level]
        while len(level) > 1:
            level = [a + b for a, b in zip(level[::2], level[1::2], strict=True)]
            made.append(level)
        return made

    def agree(self, noised: Sequence[Sequence[float]]) -> list[float]:
        """The leaves of the nearest counts that add up, given equally noisy counts of every level; post-processing.

        >>> Tree(2).agree([[1.0, 2.0], [6.0]])
        [2.0, 3.0]
        """
        best = [list(noised[0])]
        for height, level in enumerate(noised[1:], 2):
            own, below = 2 ** (height - 1) / (2**height - 1), (2 ** (height - 1) - 1) / (2**height - 1)
            pairs = zip(level, best[-1][::2], best[-1][1::2], strict=True)
            best.append([own * count + below * (left + right) for count, left, right in pairs])
        settled = best[-1]
        for level in reversed(best[:-1]):
            gaps = [whole - a - b for whole, a, b in zip(settled, level[::2], level[1::2], strict=True)]
            settled = [count + gaps[place // 2] / 2 for place, count in enumerate(level)]
        return settled[: self.bins]
