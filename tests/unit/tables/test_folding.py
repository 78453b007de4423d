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
