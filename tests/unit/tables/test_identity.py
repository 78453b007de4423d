"""Which table a request is about: what was written to name it, never what its rows hold."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

from steelyard.bounding import Count, Sum
from steelyard.errors import InvalidTask, KeyConflict
from steelyard.ledger import Ledger, open_account
from steelyard.models.accuracy import GradualSum
from steelyard.privacy import users
from steelyard.session import Session
from steelyard.tables import read
from steelyard.tables._identity import identify

ONE = {"u": [1, 1, 2], "x": [1.0, 2.0, 3.0]}
OTHER = {"u": [7, 8, 9, 9], "x": [0.5, -1.0, float("nan"), 2.0]}

pytestmark = [
    pytest.mark.filterwarnings("ignore::steelyard.errors.UncheckedQuery"),
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),  # of Ibis
]


def parquet(folder: Path, data: Any) -> str:
    (folder / "part").mkdir(exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(data), folder / "part" / "a.parquet")
    return str(folder / "part" / "a.parquet")


def glob(folder: Path, data: Any) -> str:
    for number in range(len(data["u"])):  # as many files as rows
        pyarrow.parquet.write_table(pyarrow.table(data), Path(parquet(folder, data)).with_stem(f"b{number}"))
    return str(folder / "part" / "*.parquet")


def duckdb_url(folder: Path, data: Any) -> str:
    with duckdb.connect(str(folder / "t.db")) as connection:
        connection.from_arrow(pyarrow.table(data)).create("t") if not connection.sql("SHOW TABLES").fetchall() else None
    return f"duckdb:///{folder / 't.db'}::t"


def relation(folder: Path, data: Any) -> Any:
    connection = duckdb.connect()
    held = pyarrow.table(data)
    connection.register("held", held)
    return connection.sql("SELECT u, x FROM held WHERE x > 1")


def expression(folder: Path, data: Any) -> Any:
    return ibis.memtable(pyarrow.table(data)).filter(ibis._.x > 1)


def guessed(folder: Path, data: Any) -> Any:
    odd = '"one, or two"' if data is OTHER else "1.0"  # DuckDB looks at it, and guesses other quotes and another type
    (folder / "a.csv").write_text(f"u,x\n1,1.0\n2,{odd}\n")
    return duckdb.connect().read_csv(str(folder / "a.csv")).filter("u IS NOT NULL")


def written_out(_: Path, data: Any) -> Any:
    return duckdb.values([duckdb.ConstantExpression(data["u"][0]), duckdb.ConstantExpression(data["x"][0])])


SOURCES: dict[str, Callable[[Path, Any], Any]] = {
    "a file": parquet,
    "a glob": glob,
    "a list": lambda folder, data: [parquet(folder, data)],
    "a database": duckdb_url,
    "pandas": lambda _, data: pandas.DataFrame(data),
    "polars": lambda _, data: polars.DataFrame(data),
    "a lazy frame": lambda _, data: polars.LazyFrame(data),
    "arrow": lambda _, data: pyarrow.table(data),
    "a dictionary": lambda _, data: data,
    "a relation": relation,
    "an expression": expression,
    "a relation of a file": guessed,
    "a relation of values": written_out,
    "a query of values": lambda _, data: duckdb.connect().sql(
        f"SELECT * FROM (values ({data['u'][0]}, 1.0)) AS t (u, x)"
    ),
    "a file of Ibis": lambda folder, data: ibis.duckdb.connect().read_parquet(parquet(folder, data)),
}


def identities(of: Callable[[Any], str], make: Callable[[Path, Any], Any], folder: Path) -> set[str]:
    return {of(make(folder, data)) for data in (ONE, OTHER, ONE)}


@pytest.mark.parametrize("name", SOURCES)
def test_no_identity_depends_on_rows(name: str, tmp_path: Path) -> None:
    (only,) = identities(lambda source: read(source).identity, SOURCES[name], tmp_path)
    assert only.isprintable()


def test_the_twin_that_looks_at_files_and_rows_is_caught(tmp_path: Path) -> None:
    by_size = lambda source: f"{source} of {len(list(Path(source).parent.iterdir()))} files"  # noqa: E731
    assert len(identities(by_size, glob, tmp_path)) > 1
    assert len(identities(lambda frame: f"{len(frame)} rows", SOURCES["pandas"], tmp_path)) > 1


def test_an_identity_is_what_was_written() -> None:
    named = [
        read(ONE, name="sales of May").identity,
        read(read(ONE), name="sales of May").identity,
        read(ONE).identity,
        read(pandas.DataFrame(ONE)).identity,
        read(duckdb.connect().sql("SELECT 1 AS u, 2 AS x")).identity,
    ]
    assert named == [
        "the table named 'sales of May'",
        "the table named 'sales of May'",
        "a dict table of 'u': integer, 'x': float",
        "a pandas table of 'u': integer, 'x': float",
        "the query 'SELECT 1 AS u, 2 AS x'",
    ]


def test_two_files_are_two_tables_whatever_their_names_look_like() -> None:
    one, two = (identify(f"sales?pwd={number}.csv", None, {}) for number in (1, 2))
    assert one != two


@pytest.mark.parametrize(
    "address", ["postgres://ann:{}@db/shop", "dbname=shop password={}", "dbname=shop password={} port=1"]
)
def test_no_password_is_told_of_a_query(address: str) -> None:
    class Relation:
        def sql_query(self) -> str:
            return f"SELECT * FROM postgres_scan('{address.format('hunter2')}', 'public', 't')"

    Relation.__module__ = "duckdb"
    assert identify(Relation(), None, {}) == f"the query {Relation().sql_query().replace('hunter2', '***')!r}"


def test_what_is_kept_of_a_table_is_of_that_table(tmp_path: Path) -> None:
    table = read(parquet(tmp_path, ONE), name="t")
    assert table.keep_rows(users("u"), 1).identity == table.identity


def test_a_relation_is_the_same_in_another_process(tmp_path: Path) -> None:
    script = """
import duckdb, pyarrow, warnings
from steelyard.tables import read
warnings.simplefilter("ignore")
held = pyarrow.table({"u": [5], "x": [5.0]})
print(read(duckdb.connect().register("held", held).sql("SELECT u, x FROM held WHERE x > 1")).identity)
"""
    told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.strip()
    assert told == read(relation(tmp_path, ONE)).identity


def test_long_identities_are_kept_by_their_digest() -> None:
    long = [f"part-{i:06}.parquet" for i in range(5000)]
    one, two = identify(long, None, {}), identify([*long[:-1], "other.parquet"], None, {})
    assert (len(one) < 300, one == two, one[:100] == two[:100]) == (True, False, True)


@pytest.mark.parametrize("name", ["", "a\nb", 3, "x" * 201])
def test_a_name_is_short_printable_text(name: Any) -> None:
    with pytest.raises(InvalidTask, match="name"):
        read(ONE, name=name)


def test_another_table_under_the_same_key_is_refused_and_both_are_named(tmp_path: Path) -> None:
    account = open_account(tmp_path / "b.db", "a", unit=users("u"), epsilon=3)
    may, june = parquet(tmp_path, ONE), str(tmp_path / "june.parquet")
    pyarrow.parquet.write_table(pyarrow.table(OTHER), june)
    task = Sum("x", epsilon=1, cap=5)
    first = Session(read(may), account).release(task, key="monthly")
    with pytest.raises(KeyConflict) as refusal:
        Session(read(june), account).release(task, key="monthly")
    assert repr(may) in str(refusal.value)
    assert repr(june) in str(refusal.value)
    with pytest.raises(KeyConflict, match=r"another request, of .*a\.parquet"):
        Session(read(june), account).release(Count(epsilon=1, cap=1), key="monthly")
    assert str(account.spent) == "epsilon 1"
    assert first.stored_on is None
    assert any(repr(may) in entry.request for entry in Ledger(account.location).entries())


def test_the_same_file_with_other_rows_is_a_retry_that_says_so(tmp_path: Path) -> None:
    account = open_account(tmp_path / "b.db", "a", unit=users("u"), epsilon=3)
    task = Sum("x", epsilon=1, cap=5)
    first = Session(read(parquet(tmp_path, ONE)), account).release(task, key="k")
    again = Session(read(parquet(tmp_path, OTHER)), account).release(task, key="k")
    assert (again.value, again == first, again.to_json()) == (first.value, True, first.to_json())
    assert again.stored_on is not None
    assert f"stored on {again.stored_on}, returned again" in str(again)
    assert "returned again" not in str(first)
    assert str(account.spent) == "epsilon 1"


def test_a_name_makes_two_places_one_table(tmp_path: Path) -> None:
    account = open_account(tmp_path / "b.db", "a", unit=users("u"), epsilon=3)
    task = Sum("x", epsilon=1, cap=5)
    first = Session(read(parquet(tmp_path, ONE), name="sales"), account).release(task, key="k")
    moved = Session(read(pandas.DataFrame(ONE), name="sales"), account).release(task, key="k")
    assert moved.value == first.value


def test_a_dialogue_is_bound_to_its_table(tmp_path: Path) -> None:
    account = open_account(tmp_path / "b.db", "a", unit=users("u"), mu=3)
    asked = GradualSum("x", cap=5)
    Session(read(ONE, name="May"), account).open(asked, key="path").refine(mu="0.5")
    with pytest.raises(KeyConflict, match=r"'May'.*'June'"):
        Session(read(ONE, name="June"), account).open(asked, key="path").refine(mu="0.5")
