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
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian
from steelyard.privacy import MICRO, Event

if TYPE_CHECKING:
    from steelyard.noise import Noise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SENSITIVITY = 1 << 20
"""How many grid steps make one clip; rounding a user to it is far below the noise of any release."""
LARGEST_CLIP = 2.0**40
OCTAVES = 18
SHARES = math.sqrt(2)
"""The clip of two shares of at most one."""
_LEAST_SLOPE, _FURTHEST = 0.5, 15
_MOSTLY_BLIND = 0.75
_STANDS_OUT = 1.5
"""A cell is worth reaching for while it holds more than so many standard deviations of noise."""


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

    def release(self, total: Ints, clip: float, noise: Noise, drawn: Ints | None = None) -> Floats:
        """A sum over users of vectors made ``whole`` at a ``held`` clip, with noise.

        ``drawn`` is this release's own noise, where it was drawn beforehand (``Gaussian.ahead``).
        *Privacy:* mu-GDP for one user added or removed, if every vector and its weight depends on that user alone and the
        clip on earlier releases.
        """
        noised = self.mechanism.release(total.tolist(), noise) if drawn is None else total + drawn
        return np.array(noised, dtype=float) * (clip / SENSITIVITY)


def held(clip: float) -> float:
    """A clip within what integers can carry."""
    return min(max(float(clip), 1 / LARGEST_CLIP), LARGEST_CLIP) if np.isfinite(clip) else LARGEST_CLIP


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

    def release(self, counts: Ints, noise: Noise) -> Floats:
        """How many users lie in each cell, with noise."""
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
    """How many users lie in each octave of rows: log2 of their number, rounded down."""
    cells = np.asarray(np.frexp(sizes.astype(float))[1] - 1, dtype=np.int64)
    return np.bincount(np.clip(cells, 0, OCTAVES - 1), minlength=OCTAVES)


def capped_shares(sizes: Ints, reach: float) -> Ints:
    """The sum over users of their rows up to the reach and of the root of that, as shares made ``whole`` at ``SHARES``."""
    shares = np.minimum(sizes.astype(float), reach) / reach
    return np.asarray(whole(np.column_stack([shares, np.sqrt(shares)]), SHARES).sum(axis=0, dtype=np.int64))


class CountedUsers(Protocol):
    """Users of whom only numbers of rows are asked, added up over all of them."""

    def over_sizes(self, made: Callable[[Ints], Ints], size: int) -> Ints:
        """The sum of what ``made`` makes of the users' numbers of rows, some users at a time: ``size`` whole numbers."""


def read_sizes(
    people: CountedUsers, cells: Cells, sums: UserSum, mu: float, public_rows: int | None, noise: Noise
) -> Sizes:
    """Release the histogram and the capped sums, and read them.

    *Privacy:* both are sums over users of vectors of bounded norm; the reach is read off the first.
    """
    counts = cells.release(people.over_sizes(octaves, OCTAVES), noise)
    best = int(np.argmax(np.cumsum(counts - _STANDS_OUT * cells.deviation)))
    reach = 2.0**best
    found = sums.release(people.over_sizes(partial(capped_shares, reach=reach), 2), SHARES, noise)
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


def sqrt_above(square: Fraction) -> Fraction:
    """A dyadic number at or just above the square root, with about 62 significant bits: sigma from a variance.

    >>> sqrt_above(Fraction(9, 4)), float(sqrt_above(Fraction(2)) ** 2 - 2) > 0
    (Fraction(3, 2), True)
    """
    if square <= 0:
        raise InvalidTask(f"a variance must be above zero; got {square}.")
    n, d = square.as_integer_ratio()
    if math.isqrt(n) ** 2 == n and math.isqrt(d) ** 2 == d:
        return Fraction(math.isqrt(n), math.isqrt(d))
    shift = max(0, 62 - (n.bit_length() - d.bit_length()) // 2)
    return Fraction(math.isqrt((n << 2 * shift) // d) + 1, 1 << shift)
