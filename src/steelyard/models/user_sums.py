"""Sums over users in which nobody weighs more than a clip: exact integers up to the noise.

A user's rows are added up in integers, so the sum is a function of that user's rows alone, in any order and beside any
other users. It is then weighted, shortened to the clip, rounded, and its integer norm checked once more; only then are
users added and the total noised. The clip may depend on earlier releases; what a release costs may not, so sensitivity
and sigma are the same whole numbers for every clip, which only sets how much one grid step is worth.
Law: no float that mixes users exists before the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian
from steelyard.noise.grid import fit_norm, sqrt_above
from steelyard.privacy import MICRO, Event

if TYPE_CHECKING:
    from steelyard.noise import Noise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SENSITIVITY = 1 << 20
"""How many grid steps make one clip; rounding a user to it is far below the noise of any release."""
LARGEST_CLIP = 2.0**40


@dataclass(frozen=True)
class ByUser:
    """Rows put together user by user; ``codes`` says whose row each one is."""

    codes: Ints

    @lazy
    def order(self) -> Ints:
        """A permutation that makes every user's rows neighbours."""
        return np.argsort(self.codes, kind="stable")

    @lazy
    def starts(self) -> Ints:
        """Where each user's rows begin in that order, and where the last one's end."""
        ordered = self.codes[self.order]
        first = np.flatnonzero(np.r_[np.ones(min(ordered.size, 1), bool), ordered[1:] != ordered[:-1]])
        return np.append(first, ordered.size).astype(np.int64)

    @property
    def sizes(self) -> Ints:
        """Rows per user."""
        return np.diff(self.starts)

    @lazy
    def _matrix(self) -> Any:
        from scipy.sparse import csr_array

        rows = self.codes.size
        ones, places = np.ones(rows, dtype=np.int64), np.arange(rows, dtype=np.int64)
        return csr_array((ones, places, self.starts), shape=(self.sizes.size, rows))

    def sums(self, weights: Ints, columns: Ints) -> Ints:
        """For each user the sum of weight times row, both given in ``order``; exact integers."""
        self._matrix.data = weights
        return np.asarray(self._matrix @ columns, dtype=np.int64)


@dataclass(frozen=True)
class UserSum:
    """One noisy sum of one vector per user; costs ``units`` of 1e-12 mu squared whatever the clip.

    >>> UserSum(250_000_000_000).mechanism.mu_squared
    Fraction(1, 4)
    """

    units: int

    @property
    def mechanism(self) -> Gaussian:
        """The noise: sensitivity and sigma in grid steps."""
        return Gaussian(SENSITIVITY, sqrt_above(Fraction(SENSITIVITY**2 * MICRO**2, self.units)))

    @property
    def event(self) -> Event:
        """What one release is charged for."""
        return self.mechanism.event

    def release(self, vectors: Floats, clip: float, noise: Noise, weights: Floats | None = None) -> Floats:
        """The sum over users (rows) of weight times vector, each shortened to ``clip``, with noise.

        *Privacy:* mu-GDP for one user added or removed, if every row of ``vectors`` and every weight depends on that
        user alone and the clip on earlier releases.
        """
        clip = min(max(float(clip), 1 / LARGEST_CLIP), LARGEST_CLIP) if np.isfinite(clip) else LARGEST_CLIP
        bounded = whole(vectors, clip, weights)
        total = [int(value) for value in bounded.sum(axis=0, dtype=np.int64)]
        return np.array(self.mechanism.release(total, noise), dtype=float) * (clip / SENSITIVITY)


def whole(vectors: Floats, clip: float, weights: Floats | None = None) -> Ints:
    """Each user's vector as integers of L2 norm at most ``SENSITIVITY``, which stands for the clip.

    Every float is of one user and made by elementwise arithmetic, so the same rows give the same integers wherever they
    lie. NaN and infinities become zero.
    """
    with np.errstate(all="ignore"):
        values = np.asarray(vectors, dtype=float)
        shares = np.full(len(values), SENSITIVITY / clip) if weights is None else weights * (SENSITIVITY / clip)
        lengths = np.zeros(len(values))
        for column in values.T:
            lengths += column * column
        # rounding to nearest lengthens a vector by at most half the root of its width, so the room spares a repair
        room = SENSITIVITY - np.sqrt(values.shape[1])
        factors = np.minimum(shares, room / np.sqrt(lengths))
        scaled = np.rint(values * factors[:, None])
    clean = np.where(np.isfinite(scaled), np.clip(scaled, -SENSITIVITY, SENSITIVITY), 0.0)
    return fit_norm(clean.astype(np.int64), SENSITIVITY, 2)


def units_of(micro: int, shares: tuple[Fraction, ...], counts: tuple[int, ...]) -> tuple[int, ...]:
    """What each step of each stage may cost, in 1e-12 mu squared: the stage's share evenly over its steps, rounded down.

    >>> units_of(1000, (Fraction(1, 5), Fraction(4, 5)), (1, 40))
    (200000, 20000)
    """
    return tuple(int(micro**2 * share / count) for share, count in zip(shares, counts, strict=True))


def check_micro(micro: int, shares: tuple[Fraction, ...] = (Fraction(1),), counts: tuple[int, ...] = (1,)) -> None:
    """Refuse a budget too small to be shared among the steps."""
    if isinstance(micro, bool) or not isinstance(micro, int) or micro < 1 or min(units_of(micro, shares, counts)) < 1:
        raise InvalidTask("mu is too small to be shared among the steps of a fit per user; raise epsilon or delta.")
