"""A fingerprint tells whether the rows are the same, whatever their order, and nothing without its secret."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, cast

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from steelyard.errors import ColumnMissing, InvalidTask, ViewRefused
from steelyard.privacy import rows, users
from steelyard.tables import Table, read
from steelyard.tables import _sampling as sampling

SECRET = b"a secret of enough bytes"


def made(x: Sequence[float | None], who: list[str]) -> Table:
    return read({"x": x, "who": who})


def test_the_order_of_rows_does_not_matter_and_every_change_of_a_row_does() -> None:
    same = made([1.5, 2.0, 2.0, None], ["a", "b", "b", "c"]).fingerprint(["x", "who"], SECRET)
    assert made([2.0, None, 1.5, 2.0], ["b", "c", "a", "b"]).fingerprint(["x", "who"], SECRET) == same
    for x, who in (
        ([1.5, 2.0, 2.0, 0.0], ["a", "b", "b", "c"]),
        ([1.5, 2.0, None], ["a", "b", "c"]),
        ([1.5, 2.0, 2.0, 2.0, None], ["a", "b", "b", "b", "c"]),
        ([2.0, 1.5, 2.0, None], ["a", "b", "b", "c"]),
        ([1.5, 2.0, 2.0, None], ["a", "b", "bc", ""]),
    ):
        assert made(x, who).fingerprint(["x", "who"], SECRET) != same


def test_another_secret_gives_another_fingerprint() -> None:
    table = made([1.0], ["a"])
    assert table.fingerprint(["x"], SECRET) != table.fingerprint(["x"], SECRET + b"!")


def test_an_empty_table_and_a_large_one_have_one() -> None:
    empty = read({"x": np.empty(0)})
    assert len(empty.fingerprint(["x"], SECRET)) == 64
    large = np.arange(200_000)
    assert read({"x": large}).fingerprint(["x"], SECRET) == read({"x": large[::-1].copy()}).fingerprint(["x"], SECRET)


ODD: dict[str, list[Any]] = {
    "x": [1.5, -0.0, 0.0, None, float("nan"), float("inf"), 1e300, 5e-324, 2.0, 2.0],
    "who": ["a", "é", "", "日本", None, "b", "b", "c:1", "d", "d"],
    "i": [1, -2, 3, None, 2**62, 5, 6, 7, 8, 8],
    "d": [datetime.date(2020, 1, day) for day in range(1, 11)],
}


def test_a_fingerprint_stays_what_it_is_because_paths_are_stored_with_it() -> None:
    table = read(ODD)
    found = table.fingerprint(list(ODD), SECRET)
    assert found == "14365cc1a88d712d49d26dcb64b2cbcd813bde8ac94cf40e1b9b8df6db20d766"
    rest = table.where("i > 3").derive(z="x * 2").fingerprint(["z", "who"], SECRET)
    assert rest == "314497962851275ec454295665b153a302f80a647566967a4241ce933f7dcd09"


@pytest.mark.parametrize("rows", [0, 1, 70_000])
def test_it_is_the_same_whether_the_engine_adds_up_or_it_is_added_up_here_also_of_rows_that_are_kept(rows: int) -> None:
    columns = {name: [values[i % 10] for i in range(rows)] for name, values in ODD.items()}
    types = {"x": pa.float64(), "who": pa.string(), "i": pa.int64(), "d": pa.date32()}
    table = read(pa.table({name: pa.array(columns[name], kind) for name, kind in types.items()}))
    by_engine = table._numbers(sampling.fingerprint_sums(table._rows, list(ODD), SECRET))
    here = table.fingerprint(list(ODD), SECRET)
    assert here == sampling.sealed_fingerprint(by_engine, SECRET)
    counted: list[int] = []

    def convert(batch: Any) -> Any:
        counted.append(batch.num_rows)
        return np.zeros((batch.num_rows, 1), dtype=np.int32)

    assert table.bound_blocks(list(ODD), convert, 1, SECRET)[1] == here
    assert sum(counted) == rows


def test_rows_that_are_asked_for_twice_because_memory_was_short_are_added_up_once(monkeypatch: Any) -> None:
    table = read({"x": np.arange(100_000)})
    here, engine, tried = table.fingerprint(["x"], SECRET), cast("Any", table)._engine, list[int]()
    narrow = engine._narrow

    def short(*asked: Any) -> Any:
        for place, batch in enumerate(narrow(*asked)):
            if not tried and place == 1:
                tried.append(1)
                raise duckdb.OutOfMemoryException("no more")
            yield batch

    monkeypatch.setattr(engine, "_narrow", short)
    monkeypatch.setattr(engine, "work_in", lambda memory: None)
    blocks, found = table.bound_blocks(["x"], lambda batch: np.zeros((batch.num_rows, 1), dtype=np.int32), 1, SECRET)
    assert tried
    assert found == here
    assert blocks.fold(lambda parts: [np.array([sum(len(rows) for rows, _ in parts)])], [np.array([0])])[0] == 100_000


def test_rows_that_are_no_units_are_bound_no_more_than_they_are_kept() -> None:
    chosen = made([1.0, 2.0, 3.0], ["a", "a", "b"]).keep_rows(users("who"), 1, SECRET)  # a row may take another's place
    numbered: Any = lambda batch: np.zeros((batch.num_rows, 1), dtype=np.int32)  # noqa: E731
    for ask in (
        lambda: chosen.blocks_by_unit(["x"], rows(), numbered, 1),
        lambda: chosen.bound_blocks(["x"], numbered, 1, SECRET),
    ):
        with pytest.raises(ViewRefused):
            ask()


def test_a_missing_column_or_a_short_secret_is_refused() -> None:
    with pytest.raises(ColumnMissing):
        made([1.0], ["a"]).fingerprint(["y"], SECRET)
    with pytest.raises(InvalidTask):
        made([1.0], ["a"]).fingerprint(["x"], b"short")
