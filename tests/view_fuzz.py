"""A fuzzer of views: random statements over random tables, with one unit's rows or without them.

What a checked view may change when a unit goes is that unit's rows of it and nothing else; and no row may make it fail. Statements are
drawn from a grammar that knows mixing clauses as well as harmless ones. Accepted ones are run on neighbours by a DuckDB set as ours are.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import ibis
import pyarrow as pa
from ibis.backends.sql.compilers import DuckDBCompiler

from steelyard.errors import InvalidTask, TableError, ViewRefused
from steelyard.privacy import Unit, users
from steelyard.privacy import rows as rows_unit
from steelyard.tables._engine import BLIND
from steelyard.views import Checker, Relation, private_leaf, public_leaf, query

SCHEMAS: dict[str, dict[str, str]] = {
    "t": {
        "user": "int64",
        "country": "string",
        "x": "float64",
        "n": "int64",
        "d": "date",
        "b": "boolean",
        "s": "string",
    },
    "o": {"user": "int64", "y": "float64", "k": "string", "m": "int32"},
    "p": {"country": "string", "region": "string", "vat": "float64"},
}
ARROW = {
    "int64": pa.int64(), "int32": pa.int32(), "string": pa.string(), "float64": pa.float64(), "date": pa.date32(),
    "boolean": pa.bool_(),
}  # fmt: skip
_NUMBERS = [0.0, -0.0, 1.5, -2.25, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), 1e-320, 3.0, 7.125, None]
_WHOLES = [0, 1, -1, 2, 3, 5, 7, 2**63 - 1, -(2**63), 2**53, 10**12, None]
_TEXTS = [
    "",
    "fr",
    "de",
    "it",
    "12",
    "-7",
    "1e5",
    "2024-02-29",
    "2023-02-29",
    "ÅΣß",
    "e\u0301😀",
    "a'b\\c",
    " x ",
    None,
]
_DAYS = [0, 19_782, 11_016, 2_932_896, -719_162, 20_088, -1, None]
Rows = list[tuple[Any, ...]]


def cell(chance: random.Random, name: str, kind: str) -> Any:
    """An odd value of a kind; few users, so that units have several rows."""
    if name == "user":
        return chance.choice([1, 1, 2, 2, 3, 4, None])
    if name == "country":
        return chance.choice(["fr", "de", "it", None])
    options: dict[str, list[Any]] = {"float64": _NUMBERS, "int64": _WHOLES, "string": _TEXTS, "date": _DAYS}
    options |= {"boolean": [True, False, None], "int32": [0, 1, -1, 2**31 - 1, -(2**31), None]}
    return chance.choice(options[kind])


def table(chance: random.Random, name: str) -> Rows:
    """Rows of one of the tables; the public one has one row for each country."""
    if name == "p":
        return [("fr", "west", 0.2), ("de", "west", 0.19), ("es", "south", None)]
    found = [
        tuple(cell(chance, *column) for column in SCHEMAS[name].items())
        for _ in range(chance.choice([0, 3, 12, 16, 20]))
    ]
    return found + chance.choices(found, k=min(len(found), 2))


@dataclass
class Statements:
    """Random statements."""

    chance: random.Random
    deep: int = 2
    _names: int = field(default=0)

    def query(self, deep: int = 2) -> str:
        pick = self.chance.random()
        if pick < 0.15 and deep:
            return f"{self.arm()} union all {self.arm()}"
        if pick < 0.22 and deep:
            return f"with w as ({self.query(deep - 1)}) select * from w" + self.maybe(" where user > 1", 0.3)
        return self.select(deep)

    def arm(self) -> str:
        """One side of a union; all sides have the same kinds of columns."""
        pick = self.chance.choice(["t", "t", "o"])
        columns = list(SCHEMAS[pick])
        items = "user, x, country as s" if pick == "t" else "user, y, k"
        return f"select {items} from {pick}" + self.maybe(f" where {self.truth(columns, 1)}", 0.5)

    def maybe(self, text: str, share: float) -> str:
        return text if self.chance.random() < share else ""

    def select(self, deep: int) -> str:
        kind = self.chance.random()
        source, columns = self.source(deep)
        where = self.maybe(f" where {self.truth(columns, self.deep)}", 0.4)
        end = self.maybe(" order by 1", 0.05) + self.maybe(" limit 2", 0.12)
        if kind < 0.25:
            keys = (
                self.chance.choice(["user", "user, country", "country", "user, n", "1"])
                if "country" in columns
                else "user"
            )
            items = "user" if keys != "country" else "country"
            more = ", ".join(f"{self.aggregate(columns)} as a{i}" for i in range(self.chance.randint(1, 2)))
            having = self.maybe(f" having {self.aggregate(columns)} > 1", 0.2)
            return f"select {items}, {more} from {source}{where} group by {keys}{having}{end}"
        if kind < 0.5:
            return f"select user, {self.number(columns, 1)} as v, {self.window(columns)} as w from {source}{where}{end}"
        distinct = self.maybe("distinct ", 0.1)
        if kind < 0.58:
            return f"select {distinct}* from {source}{where}{end}"
        items = ", ".join(f"{self.anything(columns, self.deep)} as e{i}" for i in range(self.chance.randint(1, 3)))
        return f"select {distinct}{self.chance.choice(['user', 'user', 'user', 'n as user', 'user + 0 as user']) if 'n' in columns else 'user'}, {items} from {source}{where}{end}"

    def source(self, deep: int) -> tuple[str, list[str]]:
        pick, t, p = self.chance.random(), *(list(SCHEMAS[name]) for name in "tp")
        if pick < 0.5 or not deep:
            return "t", t
        if pick < 0.6:
            return (
                f"(select user, x, n, country, d, b, s from {self.chance.choice(['t', 't where n > 0', 't limit 3'])})",
                t,
            )
        if pick < 0.75:
            how = self.chance.choice(["join", "left join", "join", "full join"])
            return f"t {how} p using (country)", [*t, *p[1:]]
        if pick < 0.95:
            on = self.chance.choice(
                [
                    "using (user)",
                    "using (user)",
                    "on t.user = o.user",
                    "on t.n = o.m",
                    "on t.s = o.k",
                    "on t.user = o.user and t.n > o.m",
                ]
            )
            how = self.chance.choice(["join", "left join"])
            return (
                f"(select t.user as user, t.x as x, t.n as n, t.country as country, t.d as d, t.b as b, o.k as s from t {how} o {on})",
                t,
            )
        return (
            "(select a.user as user, a.x as x, c.n as n, a.country as country, a.d as d, a.b as b, a.s as s from t a join t c on a.user = c.user)",
            t,
        )

    def anything(self, columns: list[str], deep: int) -> str:
        return self.chance.choice([self.number, self.number, self.text, self.truth, self.day])(columns, deep)

    def number(self, columns: list[str], deep: int) -> str:
        if deep <= 0 or self.chance.random() < 0.2:
            numbers = [name for name in ("x", "n", "user", "vat") if name in columns]
            return self.chance.choice([*numbers * 6, "0", "3", "2.5", "1e300", "-9223372036854775807", "null"])
        a, b, deep = self.number(columns, deep - 1), self.number(columns, deep - 1), deep - 1
        return self.chance.choice([
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / {b})", f"abs({a})", f"floor({a})", f"round({a}, 2)",
            f"sqrt({a})", "(n % 7)" if "n" in columns else "5", f"coalesce({a}, {b})", f"nullif({a}, {b})", f"greatest({a}, {b})",
            f"case when {self.truth(columns, deep)} then {a} else {b} end", f"length({self.text(columns, deep)})",
            f"cast({self.text(columns, deep)} as double)", f"cast({self.text(columns, deep)} as bigint)", f"-({a})",
            f"year({self.day(columns, deep)})", f"date_diff('day', {self.day(columns, deep)}, {self.day(columns, deep)})",
            "(select max(x) from t)" if self.chance.random() < 0.3 else a, f"ceil({a})", f"round({a})",
            "random()" if self.chance.random() < 0.1 else a,
        ])  # fmt: skip

    def text(self, columns: list[str], deep: int) -> str:
        if deep <= 0 or self.chance.random() < 0.3:
            return self.chance.choice(
                [name for name in ("country", "s", "region") if name in columns] + ["'fr'", "'a''b'"]
            )
        a, b = self.text(columns, deep - 1), self.text(columns, deep - 1)
        return self.chance.choice([
            f"upper({a})", f"lower({a})", f"({a} || {b})", f"substring({a}, 1, 2)", f"replace({a}, 'fr', 'x')", f"trim({a})",
            f"cast({self.day(columns, deep - 1)} as varchar)", f"coalesce({a}, {b})", f"strftime({self.day(columns, 0)}, '%Y-%m')",
            "cast(n as varchar)" if "n" in columns else a,
        ])  # fmt: skip

    def day(self, columns: list[str], deep: int) -> str:
        if deep <= 0 or "d" not in columns or self.chance.random() < 0.3:
            return "d" if "d" in columns else "date '2024-02-29'"
        unit = self.chance.choice(["month", "year", "quarter", "week", "day"])
        return self.chance.choice([
            f"date_trunc('{unit}', {self.day(columns, deep - 1)})", f"(d + interval {self.chance.choice(['3', '1000', '-9'])} day)",
            f"cast({self.text(columns, deep - 1)} as date)", f"coalesce(d, {self.day(columns, deep - 1)})",
        ])  # fmt: skip

    def truth(self, columns: list[str], deep: int) -> str:
        if deep <= 0 or "n" not in columns:
            return self.chance.choice(["b" if "b" in columns else "user > 2", "user = 2", "user is not null"])
        deep -= 1
        a, b = self.number(columns, deep), self.number(columns, deep)
        return self.chance.choice([
            f"({a} {self.chance.choice(['<', '<=', '=', '<>', '>', '>='])} {b})", f"({self.text(columns, deep)} {self.chance.choice(['', 'not '])}like '%a_b%')",
            f"({self.truth(columns, deep)} and {self.truth(columns, deep)})", f"({self.truth(columns, deep)} or {self.truth(columns, deep)})",
            f"(not {self.truth(columns, deep)})", f"({a} is null)", f"({self.text(columns, deep)} in ('fr', 'de'))",
            f"({a} between {b} and 5)", f"({self.day(columns, deep)} >= '2024-01-01')",
            "(user in (select user from o))" if self.chance.random() < 0.15 else "(user = 1)",
            "exists(select 1 from o)" if self.chance.random() < 0.1 else "(user <> 1)",
        ])  # fmt: skip

    def aggregate(self, columns: list[str]) -> str:
        return self.chance.choice([
            "count(*)", f"sum({self.number(columns, 1)})", f"avg({self.number(columns, 1)})", f"min({self.anything(columns, 1)})",
            f"max({self.number(columns, 1)})", f"count(distinct {self.anything(columns, 1)})",
            f"sum({self.number(columns, 0)}) filter (where {self.truth(columns, 1)})", f"count({self.text(columns, 1)})",
        ])  # fmt: skip

    def window(self, columns: list[str]) -> str:
        by = self.chance.choice(
            [
                "partition by user",
                "partition by user",
                "partition by user, n" if "n" in columns else "",
                "partition by country" if "country" in columns else "",
                "",
            ]
        )
        order = f"order by {self.number(columns, 1)}{self.chance.choice(['', ' desc'])}"
        return self.chance.choice([
            f"row_number() over ({by} {order})", f"rank() over ({by} {order})", f"lag({self.number(columns, 0)}) over ({by} {order})",
            f"sum({self.number(columns, 1)}) over ({by})", f"count(*) over ({by})", f"max({self.number(columns, 0)}) over ({by})",
            f"lead({self.number(columns, 0)}, 2) over ({by} {order})", f"avg({self.number(columns, 0)}) over ({by})",
        ])  # fmt: skip


def relations() -> dict[str, Relation]:
    """The tables as a checker is given them."""
    bases = {name: ibis.table(schema, name=name) for name, schema in SCHEMAS.items()}
    return {"t": private_leaf(bases["t"], "T"), "o": private_leaf(bases["o"], "O"), "p": public_leaf(bases["p"])}


@dataclass(frozen=True)
class Neighbours:
    """Tables as they are, without one user, and without one row: three schemas of one connection."""

    con: Any
    name: str
    unit: int
    tables: dict[str, Rows]

    def ask(self, which: str, sql: str) -> Counter[tuple[Any, str]] | str:
        """The rows of a view as a multiset, told to the last digit, each with its first column; or why there are none."""
        try:
            self.con.execute(f"SET schema = '{which}{self.name}'")
            return Counter((row[0], repr(row)) for row in self.con.execute(sql).fetchall())
        except duckdb.Error as problem:
            return str(problem)


def neighbours(con: Any, chance: random.Random, number: int) -> Neighbours:
    """Draw tables and write them down three times; what is without lies in another order."""
    tables, unit = {name: table(chance, name) for name in SCHEMAS}, chance.choice([1, 2, 3, 4])
    without = {name: rows if name == "p" else [row for row in rows if row[0] != unit] for name, rows in tables.items()}
    private = chance.choice([name for name in ("t", "o") if tables[name]] or ["t"])
    one_less = {**tables, private: chance.sample(tables[private], max(0, len(tables[private]) - 1))}
    for which, held in (("a", tables), ("u", without), ("r", one_less)):
        con.execute(f"CREATE SCHEMA {which}{number}")
        for name, rows in held.items():
            _write(con, f"{which}{number}.{name}", name, rows if which == "a" else rows[::-1])
    return Neighbours(con, str(number), unit, tables)


def _write(con: Any, where: str, name: str, rows: Rows) -> None:
    schema = pa.schema([(column, ARROW[kind]) for column, kind in SCHEMAS[name].items()])
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(values, each.type) for values, each in zip(columns, schema, strict=True)]
    con.register("given", pa.table(arrays, schema=schema))
    con.execute(f"CREATE TABLE {where} AS SELECT * FROM given")
    con.unregister("given")


def connection() -> Any:
    """A DuckDB that is set as ours are."""
    found = duckdb.connect(
        ":memory:", config={"disabled_optimizers": BLIND, "threads": "1", "preserve_insertion_order": "false"}
    )
    found.execute("SET enable_progress_bar = false")
    return found


def compiled(relation: Relation) -> str:
    """A view as SQL, the unit first."""
    place = relation.columns.index("user")
    sql = str(DuckDBCompiler().to_sqlglot(relation.expr).sql("duckdb"))
    return sql if place == 0 else f'SELECT "user", COLUMNS(* EXCLUDE ("user")) FROM ({sql})'


def violations(relation: Relation, sql: str, near: Neighbours) -> Iterator[str]:
    """What of an accepted view one unit's going changes beyond its own rows."""
    before = near.ask("a", sql)
    if isinstance(before, str):
        yield f"a row makes it fail: {before}"
        return
    if accepts(relation, users("user")):
        after = near.ask("u", sql)
        if isinstance(after, str) or _others(before, near.unit) != _others(after, None):
            yield f"unit {near.unit} changes other rows: {near.tables} {after if isinstance(after, str) else ''}"
    if accepts(relation, rows_unit()):
        after = near.ask("r", sql)
        if isinstance(after, str) or after - before or sum((before - after).values()) > 1:
            yield f"one row changes others: {near.tables} {after if isinstance(after, str) else ''}"


def _others(found: Counter[tuple[Any, str]], unit: Any) -> Counter[tuple[Any, str]]:
    """The rows of somebody else than a unit; those of nobody do not count."""
    return Counter({row: n for row, n in found.items() if row[0] not in (unit, None)})


def accepts(relation: Relation, unit: Unit) -> bool:
    """Whether a view is accepted for a unit."""
    try:
        relation.require(unit)
    except ViewRefused:
        return False
    return True


def found_in(
    seed: int, accepted: int, checker: type[Checker] = Checker, deep: int = 2, about: str = ""
) -> tuple[int, list[str]]:
    """Draw statements, all of which hold a text, until so many are accepted for users or rows.

    How many were drawn, and what was violated.
    """
    chance, tables, con = random.Random(seed), relations(), connection()
    pool = [neighbours(con, chance, i) for i in range(25)]
    drawn = held = 0
    problems: list[str] = []
    while held < accepted:
        statement = Statements(chance, deep).query(deep)
        if about not in statement:
            continue
        drawn += 1
        try:
            relation = checker(tables).query(query(statement))
        except (ViewRefused, InvalidTask, TableError):
            continue
        if "user" not in relation.columns or not any(accepts(relation, unit) for unit in (users("user"), rows_unit())):
            continue
        held += 1
        near, sql = chance.sample(pool, 2), compiled(relation)
        problems += [f"{statement}\n  {each}" for pair in near for each in violations(relation, sql, pair)]
    con.close()
    return drawn, problems
