"""Tables of a real PostgreSQL whose rows are fetched: the integers of DuckDB, and no cell that decides whether there is an answer."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import ibis
import psycopg
import pytest

import postgres
import steelyard as sy
from steelyard.errors import TableError, UncheckedQuery
from steelyard.tables import Capped, Quantity, _databases, _frames, _postgres
from steelyard.tables._identity import base_table

CENTS = Fraction(1, 100)
LONGEST = _postgres._LONGEST
COLUMNS = (
    "u bigint, k text, x double precision, n numeric, m numeric(12, 2), d date, t timestamp, z timestamptz, "
    "b boolean, r real, i smallint, j jsonb, w varchar(9), long numeric(60, 3)"
)
PLAIN = [
    "(1, 'a', 1.5, 2.5, 3.25, '2024-01-01', '2024-01-01', '2024-01-01', true, 0.5, 3, '{}', 'é', 1.125)",
    "(1, 'b', 2.005, 7.125, 0.1, '2024-01-02', '2024-01-01 12:00', '2024-01-01 12:00+02', false, 0.1, -3, null, 'x', 2)",
    "(2, 'a', -4, -0.005, null, null, null, null, null, null, null, null, null, null)",
    "(null, 'a', 9, 9, 9, '2024-01-03', null, null, true, 9, 9, null, '', 9)",
]
HOSTILE = [
    "(3, 'A', 'NaN', 'NaN', 0, 'infinity', 'infinity', 'infinity', null, 'NaN', 1, null, null, null)",
    "(4, E'tab\\t\\\\N\\nnew', 'Infinity', 'Infinity', 0, '-infinity', '-infinity', '-infinity', null, '-Infinity', 1, null, '', 0)",
    "(5, '', 1e308, 1e200, 0, '0044-03-15 BC', '0044-03-15 BC', '0044-03-15 BC', true, 1e38, 1, '[1]', '\\N', 1e50)",
    "(6, 'e\u0301', 5e-324, 1e-200, -0.01, '9999-12-31', '9999-12-29', '9999-12-29', true, 1e-45, 1, '1', 'é', 0)",
    "(7, 'é', '-Infinity', '-Infinity', 0, '5000000-01-01', '200000-01-01', '200000-01-01', true, 0, 1, '1', 'é', 0)",
]


@pytest.fixture
def place() -> Iterator[tuple[Any, str]]:
    """A connection, and the address of a new table with plain rows."""
    name = f"orders_{secrets.token_hex(4)}"
    with psycopg.connect(postgres.server(), autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} ({COLUMNS})")
        connection.execute(f"INSERT INTO {name} VALUES {', '.join(PLAIN)}")
        yield connection, name
        connection.execute(f"DROP TABLE {name} CASCADE")


def opened(name: str) -> Any:
    return sy.read(f"{postgres.server()}::{name}", in_place=False)


def integers(table: Any) -> dict[str, int]:
    return {
        name: table.capped_sum(sy.users("u"), Quantity(name, CENTS), -(2**40), 2**40)
        for name in ("x", "n", "m", "b", "r", "i", "long")
    }


def test_a_table_is_stored_rows_and_its_columns_have_their_kinds(place: tuple[Any, str]) -> None:
    table = opened(place[1])
    assert table.stored
    kinds = dict(table.columns)
    assert [kinds[name] for name in ("u", "k", "x", "n", "m", "d", "t", "z", "b", "long")] == [
        "integer", "string", "float", "float", "decimal", "date", "timestamp", "timestamp", "boolean", "float",
    ]  # fmt: skip


def test_the_integers_are_those_of_the_reference(place: tuple[Any, str]) -> None:
    found = integers(opened(place[1]))
    of = Quantity("x", CENTS).integer
    assert found["x"] == of(1.5) + of(2.005) + of(-4.0)
    assert found["n"] == of(2.5) + of(7.125) + of(-0.005)
    assert found["r"] == of(0.5) + of(0.10000000149011612)
    assert (found["m"], found["b"], found["i"], found["long"]) == (335, 100, 0, of(1.125) + of(2.0))
    table = opened(place[1])
    assert table.sums_by_key(sy.users("u"), [Capped(Quantity(), 5)], "k", ["a", "b", "z"]) == [[2, 1, 0]]


def test_no_cell_decides_whether_there_is_an_answer(place: tuple[Any, str]) -> None:
    connection, name = place
    before = integers(opened(name))
    connection.execute(f"INSERT INTO {name} VALUES {', '.join(HOSTILE)}")
    table = opened(name)
    after, of = integers(table), Quantity("x", CENTS).integer
    assert after["x"] - before["x"] == min(of(1e308), 2**40)
    assert after["n"] - before["n"] == min(of(1e200), 2**40)
    assert after["r"] - before["r"] == min(of(float(math.ldexp(round(math.ldexp(1e38, -103)), 103))), 2**40)
    assert after["m"] - before["m"] == -1
    assert [table.count_units(sy.users(each)) for each in ("u", "k", "d", "t", "z", "w")] == [7, 7, 4, 3, 3, 4]


def through_objects(table: Any) -> Any:
    """The twin: cells as the driver makes them."""
    table = table.select("u", "d")
    empty = table.schema().to_pyarrow().empty_table()
    return _frames.bind_stream(lambda columns: table.select(*columns).to_pyarrow(), empty)


def test_a_driver_that_makes_objects_of_cells_lets_one_row_decide(
    place: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, name = place
    connection.execute(f"INSERT INTO {name} VALUES {HOSTILE[0]}")
    monkeypatch.setattr(_databases, "bind_postgres", through_objects)
    with pytest.raises(TableError, match="could not answer"):
        opened(name).count_units(sy.users("d"))


LONG = [
    ("jsonb", "SELECT 9, jsonb_agg(1e131071) FROM generate_series(1, 9000)"),  # two kilobytes, whose text is a gigabyte
    ("numeric[]", "SELECT 9, array_agg(1e131071) FROM generate_series(1, 9000)"),
]


@pytest.mark.parametrize(("kind", "cell"), LONG)
def test_a_cell_whose_text_is_longer_than_a_server_can_send_is_no_failure(
    place: tuple[Any, str], kind: str, cell: str
) -> None:
    connection, name = place
    connection.execute(f"CREATE TABLE {name}_long (v {kind}, u bigint)")
    connection.execute(f"INSERT INTO {name}_long (u, v) {cell}")
    try:
        table = opened(f"{name}_long")
        assert (table.columns["v"], table.count_units(sy.rows()), table.count_units(sy.users("u"))) == ("other", 1, 1)
    finally:
        connection.execute(f"DROP TABLE {name}_long")


def test_a_text_beyond_the_limit_is_missing_and_those_below_it_fit_in_a_row_and_a_batch(
    place: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_postgres, "_LONGEST", 10)
    connection, name = place
    connection.execute(f"CREATE TABLE {name}_long (v text, h bytea, m money, p polygon)")
    connection.execute(
        f"INSERT INTO {name}_long VALUES ('0123456789', '\\x0011', 1234.5, NULL), ('0123456789a', '\\x001122334455', -0.5, NULL), ('ééééé', NULL, NULL, NULL), ('éééééa', NULL, NULL, NULL)"
    )
    try:
        table = opened(f"{name}_long")
        assert [table.count_units(sy.users(each)) for each in ("v", "h")] == [2, 1]
        assert table.capped_sum(sy.rows(), Quantity("m", CENTS), -(2**40), 2**40) == 123_400
        assert table.columns["p"] == "other"
    finally:
        connection.execute(f"DROP TABLE {name}_long")
    assert _postgres._BATCH * LONGEST < 2**31, "a column of a batch is one array"
    assert 2 * 1600 * LONGEST < 2**30, "a row is one message, each byte of it escaped"


def test_a_column_that_is_worked_out_as_it_is_read_makes_a_table_one_as_given(place: tuple[Any, str]) -> None:
    """Else one row of zero decides whether there is an answer."""
    connection, name = place
    connection.execute(f"ALTER TABLE {name} ADD share int GENERATED ALWAYS AS (10 / i) VIRTUAL")
    with pytest.warns(UncheckedQuery):
        assert not opened(name).stored


def test_a_table_with_a_foreign_part_is_one_as_given(place: tuple[Any, str]) -> None:
    connection, name = place
    connection.execute(f"CREATE FOREIGN DATA WRAPPER {name}_w")
    connection.execute(f"CREATE SERVER {name}_s FOREIGN DATA WRAPPER {name}_w")
    connection.execute(f"CREATE TABLE {name}_child () INHERITS ({name})")
    try:
        assert base_table(connection, name, "postgres")
        connection.execute(f"CREATE FOREIGN TABLE {name}_far () INHERITS ({name}_child) SERVER {name}_s")
        assert not base_table(connection, name, "postgres")
    finally:
        connection.execute(f"DROP FOREIGN DATA WRAPPER {name}_w CASCADE")


def test_a_table_that_cannot_be_shown_is_refused_before_a_charge(place: tuple[Any, str]) -> None:
    connection, name = place
    connection.execute(f"ALTER TABLE {name} ADD c regclass")
    with pytest.raises(TableError, match="does not know"):
        opened(name)


def test_a_long_table_comes_in_batches(place: tuple[Any, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_postgres, "_BATCH", 2)
    connection, name = place
    connection.execute(f"INSERT INTO {name} (u, x) SELECT g, 1 FROM generate_series(10, 30) AS g")
    table = opened(name)
    assert table.count_units(sy.users("u")) == 23
    release = sy.Session(
        table, sy.open_account(":memory:", "pg", unit=sy.users("u"), epsilon=40, delta="1e-6")
    ).release(sy.Count(epsilon=30, cap=3))
    assert abs(release.value - 24) < 10


def test_a_view_of_a_database_is_a_table_as_given(place: tuple[Any, str]) -> None:
    connection, name = place
    connection.execute(f"CREATE VIEW {name}_v AS SELECT u, max(x) OVER () AS x FROM {name}")
    with pytest.warns(UncheckedQuery):
        assert not opened(f"{name}_v").stored


def test_row_security_makes_a_table_one_as_given(place: tuple[Any, str]) -> None:
    connection, name = place
    connection.execute(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY")
    with pytest.warns(UncheckedQuery):
        assert not opened(name).stored


def test_a_table_whose_columns_may_not_all_be_read_is_refused_with_what_to_do(place: tuple[Any, str]) -> None:
    connection, name = place
    role = f"reader_{secrets.token_hex(4)}"
    connection.execute(f"CREATE ROLE {role}")
    try:
        connection.execute(f"GRANT SELECT (u, x) ON {name} TO {role}")
        table = ibis.connect(postgres.server()).table(name)
        table.get_backend().con.execute(f"SET ROLE {role}")
        with pytest.raises(TableError, match=r"does not show the table \(InsufficientPrivilege\)"):
            sy.read(table)
        table.get_backend().disconnect()
    finally:
        connection.execute(f"DROP OWNED BY {role}")
        connection.execute(f"DROP ROLE {role}")
