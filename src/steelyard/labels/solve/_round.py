"""From a nearly optimal float iterate to a table of integers that is exactly private and exactly unbiased.

Columns with weight are kept, their weights put back on the flow, and the best outputs for those weights found by one
linear solve. Then the weights are rounded; a spanning tree of heavy columns absorbs the rounding so that every row
sums to the same integer, and the same tree absorbs the rounding of the means, in integers. Additions only: no case
analysis, no tolerance. docs/proofs/labels_solver.md has the argument.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from steelyard.labels._mechanism import BITS, Column, ratio_below
from steelyard.labels.solve._interior import Iterate, minimise
from steelyard.labels.solve._program import Columns, Floats, Ints, Scaled, laplacian, targets


@dataclass(frozen=True)
class FloatTable:
    """Interval columns with float weights and outputs in label units, on the boundaries of all labels."""

    left: Ints
    right: Ints
    weight: Floats
    output: Floats


@dataclass(frozen=True)
class Polished:
    """Columns with weights a and b that satisfy both flows to rounding, and the relative gap to a dual value."""

    columns: Columns
    a: Floats
    b: Floats
    gap: float


def polish(problem: Scaled, point: Iterate, dual: float, tolerance: float) -> Polished | None:
    """Keep as few columns as still come within the tolerance of the dual value."""
    ratio = point.a / np.maximum(point.margin(), 1e-300)
    order = np.sort(ratio)[::-1]
    best = None
    for count in _counts(problem.size, order):
        chosen = ratio >= order[count - 1]
        found = _fit(problem, point.columns.keep(chosen), point.a[chosen])
        if found is None:
            continue
        gap = (found[2] - dual) / found[2]
        if best is None or gap < best.gap / 2:
            best = Polished(point.columns.keep(chosen), found[0], found[1], gap)
        if gap < tolerance / 2:
            break
    return best


def slim(problem: Scaled, point: Iterate, dual: float, tolerance: float) -> Polished | None:
    """Where the optimum is not unique, insist on few columns: follow the path again on the heaviest only."""
    found = polish(problem, point, dual, tolerance)
    for times in (8, 20):
        if found is None or len(found.a) <= (3 if times == 8 else 8) * problem.size:
            break
        heavy = point.a >= np.sort(point.a)[-min(len(point.a), times * problem.size)]
        again, converged = minimise(problem, point.keep(heavy), tolerance / 10, sparse=False, limit=40)
        lean = polish(problem, again, dual, tolerance) if converged else None
        if lean is not None and len(lean.a) < len(found.a) and lean.gap <= max(found.gap, tolerance / 2):
            found = lean
    return found


def _counts(size: int, order: Floats) -> list[int]:
    """How many columns to try to keep: where the ratio falls steepest near 2k, then more and more, then all."""
    window = np.arange(min(size, len(order) - 1), min(2 * size + 2, len(order) - 1))
    with np.errstate(over="ignore"):  # a fall to nothing is the steepest
        drop = int(window[np.argmax(order[window] / order[window + 1])]) + 1 if len(window) else len(order)
    return [drop, *(int(x * size) for x in (2, 2.5, 3, 4, 6, 10, 16, 30) if x * size < len(order)), len(order)]


def put_back(problem: Scaled, point: Iterate) -> Iterator[FloatTable]:
    """The iterate's heavier columns with their own outputs (from the first label on), the weights back on the flow.

    A biased optimum may use very few columns, so the steepest falls of weight against margin are all tried.
    """
    ratio = point.a / np.maximum(point.margin(), 1e-300)
    order = np.sort(ratio)[::-1]
    falls = np.argsort(order[1:] / order[:-1])[:4] + 1
    for count in [*sorted(int(fall) for fall in falls), len(order)]:
        chosen = ratio >= order[count - 1]
        a = _on_flow(problem, point.columns.keep(chosen), point.a[chosen])
        if a is not None:
            output = problem.centre + problem.half * problem.rho * point.b[chosen] / point.a[chosen]
            yield FloatTable(point.columns.left[chosen], point.columns.right[chosen], a, output)


def _on_flow(problem: Scaled, columns: Columns, a: Floats) -> Floats | None:
    """Weights that satisfy the mass flow, with the least relative change; None if some would vanish."""
    mass, size = targets(problem)[0], problem.size
    for _ in range(2):
        shift = _solve(columns, size, a * a, mass - columns.flow(a, size))
        if shift is None:
            return None
        a = a + a * a * columns.price(shift)
    balanced = bool(np.abs(mass - columns.flow(a, size)).max() < 1e-9)
    return a if balanced and a.min() > 0 else None


def _fit(problem: Scaled, columns: Columns, weights: Floats) -> tuple[Floats, Floats, float] | None:
    """Put the weights back on the flow with the least relative change, then find the best outputs for them."""
    mean, size = targets(problem)[1], problem.size
    a = _on_flow(problem, columns, weights)
    if a is None:
        return None
    pull = a / columns.P
    b = pull * columns.Y
    for _ in range(2):
        shift = _solve(columns, size, pull, mean - columns.flow(b, size))
        if shift is None:
            return None
        b = b + pull * columns.price(shift)
    if not np.abs(mean - columns.flow(b, size)).max() < 1e-9:
        return None
    return a, b, float((columns.P * b * b / a - 2 * columns.Y * b + columns.Q * a).sum())


def _solve(columns: Columns, size: int, weights: Floats, right: Floats) -> Floats | None:
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    matrix = np.empty((size, size))
    laplacian(columns, size, weights, matrix)
    scale = 1 / np.sqrt(np.maximum(matrix.diagonal(), 1e-300))
    matrix *= scale[:, None]
    matrix *= scale
    np.fill_diagonal(matrix, 1 + 1e-14)
    try:
        return np.asarray(cho_solve(cho_factor(matrix, check_finite=False), right * scale, check_finite=False) * scale)
    except LinAlgError:
        return None


def spread(left: Ints, right: Ints, weight: Floats, output: Floats, kept: Ints, labels: Floats) -> FloatTable:
    """Columns over the kept labels as columns over all: a label left out is rounded to its kept neighbours at random.

    One uniform number decides both ends of a column, so each splits into few pieces.
    """
    if len(kept) == len(labels):
        return FloatTable(left, right, weight, output)
    last, pieces = len(kept), []
    shares = [np.array([1.0])]
    for low, high in pairwise(kept):
        shares.append((labels[low + 1 : high + 1] - labels[low]) / (labels[high] - labels[low]))
    first = [0, *(int(low) + 1 for low in kept[:-1]), len(labels)]
    shares.append(np.array([1.0]))
    for j, (start, stop) in enumerate(zip(left, right, strict=True)):
        cuts = np.unique(np.concatenate([[0.0], shares[start], shares[min(stop, last)]]))
        middle = (cuts[:-1] + cuts[1:]) / 2
        begin = first[start] + np.searchsorted(shares[start], middle)
        end = first[stop] + np.searchsorted(shares[stop], middle)
        pieces.append((begin, end, weight[j] * np.diff(cuts), np.full(len(middle), output[j])))
    return FloatTable(*(np.concatenate(part) for part in zip(*pieces, strict=True)))


@dataclass(frozen=True)
class _Flow:
    """Whole weights that balance at every boundary: low or high times the weight, and ``rest`` for every row alike."""

    low: int
    high: int
    weights: list[int]
    rest: int
    ends: list[tuple[int, int]]
    tree: list[tuple[int, int]]

    @classmethod
    def of(cls, table: FloatTable, size: int, epsilon: Fraction) -> _Flow | None:
        """Round the weights, let the tree absorb it, and scale until the rows just fit into 2**62."""
        high, low = ratio_below(epsilon)
        total, ends = 1 << BITS, [(int(a), int(b)) for a, b in zip(table.left, table.right, strict=True)]
        tree = _tree(ends, table.weight, size)
        if tree is None:
            return None
        scale = total / low * 2 / (2 + math.expm1(float(epsilon)))
        room = 4 * high * math.isqrt(len(ends) + 1)
        for _ in range(6):
            flow = [round(float(w) * scale) for w in table.weight]
            _balance(flow, ends, tree, [0] * (size + 1))
            used = sum(w * (high if start == 0 else low) for w, (start, _) in zip(flow, ends, strict=True))
            if used <= total and total - used < 64 * room:
                positive = all(flow[j] > 0 for j, _ in tree)
                return cls(low, high, flow, total - used, ends, tree) if positive else None
            scale *= (total - room) / used
            room *= 2 if used > total else 1
        return None

    def columns(self, outputs: list[Fraction], middle: Fraction, size: int) -> tuple[Column, ...]:
        """The table with these outputs; columns rounded to nothing are left out."""
        parts = zip(outputs, self.weights, self.ends, strict=True)
        columns = [_column(z, start, stop, size, w * self.low, w * self.high) for z, w, (start, stop) in parts if w > 0]
        return tuple(columns + ([Column(middle, (0,), (self.rest,))] if self.rest else []))


def integers(
    table: FloatTable, inputs: tuple[Fraction, ...], epsilon: Fraction, centre: Fraction
) -> tuple[Column, ...] | None:
    """The exact unbiased table: ratio n/d <= e^epsilon, rows of sum 2**62, means equal to the labels; None if none.

    Outputs and ``centre`` may be off by one common shift: the last step takes out any bias all rows share.
    """
    flow = _Flow.of(table, len(inputs), epsilon)
    if flow is None or len(flow.tree) < len(inputs) - 1:
        return None
    total, lattice = 1 << BITS, math.lcm(*(y.denominator for y in inputs))
    unit = (flow.high - flow.low) * lattice << 20
    pull = [round(Fraction(float(z)) * w * unit) for z, w in zip(table.output, flow.weights, strict=True)]
    steps = [0, *(int((y - x) * lattice) * total << 20 for x, y in pairwise(inputs)), 0]
    _balance(pull, flow.ends, flow.tree, steps)
    drawn = sum(b * (flow.high if start == 0 else flow.low) for b, (start, _) in zip(pull, flow.ends, strict=True))
    bias = (Fraction(drawn, unit) + flow.rest * centre) / total - inputs[0]
    outputs = [Fraction(b, w * unit) - bias if w > 0 else bias for w, b in zip(flow.weights, pull, strict=True)]
    return flow.columns(outputs, centre - bias, len(inputs))


def rounded(table: FloatTable, inputs: tuple[Fraction, ...], epsilon: Fraction) -> tuple[Column, ...] | None:
    """The exact private table with the outputs as they are; its bias is whatever it is, exactly known."""
    flow = _Flow.of(table, len(inputs), epsilon)
    if flow is None:
        return None
    outputs = [Fraction(float(z)) + inputs[0] for z in table.output]
    return flow.columns(outputs, outputs[int(np.argmax(table.weight))], len(inputs))


def _column(output: Fraction, start: int, stop: int, size: int, low: int, high: int) -> Column:
    parts = [(0, low)] * (start > 0) + [(start, high)] + [(stop, low)] * (stop < size)
    return Column(output, tuple(s for s, _ in parts), tuple(w for _, w in parts))


def _tree(ends: list[tuple[int, int]], weight: Floats, size: int) -> list[tuple[int, int]] | None:
    """The heaviest spanning tree over the boundaries in use (both ends of the range are one node), leaves first.

    Each item is a column and its boundary farther from the root. None if the columns do not hang together."""
    parent = list(range(size))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    joins: list[list[tuple[int, int]]] = [[] for _ in range(size)]
    for j in np.argsort(-weight):
        start, stop = ends[j][0] % size, ends[j][1] % size
        one, other = root(start), root(stop)
        if one != other:
            parent[one] = other
            joins[start].append((stop, int(j)))
            joins[stop].append((start, int(j)))
    order: list[tuple[int, int]] = []
    seen, frontier = {0}, [0]
    while frontier:
        node = frontier.pop()
        for other, j in joins[node]:
            if other not in seen:
                seen.add(other)
                order.append((j, other))
                frontier.append(other)
    touched = {0, *(end % size for pair in ends for end in pair)}
    return order[::-1] if len(seen) == len(touched) else None


def _balance(flow: list[int], ends: list[tuple[int, int]], tree: list[tuple[int, int]], steps: list[int]) -> None:
    """Set the tree columns so that what starts minus what ends at every inner boundary n is exactly steps[n]."""
    missing = list(steps)
    for j, _ in tree:
        flow[j] = 0
    for j, (start, stop) in enumerate(ends):
        missing[start] -= flow[j]
        missing[stop] += flow[j]
    for j, leaf in tree:
        start, stop = ends[j]
        flow[j] = missing[start] if leaf == start else -missing[stop]
        missing[start] -= flow[j]
        missing[stop] += flow[j]
