"""Statements that a view may and may not be, each with its reason."""

from __future__ import annotations

from typing import Any

import ibis
import pytest
from ibis.backends.sql.compilers import DuckDBCompiler

from steelyard.errors import SteelyardError, ViewRefused
from steelyard.privacy import rows, users
from steelyard.views import Checker, Relation, private_leaf, public_leaf, query

T = ibis.table(
    {
        "user": "int64", "country": "string", "x": "float64", "n": "int32", "d": "date", "ts": "timestamp", "b": "boolean",
        "c": "decimal(10, 2)", "zoned": "timestamp('UTC')", "list": "array<int64>", "big": "uint64",
    },
    name="t",
)  # fmt: skip
O = ibis.table({"user": "int64", "y": "float64", "k": "string", "id": "string"}, name="o")  # noqa: E741
P = ibis.table({"country": "string", "region": "string", "vat": "float64", "since": "date"}, name="p")
TABLES = {"t": private_leaf(T, "T"), "o": private_leaf(O, "O"), "p": public_leaf(P)}


def checked(statement: str) -> Relation:
    return Checker(TABLES).query(query(statement))


BOTH, USERS = (users("user"), rows()), (users("user"),)
ACCEPTED: list[tuple[str, Any, str]] = [
    ("select * from t", BOTH, "the table itself"),
    ("select * from t where n > 3", BOTH, "a filter of the row"),
    ("select * from t where n > 3 and x < 2.5 or not b", BOTH, "conditions of the row"),
    ("select * from t where country in ('fr', 'de')", BOTH, "a list that is written down"),
    ("select * from t where country like 'f%'", BOTH, "a pattern that is written down"),
    ("select * from t where country not like 'f%'", BOTH, "and one that is not matched"),
    ("select * from t where d >= '2024-01-01' and d < '2025-01-01'", BOTH, "a day that is written down"),
    ("select * from t where ts >= '2024-01-01'", BOTH, "a moment from a day on"),
    ("select * from t where x is not null", BOTH, "whether a value is there"),
    ("select * from t where n between 1 and 5", BOTH, "bounds"),
    ("select user, n * x as revenue from t", BOTH, "a product of the row"),
    ("select user, n * n * n as cube from t", BOTH, "an overflow is null"),
    ("select user, x / n as ratio from t", BOTH, "by zero it is null"),
    ("select user, n % 7 as seventh from t", BOTH, "a remainder by a number that is written down"),
    ("select user, round(x, 2) as r, floor(x) as f, ceil(x) as g, abs(n) as a, sqrt(x) as s from t", BOTH, "rounding"),
    ("select user, c * n as amount from t", BOTH, "decimals are doubles in expressions"),
    ("select user, big + 1 as more from t", BOTH, "unsigned integers are wide"),
    ("select user, date_trunc('month', d) as month from t", BOTH, "the first day of the month"),
    ("select user, date_trunc('week', ts) as week from t", BOTH, "the first day of the week"),
    ("select user, year(d) * 100 + month(d) as ym from t", BOTH, "parts of a day"),
    ("select user, extract(quarter from ts) as q, hour(ts) as h from t", BOTH, "parts of a moment"),
    ("select user, strftime(d, '%Y-%m') as ym from t", BOTH, "a day as text"),
    ("select user, d + interval 3 day as later from t", BOTH, "days later"),
    ("select user, date_diff('day', d, date '2024-12-25') as left_ from t", BOTH, "days between"),
    ("select user, d - date '2020-01-01' as age from t", BOTH, "days between"),
    ("select user, upper(country) || '-' || cast(n as varchar) as k from t", BOTH, "text, from A to Z alone"),
    ("select user, substring(country, 1, 1) as initial, length(country) as l from t", BOTH, "text"),
    ("select user, replace(trim(country), 'fr', 'F') as k from t", BOTH, "text that does not grow"),
    ("select user, case when n > 3 then 'many' when n > 0 then 'few' else 'none' end as k from t", BOTH, "CASE"),
    ("select user, case n when 1 then 'one' end as k from t", BOTH, "CASE of a value"),
    ("select user, if(b, n, 0) as v from t", BOTH, "if"),
    ("select user, coalesce(x, 0) as x0, nullif(n, 0) as n0, greatest(n, 1) as n1, least(x, 9.5) as x9 from t", BOTH, "nulls"),
    ("select user, cast(country as double) as v, try_cast(country as bigint) as w, country::date as z from t", BOTH, "casts give null"),
    ("select user, starts_with(country, 'f') as s, contains(country, 'r') as r from t", BOTH, "parts of text"),
    ("select user as customer, user from t", BOTH, "a column under another name besides"),
    ("select t.user, t.n from t", BOTH, "columns with their table"),
    ('select "user", "n" from t as z', BOTH, "quoted names"),
    ("select z.* from t as z", BOTH, "all columns of a table"),
    ("select user, n from t order by n", BOTH, "an order changes no row"),
    ("select * from (select user, n from t where n > 1) where n < 9", BOTH, "a sub-query in FROM"),
    ("with big as (select * from t where n > 5) select user, n from big", BOTH, "WITH"),
    ("with a as (select user, n from t), z as (select * from a where n > 1) select * from z", BOTH, "WITH after WITH"),
    ("select user, x from t union all select user, y from o", BOTH, "two tables, one after the other"),
    ("select user, vat * x as tax from t join p using (country)", BOTH, "a public table by a unique key"),
    ("select user, region from t left join p on t.country = p.country", BOTH, "a public table, rows kept"),
    ("select t.user, region from p right join t using (country)", BOTH, "the same from the other side"),
    ("select user, region from t join p on t.country = p.country and t.d >= p.since", BOTH, "more conditions"),
    ("select user, region from t join p on t.d >= p.since", USERS, "several matches: the cap bounds them"),
    ("select user, region from t cross join p", USERS, "every public row: the cap bounds them"),
    ("select user, region from t, p", USERS, "the same with a comma"),
    ("select t.user, x, y from t join o using (user)", USERS, "two private tables within a unit"),
    ("select t.user, x, y from t left join o on t.user = o.user", USERS, "the same, rows kept"),
    ("select t.user, x, y from t join o on t.user = o.user and o.y > t.x", USERS, "the same with a condition"),
    ("select a.user, a.n - z.n as change from t a join t z on a.user = z.user", USERS, "a table with itself within a unit"),
    ("select user, count(*) as n, sum(x) as s, avg(x) as a, min(d) as lo, max(n) as hi from t group by user", USERS, "per unit"),
    ("select user, country, count(distinct d) as days from t group by user, country", USERS, "per unit and more"),
    ("select user, month(d) as m, sum(n) as s from t group by 1, 2", USERS, "by place"),
    ("select user, date_trunc('month', d) as m, sum(n) as s from t group by user, m", USERS, "by name"),
    ("select user, sum(n) filter (where b) as s from t group by user having count(*) > 2", USERS, "HAVING and FILTER within a unit"),
    ("select distinct user, country from t", USERS, "DISTINCT with the unit"),
    ("select user, country from t union select user, k from o", USERS, "UNION with the unit"),
    ("with t as (select user, n from t where n > 0) select user, n from t", BOTH, "a name that stands for its own narrowing"),
    ("select user, n from o right join t using (user)", USERS, "every row of t, and what o has of the same unit"),
    ("select user, sum(x) over (partition by (user), n) as v from t", USERS, "finer than the unit"),
    ("select user, sum(n) over (partition by user) as total from t", USERS, "a window within a unit"),
    ("select user, row_number() over (partition by user order by d, n desc) as r from t", USERS, "numbered within a unit"),
    ("select user, x from (select user, x, rank() over (partition by user order by x) as r from t) where r <= 3", USERS, "the first of each"),
    ("select user, x - lag(x) over (partition by user order by d) as change from t", USERS, "the row before, within a unit"),
    ("select user, region from t join (select country, max(region) as region from p group by country) using (country)", BOTH, "a public table may be grouped"),
    ("select user, s / days as daily from (select user, sum(x) as s, count(distinct d) as days from t group by user)", USERS, "an expression over a group"),
]  # fmt: skip

REFUSED: list[tuple[str, Any, str]] = [
    ("select user, n from t limit 10", USERS, "LIMIT"),
    ("select user, n from t order by n desc limit 10", USERS, "LIMIT"),
    ("select user, n from t offset 3", USERS, "OFFSET"),
    ("select user, n from t using sample 10 percent", USERS, "SAMPLE"),
    ("select user, n from t tablesample reservoir(5 rows)", USERS, "SAMPLE"),
    ("select user, x - avg(x) over () as v from t", USERS, "several units"),
    ("select user, sum(x) over (partition by country) as v from t", USERS, "no row is known"),
    ("select user, row_number() over (order by x) as r from t", USERS, "several units"),
    ("select user, row_number() over (partition by user) as r from t", USERS, "ORDER BY"),
    ("select user, sum(x) over (partition by user order by d) as v from t", USERS, "running"),
    ("select user, sum(x) over (partition by user order by d rows 3 preceding) as v from t", USERS, "SPEC"),
    ("select user, ntile(4) over (partition by user order by x) as v from t", USERS, "not on the list"),
    ("select user, count(*) over w as v from t window w as (partition by user)", USERS, "WINDOW"),
    ("select user, n from t qualify row_number() over (partition by user order by x) = 1", USERS, "QUALIFY"),
    ("select count(*) as n from t", USERS, "mixes rows of several units"),
    ("select country, sum(x) as s from t group by country", USERS, "does not keep the unit"),
    ("select sum(x) as s from t group by n + 1", USERS, "mixes rows of several units"),
    ("select user + 0 as user, sum(x) as s from t group by user + 0", USERS, "mixes rows of several units"),
    ("select max(user) as user, country, sum(x) as s from t group by country", USERS, "does not keep the unit"),
    ("select user, sum(x) as s from t group by rollup (user)", USERS, "ROLLUP"),
    ("select user, sum(x) as s from t group by cube (user, country)", USERS, "CUBE"),
    ("select user, sum(x) as s from t group by grouping sets ((user), ())", USERS, "grouping"),
    ("select user, sum(x) as s from t group by all", USERS, "ALL"),
    ("select distinct country from t", USERS, "does not keep the unit"),
    ("select distinct n + 1 as m from t", USERS, "DISTINCT"),
    ("select distinct on (user) user, n from t", USERS, "ON"),
    ("select user, (select max(x) from t) as m from t", USERS, "sub-query"),
    ("select user, exists(select 1 from t where user = 12346) as v from t", USERS, "EXISTS"),
    ("select user, n from t where exists(select 1 from o where o.user = t.user)", USERS, "EXISTS"),
    ("select user, n from t where user in (select user from o)", USERS, "IN over a query"),
    ("select user, n from t where x > (select avg(x) from t)", USERS, "sub-query"),
    ("select user, n from t where x > all (select x from t)", USERS, "not on the list"),
    ("select user, n from t except select user, n from t", USERS, "EXCEPT"),
    ("select user, n from t intersect select user, n from t", USERS, "INTERSECT"),
    ("select user, n from t join o on t.n = o.y", USERS, "JOIN of two private tables"),
    ("select t.user, n from t join o on t.country = o.k", USERS, "no row is known"),
    ("select t.user, n from t cross join o", USERS, "JOIN of two private tables"),
    ("select t.user, n from t, o", USERS, "JOIN of two private tables"),
    ("select t.user, n from t join o on cast(t.user as varchar) = o.id", USERS, "JOIN of two private tables"),
    ("select o.user, n from t full join o using (user)", USERS, "JOIN"),
    ("select t.user, n from t semi join o using (user)", USERS, "JOIN"),
    ("select t.user, n from t anti join o using (user)", USERS, "JOIN"),
    ("select t.user, n from t natural join o", USERS, "METHOD"),
    ("select t.user, n from t positional join o", USERS, "refused"),
    ("select user, region from p left join t using (country)", USERS, "belongs to nobody"),
    ("select a.user, z.n from t a join t z on a.user = z.n", USERS, "JOIN of two private tables"),
    ("select user, x from t union all select 5 as user, vat from p", USERS, "public"),
    ("select user, random() as r from t", USERS, "differs at each reading"),
    ("select user, now() as r from t", USERS, "clock"),
    ("select user, current_date as r from t", USERS, "clock"),
    ("select user, uuid() as r from t", USERS, "differs at each reading"),
    ("select user, exp(x) as v from t", USERS, "last digit"),
    ("select user, ln(x) as v from t", USERS, "last digit"),
    ("select user, x ** 2 as v from t", USERS, "last digit"),
    ("select user, n // 2 as v from t", USERS, "differs between engines"),
    ("select user, n % n as v from t", USERS, "written down"),
    ("select user, cast(x as bigint) as v from t", USERS, "round"),
    ("select user, cast(x as varchar) as v from t", USERS, "differently"),
    ("select user, cast(x as decimal(9, 2)) as v from t", USERS, "differently"),
    ("select user, regexp_matches(country, 'a+') as v from t", USERS, "regular expressions"),
    ("select user, country ilike 'F%' as v from t", USERS, "locale"),
    ("select user, replace(country, 'a', 'aaaa') as v from t", USERS, "grow"),
    ("select user, repeat(country, 1000) as v from t", USERS, "not on the list"),
    ("select user, hash(x) as v from t", USERS, "hashes"),
    ("select user, md5(country) as v from t", USERS, "not on the list"),
    ("select user, year(zoned) as y from t", USERS, "time zone"),
    ("select user, unnest(list) as v from t", USERS, "unnest"),
    ("select user, list[1] as v from t", USERS, "not on the list"),
    ("select user, list_aggregate(list, 'sum') as v from t", USERS, "not on the list"),
    ("select user, string_agg(country) as v from t group by user", USERS, "order"),
    ("select user, any_value(country) as v from t group by user", USERS, "refused"),
    ("select user, first(country) as v from t group by user", USERS, "first"),
    ("select user, median(x) as v from t group by user", USERS, "median"),
    ("select user, stddev(x) as v from t group by user", USERS, "order"),
    ("select user, sum(distinct n) as v from t group by user", USERS, "DISTINCT"),
    ("select user, read_text('/etc/passwd') as v from t", USERS, "files"),
    ("select user, getenv('HOME') as v from t", USERS, "state of the system"),
    ("select * from read_csv('x.csv')", USERS, "refused"),
    ("select * from range(10)", USERS, "refused"),
    ("select user, n from t pivot (sum(n) for country in ('fr'))", USERS, "PIVOT"),
    ("select user, n from t at (version => 1)", USERS, "refused"),
    ("select user, n from t where n = $1", USERS, "placeholder"),
    ("select * exclude (n) from t", USERS, "except is not on the list"),
    ("select columns('n.*'), user from t", USERS, "not on the list"),
    ("with recursive r as (select user from t union all select user from r) select * from r", USERS, "RECURSIVE"),
    ("select n as user, x from t", USERS, "another unit"),
    ("select user + 1 as user, x from t", USERS, "does not keep the unit"),
    ("select coalesce(user, 0) as user, x from t", USERS, "does not keep the unit"),
    ("select x from t", USERS, "does not keep the unit"),
    ("select t.user, l.v from t, lateral (select max(y) as v from o where o.user = t.user) l", USERS, "LATERAL"),
    ("select t.user, n from t asof join o on t.user = o.user and t.x >= o.y", USERS, "METHOD"),
    ("select t.user, n from t join o on t.user = o.user or t.n = o.y", USERS, "JOIN of two private tables"),
    ("select t.user, n from t join o on not (t.user <> o.user)", USERS, "JOIN of two private tables"),
    ("select o.user, t.n from t left join o using (user)", USERS, "no row is known"),
    ("select coalesce(t.user, o.user) as user, n from t left join o on t.user = o.user", USERS, "no row is known"),
    ("with p as (select user, country, x as vat from t) select t.user, vat from t join p using (country)", USERS, "no row is known"),
    ("with o as (select n as user, x as y from t) select user, y from o", USERS, "another unit"),
    ("select user, x from t union all by name select user, y as x from o", USERS, "by_name"),
    ("select user as country, country as user from t", USERS, "another unit"),
    ("select user, sum(sum(n)) over () as v from t group by user", USERS, "window over groups"),
    ("select user, sum(n) as v from t group by user having sum(n) > (select avg(n) from t)", USERS, "sub-query"),
    ("select user, count(*) filter (where x > avg(x)) as v from t group by user", USERS, "not on the list"),
    ("select user, lag(x, n) over (partition by user order by d) as v from t", USERS, "written down"),
    ("select user, arg_max(n, x) as v from t group by user", USERS, "not on the list"),
    ("select user, country collate nocase as v from t", USERS, "bytes"),
    ("select user, try_cast(country as timestamp) as v from t", USERS, "every engine"),
    ("select user, {'a': n}.a as v from t", USERS, "not on the list"),
    ("select user, n from t as t(user, n)", USERS, "columns"),
    ("select user, count(*) as n from t group by user", (rows(),), "several rows"),
    ("select distinct user, n from t", (rows(),), "several rows"),
    ("select user, sum(n) over (partition by user) as v from t", (rows(),), "several rows"),
    ("select t.user, y from t join o using (user)", (rows(),), "several rows"),
    ("select user, n from t union all select user, n from t", (rows(),), "two rows of one"),
    ("select user, region from t cross join p", (rows(),), "several rows"),
    ("select user, region from t join p on t.d >= p.since", (rows(),), "several rows"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "units", "reason"), ACCEPTED, ids=[each[0] for each in ACCEPTED])
def test_what_stays_within_one_unit_is_accepted(statement: str, units: Any, reason: str) -> None:
    relation = checked(statement)
    for unit in units:
        relation.require(unit)
    assert DuckDBCompiler().to_sqlglot(relation.expr).sql("duckdb"), reason


@pytest.mark.parametrize(("statement", "units", "reason"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_mixes_units_or_differs_between_engines_is_refused_with_its_reason(
    statement: str, units: Any, reason: str
) -> None:
    def refused() -> None:
        relation = checked(statement)
        for unit in units:
            relation.require(unit)

    with pytest.raises(ViewRefused) as refusal:
        refused()
    assert reason.lower() in str(refusal.value).lower()


def test_a_refused_clause_comes_with_the_nearest_allowed_form() -> None:
    told = {}
    for statement, _, _ in REFUSED:
        try:
            checked(statement)
        except ViewRefused as refusal:
            told[statement] = str(refusal)
    assert len(told) > 60
    assert [statement for statement, words in told.items() if "Allowed instead: " not in words] == [
        "select user, list_aggregate(list, 'sum') as v from t"  # of a function that nobody knows, none is near
    ]


def test_there_are_sixty_of_each() -> None:
    assert min(len(ACCEPTED), len(REFUSED)) >= 60


@pytest.mark.parametrize(
    "statement",
    [
        "insert into t values (1)", "drop table t", "copy t to 'x.csv'", "attach 'x.db'", "set threads = 1", "select", "",
        "select user from t; select user from t", "select nothing from t", "select user from nowhere", "select user, user from t",
        "select user, n + country as v from t", "select user, n > 'a' as v from t", "select user, d > 3 as v from t",
        "select user from t where n", "select user, 99999999999999999999 as v from t", "select user, country from t, p",
        "select user, 1e999 as v from t", "select user, null as v from t", "select user, length(n) as v from t",
        "select user, '\0' as v from t", "select user, d >= 'today' as v from t", "select user, list as v from t",
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_as_such(statement: str) -> None:
    with pytest.raises(SteelyardError) as refusal:
        checked(statement).require(users("user"))
    assert not isinstance(refusal.value, ViewRefused) or "refused" in str(refusal.value)
