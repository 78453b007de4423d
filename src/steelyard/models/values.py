"""Arrow columns as plain numbers, by total functions: what a value cannot say becomes NaN or "no match".

What happens depends on the column's type, which is public, and then on each value alone.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """The place of each entry among the values, -1 where it is none of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    found = np.full(len(array), -1, dtype=np.int64)
    if all(isinstance(value, str) for value in values):
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            places = pc.index_in(array, value_set=pa.array(values, array.type))
            found[:] = places.fill_null(-1).to_numpy(zero_copy_only=False)
        return found
    given = numbers(array)
    for place, value in enumerate(values):
        if not isinstance(value, str):
            found[given == value] = place
    return found
