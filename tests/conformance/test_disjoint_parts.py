"""A unit lies in the same part on every engine."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from conformance.conftest import Opener
from steelyard import privacy
from steelyard.models._columns import Categorical, Features, Numeric
from steelyard.models._rows import Target
from steelyard.models.accuracy._split import Split
from steelyard.tables import read

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")

N = 400
FEATURES = Features([Numeric("a", -2, 2), Categorical("c", ["x", "y"])])


def data() -> pa.Table:
    draws = np.random.default_rng(5)
    numbers = draws.normal(size=N)
    return pa.table(
        {
            "a": pa.array([None if i % 9 == 0 else value for i, value in enumerate(numbers)]),
            "c": pa.array([["x", "y", None, "z"][i % 4] for i in range(N)]),
            "y": pa.array(draws.normal(size=N)),
            "text": pa.array([None if i % 11 == 0 else f"ü{i % 50}" for i in range(N)]),
            "whole": pa.array([None if i % 7 == 0 else i % 60 for i in range(N)], pa.int32()),
            "real": pa.array([float("nan") if i % 5 == 0 else i / 8 for i in range(N)]),
            "money": pa.array([Decimal(i) / 4 for i in range(N)], pa.decimal128(20, 2)),
        }
    )


@pytest.mark.parametrize("ids", [None, "text", "whole", "real", "money"])
def test_parts_are_the_same_on_every_engine(open_table: Opener, ids: str | None) -> None:
    for users in (False, True) if ids else (False,):
        split, label = Split(ids=None if users else ids), Target("y", -1, 2)
        held, unit = (open_table(data()), read(data())), privacy.users(ids) if users and ids else privacy.rows()
        one, other = (split.parts(opened, FEATURES, label, unit) for opened in held)
        for a, b in ((one.train, other.train), (one.check, other.check)):
            assert a.units == b.units > N / 20
            assert (a.exact.gram == b.exact.gram).all()
            assert a.exact.square == b.exact.square
