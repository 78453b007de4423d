"""Labels and predictions as arrays fit to be compared: classes as codes or bits, numbers, probabilities.

Every check of a prediction is on public facts (the number of rows, declared classes, whether labels are text, numbers
or truth values), and so is the form that names a question; neither looks at a label. Labels are checked when a holdout
is opened, or settled where they must stay hidden. Two classes are kept as bits, 64 to a word: one exclusive or and one
count of bits compare a million rows in microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.holdout._rows import one_by_one, settled_class, settled_number

UNKNOWN = -1
T = TypeVar("T")


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


@dataclass(frozen=True, eq=False)
class Read:
    """Predictions in two forms: what names the question, made of them and of public facts, and what is compared."""

    content: NDArray[Any]
    compared: Packed | NDArray[np.int32]


class ClassLabels:
    """Labels as codes of their classes; with two classes also as bits (the second class is 1).

    Truth values have their two classes declared by their type.
    """

    def __init__(self, labels: Any, classes: Sequence[Any] | None, *, sort: bool = True) -> None:
        values = class_array(one_by_one(labels), "labels")
        if len(values) == 0:
            raise InvalidTask("the holdout has no labels: there is nothing to check predictions against.")
        if classes is None and values.dtype.kind == "b":
            classes = (False, True)
        self._declared = classes is not None
        self.classes = _found(values) if classes is None else _class_list(classes, sort=sort)
        self._order = np.argsort(self.classes)
        self._sorted = self.classes[self._order]
        if _is_text(self.classes) != _is_text(values):
            raise InvalidTask("labels and declared classes must both be text or both be numbers.")
        self.codes = codes_of(values, self._sorted, self._order)
        if self._declared and (self.codes == UNKNOWN).any():
            raise InvalidTask("some labels are none of the declared classes.")
        self.rows = len(values)
        self.packed = pack(self.codes == 1) if len(self.classes) == 2 else None
        self._bits = self.classes.dtype.kind in "biuf" and self.classes.tolist() == [0, 1]

    def read(self, predictions: Any) -> Read:
        """Predictions as bits where they fit, else as codes."""
        if isinstance(predictions, Packed):
            _right_length(predictions, predictions.rows, self.rows)
            if not (self._declared and self.packed is not None):
                raise InvalidTask("packed predictions are for two declared classes, such as classes=[0, 1].")
            return Read(predictions.words, predictions)
        if self._bits and _are_bits(predictions):
            bits = pack(_right_length(predictions, len(predictions), self.rows))
            return Read(bits.words, bits)
        values = self._fitting(predictions)
        codes = codes_of(values, self._sorted, self._order)
        if not self._declared:
            return Read(_plain(values), codes)
        self._refuse_unknown(codes)
        if self.packed is None:
            return Read(codes, codes)
        bits = pack(codes == 1)
        return Read(bits.words, bits)

    def read_codes(self, predictions: Any) -> NDArray[np.int32]:
        """Predictions as codes of declared classes."""
        codes = codes_of(self._fitting(predictions), self._sorted, self._order)
        self._refuse_unknown(codes)
        return codes

    def _fitting(self, predictions: Any) -> NDArray[Any]:
        values = class_array(predictions, "predictions")
        _right_length(values, len(values), self.rows)
        if _is_text(values) != _is_text(self.classes):
            kinds = ("text", "numbers") if _is_text(values) else ("numbers", "text")
            raise InvalidTask(f"the predictions are {kinds[0]}, but the classes are {kinds[1]}.")
        return values

    def _refuse_unknown(self, codes: NDArray[np.int32]) -> None:
        if (codes == UNKNOWN).any():
            raise InvalidTask(f"some predictions are none of the declared classes {self.classes.tolist()[:10]}.")


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Classes in one form for all containers, made without the labels: bits, whole numbers, numbers or text."""
    if _is_text(values):
        width = int(np.strings.str_len(values).max(initial=1))
        return values.astype(f"{values.dtype.kind}{max(width, 1)}")
    if values.dtype.kind == "f" and (np.abs(values) < 2.0**53).all() and (values == np.rint(values)).all():
        values = values.astype(np.int64)
    if values.dtype.kind in "bi":
        values = values.astype(np.int64)
    if values.dtype.kind in "iu" and values.min(initial=0) >= 0 and values.max(initial=0) <= 1:
        return pack(values == 1).words
    return values


def settled_classes(labels: Any, classes: Sequence[Any]) -> NDArray[Any]:
    """Labels with whatever is none of the classes replaced by the first class: a total function of each label."""
    known = class_array(list(classes), "classes")
    array, values = one_by_one(labels), known.tolist()
    if array.ndim != 1:
        return array
    if array.dtype.kind not in "biufUS":
        return np.array([settled_class(label, values) for label in array], dtype=known.dtype)
    found, places = np.unique(array, return_inverse=True)
    return np.array([settled_class(label, values) for label in found.tolist()], dtype=known.dtype)[places]


def settled_numbers(labels: Any) -> NDArray[np.float64]:
    """Labels with whatever is no finite number replaced by 0."""
    array = one_by_one(labels)
    if array.ndim != 1:
        return array
    if array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    return np.array([settled_number(label) for label in array], dtype=np.float64)


def two_classes(labels: Any, classes: Sequence[Any] | None, metric: str) -> ClassLabels:
    """Class labels for a metric that knows two classes only."""
    if len(need_classes(classes, metric)) != 2:
        raise InvalidTask(f"{metric} is for two classes, such as classes=[0, 1]; for more use LogLoss or Cost.")
    return ClassLabels(labels, classes)


def need_classes(classes: Sequence[Any] | None, metric: str) -> Sequence[Any]:
    """Declared classes: without them the shape that predictions must have would tell which classes occur."""
    if classes is None:
        raise InvalidTask(
            f"{metric} needs to know what labels may be: which classes occur is data, and the shape of predictions would "
            "tell it. Declare them, such as classes=[0, 1] (--classes 0,1)."
        )
    return classes


def class_array(values: Any, what: str) -> NDArray[Any]:
    """Classes as a flat array of numbers or text; missing ones are refused."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidTask(f"{what} must be one class per row; got an array of shape {array.shape}.")
    if array.dtype.kind == "O":
        array = _of_one_kind(array, what)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InvalidTask(f"some {what} are not a number (NaN) or infinite.")
    if array.dtype.kind not in "biufUS":
        raise InvalidTask(f"{what} must be numbers or text; got {array.dtype}.")
    return array


def _of_one_kind(array: NDArray[Any], what: str) -> NDArray[Any]:
    """An array of objects as text, whole numbers (kept exact) or numbers."""
    kinds = {type(item) for item in array.flat}
    try:
        if kinds <= {str, np.str_}:
            return array.astype(str)
        if kinds <= {bool, np.bool_}:
            return array.astype(np.bool_)
        if all(issubclass(kind, int | np.integer | np.bool_) for kind in kinds):
            return array.astype(np.int64)
        if all(issubclass(kind, int | float | np.integer | np.floating | np.bool_) for kind in kinds):
            return _exact_floats(array)
    except (OverflowError, TypeError):
        pass
    raise InvalidTask(f"{what} must be all text or all numbers of at most 64 bits, and none missing.")


def _exact_floats(array: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers as floats; a whole number that is none is too large to stand beside them, or it would become another."""
    made = array.astype(np.float64)
    if any(
        isinstance(given, int | np.integer) and given != read for given, read in zip(array, made.tolist(), strict=True)
    ):
        raise OverflowError
    return made


def codes_of(values: NDArray[Any], known: NDArray[Any], order: NDArray[np.intp]) -> NDArray[np.int32]:
    """The code of each value, or -1; ``known`` is sorted and ``order`` says which code each of them has.

    A value is a class or is not, whatever other classes there are: it is compared exactly, and never fails to be.
    """
    if _is_text(known) and values.dtype.kind != known.dtype.kind:
        to_bytes = known.dtype.kind == "S"
        values = np.strings.encode(values, "utf-8", "surrogatepass") if to_bytes else (
            np.strings.decode(values, "utf-8", "surrogateescape")
        )  # fmt: skip
    elif not _is_text(known) and values.dtype.kind != known.dtype.kind and _largest(known) >= 2**53:
        codes = dict(zip(known.tolist(), order.tolist(), strict=True))
        return np.array([codes.get(value, UNKNOWN) for value in values.tolist()], dtype=np.int32)
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[places] == values, order[places], UNKNOWN).astype(np.int32)


def _largest(known: NDArray[Any]) -> int:
    """How far sorted numbers reach; from 2^53 on numpy rounds them when it compares two types."""
    return max(-int(known[0]), int(known[-1]))


def declared(classes: Sequence[Any] | None) -> str:
    """Declared classes, for a metric's text."""
    return "" if classes is None else f" of {list(classes)}"


def numbers(values: Any, what: str) -> NDArray[np.float64]:
    """Finite numbers, one per row."""
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise InvalidTask(f"{what} must be one number per row, at least one; got an array of shape {values.shape}.")
    try:
        array = np.asarray(values, dtype=np.float64) + 0.0
    except (OverflowError, TypeError, ValueError):
        raise InvalidTask(f"{what} must be numbers.") from None
    if array.ndim != 1 or len(array) == 0:
        raise InvalidTask(f"{what} must be one number per row, at least one; got an array of shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InvalidTask(f"some {what} are not a number (NaN) or infinite.")
    return array


def one_per_row(rows: int, *, exactly: bool = True) -> Callable[[Any], NDArray[Any]]:
    """A reader of predictions, one for each row; ``exactly``: they are finite numbers."""

    def read(predictions: Any) -> NDArray[Any]:
        array = numbers(predictions, "predictions") if exactly else np.asarray(predictions)
        if array.ndim == 0 or array.dtype.kind in "OV":
            raise InvalidTask("predictions must be an array of numbers or text, one row for each label.")
        return _right_length(array, len(array), rows)

    return read


def probabilities(rows: int, columns: int | None) -> Callable[[Any], NDArray[np.float64]]:
    """A reader of probabilities: one per row, or one per row and class."""

    def read(predictions: Any) -> NDArray[np.float64]:
        try:
            array = np.asarray(predictions, dtype=np.float64) + 0.0
        except (OverflowError, TypeError, ValueError):
            raise InvalidTask("predictions must be probabilities.") from None
        shape = (rows,) if columns is None else (rows, columns)
        if array.shape != shape:
            raise InvalidTask(f"predictions must be probabilities of shape {shape}; got {array.shape}.")
        if not ((array >= 0) & (array <= 1)).all():
            raise InvalidTask("some predictions are no probabilities: each must be between 0 and 1, and none NaN.")
        return array

    return read


def _found(values: NDArray[Any]) -> NDArray[Any]:
    """The classes that occur; labels that are all 0 or 1 have both classes even if one does not occur."""
    found = np.unique(values)
    if not _is_text(found) and len(found) <= 2 and set(found.tolist()) <= {0, 1}:
        return np.array([0, 1])
    return found


def _class_list(classes: Sequence[Any], *, sort: bool) -> NDArray[Any]:
    array = class_array(list(classes), "classes")
    if len(array) < 2 or len(np.unique(array)) != len(array):
        raise InvalidTask("classes must be at least two different values.")
    return np.sort(array) if sort else array


def _are_bits(predictions: Any) -> bool:
    """Whether predictions are an array of truth values or of 0 and 1, which needs no look-up of classes."""
    if not isinstance(predictions, np.ndarray) or predictions.ndim != 1 or predictions.dtype.kind not in "biu":
        return False
    return predictions.dtype.kind == "b" or (len(predictions) > 0 and predictions.min() >= 0 and predictions.max() <= 1)


def _is_text(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "US"


def _right_length(values: T, found: int, rows: int) -> T:
    if found != rows:
        raise InvalidTask(f"there are {found:,} predictions for {rows:,} rows of the holdout.")
    return values
