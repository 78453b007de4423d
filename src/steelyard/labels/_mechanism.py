"""A label mechanism that is a finite table, and the exact numbers that it is made of.

Each output is a column of integer weights, one per label, kept as runs of equal weights; every row sums to the same
power of two, so a uniform random word draws an output with no float in sight. Inputs and outputs are fractions, and
bias and error are computed exactly; labels, priors and epsilon are read as exact numbers too. The law: what is saved is
what is checked is what is sampled, and a probability here is weight / 2**bits, nothing else.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask
from steelyard.labels._check import TABLE_FORMAT, CheckReport, check
from steelyard.privacy import exact, positive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BITS = 62  # every row of a table sums to 2**62: one random 64-bit word draws a label, in Python and elsewhere


@dataclass(frozen=True)
class Column:
    """One output and its weights: ``weights[n]`` for the rows from ``starts[n]`` up to the next start."""

    output: Fraction
    starts: tuple[int, ...]
    weights: tuple[int, ...]

    @classmethod
    def of(cls, output: Fraction, weights: list[int]) -> Column:
        """A column from one weight per row."""
        starts = [i for i, weight in enumerate(weights) if i == 0 or weight != weights[i - 1]]
        return cls(output, tuple(starts), tuple(weights[i] for i in starts))

    @classmethod
    def peak(cls, output: Fraction, start: int, stop: int, size: int, low: int, high: int) -> Column:
        """A column with the weight ``high`` for the labels from ``start`` up to ``stop`` and ``low`` for all others."""
        return cls.of(output, [high if start <= i < stop else low for i in range(size)])

    def runs(self, rows: int) -> list[tuple[int, int, int]]:
        """(first row, past the last row, weight) for every run."""
        return list(zip(self.starts, [*self.starts[1:], rows], self.weights, strict=True))

    def weight(self, row: int) -> int:
        """The weight of one row."""
        return next(w for s, w in zip(reversed(self.starts), reversed(self.weights), strict=True) if s <= row)


@dataclass(frozen=True)
class NoiseLoss:
    """What is made least between noisy and true labels: squared, absolute from one output to another, or a table."""

    name: str = "squared"
    outputs: tuple[Fraction, ...] = ()
    costs: tuple[tuple[Fraction, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``NoiseLoss.from_json`` reads it back."""
        costs = [[str(cost) for cost in row] for row in self.costs]
        return {"name": self.name, "outputs": [str(z) for z in self.outputs], "costs": costs}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NoiseLoss:
        """Read back what ``to_json`` wrote."""
        costs = tuple(tuple(Fraction(cost) for cost in row) for row in data["costs"])
        return cls(data["name"], tuple(Fraction(z) for z in data["outputs"]), costs)


@dataclass(frozen=True)
class DualCertificate:
    """What proves how far from optimal a mechanism is: the prior, the prices ``u`` and ``slope``, the gap claimed.

    ``loss`` is what the gap is one of: the loss between noisy and true labels.
    """

    prior: tuple[int, ...]
    u: tuple[Fraction, ...]
    slope: tuple[Fraction, ...]
    gap: Fraction
    loss: NoiseLoss = NoiseLoss()

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``DualCertificate.from_json`` reads it back."""
        u, slope = [str(x) for x in self.u], [str(x) for x in self.slope]
        prior = [str(p) for p in self.prior]
        return {"prior": prior, "u": u, "slope": slope, "gap": str(self.gap), "loss": self.loss.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DualCertificate:
        """Read back what ``to_json`` wrote."""
        u, slope = (tuple(Fraction(x) for x in data[name]) for name in ("u", "slope"))
        loss = NoiseLoss.from_json(data["loss"])
        return cls(tuple(int(p) for p in data["prior"]), u, slope, Fraction(data["gap"]), loss)


@dataclass(frozen=True)
class FiniteMechanism:
    """An explicit randomizer of labels: rows are inputs, columns outputs, entries integer weights over 2**bits.

    *Privacy:* pure epsilon for a change of one label, as ``verify`` proves in exact arithmetic.
    """

    inputs: tuple[Fraction, ...]
    epsilon: Fraction
    columns: tuple[Column, ...]
    unbiased: bool
    certificate: DualCertificate | None = None
    bits: int = BITS

    @property
    def outputs(self) -> tuple[Fraction, ...]:
        """The output labels, in the order of the columns."""
        return tuple(column.output for column in self.columns)

    def row(self, index: int) -> list[int]:
        """The integer weights of one input over the outputs."""
        return [column.weight(index) for column in self.columns]

    def probabilities(self) -> NDArray[np.float64]:
        """The table as floats, for looking at; sampling uses the integers."""
        import numpy as np

        table = np.empty((len(self.inputs), len(self.columns)))
        for j, column in enumerate(self.columns):
            lengths = np.diff([*column.starts, len(self.inputs)])
            table[:, j] = np.repeat(np.array([w / 2**self.bits for w in column.weights]), lengths)
        return table

    def bias(self) -> tuple[Fraction, ...]:
        """Expected output minus input for every input, exactly."""
        return tuple(mean - y for mean, y in zip(self._moments(1), self.inputs, strict=True))

    def errors(self) -> tuple[Fraction, ...]:
        """The mean squared error of every input, exactly."""
        first, second = self._moments(1), self._moments(2)
        return tuple(m2 - 2 * y * m1 + y * y for m1, m2, y in zip(first, second, self.inputs, strict=True))

    def _moments(self, power: int) -> list[Fraction]:
        changes = [Fraction(0)] * len(self.inputs)
        for column in self.columns:
            scaled, before = column.output**power, 0
            for start, weight in zip(column.starts, column.weights, strict=True):
                changes[start] += (weight - before) * scaled
                before = weight
        for i in range(1, len(changes)):
            changes[i] += changes[i - 1]
        return [change / 2**self.bits for change in changes]

    def verify(self) -> CheckReport:
        """Re-prove privacy, row sums, bias and gap from the saved form, trusting nothing in this object."""
        return check(json.loads(json.dumps(self.to_json())))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary, numbers that may be long as texts; ``FiniteMechanism.from_json`` reads it back."""
        return {
            "format": TABLE_FORMAT,
            "epsilon": str(self.epsilon),
            "bits": self.bits,
            "unbiased": self.unbiased,
            "inputs": [str(y) for y in self.inputs],
            "columns": [[str(c.output), list(c.starts), [str(w) for w in c.weights]] for c in self.columns],
            "certificate": None if self.certificate is None else self.certificate.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FiniteMechanism:
        """Read back what ``to_json`` wrote; ``verify`` says whether to believe it."""
        if data.get("format") != TABLE_FORMAT:
            raise InvalidTask(f"this is not a saved label mechanism: its format is {data.get('format')!r}.")
        columns = tuple(
            Column(Fraction(z), tuple(starts), tuple(int(w) for w in weights)) for z, starts, weights in data["columns"]
        )
        certificate = None if data["certificate"] is None else DualCertificate.from_json(data["certificate"])
        inputs = tuple(Fraction(y) for y in data["inputs"])
        return cls(inputs, Fraction(data["epsilon"]), columns, data["unbiased"], certificate, data["bits"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table and its certificate as JSON."""
        Path(path).write_text(json.dumps(self.to_json(), separators=(",", ":")), encoding="ascii")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FiniteMechanism:
        """Read a saved mechanism."""
        return cls.from_json(json.loads(Path(path).read_text(encoding="ascii")))


def growth_below(epsilon: Fraction, bits: int = 128) -> Fraction:
    """The largest multiple of 2^-bits that is certainly at most e^epsilon.

    Fixed-point Taylor sum at epsilon/2^m, every operation rounded down, then m squarings rounded down.

    >>> float(growth_below(Fraction(1)))
    2.718281828459045
    """
    halvings = max(0, math.ceil(epsilon).bit_length() + 1)
    one = 1 << (bits + 64)
    x = math.floor(epsilon / 2**halvings * one)
    total = term = one
    order = 1
    while term:
        term = term * x // (one * order)
        total += term
        order += 1
    for _ in range(halvings):
        total = total * total // one
    return Fraction(total >> 64, 1 << bits)


def ratio_below(epsilon: Fraction, limit: int = 2**22) -> tuple[int, int]:
    """The best fraction n/d <= e^epsilon with n at most about ``limit``.

    >>> n, d = ratio_below(Fraction(1))
    >>> bool(n / d <= math.e and math.e - n / d < 1e-11)
    True
    """
    growth = growth_below(epsilon)
    bound = max(1, limit // math.ceil(growth))
    best = growth.limit_denominator(bound)
    if best > growth:
        # the left neighbour of the closest fraction in the Farey order: it must lie on the other side
        p, q = best.numerator, best.denominator
        d = pow(p, -1, q) if q > 1 else 0
        d += (bound - d) // q * q
        best = Fraction((p * d - 1) // q, d)
    return best.numerator, best.denominator


def response_weights(epsilon: Fraction, size: int) -> tuple[int, int]:
    """The weights (low, high) of randomized response over ``size`` outputs; high + (size - 1) low = 2**62."""
    low = math.ceil((1 << BITS) / (growth_below(epsilon) + size - 1))
    return low, (1 << BITS) - (size - 1) * low


def read_inputs(values: Iterable[Any]) -> tuple[Fraction, ...]:
    """Labels as exact fractions, strictly rising, at least two of them."""
    inputs = tuple(_read(value, "a label") for value in values)
    if len(inputs) < 2:
        raise InvalidTask(f"a randomizer needs at least two distinct labels; got {len(inputs)}.")
    for before, after in pairwise(inputs):
        if before >= after:
            raise InvalidTask(f"labels must be strictly rising; {float(before):g} is followed by {float(after):g}.")
    return inputs


def places(labels: tuple[Fraction, ...]) -> tuple[list[int], Fraction]:
    """The labels as whole multiples of their coarsest common step from the first one on, and that step.

    >>> places((Fraction(0), Fraction(1, 2), Fraction(2)))
    ([0, 1, 4], Fraction(1, 2))
    """
    lattice = math.lcm(*(y.denominator for y in labels))
    found = [int((y - labels[0]) * lattice) for y in labels]
    shared = math.gcd(*found)
    return [place // shared for place in found], Fraction(shared, lattice)


def read_prior(values: Iterable[Any], count: int) -> tuple[int, ...]:
    """A prior as whole numbers in the exact proportions given; it need not sum to one."""
    prior = [_read(value, "a prior weight") for value in values]
    if len(prior) != count:
        raise InvalidTask(f"the prior has {len(prior)} weights for {count} labels.")
    if min(prior) < 0:
        raise InvalidTask(f"a prior weight cannot be negative; got {float(min(prior)):g}.")
    if not any(prior):
        raise InvalidTask("the prior has no mass: every weight is zero.")
    common = math.lcm(*(p.denominator for p in prior))
    whole = [int(p * common) for p in prior]
    shared = math.gcd(*whole)
    return tuple(p // shared for p in whole)


def read_epsilon(epsilon: Any) -> Fraction:
    """An epsilon a label mechanism can be built for: above zero, at most 32."""
    value = positive(epsilon, "epsilon")
    if value > 32:
        raise InvalidTask(f"epsilon {float(value):g} hides nothing; label mechanisms go up to 32.")
    if value < Fraction(1, 10**4):
        raise InvalidTask(f"epsilon {float(value):g} leaves no signal; label mechanisms start at 0.0001.")
    return value


def _read(value: Any, name: str) -> Fraction:
    return exact(value.item() if hasattr(value, "item") else value, name)


def check_range(width: float, epsilon: float) -> None:
    """Refuse a range or an epsilon that is not above zero."""
    if not (0 < width < math.inf and 0 < epsilon < math.inf):
        raise InvalidTask(f"the label range and epsilon must be above zero; got {width!r} and {epsilon!r}.")
