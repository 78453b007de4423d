"""Features: total, row by row, and never longer than S."""

from __future__ import annotations

import math
import subprocess
import sys
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import ColumnMissing, InvalidTask, TableError
from steelyard.models._columns import (
    SIZE,
    Categorical,
    Features,
    Numeric,
    Plain,
    by_column,
    by_row,
    matched,
    numbers,
)
from steelyard.tables import read

values = st.floats(width=64) | st.sampled_from([0.0, -0.0, 1.0, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf])
texts = st.none() | st.sampled_from(["f", "m", "", "x"])
KINDS = [
    Features([Plain("a"), Plain("b"), Categorical("c", ["f", "m"])], norm, x_bound, intercept)
    for norm in ("clip", "scale")
    for x_bound in (1, "1e-200", "1e200", 3.5)
    for intercept in (True, False)
] + [
    Features([Numeric("a", -2, 7), Numeric("b", 0, "1e-9"), Categorical("c", ["f"])], norm)
    for norm in ("clip", "scale")
]


def batch(a: list[float | None], b: list[float | None], c: list[str | None]) -> Any:
    columns = [pa.array(a, pa.float64()), pa.array(b, pa.float64()), pa.array(c, pa.string())]
    return pa.RecordBatch.from_arrays(columns, ["a", "b", "c"])


@settings(deadline=None)
@given(rows=st.lists(st.tuples(values | st.none(), values | st.none(), texts), max_size=20), pick=st.integers(0, 17))
def test_no_row_is_longer_than_s_and_each_depends_on_itself_alone(rows: list[Any], pick: int) -> None:
    features = KINDS[pick]
    together = features.rows(batch(*map(list, zip(*rows, strict=True))) if rows else batch([], [], []))
    assert together.shape == (len(rows), features.width)
    for row, found in zip(rows, together.tolist(), strict=True):
        assert sum(k * k for k in found) <= SIZE**2
        assert features.rows(batch([row[0]], [row[1]], [row[2]])).tolist() == [found]


def test_a_sum_whose_order_follows_the_shape_would_make_a_row_depend_on_its_neighbours() -> None:
    """The broken twin of the squared length: NumPy's own reduction adds a lone row in another order than many."""
    u = np.random.default_rng(0).normal(size=(51, 4000))
    alone = np.array([float((u[:, [i]] ** 2).sum(axis=0)[0]) for i in range(4000)])
    assert (alone != (u**2).sum(axis=0)).any()


def test_clipped_rows_are_linear_in_the_columns_inside_the_bound() -> None:
    features = Features([Numeric("a", 10, 20), Plain("b"), Categorical("c", ["f", "m"])], x_bound=3)
    data = batch([11.0, 19.0, 15.0], [1.0, -2.0, 0.5], ["f", "m", None])
    coefficients = [0.3, -1.2, 0.7, 0.1, 2.0]
    weights, constant = features.linear(coefficients)
    expected = (features.scaled(data).T / SIZE) @ np.array(coefficients)
    raw = np.array([[11.0, 1.0, 1, 0], [19.0, -2.0, 0, 1], [15.0, 0.5, 0, 0]])
    assert np.allclose(raw @ np.array(weights) + constant, expected, rtol=1e-12)


def test_a_long_row_keeps_its_direction_and_a_short_one_its_length() -> None:
    features = Features([Plain("a"), Plain("b")], x_bound=5, intercept=False)
    data = batch([30.0, 3.0, 0.3], [40.0, 4.0, 0.4], [None] * 3)
    z = features.scaled(data) / SIZE
    assert np.allclose(z, np.array([[0.6, 0.6, 0.06], [0.8, 0.8, 0.08]]), atol=1e-4)


def test_scaled_rows_all_have_the_full_length_and_an_empty_one_none() -> None:
    features = Features([Plain("a"), Plain("b")], "scale", x_bound=5, intercept=False)
    lengths = np.linalg.norm(features.rows(batch([30.0, 3e-9, 0.0], [40.0, 4e-9, 0.0], [None] * 3)), axis=1)
    assert np.allclose(lengths[:2], SIZE, rtol=1e-4)
    assert lengths[2] == 0


def test_the_intercept_lies_inside_the_norm_and_outside_it_the_norm_would_be_broken() -> None:
    features = Features([Plain("a"), Plain("b")], x_bound=1)
    found = features.rows(batch([30.0], [40.0], [None]))[0]
    assert found[-1] == pytest.approx(SIZE * math.sqrt(0.5), rel=1e-4)
    bare = Features([Plain("a"), Plain("b")], x_bound=1, intercept=False).rows(batch([30.0], [40.0], [None]))[0]
    assert sum(int(k) ** 2 for k in [*bare, SIZE]) > SIZE**2  # the broken twin: a constant put beside a full row


def test_values_that_say_nothing_become_the_middle_and_unknown_ones_all_zeros() -> None:
    features = Features([Numeric("a", -2, 8), Categorical("c", ["f", "m"])], intercept=False)
    columns = [pa.array([None, math.nan, math.inf, 3.0, 99.0]), pa.array(["q", None, "m", "f", "m"])]
    found = features.rows(pa.RecordBatch.from_arrays(columns, ["a", "c"])) / SIZE
    assert np.allclose(found[:4, 0], 0)
    assert found[4, 0] == pytest.approx(math.sqrt(0.5), rel=1e-4)
    assert (found[:, 1:] > 0).tolist() == [[False, False], [False, False], [False, True], [True, False], [False, True]]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, None, 3], pa.int64()),
        pa.array([True, None, False]),
        pa.array([1, None, 3]).cast(pa.decimal128(30, 4)),
        pa.array([1, 2, 3], pa.uint8()),
        pa.array([1.5, None, 3], pa.float32()),
        pa.array([None, None, None]),
        pa.array([1, None, 3]).dictionary_encode(),
        pa.array(["1", "2", None]),
    ],
    ids=str,
)
def test_every_kind_of_column_becomes_numbers(array: Any) -> None:
    found = Features([Plain("a")], x_bound=10, intercept=False).rows(pa.RecordBatch.from_arrays([array], ["a"]))
    assert found.shape == (3, 1)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], None),
        ([1, 2], pa.int8()),
        ([1, 2], pa.decimal128(3, 1)),
        ([1, 2], pa.float32()),
        ([True, False], None),
        (["a", "b"], None),
        (["a", "b"], pa.large_string()),
    ],
)
def test_vocabularies_of_texts_numbers_and_truths_are_matched(values: list[Any], kind: Any) -> None:
    column = Categorical("c", values)
    data = pa.RecordBatch.from_arrays([pa.array([values[1], None, values[0]], kind)], ["c"])
    found = Features([column], intercept=False).rows(data)
    assert (found > 0).tolist() == [[False, True], [False, False], [True, False]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Features([]),
        lambda: Features([Plain("a")]),
        lambda: Features([Numeric("a", 0, 1), Numeric("a", 0, 2)]),
        lambda: Features(["a"]),  # type: ignore[list-item]
        lambda: Features([Numeric("a", 0, 1)], "max"),
        lambda: Features([Plain("a")], x_bound=0),
        lambda: Features([Plain("a")], x_bound="1e201"),
        lambda: Features([Plain(f"x{i}") for i in range(2048)], x_bound=1),
        lambda: Numeric("a", 1, 1),
        lambda: Numeric("", 0, 1),
        lambda: Numeric("a", 0, "inf"),
        lambda: Categorical("c", []),
        lambda: Categorical("c", "fm"),
        lambda: Categorical("c", ["f", "f"]),
        lambda: Categorical("c", [0.5]),  # type: ignore[list-item]
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_declared(make: Any) -> None:
    with pytest.raises(InvalidTask):
        make()


def test_columns_are_checked_against_the_schema_alone() -> None:
    table = read({"a": np.zeros(1), "c": np.array(["x"])})
    Features([Numeric("a", 0, 1), Categorical("c", ["x"])]).check(table.schema)
    with pytest.raises(ColumnMissing):
        Features([Numeric("z", 0, 1)]).check(table.schema)
    with pytest.raises(TableError):
        Features([Numeric("c", 0, 1)]).check(table.schema)
    with pytest.raises(InvalidTask):
        Features([Categorical("c", [1])]).check(table.schema)


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.uint64(), pa.float64(), pa.float32(), pa.float16(), pa.decimal128(30, 2)]
)
def test_a_null_beside_it_does_not_change_what_a_number_matches(kind: Any) -> None:
    values = [2**53, 3, 10**400]
    whole: list[Any] = [2**53 + 1, 3] if pa.types.is_integer(kind) or pa.types.is_decimal(kind) else [2.0, 3.0]
    if pa.types.is_decimal(kind):
        whole = [Decimal(value) for value in whole]
    elif pa.types.is_float16(kind):
        whole = [np.float16(value) for value in whole]
    alone = matched(pa.array(whole, kind), values)
    beside = matched(pa.array([*whole, None], kind), values)
    assert alone.tolist() == [-1, 1]
    assert beside.tolist() == [-1, 1, -1]


def test_comparing_as_doubles_would_let_a_null_move_other_rows() -> None:
    ids = [2**53 + 1] * 3
    as_doubles = pa.array([*ids, None], pa.int64()).to_numpy(zero_copy_only=False) == 2**53
    assert as_doubles.sum() == 3  # the twin: every other row now matches
    assert (matched(pa.array([*ids, None], pa.int64()), [2**53]) == -1).all()


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 5000])
def test_columns_become_rows_and_rows_columns_with_no_entry_moved(count: int) -> None:
    whole = np.arange(3.0 * count).reshape(3, count) + (SIZE - 20_000)
    rows = by_row(whole)
    assert rows.dtype == np.float32
    assert np.array_equal(rows, whole.T)
    assert np.array_equal(by_column(rows.astype(float)), whole)


@settings(deadline=None)
@given(
    kind=st.sampled_from([pa.float64(), pa.float32(), pa.int64()]),
    given=st.lists(st.none() | st.integers(-(2**40), 2**40) | st.just(2**62 + 1), max_size=20),
    cut=st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_numbers_are_read_from_any_slice_of_a_column_as_arrow_itself_shows_them(
    kind: Any, given: list[int | None], cut: tuple[int, int]
) -> None:
    most = {pa.float32(): 2**23, pa.float64(): 2**52}.get(kind, 2**63)
    array = pa.array([None if value is None else value % most for value in given], kind)
    for piece in (array, array.slice(*cut)):
        found, shown = numbers(piece), piece.to_numpy(zero_copy_only=False)
        assert found.dtype == shown.dtype
        assert np.array_equal(found, shown, equal_nan=found.dtype.kind == "f")


def test_a_slice_of_a_long_column_is_read_in_memory_of_its_own_size() -> None:
    places = np.arange(1_000_000)
    column = pa.array(places, mask=places % 10 == 0)
    tracemalloc.start()
    found = numbers(column.slice(500_003, 50))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(found, np.where(places % 10, places, np.nan)[500_003:500_053], equal_nan=True)
    assert most < 100_000


def test_a_fit_of_a_file_loads_no_pandas(tmp_path: Path) -> None:
    x = pa.array(np.arange(8.0))
    pq.write_table(pa.table({"x": x, "y": x}), tmp_path / "t.parquet")
    script = """
import sys, steelyard as sy
from steelyard.models import FitLinear
account = sy.open_account(":memory:", "a", unit=sy.rows(), epsilon=1, delta="1e-6")
sy.Session(sy.read(sys.argv[1]), account).release(FitLinear(["x"], "y", 0, 8, epsilon=1, x_bound=8))
print("pandas" in sys.modules)
"""
    ran = [sys.executable, "-c", script, str(tmp_path / "t.parquet")]
    assert subprocess.run(ran, capture_output=True, text=True, check=True).stdout.split() == ["False"]
