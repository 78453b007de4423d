"""Labels as they come, and noisy ones as they go: lists, NumPy, pandas, Polars and Arrow.

What a column's type says is public: a column of text, dates or complex numbers is refused from its type alone, before
anything is charged. What an entry holds is private: in a list, or in a column of objects, each entry is read by itself, and
one that is no number is a missing label; no entry changes what another one is read as, and none is a reason to fail. What comes
back has a type that owes nothing to the labels. The law: nothing that was paid for is lost because it cannot be wrapped.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.interrupts import INTERRUPTS

Floats = NDArray[np.float64]


def read_labels(y: Any) -> Floats:
    """Labels of any container as floats; what is no number becomes NaN.

    *Privacy:* refused is what the container's type rules out, and nothing else; each float depends on its own entry.

    >>> read_labels([1, None, 2.5, "x"]).tolist()
    [1.0, nan, 2.5, nan]
    """
    home = _home(y)
    if home == "pandas":
        return _from_pandas(y)
    if home == "polars":
        return _from_polars(y)
    if home == "pyarrow":
        return _from_arrow(y)
    if isinstance(y, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(y), math.nan, _from_numpy(np.asarray(y.data)))
    if hasattr(y, "__array__") or hasattr(y, "__array_interface__"):
        return _from_numpy(np.asarray(y))
    if isinstance(y, str | bytes) or not isinstance(y, Iterable):
        raise InvalidTask(f"labels are one column of numbers; got {type(y).__name__}.")
    return _one_by_one(y)


def holds_objects(y: Any) -> bool:
    """Whether a column's type says nothing about what its entries are."""
    return str(getattr(y, "dtype", "")).lower() == "object"


def wrapped(y: Any, values: Floats) -> Any:
    """The values in the kind of container the labels came in: a pandas or Polars series, an Arrow array, else NumPy's.

    Never fails: a container that cannot be made again is left off.
    """
    try:
        return _wrapped(y, values)
    except INTERRUPTS:
        raise
    except BaseException:  # the values are paid for, and must reach the caller whatever a container thinks of them
        return values


def _wrapped(y: Any, values: Floats) -> Any:
    home = _home(y)
    if home == "pandas" and hasattr(y, "index") and hasattr(y, "name"):
        return type(y)(values, index=y.index, name=y.name)
    if home == "polars":
        return type(y)(y.name, values)
    if home == "pyarrow":
        import pyarrow

        return pyarrow.array(values)
    return values


def _home(y: Any) -> str:
    return type(y).__module__.partition(".")[0]


def _refuse(kind: object) -> InvalidTask:
    return InvalidTask(
        f"labels must be numbers; got a column of {kind}. Give each word, date or class a number first; nothing was charged."
    )


def _one_by_one(entries: Iterable[Any]) -> Floats:
    with warnings.catch_warnings():  # an entry's own type may warn, and that would tell of it
        warnings.simplefilter("ignore")
        return np.fromiter((_number(entry) for entry in entries), dtype=np.float64)


def _number(value: Any) -> float:
    """One entry as a float, whatever it is; a list, an array or a complex number inside a column is none."""
    try:
        return math.nan if getattr(value, "ndim", 0) or isinstance(value, np.complexfloating) else float(value)
    except INTERRUPTS:
        raise
    except BaseException:  # whatever an entry's own type raises would tell something about it
        return math.nan


def _from_numpy(values: NDArray[Any]) -> Floats:
    if values.ndim != 1:
        raise InvalidTask(f"labels are one column; got {values.ndim} dimensions.")
    if values.dtype.kind == "O":
        return _one_by_one(values)
    if values.dtype.kind not in "biuf":
        raise _refuse(values.dtype)
    with np.errstate(all="ignore"):  # a long double may be too large: infinite, and so missing
        return np.ascontiguousarray(values, dtype=np.float64)


def _from_pandas(y: Any) -> Floats:
    dtype = getattr(y, "dtype", None)
    if dtype is None or getattr(y, "ndim", 1) != 1:
        raise InvalidTask("labels are one column; give a Series, not a whole frame.")
    if isinstance(dtype, np.dtype):
        return _from_numpy(np.asarray(y.to_numpy()))
    from pandas import CategoricalDtype
    from pandas.api.types import is_numeric_dtype

    if isinstance(dtype, CategoricalDtype):
        held = getattr(y, "cat", y)
        return np.asarray(np.append(_from_pandas(dtype.categories), math.nan)[np.asarray(held.codes)])
    if dtype.kind not in "biuf" and not is_numeric_dtype(dtype):
        raise _refuse(dtype)
    return np.asarray(y.to_numpy(dtype=np.float64, na_value=math.nan))


def _from_polars(y: Any) -> Floats:
    import polars

    if not isinstance(y, polars.Series):
        raise InvalidTask("labels are one column; give a Series, not a frame or an expression.")
    if y.dtype == polars.Object:
        return _one_by_one(y.to_list())
    if not y.dtype.is_numeric() and y.dtype not in (polars.Boolean, polars.Null):
        raise _refuse(y.dtype)
    cast = y.cast(polars.Float64, strict=False).fill_null(math.nan)
    return np.ascontiguousarray(cast.to_numpy(), dtype=np.float64)


def _from_arrow(y: Any) -> Floats:
    import pyarrow as pa

    if not isinstance(y, pa.Array | pa.ChunkedArray):
        raise InvalidTask("labels are one column; give an Array or a ChunkedArray, not a table.")
    kind = y.type.value_type if pa.types.is_dictionary(y.type) else y.type
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)
    if not any(test(kind) for test in known):
        raise _refuse(y.type)
    plain = y.cast(kind) if pa.types.is_dictionary(y.type) else y
    if pa.types.is_float16(kind):
        plain = plain.cast(pa.float32())
    return np.ascontiguousarray(plain.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
