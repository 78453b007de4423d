"""The engines every table test runs on: DuckDB, and a real local Spark started once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spark import local_spark
from steelyard.tables import Table, read

Opener = Callable[[Any], Table]


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for the whole run."""
    with local_spark() as session:
        yield session


@pytest.fixture(params=["duckdb", "pyspark"])
def open_table(request: pytest.FixtureRequest) -> Opener:
    """Opens an Arrow table on one engine."""
    if request.param == "duckdb":
        return read
    session = request.getfixturevalue("spark")
    return lambda table: read(session.createDataFrame(table))
