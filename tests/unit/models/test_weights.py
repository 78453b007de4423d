"""Weights of rows and classes: the same model as repeated rows, a bounded share of one row, refusals, and a broken twin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import steelyard as sy
from steelyard.audit import audit
from steelyard.audit._corpus import floats
from steelyard.audit._suite import gaussian
from steelyard.errors import InvalidTask, SteelyardError, UnitMismatch
from steelyard.models import FitLinear, FitLogistic, LinearRegression, LogisticRegression, Numeric
from steelyard.models import _passes as passes
from steelyard.models._columns import SIZE, Features
from steelyard.models._estimator import weights_of
from steelyard.models._rows import Classes, Products, Rows, Target, Weights
from steelyard.noise import TestNoise
from steelyard.privacy import rows

DRAW = np.random.default_rng(2)
X = DRAW.uniform(-1, 1, size=(4000, 2))
Y = (X[:, 0] > 0).astype(int)
TIMES = DRAW.integers(0, 4, 4000)
ONCE: dict[str, Any] = {"x_bound": 1.5, "epsilon": 30, "delta": 1e-3}


def same(a: Any, b: Any) -> bool:
    return bool(np.abs(a.coef_ - b.coef_).max() < 0.05 * np.abs(b.coef_).max() + 0.02)


def test_weights_are_repeated_rows_for_least_squares_in_exact_sums() -> None:
    given = {"a": X[:, 0], "y": X[:, 1], "w": TIMES / 4.0}
    features, label = Features([Numeric("a", -1, 1)]), Target("y", -1, 1)
    batch = pa.RecordBatch.from_pydict(given)
    gram, moment = Products(features, label, Weights("w"))(batch)
    more = pa.RecordBatch.from_pydict({name: np.repeat(column, TIMES) for name, column in given.items()})
    repeated, pulled = Products(features, label)(more)
    assert np.allclose(4 * gram.astype(float), repeated.astype(float), rtol=1e-4)
    assert np.allclose(4 * moment.astype(float), pulled.astype(float), rtol=1e-3, atol=1e-4 * SIZE**2)


@pytest.mark.parametrize("bound", [4, 40])
def test_a_weighted_fit_is_near_that_of_repeated_rows(bound: int) -> None:
    noise = TestNoise(3)
    line = LinearRegression(**ONCE, weight_bound=bound, noise=noise).fit(X, X[:, 1], sample_weight=TIMES)
    assert same(line, LinearRegression(**ONCE, noise=noise).fit(np.repeat(X, TIMES, 0), np.repeat(X[:, 1], TIMES)))
    steep: dict[str, Any] = {"classes": [0, 1], "ridge": 4, **ONCE}
    chance = LogisticRegression(**steep, weight_bound=bound, noise=noise).fit(X, Y, sample_weight=TIMES)
    steep["ridge"] = 4 * bound
    other = LogisticRegression(**steep, noise=noise).fit(np.repeat(X, TIMES, 0), np.repeat(Y, TIMES))
    assert same(chance, other)


def test_class_weights_are_weights_of_rows() -> None:
    steep: dict[str, Any] = {"classes": [0, 1], "ridge": 4, **ONCE}
    noise = TestNoise(3)
    by_class = LogisticRegression(**steep, class_weight={0: 1, 1: 5}, noise=noise).fit(X, Y)
    by_row = LogisticRegression(**steep, weight_bound=5, noise=noise).fit(X, Y, sample_weight=np.where(Y == 1, 5, 1))
    assert same(by_class, by_row)
    assert by_class.intercept_[0] > LogisticRegression(**steep, noise=noise).fit(X, Y).intercept_[0] + 0.1
    with pytest.raises(InvalidTask, match="would count the labels"):
        LogisticRegression(**steep, class_weight="balanced").fit(X, Y)  # type: ignore[arg-type]


ODD: list[Any] = [math.nan, math.inf, -math.inf, -5.0, 1e300, None, "x", {}]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("kind", [list, lambda v: np.array(v, dtype=object), lambda v: pd.Series(v, dtype=object)])
def test_one_odd_weight_changes_no_other_and_raises_nothing(odd: Any, kind: Any) -> None:
    found = weights_of(kind([1.0, odd, 3.0]), 3, 2)
    assert found is not None
    assert found[[0, 2]].tolist() == [0.5, 1.0]
    assert 0 <= found[1] <= 1
    read = Weights("w", 2).shares(pa.array([1.0, odd if isinstance(odd, float) else None, 3.0]))
    assert read.tolist() == [0.5, 1.0 if odd == 1e300 else 0.0, 1.0]


def test_weights_come_in_any_container_and_for_every_row() -> None:
    for kind in (list, np.array, pd.Series, pl.Series, pa.array, lambda v: pd.array(v, dtype="Int64")):
        assert weights_of(kind([1, 2]), 2, 4).tolist() == [0.25, 0.5]  # type: ignore[union-attr]
    assert weights_of(1, 3, 4).tolist() == [0.25] * 3  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="inconsistent"):
        LinearRegression(**ONCE).fit(X, X[:, 1], sample_weight=[1, 2])


def test_weights_are_refused_where_no_price_is_proved_for_them_before_the_charge() -> None:
    users = sy.open_account(":memory:", "u", unit=sy.users("user"), epsilon=3, delta="1e-6")
    with pytest.raises(UnitMismatch, match="single rows"):
        LinearRegression(**ONCE, account=users).fit(X, X[:, 1], users=np.arange(4000), sample_weight=TIMES)
    paid = sy.open_account(":memory:", "r", unit=sy.rows(), epsilon=30, delta="1e-6")
    with pytest.raises(UnitMismatch, match="auto, objective or output"):
        LogisticRegression(**ONCE, classes=[0, 1], method="descent", account=paid).fit(X, Y, sample_weight=TIMES)
    assert users.spent.amount == paid.spent.amount == 0
    with pytest.raises(InvalidTask, match="also be a feature"):
        FitLinear(["a"], "y", 0, 1, x_bound=1, weight="a")
    table = sy.read({"a": X[:, 0], "y": X[:, 1], "w": np.array(["x"] * 4000)})
    task = FitLinear(["a"], "y", -1, 1, epsilon=1, x_bound=1, weight="w")
    with pytest.raises(SteelyardError, match="cannot be added up"):
        sy.Session(table, paid).release(task)
    with pytest.raises(InvalidTask, match="count alike"):
        sy.AccuracyFirst(task, target_loss=1).release(
            sy.Session(sy.read({"a": [1.0], "y": [1.0], "w": [1.0]}), _replacing())
        )


def _replacing() -> Any:
    return sy.open_account(":memory:", "f", unit=sy.rows(neighbours="replace", n=1), epsilon=3, delta="1e-6")


def test_rows_behind_a_table_are_weighed_as_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    table = sy.read({"a": X[:, 0], "y": Y, "w": TIMES})
    reading = passes.Reading(table, Features([Numeric("a", -1, 1)]), Classes("y", [0, 1]), rows(), Weights("w", 4))
    theta = np.array([0.7, -0.2])
    here = reading.of(2).passes(FitLogistic.loss).sums(theta)
    monkeypatch.setattr(passes, "LIMIT", 100)
    far = passes.Reading(table, reading.features, reading.label, rows(), reading.weights).of(2).passes(FitLogistic.loss)
    assert isinstance(far, passes.Folded)
    assert np.allclose(far.sums(theta).pull.astype(float), here.pull.astype(float), rtol=1e-9)
    assert np.allclose(far.sums(theta).hessian, here.hessian, rtol=1e-4)


COLUMNS = {"a": floats(1.0), "y": floats(-1.0), "w": floats(4.0, 100.0)}


@dataclass(frozen=True)
class Unclipped(Weights):
    """Weights count as they are, however far beyond the bound."""

    def shares(self, array: Any) -> Any:
        return np.nan_to_num(np.asarray(array.to_numpy(zero_copy_only=False), dtype=float)) / float(
            Fraction(self.upper)
        )


class Beyond(FitLinear):
    """A twin whose weights are not clipped to the bound."""

    @property
    def weights(self) -> Weights | None:
        return Unclipped("w", self.weight_bound)


def test_one_row_moves_the_sums_by_no_more_than_before_and_unclipped_weights_are_caught() -> None:
    for kind, fine in ((FitLinear, True), (Beyond, False)):
        task = kind([Numeric("a", -1, 1)], "y", -1, 1, epsilon="1", weight="w", weight_bound=4)
        assert audit(task, terms=gaussian(rows()), columns=COLUMNS, share=200).ok == fine


def test_a_row_of_no_class_or_no_weight_pulls_nothing() -> None:
    plain = Rows(X * SIZE // 2, np.where(Y, 1.0, -1.0), None)
    weighed = Rows(np.vstack([plain.x, plain.x]), np.r_[plain.y, plain.y], None, np.r_[np.ones(4000), np.zeros(4000)])
    theta = np.array([1.0, 2.0])
    assert (
        weighed.passes(FitLogistic.loss).sums(theta).pull.tolist()
        == plain.passes(FitLogistic.loss).sums(theta).pull.tolist()
    )


def test_a_private_search_weighs_classes_by_their_names() -> None:
    named = np.where(Y == 1, "rare", "common")
    heavy = sy.LogisticRegression(
        classes=["common", "rare"], class_weight={"common": 1, "rare": 1000}, x_bound=1.5, ridge=4
    )
    search = sy.PrivateSearchCV(heavy, {"x_bound": [1.5]}, epsilon=30, runs=2).fit(X, named)
    assert (search.predict(X) == "rare").mean() > 0.7
    with pytest.raises(InvalidTask, match="class_weight"):
        sy.PrivateSearchCV(heavy, {"class_weight": [None]}, epsilon=30).fit(X, named)
