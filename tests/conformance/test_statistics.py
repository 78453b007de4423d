"""No answer depends on what a file's statistics say of its rows, whoever wrote the file and whatever they leave out."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tables_reference as reference
from steelyard.errors import TableError
from steelyard.privacy import rows, users
from steelyard.tables import Bins, Bounded, Capped, Limits, Quantity, Table, read
from steelyard.tables import _engine as engine
from steelyard.tables import _soundness as soundness
from steelyard.tables import _totals as totals
from steelyard.tables._spark import load_dialect
from steelyard.tables._totals import LARGEST, double
from writers import SOURCES, by_duckdb, by_polars, by_pyarrow, duckdb_view, lying

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::steelyard.errors.UncheckedQuery"),
    pytest.mark.usefixtures("compiled_once"),
]

SCHEMA = pa.schema(
    [
        ("user", pa.int64()), ("who", pa.string()), ("v", pa.float64()), ("f", pa.float32()), ("i", pa.int64()),
        ("k", pa.string()), ("g", pa.int64()), ("d", pa.decimal128(38, 10)),
    ]
)  # fmt: skip
NAN, INF = math.nan, math.inf
SHAPES: dict[str, list[float | None]] = {
    "NaN and a range": [NAN, NAN, NAN, 0.1, NAN, 0.2],
    "NaN and one number": [NAN, 0.1],
    "NaN and zeros": [NAN, 0.0, -0.0, NAN],
    "NaN, infinities, limits": [NAN, 0.5, INF, -INF, 1.7976931348623157e308, 5e-324, 2.0**53, -7.25],
    "NaN alone": [NAN],
    "NaN and null": [NAN, None, 0.25, NAN, 3.0],
}


def made(values: list[float | None], size: int = 120) -> list[reference.Row]:
    """Rows whose row groups differ: the first hold the values, the last also plain numbers."""
    return [
        {
            "user": i % 40,
            "who": f"w{i % 13}",
            "v": values[i % len(values)],
            "f": values[(i + 1) % len(values)] if abs(values[(i + 1) % len(values)] or 0) < 1e30 else INF,
            "i": (i * 37) % 11 - 5 if i < 100 else 2**62 + i,
            "k": "abcd"[(i // 30) % 4],
            "g": (i // 7) % 9,
            "d": Decimal(i - 60).scaleb(-3),
        }
        for i in range(size)
    ]


def arrow(data: list[reference.Row]) -> pa.Table:
    return pa.Table.from_pylist(data, schema=SCHEMA)


VALUE, SINGLE, WHOLE = Quantity("v", Fraction(1, 4)), Quantity("f"), Quantity("i")
EDGES = (-40, 0, 1, 2, 2**55)


def answers(table: Table) -> dict[str, Any]:
    """What a table says to one question of every kind."""
    part = Capped(Quantity("v", Fraction(1, 100)), 50, "l2")
    bounds = [Bounded(each, -5, 100) for each in (VALUE, SINGLE, WHOLE)]
    found = table.found_sums_by_key(users("user"), [Capped(Quantity(), 9)], "v", Limits(max_keys=50))
    return {
        "totals": table.capped_totals(users("user"), bounds),
        "rows": table.capped_totals(rows(), bounds),
        "units": [table.count_units(users(name)) for name in ("user", "who", "v")],
        "owned by a float": table.capped_totals(users("v"), bounds),
        "histogram": table.totals_histogram(users("who"), VALUE, EDGES),
        "bins": table.sums_by_bin(users("user"), Capped(Quantity(), 4), Bins(VALUE, EDGES)),
        "sides": list(table.sums_by_side(rows(), VALUE, -10, 30, 40)),
        "by text": table.sums_by_key(users("who"), [part], "k", ["a", "d", "zz"]),
        "by integer": table.sums_by_key(users("who"), [part], "i", [2**62 + 101, 3]),
        "by float": table.sums_by_key(users("who"), [part], "v", [0.0, 0.1]),
        "found": {key: (units, sums) for key, (units, sums) in found.items()},
    }


def expected(data: list[reference.Row]) -> dict[str, Any]:
    """The same from the reference."""
    part = Capped(Quantity("v", Fraction(1, 100)), 50, "l2")
    quantities = (VALUE, SINGLE, WHOLE)
    finite = [row for row in data if row["v"] is not None and math.isfinite(row["v"])]
    binned = [{**row, "bin": sum(VALUE.integer(row["v"]) >= edge for edge in EDGES[1:-1])} for row in finite]
    sides = [max(-10, min(30, VALUE.integer(row["v"]))) for row in finite]
    keys = {reference.identity(row["v"]) for row in data} - {None}
    counts = {key: len({row["user"] for row in data if reference.identity(row["v"]) == key} - {None}) for key in keys}
    sums = {key: reference.sums_by_key(data, users("user"), Capped(Quantity(), 9), "v", list(keys)) for key in keys}

    def by(name: str, asked: list[Any]) -> list[list[int]]:
        return [reference.sums_by_key(data, users("who"), part, name, asked)]

    def capped(unit: Any) -> list[int]:
        return [reference.capped_sum(data, unit, each, -5, 100) for each in quantities]

    return {
        "totals": capped(users("user")),
        "rows": capped(rows()),
        "units": [len(reference.totals(data, users(name), Quantity())) for name in ("user", "who", "v")],
        "owned by a float": capped(users("v")),
        "histogram": reference.histogram(data, users("who"), VALUE, EDGES),
        "bins": reference.sums_by_key(binned, users("user"), Capped(Quantity(), 4), "bin", range(4)),
        "sides": [sum(x + 10 for x in sides), sum(30 - x for x in sides)],
        "by text": by("k", ["a", "d", "zz"]),
        "by integer": by("i", [2**62 + 101, 3]),
        "by float": by("v", [0.0, 0.1]),
        "found": {key: (counts[key], [sums[key][list(keys).index(key)]]) for key in keys},
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_reference(source: str, shape: str, tmp_path: Path) -> None:
    data = made(SHAPES[shape])
    assert answers(read(SOURCES[source](arrow(data), tmp_path))) == expected(data)


@pytest.mark.parametrize("shape", [name for name in SHAPES if "null" not in name])
def test_statistics_of_other_rows_change_nothing(shape: str, tmp_path: Path) -> None:
    data = made(SHAPES[shape])
    assert answers(read(lying(arrow(data), tmp_path))) == expected(data)


def test_a_null_count_that_denies_its_nulls_changes_nothing(tmp_path: Path) -> None:
    data = [{**row, "user": None if i < 37 else row["user"]} for i, row in enumerate(made([0.1, NAN]))]
    path = by_pyarrow(arrow(data), tmp_path, use_dictionary=False, row_group_size=1000)
    content = path.read_bytes()
    counted, none = bytes([0x16, 2 * 37]), bytes([0x16, 0])  # Thrift's third field of a column's statistics
    assert content.count(counted) == 2  # the page's and the column's
    path.write_bytes(content.replace(counted, none))
    assert answers(read(path)) == expected(data)


@pytest.mark.parametrize("write", [by_pyarrow, by_polars, duckdb_view, lying], ids=lambda write: str(write.__name__))
def test_the_same_questions_catch_an_engine_that_believes_statistics(
    write: Callable[[pa.Table, Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = made(SHAPES["NaN and one number"])
    monkeypatch.setattr(engine, "BLIND", "")
    monkeypatch.setattr(soundness, "_passed", {"DuckDB"})
    # a guard that a planner folds
    monkeypatch.setattr(totals, "finite", lambda number: number.abs() <= double(LARGEST))
    wrong, table = None, _believing(write(arrow(data), tmp_path))
    with suppress(TableError):  # where it notices the lie it fails, which one row decides as well
        wrong = answers(table)
    assert wrong != expected(data)


def test_an_engine_that_finds_too_few_of_a_groups_first_rows_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "WRONG", "")
    monkeypatch.setattr(soundness, "_passed", set())
    with pytest.raises(TableError, match="does not compute what the guarantees rest on"):
        read(arrow(made(SHAPES["NaN and one number"])))


@pytest.mark.parametrize("write", [by_pyarrow, by_polars, duckdb_view], ids=lambda write: str(write.__name__))
def test_the_guards_alone_hold_where_an_engine_believes_true_statistics(
    write: Callable[[pa.Table, Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = made(SHAPES["NaN and one number"])
    monkeypatch.setattr(engine, "BLIND", "")
    monkeypatch.setattr(soundness, "_passed", {"DuckDB"})
    assert answers(_believing(write(arrow(data), tmp_path))) == expected(data)


def _believing(source: Any) -> Table:
    """A table whose files are read as DuckDB reads them by default."""
    if not isinstance(source, Path):
        return read(source)
    with duckdb.connect(str(source.with_suffix(".db"))) as connection:
        connection.execute(f"CREATE VIEW v AS SELECT * FROM read_parquet('{source}')")
    return read(f"duckdb:///{source.with_suffix('.db')}::v")


def test_files_of_spark_give_the_reference_on_both_engines(spark: Any, tmp_path: Path) -> None:
    for shape in ("NaN and one number", "NaN and null"):
        data = made(SHAPES[shape])
        frame = spark.createDataFrame(arrow(data))
        frame.coalesce(1).write.mode("overwrite").parquet(str(tmp_path / "spark"))
        assert answers(read(tmp_path / "spark")) == expected(data)
        assert answers(read(spark.read.parquet(str(tmp_path / "spark")))) == expected(data)


def test_spark_gives_the_reference_on_files_of_other_writers_and_on_lies(spark: Any, tmp_path: Path) -> None:
    data = made(SHAPES["NaN and one number"])
    for write in (by_pyarrow, by_polars, by_duckdb, lying):
        assert answers(read(spark.read.parquet(str(write(arrow(data), tmp_path))))) == expected(data), write


class TestTrial:
    def passes(self, folder: Path, blind: str = engine.BLIND) -> bool:
        off = ",".join(filter(None, (blind, engine.WRONG)))
        with duckdb.connect(":memory:", config={"disabled_optimizers": off}) as connection:
            return soundness.duckdb_passes(connection, str(folder))

    def test_our_connection_passes_and_a_plain_duckdb_does_not(self, tmp_path: Path) -> None:
        assert self.passes(tmp_path)
        assert not self.passes(tmp_path, "")

    @pytest.mark.parametrize("kept", ["statistics_propagation", "filter_pushdown"])
    def test_either_way_of_believing_statistics_is_caught(self, kept: str, tmp_path: Path) -> None:
        assert not self.passes(tmp_path, ",".join(name for name in engine.BLIND.split(",") if name != kept))

    def test_a_guard_that_a_bound_decides_is_caught_with_statistics_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def by_bound(number: Any) -> Any:
            return number.abs() <= double(LARGEST)

        monkeypatch.setattr("steelyard.tables._totals.finite", by_bound)
        assert not self.passes(tmp_path, "")
        with duckdb.connect() as connection:
            soundness._write_lie(connection, tmp_path / "lie.parquet")
            connection.execute(f"CREATE VIEW {soundness.TRIAL} AS FROM read_parquet('{tmp_path}/lie.parquet')")
            (sql, right), *_ = soundness._about_lie()
            assert connection.execute(sql).fetchall()[0][0] != right[0][0]

    def test_wrong_arithmetic_is_caught(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(soundness, "identity", lambda column: column)
        assert not self.passes(tmp_path)

    def test_an_engine_that_fails_is_refused_with_a_fixed_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(soundness, "_passed", set())
        monkeypatch.setattr(engine, "BLIND", "")
        with pytest.raises(TableError, match="this DuckDB does not compute what the guarantees rest on"):
            read({"x": [1.0]})

    def test_spark_passes(self, spark: Any) -> None:
        load_dialect()
        assert soundness.spark_passes(spark)
        assert spark.catalog.listTables() == []
