"""Questions in the SQL of engines that are not run here: read by their grammar, and, translated, the same integers on DuckDB."""

from __future__ import annotations

import ast
import datetime
import math
import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import ErrorLevel

from steelyard.errors import InvalidTask, TableError
from steelyard.privacy import rows, users
from steelyard.tables import Bins, Capped, Limits, Quantity, Table, compiled, read
from steelyard.tables._compiled import DIALECTS, total
from steelyard.tables._totals import DUCKDB, LIMIT

COLUMNS = {"user": "integer", "amount": "float", "shop": "string", "day": "date", "ok": "boolean"}
ARROW = pa.schema(
    [("user", pa.int64()), ("amount", pa.float64()), ("shop", pa.string()), ("day", pa.date32()), ("ok", pa.bool_())]
)
ODD = "b'\\z\n`\""
HOSTILE = [None, math.nan, math.inf, -math.inf, -0.0, 1.7e308, -1.7e308, 1.7e306, 5e-324, 0.004, 0.005, 2.5, -3.0, 40.0]
USER = users("user")
CENTS, FINE, DAYS, YES = (
    Quantity("amount", Fraction(1, 100)),
    Quantity("amount", Fraction(1, 2**40)),
    Quantity("day"),
    Quantity("ok"),
)
THIRDS = Quantity("amount", Fraction(1, 3))
LIMITS = Limits(max_keys=2, rows_per_key=3, secret=bytes(32))

QUESTIONS: dict[str, Callable[[Table], Any]] = {
    "users": lambda t: t.count_units(USER),
    "sum": lambda t: t.capped_sum(USER, CENTS, -50, 1000),
    "sum of rows": lambda t: t.capped_sum(rows(), THIRDS, -50, 1000),
    "days": lambda t: t.sums_by_bin(USER, Capped(Quantity(), 3), Bins(DAYS, (-(2**20), 0, 18_000, 2**30))),
    "histogram": lambda t: t.totals_histogram(USER, FINE, [0, 1, 1000, 10**6]),
    "norms": lambda t: t.norms_histogram(USER, Capped(CENTS, 9, "l2"), [0, 9, 300, 2**40], "shop", ["a", "c"], LIMITS),
    "keys": lambda t: t.sums_by_key(USER, [Capped(CENTS, 1000), Capped(YES, 2, "l2")], "shop", ["a", ODD, "absent"]),
    "limited keys": lambda t: t.sums_by_key(
        USER, [Capped(CENTS, 1000)], ["shop", "ok"], [("a", True), ("d", False)], LIMITS
    ),
    "found keys": lambda t: t.found_sums_by_key(USER, [Capped(CENTS, 10)], "shop", LIMITS, 2),
    "bins": lambda t: t.sums_by_bin(USER, Capped(Quantity(), 3), Bins(CENTS, (-400, 0, 200, 5000))),
    "values": lambda t: t.distinct_values(USER, "shop", [1, 2], limits=LIMITS),
    "some rows of floats and days": lambda t: t.keep_rows(USER, 3, bytes(32), ["amount", "day"]).capped_sum(
        USER, CENTS, -50, 1000
    ),
    "some rows": lambda t: t.keep_rows(USER, 2, bytes(32), ["shop", "ok"]).capped_sum(USER, YES, 0, 2),
}


def data(seed: int = 1) -> pa.Table:
    draw = random.Random(seed)
    choices: dict[str, list[Any]] = {
        "user": [None, 1, 2, 3, 4, 5],
        "amount": HOSTILE,
        "shop": [None, "a", ODD, "c", "d"],
        "day": [None, datetime.date(1, 1, 1), datetime.date(2020, 2, 29), datetime.date(9999, 12, 31)],
        "ok": [None, True, False],
    }
    made = [{name: draw.choice(values) for name, values in choices.items()} for _ in range(200)]
    return pa.Table.from_pylist(made, schema=ARROW)


@pytest.fixture
def stand_in() -> Iterator[Any]:
    """A DuckDB with the table, and the one function that sqlglot does not translate."""
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA shop")
    connection.register("given", data())
    connection.execute("CREATE TABLE shop.orders AS FROM given")
    connection.execute("CREATE MACRO ieee_divide(a, b) AS a / b")
    yield connection
    connection.close()


@cache
def written(name: str, dialect: str) -> str:
    return compiled(QUESTIONS[name], COLUMNS, dialect, "shop.orders")


@cache
def expected(name: str) -> Any:
    return QUESTIONS[name](read(data()))


def translated(text: str, dialect: str) -> str:
    text = text.replace("BIGNUMERIC", "NUMERIC(38, 0)")  # sqlglot makes 38 digits of it, 5 of them after the point
    text = text.replace("FORMAT('%04d-%02d-%02d', 1970, 1, 1)", "'1970-01-01'")  # Java's patterns are not DuckDB's
    (found,) = sqlglot.transpile(text, read=dialect, write="duckdb", error_level=ErrorLevel.RAISE)
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_compiled_question_translated_to_duckdb_gives_the_same_integers(
    name: str, dialect: str, stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = QUESTIONS[name]
    text = written(name, dialect)
    assert text.startswith(f"-- {dialect}: compiled, not run here\n")
    sqlglot.parse_one(text, dialect=dialect, error_level=ErrorLevel.RAISE)
    answered = stand_in.sql(translated(text, dialect)).to_arrow_table()
    wanted, table = expected(name), read(data())

    def rows_of(engine: Any, *_: Any) -> list[tuple[Any, ...]]:
        return list(zip(*(column.to_pylist() for column in answered.columns), strict=True))

    monkeypatch.setattr(type(table._engine), "rows", rows_of)
    monkeypatch.setattr(type(table._engine), "arrow", lambda *_: answered)
    assert question(table) == wanted


def test_exact_integers_have_38_digits_in_bigquery() -> None:
    texts = [written(name, "bigquery") for name in QUESTIONS]
    assert any("BIGNUMERIC" in text for text in texts)
    assert not any(re.search(r"\b(NUMERIC|DECIMAL)\b", text) for text in texts)


@pytest.mark.parametrize("dialect", ["databricks", "snowflake", "trino"])
def test_sums_are_taken_of_38_digits_elsewhere(dialect: str) -> None:
    text = written("sum", dialect)
    assert len(re.findall(r"SUM\(CAST\(\S+ AS DECIMAL\(38, 0\)\)\)", text)) == 1


@pytest.mark.parametrize(
    ("dialect", "words"),
    [("trino", r"LOWER\(\s*TO_HEX\(\s*SHA256\(\s*TO_UTF8\("), ("bigquery", r"[^(]\s*TO_HEX\(\s*SHA256\("), ("snowflake", r"SHA2\("), ("databricks", r"SHA2\(")],
)  # fmt: skip
def test_digests_are_lower_case_hexadecimal_digits(dialect: str, words: str) -> None:
    assert re.search(words, written("found keys", dialect), re.IGNORECASE)


def products(question: Any) -> list[str]:
    """Each product and quotient of a question about one value, as a question of its own."""
    tree = sqlglot.parse_one(DUCKDB.written(question), dialect="duckdb")
    found = [*tree.find_all(sqlglot.exp.Mul), *tree.find_all(sqlglot.exp.Div)]
    return [f"SELECT {node.sql(dialect='duckdb')} FROM steelyard_made AS t0" for node in found]


@pytest.mark.parametrize(
    "step", [Fraction(1, 10**299), Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(7), Fraction(10**299)]
)
def test_no_product_of_doubles_overflows_and_no_integer_changes(step: Fraction) -> None:
    """In BigQuery a product that overflows is an error; the plain question has one, which DuckDB makes an infinity."""
    quantity = Quantity("amount", step)
    made = ibis.table({"amount": "float64"}, name="steelyard_made")
    plain = made.select(q=quantity.expression(made))
    connection = duckdb.connect()
    finite = [value for value in HOSTILE if value is not None and math.isfinite(value)]
    connection.register("steelyard_made", pa.table({"amount": pa.array(finite, pa.float64())}))
    found = [row for text in products(total(plain)) for row in connection.execute(text).fetchall()]
    assert len(found) >= len(finite)
    assert all(math.isfinite(value) for (value,) in found)
    answers = connection.execute(DUCKDB.written(total(plain))).fetchall()
    assert [value for (value,) in answers] == [quantity.integer(value) for value in finite]
    assert LIMIT in [value for (value,) in answers] or step > 1
    if step < 1:
        twin = [row for text in products(plain) for row in connection.execute(text).fetchall()]
        assert not all(math.isfinite(value) for (value,) in twin)
    connection.close()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_is_an_integer_before_it_is_a_double(dialect: str) -> None:
    """BigQuery has no cast from the one to the other."""
    casts = sqlglot.parse_one(written("keys", dialect), dialect=dialect).find_all(sqlglot.exp.Cast)
    of_truth = {cast.to.this for cast in casts if isinstance(cast.this, sqlglot.exp.Column) and cast.this.name == "ok"}
    assert of_truth == {sqlglot.exp.DataType.Type.BIGINT}


@pytest.mark.parametrize("name", ["keys", "found keys", "limited keys"])
def test_a_window_without_an_order_has_no_frame(name: str) -> None:
    for dialect in ("bigquery", "trino", "databricks"):
        windows = list(sqlglot.parse_one(written(name, dialect), dialect=dialect).find_all(sqlglot.exp.Window))
        assert windows
        assert all(each.args.get("order") or not each.args.get("spec") for each in windows)


def test_an_engine_whose_sums_wrap_is_refused_with_the_reason() -> None:
    with pytest.raises(TableError, match="wrap around"):
        compiled(QUESTIONS["sum"], COLUMNS, "clickhouse", "orders")


@pytest.mark.parametrize(
    ("question", "columns", "dialect", "table", "message"),
    [
        (QUESTIONS["sum"], COLUMNS, "oracle", "orders", "one of databricks, snowflake, bigquery, trino; got 'oracle'"),
        (QUESTIONS["sum"], {**COLUMNS, "amount": "decimal"}, "trino", "orders", "holds decimal values"),
        (QUESTIONS["sum"], COLUMNS, "trino", "a.b.c.d", "a table is named"),
        (QUESTIONS["sum"], COLUMNS, "trino", "a..b", "a table is named"),
        (QUESTIONS["sum"], COLUMNS, "trino", "steelyard_keys", "a table is named"),
        (lambda t: t.columns, COLUMNS, "trino", "orders", "asks the table nothing"),
        (lambda t: t.where("amount > 0"), COLUMNS, "trino", "orders", "views are not written"),
        (lambda t: list(t.batches(["amount"])), COLUMNS, "trino", "orders", "streams of rows are not written"),
        (lambda t: t.fold(["amount"], lambda batch: [0], [0]), COLUMNS, "trino", "orders", "fits are not written"),
        (lambda t: t.blocks_by_unit(["amount"], USER, lambda b: b, 1), COLUMNS, "trino", "orders", "fits by users are not written"),
        (lambda t: t.sums_by_key(USER, [Capped(CENTS, 1)], "shop", [str(i) for i in range(1001)]), COLUMNS, "trino", "orders", "at most 1000"),
        (lambda t: t.capped_sum(USER, Quantity("shop"), 0, 1), COLUMNS, "trino", "orders", "cannot be added up"),
    ],
)  # fmt: skip
def test_what_is_not_written_is_refused_by_name(
    question: Any, columns: Any, dialect: str, table: str, message: str
) -> None:
    with pytest.raises((TableError, InvalidTask), match=message):
        compiled(question, columns, dialect, table)


def test_nobody_asks_for_an_engines_name() -> None:
    """What an engine does is a property of its dialect; only opening a source knows its scheme."""
    asked = []
    for path in (Path(__file__).parents[3] / "src" / "steelyard").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                text = any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in sides)
                named = any(re.search(r"(\.engine|dialect\.name|\.dialect)$", ast.unparse(each)) for each in sides)
                asked += [f"{path.name}:{node.lineno}"] if text and named else []
    assert not asked
