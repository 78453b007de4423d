"""A query in front of a table is not checked, so nothing about it may be called proved without saying so."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import steelyard as sy
from steelyard.errors import UncheckedQuery
from steelyard.release import Guarantee
from steelyard.tables import Table

ROWS = {"user": [1, 2, 2], "v": [1.0, 2.0, 3.0]}
MIXING = "SELECT user, max(v) OVER () AS v FROM t"
Make = Callable[[Path], Any]

pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The 'future.infer_string' option:DeprecationWarning"),
]


def _duckdb(folder: Path) -> Any:
    connection = duckdb.connect(str(folder / "t.db"))
    connection.execute("CREATE TABLE t(user INT, v DOUBLE); INSERT INTO t VALUES (1, 1), (2, 2), (2, 3)")
    connection.execute(f"CREATE VIEW w AS {MIXING}")
    return connection


def _duckdb_file(folder: Path, name: str) -> str:
    _duckdb(folder).close()
    return f"duckdb:///{folder}/t.db::{name}"


def _sqlite_file(folder: Path, name: str) -> str:
    with closing(sqlite3.connect(folder / "s.db")) as connection:
        connection.executescript("CREATE TABLE t(user INT, v REAL); CREATE VIEW w AS SELECT user, v FROM t LIMIT 1")
    return f"sqlite:///{folder}/s.db::{name}"


def _ibis(folder: Path) -> Any:
    _duckdb(folder).close()
    return ibis.duckdb.connect(str(folder / "t.db"))


STORED: dict[str, Make] = {
    "dictionary": lambda folder: ROWS,
    "pandas": lambda folder: pd.DataFrame(ROWS),
    "polars": lambda folder: pl.DataFrame(ROWS),
    "arrow": lambda folder: pa.table(ROWS),
    "relation of a table": lambda folder: _duckdb(folder).table("t"),
    "duckdb table": lambda folder: _duckdb_file(folder, "t"),
    "duckdb table in its schema": lambda folder: _duckdb_file(folder, "main.t"),
    "sqlite table": lambda folder: _sqlite_file(folder, "t"),
    "ibis table": lambda folder: _ibis(folder).table("t"),
    "ibis in memory": lambda folder: ibis.memtable(ROWS),
    "filtered relation, which is checked": lambda folder: _duckdb(folder).table("t").filter("v > 1"),
}
QUERIES: dict[str, Make] = {
    "lazy polars": lambda folder: pl.LazyFrame(ROWS).with_columns(v=pl.col("v").max()),
    "relation of a query": lambda folder: _duckdb(folder).sql(MIXING),
    "relation of a view": lambda folder: _duckdb(folder).view("w"),
    "limited relation": lambda folder: _duckdb(folder).table("t").limit(1),
    "duckdb view": lambda folder: _duckdb_file(folder, "w"),
    "sqlite view": lambda folder: _sqlite_file(folder, "w"),
    "ibis view": lambda folder: _ibis(folder).table("w"),
    "ibis expression": lambda folder: _ibis(folder).table("t").limit(1),
}


def _released(table: Table) -> Any:
    account = sy.open_account(":memory:", "a", unit=sy.users("user"), epsilon=1)
    return sy.Session(table, account).release(sy.Sum("v", epsilon=1, cap=3))


@pytest.mark.parametrize("name", STORED)
def test_stored_rows_are_read_without_a_warning_and_promised_without_a_condition(name: str, tmp_path: Path) -> None:
    release = _released(sy.read(STORED[name](tmp_path)))
    assert "as given" not in str(release.guarantee)


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_warns_and_is_promised_as_given(name: str, tmp_path: Path) -> None:
    source = QUERIES[name](tmp_path)
    with pytest.warns(UncheckedQuery, match="table as given") as caught:
        table = sy.read(source)
    assert caught[0].filename == __file__
    guarantee = _released(table).guarantee
    assert "proved of the table as given, not checked" in str(guarantee)
    assert Guarantee.from_json(guarantee.to_json()) == guarantee


def test_a_part_of_a_query_is_still_as_given(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncheckedQuery)
        table = sy.read(_duckdb(tmp_path).sql(MIXING))
    assert not table.keep_rows(sy.users("user"), 1).stored
