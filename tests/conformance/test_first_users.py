"""Statistics and looks in which every user counts once: the same whole numbers on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conformance.conftest import Opener
from off_ledger import InMemory
from steelyard.models._columns import SIZE, Categorical, Features, Numeric
from steelyard.models._rows import Target, gather
from steelyard.models.accuracy._losses import MARGIN, ClippedLoss, LoggedLoss
from steelyard.models.accuracy._users import ROOT, WEIGHT, exact_of
from steelyard.privacy import users

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")

FEATURES = Features([Numeric("a", -2, 3), Categorical("c", ["x", "y"])], "clip", 1)
LABEL = Target("y", -1, 4)
N = 3000


def data() -> Any:
    """Users of 1 to 700 rows, rows of nobody, and values that are no numbers."""
    random = np.random.default_rng(5)
    who = np.minimum(random.integers(1, 10**9, N), 10 ** random.integers(1, 10, N)) % 997
    values = [
        None if i % 13 == 0 else [np.nan, np.inf, -np.inf, 1e300][i % 4] if i % 7 == 0 else i / N for i in range(N)
    ]
    return pa.table(
        {
            "a": pa.array(values, pa.float64()),
            "c": pa.array([["x", "y", None, "z"][i % 4] for i in range(N)]),
            "y": pa.array(random.normal(size=N) * 3),
            "who": pa.array([None if i % 11 == 0 else f"u{who[i]}" for i in range(N)]),
        }
    )


def test_every_engine_gives_users_the_same_share(open_table: Opener) -> None:
    table = data()
    whose = table.column("who").to_pylist()
    people = sorted({who for who in whose if who is not None})
    sizes = {who: whose.count(who) for who in people}
    batch = table.select(["a", "c", "y"]).combine_chunks().to_batches()[0]
    z = np.vstack([FEATURES.whole(batch), LABEL.whole(batch.column(2))]).astype(np.int64).astype(object)
    weight = np.array([0 if who is None else WEIGHT // sizes[who] for who in whose], dtype=object)
    unit = users("who", neighbours="replace", n=len(people))
    found, sums = exact_of(open_table(table), FEATURES, LABEL, unit), (z * weight) @ z.T
    assert found.gram.tolist() == sums[:-1, :-1].tolist()
    assert found.moment.tolist() == sums[:-1, -1].tolist()
    assert found.square == sums[-1, -1] + (len(people) * WEIGHT - weight.sum()) * SIZE**2
    assert found.unit == SIZE * ROOT


def test_every_engine_sees_the_same_losses(open_table: Opener) -> None:
    table = data()
    whose = table.column("who").to_pylist()
    n = len({who for who in whose if who is not None})
    gathered = gather(open_table(table), FEATURES, LABEL, users("who", neighbours="replace", n=n))
    assert gathered.users is not None
    batch = table.select(["a", "c", "y"]).combine_chunks().to_batches()[0]
    x, y = FEATURES.whole(batch).T, LABEL.whole(batch.column(2))
    some = [i for i, who in enumerate(whose) if who is not None]
    codes = np.unique([whose[i] for i in some], return_inverse=True)[1]
    model = (2**47, -(2**46), 2**45, 2**46)
    values = {
        ClippedLoss(model, 0.1).value(InMemory(seen))
        for seen in ((gathered.x, gathered.y, gathered.users), (x[some], y[some], codes))
    }
    assert len(values) == 1
    log = LoggedLoss(tuple(k >> 28 for k in model), 0.5, 9 << MARGIN)
    assert log.value(InMemory((gathered.x, gathered.y, gathered.users))) == log.value(
        InMemory((x[some], y[some], codes))
    )
