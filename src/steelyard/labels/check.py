"""The small judge of a label mechanism: it reads the saved document, trusts nothing, and tolerates nothing.

Only integers and fractions, only the standard library, no other file of steelyard. Privacy, row sums and bias are
equalities between integers; the lower bound holds for every epsilon-private unbiased mechanism over all real outputs,
whatever the certificate says, because it is computed here from the certificate's numbers (docs/proofs/labels_solver.md).
The law: a document passes only if every claim in it is true.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

FINE = 1 << 200
Weighted = tuple[Fraction, list[tuple[int, int, int]]]  # an output, and (first row, past the last, weight) runs


@dataclass(frozen=True)
class Report:
    """What was found: ``findings`` is empty if and only if every claim of the document holds."""

    findings: tuple[str, ...]
    bias: Fraction | None = None
    value: Fraction | None = None
    lower_bound: Fraction | None = None

    @property
    def passed(self) -> bool:
        """Whether every claim holds."""
        return not self.findings

    @property
    def gap(self) -> Fraction | None:
        """The relative distance from the best possible, as proved here."""
        if self.value is None or self.lower_bound is None or self.value <= 0:
            return None
        return (self.value - self.lower_bound) / self.value


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


def check(document: Mapping[str, Any]) -> Report:
    """Re-prove every claim of a saved mechanism: privacy, row sums, bias and, with a certificate, the optimality gap."""
    try:
        return _check(document)
    except (KeyError, TypeError, ValueError, ZeroDivisionError, IndexError) as problem:
        return Report((f"the document cannot be read: {type(problem).__name__}: {problem}",))


def _check(document: Mapping[str, Any]) -> Report:
    inputs = [Fraction(y) for y in document["inputs"]]
    total, count = 1 << document["bits"], len(inputs)
    columns = [(Fraction(z), _runs(starts, weights, count)) for z, starts, weights in document["columns"]]
    low, _ = exponential(Fraction(document["epsilon"]))
    findings = []
    if Fraction(document["epsilon"]) <= 0 or any(x >= y for x, y in pairwise(inputs)):
        findings.append("epsilon must be positive and the inputs rising")
    for number, (_, runs) in enumerate(columns):
        weights = [weight for _, _, weight in runs]
        if min(weights) <= 0 or max(weights) > low * min(weights):
            findings.append(f"column {number}: a ratio of weights exceeds e^epsilon")
    sums, means = _rows(columns, count)
    findings += [f"row {i} sums to {found}, not {total}" for i, found in enumerate(sums) if found != total]
    bias = max(abs(mean / total - y) for mean, y in zip(means, inputs, strict=True))
    if document["unbiased"] is not False and bias:
        findings.append(f"the mechanism is biased by {float(bias):.3g}")
    certificate = document.get("certificate")
    if certificate is None:
        return Report(tuple(findings), bias)
    prior = [Fraction(p) for p in certificate["prior"]]
    if min(prior) < 0 or sum(prior) <= 0 or len(prior) != count:
        return Report((*findings, "the prior is not a prior"), bias)
    mass = sum(prior)
    value = squared_error(columns, inputs, prior) / (mass * total)
    duals = [[Fraction(x) for x in certificate[name]] for name in ("u", "slope")]
    bound = lower_bound(inputs, prior, Fraction(document["epsilon"]), *duals) / mass
    if value - bound > Fraction(certificate["gap"]) * value:
        findings.append(
            f"the certificate proves a gap of {float((value - bound) / value):.3g} only, not the one claimed"
        )
    return Report(tuple(findings), bias, value, bound)


def _runs(starts: Sequence[int], weights: Sequence[int], count: int) -> list[tuple[int, int, int]]:
    """A column as (first row, past the last row, weight), covering every row once."""
    stops = [*starts[1:], count]
    whole = all(isinstance(x, int) and not isinstance(x, bool) for x in [*starts, *weights])
    if not whole or not starts or starts[0] != 0 or any(a >= b for a, b in zip(starts, stops, strict=True)):
        raise ValueError("a column must list integer weights from row 0 on, in order")
    return list(zip(starts, stops, weights, strict=True))


def _rows(columns: Sequence[Weighted], count: int) -> tuple[list[int], list[Fraction]]:
    """The sum and the mean (times the total) of every row, from the differences between consecutive rows."""
    sums, means = [0] * (count + 1), [Fraction(0)] * (count + 1)
    for z, runs in columns:
        before = 0
        for start, _, weight in runs:
            sums[start] += weight - before
            means[start] += (weight - before) * z
            before = weight
    for i in range(1, count):
        sums[i] += sums[i - 1]
        means[i] += means[i - 1]
    return sums[:count], means[:count]


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
