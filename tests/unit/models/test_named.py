"""Names of columns and classes from a frame to the saved model, sparse features, and what scikit-learn's users expect of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import steelyard as sy
from steelyard.errors import InvalidTask
from steelyard.models import LinearRegression, LogisticRegression, Model, PrivateSearchCV
from steelyard.models._estimator import features_of
from unit.cli.commands import command

DRAW = np.random.default_rng(5)
FRAME = pd.DataFrame({"age": DRAW.uniform(-1, 1, 3000), "income": DRAW.uniform(-1, 1, 3000)})
LEVEL = 3 * FRAME["age"]
CLASS = np.where(FRAME["age"] > 0, "yes", "no")
MANY = np.array(["low", "middle", "high"])[np.digitize(FRAME["age"], [-0.3, 0.3])]


def test_a_linear_model_keeps_the_names_of_a_frame_and_predicts_it_again(tmp_path: Path) -> None:
    model = LinearRegression(epsilon=5, x_bound=2, y_bounds=(-3, 3)).fit(FRAME, LEVEL)
    assert list(model.release_.value.coefficients) == ["age", "income", "intercept"]
    assert list(model.feature_names_in_) == ["age", "income"]
    model.save(tmp_path / "m.json")
    assert np.allclose(Model.load(tmp_path / "m.json").predict(FRAME[["income", "age"]]), model.predict(FRAME))


@pytest.mark.parametrize(("y", "classes"), [(CLASS, ["yes", "no"]), (MANY, ["low", "middle", "high"])])
def test_a_saved_classifier_tells_classes_and_their_probabilities(y: Any, classes: list[str], tmp_path: Path) -> None:
    model = LogisticRegression(epsilon=20, classes=classes, x_bound=1).fit(FRAME, y)
    model.save(tmp_path / "m.json")
    FRAME.to_parquet(tmp_path / "rows.parquet")
    command("predict", tmp_path / "m.json", tmp_path / "rows.parquet", "--out", tmp_path / "p.parquet")
    told = pq.read_table(tmp_path / "p.parquet").to_pandas()
    assert list(told) == ["prediction", *(f"probability_{each}" for each in sorted(classes))]
    assert (told["prediction"] == model.predict(FRAME)).all()
    assert np.allclose(told.iloc[:, 1:], model.predict_proba(FRAME))


def test_a_private_search_keeps_names_and_classes_and_is_saved(tmp_path: Path) -> None:
    search = PrivateSearchCV(LogisticRegression(classes=["no", "yes"]), {"ridge": [1, 2]}, epsilon=9, runs=2)
    search.fit(FRAME, CLASS).save(tmp_path / "m.json")
    model = Model.load(tmp_path / "m.json")
    assert (model.features.source, model.negative, model.positive) == (["age", "income"], "no", "yes")
    assert search.classes_.tolist() == ["no", "yes"]
    assert np.allclose(model.predict(FRAME), search.predict_proba(FRAME)[:, 1])


@pytest.mark.parametrize("names", [["a", "A"], ["y", "b"], ["who", "b"], ["", "b"], [0, 1]])
def test_names_that_an_engine_would_confuse_are_numbered(names: list[Any]) -> None:
    frame, model = FRAME.set_axis(names, axis=1), LinearRegression(epsilon=5, x_bound=2, y_bounds=(-3, 3))
    account = sy.open_account(":memory:", "a", unit=sy.users("who"), epsilon=9, delta="1e-6")
    called = model.set_params(account=account).fit(frame, LEVEL, users=np.arange(3000)).model_.features.source
    assert called == (names if names == ["y", "b"] else ["who_x0", "who_x1"])
    plain = LinearRegression(epsilon=5, x_bound=2, y_bounds=(-3, 3)).fit(frame, LEVEL).model_.features.source
    assert plain == (["who", "b"] if names[0] == "who" else ["x0", "x1"])


def test_logarithms_of_probabilities_are_exact_where_a_probability_is_none() -> None:
    model = LogisticRegression(epsilon=20, classes=["no", "yes"], x_bound=1).fit(FRAME, CLASS)
    assert np.allclose(np.exp(model.predict_log_proba(FRAME)), model.predict_proba(FRAME))
    model.models_ = (Model(**{**vars(model.models_[0]), "theta": [9000.0, 0, 0]}),)
    assert np.isfinite(model.predict_log_proba(FRAME)).all()
    several = LogisticRegression(epsilon=20, classes=["low", "middle", "high"]).fit(FRAME, MANY)
    assert np.allclose(np.exp(several.predict_log_proba(FRAME)), several.predict_proba(FRAME))


SPARSE = [sp.csr_matrix, sp.csc_matrix, sp.coo_array, sp.csr_array, sp.lil_array, sp.dok_array]


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("odd", [np.nan, np.inf, 1e300, 0.0])
def test_sparse_rows_are_the_dense_ones_whatever_is_stored(kind: Any, odd: float) -> None:
    dense = DRAW.normal(size=(40, 5)) * (DRAW.uniform(size=(40, 5)) < 0.2)
    dense[7, 3] = odd
    assert np.array_equal(features_of(LinearRegression(), kind(dense), reset=True), dense, equal_nan=True)


def test_entries_stored_twice_or_as_zero_and_rows_that_store_nothing_are_read_as_they_count() -> None:
    twice = sp.coo_array(([1.0, 2.0, 0.0], ([0, 0, 2], [1, 1, 0])), shape=(4, 3))
    assert features_of(LinearRegression(), twice, reset=True).tolist() == [[0, 3, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    empty = sp.csr_array((0, 3))
    assert features_of(LinearRegression(), empty, reset=True).shape == (0, 3)


def test_a_sparse_table_that_is_none_of_numbers_is_refused_by_its_type() -> None:
    with pytest.raises(InvalidTask, match="complex128"):
        LinearRegression().fit(sp.csr_array(np.eye(3) * 1j), [0, 1, 0])
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0, np.nan])})
    held = np.array([[0.0], [1.0], [np.nan]])
    assert np.array_equal(features_of(LinearRegression(), frame, reset=True), held, equal_nan=True)


def test_a_pipeline_with_an_encoder_of_sparse_output_fits_and_predicts() -> None:
    words = np.array([["red"], ["green"], ["blue"]] * 500)
    encoder = OneHotEncoder(categories=[["blue", "green", "red"]])
    made = make_pipeline(encoder, LogisticRegression(epsilon=20, classes=["cold", "warm"]))
    y = np.where(words[:, 0] == "red", "warm", "cold")
    assert made.fit(words, y).score(words, y) == 1
    assert made.predict_proba(words).shape == (1500, 2)
