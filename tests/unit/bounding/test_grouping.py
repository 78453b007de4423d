"""Public keys: their order, their kinds, what is refused before a charge, and accuracy by key."""

from __future__ import annotations

import datetime
import math
import statistics
from decimal import Decimal
from typing import Any

import pytest

from steelyard.bounding import Count, CountUsers, Sum
from steelyard.bounding._grouping import Grouping, plain_key
from steelyard.errors import InvalidTask, TableError
from steelyard.ledger import open_account
from steelyard.noise import ExactNoise
from steelyard.privacy import Loss, rows, users
from steelyard.session import Session
from steelyard.tables import read
from unit.bounding.remembered import NoNoise, Remembered, terms

KEYS = ["a", "b", "c"]
ROWS = [(u, KEYS[(u + i) % 3], float(1 + u % 5)) for u in range(300) for i in range(2)]
TABLE = read(dict(zip(("user", "k", "x"), map(list, zip(*ROWS, strict=True)), strict=True)))
NOISE, DRAWS = ExactNoise(), 250


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize(
    ("task", "truth"),
    [
        (Sum("x", epsilon=1, cap=12, by="k", keys=KEYS), lambda key: sum(x for _, k, x in ROWS if k == key)),
        (Count(epsilon=1, cap=3, by="k", keys=KEYS), lambda key: sum(k == key for _, k, _ in ROWS)),
        (CountUsers(epsilon=1, by="k", keys=KEYS, max_keys=3), lambda key: sum(k == key for _, k, _ in ROWS)),
    ],
    ids=["sum", "count", "users"],
)
def test_totals_by_key_are_as_good_as_they_say(task: Any, truth: Any, gaussian: bool) -> None:
    mine, known = terms(gaussian=gaussian), Remembered(TABLE)
    plan = task.plan(TABLE.schema, mine)
    error = plan.predicted
    found = [plan.run(TABLE, NOISE), *[plan.run(known, NOISE) for _ in range(DRAWS - 1)]]
    for key in KEYS:
        values = [plan.present(each.value)[key] for each in found]
        assert abs(statistics.fmean(values) - truth(key)) < 5 * 1.5 * error.noise / math.sqrt(DRAWS)
        assert 0.78 < statistics.fmean(abs(value - truth(key)) for value in values) / error.noise < 1.25
        assert 0.9 < sum(abs(value - truth(key)) <= error.interval + 0.5 for value in values) / DRAWS < 0.99


@pytest.mark.parametrize("gaussian", [False, True])
def test_a_count_of_users_is_right_on_average(gaussian: bool) -> None:
    plan = CountUsers(epsilon=1).plan(TABLE.schema, terms(gaussian=gaussian))
    known: Any = Remembered(TABLE)
    values = [plan.run(known, NOISE).value for _ in range(DRAWS)]
    assert plan.predicted is not None
    assert abs(statistics.fmean(values) - 300) < 5 * 1.5 * plan.predicted.noise / math.sqrt(DRAWS)
    assert abs(CountUsers(epsilon=30).plan(TABLE.schema, terms(rows())).run(TABLE, NOISE).value - 600) < 5


def test_a_unit_keeps_exactly_max_keys_keys() -> None:
    heavy = read({"user": [1] * 30, "k": [KEYS[i % 3] for i in range(30)], "x": [1.0] * 30})
    for limit in (1, 2, 3):
        users_plan = CountUsers(epsilon=1, by="k", keys=KEYS, max_keys=limit).plan(heavy.schema, terms())
        counted = users_plan.present(users_plan.run(heavy, NoNoise()).value)
        assert sum(counted.values()) == limit
        rows_task = Count(epsilon=1, cap=100, by="k", keys=KEYS, max_keys=limit, rows_per_key=4)
        rows_plan = rows_task.plan(heavy.schema, terms())
        kept = rows_plan.present(rows_plan.run(heavy, NoNoise()).value)
        assert sorted(kept.values()) == [0] * (3 - limit) + [4] * limit


@pytest.mark.parametrize("gaussian", [False, True])
def test_prices_by_key_are_what_was_asked(gaussian: bool) -> None:
    more: dict[str, Any] = {"delta": "1e-6"} if gaussian else {}
    session = Session(TABLE, open_account(":memory:", "a", unit=users("user"), epsilon=1, **more))
    asked: dict[str, Any] = {"by": "k", "keys": KEYS}
    for task in (
        Sum("x", epsilon=1, cap=5, **asked),
        Count(epsilon=1, cap=5, max_keys=2, rows_per_key=9, **asked),
        CountUsers(epsilon=1, max_keys=7, **asked),
        CountUsers(epsilon=1),
    ):
        assert session.quote(task) == session.account.terms.cap


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("FR", "list of keys"),
        ([], "list of keys"),
        (["a", "a"], "twice"),
        ([["a"]], "text, numbers or dates"),
        ([None], "text, numbers or dates"),
        ([1.0, 1], "twice"),
    ],
)
def test_lists_of_keys_that_are_none_are_refused(keys: Any, words: str) -> None:
    with pytest.raises(InvalidTask, match=words):
        Sum("x", epsilon=1, cap=1, by="k", keys=keys)


def test_keys_of_another_kind_than_the_column_are_refused_before_the_charge() -> None:
    account = open_account(":memory:", "a", unit=users("user"), epsilon=1)
    with pytest.raises(InvalidTask, match="'k' holds string values; 1 is not one"):
        Session(TABLE, account).release(Sum("x", epsilon=1, cap=1, by="k", keys=[1, 2]))
    with pytest.raises(InvalidTask, match="float values"):
        Session(TABLE, account).release(Count(epsilon=1, cap=1, by="x", keys=["a"]))
    assert account.spent == Loss.pure(1) - Loss.pure(1)


def test_a_column_that_cannot_hold_keys_is_refused() -> None:
    odd = read({"user": [1], "k": [[1, 2]]})
    with pytest.raises(TableError, match="cannot be a key"):
        Count(epsilon=1, cap=1, by="k", keys=["a"]).plan(odd.schema, terms())


def test_a_unit_that_the_rows_cannot_name_is_refused() -> None:
    with pytest.raises(TableError, match="cannot name a unit"):
        Count(epsilon=1, cap=1).plan(read({"user": [[1, 2]]}).schema, terms())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"keys": ["a"]}, "belong to by="),
        ({"max_keys": 1}, "belong to by="),
        ({"by": "k"}, "which keys occur is itself private"),
        ({"by": "k", "keys": ["a"], "max_keys": 2**23}, "from 1 to"),
        ({"by": "k", "keys": ["a"], "max_keys": True}, "from 1 to"),
        ({"by": "k", "keys": ["a"], "rows_per_key": 0}, "from 1 to"),
    ],
)
def test_groupings_are_refused_with_a_word_about_what_to_do(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidTask, match=words):
        Count(epsilon=1, cap=1, **arguments)


def test_a_lower_bound_by_key_is_refused() -> None:
    with pytest.raises(InvalidTask, match="leave lower out"):
        Sum("x", epsilon=1, cap=1, lower=-1, by="k", keys=["a"])


@pytest.mark.parametrize(
    "key", ["FR", 3, -0.5, True, Decimal("2.50"), Decimal(2**70), datetime.date(2026, 2, 3), math.inf]
)
def test_every_key_comes_back_as_it_was_asked_for(key: Any) -> None:
    import json

    grouping = Grouping.read("k", [key], None, None)
    stored = json.loads(json.dumps(grouping.label([5]), allow_nan=False))
    assert grouping.present(stored) == {key: 5}
    assert isinstance(plain_key(key), str | int | float)
