"""Priors over very many labels: a mechanism over few nodes, with a proof of how far it is from the best for all labels.

A label is rounded at random to its two neighbouring nodes, then randomized: that is a mechanism for all labels, and its
exact cost is an upper bound. The prices of the nodes, shared out like the prior, are prices for all labels: they prove
a lower bound, in which every node counts at the mean of the labels it stands for. What lies between the two is known
gap by gap, so nodes are added where it is largest. docs/proofs/labels_solver.md, section 5. The law: nodes are labels
and include the least and the largest; both bounds take off the second moment of the labels themselves, not of the
nodes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.labels._bounds import lower_bound, squared_error
from steelyard.labels._mechanism import FiniteMechanism, places, read_epsilon, read_inputs, read_prior
from steelyard.labels._nodes import MOST, Nodes
from steelyard.labels.solve._solution import Solution
from steelyard.labels.solve._unbiased import solve_unbiased
from steelyard.privacy import positive

FIRST = 65  # nodes to begin with
_BITS, _FINE = 60, 1 << 200


@dataclass(frozen=True)
class Sandwich(Solution):
    """A mechanism over ``nodes`` for a prior over many labels, and where the best possible variance lies.

    ``value`` is the variance of rounding to the nodes and randomizing, ``lower_bound`` what no epsilon-private unbiased
    mechanism over all the labels can beat; ``weights`` is the prior moved to the nodes.
    """

    nodes: Nodes
    weights: tuple[int, ...]


def solve_continuous(
    labels: Iterable[Any], prior: Iterable[Any], epsilon: Any, tolerance: float = 1e-4, most: int = 600
) -> Sandwich:
    """The unbiased randomizer of least variance for a prior over thousands of labels, to a proved ``tolerance``.

    *Privacy:* pure epsilon per label, exact in integers. *Accuracy:* no bias; the variance is within ``gap`` of the best
    over ALL labels, proved in exact arithmetic. An answer that misses the tolerance with ``most`` nodes says so.
    *Cost:* a few solves of up to ``most`` nodes: seconds, whatever the number of labels.

    >>> found = solve_continuous(range(1000), [1] * 1000, 1, tolerance=1e-3)
    >>> found.converged, len(found.nodes.labels) < 200, found.lower_bound <= found.value
    (True, True, True)
    """
    fine = _FineLabels.of(labels, prior)
    level, goal = read_epsilon(epsilon), float(positive(tolerance, "tolerance"))
    if not 4 <= most <= MOST:
        raise InvalidTask(f"most must be between 4 and {MOST} nodes; got {most}.")
    chosen = fine.first_nodes(min(FIRST, most))
    while True:
        lumped = _Lumped(fine, chosen)
        solution = solve_unbiased(lumped.labels, lumped.weights, level, max(goal / 10, 1e-6))
        found = lumped.judge(solution, level, goal)
        finer = lumped.split(solution, most)
        if found.converged or finer == chosen:
            return found
        chosen = finer


@dataclass(frozen=True)
class _FineLabels:
    """All labels as whole multiples of ``step`` from the first one on, and the running sums of p, p x and p x^2."""

    lowest: Fraction
    step: Fraction
    x: list[int]
    sums: tuple[list[int], list[int], list[int]]

    @classmethod
    def of(cls, labels: Iterable[Any], prior: Iterable[Any]) -> _FineLabels:
        inputs = read_inputs(labels)
        p = read_prior(prior, len(inputs))
        x, step = places(inputs)
        moments = [list(accumulate((w * y**power for w, y in zip(p, x, strict=True)), initial=0)) for power in range(3)]
        return cls(inputs[0], step, x, (moments[0], moments[1], moments[2]))

    def first_nodes(self, count: int) -> list[int]:
        """Both ends with their neighbours, labels evenly apart, and labels with equal prior between them."""
        last, mass, half = len(self.x) - 1, self.sums[0], (count - 4) // 2
        even = (bisect_left(self.x, self.x[-1] * i // half) for i in range(half))
        likely = (bisect_left(mass, mass[-1] * i // half) for i in range(half))
        return sorted({0, 1, last - 1, last, *(min(i, last) for i in (*even, *likely))})

    def between(self, start: int, stop: int) -> list[int]:
        """The sums of p, p x and p x^2 over the labels from number ``start`` up to ``stop``."""
        return [sums[stop] - sums[start] for sums in self.sums]


class _Lumped:
    """The prior moved to the chosen nodes: each label's mass to its two neighbours, in the shares that keep its mean."""

    def __init__(self, fine: _FineLabels, chosen: list[int]) -> None:
        self.fine, self.chosen = fine, chosen
        self.y = [fine.x[i] for i in chosen]
        size = len(chosen)
        self.q, self.first, self.spread = [Fraction(0)] * size, [Fraction(0)] * size, []
        for n, (start, stop) in enumerate(pairwise(chosen)):
            low, high = self.y[n], self.y[n + 1]
            s0, s1, s2 = fine.between(start, stop)
            self.q[n] += Fraction(high * s0 - s1, high - low)
            self.q[n + 1] += Fraction(s1 - low * s0, high - low)
            self.first[n] += Fraction(high * s1 - s2, high - low)
            self.first[n + 1] += Fraction(s2 - low * s1, high - low)
            self.spread.append((low + high) * s1 - s2 - low * high * s0)  # the sum of p (x - low)(high - x)
        end = fine.between(chosen[-1], chosen[-1] + 1)
        self.q[-1] += end[0]
        self.first[-1] += end[1]

    @property
    def labels(self) -> list[Fraction]:
        """The nodes as labels."""
        return [self.fine.lowest + self.fine.step * y for y in self.y]

    @property
    def weights(self) -> list[int]:
        """The masses of the nodes, rounded down: less mass can only make prices prove less."""
        return [math.floor(q * (1 << _BITS)) for q in self.q]

    def judge(self, solution: Solution, epsilon: Fraction, goal: float) -> Sandwich:
        """Both bounds, exactly, and what they say together."""
        nodes = Nodes(tuple(self.labels))
        square = self.fine.step**2 / self.fine.sums[0][-1]
        value, lower = self._upper(solution.mechanism) * square, self._lower(solution, epsilon) * square
        gap = math.nextafter(float(1 - max(lower, Fraction(0)) / value), math.inf)
        weights = read_prior(self.weights, len(self.y))
        return Sandwich(solution.mechanism, float(value), float(lower), gap, gap <= goal, nodes, weights)

    def _upper(self, mechanism: FiniteMechanism) -> Fraction:
        """The cost of rounding and of randomizing nodes of the lumped prior, in steps squared, mass not divided out."""
        places_ = [(c.output - self.fine.lowest) / self.fine.step for c in mechanism.columns]
        columns = [(z, c.runs(len(self.y))) for z, c in zip(places_, mechanism.columns, strict=True)]
        masses = [Fraction(math.ceil(q * _FINE), _FINE) for q in self.q]
        cost = squared_error(columns, [Fraction(y) for y in self.y], masses)
        return cost / (1 << mechanism.bits) + sum(self.spread)

    def prices(self, solution: Solution) -> tuple[list[Fraction], list[Fraction], list[Fraction], Fraction]:
        """The certificate's prior, u and slope in steps and in the masses' own unit, and that unit."""
        certificate = solution.mechanism.certificate
        assert certificate is not None
        unit = Fraction(math.gcd(*self.weights), 1 << _BITS)
        prior = [p * unit for p in certificate.prior]
        u = [x * unit / self.fine.step**2 for x in certificate.u]
        return prior, u, [x * unit / self.fine.step for x in certificate.slope], unit

    def _lower(self, solution: Solution, epsilon: Fraction) -> Fraction:
        """What the shared-out prices prove: each node's price line is paid at the mean of the labels it stands for."""
        prior, u, slope, _ = self.prices(solution)
        y = [Fraction(place) for place in self.y]
        worst = lower_bound(y, prior, epsilon, u, slope) - sum(u, Fraction(0))
        paid = 0
        for place, mass, q, first, a, b in zip(self.y, prior, self.q, self.first, u, slope, strict=True):
            mean = first / q if q else Fraction(place)
            paid += math.floor((a + b * (mean - place) + mass * place * (2 * mean - place)) * _FINE)
        return Fraction(paid, _FINE) + worst - self.fine.sums[2][-1]

    def split(self, solution: Solution, most: int) -> list[int]:
        """The nodes with one more in the middle of each gap that keeps the bounds apart, at most ``most`` in all."""
        prior, _, slope, _ = self.prices(solution)
        tilt = [float((2 * p * y + s) / q) if q else math.inf for p, y, s, q in self._rows(prior, slope)]
        blame = [
            (abs(right - left) / (high - low) * float(spread) if math.isfinite(left + right) else 0.0, n)
            for n, ((left, right), (low, high), spread) in enumerate(
                zip(pairwise(tilt), pairwise(self.y), self.spread, strict=True)
            )
        ]
        guilty = sorted((pair for pair in blame if self.spread[pair[1]] > 0), reverse=True)
        fair = sum(share for share, _ in guilty) / (4 * len(self.y))
        new = [self._middle(n) for share, n in guilty[: max(0, most - len(self.chosen))] if share >= fair]
        return sorted({*self.chosen, *new})

    def _rows(self, prior: Sequence[Fraction], slope: Sequence[Fraction]) -> Iterable[tuple[Any, ...]]:
        return zip(prior, self.y, slope, self.q, strict=True)

    def _middle(self, gap: int) -> int:
        """The label nearest to the middle of a gap, never one of its ends."""
        start, stop = self.chosen[gap], self.chosen[gap + 1]
        middle = bisect_left(self.fine.x, (self.fine.x[start] + self.fine.x[stop]) // 2, start + 1, stop)
        return min(middle, stop - 1)
