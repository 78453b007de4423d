"""A logistic fit with the same noise: the same model whether its rows are in DuckDB or on Spark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from steelyard.ledger import open_account
from steelyard.models._columns import Categorical, Features, Numeric
from steelyard.models._fits import FitLogistic
from steelyard.models._objective import ObjectiveFit
from steelyard.noise import TestNoise
from steelyard.privacy import rows
from steelyard.session import Session
from steelyard.tables import Table, read

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")
CHOICE = {"method": "choice", "candidates": [[float(k), -1.0, 1.0, 0.0] for k in range(-9, 10)]}


def data(n: int = 4000) -> Any:
    random = np.random.default_rng(7)
    age = random.uniform(0, 100, n)
    return pa.table(
        {
            "age": pa.array([None if i % 17 == 0 else float(v) for i, v in enumerate(age)]),
            "land": pa.array([["x", "y", None, "z"][i % 4] for i in range(n)]),
            "old": pa.array([None if i % 13 == 0 else bool(v) for i, v in enumerate(age > 50)]),
        }
    )


def task(**more: Any) -> FitLogistic:
    features = Features([Numeric("age", 0, 100), Categorical("land", ["x", "y"])], "scale")
    return FitLogistic(features, "old", [False, True], epsilon="1", **more)


def released(table: Table, wanted: FitLogistic) -> list[float]:
    account = open_account(":memory:", "test", unit=rows(), epsilon="1", delta="1e-6")
    return list(Session(table, account, noise=TestNoise(5)).release(wanted).value.theta)


def test_a_fit_on_spark_is_that_of_duckdb_up_to_what_its_noise_covers(spark: Any) -> None:
    """Sums of doubles depend on their order, so answers may differ by what the proof allows: twice the reach and a step."""
    found, expected = released(read(spark.createDataFrame(data())), task()), released(read(data()), task())
    fit = task().fit(open_account(":memory:", "test", unit=rows(), epsilon="1", delta="1e-6").terms)
    assert isinstance(fit, ObjectiveFit)
    assert np.abs(np.subtract(found, expected)).max() <= float(2 * fit.mechanism.reach + fit.mechanism.step)
    assert max(map(abs, expected)) > 1000 * float(2 * fit.mechanism.reach + fit.mechanism.step)


def test_a_choice_on_spark_is_that_of_duckdb(spark: Any) -> None:
    assert released(read(spark.createDataFrame(data())), task(**CHOICE)) == released(read(data()), task(**CHOICE))
