"""Integer vectors whose norm is checked exactly, and the noise for a variance: where floats end and privacy begins.

Floats before the integers are utility only; what one unit may weigh is the integer norm, checked after rounding.
Law: nothing here raises because of a value, and each row's integers depend on that row alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING

from steelyard.errors import InvalidTask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def sqrt_above(square: Fraction, bits: int = 62) -> Fraction:
    """A dyadic number at or just above the square root, with about ``bits`` significant bits: sigma from a variance.

    >>> sqrt_above(Fraction(9, 4)), float(sqrt_above(Fraction(2)) ** 2 - 2) > 0
    (Fraction(3, 2), True)
    """
    if square <= 0:
        raise InvalidTask(f"a variance must be above zero; got {square}.")
    n, d = square.as_integer_ratio()
    if isqrt(n) ** 2 == n and isqrt(d) ** 2 == d:
        return Fraction(isqrt(n), isqrt(d))
    shift = max(0, bits - (n.bit_length() - d.bit_length()) // 2)
    return Fraction(isqrt((n << 2 * shift) // d) + 1, 1 << shift)


def fit_norm(ints: NDArray[np.int64], sensitivity: int, norm: int) -> NDArray[np.int64]:
    """Integer rows (last axis) moved toward zero, all coordinates alike, until the L1 or L2 norm is at most S.

    *Privacy:* total and exact: the check is integer arithmetic that cannot overflow.
    """
    import numpy as np

    if norm not in (1, 2) or sensitivity < 0:
        raise InvalidTask(f"the norm must be 1 or 2 and the sensitivity not negative; got {norm} and {sensitivity}.")
    out = np.array(ints, dtype=np.int64)
    if not out.size:
        return out
    too_long = ~_within(out, sensitivity, norm)
    flat = out.reshape(-1, out.shape[-1])
    for i in np.flatnonzero(too_long.ravel()).tolist():
        flat[i] = _shrunk(flat[i].tolist(), sensitivity, norm)
    return flat.reshape(out.shape)


def _within(ints: NDArray[np.int64], sensitivity: int, norm: int) -> NDArray[np.bool_]:
    """Whether each row's integer norm is at most S; Python integers wherever int64 could overflow."""
    import numpy as np

    largest = max(abs(int(ints.max(initial=0))), abs(int(ints.min(initial=0))))
    if ints.shape[-1] * largest**norm < 1 << 62:
        weights = np.abs(ints) if norm == 1 else ints * ints
        return np.asarray(weights.sum(axis=-1) <= min(sensitivity**norm, (1 << 62)))
    rows = ints.reshape(-1, ints.shape[-1]).tolist()
    return np.array([_weight(row, norm) <= sensitivity**norm for row in rows]).reshape(ints.shape[:-1])


def _weight(row: Sequence[int], norm: int) -> int:
    return sum(abs(k) ** norm for k in row)


def _shrunk(row: Sequence[int], sensitivity: int, norm: int) -> list[int]:
    """The row with the fewest equal steps toward zero that make it fit, found by bisection."""
    low, high = 0, max(map(abs, row))
    while low < high:
        middle = (low + high) // 2
        if _weight(_toward_zero(row, middle), norm) <= sensitivity**norm:
            high = middle
        else:
            low = middle + 1
    return _toward_zero(row, low)


def _toward_zero(row: Sequence[int], steps: int) -> list[int]:
    return [max(k - steps, 0) if k > 0 else min(k + steps, 0) for k in row]
