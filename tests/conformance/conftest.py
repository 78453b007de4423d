"""The engines every table test runs on: DuckDB, and a real local Spark started once; and the places where ledgers live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import postgres
from spark import local_spark
from steelyard.tables import Table, read

Opener = Callable[[Any], Table]
_COMPILED: dict[Any, str] = {}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for the whole run."""
    with local_spark() as session:
        yield session


@pytest.fixture
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a question that is asked of many tables be written as SQL only once, which is most of what it costs here."""
    compile_question = Table._sql

    def remembered(table: Table, question: Any, *dialect: Any) -> str:
        about = (*dialect, table.engine, question.op())
        if about not in _COMPILED:
            _COMPILED[about] = compile_question(table, question, *dialect)
        return _COMPILED[about]

    monkeypatch.setattr(Table, "_sql", remembered)


@pytest.fixture(params=["duckdb", "pyspark"])
def open_table(request: pytest.FixtureRequest) -> Opener:
    """Opens an Arrow table on one engine."""
    if request.param == "duckdb":
        return read
    session = request.getfixturevalue("spark")
    return lambda table: read(session.createDataFrame(table))


@pytest.fixture(params=["duckdb", "pyspark", "postgres"])
def open_everywhere(request: pytest.FixtureRequest) -> Opener:
    """The same, and on a PostgreSQL server that adds up in place."""
    if request.param == "postgres":
        return postgres.opened
    if request.param == "duckdb":
        return read
    session = request.getfixturevalue("spark")
    return lambda table: read(session.createDataFrame(table))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty place for a ledger, of each kind."""
    if request.param == "memory":
        return ":memory:"
    if request.param == "sqlite":
        return str(tmp_path / "budget.db")
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    return postgres.new_database()
