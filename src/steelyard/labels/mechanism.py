"""A label mechanism that is a finite table: what is saved is what is checked is what is sampled.

Each output is a column of integer weights, one per label, kept as runs of equal weights; every row sums to the same
power of two, so a uniform random word draws an output with no float in sight. Inputs and outputs are fractions, and
bias and error are computed exactly. The law: a probability here is weight / 2**bits, nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask
from steelyard.labels.check import TABLE_FORMAT, CheckReport, check
from steelyard.labels.exact import BITS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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

    def runs(self, rows: int) -> list[tuple[int, int, int]]:
        """(first row, past the last row, weight) for every run."""
        return list(zip(self.starts, [*self.starts[1:], rows], self.weights, strict=True))

    def weight(self, row: int) -> int:
        """The weight of one row."""
        return next(w for s, w in zip(reversed(self.starts), reversed(self.weights), strict=True) if s <= row)


@dataclass(frozen=True)
class DualCertificate:
    """What proves how far from optimal a mechanism is: the prior, the prices ``u`` and ``slope``, the gap claimed."""

    prior: tuple[int, ...]
    u: tuple[Fraction, ...]
    slope: tuple[Fraction, ...]
    gap: Fraction

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``DualCertificate.from_json`` reads it back."""
        u, slope = [str(x) for x in self.u], [str(x) for x in self.slope]
        return {"prior": [str(p) for p in self.prior], "u": u, "slope": slope, "gap": str(self.gap)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DualCertificate:
        """Read back what ``to_json`` wrote."""
        u, slope = (tuple(Fraction(x) for x in data[name]) for name in ("u", "slope"))
        return cls(tuple(int(p) for p in data["prior"]), u, slope, Fraction(data["gap"]))


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
