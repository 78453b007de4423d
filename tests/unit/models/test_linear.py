"""FitLinear: accurate, charged exactly, the same on bad data, and silent about rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from steelyard.errors import BudgetExceeded, ColumnMissing, InvalidTask, TableError, UnitMismatch
from steelyard.ledger import open_account
from steelyard.models._columns import Categorical, Column, Features, Numeric
from steelyard.models._fits import FitLinear
from steelyard.models._model import Model
from steelyard.noise import TestNoise
from steelyard.privacy import labels, rows, users
from steelyard.release import Release
from steelyard.session import Session
from steelyard.tables import read

RANDOM = np.random.default_rng(4)
N = 20_000
AGE, LAND = RANDOM.uniform(0, 100, N), RANDOM.choice(["FR", "DE", "IT"], N)
SPEND = 50 + 2 * AGE + 30 * (LAND == "FR") + RANDOM.normal(size=N) * 10
TABLE = read({"age": AGE, "land": LAND, "spend": SPEND, "who": np.arange(N) % 50})
FEATURES: list[Column] = [Numeric("age", 0, 100), Categorical("land", ["FR", "DE"])]


def session(unit: Any = None, table: Any = TABLE, **budget: Any) -> Session:
    account = open_account(":memory:", f"a{RANDOM.integers(2**60)}", unit=unit or rows(), **budget)
    return Session(table, account, noise=TestNoise(int(RANDOM.integers(2**30))))


def task(**changes: Any) -> FitLinear:
    return FitLinear(FEATURES, "spend", 0, 400, **{"epsilon": 1, **changes})


@pytest.mark.parametrize("delta", ["1e-6", None])
@pytest.mark.parametrize("unit", [rows(), rows(neighbours="replace", n=N)])
def test_a_model_finds_what_the_label_depends_on_and_spends_exactly_its_epsilon(delta: Any, unit: Any) -> None:
    budget = {"epsilon": 1, **({"delta": delta} if delta else {})}
    at = session(unit, **budget)
    quoted = at.quote(task())
    release = at.release(task())
    assert release.guarantee.spent == quoted
    assert at.account.spent == quoted
    with pytest.raises(BudgetExceeded):
        at.release(task(epsilon="0.5"))
    found = release.value.coefficients
    assert found["age"] == pytest.approx(2, abs=0.4)
    assert found["land=FR"] == pytest.approx(30, abs=15)
    told = release.value.predict({"age": AGE, "land": LAND})
    assert 1 - np.mean((told - SPEND) ** 2) / np.var(SPEND) > 0.85


def test_users_are_hidden_with_all_their_rows_where_the_account_says_so() -> None:
    many = read({"age": AGE, "land": LAND, "spend": SPEND, "who": np.arange(N) // 4})
    at = session(users("who"), many, epsilon=4, delta="1e-6")
    release = at.release(task(epsilon=4))
    cap = at.account.terms.cap.value
    assert 0.999 * cap <= release.guarantee.spent.value <= cap
    told = release.value.predict({"age": AGE, "land": LAND})
    assert 1 - np.mean((told - SPEND) ** 2) / np.var(SPEND) > 0.8
    with pytest.raises(InvalidTask, match="delta"):
        session(users("who"), epsilon=1).release(task())


def test_the_expected_excess_is_about_right() -> None:
    least = np.mean((SPEND - fitted(epsilon=10**4)) ** 2)
    excesses, expected = [], []
    for _ in range(20):
        release = session(epsilon=1, delta="1e-6").release(task())
        excesses.append(np.mean((release.value.predict({"age": AGE, "land": LAND}) - SPEND) ** 2) - least)
        expected.append(release.point["expected_excess"])
        assert release.point["rows"] == pytest.approx(N, abs=200)
    assert 0.3 < np.mean(excesses) / np.mean(expected) < 3


def fitted(**budget: Any) -> Any:
    release = session(**budget).release(task(**budget))
    return release.value.predict({"age": AGE, "land": LAND})


def test_a_release_reads_back_from_json_and_its_model_predicts_the_same() -> None:
    release = session(epsilon=1, delta="1e-6").release(task())
    again = Model.from_json(Release.from_json(release.to_json()).value)
    data = {"age": AGE[:100], "land": LAND[:100]}
    assert again.predict(data).tolist() == release.value.predict(data).tolist()


def test_a_retry_with_the_same_key_is_free_and_the_same() -> None:
    at = session(epsilon=1, delta="1e-6")
    assert at.release(task(), key="k").value == at.release(task(), key="k").value


@pytest.mark.parametrize(
    "data",
    [
        {"age": pa.array([], pa.float64()), "land": pa.array([], pa.string()), "spend": pa.array([], pa.float64())},
        {"age": [float("nan")] * 9, "land": [None, "x", "FR"] * 3, "spend": [float("inf")] * 9},
        {"age": [1e308, -1e308, 5e-324], "land": ["FR"] * 3, "spend": [1e308, -1e308, float("nan")]},
        {"age": [50.0] * 30, "land": ["DE"] * 30, "spend": [1.0] * 30},
        {"age": [1, 2, 3], "land": ["a", "b", "c"], "spend": [True, False, True]},
    ],
    ids=["no rows", "nothing known", "huge", "constant", "other kinds"],
)
def test_no_data_are_an_error(data: dict[str, Any]) -> None:
    columns = {name: pa.array(values, pa.string() if name == "land" else None) for name, values in data.items()}
    release = session(table=read(pa.table(columns)), epsilon=1, delta="1e-6").release(task())
    told = release.value.predict({"age": [0.0, np.nan, 1e300], "land": ["FR", "DE", "x"]})
    assert ((told >= 0) & (told <= 400)).all()


def test_features_may_outnumber_rows() -> None:
    wide = {f"x{i}": np.array([0.1, 0.2]) for i in range(60)}
    at = session(table=read({**wide, "y": np.array([0.0, 1.0])}), epsilon=1, delta="1e-6")
    release = at.release(FitLinear(list(wide), "y", 0, 1, epsilon=1, x_bound=1))
    assert len(release.value.coefficients) == 61


def test_what_cannot_be_fitted_is_refused_before_anything_is_charged() -> None:
    at = session(epsilon=1)
    with pytest.raises(ColumnMissing):
        at.release(FitLinear([Numeric("agee", 0, 1)], "spend", 0, 1, epsilon=1))
    with pytest.raises(ColumnMissing):
        at.release(FitLinear([Numeric("age", 0, 1)], "spendd", 0, 1, epsilon=1))
    with pytest.raises(TableError):
        at.release(FitLinear([Numeric("age", 0, 1)], "land", 0, 1, epsilon=1))
    with pytest.raises(InvalidTask, match="epsilon"):
        at.release(task(epsilon=None))
    with pytest.raises(UnitMismatch):
        session(labels("age"), epsilon=1).release(task())
    assert at.account.spent.amount == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: FitLinear(["spend"], "spend", 0, 1, epsilon=1, x_bound=1),
        lambda: FitLinear(["age"], "spend", 0, 1, epsilon=1),
        lambda: FitLinear("age", "spend", 0, 1, epsilon=1, x_bound=1),
        lambda: FitLinear(["age"], "spend", 1, 0, epsilon=1, x_bound=1),
        lambda: FitLinear(["age"], "spend", 0, 1, epsilon=-1, x_bound=1),
        lambda: FitLinear(Features(FEATURES), "spend", 0, 1, epsilon=1, x_bound=1),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_when_made(make: Any) -> None:
    with pytest.raises(InvalidTask):
        make()


def worst_ratio(bound: float, x: float) -> float:
    """How many standard deviations one row moves the released count of squares, for rows read with a bound."""
    features = Features([Numeric("x", -bound, bound)], intercept=False)
    added = features.rows(pa.RecordBatch.from_arrays([pa.array([x])], ["x"]))[0, 0]
    return float(added) ** 2


def test_bounds_read_off_the_data_would_move_every_other_row() -> None:
    """The broken twin: with the data's own maximum as the bound, one new row rescales all the others."""
    others = np.full(1000, 1.0)
    features = {n: Features([Numeric("x", -m, m)], intercept=False) for n, m in ((0, 1.0), (1, 100.0))}
    sums = [
        float((features[n].rows(pa.RecordBatch.from_arrays([pa.array(data)], ["x"])).astype(float) ** 2).sum())
        for n, data in ((0, others), (1, np.append(others, 100.0)))
    ]
    moved = abs(sums[1] - sums[0])
    declared = worst_ratio(1.0, 100.0)
    assert moved > 500 * declared
