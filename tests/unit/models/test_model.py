"""Saved models: nothing but JSON, and the same predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from steelyard.errors import ColumnMissing, InvalidTask
from steelyard.models._columns import Categorical, Features, Numeric, Plain
from steelyard.models._model import Model, present

FEATURES = Features([Numeric("a", 0, 10), Categorical("c", ["x", "y"]), Plain("p")], x_bound=3)
MODEL = Model("linear", FEATURES, "y", [0.1, 0.2, -0.3, 0.4, 0.5], 0, 100)
CHANCE = Model("logistic", Features([Numeric("a", 0, 10)], "scale"), "y", [4.0, 1.0], positive="yes")
DATA = {"a": [1.0, 5.0, 99.0, np.nan], "c": ["x", "y", "z", "x"], "p": [0.1, -0.2, 1e9, 0.0]}


NARROW = Model("linear", FEATURES, "y", [9.0, 0.2, -0.3, 0.4, 0.5], 0, 100, reach=0.25)


CAREFUL = Model("logistic", Features([Numeric("a", 0, 10)], "scale"), "y", [4.0, 1.0], positive="yes", margin=2)


@pytest.mark.parametrize("model", [MODEL, CHANCE, NARROW, CAREFUL])
def test_a_model_comes_back_as_it_was(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "m.json")
    again = Model.load(tmp_path / "m.json")
    assert again == model
    assert again.predict(DATA).tolist() == model.predict(DATA).tolist()


def test_every_kind_of_frame_predicts_alike_and_in_order() -> None:
    expected = MODEL.predict(DATA).tolist()
    for frame in (pd.DataFrame(DATA), pl.DataFrame(DATA), pa.table(DATA), pa.table(DATA).to_batches()[0]):
        assert MODEL.predict(frame).tolist() == expected
    shuffled = pd.DataFrame(DATA).iloc[::-1]
    assert MODEL.predict(shuffled).tolist() == expected[::-1]


def test_predictions_lie_between_the_bounds_and_chances_between_nought_and_one() -> None:
    wild = Model("linear", FEATURES, "y", [50.0, 0, 0, 0, 0], 0, 100)
    assert wild.predict({"a": [0.0, 10.0], "c": ["q", "q"], "p": [0.0, 0.0]}).tolist() == [0, 100]
    chances = CHANCE.predict({"a": [0.0, 5.0, 10.0]})
    assert (np.diff(chances) > 0).all()
    assert 0 < chances[0] < 0.5 < chances[2] < 1


def test_coefficients_are_on_the_scale_of_the_columns() -> None:
    found = MODEL.coefficients
    row = {"a": [7.0], "c": ["x"], "p": [0.3]}
    by_hand = found["a"] * 7 + found["c=x"] + found["p"] * 0.3 + found["intercept"]
    assert MODEL.predict(row)[0] == pytest.approx(by_hand)


def test_a_document_that_is_no_model_is_refused(tmp_path: Path) -> None:
    good = MODEL.to_json()
    bad: list[Any] = [
        {},
        [],
        {**good, "format": "other"},
        {**good, "theta": [1.0]},
        {**good, "theta": ["x"] * 5},
        {**good, "kind": "magic"},
        {**good, "lower": None},
        {**good, "features": {}},
        {**good, "features": {**good["features"], "columns": [{"type": "os.system", "column": "a"}]}},
        {**good, "theta": [float("inf")] * 5},
    ]
    for document in bad:
        with pytest.raises(InvalidTask):
            Model.from_json(document)
    for document in ({"models": None}, {"models": []}, {"models": {}}, {"models": [None]}, [], None):
        with pytest.raises(InvalidTask):
            present(document)
    (tmp_path / "m.json").write_text("{not json")
    for path in (tmp_path / "m.json", tmp_path / "nowhere.json"):
        with pytest.raises(InvalidTask):
            Model.load(path)


def test_data_without_the_columns_are_refused() -> None:
    with pytest.raises(ColumnMissing):
        MODEL.predict({"a": [1.0]})
    with pytest.raises(InvalidTask):
        MODEL.predict([1, 2])


def test_the_document_names_its_coefficients_for_a_reader() -> None:
    document = json.loads(json.dumps(MODEL.to_json()))
    assert list(document["coefficients"]) == ["a", "c=x", "c=y", "p", "intercept"]


def test_predictions_keep_to_their_part_of_the_range() -> None:
    told = NARROW.predict(DATA)
    assert min(told) >= 37.5
    assert max(told) == 62.5
    assert "reach" not in MODEL.to_json()
    with pytest.raises(InvalidTask, match="keep to a part"):
        Model.from_json({**MODEL.to_json(), "reach": 0})


def test_log_odds_keep_to_their_margin() -> None:
    told = CAREFUL.predict(DATA)
    assert max(told) == pytest.approx(1 / (1 + np.exp(-2)))
    assert max(told) < max(CHANCE.predict(DATA))
    assert "margin" not in CHANCE.to_json()
    for wrong in (0, np.inf, np.nan):
        with pytest.raises(InvalidTask, match="margin above 0"):
            Model("logistic", CHANCE.features, "y", [4.0, 1.0], positive="yes", margin=wrong)
