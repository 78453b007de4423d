"""A row for everything else: under public keys and found ones, for every task, at the price of the plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import steelyard as sy
from steelyard.documents import request_of
from steelyard.errors import InvalidTask
from steelyard.noise import TestNoise
from steelyard.requests import task_from

LANDS = ["FR"] * 1500 + ["DE"] * 900 + ["IT"] * 100 + [None] * 50
TABLE = sy.read(pa.table({"user": range(2550), "land": LANDS, "x": [2.0] * 2550, "day": [1, 2] * 1275}))
PUBLIC: dict[str, Any] = {"by": "land", "keys": ["FR", "DE"], "others": True}
FOUND: dict[str, Any] = {"by": "land", "max_keys": 1, "others": True}


def session(table: Any = TABLE, **terms: Any) -> sy.Session:
    account = sy.open_account(":memory:", "a", unit=sy.users("user"), **terms)
    return sy.Session(table, account, noise=TestNoise("others"))


def test_every_task_has_the_row() -> None:
    asked = session(epsilon=10**4)
    price: dict[str, Any] = {"epsilon": 500, **PUBLIC}
    tasks: list[Any] = [
        sy.Count(cap=1, **price),
        sy.Sum("x", cap=2, **price),
        sy.CountUsers(max_keys=1, **price),
        sy.CountDistinct("day", cap=1, **price),
        sy.Mean("x", upper=4, cap=1, **price),
        sy.Ratio("x", "day", cap=2, over_cap=2, **price),
        sy.Median("x", upper=4, cap=1, **price),
    ]
    values = asked.release(sy.Together(tasks)).value
    assert all(list(value) == ["FR", "DE", None] for value in values)
    assert [values[0][key] for key in ("FR", "DE", None)] == pytest.approx([1500, 900, 150], abs=1)
    assert values[2][None] == pytest.approx(150, abs=1)
    assert values[3][None] == 2
    assert values[4][None] == pytest.approx(2, abs=0.2)
    bars = asked.release(sy.Histogram("x", edges=[0, 1, 4], cap=1, **price)).value
    assert list(bars[None].values()) == pytest.approx([0, 150], abs=1)


def test_a_row_of_a_table_and_of_a_picture_says_what_it_is() -> None:
    release = session(epsilon=1000).release(sy.Count(epsilon=500, cap=1, **PUBLIC))
    assert "everything else" in str(release)
    assert release.table["land"].to_pylist() == ["FR", "DE", None]
    assert "everything else" in release.chart().svg("light")
    pairs: dict[str, Any] = {"by": ["land", "day"], "keys": [("FR", 1)], "others": True}
    wide = session(epsilon=1000).release(sy.Count(epsilon=500, cap=1, **pairs))
    assert list(wide.value) == [("FR", 1), (None, None)]
    assert str(wide).count("everything else") == 1


def test_more_keys_than_a_request_writes_out_have_it_at_their_end() -> None:
    keys = [f"key {i}" for i in range(10_001)]
    value = session(epsilon=1000).release(sy.Count(epsilon=500, cap=1, by="land", keys=keys, others=True)).value
    assert list(value)[-1] is None
    assert value[None] == pytest.approx(2550, abs=1)


@pytest.mark.parametrize("kind", ["count", "users", "together"])
def test_found_keys_leave_the_rest_to_it(kind: str) -> None:
    asked = session(epsilon=8, delta="1e-6", additive_delta="5e-7")
    one = sy.CountUsers(epsilon=4, **FOUND) if kind == "users" else sy.Count(epsilon=4, cap=1, **FOUND)
    release = asked.release(sy.Together([one, sy.Sum("x", epsilon=4, cap=2, **FOUND)]) if kind == "together" else one)
    value = release.value[0] if kind == "together" else release.value
    assert {"FR", "DE", None} <= set(value)
    rest = 50 + (0 if "IT" in value else 100)
    assert value[None] == pytest.approx(rest, abs=20)


def test_where_no_key_is_found_everything_is_else() -> None:
    few = sy.read({"user": np.arange(3), "land": np.array(["a", "b", "c"])})
    asked = session(few, epsilon=8, delta="1e-6", additive_delta="5e-7")
    assert list(asked.release(sy.Count(epsilon=2, cap=1, **FOUND)).value) == [None]
    assert list(asked.release(sy.CountUsers(epsilon=2, **FOUND)).value) == [None]
    wide = sy.CountUsers(epsilon=2, by=["land", "user"], max_keys=1, others=True)
    assert list(asked.release(wide).value) == [(None, None)]


def test_counted_units_pay_for_it_as_for_one_more_key() -> None:
    asked = session(epsilon=8, delta="1e-6", additive_delta="5e-7")
    plain = sy.CountUsers(epsilon=4, by="land", max_keys=3)
    more = sy.CountUsers(epsilon=4, by="land", max_keys=3, others=True)
    assert asked.quote(more) <= asked.quote(plain)
    wide, narrow = asked.plan(more).predicted, asked.plan(plain).predicted
    assert wide is not None
    assert narrow is not None
    assert wide.noise / narrow.noise == pytest.approx((4 / 3) ** 0.5, rel=0.02)


def test_it_is_part_of_the_request_and_belongs_to_keys() -> None:
    task = sy.Count(epsilon=1, cap=1, **PUBLIC)
    assert task_from(request_of(task)) == task
    with pytest.raises(InvalidTask, match="belong to by="):
        sy.Count(epsilon=1, cap=1, others=True)
    with pytest.raises(InvalidTask, match="True or False"):
        sy.Count(epsilon=1, cap=1, by="land", keys=["FR"], others="yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match="same by, keys and others"):
        sy.Together([task, sy.Count(epsilon=1, cap=1, by="land", keys=["FR", "DE"])])
