"""What scikit-learn estimators are given, as columns: the type of a column is public, an entry is private.

NumPy gives a list one type for all entries, so that one odd entry would change what every other one is. Here each entry
of a list, or of a column of objects, is read by itself. Law: what is refused is refused for a shape or a type; no entry
changes another, and none raises.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.interrupts import INTERRUPTS
from steelyard.tables import text_of

Floats = NDArray[np.float64]
_KINDS = {"b": "truth values", "i": "numbers", "u": "numbers", "f": "numbers", "U": "text", "T": "text", "S": "bytes"}


def kind_of(y: Any) -> str | None:
    """What a column's type says its entries are; None where it says nothing (a list, a column of objects)."""
    dtype = getattr(y, "dtype", None)
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


def loose(y: Any) -> bool:
    """Whether a column has no type of its own: each entry must then be read by itself."""
    return isinstance(y, list | tuple) or (getattr(y, "ndim", 1) == 1 and str(getattr(y, "dtype", "")) == "object")


def entries(y: Any) -> NDArray[Any]:
    """A column without a type as an array of its entries, each as it is."""
    held = np.empty(len(y), dtype=object)
    for place, entry in enumerate(y):
        held[place] = entry
    return held


def number(entry: Any) -> float:
    """One entry as a float, whatever it is; NaN for what is no number."""
    try:
        odd = getattr(entry, "ndim", 0) or isinstance(entry, complex | np.complexfloating)
        return math.nan if odd else float(entry)
    except INTERRUPTS:
        raise
    except BaseException:  # whatever an entry's own type raises would tell something about it
        return math.nan


def numbers(y: Any) -> Floats:
    """A column without a type as floats."""
    with warnings.catch_warnings():  # an entry's own type may warn, and that would tell of it
        warnings.simplefilter("ignore")
        return np.fromiter((number(entry) for entry in y), dtype=np.float64, count=len(y))


def units(users: Any) -> NDArray[Any]:
    """Whose row each one is: a typed NumPy array as it is, anything else as one text for each entry by itself.

    *Privacy:* read as one column, one odd id would turn all others into floats or texts, and ids above 2^53 into one user.
    """
    if isinstance(users, np.ndarray) and users.dtype.kind in "biufUSM":
        return users
    if getattr(users, "ndim", 1) != 1:
        raise InvalidTask("users= is one column: whose row each one is.")
    held = np.empty(len(users), dtype=object)
    for place, entry in enumerate(users.to_pylist() if hasattr(users, "to_pylist") else users):
        held[place] = text_of(entry)
    return held


def in_order(classes: Any) -> NDArray[Any]:
    """Declared classes, rising, as scikit-learn takes them to be; they must be all texts or all numbers."""
    given = [value.item() if hasattr(value, "item") else value for value in classes]
    texts = sum(isinstance(value, str) for value in given)
    if isinstance(classes, str) or texts not in (0, len(given)):
        raise InvalidTask("classes are a list of the label's public values: all texts or all numbers.")
    return np.sort(np.asarray(given))


def check_kinds(y: Any, classes: Sequence[Any]) -> None:
    """Refuse classes that cannot occur in a column of this type."""
    kind = kind_of(y)
    if kind is None:
        return
    for value in classes:
        if not _may_be(value, kind):
            raise InvalidTask(
                f"y is a column of {kind}, and the class {value!r} is none: no row could ever be of that class, and all of "
                "the budget would be spent on noise. Declare the classes as y holds them; nothing was charged."
            )


def _may_be(value: Any, kind: str) -> bool:
    if isinstance(value, str):
        return kind == "text"
    if isinstance(value, bytes):
        return kind == "bytes"
    return kind == "numbers" or (kind == "truth values" and value in (0, 1)) or kind == "other values"


def codes(labels: NDArray[Any], classes: Sequence[Any]) -> NDArray[np.int64]:
    """The place of each label among the classes; -1 for a label that is none of them.

    *Privacy:* each code depends on its own label alone, and no label raises.
    """
    if labels.dtype == object:
        place = {value: code for code, value in enumerate(classes)}
        return np.fromiter((_code(place, label) for label in labels), dtype=np.int64, count=len(labels))
    found = np.full(len(labels), -1, dtype=np.int64)
    for code, value in enumerate(classes):
        found[np.asarray(labels == value, dtype=bool)] = code
    return found


def _code(place: dict[Any, int], label: Any) -> int:
    try:
        return place.get(label, -1)
    except INTERRUPTS:
        raise
    except BaseException:  # what cannot be looked up is no class
        return -1
