"""Two-class predictions as bits, 64 to a word: one exclusive or and one count of bits compare a million rows in microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask


@dataclass(frozen=True, eq=False)
class Packed:
    """Bits of ``rows`` predictions; the unused bits of the last word are zero. Make one with ``pack``."""

    words: NDArray[np.uint64]
    rows: int

    def __post_init__(self) -> None:
        spare = 64 * len(self.words) - self.rows
        if self.words.dtype != np.uint64 or not 0 <= spare < 64:
            raise InvalidTask(f"{self.rows} packed predictions are {-(-self.rows // 64)} words of 64 bits.")
        if spare and int(self.words[-1]) >> (64 - spare):
            raise InvalidTask("the unused bits of the last packed word must be zero.")


def pack(bits: Any) -> Packed:
    """Pack an array of truth values.

    >>> differing(pack([True, False, True]), pack([True, True, False]))
    2
    """
    flat = np.asarray(bits, dtype=bool)
    if flat.ndim != 1:
        raise InvalidTask(f"predictions to pack are one row of truth values; got {flat.ndim} dimensions.")
    octets = np.packbits(flat, bitorder="little")
    padded = np.zeros(-(-len(octets) // 8) * 8, dtype=np.uint8)
    padded[: len(octets)] = octets
    return Packed(padded.view("<u8").astype(np.uint64, copy=False), len(flat))


def differing(one: Packed, other: Packed) -> int:
    """How many bits differ."""
    return int(np.bitwise_count(one.words ^ other.words).sum(dtype=np.int64))
