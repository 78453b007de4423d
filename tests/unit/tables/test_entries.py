"""One reader of entries: every container, every odd value, and no entry that changes another."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from steelyard.errors import InvalidTask
from steelyard.tables import entries_of, finite_of, is_untyped, kind_of, numbers_of, texts_of
from steelyard.tables._entries import number_of, text_of


class Hostile:
    """An entry whose every use fails."""

    def __float__(self) -> float:
        raise RuntimeError("told")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("told")

    def __hash__(self) -> int:
        raise RuntimeError("told")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("told")


class Loud:
    """An entry that warns when it is read."""

    def __float__(self) -> float:
        warnings.warn("told", UserWarning, stacklevel=2)
        return 3.0


def objects(values: list[Any]) -> Any:
    held = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        held[place] = value
    return held


ODD = [
    "x", "3", b"3", b"\xff", "\ud800", None, math.nan, math.inf, -0.0, True, 10**400, 2**63, 1j, np.complex128(1j), [1, 2], {}, object(),
    Decimal("sNaN"), Fraction(1, 3), np.array([1, 2]), np.float16(2), np.uint64(2**64 - 1), np.datetime64("2020-01-01", "ns"),
    np.datetime64("NaT"), np.timedelta64(5, "s"), pd.NA, pd.NaT, pd.Timestamp("2020-01-01"), Hostile(), Loud(), UUID(int=7), np.ma.masked,
]  # fmt: skip
USUAL = [2**53 + 1, 2.5, 0, True, "7"]
UNTYPED: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "objects": objects,
    "series": lambda values: pd.Series(objects(values), dtype=object),
    "column": lambda values: pd.DataFrame({"y": pd.Series(objects(values), dtype=object)})["y"],
}
TYPED: dict[str, tuple[Any, list[Any]]] = {
    "float16": (np.array([1, 2.5, math.nan], dtype=np.float16), ["1", "2.5", None]),
    "uint64": (np.array([2**64 - 1, 2**53 + 1], dtype=np.uint64), [str(2**64 - 1), str(2**53 + 1)]),
    "fine dates": (np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]"), ["2020-01-01T00:00:00.000000000", None]),
    "nullable": (pd.Series([2**53 + 1, None], dtype="Int64"), [str(2**53 + 1), None]),
    "arrow series": (pd.Series([2**53 + 1, None], dtype="int64[pyarrow]"), [str(2**53 + 1), None]),
    "categories": (pd.Series(["a", None]).astype("category"), ["a", None]),
    "index": (pd.Index([1, 2]), ["1", "2"]),
    "polars": (pl.Series([2**53 + 1, None]), [str(2**53 + 1), None]),
    "polars objects": (pl.Series([1, "x"], dtype=pl.Object), ["1", "x"]),
    "arrow": (pa.array([2**53 + 1, None]), [str(2**53 + 1), None]),
    "chunked": (pa.chunked_array([pa.array([1.5]), pa.array([None], pa.float64())]), ["1.5", None]),
    "dictionary": (pa.array(["a", None]).dictionary_encode(), ["a", None]),
    "far days": (pa.array([2**30, 0], pa.date32()), [None, "1970-01-01"]),
}


@pytest.mark.parametrize("kind", UNTYPED)
@pytest.mark.parametrize("read", [numbers_of, texts_of, lambda y: objects([finite_of(v) for v in entries_of(y)])])
def test_one_odd_entry_changes_no_other_and_neither_raises_nor_warns(kind: str, read: Callable[[Any], Any]) -> None:
    usual = list(read(UNTYPED[kind](USUAL)))
    for odd in ODD:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert list(read(UNTYPED[kind]([*USUAL, odd])))[:-1] == usual, type(odd)


def test_a_reader_that_gives_all_entries_one_type_is_caught_by_the_same_check() -> None:
    """The twin: NumPy's own conversion. One float rounds every large id, one text makes texts of all."""
    assert int(np.asarray([2**53 + 1, 0.5])[0]) != 2**53 + 1
    assert np.asarray([1, "x"])[0] != 1


@pytest.mark.parametrize("kind", TYPED)
def test_every_container_gives_the_same_texts_entry_by_entry(kind: str) -> None:
    column, texts = TYPED[kind]
    assert texts_of(column).tolist() == texts


def test_odd_values_are_read_by_the_rules_that_are_written_down() -> None:
    read = [
        (number_of(v), finite_of(v), text_of(v)) for v in (True, Decimal("2.5"), 10**400, math.inf, None, "2", b"2")
    ]
    np.testing.assert_equal(
        read,
        [
            (1.0, 1, "1"),
            (2.5, 2.5, "2.5"),
            (math.nan, 10**400, str(10**400)),
            (math.inf, None, None),
            (math.nan, None, None),
            (2.0, 2, "2"),
            (2.0, 2, "bytes 32"),
        ],
    )
    assert math.isnan(number_of("true"))
    assert finite_of("true") == 1
    assert (text_of(UUID(int=7)), text_of(datetime(2020, 1, 1))) == (str(UUID(int=7)), "2020-01-01 00:00:00")


@pytest.mark.parametrize(
    "column",
    [
        np.array(["1"]),
        np.array([1j]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.zeros((2, 2)),
        pd.Series(["1"], dtype="str"),
        pd.DataFrame({"y": [1]}),
        pl.Series(["1"]),
        pa.array(["1"]),
        pa.table({"y": [1]}),
        "12",
        7,
    ],
)
def test_what_a_type_or_a_shape_rules_out_is_refused_without_a_value(column: Any) -> None:
    with pytest.raises(InvalidTask, match=r"^weights (are|must be)"):
        numbers_of(column, "weights")


def test_what_a_type_says_is_public() -> None:
    assert [is_untyped(y) for y in ([1], objects([1]), np.array([1]), pl.Series([1], dtype=pl.Object))] == [
        True,
        True,
        False,
        True,
    ]
    assert [kind_of(y) for y in ([1], np.array([1]), np.array(["a"]), pd.Series([True]), pl.Series([1.5]))] == [
        None,
        "numbers",
        "text",
        "truth values",
        "numbers",
    ]


@pytest.mark.parametrize("unit", ["ns", "us", "s", "D"])
def test_dates_and_durations_are_no_numbers_whatever_numpy_makes_of_them(unit: str) -> None:
    for entry in (np.array(["2026-01-02"], f"datetime64[{unit}]")[0], np.array([5], f"timedelta64[{unit}]")[0]):
        assert math.isnan(number_of(entry))
        assert finite_of(entry) is None
        assert text_of(entry) == str(entry)
    assert [text_of(gone) for gone in (np.datetime64("NaT"), np.timedelta64("NaT"), pd.NaT)] == [None] * 3
    assert text_of(pd.Timedelta("5s")) == "0 days 00:00:05"


def test_an_iterator_is_read_once_and_whole() -> None:
    assert texts_of(str(n) for n in range(3)).tolist() == ["0", "1", "2"]
    assert entries_of(iter([1, None])).tolist() == [1, None]


def test_a_masked_entry_is_missing() -> None:
    column = np.ma.MaskedArray([1, 2, 3], [False, True, False])
    assert entries_of(column).tolist() == [1, None, 3]
    assert texts_of(column).tolist() == ["1", None, "3"]
    assert np.isnan(numbers_of(column)).tolist() == [False, True, False]
