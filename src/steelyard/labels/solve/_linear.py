"""The unbiased mechanism of least loss where the loss is linear between known outputs: a linear programme over them.

A table M = a + x, 0 <= x <= (E - 1) a, column by column, with 2k equations for mass and mean. A primal-dual interior point
(Mehrotra) eliminates x and a output by output, which leaves 2k normal equations; it starts strictly inside, from an even
table and a two-point one, and stays there. What it finds is split into two-valued columns, the light ones dropped, the
others put back on the equations, and made exact (_table.py). docs/proofs/labels_noise_loss.md. The law: floats only
suggest; prices and tables are offered to ``Best``, which judges them in fractions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.labels._mechanism import NoiseLoss
from steelyard.labels.solve._pieces import Programme, apart, split, together
from steelyard.labels.solve._solution import Best
from steelyard.labels.solve._table import Pieces, settled

Floats = NDArray[np.float64]
NEGLIGIBLE = 1e-12  # inner labels with less prior are served by random rounding
_PATIENCE = 200


def search_knots(best: Best, goal: float) -> None:
    """Offer ever better prices and tables until the exact gap is within the goal."""
    task = _Task.of(best)
    for start_price, precision in ((3.0, goal / 30), (3.0, goal / 3000), (100.0, goal / 300), (0.1, goal / 300)):
        point = _minimise(task.programme, start_price, precision)
        if point is None:
            continue
        best.offer_prices(*task.prices(point))
        for pieces in split(task.programme, point.least, point.more, (point.mass, point.mean), goal):
            best.offer_columns(settled(task.spread(pieces), best.inputs, task.outputs, best.epsilon))
            if best.gap() <= goal:
                return
    task.offer_two_point(best)


def check_exact(loss: NoiseLoss, inputs: tuple[Fraction, ...], epsilon: Fraction) -> None:
    """Refuse labels and outputs for which not even the two-point mechanism has whole weights: before a prior is paid for."""
    if loss.outputs:
        best = Best(inputs, (1,) * len(inputs), epsilon, loss)
        _Task.of(best).offer_two_point(best)


@dataclass(frozen=True)
class _Task:
    """The programme over the labels that have prior, and the way back to all labels and to their unit."""

    programme: Programme
    outputs: tuple[Any, ...]
    kept: NDArray[np.int64]
    labels: Floats
    centre: float
    half: float
    top: float
    scale: float

    @classmethod
    def of(cls, best: Best) -> _Task:
        knots = best.knots
        assert knots is not None
        labels = np.array([float(y - best.inputs[0]) for y in best.inputs])
        prior = np.array([float(p / best.total) for p in best.masses])
        worth = prior > NEGLIGIBLE
        worth[[0, -1]] = True
        kept = np.flatnonzero(worth)
        used = {best.inputs[i] for i in kept} | {knots.outputs[0], knots.outputs[-1]}
        at = [n for n, z in enumerate(knots.outputs) if best.loss.name == "table" or z in used]
        outputs = tuple(knots.outputs[n] for n in at)
        z = np.array([float(z - best.inputs[0]) for z in outputs])
        half = labels[-1] / 2
        top = float(np.abs(z - half).max())
        cost = prior[kept] * np.array([[knots.costs[i][n] / knots.unit for i in kept] for n in at])
        scale = float(cost.sum(axis=1).mean())
        programme = Programme(
            (labels[kept] - half) / top, (z - half) / top, cost / scale, math.expm1(float(best.epsilon))
        )
        return cls(programme, outputs, kept, labels, half, float(half), top, scale)

    def prices(self, point: _Point) -> tuple[Floats, Floats, float]:
        """The prices of all labels in their own unit; those left out have none."""
        u, slope = (np.zeros(len(self.labels)) for _ in range(2))
        slope[self.kept] = point.mean * self.scale / self.top
        u[self.kept] = point.mass * self.scale + slope[self.kept] * (self.labels[self.kept] - self.centre)
        return u, slope, self.half

    def spread(self, pieces: Pieces) -> Pieces:
        """Pieces over all labels: one left out has the shares of its kept neighbours, in proportion."""
        if len(self.kept) == len(self.labels):
            return pieces
        below = np.minimum(
            np.searchsorted(self.kept, np.arange(len(self.labels)), side="right") - 1, len(self.kept) - 2
        )
        low, high = self.labels[self.kept[below]], self.labels[self.kept[below + 1]]
        way = (self.labels - low) / (high - low)
        share = pieces.share[:, below] * (1 - way) + pieces.share[:, below + 1] * way
        return Pieces(pieces.output, share, pieces.weight)

    def offer_two_point(self, best: Best) -> None:
        """Offer what is always possible; where whole numbers cannot write it, nothing is."""
        best.offer_columns(settled(self.spread(self.two_point()), best.inputs, self.outputs, best.epsilon))
        if best.columns is None:
            raise InvalidTask(
                "labels and outputs share no common step coarse enough for whole weights: round them, or take wider outputs="
            )

    def two_point(self) -> Pieces:
        """The prior-free mechanism on the lowest and the highest output: what remains when all else fails."""
        low, high = self.programme.two_point()
        last, growth = len(self.outputs) - 1, self.programme.growth
        share = np.array([(part / part.min() - 1) / growth for part in (low, high)])
        return Pieces(np.array([0, last]), np.clip(share, 0, 1), np.array([low.min(), high.min()]))


@dataclass(frozen=True)
class _Point:
    """A strictly inner point: a and x, the room above x, prices of mass and mean, and of both bounds of x."""

    least: Floats
    more: Floats
    room: Floats
    mass: Floats
    mean: Floats
    floor: Floats
    ceiling: Floats

    @property
    def table(self) -> Floats:
        """The table itself, outputs down."""
        return self.least[:, None] + self.more

    def gap(self) -> float:
        """The mean product of a bound's slack and its price."""
        total = (self.more * self.floor).sum() + (self.room * self.ceiling).sum()
        return float(total) / (2 * self.more.size)

    def moved(self, step: tuple[Floats, ...], primal: float, dual: float) -> _Point:
        """The point a part of the step further."""
        sizes = (primal, primal, primal, dual, dual, dual, dual)
        held = (self.least, self.more, self.room, self.mass, self.mean, self.floor, self.ceiling)
        return _Point(*(a + size * b for a, size, b in zip(held, sizes, step, strict=True)))

    def reach(self, step: tuple[Floats, ...]) -> tuple[float, float]:
        """How much of a step, up to all of it, keeps what must be positive positive."""
        least = [
            min(_most(self.more, step[1]), _most(self.room, step[2])),
            min(_most(self.floor, step[5]), _most(self.ceiling, step[6])),
        ]
        return least[0], least[1]


def _most(value: Floats, change: Floats) -> float:
    fall = float((change / value).min())
    return 1.0 if fall >= -1 else -1 / fall


def _start(programme: Programme, price: float) -> _Point | None:
    """A two-point table mixed with an even one, as much as ratios allow, and prices that nothing can earn."""
    growth, count = programme.growth, len(programme.z)
    low, high = programme.two_point()
    steepest = max(float(part.max() / part.min()) for part in (low, high))
    for even in 2.0 ** -np.arange(1, 60):
        up = (programme.t - even * programme.z.mean() - (1 - even) * programme.z[0]) / (
            programme.z[-1] - programme.z[0]
        )
        table = np.full((count, len(programme.t)), even / count)
        table[0] += 1 - even - up
        table[-1] += up
        ratio = float((table.max(axis=1) / table.min(axis=1)).max())
        if table.min() > 0 and ratio < math.sqrt(steepest * (1 + growth)):
            break
    else:
        return None
    lowest, highest = table.max(axis=1) / (1 + growth), table.min(axis=1)
    margin = 0.1 * (highest - lowest)
    least = np.clip(table.mean(axis=1) * (2 + growth) / (2 + 2 * growth), lowest + margin, highest - margin)
    more = table - least[:, None]
    mass = np.full(len(programme.t), -price / len(programme.t))
    left = programme.cost - mass
    ceiling = np.repeat(left.mean(axis=1, keepdims=True) / growth, len(programme.t), axis=1)
    return _Point(least, more, growth * least[:, None] - more, mass, np.zeros_like(mass), left + ceiling, ceiling)


def _minimise(programme: Programme, price: float, precision: float) -> _Point | None:
    """Predictor and corrector steps until the floats' own gap is within the precision; the best point if it never is."""
    point, best, proved = _start(programme, price), None, -math.inf
    for _ in range(_PATIENCE):
        if point is None or not np.all(np.isfinite(point.mean)):
            break
        value, bound = float((programme.cost * point.table).sum()), programme.bound(point.mass, point.mean)
        if bound > proved:
            best, proved = point, bound
        if value - bound <= precision * value:
            break
        point = _stepped(programme, point)
    return best


def _stepped(programme: Programme, point: _Point) -> _Point | None:
    system = _System.of(programme, point)
    if system is None:
        return None
    gap = point.gap()
    step = system.step(-point.more * point.floor, -point.room * point.ceiling)
    primal, dual = point.reach(step)
    ahead = point.moved(step, primal, dual).gap()
    centre = (ahead / gap) ** 3
    if min(primal, dual) < 0.1:
        centre = max(centre, 0.3)
    aim = centre * gap
    step = system.step(
        aim - point.more * point.floor - step[1] * step[5], aim - point.room * point.ceiling - step[2] * step[6]
    )
    near = max(0.9, 1 - 10 * gap * point.more.size) if 2 * gap * point.more.size < 1 else 0.9
    primal, dual = point.reach(step)
    return point.moved(step, near * primal if primal < 1 else min(1.0, near * primal + 0.1), near * dual)


@dataclass(frozen=True)
class _System:
    """The linear equations of a step at a point, with a and x eliminated: 2k normal equations, factored.

    They are those of the first row and of the other rows' differences to it, over E - 1 (``_apart``).
    """

    programme: Programme
    point: _Point
    ends: tuple[Floats, Floats]
    shared: Floats
    pull: Floats
    own: Floats
    matrix: Floats
    factor: Any
    scale: Floats

    @classmethod
    def of(cls, programme: Programme, point: _Point) -> _System | None:
        from scipy.linalg import LinAlgError, cho_factor

        growth, size = programme.growth, len(programme.t)
        floor, ceiling = point.floor / point.more, point.ceiling / point.room
        shared = 1 / (floor + ceiling)
        tilt = ceiling * shared
        pull, tilted = 1 + growth * tilt, tilt - tilt[:, :1]
        own = growth**2 * (floor * tilt).sum(axis=1)
        tilted[:, 0] = pull[:, 0]
        matrix, over = np.empty((2 * size, 2 * size)), tilted / own[:, None]
        for row, column, weight in (
            (0, 0, np.ones_like(programme.z)),
            (0, size, programme.z),
            (size, size, programme.z**2),
        ):
            block, alone = (tilted * weight[:, None]).T @ over, weight @ shared
            block[1:, 1:] += alone[0] / growth**2
            block[0, 1:] -= alone[0] / growth
            block[1:, 0] -= alone[0] / growth
            block[np.diag_indices(size)] += alone / np.append(1.0, np.full(size - 1, growth**2))
            matrix[row : row + size, column : column + size] = block
        matrix[size:, :size] = matrix[:size, size:].T
        with np.errstate(all="ignore"):
            scale = 1 / np.sqrt(matrix.diagonal())
        scaled = matrix * scale[:, None] * scale
        if not np.all(np.isfinite(scaled)):
            return None
        for more in (1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7):
            np.fill_diagonal(scaled, 1 + more)
            try:
                factor = cho_factor(scaled, lower=True, check_finite=False)
            except LinAlgError:
                continue
            return cls(programme, point, (floor, ceiling), shared, pull, own, matrix, factor, scale)
        return None

    def step(self, low: Floats, high: Floats) -> tuple[Floats, ...]:
        """The step that changes the products of slack and price by ``low`` at the floor and ``high`` at the ceiling of x."""
        programme, point, growth = self.programme, self.point, self.programme.growth
        floor, ceiling = self.ends
        left = programme.cost - point.mass - programme.z[:, None] * point.mean
        off = left - point.floor + point.ceiling
        low, high = low / point.more, high / point.room
        push = low - high - off
        alone = growth * (ceiling * self.shared * push + high).sum(axis=1)
        alone -= left.sum(axis=1) - growth * point.ceiling.sum(axis=1)
        table = self.pull * (alone / self.own)[:, None] + self.shared * push
        mass, mean = programme.equations(point.table + table)
        size = len(programme.t)
        found = self._solve(np.concatenate([apart(part, growth) for part in (mass, mean)]))
        prices = [together(part, growth) for part in (found[:size], found[size:])]
        earned = prices[0] + programme.z[:, None] * prices[1]
        least = ((self.pull * earned).sum(axis=1) + alone) / self.own
        more = self.shared * (earned + push + growth * ceiling * least[:, None])
        room = growth * least[:, None] - more
        return least, more, room, prices[0], prices[1], low - floor * more, high - ceiling * room

    def _solve(self, right: Floats) -> Floats:
        from scipy.linalg import cho_solve

        found = self.scale * cho_solve(self.factor, self.scale * right, check_finite=False)
        again = right - self.matrix @ found
        return np.asarray(found + self.scale * cho_solve(self.factor, self.scale * again, check_finite=False))
