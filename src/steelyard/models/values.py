"""Arrow columns as plain numbers, by total functions: what a value cannot say becomes NaN or "no match".

What happens depends on the column's type, which is public, and then on each value alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray


def numbers(array: Any) -> NDArray[Any]:
    """A numeric column as floats; null and what is no number is NaN. Floats and whole numbers keep their width."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        array = array.cast(pa.float64(), safe=False)
    elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        return np.full(len(array), np.nan)
    found: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return found


def matched(array: Any, values: Sequence[Any]) -> NDArray[np.int64]:
    """The place of each entry among the values, -1 where it is none of them.

    *Privacy:* compared in the column's own type: as doubles, a whole number beside a null would match its neighbours.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    found = np.full(len(array), -1, dtype=np.int64)
    for place, value in enumerate(values):
        scalar = _held(value, array.type)
        if scalar is not None:
            found[pc.equal(array, scalar).fill_null(False).to_numpy(zero_copy_only=False)] = place
    return found


def _held(value: str | int, kind: Any) -> Any:
    """The value in a column's type; None where the type holds no such value."""
    import pyarrow as pa

    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if isinstance(value, str):
        return pa.scalar(value, kind) if text else None
    if pa.types.is_boolean(kind):
        return pa.scalar(bool(value)) if value in (0, 1) else None
    try:
        scalar = pa.scalar(Decimal(int(value)) if pa.types.is_decimal(kind) else int(value), kind) if number else None
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
    return scalar if scalar is not None and scalar.as_py() == value else None
