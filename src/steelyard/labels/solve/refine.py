"""Coarse to fine: solve on every other label first, and start the fine problem where the coarse one stopped.

Thinning moves the prior of a left-out label to its two kept neighbours, in the shares that keep its mean. Read
backwards, the same shares turn the coarse prices into fine ones that stay feasible (the penalty is concave and
homogeneous), and every coarse column into the fine columns whose ends lie in the same gaps: those are the only ones
worth starting from, about a hundredth of all intervals at a thousand labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steelyard.labels.solve.interior import Iterate, inside, minimise, start
from steelyard.labels.solve.program import Columns, Floats, Ints, Scaled, every_interval, row_prices

COARSEST = 64  # labels up to which all intervals are in play from the start


@dataclass(frozen=True)
class Thinning:
    """Which fine labels a coarse problem keeps, and how the others are shared between their kept neighbours."""

    fine: Scaled
    kept: Ints
    below: Ints
    share: Floats

    @classmethod
    def of(cls, fine: Scaled) -> Thinning:
        """Keep every other label and both ends."""
        kept = np.arange(0, fine.size, 2)
        if kept[-1] != fine.size - 1:
            kept = np.append(kept, fine.size - 1)
        below = np.minimum(np.searchsorted(kept, np.arange(fine.size), side="right") - 1, len(kept) - 2)
        start, stop = fine.t[kept[below]], fine.t[kept[below + 1]]
        return cls(fine, kept, below, (fine.t - start) / (stop - start))

    def coarse(self) -> Scaled:
        """The coarse problem; its prior has the same mass and mean."""
        p, size = self.fine.p, len(self.kept)
        lower, upper = (
            np.bincount(self.below, p * (1 - self.share), size),
            np.bincount(self.below + 1, p * self.share, size),
        )
        prior = (lower + upper).astype(np.float64)
        return Scaled(self.fine.centre, self.fine.half, self.fine.t[self.kept], prior, self.fine.growth)

    def prices(self, coarse: Scaled, mass: Floats, mean: Floats) -> tuple[Floats, Floats]:
        """Fine prices from coarse ones: row by row, in the shares of the prior."""
        u, v = row_prices(coarse, mass, mean)
        with np.errstate(divide="ignore", invalid="ignore"):
            per = np.where(coarse.p > 0, 1 / coarse.p, 0.0)
        lower, upper = self.fine.p * (1 - self.share) * per[self.below], self.fine.p * self.share * per[self.below + 1]
        spread = self.share * (1 - self.share) * (coarse.t[self.below + 1] - coarse.t[self.below]) ** 2
        fine_u = lower * u[self.below] + upper * u[self.below + 1] - self.fine.p * spread / coarse.rho**2
        fine_v = lower * v[self.below] + upper * v[self.below + 1]
        # a coarse row without prior has no shares: it is an end label, and its prices go to itself
        for end, row in ((0, 0), (-1, len(self.kept) - 1)):
            if coarse.p[row] == 0:
                fine_u[end] += u[row]
                fine_v[end] += v[row]
        return _flow_prices(self.fine, fine_u, fine_v)

    def columns(self, coarse: Columns) -> tuple[Ints, Ints]:
        """The fine intervals whose two ends lie in the gaps of a coarse column's ends, and those within one gap."""
        first = np.concatenate([[0], self.kept[:-1] + 1, [self.fine.size]])
        count = np.concatenate([[1], np.diff(self.kept), [1]])
        size = self.fine.size + 1
        left, right = [], []
        for i in range(int(count.max())):
            for j in range(int(count.max())):
                fits = (i < count[coarse.left]) & (j < count[coarse.right])
                left.append(first[coarse.left[fits]] + i)
                right.append(first[coarse.right[fits]] + j)
                inside = (i < j) & (j < count)
                left.append(first[inside] + i)
                right.append(first[inside] + j)
        code = np.unique(np.concatenate(left) * size + np.concatenate(right))
        return code // size, code % size


def _lift(thinning: Thinning, coarse: Scaled, point: Iterate) -> Iterate:
    """The fine starting point: lifted prices, and the coarse mechanism itself with its boundaries spread out.

    A coarse column becomes columns for every pair of fine boundaries in its two gaps, in proportion to the label
    distances: that is the mechanism "round the label at random to a kept one, then randomize", so both flows hold.
    """
    fine, size = thinning.fine, coarse.size
    columns = Columns.of(fine, *thinning.columns(point.columns))
    gap_of = np.searchsorted(thinning.kept, np.arange(fine.size + 1))
    share = np.ones(fine.size + 1)
    share[1:-1] = np.diff(fine.t) / np.diff(coarse.t)[gap_of[1:-1] - 1]
    where = np.full((size + 1, size + 1), -1)
    where[point.columns.left, point.columns.right] = np.arange(len(point.a))
    source = where[gap_of[columns.left], gap_of[columns.right]]
    part = share[columns.left] * share[columns.right]
    mass, mean = thinning.prices(coarse, point.mass, point.mean)
    s_a, s_b = point.slack()
    gap = float(point.a @ s_a + point.b @ s_b + 2 * point.tau @ point.columns.P)
    lifted = Iterate(
        columns, point.a[source] * part, point.b[source] * part, point.tau[source] * part * 1.001, mass, mean
    )
    return inside(lifted, source < 0, gap / len(columns.left))


def _flow_prices(problem: Scaled, u: Floats, v: Floats) -> tuple[Floats, Floats]:
    """The inverse of ``row_prices``."""
    ends = np.zeros(problem.size)
    ends[[0, -1]] = 0.5
    mass_total, mean_total = float(u.sum()), float(v.sum()) * problem.rho
    mass = -np.cumsum(u - mass_total * ends)[:-1] * problem.step
    mean = -np.cumsum(v - mean_total / problem.rho * ends)[:-1] * 2
    return np.append(mass, mass_total), np.append(mean, mean_total)


def attempts(problem: Scaled, goal: float) -> Iterator[Iterate]:
    """Ever more patient runs: coarse to fine, the same continued, then cold on all intervals without pruning."""
    point = _refine(problem, goal / 2.5)
    yield point
    for factor in (1e-2, 1e-4, 1e-6):
        point, _ = minimise(problem, point, goal * factor)
        yield point
    everything = Columns.of(problem, *every_interval(problem.size))
    for price in (-0.5, -1e-3, -1e-6):
        yield minimise(problem, start(problem, everything, price), goal / 20, sparse=False)[0]


def _refine(problem: Scaled, goal: float, feasible: float = 1e-7) -> Iterate:
    """Solve on every other label first, roughly, and start from there."""
    if problem.size <= COARSEST:
        columns = Columns.of(problem, *every_interval(problem.size))
        return minimise(problem, start(problem, columns), goal, feasible)[0]
    thinning = Thinning.of(problem)
    coarse = thinning.coarse()
    rough = _refine(coarse, max(goal, 1e-3), max(feasible, 1e-4))
    return minimise(problem, _lift(thinning, coarse, rough), goal, feasible)[0]
