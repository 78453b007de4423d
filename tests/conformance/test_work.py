"""What a plan says of its work is what happens: statements on DuckDB, jobs on Spark, passes over kept rows, for every task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import steelyard as sy
from faults.cluster_asker import few_steps, tasks
from steelyard.cli import main
from steelyard.tables import Schema, Work, rehearsed
from steelyard.tables import _engine as engine
from steelyard.tables import _unit_blocks as blocks

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")
KINDS = {"user": "integer", "k": "integer", "amount": "float", "y": "integer", "a": "float", "b": "float"}
ONE_SHOT = [name for name, (_, task) in tasks().items() if not isinstance(task, sy.AccuracyFirst)]


def rows(size: int = 1200) -> pa.Table:
    i = np.arange(size)
    return pa.table(
        {"user": i % 400, "k": i % 3, "amount": i % 97 * 1.0, "y": (i % 7 < 3) * 1, "a": i % 11 / 11, "b": i % 13 / 13}
    )


def session(table: Any, name: str) -> tuple[sy.Session, Any]:
    unit, task = tasks()[name]
    unit = sy.rows(neighbours="replace", n=1200) if name == "Question" else unit
    account = sy.open_account(":memory:", "work", unit=unit, epsilon=40, delta=1e-6, additive_delta="1e-7")
    return sy.Session(table, account), task


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Statements that DuckDB runs over the rows, and passes over blocks that are kept on this machine."""
    found: Counter[str] = Counter()

    def counting(kind: Any, name: str, what: str) -> None:
        plain = getattr(kind, name)

        def call(*given: Any, **named: Any) -> Any:
            found[what] += 1
            return plain(*given, **named)

        monkeypatch.setattr(kind, name, call)

    with monkeypatch.context():
        counting(
            engine.DuckEngine, "_show", "statements"
        )  # every question shows the engine its source, and nothing else does
        counting(engine, "_cut", "statements")  # rows in memory that are read without it
        counting(blocks.HeldBlocks, "fold", "passes")
        counting(blocks.KeptBlocks, "fold", "passes")
        monkeypatch.setattr(blocks.KeptBlocks, "in_memory", lambda _: None)
        yield found


@pytest.mark.parametrize("name", ONE_SHOT)
def test_statements_and_passes_on_duckdb_are_those_of_the_plan(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few_steps_for(monkeypatch)
    asking, task = session(sy.read(rows()), name)
    work = asking.work(task)
    assert asking.account.spent.amount == 0
    with counted(monkeypatch) as found:
        release = asking.release(task)
    if "found keys" in name:
        assert len(release.value) > 0  # some key was found, as the plan takes it
    assert (found["statements"], found["passes"]) == (work.jobs, work.passes)


@pytest.mark.parametrize("name", ["FitLinear", "FitLogistic"])
def test_rows_of_files_are_read_as_often_as_the_plan_says(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(rows(), tmp_path / "rows.parquet")
    asking, task = session(sy.read(tmp_path / "rows.parquet"), name)
    work = asking.work(task)
    with counted(monkeypatch) as found:
        asking.release(task)
    assert (found["statements"], found["passes"]) == (work.jobs, work.passes) == (1, 0)


def few_steps_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short descents, put back afterwards."""
    from steelyard.models import _user_descent

    for name in ("_STEPS", "_COUNTS", "_PILOT_AVERAGED", "_MAIN_AVERAGED"):
        monkeypatch.setattr(_user_descent, name, getattr(_user_descent, name))
    few_steps()


@pytest.mark.parametrize("name", ["Sum", "Sum, cap chosen, by key", "Quantile", "FitLinear", "FitLinear, users"])
def test_jobs_on_spark_are_those_of_the_plan(name: str, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    few_steps_for(monkeypatch)
    asking, task = session(sy.read(spark.createDataFrame(rows()), name="rows"), name)
    work, group = asking.work(task), f"work-{name}"
    for key, value in {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}.items():
        before = spark.conf.get(key)  # with these, an action is a job
        spark.conf.set(key, value)
        monkeypatch.setattr(spark, f"_put_back_{key}", before, raising=False)
    spark.sparkContext.setJobGroup(group, "counted")
    try:
        asking.release(task)
    finally:
        for key in ("spark.sql.adaptive.enabled", "spark.sql.autoBroadcastJoinThreshold"):
            spark.conf.set(key, getattr(spark, f"_put_back_{key}"))
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) == work.cluster_jobs


def test_a_plan_that_solves_says_that_its_passes_are_not_known() -> None:
    asking, task = session(sy.read(rows()), "FitLogistic")
    assert asking.work(task).solver
    assert asking.work(task).cluster_jobs is None
    assert "each step of a solver" in str(asking.work(task))


def test_work_follows_from_the_schema_alone() -> None:
    for name in ("Sum by found keys", "FitLinear, users"):
        few, many = (session(sy.read(rows(size)), name) for size in (1, 1200))
        paper = session(sy.tables.PaperTable(KINDS, name="rows"), name)
        assert few[0].work(few[1]) == many[0].work(many[1]) == paper[0].work(paper[1])


def test_a_rehearsal_that_looked_at_rows_would_be_found_out() -> None:
    """A twin: a task that asks once more where it finds a row."""

    def looks(table: Any) -> None:
        if table.count_units(sy.users("user")):
            table.count_units(sy.users("user"))

    assert rehearsed(looks, Schema(KINDS)) == Work(
        1
    )  # on no rows; over rows two statements are counted, so the test above fails it


def test_every_kind_of_column_can_be_rehearsed_by() -> None:
    for kind in ("string", "integer", "float", "decimal", "boolean", "date"):
        schema = Schema({"user": "integer", "k": kind})
        task = sy.Count(epsilon=1, cap=3, by="k", max_keys=2)
        account = sy.open_account(":memory:", "k", unit=sy.users("user"), epsilon=9, delta=1e-6, additive_delta="1e-7")
        paper = sy.Session(sy.tables.PaperTable(schema.columns, name="k"), account)
        assert paper.work(task) == Work(2)


def test_the_command_line_says_how_often_rows_are_read(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(rows(), tmp_path / "rows.parquet")
    ledger, data = str(tmp_path / "budget.db"), str(tmp_path / "rows.parquet")
    sy.open_account(ledger, "a", unit=sy.users("user"), epsilon=4)
    paid = ["--ledger", ledger, "--account", "a", "--epsilon", "1", "--plan"]
    assert main(["sum", data, "amount", "--upper", "1000", *paid]) == 0
    assert "2 engine jobs, each reads the rows" in capsys.readouterr().out
    assert main(["ask", "select sum(amount) as s from data", data, "--cap", "1000", *paid]) == 0
    assert "1 engine job, which reads the rows" in capsys.readouterr().out
