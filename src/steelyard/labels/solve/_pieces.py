"""A linear programme over known outputs, and its solutions as two-valued columns, the light ones dropped.

A column with ratios up to E is a sum of columns of two values on nested sets of labels (docs/proofs/labels_noise_loss.md,
section 5). An inner point of the programme has many of them that weigh all but nothing: they are left out, and the others
put back on the equations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.labels.solve._table import Pieces

Floats = NDArray[np.float64]
_LIGHT = (
    1e-1,
    1e-2,
    1e-3,
    1e-4,
    1e-5,
    1e-6,
    1e-8,
)  # shares of a fair weight below which columns are dropped, one by one
_EVEN, _UNEVEN = 1e-11, 1e-8  # what equations may be missed by: as rounding leaves it, and what can still be paid for


@dataclass(frozen=True)
class Programme:
    """Labels ``t`` and outputs ``z`` within [-1, 1], the loss of each pair times the prior (outputs down), and E - 1."""

    t: Floats
    z: Floats
    cost: Floats
    growth: float

    def equations(self, table: Floats) -> tuple[Floats, Floats]:
        """What every row of a table lacks in mass and in mean."""
        return 1 - table.sum(axis=0), self.t - self.z @ table

    def bound(self, mass: Floats, mean: Floats) -> float:
        """What prices prove, as floats tell it."""
        left = self.cost - mass - self.z[:, None] * mean
        return float(
            mass.sum() + mean @ self.t + min(0.0, (left + self.growth * np.minimum(left, 0)).sum(axis=1).min())
        )

    def two_point(self) -> tuple[Floats, Floats]:
        """The weights of the lowest and the highest output in the mechanism that uses no other."""
        high = (self.t - self.z[0]) / (self.z[-1] - self.z[0])
        return 1 - high, high


def apart(rows: Floats, growth: float) -> Floats:
    """The first row, and how far the others are from it over E - 1: at small epsilon rows are all but the same."""
    return np.append(rows[..., :1], (rows[..., 1:] - rows[..., :1]) / growth, axis=-1)


def together(prices: Floats, growth: float) -> Floats:
    """Prices of the rows from those of the first one and of the differences."""
    return np.append(prices[0] - prices[1:].sum() / growth, prices[1:] / growth)


def split(
    programme: Programme, least: Floats, more: Floats, prices: tuple[Floats, Floats], goal: float
) -> Iterator[Pieces]:
    """The table least + more as two-valued columns on nested sets of labels, ever fewer of the light ones dropped."""
    share = np.clip(more / (programme.growth * least[:, None]), 0, 1)
    order = np.argsort(-share, axis=1)
    level = np.take_along_axis(share, order, axis=1)
    drop = -np.diff(level, axis=1)  # the weight of the set of the first n labels, n from 1 to k - 1
    even = 1 - level[:, 0] + (1 + programme.growth) * level[:, -1]
    rank = np.argsort(order, axis=1)
    output, count = np.nonzero(drop > 0)
    output, count, weight = (
        np.concatenate([np.arange(len(even)), output]),
        np.concatenate([np.zeros(len(even), dtype=np.int64), count + 1]),
        np.concatenate([even * least, (drop * least[:, None])[output, count]]),
    )
    heavy = weight * (1 + programme.growth * count / len(programme.t)) * 2 * len(programme.t)
    before, bound = -1, programme.bound(*prices)
    nearest: tuple[float, Pieces] | None = None
    for light in _LIGHT:
        chosen = np.flatnonzero(heavy > light)
        if len(chosen) == before:
            continue
        before = len(chosen)
        inside = (rank[output[chosen]] < count[chosen, None]).astype(np.float64)
        found = _put_back(programme, output[chosen], inside, weight[chosen])
        if found is None:
            continue
        pieces = Pieces(output[chosen].astype(np.int64), inside, found[0])
        value = float(found[0] @ ((1 + programme.growth * inside) * programme.cost[output[chosen]]).sum(axis=1))
        if found[1] < _EVEN and value <= bound + goal / 2 * abs(value):
            yield pieces
        elif nearest is None or value < nearest[0]:
            nearest = value, pieces
    if nearest is not None:
        yield nearest[1]


def _put_back(
    programme: Programme, output: NDArray[np.int64], inside: Floats, weight: Floats
) -> tuple[Floats, float] | None:
    """Weights nearer to all equations, with the least relative change, and what they miss; None if some would vanish."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    rows = 1 + programme.growth * inside
    growth, tilted = programme.growth, inside - inside[:, :1]
    tilted[:, 0] = rows[:, 0]
    columns = np.hstack([tilted, programme.z[output][:, None] * tilted])
    right = np.concatenate([apart(part, growth) for part in (np.ones_like(programme.t), programme.t)])
    for _ in range(3):
        heavy = columns * weight[:, None]
        matrix = heavy.T @ heavy
        scale = 1 / np.sqrt(np.maximum(matrix.diagonal(), 1e-300))
        matrix *= scale[:, None] * scale
        np.fill_diagonal(matrix, 1 + 1e-13)
        try:
            factor = cho_factor(matrix, check_finite=False)
        except LinAlgError:
            return None
        shift = scale * cho_solve(factor, scale * (right - weight @ columns), check_finite=False)
        weight = weight + weight**2 * (columns @ shift)
        if not weight.min() > 0:
            return None
    missed = float(np.abs(right - weight @ columns).max()) * min(1.0, growth)
    return (weight, missed) if missed < _UNEVEN else None
