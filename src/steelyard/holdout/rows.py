"""Labels row by row: what one row holds never depends on another row, whatever they came in.

numpy gives a whole list one type, so that one odd label makes text or floats of all the others; a column with a missing
number hands out floats. Here a list, a tuple or a column stays a row of objects, each as it is; an array that has a type
of its own keeps it (the type is a public fact, and whoever made the array chose it). A table of columns is refused: as
an array it has one type for all rows, and a missing value may decide which.
Law: every function below looks at one row at a time, takes anything, and never fails because of what it holds.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Set
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.interrupts import INTERRUPTS, attempt

_SPELLED = {"true": 1, "false": 0}
_MISSING = "nan"


def one_by_one(labels: Any) -> NDArray[Any]:
    """Labels as an array of their own type, or of objects where they came as single values."""
    typed = isinstance(getattr(labels, "dtype", None), np.dtype)
    flat = len(getattr(labels, "shape", (0,))) == 1
    if not typed and not flat and hasattr(labels, "columns"):
        raise InvalidTask("labels are one column, an array or a list (of tuples, if each is several); got a table.")
    if typed or not flat or isinstance(labels, str | bytes | Mapping | Set) or not isinstance(labels, Iterable):
        return np.asarray(labels)
    return np.fromiter(_single(labels), dtype=object)


def _single(labels: Any) -> Iterable[Any]:
    """The values of a column, each by itself: categories by their codes, others as the column lists them.

    Where it cannot list them (text that is none, a day that Python does not know), what it cannot show is missing.
    """
    held = getattr(labels, "array", labels)
    if hasattr(held, "categories") and hasattr(held, "codes"):
        names = list(held.categories)
        return [None if code < 0 else names[code] for code in held.codes]
    way = next((way for way in ("to_pylist", "to_list", "tolist") if hasattr(labels, way)), None)
    listed = (labels,) if way is None else attempt(getattr(labels, way))
    return [_at(held, place) for place in range(len(held))] if listed is None else listed[0]


def _at(held: Any, place: int) -> Any:
    read = attempt(lambda: getattr(held[place], "as_py", lambda: held[place])())
    return None if read is None else read[0]


def number_in(label: Any) -> int | float | None:
    """The finite number that a label is, or spells; None where it is none.

    >>> number_in(True), number_in("1.0"), number_in(b"true"), number_in(float("nan")), number_in([1])
    (1, 1.0, 1, None, None)
    """
    try:
        if isinstance(label, np.timedelta64):  # numpy counts it among the whole numbers
            return None
        if isinstance(label, int | np.integer | np.bool_):
            return int(label)
        if isinstance(label, str | bytes):
            return _number_spelled(text_of(label).strip().lower())
        if isinstance(label, float | np.floating | Decimal | Fraction):
            return _finite(float(label))
    except INTERRUPTS:
        raise
    except BaseException:  # law 4: whatever a label does when it is looked at, it is no number then
        return None
    return None


def _number_spelled(text: str) -> int | float | None:
    if text in _SPELLED:
        return _SPELLED[text]
    try:
        return int(text)
    except ValueError:
        return _finite(float(text))


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def text_of(label: str | bytes) -> str:
    """Text, whether it came as such or as bytes."""
    return bytes.decode(label, "utf-8", "replace") if isinstance(label, bytes) else str.__str__(label)


def settled_number(label: Any) -> float:
    """The number of a label, and 0 for everything else."""
    number = number_in(label)
    try:
        return 0.0 if number is None else float(number)
    except OverflowError:
        return 0.0


def settled_class(label: Any, classes: list[Any]) -> Any:
    """The class that a label is, is written like or is the same number as; the first class where it is none of them.

    A column that one odd label has made text or floats is so read as it was meant.
    """
    read = attempt(lambda: _same_class(label, classes))
    return classes[0] if read is None else read[0]


def _same_class(label: Any, classes: list[Any]) -> Any:
    if isinstance(label, str | bytes):
        same = [each for each in classes if isinstance(each, str | bytes) and text_of(each) == text_of(label)]
        if same:
            return same[0]
    number = number_in(label)
    return next((each for each in classes if number is not None and number_in(each) == number), classes[0])


def digest(rows: NDArray[Any]) -> bytes:
    """A digest of what the rows hold, in their order: the same for a list, an array or a column of equal values."""
    if rows.dtype.kind in "biufUS" and rows.ndim == 1:
        found, places = np.unique(rows, return_inverse=True)
        spelled = [_spelled(each) for each in found.tolist()]
        tokens, merged = np.unique(np.array(spelled, dtype=object), return_inverse=True)
        codes = merged[places]
    else:
        tokens, codes = np.unique(np.array([_spelled(each) for each in rows], dtype=object), return_inverse=True)
    names = json.dumps([str(each) for each in tokens], ensure_ascii=True).encode()
    return hashlib.sha256(names + b"\0" + codes.astype("<i8").tobytes()).digest()


def _spelled(label: Any) -> str:
    """A label as text that equal labels share, in every process; numbers are exact."""
    try:
        number = number_in(label)
        if number is not None:
            return f"{int(number):x}" if number == int(number) else float(number).hex()
        if isinstance(label, str | bytes):
            return f"text {text_of(label)}"
        if isinstance(label, float | np.floating):
            return float(label).hex()
        if isinstance(label, np.ndarray | list | tuple):
            return f"[{', '.join(_spelled(each) for each in label)}]"
        missing = label is None or bool(label != label)
        return _MISSING if missing else f"{type(label).__qualname__} {label!r}"
    except INTERRUPTS:
        raise
    except (
        BaseException
    ):  # a missing value of pandas is neither true nor false; others may refuse to be compared or shown
        return _MISSING
