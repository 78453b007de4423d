"""Rows: what a row holds is its own, in every container; nothing a label holds is an error or changes another row."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from decimal import Decimal
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
from steelyard.holdout._metrics import AbsoluteError, Accuracy, Brier, Cost, LogLoss, Metric, PerExample, SquaredError
from steelyard.holdout._rows import digest, one_by_one
from steelyard.mechanisms._observe import observing
from steelyard.noise import TestNoise

ODD: list[Any] = [
    float("nan"), None, float("inf"), "x", "1.0", 1.5, True, b"1", [1, 2], (1,), {}, 10**400, 10**5000, -(10**5000),
    Decimal("1"), Decimal("sNaN"), pd.NaT, pd.NA, np.datetime64("NaT"), np.timedelta64(1), 1 + 2j, np.complex128(1j),
    np.array([1, 2]), np.array(1), object(), np.float32(1), np.str_("1"), "nan", "1_0", Fraction(1), print,
]  # fmt: skip


def differs(label: Any, said: Any) -> float:
    return float(label != said)


def odd_bit(label: Any, said: Any) -> float:
    return float((label & 1) != said)


METRICS: list[Metric] = [
    Accuracy((0, 1)), Accuracy((0, 1), error=True), Accuracy(("0", "1")), Brier((0, 1)), LogLoss(Fraction(3), (0, 1)),
    LogLoss(Fraction(3), (0, 1, 2)), Cost(((0, 1), ("0.5", 0)), (0, 1)), AbsoluteError(Fraction(2)),
    SquaredError(Fraction(3)), PerExample(differs, Fraction(1)), PerExample(odd_bit, Fraction(1)),
]  # fmt: skip
LOOSE: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "objects": one_by_one,
    "pandas": lambda rows: pd.Series(one_by_one(rows), dtype=object),
}
ROWS = 40


def predictions(metric: Metric) -> Any:
    if isinstance(metric, LogLoss) and metric.classes is not None and len(metric.classes) == 3:
        return np.full((ROWS, 3), 1 / 3)
    text = isinstance(metric, Accuracy) and metric.classes == ("0", "1")
    return np.full(ROWS, "1" if text else 1)


def total(labels: Any, metric: Metric, mode: str) -> int:
    """What is noised, seen through the public call; a warning is a failure."""
    given: dict[str, Any] = {"questions": 1, "source": TestNoise(1)}
    guess = 0.25 if mode == "classic" else None
    with warnings.catch_warnings(), observing() as seen:
        warnings.simplefilter("error")
        share = Fraction(9, 10) * metric.upper
        Holdout(labels, tolerance=share, mode=mode, metric=metric, **given).check(predictions(metric), guess=guess)
    return int(seen[0].values[0])


@pytest.mark.parametrize("mode", ["private", "classic"])
@pytest.mark.parametrize("metric", METRICS, ids=str)
def test_one_odd_label_moves_what_is_noised_by_one_row_and_is_no_error(metric: Metric, mode: str) -> None:
    usual = total([1] * ROWS, metric, mode)
    for number, odd in enumerate(ODD):
        held = list(LOOSE.values())[number % len(LOOSE)]([1] * (ROWS - 1) + [odd])
        assert abs(total(held, metric, mode) - usual) <= metric.scale, (odd, type(held))


COLUMNS: dict[str, Callable[[Any], Any]] = {
    "pandas nullable": lambda odd: pd.Series([1] * (ROWS - 1) + [odd], dtype="Int64"),
    "pandas boolean": lambda odd: pd.Series([True] * (ROWS - 1) + [odd and True], dtype="boolean"),
    "pandas text": lambda odd: pd.Series(["1"] * (ROWS - 1) + [odd], dtype="string"),
    "arrow": lambda odd: pa.array([1] * (ROWS - 1) + [odd], type=pa.int64()),
    "arrow chunks": lambda odd: pa.chunked_array([[1] * (ROWS - 1), [odd]], type=pa.int64()),
    "polars": lambda odd: pl.Series([1] * (ROWS - 1) + [odd], dtype=pl.Int64),
}


@pytest.mark.parametrize("made", COLUMNS.values(), ids=COLUMNS.keys())
@pytest.mark.parametrize("metric", METRICS, ids=str)
def test_a_missing_label_of_a_column_changes_no_other_row(made: Callable[[Any], Any], metric: Metric) -> None:
    assert abs(total(made(None), metric, "private") - total(made(1), metric, "private")) <= metric.scale


def as_numpy_would(labels: Any) -> Any:
    """The twin: one type for all rows."""
    return np.asarray(labels)


def test_the_same_check_catches_rows_that_share_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.holdout._metrics.one_by_one", as_numpy_would)
    monkeypatch.setattr("steelyard.holdout._holdout.one_by_one", as_numpy_would)
    for function, odd in ((differs, "x"), (odd_bit, 1.5)):
        metric = PerExample(function, Fraction(1))
        assert abs(total([1] * (ROWS - 1) + [odd], metric, "private") - total([1] * ROWS, metric, "private")) > (
            metric.scale
        )


@pytest.mark.parametrize("mode", ["certified", "ladder", "rounds"])
def test_a_function_of_ones_own_judges_row_by_row_in_every_mode(mode: str) -> None:
    metric = PerExample(differs, Fraction(1))
    held = Holdout([1] * 999 + ["?"], tolerance=0.2, mode=mode, metric=metric)
    ones = np.ones(1000, dtype=int)
    answer = held.finish(ones) if mode == "rounds" else held.check(ones)
    assert answer.value is not None
    assert answer.value <= 0.02


def test_a_warning_of_a_function_tells_nothing() -> None:
    def loud(label: Any, said: Any) -> float:
        if label == 0:
            warnings.warn("zero", stacklevel=1)
        return float(np.int8(100) * np.int8(label))

    judge = PerExample(loud, Fraction(1)).judge([0, 1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert judge.total(judge.read([0, 0, 0])) > 0


def test_mixed_labels_are_refused_when_a_holdout_that_hides_nothing_is_opened() -> None:
    with pytest.raises(InvalidTask, match="all text or all numbers"):
        Holdout([0, 1] * 500 + ["x"], tolerance=0.2)


def test_a_column_of_text_means_the_numbers_it_spells() -> None:
    """One odd label makes text of a whole file, and 1.0 of every 1; each row must still be what it was."""
    for spelled in (["0.0", "1.0", "x"], ["false", "True", "x"], [b"0", b"1", b"x"], [0.0, 1.0, float("nan")]):
        assert settled_classes(np.array(spelled), [0, 1]).tolist() == [0, 1, 0]
        assert settled_numbers(np.array(spelled)).tolist() == [0, 1, 0]
    assert settled_classes([0.0, 1, None], ["0", "1"]).tolist() == ["0", "1", "0"]
    assert settled_classes([b"no", "yes", 3], [b"no", b"yes"]).tolist() == [b"no", b"yes", b"no"]


def test_equal_labels_have_one_digest_in_every_container() -> None:
    rows = [0, 1, 1, 0]
    same = [
        rows, tuple(rows), np.array(rows), np.array(rows, dtype=bool), np.array(rows, dtype=float), pd.Series(rows),
        pd.Series(rows, dtype="Int64"), pa.array(rows), pl.Series(rows), [str(row) for row in rows], np.array(rows, "U9"),
    ]  # fmt: skip
    assert len({digest(one_by_one(each)) for each in same}) == 1
    other = [[1, 1, 1, 0], [0, 1, 1], [0, 1, 1, None], [0, 1, 1, "x"], [0, 1, 1, 0.5], [[0], [1], [1], [0]]]
    assert len({digest(one_by_one(each)) for each in (rows, *other)}) == 1 + len(other)


def test_any_label_has_a_digest() -> None:
    assert len({digest(one_by_one([odd])) for odd in ODD}) > 10


@pytest.mark.parametrize("upper", ["1e-320", "1e320"])
def test_a_loss_is_cut_where_floats_can_follow(upper: str) -> None:
    for metric in (AbsoluteError, SquaredError, LogLoss):
        with pytest.raises(InvalidTask, match="between 1e-300 and 1e300"):
            metric(Fraction(upper))


def test_warnings_are_back_after_functions_were_called_by_several_threads() -> None:
    judge = PerExample(lambda label, said: time.sleep(1e-4) or 0.0, Fraction(1)).judge([0] * 50)  # type: ignore[func-returns-value]
    before = list(warnings.filters)
    threads = [threading.Thread(target=judge.total, args=(judge.read([0] * 50),)) for _ in range(8)]
    for each in threads:
        each.start()
        time.sleep(1e-3)
    for each in threads:
        each.join()
    assert list(warnings.filters) == before
