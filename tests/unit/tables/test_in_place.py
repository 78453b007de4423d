"""PostgreSQL in place: the integers of the private DuckDB, only sums leave the server, and no cell is an error."""

from __future__ import annotations

import datetime
import math
import operator
import secrets
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import ibis
import psycopg
import pytest

import postgres
import steelyard as sy
from steelyard.errors import TableError
from steelyard.models import Numeric
from steelyard.requests import Reply
from steelyard.tables import Bins, Capped, Limits, Quantity, Table, _in_place, _postgres_sql, _soundness, _table
from steelyard.tables._engine import DuckEngine
from steelyard.tables._in_place import PostgresServer
from steelyard.tables._joint import moments
from steelyard.tables._kinds import quoted
from steelyard.tables._paper import PaperTable
from steelyard.tables._totals import unit_totals

COLUMNS = (
    "u bigint, k text, loose text COLLATE pg_c_utf8, c char(4), w varchar(9), h bytea, x float8, r real, n numeric, m numeric(12, 2), half numeric(3, 3), "
    "long numeric(60, 3), d date, t timestamp, z timestamptz, b boolean, i smallint, v uuid, j jsonb, p int GENERATED ALWAYS AS (i * 3) STORED"
)
ROWS = [
    "(1, 'a', 'ann', 'ab', 'x', '\\x00ff', 1.5, 0.5, 2.5, 3.25, 0.5, 1.125, '2024-01-01', '2024-01-01 12:00:00.5', '2024-01-01', true, 3, '00000000-0000-0000-0000-00000000000A', '{}')",
    "(1, 'A', 'ANN', 'ab  ', 'é', '\\x00', -0.0, 0.1, 7.125, 0.1, -0.5, 2, '1969-12-31', '2024-01-01', '2024-01-01', false, -3, '00000000-0000-0000-0000-00000000000a', null)",
    "(2, 'a', 'ann', '', '', null, -4, null, -0.005, null, null, null, null, null, null, null, null, null, null)",
    "(null, 'a', 'zoë', 'q', 'q', '\\x', 9, 9, 9, 9, 0.1, 9, '2024-01-03', null, null, true, 9, null, null)",
    "(3, E'tab\\t%s $1:: \\\\', null, null, null, null, 'NaN', 'NaN', 'NaN', 'NaN', 'NaN', 'NaN', 'infinity', 'infinity', 'infinity', null, 1, null, null)",
    "(4, '', '', '', '', '', 'Infinity', '-Infinity', 'Infinity', 0, 0, 0, '-infinity', '-infinity', '-infinity', null, 32767, null, null)",
    "(5, 'e\u0301', 'e\u0301', '', '', '', 1e308, 1e38, 1e400, 0, 0, 1e50, '0044-03-15 BC', '0044-03-15 BC', '0044-03-15 BC', true, -32768, null, null)",
    "(6, 'é', 'é', '', '', '', 5e-324, 1e-45, 1e-400, -0.01, 0.999, 0, '9999-12-31', '9999-12-29 23:59:59.999999', '9999-12-29', true, 1, null, null)",
    "(7, '日本', 'É', '', '', '', -1.7976931348623157e308, 0, -1e300, 0, 0, 0, '5000000-01-01', '9999-12-30', '9999-12-30', true, 1, null, null)",
    "(9223372036854775807, 'z', null, null, null, null, '-Infinity', 0, '-Infinity', 0, 0, 0, '0001-01-01', '0001-01-03', null, true, 1, null, null)",
]
BY = sy.users("u")
CENTS, THOUSANDS = Quantity("x", Fraction(1, 100)), Quantity("x", Fraction(1000))
LIMITS = Limits(max_keys=1, rows_per_key=1, secret=bytes(32))
NUMBERS = ("x", "r", "n", "m", "half", "long", "b", "i", "p", "u")
STEPS = (Fraction(1, 10**290), Fraction(1, 100), Fraction(3, 7), Fraction(10**290))

QUESTIONS: dict[str, Callable[[Table], Any]] = {
    **{f"users of {c}": lambda t, c=c: t.count_units(sy.users(c)) for c in ("u", "k", "loose", "c", "w", "h", "x", "r", "n", "m", "d", "t", "b", "i", "v", "p")},  # type: ignore[misc]
    **{f"sum of {c} by {float(s):.0e}": lambda t, c=c, s=s: t.capped_sum(BY, Quantity(c, s), -(2**60), 2**60) for c in NUMBERS for s in STEPS},  # type: ignore[misc]
    "rows": lambda t: t.count_units(sy.rows()),
    "totals": lambda t: t.totals_histogram(BY, CENTS, [-(2**53), 0, 1, 100, 2**50, 2**60]),
    "sizes": lambda t: t.totals_histogram(BY, CENTS, [0, 1, 100, 2**50, 2**60], sizes=True),
    "moments": lambda t: t.capped_totals(BY, [moments(CENTS, -50, 100, 50)]),
    "keys": lambda t: t.sums_by_key(BY, [Capped(CENTS, 100), Capped(Quantity("b"), 1, "l2")], "k", ["a", "A", "é", E, "\0", "tab\t%s $1:: \\"]),
    "limited keys": lambda t: t.sums_by_key(BY, [Capped(Quantity("i"), 100)], "k", ["a", "A", "é"], LIMITS),
    "loose keys": lambda t: t.sums_by_key(BY, [Capped(Quantity(), 3)], "loose", ["ann", "ANN", "é", E, "É"], LIMITS),
    "numbers as keys": lambda t: t.sums_by_key(BY, [Capped(Quantity(), 3)], ["m", "i", "b"], [(Decimal("3.25"), 3, True), (Decimal("0.1"), -3, False)]),
    "days as keys": lambda t: t.sums_by_key(BY, [Capped(Quantity(), 3)], "d", [datetime.date(2024, 1, 1), datetime.date(9999, 12, 31)]),
    "floats as keys": lambda t: t.sums_by_key(sy.rows(), [Capped(Quantity(), 3)], "r", [0.1, 0.0, 0.5]),
    **{f"found {c}": lambda t, c=c: t.found_sums_by_key(BY, [Capped(CENTS, 10)], c, LIMITS) for c in ("k", "loose", "w", "h", "m", "d", "b", "i", "p", "u")},  # type: ignore[misc]
    **{f"sampled within {c}": lambda t, c=c: t.found_sums_by_key(sy.users(c), [Capped(Quantity(), 2)], "k", LIMITS) for c in ("t", "v", "d", "m", "b", "w", "h", "p")},  # type: ignore[misc]
    "found by two": lambda t: t.found_sums_by_key(BY, [], ["k", "b"], LIMITS, 1),
    "bins": lambda t: t.sums_by_bin(BY, Capped(Quantity(), 3), Bins(CENTS, (-400, 0, 200, 400))),
    "bins by key": lambda t: t.sums_by_key_and_bin(BY, Capped(Quantity(), 3), Bins(CENTS, (-400, -7, 200, 400)), "k", ["a", "z"]),
    "norms": lambda t: t.norms_histogram(BY, Capped(CENTS, 9, "l2"), [0, 9, 300, 2**40], "k", ["a", "A"], LIMITS),
    "values": lambda t: t.distinct_values(BY, "k", [1, 2], limits=LIMITS),
    "values by key": lambda t: t.distinct_values(BY, "i", [1, 2], "k", ["a", "A"], limits=LIMITS),
    **{f"where {c}": lambda t, c=c: t.where(c).count_units(BY) for c in (  # type: ignore[misc]
        "i > 0 and k <> 'a' and b is not null", "x > 1.5", "x = 0", "m >= 0.1", "long < 2", "n is not null", "r between 0 and 1", "d >= date '2024-01-01'", "k in ('a', 'é')", "k < 'b'", "k like '_'", "w like 'é%'",
        "not (x > n)",
    )},
}  # fmt: skip
E = "e\u0301"
FETCHED: dict[str, Callable[[Table], Any]] = {
    "a text that PostgreSQL writes otherwise": lambda t: t.found_sums_by_key(BY, [], "half", LIMITS),
    "floats that are hashed": lambda t: t.found_sums_by_key(BY, [], "x", LIMITS),
    "a moment in a zone": lambda t: t.count_units(sy.users("z")),
    "a condition on what is computed": lambda t: t.where("upper(k) = 'A'").count_units(BY),
    "a view that computes": lambda t: t.derive(y="i * 2").capped_sum(BY, Quantity("y"), 0, 2**20),
    "a public table beside": lambda t: t.join(sy.public({"k": ["a"], "g": ["one"]}), "k").count_units(BY),
    "some rows": lambda t: t.keep_rows(BY, 1, bytes(32), ["k", "i", "m", "d"]).capped_sum(BY, Quantity("i"), 0, 2**20),
    "a fingerprint": lambda t: t.fingerprint(["u", "k"], bytes(32)),
    "rows": lambda t: sorted(map(str, (row for batch in t.batches(["u", "k"]) for row in batch.to_pylist()))),
}


@pytest.fixture(scope="module")
def name() -> Iterator[str]:
    made = f"odd_{secrets.token_hex(4)}"
    with psycopg.connect(postgres.server(), autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {made} ({COLUMNS})")
        connection.execute(f"INSERT INTO {made} VALUES {', '.join(ROWS)}")
        yield made
        connection.execute(f"DROP TABLE {made} CASCADE")


def opened(name: str, **more: Any) -> Table:
    return sy.read(f"{postgres.server()}::{name}", **more)


@pytest.fixture(scope="module")
def both(name: str) -> tuple[Table, Table]:
    return opened(name), opened(name, in_place=False)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who was asked, in order."""
    seen: list[str] = []

    def noted(who: str, given: Any) -> Any:
        seen.append(who)
        return given

    def watch(kind: Any, name: str, who: str) -> None:
        usual = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *given: usual(*noted(who, given)))

    for method in ("rows", "arrow"):
        watch(PostgresServer, method, "server")
        watch(DuckEngine, method, "duckdb")
    for method in ("batches", "fold"):
        watch(DuckEngine, method, "duckdb")
    return seen


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_server_gives_the_integers_of_the_private_duckdb(both: tuple[Table, Table], asked: list[str], question: str) -> None:  # fmt: skip
    here, fetched = (QUESTIONS[question](table) for table in both)
    assert repr(here) == repr(fetched) or here == fetched
    assert set(asked[: len(asked) // 2]) == {"server"}
    assert set(asked[len(asked) // 2 :]) == {"duckdb"}


@pytest.mark.parametrize("question", FETCHED)
def test_what_the_server_cannot_say_alike_is_fetched(both: tuple[Table, Table], asked: list[str], question: str) -> None:  # fmt: skip
    here, fetched = (FETCHED[question](table) for table in both)
    assert here == fetched
    assert set(asked) == {"duckdb"}


def test_a_table_says_who_answers(both: tuple[Table, Table]) -> None:
    assert [table.engine for table in both] == ["postgres", "duckdb"]
    assert repr(both[0]).endswith("on postgres")
    assert dict(both[0].columns) == dict(both[1].columns)


def test_views_of_a_database_and_queries_are_fetched(name: str) -> None:
    with psycopg.connect(postgres.server(), autocommit=True) as connection:
        connection.execute(f"CREATE OR REPLACE VIEW {name}_v AS SELECT u, x FROM {name}")
    with pytest.warns(sy.errors.UncheckedQuery):
        assert opened(f"{name}_v").engine == "duckdb"
    given = ibis.connect(postgres.server()).table(name)
    assert sy.read(given).engine == "postgres"
    with pytest.warns(sy.errors.UncheckedQuery):
        assert sy.read(given.filter(given.i > 0)).engine == "duckdb"
    given.get_backend().disconnect()


# No cell decides whether there is an answer


CELLS = {
    "x": ["1e308", "-1e308", "5e-324", "-5e-324", "NaN", "Infinity", "-Infinity", "2.2250738585072014e-308"],
    "n": ["1e400", "-1e400", "1e-400", "1e131071", "1e-16383", "NaN", "Infinity", "179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880"],
}  # fmt: skip


def answers(name: str, column: str, cells: list[str]) -> list[list[int]]:
    """What every step makes of a table with one of these cells, and nothing else."""
    found = []
    for cell in cells:
        with psycopg.connect(postgres.server(), autocommit=True) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {name}_one")
            connection.execute(f"CREATE TABLE {name}_one AS SELECT 1::bigint AS u, '{cell}'::{'float8' if column == 'x' else 'numeric'} AS {column}")  # fmt: skip
        table = opened(f"{name}_one")
        parts = [sy.tables.Bounded(Quantity(column, step), -(2**60), 2**60) for step in STEPS]
        found.append(table.capped_totals(BY, parts))
    return found


@pytest.mark.parametrize("column", CELLS)
def test_no_single_cell_is_an_error_and_each_is_the_reference_integer(name: str, column: str, asked: list[str]) -> None:
    expected = [
        [Quantity("x", step).integer(float(cell)) for step in STEPS] for cell in CELLS[column]
    ]  # Python reads a text as the nearest double, too
    assert answers(name, column, CELLS[column]) == expected
    assert set(asked) == {"server"}


@pytest.mark.parametrize("cell", ["1e308", "5e-324"])
def test_the_same_cells_catch_a_product_that_is_not_held(name: str, cell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_postgres_sql, "_kept", lambda number, factor: number)
    _table._compiled.cache_clear()
    try:
        with pytest.raises(TableError, match="could not answer"):
            answers(name, "x", [cell])
    finally:
        _table._compiled.cache_clear()


@pytest.mark.parametrize("cell", ["1e400", "1e-400"])
def test_the_same_cells_catch_a_numeric_that_is_cast_as_it_is(name: str, cell: str, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(_postgres_sql, "_nearest", lambda column: f"CAST({column} AS double precision)")
    with pytest.raises(TableError, match="could not answer"):
        answers(name, "n", [cell])


def collations(name: str, column: str) -> set[str | None]:
    """By what a text is compared in a question, and its digest."""
    table = opened(name)
    server = table._engine.server
    assert isinstance(server, PostgresServer)
    digest = _postgres_sql._DIGEST_SQL.format(quoted(column))
    text = f"SELECT pg_collation_for({quoted(column)}), pg_collation_for({digest}) FROM steelyard_plain"
    return {each for row in server.rows(text, [column]) for each in row}


@pytest.mark.parametrize("column", ["k", "loose", "c", "w", "h"])
def test_text_is_compared_by_its_bytes_whatever_its_column_says(name: str, column: str, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Under another collation two texts may be one, or come in another order. The twin leaves it to the column."""
    assert collations(name, column) == {'"C"'}
    usual = _postgres_sql._cell
    monkeypatch.setattr(_postgres_sql, "_cell", lambda *given: (usual(*given) or "").replace('COLLATE "C"', "") or None)
    assert collations(name, column) != {'"C"'}


def test_a_sum_of_ones_has_no_end() -> None:
    """A bare 1 is of 32 bits, and a sum of such is of 64: enough rows of one unit would be an error."""
    rows = ibis.table({"u": "int64"}, name="steelyard_plain")
    text = _postgres_sql.POSTGRES.written(unit_totals(rows, BY, [Quantity()], _postgres_sql.POSTGRES))
    assert "CAST('1' AS BIGINT)" in text


@pytest.mark.parametrize(("made", "columns"), [
    (operator.add, "xy"), (operator.mul, "xy"), (operator.truediv, "xy"), (operator.sub, "xy"), (operator.truediv, "ij"), (operator.floordiv, "ij"),
])  # fmt: skip
def test_arithmetic_whose_size_nobody_knows_is_not_taken(made: Callable[..., Any], columns: str) -> None:
    rows = ibis.table({"x": "float64", "y": "float64", "i": "int64", "j": "int64"}, name="steelyard_plain")
    value = made(*(rows[name] for name in columns))
    counted = rows.filter(value > 0)
    assert not _postgres_sql.is_own(counted.agg(n=counted.count()))
    assert not _postgres_sql.is_own(rows.agg(s=rows.x.sum()))
    assert _postgres_sql.is_own(rows.agg(s=rows.i.sum()))


# What leaves the server


def test_only_sums_leave_the_server_and_no_text_depends_on_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[tuple[str, int]] = []
    usual = PostgresServer._asked

    def watched(server: Any, *given: Any) -> Any:
        found = usual(server, *given)
        texts.append((server._statement(*given), len(found[1])))
        return found

    monkeypatch.setattr(PostgresServer, "_asked", watched)
    with psycopg.connect(postgres.server(), autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name}_many (LIKE {name})")
        try:
            for rows in (0, 500):
                connection.execute(f"INSERT INTO {name}_many (u, k, x) SELECT g % 9, 'a', g FROM generate_series(1, {rows}) AS g")  # fmt: skip
                table = opened(f"{name}_many")
                table.capped_sum(BY, CENTS, 0, 100)
                table.sums_by_key(BY, [Capped(CENTS, 100)], "k", ["a", "b"], LIMITS)
        finally:
            connection.execute(f"DROP TABLE {name}_many")
    assert texts[0][0] == texts[2][0]
    assert texts[1][0] == texts[3][0]
    assert [rows for _, rows in texts] == [1, 0, 1, 1]


def test_a_failure_inside_the_server_has_one_fixed_text(both: tuple[Table, Table], monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(PostgresServer, "_statement", lambda *given: f"SELECT 1 / (u - u) FROM {both[0]._engine.server._source}")  # type: ignore[union-attr]  # fmt: skip
    with pytest.raises(TableError, match="could not answer") as caught:
        both[0].count_units(BY)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_statement_that_the_server_does_not_understand_is_fetched(both: tuple[Table, Table], asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(_postgres_sql, "_DIGEST_SQL", "nobody_has_this({})")
    _table._compiled.cache_clear()
    limits = Limits(max_keys=1, secret=bytes(31) + b"1")
    here, there = (table.found_sums_by_key(BY, [], "k", limits) for table in both)
    _table._compiled.cache_clear()
    assert here == there
    assert set(asked) == {"duckdb"}


def test_a_function_of_the_database_does_not_stand_before_those_of_postgresql(name: str, both: tuple[Table, Table], monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """A function that fits its argument better than PostgreSQL's own is called, where the search path finds it: here one that fails."""
    with psycopg.connect(postgres.server(), autocommit=True) as connection:
        connection.execute("CREATE FUNCTION public.length(varchar) RETURNS int LANGUAGE sql AS 'SELECT 1 / (octet_length($1) - octet_length($1))'")  # fmt: skip
        try:
            ask = QUESTIONS["found i"]
            assert ask(opened(name)) == ask(both[1])
            monkeypatch.setattr(_in_place, "_OURS_ALONE", ("SET LOCAL search_path = public",))
            with pytest.raises(TableError, match="could not answer"):
                ask(opened(name))
        finally:
            connection.execute("DROP FUNCTION public.length(varchar)")


def test_types_of_a_session_do_not_stand_before_those_of_postgresql(name: str, asked: list[str]) -> None:
    """A session's temporary schema is searched first for types unless the path names it: a check of its own would fail at a cell."""
    given = ibis.connect(postgres.server()).table(name)
    given.get_backend().con.execute("CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (value <> 'a')")
    assert sy.read(given).count_units(sy.users("k")) == opened(name, in_place=False).count_units(sy.users("k"))
    assert asked == ["server", "duckdb"]
    given.get_backend().disconnect()


def test_a_catalogue_of_a_session_does_not_make_a_view_a_table(name: str) -> None:
    given = ibis.connect(postgres.server())
    given.con.execute(f"CREATE OR REPLACE VIEW {name}_w AS SELECT u, x FROM {name}")
    given.con.execute("CREATE TEMP TABLE pg_class AS SELECT oid, relname, 'r'::\"char\" AS relkind, relrowsecurity, relnamespace FROM pg_catalog.pg_class")  # fmt: skip
    with pytest.warns(sy.errors.UncheckedQuery):
        assert not sy.read(given.table(f"{name}_w")).stored
    given.disconnect()


SET = {
    "standard_conforming_strings = off": lambda t: t.where(r"k <> 'tab\t%s $1:: \'").count_units(BY),
    "array_nulls = off": lambda t: t.sums_by_key(BY, [Capped(Quantity("i"), 9)], "i", [3, 2**70]),
}  # fmt: skip


@pytest.mark.parametrize("setting", SET)
def test_a_setting_of_the_session_changes_no_integer(name: str, asked: list[str], setting: str) -> None:
    given = ibis.connect(postgres.server()).table(name)
    given.get_backend().con.execute(f"SET {setting}")
    assert SET[setting](sy.read(given)) == SET[setting](opened(name, in_place=False))
    assert asked == ["server", "duckdb"]
    given.get_backend().disconnect()


def test_statements_that_were_tried_are_not_kept_for_ever(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each one that samples has a secret in it, so that no two are the same."""
    monkeypatch.setattr(_in_place, "_REMEMBERED", 3)
    table = opened(name)
    for _ in range(5):
        table.distinct_values(BY, "k", [1], limits=Limits())
    assert isinstance(table._engine.server, PostgresServer)
    assert len(table._engine.server._parsed) <= 3


def test_a_limit_of_time_does_not_let_the_amount_of_rows_decide(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ibis.connect(postgres.server()).table(name)
    table = sy.read(given)
    given.get_backend().con.execute("SET statement_timeout = '200ms'")
    monkeypatch.setattr(PostgresServer, "_statement", lambda *given: "SELECT 1 FROM pg_sleep(0.4)")
    assert table.count_units(BY) == 1
    [(left,)] = given.get_backend().con.execute("SHOW statement_timeout").fetchall()
    assert left == "200ms"
    given.get_backend().disconnect()


# One state of the table for one release, and the caller's connection as it was


def test_all_questions_of_a_release_see_one_state_of_the_table(name: str) -> None:
    table = opened(name)
    with psycopg.connect(postgres.server(), autocommit=True) as connection:
        with table.snapshot():
            before = table.count_units(BY)
            connection.execute(f"INSERT INTO {name} (u) VALUES (77)")
            fetched = len([row for batch in table.batches(["u"]) for row in batch.to_pylist()])
            assert (table.count_units(BY), fetched) == (before, len(ROWS))
        assert table.count_units(BY) == before + 1
        connection.execute(f"DELETE FROM {name} WHERE u = 77")


def test_a_release_that_fetches_holds_no_transaction(name: str) -> None:
    """A fit takes minutes after its rows were fetched; a snapshot held so long keeps the server from cleaning up."""
    given = ibis.connect(postgres.server()).table(name)
    table, status = sy.read(given), given.get_backend().con.info
    with table.snapshot():
        list(table.batches(["u"]))
        assert int(status.transaction_status) == 0
        table.count_units(BY)
        assert int(status.transaction_status) == 2
    assert int(status.transaction_status) == 0
    given.get_backend().disconnect()


def test_the_connection_is_left_as_it_was_and_a_callers_transaction_is_left_alone(name: str, asked: list[str]) -> None:
    given = ibis.connect(postgres.server()).table(name)
    connection = given.get_backend().con
    table = sy.read(given)
    settings = "SELECT current_setting('search_path'), current_setting('datestyle'), current_setting('transaction_isolation'), current_setting('transaction_read_only')"  # fmt: skip
    before = connection.execute(settings).fetchall()
    assert table.count_units(BY) == 8
    assert connection.execute(settings).fetchall() == before
    with connection.transaction():
        inside = connection.execute(settings).fetchall()[0][0]
        assert table.count_units(BY) == 8
        assert connection.execute(settings).fetchall()[0][0] == inside
    assert asked == ["server", "server"]
    given.get_backend().disconnect()


def test_several_threads_ask_one_table(name: str) -> None:
    table, found = opened(name), []
    sessions = [sy.Session(table, sy.open_account(":memory:", f"t{i}", unit=BY, epsilon=99)) for i in range(4)]
    threads = [threading.Thread(target=lambda s=s: found.append(s.release(sy.CountUsers(epsilon=50)).value)) for s in sessions]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [round(value) for value in found] == [8, 8, 8, 8]


def test_releases_are_answered_in_place(name: str, asked: list[str]) -> None:
    session = sy.Session(
        opened(name), sy.open_account(":memory:", "all", unit=BY, epsilon=999, delta="1e-6", additive_delta="1e-7")
    )
    for task in (
        sy.Sum("i", epsilon=1, lower=0, cap=10),
        sy.Sum("i", epsilon=1, lower=0, upper=1000),
        sy.Count(epsilon=1, cap=3, by="k", keys=["a", "b"]),
        sy.Count(epsilon=1, cap=3, by="k", max_keys=2),
        sy.CountUsers(epsilon=1, by="k", keys=["a"], max_keys=1),
        sy.Mean("i", epsilon=1, lower=0, upper=100, cap=3),
        sy.Quantile("i", epsilon=1, lower=0, upper=100, cap=3),
        sy.Histogram("i", epsilon=1, edges=[0, 1, 2, 100], cap=3),
        sy.CountDistinct("k", epsilon=1, cap=2),
    ):
        assert math.isfinite(0 if session.release(task).value is None else 1)
    assert set(asked) == {"server"}


def test_another_server_than_postgresql_or_one_that_computes_otherwise_is_fetched_from(name: str, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(_in_place, "_OLDEST", 10**9)
    assert opened(name).engine == "duckdb"
    monkeypatch.undo()
    monkeypatch.setattr(_in_place, "_sound", {})
    monkeypatch.setattr(_soundness, "computes", lambda *given: False)
    assert opened(name).engine == "duckdb"


def test_a_plan_says_where_rows_are_added_up(name: str, asked: list[str]) -> None:
    table = opened(name)
    account = sy.open_account(":memory:", "places", unit=BY, epsilon=9, delta="1e-6", additive_delta="1e-7")
    session = sy.Session(table, account)
    for task in (sy.Sum("i", epsilon=1, lower=0, upper=1000), sy.Count(epsilon=1, cap=3, by="k", max_keys=2)):
        assert session.place_of(task) == "added up by postgres, in place"
    fit = sy.FitLinear([Numeric("i", 0, 1)], "m", 0, 100, epsilon=1)
    assert session.place_of(fit) == "fetched from postgres and read on this machine"
    assert sy.Session(table.derive(j2="i * 2"), account).place_of(sy.Sum("j2", epsilon=1, cap=5)).startswith("fetched")
    assert sy.Session(opened(name, in_place=False), account).place_of(sy.Sum("i", epsilon=1, cap=5)) == ""
    assert "rows         added up by postgres, in place" in Reply.of_plan(session, sy.Sum("i", epsilon=1, cap=5)).text
    assert (asked, account.spent.amount) == ([], 0)
    paper = PaperTable({"u": "integer", "i": "integer"}, name="paper")
    assert sy.Session(paper, account).place_of(sy.Sum("i", epsilon=1, cap=5)) == ""


def test_a_server_lost_in_the_middle_of_a_release_is_one_charge_and_one_fixed_message(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, usual = opened(name), PostgresServer._asked
    account = sy.open_account(":memory:", "lost", unit=BY, epsilon=9)
    asked: list[int] = []

    def lost(server: Any, *given: Any) -> Any:
        asked.append(1)
        with psycopg.connect(postgres.server(), autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [server._connection.info.backend_pid])
        return usual(server, *given)

    monkeypatch.setattr(PostgresServer, "_asked", lost)
    said = []
    for _ in range(2):
        with pytest.raises(TableError, match="failed after its charge, and for good") as caught:
            sy.Session(table, account).release(sy.Sum("i", epsilon=1, lower=0, cap=10), key="may")
        said.append(str(caught.value))
        assert caught.value.__cause__ is None
    assert said[0] == said[1]
    assert (len(asked), str(account.spent)) == (1, "epsilon 1")


class Named:
    """A connection to a server that gives itself another name."""

    def __init__(self, connection: Any, version: str) -> None:
        self._connection, self._version, self.info = connection, version, connection.info

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, text: str, **options: Any) -> Any:
        """The answer, of its own making to which version it is."""
        if "version()" in text:
            return self._connection.execute("SELECT %s::text", [self._version])
        return self._connection.execute(text, **options)


@pytest.mark.parametrize("said", ["15.2-YB-2.21.0.0-b0", "12.12 (Greenplum Database 7.1.0)", "16.1 (EnterpriseDB Advanced Server)"])  # fmt: skip
def test_a_server_that_only_says_postgresql_is_fetched_from(name: str, said: str) -> None:
    table = opened(name)
    server = table._engine.server
    assert isinstance(server, PostgresServer)
    connection, version = server._connection, "PostgreSQL {} on x86_64-pc-linux-gnu, 64-bit"
    assert _in_place.sound_server(Named(connection, version.format(said)), "t", {}) is None
    assert _in_place.sound_server(Named(connection, version.format("18.1")), "t", {}) is not None
