"""Whatever a person has becomes the same table, and what is no table is refused in plain words."""

from __future__ import annotations

import gzip
import itertools
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from steelyard.errors import ColumnMissing, EngineMissing, InvalidTask, TableError
from steelyard.privacy import holdout, rows, users
from steelyard.tables import Capped, Limits, Quantity, Table, read

DATA: dict[str, list[Any]] = {"u": [1, 1, 2, None], "x": [1.0, 2.0, 3.0, 4.0], "s": ["a", "b", "a", "b"]}
ARROW = pa.table(DATA)


def parquet(folder: Path) -> Path:
    pyarrow.parquet.write_table(ARROW, folder / "it's.parquet")
    return folder / "it's.parquet"


def csv(folder: Path) -> str:
    pd.DataFrame(DATA).to_csv(folder / "t.csv", index=False)
    return str(folder / "t.csv")


def sqlite(folder: Path) -> str:
    connection = sqlite3.connect(folder / "q.db")
    connection.execute("CREATE TABLE t (u INTEGER, x REAL, s TEXT)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", list(zip(*DATA.values(), strict=True)))
    connection.commit()
    connection.close()
    return f"sqlite:///{folder}/q.db::t"


def duckdb_file(folder: Path) -> str:
    with duckdb.connect(str(folder / "k.db")) as connection:
        connection.register("source", ARROW)
        connection.execute("CREATE TABLE t AS FROM source")
    return f"duckdb:///{folder}/k.db::main.t"


def relation(folder: Path) -> Any:
    connection = duckdb.connect()
    connection.register("source", ARROW)
    return connection.sql("SELECT * FROM source WHERE x < 100")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "parquet": parquet,
    "glob": lambda folder: str(parquet(folder).parent / "*.parquet"),
    "folder": lambda folder: parquet(folder).parent,
    "list of paths": lambda folder: [parquet(folder)],
    "csv": csv,
    "pandas": lambda folder: pd.DataFrame(DATA),
    "polars": lambda folder: pl.DataFrame(DATA),
    "lazy polars": lambda folder: pl.LazyFrame(DATA),
    "arrow": lambda folder: ARROW,
    "arrow batch": lambda folder: ARROW.to_batches()[0],
    "arrow reader": lambda folder: ARROW.to_reader(),
    "arrow dataset": lambda folder: pyarrow.dataset.dataset(parquet(folder)),
    "relation": relation,
    "dictionary": lambda folder: {**DATA, "x": np.array(DATA["x"])},
    "ibis": lambda folder: ibis.memtable(ARROW),
    "duckdb url": duckdb_file,
    "sqlite url": sqlite,
}


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::steelyard.errors.UncheckedQuery")
@pytest.mark.parametrize("name", SOURCES)
def test_every_source_is_the_same_table_and_can_be_asked_twice(name: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"types": {"x": "float"}} if name == "csv" else {}
    table = read(SOURCES[name](tmp_path), **options)
    assert list(table.columns) == ["u", "x", "s"]
    for _ in range(2):
        assert table.count_units(users("u")) == 2
        assert table.capped_sum(users("u"), Quantity("x"), 0, 3) == 6
        assert table.capped_sum(rows(), Quantity(), 0, 1) == 4
        assert table.sums_by_key(users("u"), [Capped(Quantity("x"), 10)], "s", ["b", "a"]) == [[2, 4]]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nowhere.parquet", "no file"),
        ("nothing-*.csv", "no file"),
        ("s3://bucket/t.parquet", "remote"),
        ("duckdb:///nowhere.db::t", "no database file"),
        ("sqlite:///nowhere.db::t", "no database file"),
        (5, "not a table"),
        pytest.param(object(), "not a table", id="object"),
        ([], "not a table"),
        ({}, "no columns"),
        ({"a": [1], "b": [1, 2]}, "no clear schema"),
        ({"a": [1], "A": [1]}, "letter case"),
        (pd.Series([1.0]), "not a table"),
        ({"a": [1, "secret", None]}, "no clear schema"),
        (pa.array([1]), "not a table"),
    ],
    ids=str,
)
def test_what_is_no_table_is_refused_in_plain_words(source: Any, words: str) -> None:
    with pytest.raises(TableError, match=words) as caught:
        read(source)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.xyz"])
def test_a_file_without_a_schema_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(TableError):
        read(tmp_path / name)


def test_a_parquet_file_of_nonsense_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("secret words")
    with pytest.raises(TableError, match="no schema") as caught:
        read(tmp_path / "t.parquet")
    assert caught.value.__context__ is None


def test_no_cell_and_no_row_of_a_csv_file_is_an_error(tmp_path: Path) -> None:
    lines = ["u,x", *[f"{i},{i}.5" for i in range(30_000)]]
    messy = [*lines, "1,two", "3", "4,5,6,7", '"un,9', "8,8", '"a"b,7']
    (tmp_path / "t.csv").write_text("\n".join(messy))
    table = read(tmp_path / "t.csv", types={"u": "integer", "x": "float"})
    assert table.columns == {"u": "integer", "x": "float"}
    assert table.capped_sum(rows(), Quantity("x"), 0, 10**6) >= sum(i + 1 for i in range(30_000))


@pytest.mark.parametrize("cell", ["n/a", "1", "", '"open', "x" * 3_000_000, "\ud800", "a\0b", "1,2,3"])
def test_no_row_of_a_csv_file_changes_its_schema(cell: str, tmp_path: Path) -> None:
    for types in ({}, {"v": "float"}):
        seen = []
        for lines in (["u,v", "1,2", "2,3"], ["u,v", f"1,{cell}", "1,2", "2,3"]):
            (tmp_path / "t.csv").write_bytes("\n".join(lines).encode(errors="surrogatepass"))
            seen.append(dict(read(tmp_path / "t.csv", types=types).columns))
        assert seen[0] == seen[1] == {"u": "string", "v": types.get("v", "string")}


def test_a_cell_that_does_not_fit_is_null_and_its_row_stays(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("u,v\n1,n/a\n2,3\n")
    table = read(tmp_path / "t.csv", types={"v": "float"})
    assert table.count_units(users("u")) == 2
    assert table.sums_by_key(rows(), [Capped(Quantity("v"), 9), Capped(Quantity(), 1)], "u", ["1", "2"]) == [
        [0, 3],
        [1, 1],
    ]


def test_a_text_column_of_a_csv_file_is_refused_with_how_to_state_its_type(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("u,v\n1,2\n")
    with pytest.raises(TableError, match=r"types={'v': 'float'}"):
        read(tmp_path / "t.csv").require_numeric("v")


@pytest.mark.parametrize("odd", ["x", 1.5, None, float("nan"), b"\xff", 10**400, [1], object(), "\ud800", 2**53 + 1])
@pytest.mark.parametrize("make", [lambda v: pd.DataFrame({"a": v}), lambda v: {"a": v}], ids=["pandas", "dictionary"])
def test_no_entry_of_a_column_of_objects_changes_the_schema_or_another_entry(odd: Any, make: Any) -> None:
    usual = np.empty(3, dtype=object)
    usual[:] = [2**53 + 2, "ann", 7]
    more = np.empty(4, dtype=object)
    more[:3], more[3] = usual, odd
    for values in (usual, more):
        table = read(make(values))
        assert dict(table.columns) == {"a": "string"}
        keys = ["9007199254740994", "ann", "7"]
        assert table.sums_by_key(rows(), [Capped(Quantity(), 1)], "a", keys) == [[1, 1, 1]]


def test_csv_files_of_two_kinds_are_not_one_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("u,v\n1,2\n")
    (tmp_path / "b.csv").write_text("v,u\n1,2\n")
    with pytest.raises(TableError, match="one header line"):
        read(tmp_path / "*.csv")


def test_compressed_csv_files_have_their_header_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "t.tsv.gz", "wt") as file:
        file.write("u\tv\n1\t2\n")
    assert list(read(tmp_path / "t.tsv.gz").columns) == ["u", "v"]


def test_a_name_with_the_marks_of_a_pattern_is_that_file(tmp_path: Path) -> None:
    for name, count in {"data[1].parquet": 3, "data1.parquet": 10, "*.parquet": 5, "a?.parquet": 7}.items():
        pyarrow.parquet.write_table(pa.table({"a": [1] * count}), tmp_path / name)
    assert read(tmp_path / "data[1].parquet").count_units(rows()) == 3
    assert read(tmp_path / "*.parquet").count_units(rows()) == 5
    assert read(tmp_path / "a?.parquet").count_units(rows()) == 7
    assert read(tmp_path).count_units(rows()) == 25
    assert read(f"{tmp_path}/d*.parquet").count_units(rows()) == 13


def test_csv_types_can_be_stated_even_without_rows(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("u;x\n")
    table = read(tmp_path / "t.csv", types={"x": "float"}, delimiter=";")
    assert table.columns["x"] == "float"
    assert table.capped_sum(users("u"), Quantity("x"), 0, 9) == 0
    with pytest.raises(ColumnMissing):
        read(tmp_path / "t.csv", types={"y": "float"}, delimiter=";")
    with pytest.raises(TableError, match="unknown options"):
        read(tmp_path / "t.csv", colour="red")


def test_a_file_that_vanishes_is_one_fixed_message(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    table = read(path)
    path.unlink()
    with pytest.raises(TableError, match="could not answer") as caught:
        table.count_units(rows())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert path.name not in str(caught.value)


def test_questions_about_missing_or_wrong_columns_are_refused_from_the_schema() -> None:
    table = read(ARROW)
    with pytest.raises(ColumnMissing):
        table.capped_sum(users("who"), Quantity("x"), 0, 1)
    with pytest.raises(ColumnMissing):
        table.capped_sum(users("u"), Quantity("amount"), 0, 1)
    with pytest.raises(TableError, match="cannot be added up"):
        table.capped_sum(users("u"), Quantity("s"), 0, 1)
    with pytest.raises(InvalidTask):
        table.count_units(holdout("h"))


@pytest.mark.parametrize("keys", ["ab", ["a", "a"], ["a", 1], ["a", None]])
def test_keys_that_do_not_fit_the_column_are_refused(keys: Any) -> None:
    with pytest.raises(InvalidTask):
        read(ARROW).sums_by_key(users("u"), [Capped(Quantity(), 1)], "s", keys)


def test_unknown_keys_need_a_limit_on_keys() -> None:
    with pytest.raises(InvalidTask, match="max_keys"):
        read(ARROW).found_sums_by_key(users("u"), [Capped(Quantity(), 1)], "s", Limits())


@pytest.mark.parametrize("edges", [[], [1], [1, 1], [2, 1], [0, 2**81]])
def test_edges_that_are_no_bins_are_refused(edges: list[int]) -> None:
    with pytest.raises(InvalidTask):
        read(ARROW).totals_histogram(rows(), Quantity(), edges)


def test_a_handle_shows_its_schema_and_nothing_else() -> None:
    table = read(ARROW)
    assert repr(table) == "Table(u: integer, x: float, s: string) on duckdb"
    assert not hasattr(table, "__len__")
    assert isinstance(table, Table)
    assert read(table) is table


def test_a_missing_engine_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.tables import _spark as spark

    class Frameless:
        isStreaming = False  # noqa: N815
        columns = ("a",)

        def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802
            raise AssertionError

    monkeypatch.setitem(sys.modules, "ibis.backends.pyspark", None)
    monkeypatch.delitem(vars(ibis), "pyspark", raising=False)
    with pytest.raises(EngineMissing) as caught:
        spark.read_spark(Frameless(), stored=True)
    assert caught.value.install == "pip install 'steelyard[spark]'"


def test_the_callers_own_duckdb_is_left_alone() -> None:
    before = duckdb.sql("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall()
    read(ARROW).count_units(rows())
    assert duckdb.sql("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == before


def test_batches_stream_every_row_once() -> None:
    table = read({"a": np.arange(10_000)})
    sizes = [batch.num_rows for batch in table.batches(["a"], 2048)]
    assert sum(sizes) == 10_000
    assert max(sizes) <= 2048
    stopped = table.batches(["a"], 100)
    next(stopped)
    stopped.close()  # type: ignore[attr-defined]
    with pytest.raises(InvalidTask):
        table.batches(["a"], 0)


ODD = pa.table(
    {
        "x": pa.chunked_array([[1.5, None, float("nan")], [], [-0.0, float("inf")]]),
        "n": pa.chunked_array([[1, 2], [None, 2**62 + 1, -5]]),
        "b": [True, None, False, True, None],
        "s": ["a", "b", None, "a", "b"],
    }
)


@pytest.mark.parametrize("columns", [["x"], ["b", "x", "n"], ["n", "s"]])
@pytest.mark.parametrize("source", [ODD, ODD.slice(0, 0), ODD.slice(1, 3)])
def test_numbers_in_memory_are_what_the_engine_would_hand_out(source: Any, columns: list[str]) -> None:
    table = read(source)
    asked = table._rows.select(*columns)
    made = pa.Table.from_batches(table._engine.batches(table._sql(asked), table._needed(asked), 2))
    found = pa.Table.from_batches(table.batches(columns, 2))
    assert found.schema.names == columns
    assert found.schema.types == made.schema.types
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, made.to_pylist()))
    assert (table._engine.held_batches(columns, 2) is None) == ("s" in columns)


def test_a_table_that_was_changed_is_never_read_past_its_engine() -> None:
    def some(table: Table) -> list[Any]:
        return sorted(row["x"] for batch in table.batches(["x"]) for row in batch.to_pylist())

    few = read({"x": [1.0, 2.0, 3.0]}).where("x > 1.5")
    assert some(few) == [2.0, 3.0]
    few._base = few._rows  # a twin that takes every table for the one that was given
    assert some(few) != [2.0, 3.0]


def test_a_question_that_is_asked_again_reads_the_file_that_is_there(tmp_path: Path) -> None:
    table, part = read(parquet(tmp_path)), Capped(Quantity("x"), 100)
    path = tmp_path / "it's.parquet"

    def asked() -> list[Any]:
        return [
            table.capped_sum(users("u"), Quantity("x"), 0, 100),
            *table.sums_by_key(users("u"), [part], "s", ["a", "b"]),
        ]

    assert [asked() for _ in range(3)] == [[6, [4, 2]]] * 3
    assert set(table._engine._kept) == {("u", "x"), ("u", "x", "s")}  # type: ignore[attr-defined]
    more = pa.concat_tables([ARROW, pa.table({"u": [3] * 9, "x": [1.0] * 9, "s": ["a"] * 9})])
    pyarrow.parquet.write_table(more, path)
    assert asked() == [15, [13, 2]]
    pyarrow.parquet.write_table(more.drop_columns(["x"]), path)
    with pytest.raises(TableError, match="could not answer"):
        asked()
    pyarrow.parquet.write_table(ARROW, path)
    assert asked() == [6, [4, 2]]


def test_questions_at_the_same_moment_have_cursors_of_their_own(tmp_path: Path) -> None:
    table = read(parquet(tmp_path))

    def ask(number: int) -> list[int]:
        keys = ["a", "b"] if number % 2 else ["b", "a"]
        return table.sums_by_key(users("u"), [Capped(Quantity("x"), 100)], "s", keys)[0]

    with ThreadPoolExecutor(8) as crew:
        found = list(crew.map(ask, range(40)))
    assert found == [[4, 2] if number % 2 else [2, 4] for number in range(40)]


def test_a_cursor_whose_question_failed_is_kept_for_no_other(tmp_path: Path) -> None:
    engine = read(parquet(tmp_path))._engine
    ask = "SELECT sum(x) FROM steelyard_plain"
    for wrong in ("SELECT 1 // 0 FROM nowhere", "SELECT error('told') FROM steelyard_plain"):
        assert engine.rows(ask, ["x"]) == [(10.0,)]
        assert len(engine._kept) == 1  # type: ignore[attr-defined]
        with pytest.raises(TableError, match="could not answer"):
            engine.rows(wrong, ["x"])
        assert not engine._kept  # type: ignore[attr-defined]


def test_a_cursor_that_shows_another_table_beside_the_files_is_kept_for_no_other(tmp_path: Path) -> None:
    engine, numbers = read(parquet(tmp_path))._engine, itertools.count()
    beside = engine.showing({"steelyard_other": lambda: pa.table({"o": [next(numbers)]})})
    assert engine.rows("SELECT count(x) FROM steelyard_plain", ["x"]) == [(4,)]
    ask = "SELECT max(o), count(x) FROM steelyard_other, steelyard_plain"
    assert [beside.rows(ask, ["x"]) for _ in range(2)] == [[(0, 4)], [(1, 4)]]  # made anew for each question
    with pytest.raises(TableError, match="could not answer"):
        engine.rows(ask, ["x"])
