"""What a fit per user is made of, user by user: the same whole numbers in DuckDB and on Spark, whose rows stay with its workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conformance.conftest import Opener
from steelyard.models._columns import Categorical, Features, Numeric
from steelyard.models._losses import LOGISTIC, SQUARED
from steelyard.models._passes import Reading
from steelyard.models._rows import Classes, Label, Target
from steelyard.models._user_rows import UserRows
from steelyard.models._user_sums import octaves, whole
from steelyard.privacy import users

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")
N = 3000
FEATURES = Features([Numeric("a", -2, 3), Categorical("c", ["x", "y"])], "clip", 1)
THETA = np.array([0.5, -1.25, 0.75, 0.0])[: FEATURES.width]


def data() -> Any:
    """Users of 1 to many rows, rows of nobody, and values that are no numbers."""
    random = np.random.default_rng(5)
    who = np.minimum(random.integers(1, 10**9, N), 10 ** random.integers(1, 10, N)) % 397
    values = [
        None if i % 13 == 0 else [np.nan, np.inf, -np.inf, 1e300][i % 4] if i % 7 == 0 else i / N for i in range(N)
    ]
    return pa.table(
        {
            "a": pa.array(values, pa.float64()),
            "c": pa.array([["x", "y", None, "z"][i % 4] for i in range(N)]),
            "y": pa.array(random.normal(size=N) * 3),
            "old": pa.array([None if i % 5 == 0 else bool(i % 3) for i in range(N)]),
            "who": pa.array([None if i % 11 == 0 else f"u{who[i]}" for i in range(N)]),
        }
    )


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED], ids=["logistic", "linear"])
def test_every_engine_adds_up_the_same_users(open_table: Opener, loss: Any) -> None:
    label: Label = Classes("old", [False, True]) if loss is LOGISTIC else Target("y", -1, 4)
    table, target = data(), label.targets[0]
    found = Reading(open_table(table), FEATURES, label, users("who")).of(target).by_user(loss)
    clipped, counts = by_hand(table, label, target, loss)
    assert found.over_sizes(octaves, 18).tolist() == counts
    for rooted, wanted in clipped.items():
        assert found.gradients(THETA, 0.5, rooted).tolist() == wanted


def by_hand(table: Any, label: Label, target: int, loss: Any) -> tuple[dict[bool, list[int]], list[int]]:
    """Each user's gradient by itself, in exact integers."""
    batch = table.select([*FEATURES.source, label.column]).combine_chunks().to_batches()[0]
    x, y = FEATURES.whole(batch).T, label.of(label.whole(batch.column(len(FEATURES.source))), target)
    whose = np.array(table.column("who").to_pylist(), dtype=object)
    vectors, sizes = [], []
    for person in sorted({who for who in whose if who is not None}):
        rows, labels = loss.oriented(x[whose == person], y[whose == person])
        residuals = loss.residuals((rows @ THETA) / 2**18, labels).astype(object)
        vectors.append([int(each) / 2**32 for each in residuals @ rows.astype(np.int64).astype(object)])
        sizes.append(int((whose == person).sum()))
    roots = {True: 1 / np.sqrt(np.array(sizes, dtype=float)), False: None}
    clipped = {rooted: whole(np.array(vectors), 0.5, root).sum(axis=0).tolist() for rooted, root in roots.items()}
    return clipped, np.bincount([size.bit_length() - 1 for size in sizes], minlength=18).tolist()


def test_no_rows_are_no_users(open_table: Opener) -> None:
    label = Target("y", -1, 4)
    found = Reading(open_table(data().slice(0, 0)), FEATURES, label, users("who")).of(0).by_user(SQUARED)
    assert isinstance(found, UserRows)
    assert found.gradients(THETA, 0.5, rooted=True).tolist() == [0] * FEATURES.width
    assert sum(found.over_sizes(octaves, 18)) == 0
