"""Folding over batches and batches by unit: the same sums on every engine, whatever the batches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conformance.conftest import Opener
from steelyard.errors import ColumnMissing, TableError
from steelyard.models._columns import Categorical, Features, Numeric
from steelyard.privacy import users
from steelyard.tables._folding import Step

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")


def data(n: int = 5000) -> Any:
    random = np.random.default_rng(1)
    return pa.table(
        {
            "a": pa.array(random.normal(size=n)),
            "b": pa.array([None if i % 7 == 0 else i for i in range(n)], pa.int64()),
            "c": pa.array([["x", "y", None, "z"][i % 4] for i in range(n)]),
            "who": pa.array([None if i % 11 == 0 else f"u{i % 5}" for i in range(n)]),
        }
    )


FEATURES = Features([Numeric("a", -2, 2), Numeric("b", 0, 5000), Categorical("c", ["x", "y"])])


def gram() -> Step:
    """A step that Spark can ship: a function inside a function goes by value, and this module is not on the workers."""
    features = FEATURES

    def step(batch: Any) -> list[Any]:
        z = features.whole(batch)
        return [(z @ z.T).astype(np.int64), np.array([z.shape[1]])]

    return step


def test_integer_sums_are_the_same_on_every_engine(open_table: Opener) -> None:
    table = data()
    start = [np.zeros((5, 5), dtype=np.int64), np.zeros(1, dtype=np.int64)]
    found, count = open_table(table).fold(["a", "b", "c"], gram(), start)
    expected = FEATURES.rows(table.select(["a", "b", "c"]).combine_chunks().to_batches()[0]).astype(object)
    assert found.tolist() == (expected.T @ expected).tolist()
    assert count.tolist() == [5000]


def test_integers_do_not_overflow_and_floats_stay_floats(open_table: Opener) -> None:
    table = open_table(data(40_000))
    big = lambda batch: [np.full(1, 2**62 if batch.num_rows else 0, dtype=np.int64), np.array([0.5])]  # noqa: E731
    found, halves = table.fold(["a"], big, [np.zeros(1, dtype=np.int64), np.zeros(1)], size=2048)
    assert found[0] % 2**62 == 0
    assert found[0] >= 2**63
    assert halves[0] >= 1


def test_a_fold_begins_at_its_start(open_table: Opener) -> None:
    found = open_table(data(100)).fold(["a"], lambda batch: [np.array([batch.num_rows])], [np.array([1000])])
    assert found[0].tolist() == [1100]


def test_a_step_that_fails_says_nothing_of_the_rows(open_table: Opener) -> None:
    def broken(batch: Any) -> list[Any]:
        raise ValueError(f"the secret is {batch.column(0)[0]}")

    with pytest.raises(TableError, match="the engine could not answer") as caught:
        open_table(data(100)).fold(["a"], broken, [np.zeros(1)])
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    with pytest.raises(ColumnMissing):
        open_table(data(100)).fold(["nothing"], gram(), [np.zeros(1)])


def test_rows_of_a_unit_come_together_and_rows_of_nobody_not_at_all(open_table: Opener) -> None:
    found = [
        (who, b)
        for batch in open_table(data()).batches_by_unit(["b"], users("who"), size=700)
        for b, who in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
    ]
    expected = [(f"u{i % 5}", None if i % 7 == 0 else i) for i in range(5000) if i % 11]
    assert sorted(found, key=str) == sorted(expected, key=str)
    owners = [who for who, _ in found]
    assert sum(a != b for a, b in pairwise(owners)) == 4


def test_a_fold_can_be_told_how_many_rows_each_rows_unit_has(open_table: Opener) -> None:
    def step(batch: Any) -> list[Any]:
        sizes, b = batch.column(1).to_numpy(zero_copy_only=False), batch.column(0).to_numpy(zero_copy_only=False)
        return [np.array([int(sizes.sum()), int((np.nan_to_num(b) * sizes).sum()), len(sizes)])]

    whose = [None if i % 11 == 0 else i % 5 for i in range(5000)]
    found = open_table(data()).fold(["b"], step, [np.zeros(3, dtype=np.int64)], sizes_of=users("who"))
    sizes = [0 if who is None else whose.count(who) for who in whose]
    by_size = sum(i * size for i, size in enumerate(sizes) if i % 7)
    assert found[0].tolist() == [sum(sizes), by_size, sum(size > 0 for size in sizes)]
