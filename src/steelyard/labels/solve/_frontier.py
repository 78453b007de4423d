"""Between no bias and least error: the mechanisms of least variance + weight * bias^2, each with its proof.

Weight 1 is the mean squared error (randomized response on bins), a large weight the unbiased optimum. Paying for bias
instead of forbidding it adds one quadratic term to the dual, so the same interior point and the same lower bound serve:
value >= sum u - sum slope^2 / (4 (weight - 1) p) + min(0, min g). docs/proofs/labels_solver.md, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from steelyard.errors import InvalidTask, OurBug
from steelyard.labels._bounds import lower_bound
from steelyard.labels._mechanism import BITS, Column, FiniteMechanism, read_epsilon, read_inputs, read_prior
from steelyard.labels.solve._interior import Iterate, minimise, start
from steelyard.labels.solve._program import Columns, Floats, Scaled, every_interval, row_duals
from steelyard.labels.solve._round import put_back, rounded
from steelyard.labels.solve._solution import Solution
from steelyard.privacy import exact, positive


@dataclass(frozen=True)
class Compromise(Solution):
    """A mechanism of least ``value`` = variance + weight * squared bias, exact under the prior."""

    weight: float
    variance: float
    squared_bias: float


def solve_compromise(
    inputs: Iterable[Any], prior: Iterable[Any], epsilon: Any, weight: Any, tolerance: float = 1e-6
) -> Compromise:
    """The epsilon-private randomizer of least variance + weight * bias^2 under a prior, weight above 1.

    *Privacy:* pure epsilon per label, exact in integers. *Accuracy:* the value is proved within ``gap`` of the best.
    *Cost:* a cold solve over all intervals: about 0.1 s for 64 labels, a few seconds for 400.

    >>> point = solve_compromise(range(5), [6, 1, 1, 1, 1], 1, weight=4)
    >>> point.converged, point.squared_bias > 0, point.variance < 15.5
    (True, True, True)
    """
    labels, level, price = read_inputs(inputs), read_epsilon(epsilon), exact(weight, "weight")
    if price <= 1:
        raise InvalidTask(f"weight must be above 1 (at 1 use response_on_bins); got {weight!r}.")
    masses = read_prior(prior, len(labels))
    used = [i for i, mass in enumerate(masses) if mass]
    if len(used) < 2:
        raise InvalidTask("a compromise needs a prior on at least two labels; with one, answer it always.")
    goal = float(positive(tolerance, "tolerance"))
    small = _Problem(tuple(labels[i] for i in used), tuple(masses[i] for i in used), level, price)
    columns, lower = small.solve(goal)
    variance, bias = small.judge(columns)
    gap = float(1 - lower / (variance + price * bias))
    table = tuple(_stretch(column, used, len(labels)) for column in columns)
    mechanism = FiniteMechanism(labels, level, table, unbiased=False)
    parts = float(price), float(variance), float(bias)
    return Compromise(mechanism, parts[1] + parts[0] * parts[2], float(lower), gap, gap <= goal, *parts)


@dataclass(frozen=True)
class _Problem:
    inputs: tuple[Fraction, ...]
    prior: tuple[int, ...]
    epsilon: Fraction
    weight: Fraction

    def solve(self, goal: float) -> tuple[tuple[Column, ...], Fraction]:
        """The exact table and the exact lower bound of the most patient run needed."""
        labels = np.array([float(y - self.inputs[0]) for y in self.inputs])
        p = np.array([float(Fraction(mass, sum(self.prior))) for mass in self.prior])
        problem = Scaled.of(labels, p, float(self.epsilon))
        point = start(problem, Columns.of(problem, *every_interval(problem.size)))
        best, columns, lower = math.inf, None, Fraction(0)
        for factor in (0.2, 1e-2, 1e-4):
            point, _ = minimise(problem, point, goal * factor, curvature=_curvature(problem, float(self.weight)))
            lower = max(lower, self.bound(problem, point))
            for table in put_back(problem, point):
                found = rounded(table, self.inputs, self.epsilon)
                if found is not None:
                    variance, bias = self.judge(found)
                    value = float(variance + self.weight * bias)
                    best, columns = (value, found) if value < best else (best, columns)
            if best - float(lower) <= goal * best:
                break
        if columns is None:
            raise OurBug("no exact mechanism was found; please report the labels, the prior, epsilon and the weight.")
        return columns, lower

    def bound(self, problem: Scaled, point: Iterate) -> Fraction:
        """The proved lower bound of the iterate's prices."""
        total = sum(self.prior)
        u, slope = ([Fraction(float(x)) * total for x in part] for part in row_duals(problem, point.mass, point.mean))
        masses = [Fraction(mass) for mass in self.prior]
        paid = sum(s * s / (4 * (self.weight - 1) * p) for s, p in zip(slope, masses, strict=True))
        return (lower_bound(self.inputs, masses, self.epsilon, u, slope) - paid) / total

    def judge(self, columns: tuple[Column, ...]) -> tuple[Fraction, Fraction]:
        """The exact variance and squared bias under the prior."""
        mechanism = FiniteMechanism(self.inputs, self.epsilon, columns, unbiased=False, bits=BITS)
        total = sum(self.prior)
        bias = sum((p * b * b for p, b in zip(self.prior, mechanism.bias(), strict=True)), Fraction(0)) / total
        error = sum((p * e for p, e in zip(self.prior, mechanism.errors(), strict=True)), Fraction(0)) / total
        return error - bias, bias


def _curvature(problem: Scaled, weight: float) -> Floats:
    """The Hessian of sum v_i^2 rho^2 / (4 (weight - 1) p_i) in the mean prices, v = B w the row slopes."""
    size = problem.size
    rows = np.zeros((size, size))
    inner = np.arange(size - 1)
    rows[inner + 1, inner] += 0.5
    rows[inner, inner] -= 0.5
    rows[[0, -1], -1] += 0.5 / problem.rho
    return np.asarray(rows.T @ (rows * (problem.rho**2 / (2 * (weight - 1) * problem.p))[:, None]))


def _stretch(column: Column, used: list[int], size: int) -> Column:
    """The same column over all labels: one without prior answers like the used label at or before it."""
    weights = [0] * size
    for start_row, stop_row, weight in column.runs(len(used)):
        begin = 0 if start_row == 0 else used[start_row]
        end = size if stop_row == len(used) else used[stop_row]
        weights[begin:end] = [weight] * (end - begin)
    return Column.of(column.output, weights)
