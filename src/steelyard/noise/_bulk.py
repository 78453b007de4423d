"""The definition of ``deviate`` on many words at once, in 64-bit numpy arithmetic.

Each attempt owns three words: strip, sign and 63 digits, first comparison. Where these three settle the outcome, and a
64-bit interval around scale * deviate contains no integer boundary, the arrays hold it; every other attempt (about one
in a thousand) is handed with its three words to the scalar definition. So an attempt here is an attempt there.
Law: nothing is decided here that the scalar code could decide otherwise, and no word is used for two attempts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from steelyard.noise._deviate import Law, Word, attempt, replay
from steelyard.noise._stream import Stream

CHUNK = 8192  # attempts whose arrays stay in the cache
_SLACK = 5
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Ruler:
    """A scale below 2^48 as a 63-bit fixed-point number, rounded down, and where the binary point of a product is."""

    scale: Fraction
    high: int
    low: int
    point: int
    half: int

    @classmethod
    def of(cls, scale: Fraction, *, rounded: bool) -> Ruler:
        """The ruler of a scale; ``rounded`` adds one half before the floor."""
        bits = 63 - (scale.numerator // scale.denominator).bit_length()
        mantissa = (scale.numerator << bits) // scale.denominator
        point = bits - 4
        return cls(scale, mantissa >> 32, mantissa & 0xFFFFFFFF, point, 1 << (point - 1) if rounded else 0)

    def floors(self, k: NDArray[np.uint64], x: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """floor(scale * (k + x) / 2^10) for 63-digit x, and where the digits at hand do not settle it.

        The product is computed too small by less than five units of its last place (see the proof note).
        """
        high, low = np.uint64(self.high), np.uint64(self.low)
        z_high = (k << np.uint64(18)) | (x >> np.uint64(45))
        z_low = (x >> np.uint64(13)) & _LOW
        z_low *= high
        z_low >>= np.uint64(32)
        product = z_high * high
        product += z_low
        if self.low:
            z_high *= low
            z_high >>= np.uint64(32)
            product += z_high
        product += np.uint64(self.half)
        floor = product >> np.uint64(self.point)
        product += np.uint64(_SLACK)
        product >>= np.uint64(self.point)
        return floor, product != floor


def strips(law: Law, table: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The symbol that each word picks from the packed alias table."""
    mask = np.uint64(law.residual)
    column = words & mask
    entry = table[column.view(np.int64)]
    symbol: NDArray[np.uint64] = np.where((words | mask) < entry, column, entry & mask)
    return symbol


def attempts(
    law: Law, table: NDArray[np.uint64], ruler: Ruler, words: NDArray[np.uint64], word: Word
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """One attempt per column of ``words`` (three rows): the values, and which of them stand.

    ``word`` yields fresh words for the attempts that three words cannot settle.
    """
    first, second, third = words
    laplace = law.laplace
    k = strips(law, table, first)
    x = second >> np.uint64(1)
    unsettled = third <= (x >> np.uint64(9)) if laplace else (third >> np.uint64(43)) <= (k + k)
    unsettled |= k >= np.uint64(law.escape)
    floor, open_floor = ruler.floors(k, x)
    unsettled |= open_floor
    sign = (second & np.uint64(1)).view(np.int64)
    values = floor.view(np.int64)
    stand = (values | (sign ^ 1)) != 0 if laplace else np.ones(len(values), dtype=np.bool_)
    values = (values ^ -sign) + sign
    for i in np.flatnonzero(unsettled).tolist():
        value = attempt(law, replay(iter(words[:, i].tolist()), word), *ruler.scale.as_integer_ratio())
        stand[i] = value is not None
        values[i] = value or 0
    return values, stand


def draw_array(law: Law, stream: Stream, scale: Fraction, size: int) -> NDArray[np.int64]:
    """``size`` integer draws of a scale below 2^48.

    *Privacy:* a draw beyond int64 (probability below exp(-30000)) raises OverflowError whatever the data are.
    """
    ruler = Ruler.of(scale, rounded=not law.laplace)
    table = packed(law)
    out = np.empty(size, dtype=np.int64)
    done = 0
    while done < size:
        count = min(CHUNK, size - done)
        values, stand = attempts(law, table, ruler, stream.words(3 * count).reshape(3, count), stream.word)
        kept = values if stand.all() else values[stand]
        out[done : done + len(kept)] = kept
        done += len(kept)
    return out


_packed: dict[Law, NDArray[np.uint64]] = {}


def packed(law: Law) -> NDArray[np.uint64]:
    """The law's alias table as an array, made once."""
    if law not in _packed:
        _packed[law] = np.array(law.table, dtype=np.uint64)
    return _packed[law]
