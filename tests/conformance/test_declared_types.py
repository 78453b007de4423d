"""What can be read of a source hangs on its declared types alone: no cell of any column, asked for or not, decides a failure or a kind."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from steelyard.errors import TableError
from steelyard.privacy import rows, users
from steelyard.tables import Capped, Limits, Quantity, Table, read
from steelyard.tables import _engine as engine
from steelyard.tables import _frames as frames
from steelyard.tables import _parquet as parquet
from steelyard.tables import _sampling as sampling
from steelyard.tables import _soundness as soundness
from steelyard.tables._folding import beside_sizes
from steelyard.tables._keyed import by_place, capped_pairs, somebody
from steelyard.tables._totals import DUCKDB

FAR = 2**62
EACH = [Capped(Quantity(), 1)]
_NUMBERS = count()


def raw(kind: pa.DataType, *values: int) -> pa.Array:
    """Cells of a type by their bytes, whether the type has such a value or not."""
    body = b"".join(value.to_bytes(kind.bit_width // 8, "little", signed=True) for value in values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(body)])


def written(table: pa.Table, folder: Path) -> Path:
    path = folder / f"{next(_NUMBERS)}.parquet"
    pq.write_table(table, path)
    return path


def as_dataset(table: pa.Table, folder: Path) -> Any:
    return pyarrow.dataset.dataset(written(table, folder))


GUISES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "Arrow": lambda table, folder: table,
    "Parquet": written,
    "a dataset": as_dataset,
    "a reader": lambda table, folder: table.to_reader(),
    "polars": lambda table, folder: pl.from_arrow(table),
    "a lazy frame": lambda table, folder: pl.from_arrow(table).lazy(),  # type: ignore[union-attr]
    "pandas": lambda table, folder: table.to_pandas(types_mapper=pd.ArrowDtype),
}
FRAGILE = [pa.timestamp("ms"), pa.timestamp("ms", "UTC"), pa.duration("ms"), pa.time64("us"), pa.decimal128(38, 0)]


@pytest.mark.parametrize("kind", FRAGILE, ids=str)
@pytest.mark.parametrize("guise", GUISES)
@pytest.mark.filterwarnings("ignore::steelyard.errors.UncheckedQuery")
def test_a_cell_of_a_column_that_nobody_asks_for_fails_nothing(guise: str, kind: pa.DataType, tmp_path: Path) -> None:
    for far in (FAR, -FAR, -(2 ** (kind.bit_width - 1))):
        table = read(GUISES[guise](pa.table({"seen": raw(kind, 1, far), "v": [1.0, 2.0]}), tmp_path))
        assert table.count_units(rows()) == 2
        assert table.capped_sum(rows(), Quantity("v"), 0, 1) == 2
        assert sum(batch.num_rows for batch in table.batches(["v"])) == 2


@pytest.mark.parametrize("guise", ["Arrow", "Parquet", "a dataset"])
def test_what_duckdb_may_fail_to_read_cannot_be_asked_for(guise: str, tmp_path: Path) -> None:
    for kind in (pa.timestamp("ms", "UTC"), pa.timestamp("s", "UTC"), pa.time64("us")):
        table = read(GUISES[guise](pa.table({"seen": raw(kind, 1, 2), "v": [1.0, 2.0]}), tmp_path))
        with pytest.raises(TableError, match="cannot name a unit"):
            table.count_units(users("seen"))
    moments = read(GUISES[guise](pa.table({"seen": raw(pa.timestamp("us"), 1, FAR)}), tmp_path))
    assert moments.count_units(users("seen")) == 1


@pytest.mark.parametrize("guise", ["Arrow", "Parquet"])
def test_a_decimal_of_more_digits_than_its_type_is_missing(guise: str, tmp_path: Path) -> None:
    column = raw(pa.decimal128(38, 2), 150, -(2**127), 10**38)
    table = read(GUISES[guise](pa.table({"k": column, "u": [1, 2, 3]}), tmp_path))
    assert table.capped_sum(users("u"), Quantity("k"), -9, 9) == 2
    assert table.found_sums_by_key(users("u"), EACH, "k", Limits(max_keys=1)) == {Decimal("1.50"): (1, [1])}


def test_a_planner_that_looks_at_statistics_to_order_joins_fails_by_one_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BLIND", engine.BLIND.replace(",join_order", ""))
    path = written(pa.table({"seen": raw(pa.timestamp("ms"), 1, FAR), "v": [1.0, 2.0]}), tmp_path)
    monkeypatch.setattr(soundness, "_passed", set())
    with pytest.raises(TableError, match="does not compute"):
        read(path)
    monkeypatch.setattr(soundness, "_passed", {"DuckDB"})
    with pytest.raises(TableError, match="could not answer"):
        read(path).count_units(rows())


@pytest.mark.parametrize(("module", "guise"), [(parquet, "Parquet"), (frames, "Arrow")])
def test_columns_that_stay_usable_fail_by_one_cell(
    module: Any, guise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "unusable", lambda names: "")
    table = read(GUISES[guise](pa.table({"seen": raw(pa.timestamp("ms", "UTC"), 1, FAR)}), tmp_path))
    with pytest.raises(TableError, match="could not answer"):
        table.count_units(users("seen"))


def parts(folder: Path, *columns: pa.Array) -> Table:
    for column in columns:
        written(pa.table({"x": column}), folder)
    return read(folder)


UNLIKE = [
    (pa.array([Decimal(1)], pa.decimal128(38, 30)), pa.int64(), 10**18),
    (pa.array([1], pa.timestamp("ns")), pa.timestamp("us"), FAR),
    (pa.array([b"a"], pa.binary()), pa.string(), "\\x"),
    (pa.array([1], pa.date32()), pa.timestamp("us"), FAR),
]


@pytest.mark.parametrize(("first", "kind", "odd"), UNLIKE, ids=lambda value: str(getattr(value, "type", value))[:20])
def test_files_whose_types_do_not_convert_safely_are_refused_whatever_they_hold(
    first: pa.Array, kind: pa.DataType, odd: Any, tmp_path: Path
) -> None:
    for number, cells in enumerate(([], [odd])):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(TableError, match="Write the column alike"):
            parts(tmp_path / str(number), first, pa.array(cells, kind))


def test_files_whose_types_convert_safely_are_read_as_one(tmp_path: Path) -> None:
    alike = {
        "integer": (pa.array([1], pa.int32()), pa.array([2**62])),
        "float": (pa.array([1]), pa.array([0.5])),
        "string": (pa.array([1]), pa.array(["one"])),
        "decimal": (pa.array([Decimal(1)], pa.decimal128(9, 2)), pa.array([Decimal(2)], pa.decimal128(20, 4))),
        "other": (pa.array([{"x": 1}]), pa.array([{"x": "a", "y": 2}])),
    }
    for kind, columns in alike.items():
        (tmp_path / kind).mkdir()
        table = parts(tmp_path / kind, *columns)
        assert table.columns == {"x": kind}
        assert table.count_units(rows()) == 2


def test_a_field_inside_a_column_is_not_the_column_of_its_name(tmp_path: Path) -> None:
    nested = pa.array([{"x": "a", "l": [{"x": b"b"}]}])
    for number in range(2):
        pq.write_table(pa.table({"s": nested, "x": [number]}), tmp_path / f"{number}.parquet")
    assert read(tmp_path).columns == {"s": "other", "x": "integer"}


@pytest.mark.parametrize("more", [[], ["n/a"], [None], ["2026-01-01"]])
def test_no_folder_of_a_partitioned_table_decides_the_kind_of_the_others(more: list[Any], tmp_path: Path) -> None:
    names = ["1", "2", "2", *more]
    table = pa.table({"land": pa.array(names, pa.string()), "v": [1.0] * len(names)})
    pq.write_to_dataset(table, tmp_path, partition_cols=["land"])
    opened = read(tmp_path)
    assert opened.columns == {"v": "float", "land": "string"}
    assert opened.sums_by_key(rows(), EACH, "land", ["2", "1"]) == [[2, 1]]


ODD: list[Any] = [1, b"x", Decimal(1), float("inf"), "\ud800", object()]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: ascii(odd)[:12])
def test_no_category_decides_the_kind_of_the_others(odd: Any) -> None:
    categories = pd.Index(np.array(["a", "b", odd], dtype=object), dtype=object)
    for codes in ([0, 1, 0, -1], [0, 1, 0, 2]):
        column = pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(categories))
        for source in (pd.DataFrame({"k": column}), {"k": column}):
            table = read(source)
            assert table.columns == {"k": "string"}
            assert table.sums_by_key(rows(), EACH, "k", ["a", "b"]) == [[2, 1]]


def test_half_a_surrogate_pair_is_text_in_every_frame() -> None:
    held = ["a", "a", "\ud800"]
    python = pd.array(held, dtype=pd.StringDtype("python"))
    for source in ({"k": np.array(held)}, {"k": np.array(held[:2])}, pd.DataFrame({"k": python})):
        assert read(source).sums_by_key(rows(), EACH, "k", ["a"]) == [[2]]


def test_a_view_of_a_duckdb_file_fails_by_no_statistics_either(tmp_path: Path) -> None:
    path = written(pa.table({"seen": raw(pa.timestamp("ms"), 1, FAR), "v": [1.0, 2.0]}), tmp_path)
    with duckdb.connect(str(tmp_path / "v.db")) as connection:
        connection.execute(f"CREATE VIEW w AS SELECT * FROM read_parquet('{path}')")
    with pytest.warns(UserWarning, match="query"):
        table = read(f"duckdb:///{tmp_path}/v.db::w")
    assert table.capped_sum(rows(), Quantity("v"), 0, 1) == 2


@pytest.mark.parametrize("units", [("us", "ms"), ("ms", "us")])
def test_moments_that_one_file_of_several_counts_in_milliseconds_cannot_be_used(
    units: tuple[str, str], tmp_path: Path
) -> None:
    assert parts(tmp_path, *(raw(pa.timestamp(unit), 1) for unit in units)).columns == {"x": "other"}


class TestConnections:
    """What the private DuckDB must not do besides."""

    def test_no_name_in_a_database_means_a_variable_of_python(self, tmp_path: Path) -> None:
        variable = pa.table({"x": [1]})
        with engine._connect(str(tmp_path), {}) as connection, pytest.raises(duckdb.CatalogException):
            connection.execute("FROM variable")
        assert duckdb.sql("FROM variable").fetchall() == [(variable.num_rows,)]

    def test_no_progress_is_shown(self, tmp_path: Path) -> None:
        with engine._connect(str(tmp_path), {}) as connection:
            connection.execute("SET enable_progress_bar = true")
            engine._hide_progress(connection)
            assert connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]

    def test_a_database_is_never_written_to(self, tmp_path: Path) -> None:
        with duckdb.connect(str(tmp_path / "t.db")) as connection:
            connection.execute("CREATE TABLE t AS SELECT 1 AS x")
        table = read(f"duckdb:///{tmp_path}/t.db::t")
        cursor: Any = table._engine._cursor()  # type: ignore[attr-defined]
        with pytest.raises(duckdb.InvalidInputException, match="read-only"):
            cursor.execute("CREATE TABLE steelyard_source_file.other AS SELECT 1")

    def test_a_units_norm_and_totals_come_from_one_reading_of_its_file(self, tmp_path: Path) -> None:
        table = read(written(pa.table({"u": [1, 1, 2], "k": ["a", "b", "a"], "v": [1.0, 2.0, 3.0]}), tmp_path))
        frame, who = table._frame("k", ["a", "b"]), users("u")
        columns, named = somebody(table._rows, who)
        quantities = {f"q{i}": part.quantity.expression(table._rows) for i, part in enumerate(EACH)}
        placed = by_place(table._rows, ["k"], frame, {**columns, **quantities}, named)
        asked = [
            capped_pairs(placed, who, EACH, Limits(max_keys=1, rows_per_key=1), DUCKDB),
            capped_pairs(placed, who, EACH, Limits(), DUCKDB),
            table.keep_rows(users("u"), 1)._rows,
            beside_sizes(table._rows, ["v"], users("u"), DUCKDB),
        ]
        cursor: Any = table._engine._cursor()  # type: ignore[attr-defined]
        table._engine._show(cursor, list(table.columns), False)  # type: ignore[attr-defined]
        cursor.register(frame.name, frame.content)
        for question in asked:
            [(_, plan)] = cursor.execute(f"EXPLAIN {table._sql(question)}").fetchall()
            assert plan.count("READ_PARQUET") == 1


def test_no_two_lists_of_values_have_one_text() -> None:
    rows = ibis.table({"a": "string", "b": "string"}, name="pairs")
    texts = str(ibis.to_sql(rows.select(t=sampling.content(rows, ["a", "b"])), dialect="duckdb"))
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE pairs AS FROM (VALUES ('a', 'bc'), ('ab', 'c'), (NULL, 'abc'), ('', 'abc')) p(a, b)"
        )
        assert len(set(connection.execute(texts).fetchall())) == 4
