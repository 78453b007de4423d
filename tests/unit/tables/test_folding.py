"""A fold reads through a DuckDB of its own, and leaves nothing of it behind."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.errors import TableError
from steelyard.tables import read
from steelyard.tables._folding import added

DATA = pa.table({"x": pa.array(range(50_000), pa.int64())})
ZERO = [np.zeros(1, dtype=np.int64)]


def total(batch: Any) -> list[Any]:
    return [np.array([batch.column(0).to_numpy().sum()])]


def parquet(folder: Path) -> Any:
    pq.write_table(DATA, folder / "t.parquet", row_group_size=10_000)
    return folder / "t.parquet"


def database(folder: Path) -> Any:
    with duckdb.connect(str(folder / "t.db")) as connection:
        connection.register("source", DATA)
        connection.execute("CREATE TABLE t AS FROM source")
    return f"duckdb:///{folder}/t.db::main.t"


def relation(folder: Path) -> Any:
    connection = duckdb.connect()
    connection.register("source", DATA)
    return connection.sql("FROM source")


@pytest.mark.filterwarnings("ignore::steelyard.errors.UncheckedQuery")
@pytest.mark.parametrize("make", [parquet, database, relation, lambda folder: DATA])
def test_a_fold_adds_up_every_kind_of_source_twice_over_and_cleans_up(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spill").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spill"))
    table = read(make(tmp_path))
    opened = sorted((tmp_path / "spill").iterdir())
    for _ in range(2):
        assert table.fold(["x"], total, ZERO, size=4096)[0].tolist() == [50_000 * 49_999 // 2]
    assert sorted((tmp_path / "spill").iterdir()) == opened


def test_a_fold_that_fails_cleans_up_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = read(parquet(tmp_path))
    (tmp_path / "spill").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spill"))
    with pytest.raises(TableError, match="could not answer"):
        table.fold(["x"], lambda batch: 1 / 0, ZERO)  # type: ignore[arg-type, return-value]
    assert list((tmp_path / "spill").iterdir()) == []


def test_integers_of_64_bits_are_added_without_a_wrap_and_leave_as_python_integers() -> None:
    top, low = np.array([2**63 - 1, -(2**63), 7]), np.array([2**63 - 1, -(2**63), -9])
    for parts in ([[top], [low]] * 5, [[top]], [[np.array([1, 2, 3])], [top], [low], [np.array([0, 0, 0])]]):
        (found,) = added([np.zeros(3, dtype=np.int64)], iter(parts))
        assert found.dtype == object
        assert found.tolist() == [sum(int(part[0][i]) for part in parts) for i in range(3)]


def test_a_fold_mixes_integers_of_all_widths_and_keeps_floats_apart() -> None:
    whole, wide, real = np.array([3], dtype=np.int64), np.array([10**30], dtype=object), np.array([0.5])
    first, second = added(
        [np.array([1]), np.zeros(1)], [[whole, real], [wide, real], [np.array([200], dtype=np.uint8), real], [[4], [1]]]
    )
    assert first.tolist() == [10**30 + 208]
    assert second.tolist() == [2.5]


def test_arrays_without_entries_are_added_too() -> None:
    assert added([np.zeros(0, dtype=np.int64)], [[np.zeros(0, dtype=np.int64)]])[0].shape == (0,)
