"""Labels row by row: what one row holds never depends on another row, whatever they came in.

numpy gives a whole list one type, so that one odd label makes text or floats of all the others; a column with a missing
number hands out floats. Here a list, a tuple or a column stays a row of objects, each as it is; an array that has a
type of its own keeps it (the type is a public fact, and whoever made the array chose it). A table of columns is
refused: as an array it has one type for all rows, and a missing value may decide which. A user's own function is called
for each row by itself too, and what it raises or warns tells nothing.
Law: every function below looks at one row at a time, takes anything, and never fails because of what it holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from types import CodeType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.interrupts import INTERRUPTS, attempt
from steelyard.tables import decoded, entries_of, finite_of, texts_of

_MISSING = "nan"


class Places:
    """Where each public id stands among the holdout's rows: predictions in another order are matched by it."""

    def __init__(self, ids: Any, rows: int) -> None:
        names = _names(ids, "the holdout's ids", rows)
        self._place = {name: place for place, name in enumerate(names)}
        if len(self._place) != rows:
            raise InvalidTask(f"an id names one row; {rows:,} rows have {len(self._place):,} different ids.")

    def ordered(self, predictions: Any, ids: Any) -> Any:
        """Predictions in the holdout's own order; unknown, missing and repeated ids are refused, before anything is asked.

        *Privacy:* ids are public, so whoever asks may be told which of them do not fit.
        """
        names = _names(ids, "ids", None)
        if len(names) != _length(predictions):
            raise InvalidTask(
                f"there are {len(names):,} ids for {_length(predictions):,} predictions. Nothing was asked."
            )
        places = np.array([self._place.get(name, -1) for name in names], dtype=np.int64)
        unknown, known = np.flatnonzero(places < 0), np.unique(places[places >= 0])
        if unknown.size:
            told = ", ".join(repr(names[place]) for place in unknown[:3])
            raise InvalidTask(f"{unknown.size:,} ids are none of the holdout's, such as {told}. Nothing was asked.")
        if len(known) != len(places):
            raise InvalidTask(f"{len(places) - len(known):,} ids come more than once. Nothing was asked.")
        if len(known) != len(self._place):
            raise InvalidTask(
                f"{len(self._place) - len(known):,} of the holdout's ids have no prediction. Nothing was asked."
            )
        return _taken(predictions, np.argsort(places))


def _names(ids: Any, what: str, rows: int | None) -> list[str]:
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable) or len(getattr(ids, "shape", (0,))) != 1:
        raise InvalidTask(f"{what} are one column of texts or whole numbers, one for each row.")
    names = texts_of([decoded(each) if isinstance(each, bytes) else each for each in entries_of(ids)]).tolist()
    if rows is not None and len(names) != rows:
        raise InvalidTask(f"there are {len(names):,} ids for {rows:,} labels.")
    if None in names:
        raise InvalidTask(f"some of {what} are missing, or are neither texts nor numbers.")
    return [str(name) for name in names]


def _length(predictions: Any) -> int:
    if not hasattr(predictions, "__len__"):
        raise InvalidTask(
            "predictions with ids are a column, an array or a list; packed ones have no order but the holdout's."
        )
    return len(predictions)


def _taken(predictions: Any, order: NDArray[np.intp]) -> Any:
    """A column's entries in another order, in the same kind of container."""
    if hasattr(predictions, "iloc"):
        return predictions.iloc[order]
    if isinstance(predictions, list | tuple):
        return [predictions[place] for place in order]
    return predictions.take(order) if hasattr(predictions, "to_pylist") else predictions[order]


def one_by_one(labels: Any) -> NDArray[Any]:
    """Labels as an array of their own type, or of objects where they came as single values."""
    typed = isinstance(getattr(labels, "dtype", None), np.dtype)
    flat = len(getattr(labels, "shape", (0,))) == 1
    if not typed and not flat and hasattr(labels, "columns"):
        raise InvalidTask("labels are one column, an array or a list (of tuples, if each is several); got a table.")
    if typed or not flat or isinstance(labels, str | bytes | Mapping | Set) or not isinstance(labels, Iterable):
        return np.asarray(labels)
    return entries_of(labels)


def settled_number(label: Any) -> float:
    """The number of a label, and 0 for everything else."""
    number = finite_of(label)
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
        same = [each for each in classes if isinstance(each, str | bytes) and decoded(each) == decoded(label)]
        if same:
            return same[0]
    number = finite_of(label)
    return next((each for each in classes if number is not None and finite_of(each) == number), classes[0])


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
        number = finite_of(label)
        if number is not None:
            return f"{int(number):x}" if number == int(number) else float(number).hex()
        if isinstance(label, str | bytes):
            return f"text {decoded(label)}"
        if isinstance(label, float | np.floating):
            return float(label).hex()
        if isinstance(label, np.ndarray | list | tuple):
            return f"[{', '.join(_spelled(each) for each in label)}]"
        missing = label is None or bool(label != label)
        return _MISSING if missing else f"{type(label).__qualname__} {label!r}"
    except INTERRUPTS:
        raise
    except BaseException:  # a missing value of pandas is neither true nor false; others may refuse to be compared
        return _MISSING


def loss_of(function: Callable[[Any, Any], float], label: Any, prediction: Any) -> float:
    """What a user's own function gives one row; NaN where it fails."""
    read = attempt(lambda: float(function(label, prediction)))
    return (
        float("nan") if read is None else read[0]
    )  # law 4: an error of code that sees a label must tell nothing of it


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without warnings, which could tell a label; one caller at a time, since all threads share them."""
    with _alone, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _after_fork() -> None:
    global _alone
    _alone = threading.RLock()


_alone = threading.RLock()
os.register_at_fork(after_in_child=_after_fork)


def known_by(function: Callable[..., Any]) -> str:
    """A text that differs between functions of different code, the same in every process.

    Known by its name alone, another function would answer from the first one's record. What the code reads from
    elsewhere (globals, closures, files) is not seen, and another Python compiles differently; a version is for both.
    """
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return "version None" if code is None else f"code {hashlib.sha256(_code(code).encode()).hexdigest()}"


def _code(code: CodeType) -> str:
    return repr((code.co_code.hex(), [_constant(each) for each in code.co_consts], code.co_names, code.co_varnames))


def _constant(value: Any) -> str:
    """A constant as text; a set of them has no order of its own."""
    if isinstance(value, CodeType):
        return _code(value)
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
