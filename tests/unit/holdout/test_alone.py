"""Rows alone, further out: tables, values that cannot be read, numbers beyond 2^53, and a caller's numpy settings."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from steelyard.errors import InvalidTask
from steelyard.holdout._classes import settled_classes, settled_numbers
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._metrics import (
    AbsoluteError,
    Accuracy,
    Brier,
    Cost,
    LogLoss,
    Metric,
    PerExample,
    SquaredError,
    settled,
)
from steelyard.holdout._rows import one_by_one

ROWS = 40
FAR = 2**60


def judged(labels: Any, metric: Metric, predictions: Any, *, hidden: bool = True) -> int:
    """The exact total, as a mode that hides labels makes it."""
    judge = metric.judge(settled(one_by_one(labels), metric, "private") if hidden else labels)
    return judge.total(judge.read(predictions))


def refusal(labels: Any, metric: Metric) -> str:
    with pytest.raises(InvalidTask) as caught:
        Holdout(labels, tolerance=0.9, mode="private", metric=metric, questions=1)
    return str(caught.value)


@pytest.mark.parametrize(
    "metric", [Accuracy((0, 1)), AbsoluteError(Fraction(1)), Cost(((0, 1), (1, 0)), (0, 1))], ids=str
)
def test_labels_of_a_wrong_shape_are_refused_in_the_same_words_whatever_they_hold(metric: Metric) -> None:
    objects: list[Any] = [[[1]] * 3, [[1], [1], ["x"]], [[1], [1], [None]], [[1], [1], [10**400]]]
    assert len({refusal(np.array(each, dtype=object), metric) for each in objects}) == 1
    assert len({refusal(pd.DataFrame({"y": [1, 1, odd]}), metric) for odd in (1, None, "x", 1.5)}) == 1


TABLES: dict[str, Callable[[Any], Any]] = {
    "pandas": lambda odd: pd.DataFrame({"y": pd.array([1] * (ROWS - 1) + [odd], dtype="Int64")}),
    "polars": lambda odd: pl.DataFrame({"y": [1] * (ROWS - 1) + [odd]}),
    "arrow": lambda odd: pa.table({"y": pa.array([1] * (ROWS - 1) + [odd], type=pa.int64())}),
}


@pytest.mark.parametrize("made", TABLES.values(), ids=TABLES.keys())
def test_a_table_is_refused_since_one_missing_value_would_decide_the_type_of_all_rows(
    made: Callable[[Any], Any],
) -> None:
    metric = PerExample(lambda label, said: float(not isinstance(label[0], np.integer)), Fraction(1))
    for odd in (1, None):
        with pytest.raises(InvalidTask, match="got a table"):
            judged(made(odd), metric, np.ones(ROWS))
    # The twin: a table made one array.
    taken = [judged(np.asarray(made(odd)), metric, np.ones(ROWS)) for odd in (1, None)]
    assert abs(taken[0] - taken[1]) > metric.scale


def text_that_is_none() -> pa.Array:
    ends = np.arange(4, dtype=np.int32).tobytes()
    return pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(ends), pa.py_buffer(b"ab\xff")])


def test_a_value_that_its_column_cannot_show_is_missing_and_no_error() -> None:
    held = text_that_is_none()
    for each in (held, pa.chunked_array([held]), pd.Series(held, dtype=pd.ArrowDtype(pa.string()))):
        assert one_by_one(each).tolist() == ["a", "b", None]
        assert settled_classes(each, ["b", "a"]).tolist() == ["a", "b", "b"]
    assert one_by_one(pa.array([0, 2**62], type=pa.timestamp("s")))[1] is None
    assert one_by_one(pa.array([0, 2**30], type=pa.date32()))[1] is None


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("a label")


class Colour(str, enum.Enum):  # noqa: UP042 (what users write)
    RED, BLUE = "red", "blue"


class Lying:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("a label")


def test_no_label_fails_when_it_is_looked_at() -> None:
    assert settled_classes([Loud("b"), Lying(), "b"], ["a", "b"]).tolist() == ["b", "a", "b"]
    assert settled_classes([Colour.RED, Colour.BLUE], ["blue", "red"]).tolist() == ["red", "blue"]
    assert settled_numbers([Loud("1"), Lying(), "2"]).tolist() == [1, 0, 2]


SMALL = np.where(np.arange(ROWS) == ROWS - 1, 1e-200, 0.5)


@pytest.mark.parametrize("metric", [Brier((0, 1)), SquaredError(Fraction(2)), LogLoss(Fraction(3), (0, 1))], ids=str)
def test_no_numpy_setting_of_the_caller_turns_a_label_into_an_error(metric: Metric) -> None:
    with np.errstate(all="raise"):
        told = [judged([1] * (ROWS - 1) + [last], metric, SMALL) for last in (0, 1)]
    assert told == [judged([1] * (ROWS - 1) + [last], metric, SMALL) for last in (0, 1)]
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):  # the twin: the same sum as it is
        np.square(SMALL - 0)


def test_a_signalling_nan_is_no_warning() -> None:
    odd = np.array([0x7F800001, 0x3F800000], dtype=np.uint32).view(np.float32)
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        assert settled_numbers(odd).tolist() == [0, 1]
        assert settled_classes(odd, [0, 1]).tolist() == [0, 1]


@pytest.mark.parametrize("kind", [np.int64, np.uint64, float])
def test_a_large_number_is_right_or_wrong_whatever_other_rows_hold(kind: Any) -> None:
    """numpy compares two kinds of numbers as floats, and finds the first of those that look alike."""
    said = np.array([5] + [FAR] * 9).astype(kind)
    for other in (5, FAR + 1, FAR - 1):
        assert judged(np.array([other] + [FAR] * 9), Accuracy(), said, hidden=False) == 9 + (other == 5)
        assert judged(np.array([other] + [FAR + 1] * 9, np.uint64), Accuracy(), said, hidden=False) == (other == 5)
    both = Accuracy((FAR, FAR + 1))
    assert judged(np.array([FAR, FAR + 1], np.uint64), both, np.array([FAR, FAR + 1]), hidden=False) == 2


def test_whole_numbers_that_one_fraction_would_change_are_refused() -> None:
    with pytest.raises(InvalidTask, match="at most 64 bits"):
        Accuracy().judge([2**53 + 1, 0.5])
    assert judged([2**53, 0.5, 3], Accuracy(), [2**53, 0.5, 4.0], hidden=False) == 2


def test_bytes_are_compared_with_text_and_no_byte_is_an_error() -> None:
    for odd in (b"caf\xe9", b"caf", "café".encode()):
        labels = np.array([odd, b"x", b"y"])
        assert judged(labels, Accuracy(), np.array(["é", "x", "x"]), hidden=False) == 1
        assert judged(labels, Accuracy(), np.array(["café", "x", "\udce9"]), hidden=False) == 1 + (len(odd) == 5)
        assert judged(np.array(["caf", "x", "z"]), Accuracy(), labels, hidden=False) == 1 + (odd == b"caf")


@pytest.mark.parametrize("made", [Accuracy, Brier, LogLoss, AbsoluteError, SquaredError, Cost, PerExample])
def test_the_scale_of_a_row_is_no_setting(made: Any) -> None:
    """Noise is made for it: a smaller one than the losses have would hide nobody."""
    with pytest.raises(TypeError, match="scale"):
        made(scale=1)
