"""Relations and expressions are checked by their text: those that keep people apart are proved, the others stay as given."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import duckdb
import ibis
import pytest

import steelyard as sy
from steelyard.errors import UncheckedQuery, ViewRefused
from steelyard.privacy import users
from steelyard.tables import Quantity, read

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def con() -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.execute(
            "create table orders as select range % 5 as u, range::double as v, 'k' || range % 3 as k from range(40)"
        )
        connection.execute("create table people as select range as u, range * 10 as age from range(4)")
        connection.execute("create view seen as select * from orders where v > (select avg(v) from orders)")
        yield connection


def account(unit: Any = None) -> Any:
    return sy.open_account(":memory:", "a", unit=unit or users("u"), epsilon=10)


CHECKED = [
    "select u, v from orders where v > 3",
    "select u, v * 2 as w, k from orders",
    "select o.u, v, age from orders o join people p on o.u = p.u",
    "select u, sum(v) as s, count(*) as n from orders group by u",
    "with big as (select * from orders where v > 9) select u, v from big",
]
AS_GIVEN = [
    "select u, v - avg(v) over () as w from orders",
    "select u, v from orders order by v desc limit 10",
    "select u, v, exists(select 1 from orders where u = 3) as e from orders",
    "select * from seen",
    "select range as u, 1 as v from range(3)",
    "select u, date_trunc('month', date '2024-05-05') as m from orders",
]


@pytest.mark.parametrize("statement", CHECKED)
def test_a_relation_that_keeps_people_apart_is_proved(con: Any, statement: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncheckedQuery)
        table = read(con.sql(statement))
    release = sy.Session(table, account()).release(sy.Count(epsilon=5, cap=40))
    assert str(release.guarantee).endswith("Status of this release: proved.")
    assert release.value == pytest.approx(con.sql(statement).shape[0], abs=60)
    found = sorted(tuple(row.values()) for batch in table.batches(list(table.columns)) for row in batch.to_pylist())
    assert found == sorted(con.sql(statement).fetchall())


@pytest.mark.parametrize("statement", AS_GIVEN)
def test_a_relation_that_mixes_people_or_cannot_be_checked_is_as_given(con: Any, statement: str) -> None:
    with pytest.warns(UncheckedQuery):
        table = read(con.sql(statement))
    release = sy.Session(table, account()).release(sy.Count(epsilon=1, cap=40))
    assert "as given, not checked" in str(release.guarantee)


def test_a_checked_relation_is_refused_for_a_unit_that_it_does_not_keep_apart(con: Any) -> None:
    table = read(con.sql("select u, sum(v) as s from orders group by u"))
    with pytest.raises(ViewRefused):
        sy.Session(table, account(sy.rows()))


def test_relations_built_step_by_step_and_ibis_expressions_are_checked_too(con: Any) -> None:
    backend = ibis.duckdb.from_connection(con)
    orders = backend.table("orders")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncheckedQuery)
        stepwise = read(con.table("orders").filter("v > 3").project("u, v + 1 as w"))
        expression = read(orders.filter(orders.v > 3).select("u", w=orders.v + 1))
    for table in (stepwise, expression):
        assert table.stored
        assert table.capped_sum(users("u"), Quantity("w"), 0, 10**6) == sum(range(5, 41))
    with pytest.warns(UncheckedQuery):
        assert not read(orders.mutate(w=orders.v - orders.v.mean())).stored


def test_the_caller_s_catalogue_is_left_alone(con: Any) -> None:
    before = con.execute("select table_name from information_schema.tables order by 1").fetchall()
    read(con.sql("select u, v from orders where v > 3")).count_units(users("u"))
    assert con.execute("select table_name from information_schema.tables order by 1").fetchall() == before


def test_a_frame_of_the_caller_s_is_not_taken_for_a_table(con: Any) -> None:
    import pyarrow as pa

    frame = pa.table({"u": [1], "v": [2.0]})
    with pytest.warns(UncheckedQuery):
        assert not read(con.sql("select u, v from frame where v > 1")).stored
    assert frame.num_rows == 1
