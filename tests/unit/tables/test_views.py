"""Views through the public calls: what they answer, for whom they are refused, and that nothing is charged before."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import steelyard as sy
from steelyard.errors import ColumnMissing, InvalidTask, KeyConflict, ViewRefused
from steelyard.privacy import Unit, users
from steelyard.tables import Quantity, Table, read

ORDERS = {
    "user": np.array([1, 1, 2, 2, 3, 3]),
    "country": np.array(["fr", "de", "fr", "fr", "it", "de"]),
    "quantity": np.array([2, -1, 5, 2**62, 3, 0]),
    "price": np.array([1.5, 4.0, 2.0, 8.0, np.nan, 7.0]),
    "day": np.array(
        ["2026-01-31", "2026-02-01", "2026-02-28", "2026-02-03", "2026-03-01", "2026-03-09"], "datetime64[D]"
    ),
}


@pytest.fixture
def orders() -> Table:
    return read(ORDERS)


def account(unit: Unit | None = None) -> Any:
    return sy.open_account(":memory:", "a", unit=unit or users("user"), epsilon=40)


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    found = [row for batch in table.batches(list(table.columns)) for row in batch.to_pylist()]
    return sorted((tuple(row.values()) for row in found), key=repr)


def test_rows_are_filtered_and_columns_derived(orders: Table) -> None:
    made = orders.where("quantity > 0").derive(revenue="quantity * price", month="date_trunc('month', day)")
    assert made.columns == {**orders.columns, "revenue": "float", "month": "date"}
    assert {row[-2:] for row in rows_of(made)} >= {(3.0, datetime.date(2026, 1, 1)), (10.0, datetime.date(2026, 2, 1))}
    assert made.capped_sum(users("user"), Quantity("revenue"), 0, 100) == 3 + 100
    assert made.sums_by_key(users("user"), [], "month", []) == []
    kept = [rows_of(orders.where(f"country {how} 'f%'")) for how in ("like", "not like")]
    assert [sorted({row[1] for row in each}) for each in kept] == [["fr"], ["de", "it"]]


def test_a_derived_column_may_take_the_place_of_another(orders: Table) -> None:
    made = orders.derive(price="coalesce(price, 0) * 2", country="upper(country)")
    assert sorted({row[4] for row in rows_of(made)}) == ["DE", "FR", "IT"]
    assert list(made.columns) == ["user", "quantity", "day", "price", "country"]


def test_what_overflows_is_null(orders: Table) -> None:
    assert {row[-1] for row in rows_of(orders.derive(square="quantity * quantity"))} == {4, 1, 25, None, 9, 0}


def test_a_public_table_is_joined(orders: Table) -> None:
    rates = sy.public({"country": ["fr", "de"], "vat": [0.2, 0.19]})
    assert len(rows_of(orders.join(rates, on="country"))) == 5
    assert len(rows_of(orders.join(rates, on="country", left=True))) == 6
    with pytest.raises(InvalidTask, match=r"sy\.public"):
        orders.join(orders, on="country")  # type: ignore[arg-type]


def test_private_tables_are_joined_within_a_unit(orders: Table) -> None:
    people = read({"user": np.array([1, 2, 4]), "age": np.array([30, 40, 50])})
    made = orders.join_units(people, on="user")
    assert {row[-1] for row in rows_of(made)} == {30, 40}
    sy.Session(made, account())
    with pytest.raises(ViewRefused, match="'country'"):
        sy.Session(made, account(users("country")))


def test_one_row_is_made_for_each_unit(orders: Table) -> None:
    made = orders.per_unit("user", days="count(distinct day)", spend="sum(price)")
    assert rows_of(made) == [(1, 2, 5.5), (2, 2, 10.0), (3, 2, 7.0)]
    assert sy.Session(made, account()).release(sy.Sum("days", epsilon=20, cap=10)).value == pytest.approx(6, abs=2)


def test_a_view_of_views_is_one_statement_of_all(orders: Table) -> None:
    positive = orders.where("quantity > 0")
    people = read({"user": np.array([1, 2]), "age": np.array([30, 40])}).where("age > 35")
    made = sy.view(
        "select o.user, quantity, age, region from orders o join people using (user) join places p on o.country = p.country",
        orders=positive,
        people=people,
        places=sy.public({"country": ["fr"], "region": ["west"]}),
    )
    assert rows_of(made) == [(2, 2**62, 40, "west"), (2, 5, 40, "west")]
    assert rows_of(made.where("quantity < 9")) == [(2, 5, 40, "west")]


def test_with_rows_a_public_key_must_be_unique(orders: Table) -> None:
    twice = sy.public({"country": ["fr", "fr"], "vat": [0.2, 0.3]})
    sy.Session(orders.join(twice, on="country"), account())
    with pytest.raises(ViewRefused, match="several rows for one"):
        sy.Session(orders.join(twice, on="country"), account(sy.rows()))
    once = sy.public({"country": ["fr", None, None], "vat": [0.2, 0.3, 0.4]})
    sy.Session(orders.join(once, on="country"), account(sy.rows()))


def test_a_public_number_of_rows_needs_a_view_that_keeps_them(orders: Table) -> None:
    unit = sy.rows(neighbours="replace", n=6)
    sy.Session(orders.derive(v="quantity + 1"), account(unit))
    with pytest.raises(ViewRefused, match="may drop rows"):
        sy.Session(orders.where("quantity > 0"), account(unit))


def test_a_unit_of_another_kind_is_refused(orders: Table) -> None:
    with pytest.raises(ViewRefused, match="checked for users and for rows"):
        sy.Session(orders.where("quantity > 0"), account(sy.labels("price")))


@pytest.mark.parametrize(
    "refused",
    [
        lambda t: t.where("quantity > (select avg(quantity) from t)"),
        lambda t: t.derive(v="quantity - avg(quantity) over ()"),
        lambda t: t.derive(v="random()"),
        lambda t: t.per_unit("country", n="count(*)"),
        lambda t: sy.view("select country as user, quantity from t", t=t),
        lambda t: sy.view("select user, quantity from t limit 3", t=t),
        lambda t: sy.view("select max(user) as user, country from t group by country", t=t),
    ],
)
def test_every_refusal_comes_before_a_charge(orders: Table, refused: Any) -> None:
    pays = account()
    with pytest.raises((ViewRefused, ColumnMissing)):
        sy.Session(refused(orders), pays).release(sy.Count(epsilon=1, cap=1))
    assert pays.spent.amount == 0


def test_a_desk_refuses_a_view_that_mixes_units_by_itself(orders: Table) -> None:
    from steelyard.desk import Desk
    from steelyard.noise import ExactNoise

    with pytest.raises(ViewRefused):
        Desk(orders.per_unit("country", n="count(*)"), ExactNoise(), account(), "k", {})


def test_a_checked_view_of_stored_rows_is_proved_and_of_a_query_it_is_as_given(orders: Table) -> None:
    release = sy.Session(orders.where("quantity > 0"), account()).release(sy.Count(epsilon=1, cap=2))
    assert str(release.guarantee).endswith("Status of this release: proved.")
    import duckdb

    with pytest.warns(sy.errors.UncheckedQuery):
        given = read(duckdb.sql("select range as user, 1 as quantity from range(3)"))
    release = sy.Session(given.where("quantity > 0"), account()).release(sy.Count(epsilon=1, cap=2))
    assert "as given, not checked" in str(release.guarantee)


def test_a_key_belongs_to_the_text_of_the_view(tmp_path: Path) -> None:
    path = str(tmp_path / "orders.parquet")
    pq.write_table(pa.table(ORDERS), path)
    pays, task = account(), sy.Count(epsilon=1, cap=2)
    first = sy.Session(read(path).where("quantity > 0"), pays).release(task, key="k")
    again = sy.Session(read(path).where("quantity  >  0"), pays).release(task, key="k")
    assert first.stored_on is None
    assert again.stored_on is not None
    assert again.value == first.value
    with pytest.raises(KeyConflict):
        sy.Session(read(path).where("quantity > 1"), pays).release(task, key="k")
    with pytest.raises(KeyConflict):
        sy.Session(read(path), pays).release(task, key="k")


def test_a_column_that_cannot_be_used_is_not_read_for_a_view_that_calls_another_by_its_name(tmp_path: Path) -> None:
    path = str(tmp_path / "times.parquet")
    odd = pa.array([2**62], pa.timestamp("ms"))
    pq.write_table(pa.table({"user": [1], "quantity": [3], "at": odd}), path, coerce_timestamps=None)
    made = read(path).derive(at="quantity * 2")
    assert made.capped_sum(users("user"), Quantity("at"), 0, 10) == 6


def test_text_is_not_run_and_names_are_not_statements(orders: Table) -> None:
    with pytest.raises(InvalidTask):
        orders.where("1 = 1; drop table t")
    with pytest.raises(InvalidTask):
        orders.derive(v="1 from t --")
    made = orders.derive(**{'a"; drop table t; --': "quantity"})
    assert made.capped_sum(users("user"), Quantity('a"; drop table t; --'), 0, 10) == 1 + 10 + 3
    assert rows_of(orders.where("country = 'fr'' or ''1''=''1'")) == []


def test_a_missing_column_is_named(orders: Table) -> None:
    with pytest.raises(ColumnMissing, match="quantity"):
        orders.where("quantiy > 0")


def test_an_expression_that_grows_too_long_is_refused(orders: Table) -> None:
    text = "price"
    for _ in range(8):
        text = f"floor(({text}) / 3.0)"
    with pytest.raises(InvalidTask, match="too long"):
        orders.derive(v=text)

    def again(table: Table, times: int) -> Table:
        return again(table.derive(v="floor(v / 3.0)"), times - 1) if times else table

    with pytest.raises(InvalidTask, match="too long"):
        again(orders.derive(v="floor(price)"), 9)


def test_rows_kept_for_one_unit_are_refused_by_accounts_of_another() -> None:
    """Which rows of a user are kept depends on all of them: on one label, and on one row, that decides about others."""
    table = sy.read({"who": np.array([1, 1, 2]), "x": np.array([0.5, 0.1, 0.2]), "y": np.array([0, 1, 1])})
    kept = table.keep_rows(sy.users("who"), 1)
    for unit in (sy.rows(), sy.labels("y"), sy.users("y")):
        account = sy.open_account(":memory:", "a", unit=unit, epsilon="1")
        for each in (kept, kept.called("another name"), kept.where("x > 0"), kept.derive(z="x * 2")):
            with pytest.raises(ViewRefused, match="view"):
                sy.Session(each, account)
    people = sy.open_account(":memory:", "people", unit=sy.users("who"), epsilon="1")
    again = kept.where("x > 0").keep_rows(sy.users("who"), 1).derive(z="x * 2")
    assert again.count_units(people.terms.unit) == 2
    assert sum(batch.num_rows for batch in again.batches(["z"])) == 2
    sy.Session(again, people)


def test_a_file_that_is_read_under_two_names_is_one_table_to_rows(tmp_path: Path) -> None:
    path = tmp_path / "orders.parquet"
    pq.write_table(pa.table(ORDERS), path)
    (tmp_path / "link.parquet").symlink_to(path)
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table(ORDERS), other)
    statement = "select user, quantity from a union all select user, quantity from b"
    for twice in (read(str(path), name="b"), read(str(tmp_path / "link.parquet")), read(str(tmp_path / "*.parquet"))):
        with pytest.raises(ViewRefused, match="two rows of one"):
            sy.Session(sy.view(statement, a=read(str(path), name="a"), b=twice), account(sy.rows()))
    sy.Session(sy.view(statement, a=read(str(path)), b=read(str(other))), account(sy.rows()))
    rows = pa.table(ORDERS)
    with pytest.raises(ViewRefused, match="two rows of one"):
        sy.Session(sy.view(statement, a=read(rows, name="a"), b=read(rows, name="b")), account(sy.rows()))


def test_steps_by_unit_wait_for_the_account_where_the_unit_is_not_named(orders: Table) -> None:
    people = read({"user": np.array([1, 2, 4]), "age": np.array([30, 40, 50])})
    made = (
        orders.join_units(people)
        .where("age > 35")
        .per_unit(days="count(distinct day)", spend="sum(price)")
        .where("days > 1")
    )
    assert repr(made).startswith("Table(waiting for the unit")
    session = sy.Session(made, account())
    assert session.schema.columns == {"user": "integer", "days": "integer", "spend": "float"}
    named = read(made, name="often")  # under a name of its own no step is lost
    assert repr(named) == repr(made)
    assert sy.Session(named, account()).schema.columns == session.schema.columns
    assert named.for_unit(users("user")).identity == "the table named 'often'"
    assert session.release(sy.Sum("days", epsilon=20, cap=10)).value == pytest.approx(2, abs=2)
    for unit in (sy.rows(), users("nobody")):
        with pytest.raises((ViewRefused, ColumnMissing)):
            sy.Session(made, account(unit))
    with pytest.raises(InvalidTask, match="waits for the unit"):
        made.count_units(users("user"))
    with pytest.raises(InvalidTask, match="waits for the unit"):
        sy.view("select * from t", t=made)


@pytest.mark.parametrize(
    "units", [np.array([2**63 + 1, 2**63 + 2, 2**63 + 3], np.uint64), np.array([1.0, np.inf, -np.inf])]
)
def test_windows_hold_units_apart_that_have_no_int64_or_are_infinite(units: Any) -> None:
    def seen(user: Any) -> list[tuple[Any, ...]]:
        t = read({"user": user, "v": np.array([1, 10, 100])[: len(user)]})
        return rows_of(sy.view("select user, sum(v) over (partition by user) as s from t", t=t))

    assert sorted(s for _, s in seen(units)) == [1, 10, 100]
    assert set(seen(units[:2])) < set(seen(units))


def test_rows_that_differ_only_beyond_int64_are_numbered_in_one_order() -> None:
    statement = "select user, v, row_number() over (partition by user order by user) as n from t"
    for values in (np.array([2**63 + 2, 2**63 + 1], np.uint64), np.array([np.inf, -np.inf])):
        found = {
            tuple(rows_of(sy.view(statement, t={"user": np.array([1, 1]), "v": each})))
            for each in (values, values[::-1].copy())
        }
        assert {tuple(sorted((row[1], row[2]) for row in each)) for each in found} == {
            tuple((v, i) for i, v in enumerate(sorted(values.tolist()), 1))
        }


def test_parentheses_tell_aggregates_apart() -> None:
    t = {"user": np.array([1]), "a": np.array([2]), "b": np.array([3])}
    made = sy.view("select user, sum((a + b) * (b)) as x, sum((a + b * b)) as y from t group by user", t=t)
    assert rows_of(made) == [(1, 15, 11)]


def test_a_column_that_the_first_table_cannot_hold_is_still_the_unit_of_its_table() -> None:
    late = pa.table({"user": pa.array([b"x"]), "v": ["ann"]})
    made = sy.view("select a.user, b.v from a join b on a.user = b.v", a={"user": np.array(["ann"])}, b=late)
    with pytest.raises(ViewRefused, match="another unit cannot"):
        sy.Session(made, account())


def test_no_column_takes_the_name_that_a_view_gave_the_unit(orders: Table) -> None:
    below = sy.view("select user as who, country, quantity from t", t=orders)
    sy.Session(sy.view("select who, quantity from t", t=below), account(users("who")))
    with pytest.raises(ViewRefused, match="another unit cannot"):
        sy.Session(sy.view("select country as who, quantity from t", t=below), account(users("who")))


def test_one_table_under_two_names_makes_two_rows_of_one(orders: Table) -> None:
    both = sy.view("select * from a union all select * from b", a=orders, b=read(orders, name="again"))
    with pytest.raises(ViewRefused, match="two rows of one"):
        sy.Session(both, account(sy.rows()))


def test_rows_kept_within_a_unit_stay_kept_and_keep_apart_that_unit_alone(orders: Table) -> None:
    for table in (orders, orders.where("quantity < 9")):
        kept = table.keep_rows(users("user"), 1)
        assert len(rows_of(kept.where("quantity > -9"))) <= 3
        for unit in (users("country"), sy.rows()):
            with pytest.raises(ViewRefused):
                sy.Session(kept, account(unit))


def test_a_unit_that_grouping_takes_for_missing_is_not_counted_on() -> None:
    unit = users("user", neighbours="replace", n=1)
    t = read({"user": np.array([math.inf]), "v": np.array([1])})
    with pytest.raises(ViewRefused, match="may drop rows"):
        sy.Session(t.per_unit("user", s="sum(v)"), account(unit))


@pytest.mark.parametrize(
    "statement", ["select user, sum(v) as s from t group by user", "select distinct user, v from t"]
)
def test_a_unit_beyond_int64_is_itself_where_it_is_grouped(statement: str) -> None:
    t = read({"user": np.array([2**63 + 5, 2**63 + 6, 7], np.uint64), "v": np.array([1, 10, 100])})
    made = sy.view(statement, t=t)
    assert set(rows_of(made)) == {(2**63 + 5, 1), (2**63 + 6, 10), (7, 100)}
    assert made.count_units(users("user")) == 3
    wider = sy.view(f"select user, user / 2 as half from ({statement}) where user > 9000000000000000000", t=t)
    assert wider.count_units(users("user")) == 2
    replacing = users("user", neighbours="replace", n=3)
    sy.Session(t.per_unit("user", s="sum(v)"), account(replacing))


def test_a_column_that_cannot_be_used_is_not_even_asked_for_nulls() -> None:
    t = read(pa.table({"user": [1], "many": [[1]]}))
    with pytest.raises(InvalidTask):
        t.where("many is null")


def test_the_ends_of_time_are_no_day() -> None:
    ends = np.array([2**63 - 1, -(2**63) + 1, 0], "datetime64[ns]")
    made = sy.view("select user, cast(at as date) as day from t", t={"user": np.array([1, 2, 3]), "at": ends})
    assert {(row["user"], row["day"]) for batch in made.batches(["user", "day"]) for row in batch.to_pylist()} == {
        (1, None),
        (2, None),
        (3, datetime.date(1970, 1, 1)),
    }


def test_what_is_private_is_not_public_in_the_same_view(orders: Table, tmp_path: Path) -> None:
    path = tmp_path / "orders.parquet"
    pq.write_table(pa.table({"user": [1, 2], "country": ["fr", "de"], "price": [1.0, 2.0]}), path)
    statement = "select t.user, p.price as theirs from t join p on t.country = p.country"
    for private, public in ((read(path), sy.public(path)), (read(path).where("price > 1"), sy.public(read(path)))):
        with pytest.raises(ViewRefused, match="'p' is called public"):
            sy.view(statement, t=private, p=public)
    with duckdb.connect(str(tmp_path / "orders.duckdb")) as connection:
        connection.execute(f"create table orders as select * from '{path}'")
        relations = connection.table("orders"), connection.table("orders")
        with pytest.raises(ViewRefused, match="'p' is called public"):
            sy.view(statement, t=read(relations[0]), p=sy.public(relations[1]))
    url = f"duckdb:///{tmp_path}/orders.duckdb"
    with pytest.raises(ViewRefused, match="'p' is called public"):
        sy.view(statement, t=read(f"{url}::orders"), p=sy.public(f"{url}::main.Orders"))
    for made in (orders.where("price > 1"), orders.per_unit(days="count(distinct day)")):
        with pytest.raises(InvalidTask, match="not public"):
            sy.public(made)
