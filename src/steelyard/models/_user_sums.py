"""Sums over users in which nobody weighs more than a clip, exact integers up to the noise, and how heavy users are.

A user's rows are added up in integers, so the sum is a function of that user's rows alone, in any order and beside any
other users. It is then weighted, shortened to the clip, rounded, and its integer norm checked once more; only then are
users added and the total noised. The clip may depend on earlier releases; what a release costs may not, so sensitivity
and sigma are the same whole numbers for every clip, which only sets how much one grid step is worth.
What a fit must know of its users it buys first: a histogram of log2 rows per user shows up to which weight users are
numerous enough to stand out of the noise, and sums capped there say how many rows are heard. How many there are beyond is
declared, or guessed from the slope of the histogram.
Law: no float that mixes users exists before the noise; a row count is used only where it was declared, never taken from rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian
from steelyard.noise import sqrt_above
from steelyard.privacy import MICRO, Event

if TYPE_CHECKING:
    from steelyard.noise import Noise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SENSITIVITY = 1 << 20
"""How many grid steps make one clip; rounding a user to it is far below the noise of any release."""
LARGEST_CLIP = 2.0**40
OCTAVES = 18
_LEAST_SLOPE, _FURTHEST = 0.5, 15
_MOSTLY_BLIND = 0.75
_STANDS_OUT = 1.5
"""A cell is worth reaching for while it holds more than so many standard deviations of noise."""


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

    @lazy
    def mechanism(self) -> Gaussian:
        """The noise: sensitivity and sigma in grid steps."""
        return Gaussian(SENSITIVITY, sqrt_above(Fraction(SENSITIVITY**2 * MICRO**2, self.units)))

    @property
    def event(self) -> Event:
        """What one release is charged for."""
        return self.mechanism.event

    def release(
        self, vectors: Floats, clip: float, noise: Noise, weights: Floats | None = None, drawn: Ints | None = None
    ) -> Floats:
        """The sum over users (rows) of weight times vector, each shortened to ``clip``, with noise.

        ``drawn`` is this release's own noise, where it was drawn beforehand (``Gaussian.ahead``).
        *Privacy:* mu-GDP for one user added or removed, if every row of ``vectors`` and every weight depends on that
        user alone and the clip on earlier releases.
        """
        clip = min(max(float(clip), 1 / LARGEST_CLIP), LARGEST_CLIP) if np.isfinite(clip) else LARGEST_CLIP
        total = whole(vectors, clip, weights).sum(axis=0, dtype=np.int64)
        noised = self.mechanism.release(total.tolist(), noise) if drawn is None else total + drawn
        return np.array(noised, dtype=float) * (clip / SENSITIVITY)


def whole(vectors: Floats, clip: float, weights: Floats | None = None) -> Ints:
    """Each user's vector as integers of L2 norm at most ``SENSITIVITY``, which stands for the clip.

    Every float is of one user and made by elementwise arithmetic, so the same rows give the same integers wherever they
    lie. NaN and infinities become zero, and so would a vector whose integers were too long; the norm is checked exactly.
    """
    with np.errstate(all="ignore"):
        values = np.asarray(vectors, dtype=float)
        shares = np.full(len(values), SENSITIVITY / clip) if weights is None else weights * (SENSITIVITY / clip)
        lengths = np.zeros(len(values))
        for column in values.T:
            lengths += column * column
        # rounding to nearest lengthens a vector by at most half the root of its width, so with this room none is too long
        room = SENSITIVITY - np.sqrt(values.shape[1])
        factors = np.minimum(shares, room / np.sqrt(lengths))
        scaled = np.rint(values * factors[:, None])
    clean = np.where(np.isfinite(scaled), np.clip(scaled, -SENSITIVITY, SENSITIVITY), 0.0).astype(np.int64)
    clean[(clean * clean).sum(axis=1) > SENSITIVITY**2] = 0
    return clean


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


@dataclass(frozen=True)
class Cells:
    """A histogram with one cell per user; costs ``units`` of 1e-12 mu squared."""

    units: int

    @lazy
    def mechanism(self) -> Gaussian:
        """The noise: one user moves one count by one."""
        return Gaussian(1, sqrt_above(Fraction(MICRO**2, self.units)))

    @property
    def deviation(self) -> float:
        """The noise's standard deviation, in users."""
        return float(self.mechanism.sigma)

    def release(self, cells: Ints, bins: int, noise: Noise) -> Floats:
        """How many users lie in each cell, with noise."""
        counts = np.bincount(np.clip(cells, 0, bins - 1), minlength=bins)
        return np.array(self.mechanism.release([int(count) for count in counts], noise), dtype=float)


@dataclass(frozen=True)
class Sizes:
    """What was released about rows per user: ``reach`` is the weight up to which users are heard in full."""

    users: float
    reach: float
    heard: float
    roots: float
    rows: float
    assumed: bool

    @property
    def blind(self) -> float:
        """The share of rows, as far as known, that lies beyond the reach."""
        return max(0.0, 1 - self.heard / self.rows) if self.rows > 0 else 0.0

    @property
    def middle(self) -> float:
        """Between what is heard and what is there: the number of rows a clip is made for."""
        return math.sqrt(self.heard * max(self.rows, self.heard))

    def trust(self, doubt: float) -> float:
        """What a model is multiplied by: rows beyond the reach may disagree with it, and nobody can see whether."""
        return 1 - doubt * self.blind**2

    @property
    def warning(self) -> str | None:
        """Said when a few heavy users may decide how good the model is."""
        if self.blind < _MOSTLY_BLIND:
            return None
        source = "a guess from the histogram of rows per user" if self.assumed else "the declared public_rows"
        return (
            f"about {self.blind:.0%} of the rows seem to belong to users with more than {self.reach:.0f} rows, of whom "
            f"this budget hears little ({source}): where they differ from the others the model may serve them badly, "
            "even worse than no model. A larger epsilon or more users help."
        )

    def details(self) -> dict[str, Any]:
        """Plain numbers for a release."""
        known = {"users": self.users, "reach": self.reach, "rows_heard": self.heard, "rows_assumed": self.rows}
        return {name: float(f"{value:.6g}") for name, value in known.items()}


def octaves(sizes: Ints) -> Ints:
    """The cell of each user: log2 of its rows, rounded down."""
    return np.asarray(np.frexp(sizes.astype(float))[1] - 1, dtype=np.int64)


def read_sizes(sizes: Ints, cells: Cells, sums: UserSum, mu: float, public_rows: int | None, noise: Noise) -> Sizes:
    """Release the histogram and the capped sums, and read them.

    *Privacy:* both are sums over users of vectors of bounded norm; the reach is read off the first.
    """
    counts = cells.release(octaves(sizes), OCTAVES, noise)
    best = int(np.argmax(np.cumsum(counts - _STANDS_OUT * cells.deviation)))
    reach = 2.0**best
    shares = np.minimum(sizes.astype(float), reach) / reach
    found = sums.release(np.column_stack([shares, np.sqrt(shares)]), math.sqrt(2), noise)
    floor = max(float(counts[:best].sum()), 10 / mu)
    at_least = 0.5 * float((np.maximum(counts, 0) * 2.0 ** np.arange(OCTAVES))[: best + 1].sum())
    heard = max(float(found[0]) * reach, floor, at_least)
    roots = max(float(found[1]) * math.sqrt(reach), floor)
    rows = float(public_rows) if public_rows is not None else heard + beyond(counts, best, heard, cells.deviation)
    users = max(float(counts.sum()), 1.0)
    return Sizes(users, reach, heard, roots, rows, public_rows is None)


def beyond(counts: Floats, best: int, heard: float, deviation: float) -> float:
    """Rows beyond the reach, guessed by carrying the histogram's slope on until one user is left.

    With less than three octaves in sight there is no slope; then the guess falls with the number of users seen.
    """
    if best < 2:
        return 3 * heard * min(1.0, 20 * deviation / max(float(counts.sum()), 1.0))
    first = max(0, best - 3)
    at_reach = max(float(counts[best:].sum()), deviation)
    before = max(float(counts[first:].sum()), 1.05 * at_reach)
    slope = max(math.log2(before / at_reach) / (best - first), _LEAST_SLOPE)
    heaviest = at_reach ** (1 / slope)
    flat = abs(slope - 1) < 1e-3
    areas = math.log(heaviest) if flat else (heaviest ** (1 - slope) - 1) / (1 - slope)
    return min(max(0.0, at_reach * 2.0**best * areas), _FURTHEST * heard)
