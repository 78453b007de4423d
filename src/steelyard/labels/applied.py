"""A mechanism put to use: label, coin and word in, noisy label out, the same bits in Python and in a browser.

One label takes one 32-bit coin (which node) and one 64-bit word (which output); the word is looked up in an alias table
that holds the mechanism's integer weights exactly. Labels are worked through in small chunks, so memory stays flat.
The law: the table is made of the weights that were checked, and the number of words read depends on n alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.lazy import lazy
from steelyard.mechanisms.observe import show
from steelyard.noise import Noise
from steelyard.noise.finite import FiniteTable
from steelyard.privacy import Event, Neighbours, canonical

from .containers import Floats
from .continuous import Nodes
from .mechanism import FiniteMechanism

_CHUNK = 1 << 16


@dataclass(frozen=True)
class Applied:
    """Rounding to the nodes, then the finite mechanism over them."""

    nodes: Nodes
    mechanism: FiniteMechanism
    missing: float | None = None

    @lazy
    def ratio(self) -> Fraction:
        """The largest ratio of two weights of one output."""
        return max(Fraction(max(column.weights), min(column.weights)) for column in self.mechanism.columns)

    @lazy
    def event(self) -> Event:
        """What one pass over the records is charged for: the exact largest ratio of two weights of one output."""
        parts: dict[str, int | str | list[int]] = {
            "ratio_numerator": self.ratio.numerator,
            "ratio_denominator": self.ratio.denominator,
        }
        return Event("finite", parts, Neighbours.CHANGE_LABEL)

    @lazy
    def digest(self) -> str:
        """The name of everything that decides what a label becomes."""
        core = {**self.mechanism.to_json(), "certificate": None, "missing": self.missing}
        return hashlib.sha256(canonical(core)).hexdigest()

    @lazy
    def values(self) -> Floats:
        """Each output as the nearest float."""
        return np.array([float(z) for z in self.mechanism.outputs])

    @property
    def code(self) -> str:
        """How a drawn output number is stored."""
        return "<u4"

    def at(self, drawn: NDArray[np.int64]) -> Floats:
        """The noisy labels of these output numbers."""
        return self.values[drawn]

    @lazy
    def table(self) -> FiniteTable:
        """The weights, four times as large so that they fill 64-bit words, as exact alias tables."""
        rows, scale = len(self.mechanism.inputs), 64 - self.mechanism.bits
        columns = [
            [w << scale for start, stop, w in column.runs(rows) for _ in range(stop - start)]
            for column in self.mechanism.columns
        ]
        return FiniteTable(zip(*columns, strict=True), width=64)

    def prepare(self) -> None:
        """Make what drawing needs, so that nothing is left to fail once the draw is paid for."""
        _ = self.table, self.values

    def pick(self, y: Floats, coins: NDArray[np.uint32], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The output numbers that these coins and words pick: the drawing itself, without the randomness."""
        rows = self.nodes.round(y, coins, self.missing)
        return np.asarray(self.table.look_up(rows, words), dtype=np.int64)

    def draw(self, y: Floats, noise: Noise) -> NDArray[np.int64]:
        """One output number for each label.

        *Privacy:* pure epsilon for a change of one label, as ``event`` says. Total: no label makes it fail.
        """
        out = np.empty(len(y), dtype=np.int64)
        for here, drawn in self._chunks(y, noise):
            out[here] = drawn
        return out

    def noisy(self, y: Floats, noise: Noise) -> Floats:
        """One noisy label for each label."""
        out = np.empty(len(y))
        for here, drawn in self._chunks(y, noise):
            out[here] = self.values[drawn]
        return out

    def _chunks(self, y: Floats, noise: Noise) -> Iterator[tuple[slice, NDArray[Any]]]:
        for start in range(0, len(y), _CHUNK):
            part = y[start : start + _CHUNK]
            coins = noise.bits((len(part) + 1) // 2).view(np.uint32)[: len(part)]
            if not noise.secure:
                show(self.event, self.nodes.round(part, coins, self.missing).tolist(), noise)
            yield slice(start, start + len(part)), self.pick(part, coins, noise.bits(len(part)))
