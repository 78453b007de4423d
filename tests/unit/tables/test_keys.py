"""Public keys: every form they come in, what is refused before a charge, what a request stores, and odd keys."""

from __future__ import annotations

import datetime
import json
import math
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import steelyard as sy
from steelyard.documents import request_of
from steelyard.errors import InvalidTask
from steelyard.ledger import open_account
from steelyard.privacy import users
from steelyard.requests import task_from
from steelyard.tables import Capped, KeyDigest, KeyList, Quantity, read
from steelyard.tables._keys import key_frame

ONE = Capped(Quantity(None), 1000)
DAY = datetime.date(2025, 1, 1)
PAIRS = [("FR", 1), ("DE", 2), ('"Korea, Republic of"', 3)]
ROWS = {
    "user": [1, 1, 2, 3, 4],
    "land": ["FR", "DE", "FR", '"Korea, Republic of"', None],
    "n": [1, 2, 1, 3, 1],
    "x": [1.0, 2.0, 4.0, 8.0, 16.0],
}


def counted(values: Any, keys: list[Any], kind: pa.DataType | None = None) -> list[int]:
    """How many rows stand under each key, each row being a unit of its own."""
    table = read(pa.table({"user": list(range(len(values))), "k": pa.array(values, kind)}))
    return table.sums_by_key(users("user"), [ONE], "k", keys)[0]


def sums(**grouped: Any) -> Any:
    """What a sum feeds its noise: exact totals, since nothing is capped."""
    session = sy.Session(read(ROWS), open_account(":memory:", "a", unit=users("user"), epsilon=10**6))
    value = session.release(sy.Sum("x", epsilon=10**5, cap=100, **grouped)).value
    return {key: round(each) for key, each in value.items()}


def test_every_form_of_keys_is_the_same_request(tmp_path: Path) -> None:
    frame = {"n": [1, 2, 3], "land": [pair[0] for pair in PAIRS], "more": [0, 0, 0]}
    pq.write_table(pa.table(frame), tmp_path / "keys.parquet")
    forms: list[Any] = [
        PAIRS,
        list(map(list, PAIRS)),
        pd.DataFrame(frame),
        pl.DataFrame(frame),
        pa.table(frame),
        tmp_path / "keys.parquet",
        str(tmp_path / "keys.parquet"),
    ]
    tasks = [sy.Sum("x", epsilon=1, cap=1, by=["land", "n"], keys=keys) for keys in forms]
    assert all(task == tasks[0] and request_of(task) == request_of(tasks[0]) for task in tasks)
    assert sums(by=["land", "n"], keys=PAIRS) == dict(zip(PAIRS, [5, 2, 8], strict=True))


def test_a_csv_file_is_read_with_its_quotes_and_in_the_kinds_of_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "keys.csv"
    path.write_text('n,land\n3,"""Korea, Republic of"""\n1,FR\n')
    assert sums(by=["land", "n"], keys=str(path)) == {('"Korea, Republic of"', "3"): 8, ("FR", "1"): 5}
    with pytest.raises(InvalidTask, match="no keys can be read"):
        sy.Sum("x", epsilon=1, cap=1, by="land", keys=str(tmp_path / "none.csv"))


def test_a_product_is_every_combination_in_the_order_of_by() -> None:
    product = sy.keys(n=[1, 2], land=["FR", "DE"])
    found = sums(by=["land", "n"], keys=product)
    assert found == {("FR", 1): 5, ("FR", 2): 0, ("DE", 1): 0, ("DE", 2): 2}
    assert list(found) == [("FR", 1), ("FR", 2), ("DE", 1), ("DE", 2)]
    for by in ("land", ["land"], ["land", "x"], ["land", "n", "x"]):
        with pytest.raises(InvalidTask, match="the keys are of"):
            sy.Count(epsilon=1, cap=1, by=by, keys=product)


def test_months_are_first_days_both_ends_included() -> None:
    assert sy.months("2024-11", datetime.date(2025, 1, 31)) == [
        datetime.date(2024, 11, 1), datetime.date(2024, 12, 1), datetime.date(2025, 1, 1),
    ]  # fmt: skip
    for first, last in (
        ("2025-02", "2025-01"),
        ("2025", "2026"),
        ("2025-1", "2025-02"),
        (1, 2),
        ("2025-13", "2026-01"),
    ):
        with pytest.raises(InvalidTask, match="month"):
            sy.months(first, last)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "kind", "keys", "expected"),
    [
        (["é", "e\u0301", "É", None], None, ["é", "e\u0301"], [1, 1]),
        (["a,b", 'a"b', "a'b", "a\nb", "", " "], None, ["", " ", "a,b", 'a"b', "a'b", "a\nb"], [1] * 6),
        ([0.0, -0.0, math.nan, None, math.inf, 1e300], None, [-0.0, 1e300, 7], [2, 1, 0]),
        ([0.1, 0.25, -0.0, math.inf, None, 16777216.0], pa.float32(), [0.1, 0.25, 0.0, 1e300, 16777217], [1, 1, 1, 0, 1]),
        ([0.1, 0.1], pa.float32(), [0.1, 0.1 + 1e-12, 0.2], [2, 0, 0]),  # one float, so the first key alone has it
        ([True, False, None, True], None, [True, False], [2, 1]),
        ([True, False], None, ["true"], [1]),
        ([1, 0, 2**63 - 1, None], None, [2**63 - 1, 1, 2**70, -(2**63)], [1, 1, 0, 0]),
        ([2**64 - 1, 0], pa.uint64(), [2**64 - 1, 2**63], [1, 0]),
        (["1.50", "2.00", None], pa.decimal128(10, 2), [Decimal("1.5"), 2, Decimal("1.505"), 10**12], [1, 1, 0, 0]),
        ([DAY, None, datetime.date(2025, 2, 1)], None, ["2025-02-01", DAY, "2024-02-29"], [1, 1, 0]),
    ],
)  # fmt: skip
def test_odd_keys_meet_exactly_the_rows_that_hold_them(
    values: list[Any], kind: Any, keys: list[Any], expected: list[int]
) -> None:
    rows = (
        [None if each is None else Decimal(each) for each in values]
        if pa.types.is_decimal(kind or pa.null())
        else values
    )
    assert counted(rows, keys, kind) == expected


@pytest.mark.parametrize(
    ("column", "keys", "words"),
    [
        ("n", ["x"], "holds integer values; 'x' is not one"),
        ("n", [1, True], "twice"),
        ("n", [2, True], "True is not one"),
        ("n", [1.5], "1.5 is not one"),
        ("n", [10**40], "is not one"),
        ("x", [math.nan], "nan is not one"),
        ("x", [math.inf], "inf is not one"),
        ("x", [10**400], "is not one"),
        ("x", [Decimal("sNaN")], "text, numbers or dates"),
        ("x", [0.0, -0.0], "twice"),
        ("x", ["1", 1.0], "twice"),
        ("land", [1], "1 is not one"),
        ("land", ["\ud800"], "is not one"),
        ("land", [DAY], "is not one"),
        ("land", [b"FR"], "text, numbers or dates"),
        (["land", "n"], ["FR"], "a tuple of 2 values; got 'FR'"),
        (["land", "n"], [("FR", 1, 2)], "a tuple of 2 values"),
        (["land", "n"], [("FR", None)], "text, numbers or dates; got None"),
        (["land", "n"], [("FR", 1), ("FR", "1")], "twice"),
        (["land", "n"], [("FR", 1), ("FR", 1)], "twice"),
        (["land", "land"], [("FR", "FR")], "different ones"),
        ([], [("FR",)], "the name of a column"),
        (["land", 3], [("FR", 3)], "the name of a column"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_charge(column: Any, keys: list[Any], words: str) -> None:
    account = open_account(":memory:", "a", unit=users("user"), epsilon=1)
    with pytest.raises(InvalidTask, match=words):
        sy.Session(read(ROWS), account).release(sy.Count(epsilon=1, cap=1, by=column, keys=keys))
    assert account.spent.amount == 0


def test_frames_without_the_column_and_with_times_of_day_are_refused() -> None:
    with pytest.raises(InvalidTask, match="no column 'n'"):
        sy.Count(epsilon=1, cap=1, by=["land", "n"], keys=pd.DataFrame({"land": ["FR"], "m": [1]}))
    with pytest.raises(InvalidTask, match="not a moment"):
        sy.Count(epsilon=1, cap=1, by="day", keys=pd.DataFrame({"day": [pd.Timestamp("2025-01-01 12:00")]}))
    days = sy.Count(epsilon=1, cap=1, by="day", keys=pd.DataFrame({"day": [pd.Timestamp("2025-01-01")]}))
    assert days.keys == (DAY,)


def test_requests_with_keys_of_every_kind_are_read_back() -> None:
    for by, keys in (
        (["a", "b"], [("x", DAY), ("y", Decimal("1.50"))]),
        (["a", "b"], sy.keys(a=["x", "y"], b=sy.months("2025-01", "2025-03"))),
        ("a", [True, False]),
        (["a"], [0.5]),
    ):
        task = sy.Count(epsilon=1, cap=1, by=by, keys=keys)
        assert task_from(json.dumps(request_of(task))) == task


def test_many_keys_stand_in_a_request_by_their_digest() -> None:
    many = list(range(20_000))
    task = sy.Count(epsilon=1, cap=1, by="n", keys=many)
    request = request_of(task)
    assert len(json.dumps(request)) < 500
    named = task_from(json.dumps(request))
    assert request_of(named) == request
    assert isinstance(getattr(named, "keys"), KeyDigest)  # noqa: B009 - of whichever task it is
    with pytest.raises(InvalidTask, match="by a digest alone"):
        named.plan(read(ROWS).schema, open_account(":memory:", "a", unit=users("user"), epsilon=1).terms)  # type: ignore
    assert task_from(request, keys=many) == task
    with pytest.raises(InvalidTask, match="not the 20,000 keys"):
        task_from(request, keys=many[1:])
    with pytest.raises(InvalidTask, match="says its keys itself"):
        task_from(request_of(sy.Count(epsilon=1, cap=1, by="n", keys=[1])), keys=[1])
    assert KeyList(many).sha256 != KeyList(many[::-1]).sha256


def test_another_order_or_another_key_is_another_request_under_the_same_name() -> None:
    from steelyard.errors import KeyConflict

    many = list(range(12_000))
    session = sy.Session(read(ROWS), open_account(":memory:", "a", unit=users("user"), epsilon=10))
    first = session.release(sy.Count(epsilon=1, cap=1, by="n", keys=many), key="k")
    assert session.release(sy.Count(epsilon=1, cap=1, by="n", keys=many), key="k").value == first.value
    with pytest.raises(KeyConflict):
        session.release(sy.Count(epsilon=1, cap=1, by="n", keys=[*many[1:], -1]), key="k")


def test_a_question_that_was_asked_before_is_never_taken_for_one_of_other_columns() -> None:
    table = read({"user": [1, 2, 3], "a": ["b", "c", "b"], "b": ["c", "c", "c"]})
    assert table.sums_by_key(users("user"), [ONE], "a", ["b", "c"]) == [[2, 1]]
    with pytest.raises(ValueError, match="shorter"):  # a key of two columns is a pair
        table.sums_by_key(users("user"), [ONE], ["a", "b"], ["c"])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int64", [3, -(2**63), 2**63 - 1, 0]),
        ("int64", [3, 2**63, -(2**64)]),
        ("float64", [0.5, -0.0, math.inf, 5e-324]),
        ("float64", [0.5, None, 2]),
        ("string", ["", "FR", "é\u0000\U0001f600", "FR "]),
        ("string", ["a", None]),
        ("date", [DAY, datetime.date(1, 1, 1)]),
        ("boolean", [True, False]),
    ],
)
def test_keys_lie_in_a_frame_as_arrow_would_lay_them(kind: str, values: list[Any]) -> None:
    content = key_frame("k", [ibis.dtype(kind)], [values], [False]).content
    content.validate(full=True)
    fitting = [None if isinstance(v, int) and not -(2**63) <= v < 2**63 else v for v in values]
    assert content.column(0).equals(pa.chunked_array([pa.array(fitting, content.column(0).type)]))
    assert content.column(1).to_pylist() == list(range(len(values)))


def test_a_question_by_keys_of_a_file_loads_no_pandas(tmp_path: Path) -> None:
    pq.write_table(pa.table({"u": [1, 2], "k": ["a", "b"]}), tmp_path / "t.parquet")
    script = """
import sys, steelyard as sy
account = sy.open_account(":memory:", "a", unit=sy.users("u"), epsilon=1)
sy.Session(sy.read(sys.argv[1]), account).release(sy.Count(epsilon=1, upper=9, by="k", keys=["a", "b"]))
print("pandas" in sys.modules)
"""
    ran = [sys.executable, "-c", script, str(tmp_path / "t.parquet")]
    assert subprocess.run(ran, capture_output=True, text=True, check=True).stdout.split() == ["False"]
