"""What a certificate proves: the exact error of a table, and what no private unbiased mechanism can beat.

Only integers and fractions, only the standard library: this is the arithmetic of the judge (_check.py), which believes no
number but these. The bounds hold whatever the certificate's prices are (docs/proofs/labels_solver.md, labels_noise_loss.md).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

FINE = 1 << 200
LATTICE = 1 << 15  # bits of the labels' (or prices') common denominator
MOST_LOSSES = 1 << 19  # labels times outputs where a loss is known by its knots: each pair is looked at
Weighted = tuple[Fraction, list[tuple[int, int, int]]]  # an output, and (first row, past the last, weight) runs


def exponential(x: Fraction) -> tuple[Fraction, Fraction]:
    """Rational bounds of e^x, x >= 0: Taylor sums at x/2^m <= 1/2, whose tail is below the last term, squared m times.

    >>> low, high = exponential(Fraction(1))
    >>> bool(low < Fraction(math.e) * (1 + Fraction(1, 2**50)) and high - low < Fraction(1, 2**150))
    True
    """
    unit, halvings = 1 << 200, max(0, math.ceil(x).bit_length() + 1)
    y = x / (1 << halvings)
    low = high = unit
    term_low = term_high = unit
    for i in range(1, 60):
        term_low, term_high = math.floor(term_low * y / i), math.ceil(term_high * y / i)
        low, high = low + term_low, high + term_high
    high += term_high
    for _ in range(halvings):
        low, high = low * low // unit, -(-high * high // unit)
    return Fraction(low, unit), Fraction(high, unit)


def common(numbers: Sequence[Fraction], most: int, name: str) -> int:
    """The least common denominator; refused as soon as it is known to have too many bits."""
    found = 1
    for denominator in {number.denominator for number in numbers}:
        found = math.lcm(found, denominator)
        if found.bit_length() > most:
            raise ValueError(f"{name} have no common step of sensible size")
    return found


def squared_error(columns: Sequence[Weighted], inputs: Sequence[Fraction], prior: Sequence[Fraction]) -> Fraction:
    """The mean squared error under the prior, times the total weight and the prior's mass; rounded up, by 2^-200 a column.

    The outputs' denominators differ: their exact sum would have tens of thousands of digits.
    """
    lattice, share = (math.lcm(*(x.denominator for x in numbers)) for numbers in (inputs, prior))
    sums = [[0], [0], [0]]
    for y, p in zip(inputs, prior, strict=True):
        for power in range(3):
            sums[power].append(sums[power][-1] + int(p * share) * int(y * lattice) ** power)
    out = 0
    for z, runs in columns:
        n, d = (z * lattice).as_integer_ratio()
        parts = [sum(w * (sums[m][stop] - sums[m][start]) for start, stop, w in runs) for m in range(3)]
        out -= (2 * parts[1] * n * d - parts[0] * n * n - parts[2] * d * d) * FINE // (d * d)
    return Fraction(out, FINE * lattice**2 * share)


def lower_bound(
    inputs: Sequence[Fraction],
    prior: Sequence[Fraction],
    epsilon: Fraction,
    u: Sequence[Fraction],
    slope: Sequence[Fraction],
) -> Fraction:
    """A proved lower bound on the error of every private unbiased mechanism: sum u + min(0, min over z of g(z)).

    g(z) = sum of min(c_i, E c_i), c_i(z) = p_i (z - y_i)^2 - slope_i (z - y_i) - u_i. Each c_i counts E times on an
    interval that certainly contains its negative part; what that overcounts is bounded and taken off. Everything is
    an integer: z counts in 1/L, prices in 1/D.
    """
    L = math.lcm(*(y.denominator for y in inputs)) << 140
    D = math.lcm(*(x.denominator for x in (*prior, *u, *slope)))
    if D.bit_length() > LATTICE:
        raise ValueError("the prices have no common unit of sensible size")
    extra = math.ceil((exponential(epsilon)[1] - 1) * (1 << 140))
    base, active, slack, events = [0, 0, 0], [0, 0, 0], 0, []
    for y, p, s, v in zip(inputs, prior, slope, u, strict=True):
        Y, P, S = int(y * L), int(p * D), int(s * D) * L
        c = [P, -2 * P * Y - S, P * Y * Y + S * Y - int(v * D) * L * L]
        base = [x + d for x, d in zip(base, c, strict=True)]
        for start, stop in _negative(*c):
            slack += extra * max((_at(c, z) for z in (start, stop) if z is not None), default=0)
            if start is None:
                active = [x + d for x, d in zip(active, c, strict=True)]
            else:
                events.append((start, 1, c))
            if stop is not None:
                events.append((stop, -1, c))
    events.sort(key=lambda event: event[0])
    least, left = 0, None
    for right, sign, c in [*events, (None, 0, base)]:
        whole = [(b << 140) + extra * x for b, x in zip(base, active, strict=True)]
        least = min(least, _minimum(whole, left, right))
        active = [x + sign * d for x, d in zip(active, c, strict=True)]
        left = right
    return sum(u, Fraction(0)) + min(Fraction(0), Fraction(least - slack, (D * L * L) << 140))


def _negative(a: int, b: int, c: int) -> list[tuple[int | None, int | None]]:
    """An interval with integer ends (None: infinite) that contains every x with a x^2 + b x + c < 0; none if none."""
    if a:
        root = math.isqrt(max(0, b * b - 4 * a * c)) + 1
        return [((-b - root) // (2 * a), -((b - root) // (2 * a)))] if b * b > 4 * a * c else []
    if b:
        return [(None, -(c // b))] if b > 0 else [(c // -b, None)]
    return [(None, None)] if c < 0 else []


def _at(c: Sequence[int], x: int) -> int:
    return (c[0] * x + c[1]) * x + c[2]


def _minimum(c: Sequence[int], left: int | None, right: int | None) -> int:
    """A lower bound (the integer below) of a convex quadratic's minimum between two ends."""
    a, b = 2 * c[0], -c[1]
    after, before = left is None or a * left <= b, right is None or b <= a * right
    if c[0] and after and before:
        return c[2] - (-(-b * b // (2 * a)))
    if not c[0] and ((left is None and b < 0) or (right is None and b > 0)):
        raise ValueError("the certificate bounds nothing: the penalty falls for ever")
    return min((_at(c, x) for x in (left, right) if x is not None), default=c[2])


@dataclass(frozen=True)
class Knots:
    """A loss that is linear in the output between public outputs: ``costs[i][n] / unit`` for label i at ``outputs[n]``."""

    outputs: tuple[Fraction, ...]
    costs: tuple[tuple[int, ...], ...]
    unit: int

    @classmethod
    def absolute(cls, inputs: Sequence[Fraction], low: Fraction, high: Fraction) -> Knots:
        """The distance between output and label, from ``low`` to ``high``: it bends at the labels and nowhere else."""
        if not low <= inputs[0] < inputs[-1] <= high:
            raise ValueError("the outputs of an absolute loss must reach over all labels")
        if len(inputs) * (len(inputs) + 2) > MOST_LOSSES:
            raise ValueError("an absolute loss is judged for few labels only")
        outputs = tuple(sorted({low, *inputs, high}))
        unit = common(outputs, LATTICE, "the outputs")
        places = [int(z * unit) for z in outputs]
        return cls(outputs, tuple(tuple(abs(place - int(y * unit)) for place in places) for y in inputs), unit)

    @classmethod
    def of(cls, outputs: Sequence[Fraction], costs: Sequence[Sequence[Fraction]]) -> Knots:
        """A table of losses, one row for each label and one number for each output."""
        if len(outputs) < 2 or any(a >= b for a, b in pairwise(outputs)):
            raise ValueError("a table of losses has at least two outputs, rising")
        if len(costs) * len(outputs) > MOST_LOSSES:
            raise ValueError("a table of losses is too large to be judged")
        if any(len(row) != len(outputs) or min(row) < 0 for row in costs):
            raise ValueError("a table of losses has one number, at least zero, for each output")
        if not any(map(any, costs)):
            raise ValueError("a table of losses that is zero everywhere asks for nothing")
        unit = common([cost for row in costs for cost in row], LATTICE, "the losses")
        return cls(tuple(outputs), tuple(tuple(int(cost * unit) for cost in row) for row in costs), unit)

    def error(self, columns: Sequence[Weighted], prior: Sequence[Fraction]) -> Fraction:
        """The mean loss under a prior of whole numbers, times the total weight and the prior's mass; rounded up."""
        sums: dict[int, list[int]] = {}
        out = 0
        for z, runs in columns:
            if not self.outputs[0] <= z <= self.outputs[-1]:
                raise ValueError("an output lies outside the range that the certificate speaks of")
            n = min(bisect_right(self.outputs, z), len(self.outputs) - 1) - 1
            above = (z - self.outputs[n]) / (self.outputs[n + 1] - self.outputs[n])
            for at, share in ((n, 1 - above), (n + 1, above)):
                if at not in sums:
                    held = (int(p) * row[at] for p, row in zip(prior, self.costs, strict=True))
                    sums[at] = list(accumulate(held, initial=0))
                paid = sum(weight * (sums[at][stop] - sums[at][start]) for start, stop, weight in runs)
                out -= -paid * share.numerator * FINE // share.denominator
        return Fraction(out, FINE * self.unit)

    def bound(
        self,
        inputs: Sequence[Fraction],
        prior: Sequence[Fraction],
        epsilon: Fraction,
        u: Sequence[Fraction],
        slope: Sequence[Fraction],
    ) -> Fraction:
        """A proved lower bound for outputs from the first to the last knot: sum u + min(0, min over the knots of g).

        g(z) = sum of min(c_i, E c_i), c_i(z) = p_i loss_i(z) - slope_i (z - y_i) - u_i, is concave between two knots, so it
        is least at one of them.
        """
        lattice = common([*inputs, *self.outputs], LATTICE, "labels and outputs")
        prices = common([*u, *slope], LATTICE, "the prices")
        extra = math.ceil((exponential(epsilon)[1] - 1) * (1 << 140))
        places = [int(z * lattice) for z in self.outputs]
        whole, below = [0] * len(places), [0] * len(places)
        for y, p, v, s, row in zip(inputs, prior, u, slope, self.costs, strict=True):
            loss, tilt = int(p) * prices * lattice, int(s * prices) * self.unit
            fixed = tilt * int(y * lattice) - int(v * prices) * self.unit * lattice
            for n, place in enumerate(places):
                c = loss * row[n] - tilt * place + fixed
                whole[n] += c
                below[n] += min(c, 0)
        least = min((a << 140) + extra * b for a, b in zip(whole, below, strict=True))
        return sum(u, Fraction(0)) + min(Fraction(0), Fraction(least, prices * self.unit * lattice << 140))
