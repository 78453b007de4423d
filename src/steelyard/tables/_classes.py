"""Declared classes of a label, and each label's place among them: the type of a column is public, an entry is private.

Law: what is refused is refused for a type; no entry changes another, and none raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.interrupts import INTERRUPTS
from steelyard.tables._entries import kind_of


def in_order(classes: Any) -> NDArray[Any]:
    """Declared classes, rising, as scikit-learn takes them to be; they must be all texts or all numbers."""
    if isinstance(classes, str | bytes) or not hasattr(classes, "__iter__"):
        raise InvalidTask(f"classes are a list of the label's public values, such as [0, 1]; got {classes!r:.60}.")
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
