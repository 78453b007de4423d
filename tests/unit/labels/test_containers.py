"""Labels of every container: its type is public and may be refused, its entries are private and never are."""

from __future__ import annotations

import array
import math
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from steelyard.errors import InvalidTask
from steelyard.labels import _records as records
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.labels._records import wrapped
from steelyard.ledger import Account, open_account
from steelyard.privacy import labels
from steelyard.tables import numbers_of

VALUES = [1.0, 2.5, None]
READ: dict[str, Any] = {
    "list": VALUES,
    "tuple": tuple(VALUES),
    "objects": np.array(VALUES, dtype=object),
    "masked": np.ma.array([1, 2.5, 3], mask=[False, False, True]),
    "series": pd.Series([1.0, 2.5, None], index=[7, 8, 9], name="y"),
    "nullable series": pd.Series(pd.array([1.0, 2.5, None], dtype="Float64")),
    "nullable array": pd.array([1.0, 2.5, None], dtype="Float64"),
    "arrow series": pd.Series([1.0, 2.5, None], dtype="double[pyarrow]"),
    "decimal series": pd.Series([Decimal(1), Decimal("2.5"), None], dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
    "categories": pd.Series([1.0, 2.5, None]).astype("category"),
    "category array": pd.Categorical([1.0, 2.5, None]),
    "index": pd.Index([1.0, 2.5, None]),
    "polars": pl.Series("y", VALUES),
    "polars decimal": pl.Series("y", [Decimal(1), Decimal("2.5"), None], dtype=pl.Decimal(9, 2)),
    "arrow": pa.array(VALUES),
    "chunked": pa.chunked_array([pa.array([1.0]), pa.array([2.5, None])]),
    "arrow decimal": pa.array([Decimal(1), Decimal("2.5"), None], pa.decimal128(9, 2)),
    "arrow dictionary": pa.array(VALUES).dictionary_encode(),
}
WHOLE: dict[str, Any] = {
    "bytes": np.array([1, 0, 3], dtype=np.int8),
    "truth": np.array([True, False]),
    "Int64 array": pd.array([1, 0, 3], dtype="Int64"),
    "boolean array": pd.array([True, False], dtype="boolean"),
    "arrow integers": pa.array([2**62, 1, 3]),
    "polars integers": pl.Series([2**62, 1]),
    "array": array.array("d", [1, 2]),
    "range": range(3),
}
TEXT: dict[str, Any] = {
    "text": np.array(["1", "b"]),
    "complex": np.array([1j]),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "two dimensions": np.zeros((2, 2)),
    "series of text": pd.Series(["a", "b"], dtype="str"),
    "array of text": pd.array(["a", "b"], dtype="string"),
    "categories of text": pd.Series(["a", "b"], dtype="str").astype("category"),
    "arrow text": pa.array(["a"]),
    "arrow text dictionary": pa.array(["a"]).dictionary_encode(),
    "polars text": pl.Series(["a"]),
    "polars categories": pl.Series(["a"], dtype=pl.Categorical),
    "frame": pd.DataFrame({"y": [1]}),
    "polars frame": pl.DataFrame({"y": [1]}),
    "arrow table": pa.table({"y": [1]}),
    "a text": "12",
}


def account(epsilon: str = "5") -> Account:
    return open_account(":memory:", "labels", unit=labels("y"), epsilon=epsilon)


@pytest.mark.parametrize("kind", READ)
def test_labels_are_read_from_every_container_and_given_back_in_kind(kind: str) -> None:
    y = READ[kind]
    np.testing.assert_array_equal(numbers_of(y), [1.0, 2.5, math.nan])
    made = LabelRandomizer(1, 0, 3, missing=1, account=account()).fit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noisy = made.transform(y)
    assert len(noisy) == 3
    assert np.all(np.isfinite(np.asarray(noisy)))
    if type(y).__module__.startswith("polars") or isinstance(y, pd.Series | pa.Array):
        assert isinstance(noisy, type(y) if not isinstance(y, pa.Array) else pa.Array)


@pytest.mark.parametrize("kind", WHOLE)
def test_containers_of_whole_numbers_are_read_too(kind: str) -> None:
    y = WHOLE[kind]
    assert numbers_of(y).tolist() == [float(v.as_py() if hasattr(v, "as_py") else v) for v in y]
    budget = account("1")
    assert len(LabelRandomizer(1, 0, 3, account=budget).fit().transform(y)) == len(y)
    assert str(budget.spent) == "epsilon 1"


def test_a_series_keeps_its_index_and_name() -> None:
    noisy = LabelRandomizer(1, 0, 3).fit().transform(pd.Series([1, 2], index=[7, 7], name="y"))
    assert isinstance(noisy, pd.Series)
    assert (noisy.index.tolist(), noisy.name, noisy.dtype) == ([7, 7], "y", np.float64)


@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize("missing", [None, 0])
def test_what_a_columns_type_rules_out_is_refused_before_the_charge(kind: str, missing: int | None) -> None:
    budget = account()
    made = LabelRandomizer(1, 0, 3, missing=missing, account=budget).fit()
    with pytest.raises(InvalidTask):
        made.transform(TEXT[kind])
    with pytest.raises(InvalidTask):
        LabelRandomizer(1, 0, 3, prior="private", missing=missing, account=budget).fit(TEXT[kind])
    assert budget.spent.amount == 0


def test_labels_that_were_paid_for_are_never_lost_to_their_container(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn(pd.Series):  # type: ignore[misc]
        def __init__(self, *given: Any, **more: Any) -> None:
            if made:
                raise RuntimeError("not today")
            super().__init__(*given, **more)

    made: list[bool] = []
    y = Stubborn([1, 2, 3])
    made.append(True)
    assert wrapped(y, np.zeros(3)).tolist() == [0, 0, 0]
    monkeypatch.setattr(records, "_wrapped", lambda y, values: 1 / 0)
    assert len(LabelRandomizer(1, 0, 3).fit().transform([1, 2])) == 2


ODD = [
    "x", "3", b"", None, math.nan, math.inf, -0.0, True, 10**400, 1j, np.complex128(1j), [1, 2], {}, object(), Decimal("sNaN"), Fraction(1, 3),
    np.array([1, 2]), np.array([1]), np.float32(2), pd.NA, pd.NaT, pd.Timestamp("2020-01-01"), 1e308, "nan", (),
]  # fmt: skip


def as_objects(values: list[Any]) -> Any:
    held = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        held[i] = value
    return held


LOOSE: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "objects": as_objects,
    "series of objects": lambda v: pd.Series(as_objects(v), dtype=object),
    "polars objects": lambda v: pl.Series("y", v, dtype=pl.Object),
}


def moved(read: Callable[[Any], Any], build: Callable[[list[Any]], Any], odd: Any) -> int:
    """How many of the other labels are read differently because one label is odd; an error moves all of them."""
    try:
        left, right = (read(build([2, last, 2.5])) for last in (1, odd))
    except Exception:
        return 3
    return int(sum(a != b for a, b in zip(left[[0, 2]], right[[0, 2]], strict=True)))


@pytest.mark.parametrize("kind", LOOSE)
def test_one_odd_label_changes_no_other_one_and_raises_nothing(kind: str) -> None:
    for odd in ODD:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert moved(numbers_of, LOOSE[kind], odd) == 0, odd


def test_a_reader_that_gives_all_labels_one_type_is_caught_by_the_same_check() -> None:
    def together(y: Any) -> Any:
        return np.asarray(y)

    assert moved(together, list, "x") == 2
    assert moved(together, list, [1, 2]) == 3


def test_a_column_of_objects_is_warned_of_by_its_type_alone() -> None:
    made = LabelRandomizer(1, 0, 3, missing=0, account=account()).fit()
    for held in (np.array([1, 2], object), np.array(["a", "b"], object), pd.Series([1, 2], dtype=object)):
        with pytest.warns(UserWarning, match="column of objects"):
            made.transform(held)
    with pytest.warns(UserWarning, match="column of objects"):
        made.transform(pl.Series("y", [1, 2], dtype=pl.Object))


def test_text_in_a_list_is_refused_with_the_one_message_that_missing_labels_get() -> None:
    made = LabelRandomizer(1, 0, 3).fit()
    told = set()
    for bad in (["a", "b"], [1, None], [math.inf], [1, "x"], [[1, 2], 3]):
        with pytest.raises(InvalidTask) as refusal:
            made.transform(bad)
        told.add(str(refusal.value))
    assert len(told) == 1
    assert "a text is none" in told.pop()
