"""Draws from finite tables of integer weights: randomized response and every other small exact mechanism.

Each row holds non-negative integers that sum to 2^32 (or 2^64); a draw reads one word of that many bits and looks it up
in the row's alias table. The mechanism is the integers: epsilon is the logarithm of an exact ratio of two of them.
Law: what is verified is read back from the very entries that are drawn from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.noise._deviate import alias, weights_of
from steelyard.noise._sources import Noise

_CHUNK = 1 << 16


class FiniteTable:
    """Rows of integer weights, one output symbol per column; row i is the law of the output when the input is i.

    >>> table = FiniteTable([[3 << 30, 1 << 30], [1 << 30, 3 << 30]])
    >>> table.worst_ratio()
    Fraction(3, 1)
    """

    def __init__(self, rows: Iterable[Sequence[int]], *, width: int = 32) -> None:
        given = [[int(weight) for weight in row] for row in rows]
        if width not in (32, 64):
            raise InvalidTask(f"a finite table draws from words of 32 or 64 bits; got {width}.")
        if not given or not given[0] or len({len(row) for row in given}) != 1:
            raise InvalidTask("a finite table needs at least one row and one column, and rows of equal length.")
        for i, row in enumerate(given):
            if min(row) < 0 or sum(row) != 1 << width:
                raise InvalidTask(f"the weights of row {i} must be non-negative and sum to 2^{width}; got {sum(row)}.")
        self.width = width
        self.inputs, self.outputs = len(given), len(given[0])
        self._columns = max(1, (self.outputs - 1).bit_length())
        self._kind: type[np.unsignedinteger[Any]] = np.uint32 if width == 32 else np.uint64
        self._entries = np.array([alias(row, width, self._columns) for row in given], dtype=self._kind)
        self._entries.setflags(write=False)

    def weights(self) -> list[list[int]]:
        """The integer weights, recovered from the entries that the draws read."""
        rows = [weights_of(row.tolist(), self.width, self._columns) for row in self._entries]
        return [row[: self.outputs] for row in rows]

    def worst_ratio(self) -> Fraction | None:
        """The largest ratio of one output's probability under two inputs: exactly e^epsilon; None when unbounded."""
        worst = Fraction(1)
        for column in zip(*self.weights(), strict=True):
            if max(column):
                if not min(column):
                    return None
                worst = max(worst, Fraction(max(column), min(column)))
        return worst

    def draw(self, inputs: NDArray[np.integer[Any]], noise: Noise) -> NDArray[np.int64]:
        """One output for each input row number; a number outside the table is read as the nearest row.

        *Privacy:* total, because an error here would depend on the data.
        *Cost:* one word of the table's width and one table look-up per draw.
        """
        chosen = np.ascontiguousarray(inputs)
        out = np.empty(chosen.shape, dtype=np.int64)
        flat, source = out.reshape(-1), chosen.reshape(-1)
        for start in range(0, flat.size, _CHUNK):
            part = source[start : start + _CHUNK]
            flat[start : start + _CHUNK] = self.look_up(part, self._words(part.size, noise))
        return out

    def look_up(self, rows: NDArray[np.integer[Any]], words: NDArray[Any]) -> NDArray[Any]:
        """The outputs that these words pick from these rows: the drawing itself, without the randomness."""
        mask = self._kind((1 << self._columns) - 1)
        column = words & mask
        place = (np.clip(rows.astype(np.int64), 0, self.inputs - 1) << self._columns) | column.astype(np.int64)
        entry = self._entries.reshape(-1)[place]
        symbols: NDArray[Any] = np.where((words | mask) < entry, column, entry & mask)
        return symbols

    def _words(self, size: int, noise: Noise) -> NDArray[Any]:
        if self.width == 64:
            return noise.bits(size)
        return noise.bits((size + 1) // 2).view(np.uint32)[:size]
