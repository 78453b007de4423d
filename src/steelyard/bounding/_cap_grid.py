"""The public grid on which totals are counted and caps are looked for: two bins and four caps to the octave.

Edges hang from ``upper``: they are floor(upper 2^(-k/2)) down to ``resolution``, in exact integer arithmetic, so
they depend on the request alone. A total lies in exactly one bin (what is outside goes to an end bin), hence one
user added or removed moves one count by one. For integer totals the floor changes nothing: x <= e iff x <= floor(e).
What must not change: no edge and no cap may ever depend on the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.lazy import lazy

_FEWEST = 4
_MOST = 160


@dataclass(frozen=True)
class CapGrid:
    """Bins and candidate caps for integer totals from ``resolution``, the smallest worth telling apart, to ``upper``.

    >>> grid = CapGrid(1, 16)
    >>> grid.edges, grid.caps
    ((0, 2, 3, 5, 6, 9, 12, 17), (1, 2, 3, 4, 5, 6, 8, 9, 11, 13, 16))
    """

    resolution: int
    upper: int

    def __post_init__(self) -> None:
        for name, value in (("resolution", self.resolution), ("upper", self.upper)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidTask(f"{name} must be a whole number of grid steps, at least 1; got {value!r}.")
        if self.resolution > self.upper:
            raise InvalidTask(f"resolution ({self.resolution}) must not be above upper ({self.upper}).")
        if self.slots > _MOST:
            raise InvalidTask("upper is more than 2^80 times resolution; raise resolution, which default is finer.")

    @lazy
    def slots(self) -> int:
        """How many half octaves lie between the lowest edge and ``upper``."""
        octaves, reach = 0, self.resolution**2
        while reach < self.upper**2:
            octaves, reach = octaves + 1, reach * 2
        return max(octaves, _FEWEST)

    @lazy
    def tops(self) -> tuple[int, ...]:
        """The largest total of each bin, ascending, the last one being ``upper``."""
        return tuple(sorted(set(self.slot_tops)))

    @lazy
    def edges(self) -> tuple[int, ...]:
        """Half-open bins [edge, next edge); totals outside belong to the end bins."""
        return (min(0, self.tops[0]), *(top + 1 for top in self.tops))

    @lazy
    def signed_edges(self) -> tuple[int, ...]:
        """Half-open bins for signed totals: magnitudes on this grid to both sides, and one middle bin around zero."""
        return (*(-top for top in reversed(self.tops)), *(top + 1 for top in self.tops))

    @lazy
    def caps(self) -> tuple[int, ...]:
        """The candidate caps: floor(upper 2^(-m/4)), never below 1."""
        every = {isqrt(isqrt(self.upper**4 >> quarter)) for quarter in range(2 * self.slots + 5)}
        return tuple(sorted(every - {0}))

    @lazy
    def bins(self) -> int:
        """How many counts a histogram on this grid has."""
        return len(self.tops)

    def spread(self, counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Counts laid out on every half octave, and 1 where the half octave holds an integer at all."""
        tops = np.array(self.slot_tops, dtype=float)
        real = np.concatenate([[True], np.diff(tops) > 0])
        wide = np.zeros(tops.size)
        wide[real] = counts
        return wide, real.astype(float)

    @lazy
    def slot_tops(self) -> tuple[int, ...]:
        """The largest total of every half octave, repeated where a half octave holds no integer of its own."""
        return tuple(isqrt(self.upper**2 >> (self.slots - slot)) for slot in range(self.slots + 1))
