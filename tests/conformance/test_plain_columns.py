"""One row never decides between failure and answer, nor under which name other people's rows are counted."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.errors import InvalidTask, TableError
from steelyard.privacy import rows, users
from steelyard.tables import Capped, Limits, Quantity, Table, read
from steelyard.tables import _plain as plain

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::steelyard.errors.UncheckedQuery"),
]

EACH = [Capped(Quantity(), 1)]
TEN = Limits(max_keys=10)


def in_duckdb(folder: Path, *statements: str) -> Table:
    with duckdb.connect(str(folder / "t.db")) as connection:
        for statement in statements:
            connection.execute(statement)
    return read(f"duckdb:///{folder}/t.db::t")


def in_sqlite(folder: Path, columns: str, *data: tuple[Any, ...]) -> Table:
    with closing(sqlite3.connect(folder / "q.db")) as connection:
        connection.execute(f"CREATE TABLE t ({columns})")
        for row in data:
            connection.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", row)
        connection.commit()
    return read(f"sqlite:///{folder}/q.db::t")


def torn(*texts: bytes) -> pa.Array:
    """An Arrow column of text that need not be text."""
    return pa.array(list(texts), pa.binary()).view(pa.string())


def test_a_collation_gives_nobodys_rows_to_another_key(tmp_path: Path) -> None:
    people = "INSERT INTO t SELECT i, 'a' FROM range(1000) r(i)"
    made = 'CREATE TABLE t ("user" INT, k VARCHAR COLLATE NOCASE)'
    table = in_duckdb(tmp_path, made, "INSERT INTO t VALUES (5000, 'A')", people)
    assert table.sums_by_key(users("user"), EACH, "k", ["a", "A", "b"]) == [[1000, 1, 0]]
    assert table.found_sums_by_key(users("user"), EACH, "k", TEN) == {"a": (1000, [1000]), "A": (1, [1])}
    assert table.count_units(users("k")) == 2
    assert table.capped_sum(users("k"), Quantity(), 0, 10) == 11
    assert sum(batch.num_rows for batch in table.keep_rows(users("k"), 3).batches(["k"])) == 4


def test_a_collation_that_is_kept_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "BY_BYTES", plain.AS_IT_IS)
    made = "CREATE TABLE t AS SELECT i AS u, CAST('a' AS VARCHAR) COLLATE NOCASE AS k FROM range(9) r(i)"
    table = in_duckdb(tmp_path, made, "INSERT INTO t VALUES (5000, 'A')")
    assert table.sums_by_key(users("u"), EACH, "k", ["a", "A"]) != [[9, 1]]


def test_sparks_collations_are_bytes_too(spark: Any) -> None:
    frame = spark.createDataFrame([(i, "A" if i == 5 else "a") for i in range(10)], "u int, k string")
    table = read(frame.selectExpr("u", "collate(k, 'UTF8_LCASE') AS k"))
    assert table.sums_by_key(users("u"), EACH, "k", ["a", "A"]) == [[9, 1]]
    assert table.count_units(users("k")) == 2


@pytest.mark.parametrize("largest", ["0.01", "1.50", "123456789012345678.25"])
def test_no_decimal_key_asks_how_large_the_column_is(open_table: Callable[[Any], Table], largest: str) -> None:
    column = pa.array([Decimal("0.25"), Decimal(largest), None], pa.decimal128(20, 2))
    table = open_table(pa.table({"k": column, "u": [1, 2, 3]}))
    cannot = [Decimal("1E-38"), Decimal("0.255"), Decimal("1E-900000"), 10**36, Decimal("1E+18")]
    there = [Decimal("0.25"), Decimal("0.2500"), Decimal(largest).normalize()]
    for key in cannot:
        assert table.sums_by_key(rows(), EACH, "k", [key]) == [[0]]
    assert [table.sums_by_key(users("u"), EACH, "k", [key])[0][0] for key in there] == [1, 1, 1]
    assert table.sums_by_key(rows(), EACH, "k", [*cannot, there[0], there[2]]) == [[0, 0, 0, 0, 0, 1, 1]]


def test_an_integer_of_more_than_38_digits_is_missing(tmp_path: Path) -> None:
    huge = f"({2**127 - 1}, 2), ({-(2**127)}, 3), ({10**38}, 4), ({10**38 - 1}, 5), (7, 6)"
    table = in_duckdb(tmp_path, "CREATE TABLE t (k HUGEINT, u INT)", f"INSERT INTO t VALUES {huge}")
    assert table.sums_by_key(rows(), EACH, "k", [7, 8]) == [[1, 0]]
    assert set(table.found_sums_by_key(users("u"), EACH, "k", TEN)) == {Decimal(7), Decimal(10**38 - 1)}
    assert table.count_units(users("k")) == 2
    assert table.capped_sum(users("u"), Quantity("k"), 0, 100) == 107
    assert sum(batch.num_rows for batch in table.batches_by_unit(["u"], users("k"))) == 2


def test_days_and_moments_that_python_cannot_hold_are_missing(tmp_path: Path) -> None:
    odd = ["'infinity'", "'-infinity'", "'290000-01-01'", "'2000-01-01 (BC)'", "'2020-02-03'", "'9999-12-28'"]
    kinds = {"d": "DATE", "m": "TIMESTAMP", "z": "TIMESTAMPTZ", "s": "TIMESTAMP_S"}
    made = f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in kinds.items())}, u INT)"
    cells = ", ".join(f"({', '.join([text] * 4)}, {i})" for i, text in enumerate(odd))
    table = in_duckdb(tmp_path, made, f"INSERT INTO t VALUES {cells}")
    days = {datetime.date(2020, 2, 3), datetime.date(9999, 12, 28)}
    assert set(table.found_sums_by_key(users("u"), EACH, "d", TEN)) == days
    assert table.sums_by_key(users("u"), EACH, "d", [datetime.date.min, datetime.date.max, *days]) == [[0, 0, 1, 1]]
    for name in ("d", "m", "s"):
        held = [row for batch in table.batches_by_unit(["u"], users(name)) for row in batch.to_pylist()]
        assert {row["u"] for row in held} == {4, 5}
    assert [table.count_units(users(name)) for name in kinds] == [2, 2, 2, 2]


def test_so_they_are_on_spark(spark: Any) -> None:
    day = "date_add(date'9999-12-31', CAST(id - 1 AS INT))"
    moment = "CASE WHEN id = 2 THEN timestamp_micros(253402400000000000) ELSE timestamp'2020-02-03 10:00:00' END"
    table = read(spark.range(3).selectExpr("id", f"{day} AS d", f"{moment} AS m"))
    days = {datetime.date(9999, 12, 30), datetime.date(9999, 12, 31)}
    assert set(table.found_sums_by_key(users("id"), EACH, "d", TEN)) == days
    assert table.sums_by_key(users("id"), EACH, "d", sorted(days)) == [[1, 1]]
    held = [row for batch in table.batches_by_unit(["id"], users("m")) for row in batch.to_pylist()]
    assert sorted(row["id"] for row in held) == [0, 1]


def test_bytes_that_are_no_text_are_read_with_a_mark(tmp_path: Path) -> None:
    data = pa.table({"k": torn(b"a", b"b\xc3", b"\xff", b"ok"), "u": [1, 2, 3, 4]})
    pq.write_table(data, tmp_path / "torn.parquet")
    for source in (
        data,
        tmp_path / "torn.parquet",
        pa.table({"k": data["k"].combine_chunks().dictionary_encode(), "u": data["u"]}),
    ):
        table = read(source)
        assert table.sums_by_key(users("u"), EACH, "k", ["a", "ok", "b?"]) == [[1, 1, 1]]
        assert set(table.found_sums_by_key(users("u"), EACH, "k", TEN)) == {"a", "b?", "?", "ok"}
        assert table.count_units(users("k")) == 4
        held = [row["k"] for batch in table.keep_rows(users("k"), 1).batches(["k"]) for row in batch.to_pylist()]
        assert sorted(held) == ["?", "a", "b?", "ok"]


def test_so_they_are_on_spark_too(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": torn(b"a", b"b\xc3", b"\xff"), "u": [1, 2, 3]}), tmp_path / "torn.parquet")
    table = read(spark.read.parquet(str(tmp_path / "torn.parquet")))
    assert table.sums_by_key(users("u"), EACH, "k", ["a", "b\ufffd"]) == [[1, 1]]
    assert set(table.found_sums_by_key(users("u"), EACH, "k", TEN)) == {"a", "b\ufffd", "\ufffd"}
    assert len([row for batch in table.batches_by_unit(["u"], users("k")) for row in batch.to_pylist()]) == 3


def test_half_a_surrogate_pair_is_refused_as_a_key() -> None:
    with pytest.raises(InvalidTask, match="is not one"):
        read({"k": ["a"]}).sums_by_key(rows(), EACH, "k", ["\ud800"])


def test_a_cell_of_sqlite_may_hold_anything(tmp_path: Path) -> None:
    columns = "u INTEGER, x REAL, s TEXT COLLATE NOCASE, d DATE, n DECIMAL(10, 2), untyped"
    odd = ("word", "word", b"\xff", "rubbish", "rubbish", "word")
    table = in_sqlite(
        tmp_path, columns, (2**53 + 1, 1.5, "a", "2020-02-03", 1.25, 1), odd, (2**53, 2, "A", 5, 7, 2.5), (None,) * 6
    )
    assert dict(table.columns) == {"u": "integer", "x": "float", "s": "string", "d": "date", "n": "decimal"}
    assert table.count_units(users("u")) == 2
    assert table.capped_sum(users("u"), Quantity("x"), 0, 100) == 4
    assert table.sums_by_key(rows(), EACH, "u", [2**53, 2**53 + 1]) == [[1, 1]]
    assert table.sums_by_key(rows(), EACH, "s", ["a", "A"]) == [[1, 1]]
    assert set(table.found_sums_by_key(rows(), EACH, "d", TEN)) == {datetime.date(2020, 2, 3)}
    assert table.sums_by_key(rows(), EACH, "n", [Decimal("1.25"), 7]) == [[1, 1]]


def test_text_of_sqlite_that_is_none_is_read_with_a_mark(tmp_path: Path) -> None:
    table = in_sqlite(tmp_path, "s TEXT", ("a",))
    with closing(sqlite3.connect(tmp_path / "q.db")) as connection:
        connection.execute("INSERT INTO t VALUES (CAST(x'62c3' AS TEXT))")
        connection.commit()
    assert set(table.found_sums_by_key(rows(), EACH, "s", TEN)) == {"a", "b\ufffd"}


def test_a_table_of_sqlite_needs_declared_types_and_no_rows(tmp_path: Path) -> None:
    assert in_sqlite(tmp_path, "u INTEGER, untyped").count_units(rows()) == 0
    (tmp_path / "q.db").unlink()
    with pytest.raises(TableError, match="declares a type"):
        in_sqlite(tmp_path, "untyped", (1,))


@pytest.mark.parametrize("cells", [(1, "one"), ("one", 1), (1, 2)], ids=str)
def test_no_row_of_sqlite_decides_a_kind_through_ibis_either(cells: tuple[Any, ...], tmp_path: Path) -> None:
    in_sqlite(tmp_path, "u INTEGER, untyped", *((1, cell) for cell in cells))
    backend = ibis.sqlite.connect(tmp_path / "q.db")
    table = read(backend.table("t"))
    assert dict(table.columns) == {"u": "integer"}
    assert table.stored
    assert table.count_units(rows()) == len(cells)
    backend.disconnect()
