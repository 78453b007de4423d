"""Questions in SQL: which tasks they become, what acts on released numbers, and what is refused with what could be asked."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import steelyard as sy
from steelyard.cli import main
from steelyard.errors import BudgetExceeded, ColumnMissing, InvalidTask, ViewRefused
from steelyard.requests import task_from

STATEMENT = (
    "select country, date_trunc('month', day) as month, sum(quantity * price) as revenue from data "
    "where quantity > 0 group by country, month"
)


def rows(n: int = 3000) -> pa.Table:
    draw = np.random.default_rng(5)
    days = np.array(["2026-01-01"], "datetime64[D]") + draw.integers(0, 59, n)
    return pa.table(
        {
            "user": draw.integers(0, 700, n),
            "country": draw.choice(["fr", "de", "it"], n),
            "quantity": draw.integers(-2, 9, n),
            "price": draw.random(n).round(2),
            "day": pa.array(days, pa.date32()),
        }
    )


@pytest.fixture
def session() -> sy.Session:
    return sy.Session(sy.read(rows()), sy.open_account(":memory:", "a", unit=sy.users("user"), epsilon=40))


def truth(statement: str) -> list[tuple[Any, ...]]:
    import duckdb

    with duckdb.connect() as connection:
        connection.register("data", rows())
        return list(connection.execute(statement).fetchall())


def test_one_question_in_python_in_sql_and_on_the_command_line_has_one_plan(tmp_path: Path, capsys: Any) -> None:
    path, ledger = str(tmp_path / "retail.parquet"), str(tmp_path / "budget.db")
    pq.write_table(rows(), path)
    account = sy.open_account(ledger, "a", unit=sy.users("user"), epsilon=8, delta="1e-6", additive_delta="1e-7")
    sold = sy.read(path).where("quantity > 0").derive(revenue="quantity * price", month="date_trunc('month', day)")
    task = sy.Sum("revenue", epsilon=2, cap=50, by=["country", "month"], max_keys=4)
    python = sy.Session(sold, account).plan(task)
    asked = sy.Session(sy.read(path), account).sql_plan(STATEMENT, epsilon=2, cap=50, max_keys=4)
    in_sql = asked.session.plan(asked.tasks["revenue"])
    assert asked.tasks == {"revenue": task}
    assert (in_sql.event, in_sql.predicted) == (python.event, python.predicted)
    paid = ["--ledger", ledger, "--account", "a", "--epsilon", "2", "--cap", "50", "--max-keys", "4", "--plan"]
    view = [
        "--where",
        "quantity > 0",
        "--derive",
        "revenue=quantity * price",
        "--derive",
        "month=date_trunc('month', day)",
    ]
    assert main(["sum", path, "revenue", *view, "--by", "country,month", *paid]) == 0
    by_options = capsys.readouterr().out
    assert main(["ask", STATEMENT, path, *paid]) == 0
    by_statement = capsys.readouterr().out
    assert main(["ask", STATEMENT, path, *paid, "--json"]) == 0
    (told_to_programs,) = json.loads(capsys.readouterr().out)["tasks"]
    assert task_from(told_to_programs["task"]) == task
    assert python.predicted is not None
    assert told_to_programs["error"] == python.predicted.to_json()
    for told in (str(python.predicted), "mu 0.4"):
        assert told in by_options
        assert told in by_statement
    assert account.spent.amount == 0


def test_the_answer_is_near_the_truth_and_ordered_for_free(session: sy.Session) -> None:
    keys = [(c, datetime.date(2026, m, 1)) for c in ("fr", "de", "it") for m in (1, 2)]
    found = session.sql(STATEMENT + " order by revenue desc limit 4", epsilon=20, cap=40, keys=keys)
    exact = {(row[0], row[1].date()): row[2] for row in truth(STATEMENT)}
    assert [list(row) for row in found.rows] == [["country", "month", "revenue"]] * 4
    assert sorted((row["revenue"] for row in found.rows), reverse=True) == [row["revenue"] for row in found.rows]
    for row in found.rows:
        assert row["revenue"] == pytest.approx(exact[row["country"], row["month"]], abs=40)
    assert found.table.num_rows == len(found.to_pandas()) == 4
    assert session.account.spent == session.sql_plan(STATEMENT, epsilon=20, cap=40, keys=keys).session.quote(sy.Sum("revenue", epsilon=20, cap=40, by=["country", "month"], keys=keys))  # fmt: skip


def test_several_aggregates_divide_epsilon_equally_and_read_once(session: sy.Session) -> None:
    asked = session.sql_plan(
        "select country, sum(quantity) as items, count(*) as n from t group by 1 having n > 100 order by 2",
        epsilon=4, cap={"items": 60, "n": 30}, keys=["fr", "de", "it", "zz"],
    )  # fmt: skip
    assert {name: str(task.epsilon) for name, task in asked.tasks.items()} == {"items": "2", "n": "2"}
    assert asked.request() == sy.Together(list(asked.tasks.values()))
    answers = asked.release("k")
    assert {row["country"] for row in answers.rows} == {"fr", "de", "it"}
    assert str(session.account.spent) == "epsilon 4"
    again = session.sql(
        "select country, sum(quantity) as items, count(*) as n from t group by 1 having n > 100 order by 2",
        epsilon=4, cap={"items": 60, "n": 30}, keys=["fr", "de", "it", "zz"], key="k",
    )  # fmt: skip
    assert again.rows == answers.rows
    assert str(session.account.spent) == "epsilon 4"
    assert "returned again" in str(again)


def test_users_means_filters_joins_and_sub_queries(session: sy.Session) -> None:
    regions = sy.public({"country": ["fr", "de", "it"], "region": ["west", "west", "south"]})
    found = session.sql(
        "with sold as (select * from orders where quantity > 0) select region, count(distinct user) as people, "
        "count(*) filter (where price > 0.5) as dear, avg(price) as mean from sold join regions using (country) group by region",
        epsilon=18, keys=["west", "south"], cap={"dear": 20}, upper={"mean": 1, "people": None}, regions=regions,
    )  # fmt: skip
    west = next(row for row in found.rows if row["region"] == "west")
    exact = truth(
        "select count(distinct user), count(*) filter (where price > 0.5), avg(price) from data where quantity > 0 and country <> 'it'"
    )[0]
    assert west["people"] == pytest.approx(exact[0], abs=60)
    assert west["dear"] == pytest.approx(exact[1], abs=60)
    assert west["mean"] == pytest.approx(exact[2], abs=0.1)


ALL = (
    "select country, sum(quantity) as items, count(*) as n, count(distinct user) as people, count(distinct day) as days, avg(price) as mean, "
    "median(price) as middle, quantile_cont(price, 0.9) as dear, variance(price) as spread, stddev_pop(price) as sd, sum(quantity * price) / sum(price) as per_euro "
    "from t group by all"
)
LIMITS: dict[str, Any] = {
    "cap": {"items": 60, "n": 30, "mean": 30, "middle": 30, "dear": 30, "spread": 30, "sd": 30, "days": 30, "per_euro": 60},
    "upper": {"mean": 1, "middle": 1, "dear": 1, "spread": 1, "sd": 1},
    "over_cap": 20,
}  # fmt: skip


def test_every_aggregate_of_one_statement_is_asked_together() -> None:
    account = sy.open_account(":memory:", "a", unit=sy.users("user"), epsilon=2000)
    asked = sy.Session(sy.read(rows()), account).sql_plan(ALL, epsilon=1000, keys=["fr", "de", "it"], **LIMITS)
    kinds = [type(task).__name__ for task in asked.tasks.values()]
    assert kinds == [
        "Sum",
        "Count",
        "CountUsers",
        "CountDistinct",
        "Mean",
        "Median",
        "Quantile",
        "Variance",
        "Std",
        "Ratio",
    ]
    assert isinstance(asked.request(), sy.Together)
    told = asked.plan().split("\n")
    assert len(told) == 11
    assert "10 together" in told[-1]
    assert "epsilon 1000" in told[-1]
    assert all("epsilon 100" in line for line in told[:-1])
    answers = asked.release()
    assert account.spent <= sy.Loss.pure(1000)
    exact = {row[0]: row[1:] for row in truth(ALL.replace(" from t ", " from data "))}
    for row in answers.rows:
        items, n, people, days, mean, middle, dear, spread, sd, per = exact[row["country"]]
        assert (row["items"], row["n"], row["people"], row["days"]) == pytest.approx((items, n, people, days), abs=30)
        assert (row["mean"], row["middle"], row["dear"]) == pytest.approx((mean, middle, dear), abs=0.05)
        assert (row["spread"], row["sd"], row["per_euro"]) == pytest.approx((spread, sd, per), abs=0.2)


def test_found_keys_are_chosen_once_for_a_whole_statement_and_the_rest_has_a_row() -> None:
    account = sy.open_account(":memory:", "a", unit=sy.users("user"), epsilon=30, delta="1e-6", additive_delta="5e-7")
    session = sy.Session(sy.read(rows()), account)
    text = "select country, day as day, sum(price) as paid, count(*) as n, avg(price) as mean from t group by country, day order by n desc"
    options: dict[str, Any] = {
        "epsilon": 20,
        "max_keys": 6,
        "cap": {"paid": 9, "n": 9, "mean": 9},
        "upper": {"mean": 1},
    }
    asked = session.sql_plan(text, others=True, **options)
    one, three = (
        session.sql_plan(text.replace(", count(*) as n, avg(price) as mean", "").replace("by n", "by 3"), **options),
        asked,
    )
    assert three.session.quote(three.request()).delta == one.session.quote(one.request()).delta, (
        "one search, one failure"
    )
    found = asked.release()
    assert found.rows
    assert {"country": None, "day": None} in [{name: row[name] for name in ("country", "day")} for row in found.rows]
    assert all(row["mean"] is not None and row["paid"] is not None for row in found.rows)
    assert found.release.point["threshold"] > 0


def test_each_number_has_its_own_error_and_is_printed_to_what_that_supports() -> None:
    account = sy.open_account(":memory:", "a", unit=sy.users("user"), epsilon=30, delta="1e-6", additive_delta="5e-7")
    asked = sy.Session(sy.read(rows()), account).sql_plan(
        "select country, sum(price) as paid, count(distinct user) as people, median(price) as mid from t group by country order by paid desc",
        epsilon=20, max_keys=3, cap={"paid": 9, "mid": 9}, upper={"mid": 1},
    )  # fmt: skip
    expected = {each["name"]: each["error"]["interval"] for each in asked.to_json()["tasks"]}
    found = asked.release("k")
    table = found.to_pandas()
    assert list(table.columns) == [
        "country", "paid", "people", "mid", "paid_noise", "people_noise", "mid_low", "mid_high",
    ]  # fmt: skip
    assert table["paid"].tolist() == [row["paid"] for row in found.rows] == sorted(table["paid"], reverse=True)
    assert set(table["paid_noise"]) == {expected["paid"]}, "the plan tells the error beside the others"
    assert set(table["people_noise"]) == {expected["people"]}
    assert all(low <= mid <= high for low, mid, high in table[["mid_low", "mid", "mid_high"]].itertuples(index=False))
    line = next(line for line in str(found).splitlines() if line.startswith("fr"))
    assert len(line.split(" ± ")) == 3
    assert "." not in line.split(" ± ")[2].split()[0], "a count of people has no decimals"
    assert f"{found.rows[0]['paid']}" not in str(found)
    assert len(repr(found)) < 200
    assert "returned again" in repr(asked.release("k"))
    page, picture = found._repr_html_(), found.chart()
    assert "<svg" in page
    assert "<table" in page
    assert picture.svg().count("fr</text>") == 3, "a bar for each number"
    assert "paid, people, mid by country" in picture.svg()
    assert "Nothing was spent" in asked._repr_html_()
    assert len(repr(asked)) < 200


def test_a_number_without_keys_is_a_row_with_its_error(session: sy.Session) -> None:
    found = session.sql("select count(*) as n, sum(price) as paid from t", epsilon=4, cap=30)
    assert found.table.column_names == ["n", "paid", "n_noise", "paid_noise"]
    assert " ± " in str(found).splitlines()[1]
    assert found.chart().svg().count("± ") >= 2


def test_rows_with_a_value_are_counted() -> None:
    given = pa.table({"user": range(400), "v": [None if i % 4 == 0 else "x" for i in range(400)]})
    account = sy.open_account(":memory:", "a", unit=sy.users("user"), epsilon=200)
    found = sy.Session(sy.read(given), account).sql(
        "select count(v) as known, count(v) filter (where user < 200) as half, count(*) as n from t", epsilon=150, cap=1
    )
    (row,) = found.rows
    assert [row["known"], row["half"], row["n"]] == pytest.approx([300, 150, 400], abs=2)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("select country from t", "nothing is aggregated"),
        ("select country, sum(quantity) as s from t", "GROUP BY it"),
        ("select min(price) from t", "one person's value. quantile\\(x, 0.01\\)"),
        ("select max(price) as m from t", "quantile\\(x, 0.99\\) can be"),
        ("select count(sum(price)) as m from t", "cannot be asked for"),
        ("select count(price, quantity) as m from t", "cannot be asked for"),
        ("select sum(quantity) / count(*) as r from t", "work others out from the released numbers"),
        ("select sum(quantity) / sum(quantity) as r from t", "cannot be asked for"),
        ("select sum(distinct quantity) as r from t", "cannot be asked for"),
        ("select mode(country) as r from t", r"quantile\(x, 0.9\), variance\(x\)"),
        ("select quantile(price, price) as r from t", "written down"),
        ("select country, sum(quantity) as s from t group by country, price", "write it among the columns"),
        ("select sum(quantity) as s from t having count(*) > 3", "not released"),
        ("select sum(quantity) as s from t having price > 3", "no column 'price'"),
        ("select sum(quantity) as s from t having s > 'abc'", "mixes"),
        ("select count(*) as n from t having (select count(*) from t) > 3", "sub-query"),
        ("select count(*) as n from t having exists(select 1 from t where price > 3)", "EXISTS"),
        ("select count(*) as n from t having n in (select quantity from t)", "IN over a query"),
        ("select sum(quantity) as s from t order by s nulls first", "NULLS FIRST"),
        ("select sum(quantity) as s from t order by price", "order by a column of the answer"),
        ("select sum(quantity) as s from t, u", "one private table"),
        ("select sum(quantity) as s from t limit 2 + 1", "whole number"),
        ("select country, sum(quantity) as s from t group by rollup (country)", "ROLLUP"),
        ("delete from t", "one SELECT"),
        ("select sum(v) as s from (select user, quantity - avg(quantity) over () as v from t)", "several units"),
        ("select sum(quantity) as s from (select * from t limit 5)", "LIMIT"),
        ("select sum(quantity) as s from t qualify 1 = 1", "QUALIFY"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_a_charge(session: sy.Session, statement: str, said: str) -> None:
    with pytest.raises((InvalidTask, ViewRefused, ColumnMissing), match=said):
        session.sql(statement, epsilon=1, cap=1)
    assert session.account.spent.amount == 0


def test_having_may_name_keys_of_every_kind(session: sy.Session) -> None:
    by = "quantity as i, round(price, 1) as f, quantity > 1 as b, day"
    told = "i >= 0 and f >= 0.5 and not b and day > cast('2020-01-01' as date)"
    keys = [(1, 0.5, False, datetime.date(2026, 1, 2)), (-1, 0.5, False, datetime.date(2026, 1, 2))]
    statement = f"select {by}, count(*) as n from t group by all having {told} and n > -1000000"
    assert len(session.sql(statement, epsilon=1, cap=1, keys=keys).rows) == 1


def test_having_is_asked_of_everything_else_alone_too() -> None:
    """No key reaches its threshold: the only row has none, and a text is still compared with a text."""
    account = sy.open_account(":memory:", "a", unit=sy.users("u"), epsilon=9, delta="1e-6", additive_delta="5e-7")
    few = sy.Session(sy.read({"u": ["a", "b"], "k": ["x", "y"]}), account)
    statement = "select k, count(*) as n from t group by k having k = 'x' or n > -1000000"
    found = few.sql(statement, epsilon=1, cap=1, max_keys=1, others=True).rows
    assert [row["k"] for row in found] == [None]


def test_all_of_a_statement_is_refused_where_the_account_cannot_pay_for_all(session: sy.Session) -> None:
    with pytest.raises(BudgetExceeded, match="Nothing was charged"):
        session.sql("select count(*) as n, count(distinct user) as u from t", epsilon=41, cap=1)
    assert session.account.spent.amount == 0


def test_options_of_a_release_on_the_command_line(tmp_path: Path, capsys: Any) -> None:
    path, ledger, regions, sql = (str(tmp_path / name) for name in ("t.parquet", "b.db", "r.csv", "v.sql"))
    pq.write_table(rows(), path)
    Path(regions).write_text("country,region\nfr,west\nde,west\n")
    Path(sql).write_text("select user, country, quantity * 2 as twice from data where quantity > 0")
    sy.open_account(ledger, "a", unit=sy.users("user"), epsilon=40)
    paid = ["--ledger", ledger, "--account", "a", "--epsilon", "9", "--cap", "90"]
    assert main(["count", path, "--join", f"{regions}:country", "--by", "region", "--keys", "west", *paid]) == 0
    assert "west" in capsys.readouterr().out
    assert main(["sum", path, "twice", "--view", sql, *paid, "--json"]) == 0
    exact = truth("select sum(quantity) * 2 from data where quantity > 0")[0][0]
    import json

    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(exact, abs=150)
    assert main(["sum", path, "v", "--derive", "v=quantity - avg(quantity) over ()", *paid]) == 3
    assert "several units" in capsys.readouterr().err
    for wrong in (["--derive", "v"], ["--join", "r.csv"], ["--view", str(tmp_path / "no.sql")]):
        assert main(["sum", path, "quantity", *wrong, *paid]) == 2
    asked = "select country, sum(quantity) as q, count(*) as n from data group by country order by n desc limit 1"
    assert main(["ask", asked, path, "--keys", "fr,de,it", "--ledger", ledger, "--account", "a", "--epsilon", "9", "--cap", "q=60", "--cap", "n=30"]) == 0  # fmt: skip
    assert len(capsys.readouterr().out.split("\n")[0].split()) == 3
    several = "select country, avg(price) as m, count(distinct day) as d, sum(price) / sum(quantity) as r from data group by 1"
    limits = ["--cap", "30", "--over-cap", "60", "--upper", "m=1", "--keys", "fr", "--others"]
    assert main(["ask", several, path, *limits, "--ledger", ledger, "--account", "a", "--epsilon", "6"]) == 0
    assert "everything else" in capsys.readouterr().out
