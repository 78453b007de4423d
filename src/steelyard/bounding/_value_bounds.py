"""Bounds on values that are bought: one noisy histogram of sizes on a public grid of powers of two, each unit worth one.

A unit's rows are weighed down to one in all (1/r for each of r), so the whole vector moves by one unit's worth; the bounds are the outer
edges of the outermost bins whose noisy counts no noise explains (as in Google's approximate bounds). What lies beyond them is moved to them.
Law: the grid depends on nothing, and the number of candidates and the price on nothing but the request (docs/proofs/mean.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from steelyard.accounting import normal_quantile
from steelyard.bounding._amounts import Spend, bound
from steelyard.errors import InvalidTask
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.privacy import Number, Unit
from steelyard.tables import Bins, Capped, Quantity

if TYPE_CHECKING:
    from steelyard.tables import Table

Bound = Number | str

_STEP = Fraction(1, 2**20)
_OCTAVES = 53
_EDGES = (*(-(2**k) for k in reversed(range(_OCTAVES + 1))), *(2**k for k in range(_OCTAVES + 1)))
LARGEST = _STEP * 2**_OCTAVES
"""Values of a larger size, eight thousand million, are counted as this."""

_ONE = 2**20
_FALSE = 0.05
_SHARE = {"laplace": Fraction(1, 5), "gaussian": Fraction(2, 5)}
_NARROW = 2**10
RATIO = 2**11
"""The larger of two bought bounds is never more than this many times the width between them."""


@dataclass(frozen=True)
class ValueBounds:
    """Bounds of one value, each a public number or "auto"."""

    lower: Fraction | None
    upper: Fraction | None

    @classmethod
    def read(cls, lower: Bound, upper: Bound) -> ValueBounds:
        """Check what a task was given; numbers of both sides are checked as a range by the task."""
        low = None if lower == "auto" else bound(lower, "lower")
        high = None if upper == "auto" else bound(upper, "upper")
        for name, value in (("lower", low), ("upper", None if high is None else -high)):
            if value is not None and None in (low, high) and value > LARGEST / 4:
                raise InvalidTask(
                    f"with the other bound bought, {name} must be within {float(LARGEST / 4):.4g} of zero."
                )
        return cls(low, high)

    @property
    def private(self) -> bool:
        """Whether a bound is to be bought."""
        return self.lower is None or self.upper is None

    def parts(self, spend: Spend) -> tuple[Laplace | Gaussian | None, Spend]:
        """The noise of the look, where one is bought, and what is left."""
        if not self.private:
            return None, spend
        first, rest = spend.split(_SHARE[spend.law])
        return first.mechanism(_ONE), rest

    def bought(self, table: Table, unit: Unit, column: str, mechanism: Laplace | Gaussian, noise: Noise) -> ValueBounds:
        """Both bounds."""
        part = Capped(Quantity(None, Fraction(1, _ONE)), _ONE)
        counts = table.sums_by_bin(unit, part, Bins(Quantity(column, _STEP), _EDGES))
        return self.chosen(mechanism.release(counts, noise), mechanism)

    def chosen(self, noised: Sequence[int], mechanism: Laplace | Gaussian) -> ValueBounds:
        """The outer edges of the outermost bins that are surely not empty, or of the fullest; a function of the noisy counts."""
        sure = _beyond_noise(mechanism, len(noised))
        full = [place for place, count in enumerate(noised) if count > sure]
        full = full or [max(range(len(noised)), key=lambda place: noised[place])]
        low, high = _EDGES[full[0]], _EDGES[full[-1] + 1]
        low, high = (0 if low == -1 else low), (0 if high == 1 else high)
        lower = _STEP * low if self.lower is None else self.lower
        upper = _STEP * high if self.upper is None else self.upper
        if self.upper is None:
            upper = max(upper, _wider(lower))
        if self.lower is None:
            lower = min(lower, -_wider(-upper))
        return ValueBounds(lower, upper)


def _wider(value: Fraction) -> Fraction:
    """The least power of two of the grid, or minus one, that lies well above a value."""
    least = value + max(abs(value) / _NARROW, _STEP)
    edges: list[Fraction] = [_STEP * edge for edge in (0, *_EDGES[_OCTAVES + 1 :])]
    return next((edge for edge in edges if edge >= least), 2 * LARGEST)


def _beyond_noise(mechanism: Laplace | Gaussian, bins: int) -> float:
    """A count that none of so many empty bins reaches by noise alone, in all but one of twenty draws."""
    if isinstance(mechanism, Gaussian):
        return float(mechanism.sigma) * normal_quantile(1 - _FALSE / bins)
    return float(mechanism.scale) * math.log(bins / (2 * _FALSE))
