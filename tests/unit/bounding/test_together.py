from __future__ import annotations

import statistics
from fractions import Fraction
from typing import Any

import pytest

from steelyard.bounding import Count, Profile, Sum, Together
from steelyard.errors import ColumnMissing, InvalidTask
from steelyard.ledger import open_account
from steelyard.mechanisms._observe import observing
from steelyard.noise import TestNoise
from steelyard.privacy import Loss, Terms, users
from steelyard.session import Session
from steelyard.tables import Work, read

DATA: dict[str, list[Any]] = {
    "user": [u for u in range(300) for _ in range(1 + u % 4)],
    "x": [float(u % 9) for u in range(300) for _ in range(1 + u % 4)],
    "land": ["FR" if (u + i) % 3 else "DE" for u in range(300) for i in range(1 + u % 4)],
}
TABLE = read(DATA)
TERMS = Terms(users("user"), Loss.pure(100), Fraction(100))
KEYS: dict[str, Any] = {"by": "land", "keys": ["DE", "FR", "XX"]}


@pytest.mark.parametrize("keys", [{}, KEYS], ids=["whole", "by key"])
def test_together_feeds_the_noise_what_each_total_would_feed_it_alone(keys: dict[str, Any]) -> None:
    tasks: list[Sum | Count] = [
        Sum("x", epsilon=1, cap=7, **keys),
        Count(epsilon=2, cap=3, **keys),
        Sum("x", epsilon=3, cap=50, **keys),
    ]
    with observing() as alone:
        for task in tasks:
            task.plan(TABLE.schema, TERMS).run(TABLE, TestNoise(1))
    with observing() as shared:
        Together(tasks).plan(TABLE.schema, TERMS).run(TABLE, TestNoise(1))
    assert shared == alone


def test_it_reads_the_rows_once() -> None:
    asked = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return getattr(TABLE, name)

    task = Together([Sum("x", epsilon=1, cap=7, **KEYS), Count(epsilon=2, cap=3, **KEYS)])
    task.plan(TABLE.schema, TERMS).run(Counting(), TestNoise(1))  # type: ignore[arg-type]
    assert asked == ["sums_by_key"]


def test_caps_that_are_chosen_by_key_are_looked_for_in_one_pass_and_see_what_they_would_alone() -> None:
    tasks: list[Sum | Count] = [Sum("x", epsilon=1, upper=1000, **KEYS), Count(epsilon=2, upper=50, **KEYS)]
    with observing() as alone:
        for task in tasks:
            task.plan(TABLE.schema, TERMS).run(TABLE, TestNoise(1))
    account = open_account(":memory:", "looks", unit=users("user"), epsilon=10)
    assert Session(TABLE, account).work(Together(tasks)) == Work(2)  # all looks, then all totals
    with observing() as shared:
        Together(tasks).plan(TABLE.schema, TERMS).run(TABLE, TestNoise(1))
    assert shared[:2] == [alone[0], alone[2]]


def test_the_price_is_the_sum_and_the_values_come_in_order() -> None:
    account = open_account(":memory:", "a", unit=users("user"), epsilon=100)
    task = Together([Sum("x", epsilon="30", cap=40, **KEYS), Count(epsilon="20", cap=4, **KEYS)])
    release = Session(TABLE, account).release(task, key="k")
    assert account.spent == Loss.pure(50)
    sums, counts = release.value
    truth = {
        key: sum(x for x, land in zip(DATA["x"], DATA["land"], strict=True) if land == key) for key in KEYS["keys"]
    }
    for key in KEYS["keys"]:
        assert abs(sums[key] - truth[key]) < 20
        assert abs(counts[key] - DATA["land"].count(key)) < 5
    assert [part["cap"] for part in release.point["parts"]] == [40, 4]
    assert Session(TABLE, account).release(task, key="k").value == release.value
    assert account.spent == Loss.pure(50)


def test_each_part_is_right_on_average_over_many_draws() -> None:
    task = Together([Sum("x", epsilon=1, cap=40), Count(epsilon=1, cap=4)])
    draws = [task.plan(TABLE.schema, TERMS).run(TABLE, TestNoise(seed)).value for seed in range(200)]
    sums, counts = zip(*draws, strict=True)
    assert abs(statistics.fmean(sums) - sum(DATA["x"])) < 40 * 6 / 200**0.5
    assert abs(statistics.fmean(counts) - len(DATA["x"])) < 4 * 6 / 200**0.5


@pytest.mark.parametrize(
    "tasks",
    [
        [],
        [Sum("x", epsilon=1, cap=1), Profile("x", epsilon=1, upper=9)],
        [Sum("x", epsilon=1, cap=1), Count(epsilon=1, cap=1, **KEYS)],
        [Count(epsilon=1, cap=1, by="land", max_keys=2), Count(epsilon=1, cap=1, by="land", max_keys=3)],
    ],
)
def test_what_cannot_be_asked_together_is_refused(tasks: list[Any]) -> None:
    with pytest.raises(InvalidTask, match="ogether"):
        Together(tasks)


def test_a_part_that_does_not_fit_the_table_is_refused_before_a_charge() -> None:
    with pytest.raises(ColumnMissing):
        Together([Count(epsilon=1, cap=1), Sum("y", epsilon=1, cap=1)]).plan(TABLE.schema, TERMS)


def test_every_part_says_its_own_error() -> None:
    session = Session(TABLE, open_account(":memory:", "a", unit=users("user"), epsilon=3))
    told = str(session.release(Together([Sum("x", epsilon=1, upper=1000), Count(epsilon=1, cap=2)]))).splitlines()
    assert sum(line.startswith("Sum of x: noise ±") for line in told) == 1
    assert sum(line.startswith("Count of rows: noise ±") for line in told) == 1
    assert any(line.startswith("Sum of x: up to") for line in told)  # its blind spot
