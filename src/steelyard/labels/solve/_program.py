"""The optimal unbiased randomizer written as a conic programme over intervals of labels.

A column of the mechanism gives every label weight a*low, and the labels of one interval [l, r) the e^epsilon times
larger a*high. Labels are scaled to t = (y - centre)/half-range and outputs by rho = (E + 1)/(E - 1), which keeps every
number near one from epsilon 0.05 to 8. With b = a * output the variance is the sum of P b^2/a - 2 Y b + Q a.
Differencing consecutive rows turns "rows sum to one" and "rows are unbiased" into two flows over the k + 1 boundaries
between labels. The derivation is in docs/proofs/labels_solver.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Scaled:
    """The problem in scaled units: labels ``t``, prior ``p``, prefix sums of p, p t and p t^2."""

    centre: float
    half: float
    t: Floats
    p: Floats
    growth: float

    @classmethod
    def of(cls, labels: Floats, prior: Floats, epsilon: float) -> Scaled:
        """Centre at the prior mean (a concentrated prior then has little to cancel) and scale by the half range."""
        half = float(labels[-1] - labels[0]) / 2
        p = prior / prior.sum()
        centre = float(p @ labels)
        return cls(centre, half, (labels - centre) / half, p, math.expm1(epsilon))

    @property
    def rho(self) -> float:
        """How far outputs must reach: (E + 1)/(E - 1)."""
        return (self.growth + 2) / self.growth

    @property
    def low(self) -> float:
        """The weight of a label outside the interval of a unit column."""
        return 2 / (self.growth + 2)

    @property
    def step(self) -> float:
        """What the labels inside the interval have more than those outside."""
        return 2 / self.rho

    @property
    def size(self) -> int:
        """The number of labels."""
        return len(self.t)

    def moment(self, power: int) -> Floats:
        """The prefix sums of p t^power, k + 1 numbers from zero."""
        return np.concatenate([[0.0], np.cumsum(self.p * self.t**power)])


@dataclass(frozen=True)
class Columns:
    """A set of interval columns with their costs P, Y, Q and their weight ``g`` in the mean of the two end rows."""

    left: Ints
    right: Ints
    P: Floats
    Y: Floats
    Q: Floats
    g: Floats

    @classmethod
    def of(cls, problem: Scaled, left: Ints, right: Ints) -> Columns:
        """The costs of the intervals [left, right), two prefix sums each."""
        low, step, rho = problem.low, problem.step, problem.rho
        inside = [problem.moment(power)[right] - problem.moment(power)[left] for power in (0, 1, 2)]
        whole = [float(problem.moment(power)[-1]) for power in (0, 1, 2)]
        P, Y, Q = (low * whole[power] + step * inside[power] for power in (0, 1, 2))
        g = low + (step / 2) * ((left == 0).astype(float) + (right == problem.size))
        return cls(left, right, P, Y / rho, Q / rho**2, g)

    def keep(self, chosen: NDArray[np.bool_] | Ints) -> Columns:
        """The chosen columns only."""
        return Columns(*(array[chosen] for array in self.arrays()))

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The six arrays, in order."""
        return self.left, self.right, self.P, self.Y, self.Q, self.g

    def price(self, dual: Floats) -> Floats:
        """What each column earns under node prices (k - 1 inner boundaries, then the global one)."""
        nodes = np.concatenate([[0.0], dual[:-1], [0.0]])
        return np.asarray(nodes[self.left] - nodes[self.right] + self.g * dual[-1])

    def flow(self, weights: Floats, size: int) -> Floats:
        """The left sides of the k constraints: what starts minus what ends at each inner boundary, and the total."""
        starts, stops = np.bincount(self.left, weights, size + 1), np.bincount(self.right, weights, size + 1)
        out: Floats = (starts - stops)[1:].astype(np.float64)
        out[-1] = float(self.g @ weights)
        return out


def laplacian(columns: Columns, size: int, weights: Floats, out: Floats) -> None:
    """Write the sum of weight * d d' over the columns' constraint vectors d (boundary l, minus r, global g)."""
    table = np.zeros((size + 1, size + 1))
    table[columns.right, columns.left] = weights
    np.add(table[1:, 1:], table[1:, 1:].T, out=out)
    np.negative(out, out=out)
    starts, stops = np.bincount(columns.left, weights, size + 1), np.bincount(columns.right, weights, size + 1)
    out[np.diag_indices(size)] += (starts + stops)[1:]
    weighted = weights * columns.g
    edge = np.bincount(columns.left, weighted, size + 1) - np.bincount(columns.right, weighted, size + 1)
    out[-1, :] = out[:, -1] = edge[1:]
    out[-1, -1] = float(weighted @ columns.g)


def every_interval(size: int) -> tuple[Ints, Ints]:
    """All intervals [l, r) with 0 <= l < r <= size."""
    left, right = np.triu_indices(size + 1, 1)
    return left.astype(np.int64), right.astype(np.int64)


def targets(problem: Scaled) -> tuple[Floats, Floats]:
    """The right sides of the two flows: mass (0, ..., 0, 1) and mean (half the label gaps, then the middle)."""
    mass = np.zeros(problem.size)
    mass[-1] = 1.0
    mean = np.append(np.diff(problem.t) / 2, (problem.t[0] + problem.t[-1]) / (2 * problem.rho))
    return mass, mean


def row_prices(problem: Scaled, mass: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """The prices of the rows' sums and means, from those of the two flows."""
    ends = np.zeros(problem.size)
    ends[[0, -1]] = 0.5
    nodes = [np.concatenate([[0.0], dual[:-1], [0.0]]) for dual in (mass, mean)]
    return (
        -np.diff(nodes[0]) / problem.step + mass[-1] * ends,
        -np.diff(nodes[1]) / 2 + mean[-1] / problem.rho * ends,
    )


def row_duals(problem: Scaled, mass: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """Turn the flow prices into the certificate in label units: ``u`` (sum = lower bound) and ``slope``."""
    u, v = row_prices(problem, mass, mean)
    scale = (problem.half * problem.rho) ** 2
    return (u + v * problem.t) * scale, v * scale / problem.half
