"""Tables of a real PostgreSQL: the integers of DuckDB, and no cell that decides whether there is an answer."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import psycopg
import pytest

import postgres
import steelyard as sy
from steelyard.errors import TableError, UncheckedQuery
from steelyard.tables import Capped, Quantity, _databases, _frames, _postgres

CENTS = Fraction(1, 100)
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
    return sy.read(f"{postgres.server()}::{name}")


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
