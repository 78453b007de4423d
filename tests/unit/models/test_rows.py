"""Rows in memory: labels on their grid, and whose rows they are."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InvalidTask
from steelyard.models._columns import SIZE, Features, Plain
from steelyard.models._rows import Target, gather
from steelyard.privacy import rows, users
from steelyard.tables import read

FEATURES = Features([Plain("x")], x_bound=1)


@given(st.lists(st.floats(width=64) | st.none()))
def test_labels_are_whole_numbers_of_at_most_s_each_by_itself(values: list[float | None]) -> None:
    target = Target("y", -3, 40)
    found = target.whole(pa.array(values, pa.float64()))
    assert (np.abs(found) <= SIZE).all()
    assert (found == np.rint(found)).all()
    assert found.tolist() == [target.whole(pa.array([v], pa.float64()))[0] for v in values]


def test_a_label_is_clamped_and_centred() -> None:
    found = Target("y", 10, 20).whole(pa.array([10.0, 15, 20, -99, 99, math.nan, math.inf, None]))
    assert (found / SIZE).tolist() == [-1, 0, 1, -1, 1, 0, 0, 0]


@pytest.mark.parametrize("bounds", [(1, 1), (2, 1), (0, "1e201"), ("nan", 1)])
def test_a_label_needs_bounds_that_make_sense(bounds: tuple[object, object]) -> None:
    with pytest.raises(InvalidTask):
        Target("y", *bounds)  # type: ignore[arg-type]


def test_rows_of_one_user_lie_together_and_rows_of_nobody_are_left_out() -> None:
    who = pa.array(["b", "a", None, "b", "c", "a", "b"])
    table = read(pa.table({"x": np.arange(7) / 10, "y": np.arange(7.0), "who": who}))
    found = gather(table, FEATURES, Target("y", 0, 6), users("who"))
    assert found.users is not None
    owners = {round(y): int(code) for y, code in zip((found.y / SIZE + 1) * 3, found.users, strict=True)}
    assert set(owners) == {0, 1, 3, 4, 5, 6}
    assert owners[0] == owners[3] == owners[6]
    assert owners[1] == owners[5]
    assert len(set(owners.values())) == 3
    assert (np.diff(found.users) >= 0).all()


def test_users_named_by_floats_and_split_over_batches_keep_one_code() -> None:
    who = np.tile(np.array([0.0, -0.0, 1.0, np.nan]), 50_000)
    table = read({"x": np.zeros(200_000), "y": np.zeros(200_000), "who": who})
    found = gather(table, FEATURES, Target("y", 0, 1), users("who"))
    assert found.users is not None
    assert np.unique(found.users, return_counts=True)[1].tolist() == [100_000, 50_000]


def test_a_table_without_rows_gives_no_rows() -> None:
    table = read({"x": np.zeros(0), "y": np.zeros(0), "who": np.zeros(0)})
    for unit in (rows(), users("who")):
        found = gather(table, FEATURES, Target("y", 0, 1), unit)
        assert found.x.shape == (0, 2)
        assert found.y.shape == (0,)


def test_the_unit_may_also_be_a_feature() -> None:
    table = read({"x": np.array([0.5, 0.5, 1.0]), "y": np.zeros(3)})
    found = gather(table, FEATURES, Target("y", 0, 1), users("x"))
    assert found.users is not None
    assert sorted(found.users.tolist()) == [0, 0, 1]


def test_no_rows_and_rows_of_nobody_alone_are_no_rows_of_anybody() -> None:
    nothing = pa.array([], pa.int64())
    for who, values in ((nothing, pa.array([], pa.float64())), (pa.array([None], pa.int64()), pa.array([1.0]))):
        found = gather(
            read(pa.table({"who": who, "x": values, "y": values})), FEATURES, Target("y", 0, 1), users("who")
        )
        assert (found.x.shape, len(found.y)) == ((0, FEATURES.width), 0)
        assert found.users is not None
        assert found.users.tolist() == []
