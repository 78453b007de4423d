"""How likely a release is further from the truth than its tolerance, and the least price at which it is not.

What the cap cuts off is known as equally likely amounts (a profile's), the noise exactly, so both count at once: of each
amount the room that is left for noise, and the chance that noise leaves it, averaged. By key an amount may all be missing
under one of them, and every cell must hold: tails are convex, so one key that lacks it all is the worst case, and the
others are counted with the whole tolerance. What must not change: everything here rounds towards "more likely wrong".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from steelyard.bounding._laws import Floats, noise_tail

MOST = 30.0
"""The largest epsilon, or mu, that a plan gives to one number: noise beyond it protects hardly anybody."""

LEAST = 1e-5
_SINGLE, _GROUP = 100, 20
_HALVINGS, _ROUGHLY = 22, 8
_WORSE = 1.5


@dataclass(frozen=True)
class Rooms:
    """How much noise may be added before a tolerance is missed: by equally likely amounts (rows) and by candidate caps.

    ``near`` is the room on the side of what was cut off, ``far`` on the other, ``plain`` that of a cell which lost
    nothing. ``weights`` add up to one.
    """

    near: Floats
    far: Floats
    plain: Floats
    weights: Floats

    @classmethod
    def of(cls, tolerance: Floats, lost: Floats) -> Rooms:
        """Of a tolerance by amount, and what each cap cuts off of it."""
        wide = tolerance.reshape(-1, 1) + np.zeros_like(lost)
        return cls.grouped(wide - lost, wide + lost, wide)

    @classmethod
    def grouped(cls, near: Floats, far: Floats, plain: Floats) -> Rooms:
        """Fewer rows, each at least as bad as those it stands for: the worst hundred by themselves, the others in groups."""
        order = np.argsort(near, axis=0)
        sides = [np.take_along_axis(side, order, axis=0) for side in (near, far, plain)]
        single = min(_SINGLE, near.shape[0])
        starts = np.concatenate([np.arange(single), np.arange(single, near.shape[0], _GROUP)])
        sizes = np.diff(np.append(starts, near.shape[0]))
        near, far, plain = (np.asarray(np.minimum.reduceat(side, starts, axis=0)) for side in sides)
        return cls(near, far, plain, sizes / sizes.sum())

    def at(self, kept: NDArray[np.int64]) -> Rooms:
        """Of some of the caps."""
        return Rooms(self.near[:, kept], self.far[:, kept], self.plain[:, kept], self.weights)


@dataclass(frozen=True)
class Odds:
    """A number of a report at any price: its candidate caps, the bound of the noise at each, and the room there is.

    ``cells`` are how many noisy numbers must all stay in their room. ``tail`` is the chance that noise at a level exceeds
    so many bounds to one side.
    """

    caps: tuple[Fraction | None, ...]
    bounds: Floats
    rooms: Rooms
    cells: int
    tail: Callable[[Floats, Floats], Floats]

    def miss(self, level: Floats) -> Floats:
        """The chance, at each cap, that some cell is off by more than its tolerance; ``level`` is epsilon, or mu."""
        rooms, size = self.rooms, self.bounds
        near, far, plain = (self.tail(np.maximum(side, 0.0) / size, level) for side in self._sides)
        each = np.minimum(near + far + (2 * self.cells - 2) * plain, 1.0)
        return np.asarray(rooms.weights @ np.where(rooms.near > 0, each, 1.0))

    @property
    def _sides(self) -> tuple[Floats, Floats, Floats]:
        return self.rooms.near, self.rooms.far, self.rooms.plain

    def least(self, chance: float) -> tuple[float, int]:
        """The least level at which the tolerance is missed with no more than this chance, and the place of its cap.

        Infinite where no level up to ``MOST`` is enough.
        """
        found = self._levels(chance, _HALVINGS)
        at = int(found.argmin())
        return float(found[at]), at

    def near_best(self, chance: float) -> Odds:
        """The same with the caps alone that come near the best at some chance up to this one, to search among."""
        found = [self._levels(chance / 4**k, _ROUGHLY) for k in range(3)]
        good = np.any([each <= _WORSE * each.min() for each in found], axis=0)
        kept = np.flatnonzero(good & np.any([np.isfinite(each) for each in found], axis=0))
        if not kept.size:
            return self
        caps = tuple(self.caps[int(at)] for at in kept)
        return Odds(caps, self.bounds[kept], self.rooms.at(kept), self.cells, self.tail)

    def _levels(self, chance: float, halvings: int) -> Floats:
        """The least level of each cap, up to that many halvings of what is left between ``LEAST`` and ``MOST``."""
        low, high = np.full(self.bounds.size, math.log(LEAST)), np.full(self.bounds.size, math.log(MOST))
        within = self.miss(np.exp(high)) <= chance
        for _ in range(halvings):
            middle = (low + high) / 2
            enough = self.miss(np.exp(middle)) <= chance
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.asarray(np.where(within, np.exp(high), math.inf))


def tail_of(law: str) -> Callable[[Floats, Floats], Floats]:
    """The tail of a law of noise, for ``Odds``."""
    return lambda size, level: noise_tail(size, level, law)
