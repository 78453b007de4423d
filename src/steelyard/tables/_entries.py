"""The entries of one column, each read by itself, whatever container the column came in.

What a column's type says is public: a column of text or dates where numbers are needed is refused from its type alone, before
anything is charged. What an entry holds is private. NumPy gives a list one type for all of it, so that one odd entry would
change what every other one is, or be a reason to fail; so a list, a tuple and a column of objects are read entry by entry:

=================================  =====================  =====================  =======================
an entry                           ``number_of``          ``finite_of``          ``text_of``
=================================  =====================  =====================  =======================
whole, truth, decimal, fraction    its float              itself (exact)         its digits; 1.0 as "1"
an integer beyond every float      NaN                    itself                 its digits
NaN                                NaN                    None                   None
an infinity                        itself                 None                   None
None, NA, NaT, lists, objects      NaN                    None                   None
text, bytes                        the number it spells   that, true, false      itself; bytes in hex
dates, durations, ids (UUID)       NaN                    None                   as they are written
=================================  =====================  =====================  =======================

Law: no entry changes how another is read, and none raises, warns or stops the reading.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.interrupts import INTERRUPTS, attempt

Floats = NDArray[np.float64]
_KINDS = {"b": "truth values", "i": "numbers", "u": "numbers", "f": "numbers", "U": "text", "T": "text", "S": "bytes"}
_TRUTH = {"true": 1, "false": 0}
_NO_NUMBERS = (
    complex,
    np.complexfloating,
    np.datetime64,
    np.timedelta64,
)  # though some of them make a float of themselves
_DATED = (date, timedelta, np.datetime64, np.timedelta64, UUID)


def kind_of(column: Any) -> str | None:
    """What a column's type says its entries are; None where it says nothing (a list, a column of objects)."""
    dtype = getattr(column, "dtype", None)
    if dtype is None or str(dtype).lower() == "object":
        return None
    if hasattr(dtype, "categories"):
        return kind_of(dtype.categories)
    text = str(dtype).lower().replace("large_", "")
    if text.startswith(("str", "categorical", "enum")):
        return "text"
    if text.startswith(("decimal", "boolean")):
        return "truth values" if text.startswith("bool") else "numbers"
    kind = getattr(dtype, "kind", None)
    if kind is None:  # a Polars type
        return "numbers" if dtype.is_numeric() else "other values"
    return "numbers" if getattr(dtype, "_is_numeric", False) and kind == "O" else _KINDS.get(kind, "other values")


def is_untyped(column: Any) -> bool:
    """Whether one column has no type of its own, so that each entry must be read by itself."""
    untyped = str(getattr(column, "dtype", "")).lower() == "object"
    return isinstance(column, list | tuple) or (getattr(column, "ndim", 1) == 1 and untyped)


def entries_of(column: Any) -> NDArray[Any]:
    """The entries of one column, each as it is, in an array of objects.

    Categories are taken by their codes. What a column cannot show as a Python value (text that is none, a day that Python
    does not know) is None.

    >>> entries_of([1, "x", [2]]).tolist()
    [1, 'x', [2]]
    """
    listed = _listed(column)
    held = np.empty(len(listed), dtype=object)
    for place, entry in enumerate(listed):
        held[place] = entry
    return held


def _listed(column: Any) -> Any:
    held = getattr(column, "array", column) if _home(column) == "pandas" else column
    if hasattr(held, "categories") and hasattr(held, "codes"):
        names = list(held.categories)
        return [None if code < 0 else names[code] for code in held.codes]
    if isinstance(column, np.ma.MaskedArray) and column.ndim == 1:
        gone = np.ma.getmaskarray(column)
        return [None if out else entry for entry, out in zip(column.data, gone, strict=True)]
    if isinstance(column, np.ndarray):
        return column  # its own list would make numbers of fine dates
    way = next((way for way in ("to_pylist", "to_list", "tolist") if hasattr(column, way)), None)
    listed = (column if hasattr(column, "__len__") else list(column),) if way is None else attempt(getattr(column, way))
    return [_shown(held, place) for place in range(len(held))] if listed is None else listed[0]


def _shown(held: Any, place: int) -> Any:
    shown = attempt(lambda: getattr(held[place], "as_py", lambda: held[place])())
    return None if shown is None else shown[0]


def number_of(entry: Any) -> float:
    """One entry as a float, whatever it is; NaN for what is no number.

    >>> number_of(7), number_of("2.5"), number_of(None), number_of(1j), number_of(10**400)
    (7.0, 2.5, nan, nan, nan)
    """
    try:
        return math.nan if getattr(entry, "ndim", 0) or isinstance(entry, _NO_NUMBERS) else float(entry)
    except INTERRUPTS:
        raise
    except BaseException:  # whatever an entry's own type raises would tell something about it
        return math.nan


def finite_of(entry: Any) -> int | float | None:
    """The finite number that an entry is, or spells, whole ones exactly; None where it is none.

    >>> finite_of(True), finite_of("1.0"), finite_of(b"true"), finite_of(float("nan")), finite_of([1])
    (1, 1.0, 1, None, None)
    """
    try:
        return _finite(entry)
    except INTERRUPTS:
        raise
    except BaseException:  # as above
        return None


def _finite(entry: Any) -> int | float | None:
    if isinstance(entry, _NO_NUMBERS):
        return None
    if isinstance(entry, int | np.integer | np.bool_):
        return int(entry)
    if isinstance(entry, str | bytes):
        return _spelled(decoded(entry).strip().lower())
    number = float(entry) if isinstance(entry, float | np.floating | Decimal | Fraction) else math.nan
    return number if math.isfinite(number) else None


def _spelled(text: str) -> int | float | None:
    if text in _TRUTH:
        return _TRUTH[text]
    try:
        return int(text)
    except ValueError:
        return _finite(float(text))


def decoded(entry: str | bytes) -> str:
    """Text, whether it came as such or as bytes."""
    return bytes.decode(entry, "utf-8", "replace") if isinstance(entry, bytes) else str.__str__(entry)


def text_of(entry: Any) -> str | None:
    """One entry as a text; what has no name (missing, NaN, an infinity, no plain value at all) is None.

    >>> text_of(7), text_of(7.0), text_of("ann"), text_of(float("nan"))
    ('7', '7', 'ann', None)
    """
    try:
        if isinstance(entry, str):
            return entry.encode("utf-8", "backslashreplace").decode()
        if isinstance(entry, bytes):
            return f"bytes {entry.hex()}"
        if isinstance(entry, _DATED):
            return str(entry) if entry == entry else None
        known = isinstance(entry, Real | Decimal) or type(entry).__name__.startswith("bool")
        return _digits(entry) if known and entry == entry else None
    except INTERRUPTS:
        raise
    except BaseException:  # as above
        return None


def _digits(entry: Any) -> str:
    return str(int(entry)) if entry == int(entry) else repr(float(entry))


def texts_of(column: Any) -> NDArray[Any]:
    """The texts of a column of any kind, each of its own entry alone."""
    held = entries_of(column)
    with _unwarned():
        held[:] = [text_of(entry) for entry in held]
    return held


def numbers_of(column: Any, what: str = "labels") -> Floats:
    """The floats of a column of any kind; an entry that is no number is NaN.

    *Privacy:* refused is what the column's type or shape rules out, and nothing else; each float depends on its own entry.

    >>> numbers_of([1, None, 2.5, "x"]).tolist()
    [1.0, nan, 2.5, nan]
    """
    reader = {"pandas": _from_pandas, "polars": _from_polars, "pyarrow": _from_arrow}.get(_home(column))
    if reader is not None:
        return reader(column, what)
    if isinstance(column, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(column), math.nan, _from_numpy(np.asarray(column.data), what))
    if hasattr(column, "__array__") or hasattr(column, "__array_interface__"):
        return _from_numpy(np.asarray(column), what)
    if isinstance(column, str | bytes) or not isinstance(column, Iterable):
        raise InvalidTask(f"{what} are one column of numbers; got {type(column).__name__}.")
    return _one_by_one(column)


def _home(column: Any) -> str:
    return type(column).__module__.partition(".")[0]


def _refusal(what: str, kind: object) -> InvalidTask:
    return InvalidTask(
        f"{what} must be numbers; got a column of {kind}. Give each word, date or class a number first; nothing was charged."
    )


def _one_by_one(entries: Iterable[Any]) -> Floats:
    with _unwarned():
        return np.fromiter((number_of(entry) for entry in entries), dtype=np.float64)


def _unwarned() -> warnings.catch_warnings[None]:
    """An entry's own type may warn when it is read, and that would tell of it."""
    return warnings.catch_warnings(action="ignore")


def _from_numpy(values: NDArray[Any], what: str) -> Floats:
    if values.ndim != 1:
        raise InvalidTask(f"{what} are one column; got {values.ndim} dimensions.")
    if values.dtype.kind == "O":
        return _one_by_one(values)
    if values.dtype.kind not in "biuf":
        raise _refusal(what, values.dtype)
    with np.errstate(all="ignore"):  # a long double may be too large: infinite, and so missing
        return np.ascontiguousarray(values, dtype=np.float64)


def _from_pandas(column: Any, what: str) -> Floats:
    dtype = getattr(column, "dtype", None)
    if dtype is None or getattr(column, "ndim", 1) != 1:
        raise InvalidTask(f"{what} are one column; give a Series, not a whole frame.")
    if isinstance(dtype, np.dtype):
        return _from_numpy(np.asarray(column.to_numpy()), what)
    from pandas import CategoricalDtype
    from pandas.api.types import is_numeric_dtype

    if isinstance(dtype, CategoricalDtype):
        held = getattr(column, "cat", column)
        return np.asarray(np.append(_from_pandas(dtype.categories, what), math.nan)[np.asarray(held.codes)])
    if dtype.kind not in "biuf" and not is_numeric_dtype(dtype):
        raise _refusal(what, dtype)
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=math.nan))


def _from_polars(column: Any, what: str) -> Floats:
    import polars

    if not isinstance(column, polars.Series):
        raise InvalidTask(f"{what} are one column; give a Series, not a frame or an expression.")
    if column.dtype == polars.Object:
        return _one_by_one(column.to_list())
    if not column.dtype.is_numeric() and column.dtype not in (polars.Boolean, polars.Null):
        raise _refusal(what, column.dtype)
    cast = column.cast(polars.Float64, strict=False).fill_null(math.nan)
    return np.ascontiguousarray(cast.to_numpy(), dtype=np.float64)


def _from_arrow(column: Any, what: str) -> Floats:
    import pyarrow as pa

    if not isinstance(column, pa.Array | pa.ChunkedArray):
        raise InvalidTask(f"{what} are one column; give an Array or a ChunkedArray, not a table.")
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)
    if not any(test(kind) for test in known):
        raise _refusal(what, column.type)
    plain = column.cast(kind) if pa.types.is_dictionary(column.type) else column
    if pa.types.is_float16(kind):
        plain = plain.cast(pa.float32())
    return np.ascontiguousarray(plain.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
