"""What estimators are given: a column's type may be refused, an entry never is, and no entry changes another."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import cross_val_score

from steelyard.errors import InvalidTask
from steelyard.ledger import open_account
from steelyard.models._columns import Plain
from steelyard.models._estimator import features_of, labels_of, numbers_of, units
from steelyard.models._fits import FitLogistic
from steelyard.models._regression import LinearRegression, LogisticRegression
from steelyard.noise import TestNoise
from steelyard.privacy import rows
from steelyard.session import Session
from steelyard.tables import codes, entries_of, in_order, read
from steelyard.tables._entries import text_of

DRAW = np.random.default_rng(7)
X = DRAW.normal(size=(3000, 2))
Y = (X[:, 0] + DRAW.normal(size=3000) > 0).astype(int)
ODD = ["x", "1", b"1", None, math.nan, math.inf, True, 1.0, 1.5, 10**400, 1j, np.complex128(1j), [1, 2], {}, object(), np.array([1, 2]), pd.NA, Decimal("sNaN")]  # fmt: skip
LOOSE: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "objects": entries_of,
    "series": lambda v: pd.Series(entries_of(v), dtype=object),
}


def read_codes(y: Any) -> Any:
    return codes(labels_of(LogisticRegression(), y), [0, 1])


def read_numbers(y: Any) -> Any:
    return numbers_of(LinearRegression(), y)


def moved(reader: Callable[[Any], Any], build: Callable[[list[Any]], Any], odd: Any) -> int:
    """How many other labels are read differently because one is odd; an error moves all of them."""
    try:
        left, right = (reader(build([0, last, 1, 1])) for last in (1, odd))
    except Exception:
        return 4
    return int(np.count_nonzero(np.delete(left, 1) != np.delete(right, 1)))


@pytest.mark.parametrize("kind", LOOSE)
@pytest.mark.parametrize("reader", [read_codes, read_numbers])
def test_one_odd_label_changes_no_other_one_and_raises_nothing(kind: str, reader: Callable[[Any], Any]) -> None:
    for odd in ODD:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert moved(reader, LOOSE[kind], odd) == 0, odd


def test_a_reader_that_gives_all_labels_one_type_is_caught_by_the_same_check() -> None:
    """The twin: NumPy's own conversion. One text makes texts of all labels, and none is the class 0 or 1."""

    def together(y: Any) -> Any:
        return codes(np.asarray(y), [0, 1])

    assert moved(together, list, "x") == 3
    assert moved(together, list, [1, 2]) == 4


def test_a_model_of_two_neighbours_is_of_the_same_rows_but_one() -> None:
    """With fixed noise, one label that is a text moves the coefficients a little, not to those of no rows at all."""
    clean, odd = (
        LogisticRegression(epsilon=8, classes=[0, 1], noise=TestNoise(3)).fit(X, y).coef_[0]
        for y in (Y.tolist(), [*Y[:-1].tolist(), "x"])
    )
    assert np.abs(clean - odd).max() < 0.2 * np.abs(clean).max()


@pytest.mark.parametrize("odd", [None, "x", {}, 1j, "2"])
def test_one_odd_feature_changes_no_other_one_and_raises_nothing(odd: Any) -> None:
    table = [[1.0, 2.0], [odd, 4.0], [5.0, 6.0]]
    frame = pd.DataFrame({"a": entries_of([1.0, odd, 5.0]), "b": [2.0, 4.0, 6.0]})
    for given in (
        table,
        entries_of(table[0]).reshape(1, 2),
        np.array(entries_of([*table[0], *table[1]])).reshape(2, 2),
        frame,
    ):
        found = features_of(LinearRegression(), given, reset=True)
        assert found[0].tolist() == [1.0, 2.0]
        assert found.dtype == np.float64


FRAMES: dict[str, Callable[[list[Any]], Any]] = {
    "rows that are arrays": lambda v: [np.array([each, 1], dtype=object) for each in v],
    "rows that are series": lambda v: [pd.Series([each, 1]) for each in v],
    "categories": lambda v: pd.DataFrame({"a": pd.Categorical(v)}),
    "pandas decimals of Arrow": lambda v: pd.DataFrame({"a": pd.array(v, dtype=pd.ArrowDtype(pa.decimal128(9, 1)))}),
    "polars objects": lambda v: pl.DataFrame({"a": pl.Series(v, dtype=pl.Object)}),
    "polars numbers": lambda v: pl.DataFrame({"a": pl.Series(v, dtype=pl.Int64)}),
    "arrow": lambda v: pa.table({"a": pa.array(v, pa.int64())}),
    "masked": lambda v: np.ma.MaskedArray([[each or 7] for each in v], [[each is None] for each in v]),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_missing_feature_is_nan_in_every_container(kind: str) -> None:
    found = features_of(LinearRegression(), FRAMES[kind]([1, None, 3]), reset=True)
    assert found[[0, 2], 0].tolist() == [1.0, 3.0]
    assert math.isnan(found[1, 0])


@pytest.mark.parametrize("kind", ["rows that are arrays", "rows that are series", "polars objects"])
@pytest.mark.parametrize("odd", ["x", {}, 1j, pd.NA, 10**400])
def test_a_feature_that_is_no_number_is_nan_in_a_container_of_objects(kind: str, odd: Any) -> None:
    found = features_of(LinearRegression(), FRAMES[kind]([1, odd, 3]), reset=True)
    assert found[[0, 2], 0].tolist() == [1.0, 3.0]
    assert math.isnan(found[1, 0])


@pytest.mark.parametrize("texts", [["1", "2"], ["1", "secret"]])
def test_text_is_refused_by_its_type_whatever_it_spells(texts: list[str]) -> None:
    for given in (pl.DataFrame({"a": texts}), pa.table({"a": texts}), np.array([[text] for text in texts])):
        with pytest.raises(InvalidTask, match=r"must (hold|be) numbers") as refusal:
            features_of(LinearRegression(), given, reset=True)
        assert "secret" not in str(refusal.value)


def test_a_frame_with_a_column_of_text_is_refused_by_its_type_without_repeating_a_value() -> None:
    frame = pd.DataFrame({"age": [1.0, 2.0], "work": pd.Series(["State-gov", "Private"], dtype="str")})
    with pytest.raises(InvalidTask, match="'work' of X holds text") as refusal:
        LinearRegression().fit(frame, [0, 1])
    assert "State-gov" not in str(refusal.value)


MISMATCHED: dict[str, tuple[Any, list[Any]]] = {
    "text, numbers": (np.where(Y == 1, "yes", "no"), [0, 1]),
    "numbers, text": (Y, ["0", "1"]),
    "series of text, numbers": (pd.Series(np.where(Y == 1, "1", "0"), dtype="str"), [0, 1]),
    "categories of text, numbers": (pd.Series(np.where(Y == 1, "1", "0"), dtype="str").astype("category"), [0, 1]),
    "nullable numbers, text": (pd.Series(Y, dtype="Int64"), ["0", "1"]),
    "truth, two": (Y == 1, [0, 2]),
    "polars text, numbers": (pl.Series(np.where(Y == 1, "1", "0")), [0, 1]),
}


@pytest.mark.parametrize("case", MISMATCHED)
def test_classes_that_y_cannot_hold_by_its_type_are_refused_before_the_charge(case: str) -> None:
    y, classes = MISMATCHED[case]
    account = open_account(":memory:", "a", unit=rows(), epsilon="3", delta="1e-6")
    with pytest.raises(InvalidTask, match="no row could ever"):
        LogisticRegression(epsilon=1, classes=classes, account=account).fit(X, y)
    assert account.spent.amount == 0


@pytest.mark.parametrize(
    ("column", "classes"),
    [
        (["yes", "no"], [0, 1]),
        ([0, 1], ["0", "1"]),
        ([0, 1], [0, "1"]),
        ([0.5, 1.0], ["a", "b"]),
        ([True, False], ["True", "False"]),
        ([True, False], [0, 2]),
    ],
)
def test_classes_that_a_column_cannot_hold_by_the_schema_are_refused_before_the_charge(
    column: list[Any], classes: list[Any]
) -> None:
    account = open_account(":memory:", "a", unit=rows(), epsilon="3", delta="1e-6")
    session = Session(read({"x": [0.0, 1.0], "y": column}), account)
    with pytest.raises(InvalidTask, match="no row could ever"):
        session.release(FitLogistic([Plain("x")], "y", classes, epsilon="1", x_bound=1))
    assert account.spent.amount == 0


@pytest.mark.parametrize(
    ("column", "classes"), [(["yes", "no"], ["yes", "no"]), ([0.0, 1.0], [0, 1]), ([True, False], [False, True])]
)
def test_classes_that_may_occur_are_taken_whether_they_do_or_not(column: list[Any], classes: list[Any]) -> None:
    account = open_account(":memory:", "a", unit=rows(), epsilon="3", delta="1e-6")
    session = Session(read({"x": [0.0, 1.0], "y": column}), account)
    assert session.release(FitLogistic([Plain("x")], "y", classes, epsilon="1", x_bound=1)).value


@pytest.mark.parametrize("order", [["low", "high"], ["high", "low"]])
def test_the_order_in_which_classes_are_declared_does_not_turn_a_score_around(order: list[str]) -> None:
    y = np.where(Y == 1, "low", "high")
    model = LogisticRegression(epsilon=5, classes=order, x_bound=3)
    assert model.fit(X, y).classes_.tolist() == ["high", "low"]
    assert cross_val_score(model, X, y, scoring="roc_auc", cv=3).mean() > 0.7
    assert cross_val_score(model, X, y, scoring="neg_log_loss", cv=3).mean() > -0.69


def test_a_model_of_classes_as_declared_is_caught_by_the_same_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.models._regression.in_order", lambda classes: np.asarray(classes))
    model = LogisticRegression(epsilon=5, classes=["low", "high"], x_bound=3)
    assert cross_val_score(model, X, np.where(Y == 1, "low", "high"), scoring="roc_auc", cv=3).mean() < 0.3


def test_classes_are_all_texts_or_all_numbers() -> None:
    assert in_order({2, 1}).tolist() == [1, 2]
    for wrong in ([0, "1"], "ab"):
        with pytest.raises(InvalidTask, match="public values"):
            in_order(wrong)


def test_whose_row_one_is_depends_on_that_entry_alone() -> None:
    usual = [2**53 + 3, 2**53 + 4, 7, "7", 7.0, True]
    for odd in (0.5, "x", None, float("nan"), b"\xff", 10**400, object(), [1], "\ud800", 1j):
        assert units([*usual, odd]).tolist()[:-1] == units(usual).tolist()
    assert units(usual).tolist() == ["9007199254740995", "9007199254740996", "7", "7", "7", "1"]
    assert [text_of(each) for each in (None, float("nan"), object(), [1], 1j, float("inf"))] == [None] * 6
    typed = np.array([3, 4])
    assert units(typed) is typed


def test_masked_labels_and_users_are_missing_ones() -> None:
    masked = np.ma.MaskedArray([1, 0, 1], [False, True, False])
    assert labels_of(LogisticRegression(), masked).tolist() == [1, None, 1]
    assert np.isnan(numbers_of(LinearRegression(), masked)).tolist() == [False, True, False]
    assert units(masked).tolist() == ["1", None, "1"]
