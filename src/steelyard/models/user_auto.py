"""What a fit per user learns about its users before it starts: how heavy they are and how far one may be heard.

A histogram of log2 rows per user (one cell each) shows up to which weight users are numerous enough to stand out of the
noise; sums capped there say how many rows are heard. How many there are beyond is declared, or guessed from the slope of
the histogram. The clip and the trust in the model follow. Everything but ``read_sizes`` is arithmetic on releases.
Law: a row count is used only where it was declared; it is never taken from the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.mechanisms import Gaussian
from steelyard.models.user_sums import Floats, Ints, UserSum
from steelyard.noise.grid import sqrt_above
from steelyard.privacy import MICRO

if TYPE_CHECKING:
    from steelyard.noise import Noise

OCTAVES = 18
_LEAST_SLOPE, _FURTHEST = 0.5, 15
_DOUBT, _MOSTLY_BLIND = 0.2, 0.75
_STANDS_OUT = 1.5
"""A cell is worth reaching for while it holds more than so many standard deviations of noise."""


@dataclass(frozen=True)
class Cells:
    """A histogram with one cell per user; costs ``units`` of 1e-12 mu squared."""

    units: int

    @property
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

    @property
    def trust(self) -> float:
        """What a model is multiplied by: rows beyond the reach may disagree with it, and nobody can see whether."""
        return 1 - _DOUBT * self.blind**2

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
