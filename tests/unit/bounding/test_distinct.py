"""CountDistinct: one unit adds at most its cap and takes nothing, whatever it holds; and it counts well."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from typing import Any

import pytest

import steelyard as sy
from steelyard.bounding._distinct import _CAPS, _FINE, ValuesCap
from steelyard.documents import request_of
from steelyard.errors import InvalidTask, TableError
from steelyard.mechanisms import Exponential
from steelyard.mechanisms._observe import observing
from steelyard.noise import ExactNoise, TestNoise
from steelyard.privacy import Loss, rows, users
from steelyard.requests import task_from
from steelyard.tables import Limits, Table, read
from unit.bounding.remembered import USER, Remembered, distance, seen_in, terms

KEYS: dict[str, Any] = {"by": "k", "keys": ["a", "b", "c"]}
Row = tuple[Any, str | None, Any]
BASE: list[Row] = [(u, "abc"[(u + i) % 3], (u * i) % 23) for u in range(60) for i in range(1 + u % 5)]
EXTREME: list[list[Row]] = [
    [(99, "a", v) for v in range(100, 400)],
    [(99, "abc"[v % 3], v) for v in range(400)],
    [(99, None, 5), (99, "zz", 6), (99, "a", None)],
    [(99, "a", 1)] * 50,
]
SAME = Limits(secret=b"sixteen bytes or more")


def table(data: Sequence[Row]) -> Table:
    return read(dict(zip(("user", "k", "v"), map(list, zip(*data, strict=True)), strict=True)))


def kept(data: Sequence[Row], cap: int, by: str | None = "k") -> list[int]:
    keys = KEYS["keys"] if by else ()
    return table(data).distinct_values(USER, "v", [cap], by, keys, SAME)[0]


@pytest.mark.parametrize("cap", [1, 3, 50, 1000])
def test_one_unit_adds_at_most_its_cap_and_takes_nothing(cap: int) -> None:
    for by in (None, "k"):
        less = kept(BASE, cap, by)
        for extra in EXTREME:
            moves = [b - a for a, b in zip(less, kept([*BASE, *extra], cap, by), strict=True)]
            assert min(moves) >= 0
            assert sum(moves) <= cap
    assert sum(kept([*BASE, *EXTREME[1]], 50)) - sum(kept(BASE, 50)) > 25  # so the check can fail


def twin_by_popularity(data: Sequence[Row], cap: int) -> int:
    """Each unit counts for those of its values that most units hold: what one unit holds changes what others count for."""
    own: dict[Any, set[Any]] = {}
    for user, _, value in data:
        own.setdefault(user, set()).add(value)
    held = [value for values in own.values() for value in values]
    return len({v for values in own.values() for v in sorted(values, key=lambda v: (-held.count(v), -v))[:cap]})


def test_a_choice_that_depends_on_other_units_is_caught() -> None:
    few, top, rest = 9, 500, 100
    units: list[Row] = [(u, "a", v) for u in range(few) for v in (rest, u)]
    fillers: list[Row] = [(u, "a", v) for u in range(50, 49 + few) for v in (*range(few), top)]
    less = [*units, *fillers, *[(u, "a", top) for u in range(200, 230)]]
    more = [*less, *[(49, "a", v) for v in (*range(few), top)]]
    assert kept(more, 1, None)[0] - kept(less, 1, None)[0] <= 1
    assert twin_by_popularity(more, 1) - twin_by_popularity(less, 1) == few - 1


@pytest.mark.parametrize("caps", [(1, 2, 5), (7,)])
def test_the_engine_counts_what_the_rows_say_where_nothing_is_cut(caps: tuple[int, ...]) -> None:
    counts = table(BASE).distinct_values(USER, "v", caps, None, (), SAME)
    truth = len({v for _, _, v in BASE})
    assert [len(each) for each in counts] == [1] * len(caps)
    if caps == (7,):
        assert counts[0][0] == truth
    assert counts == sorted(counts)


def test_values_of_every_kind_are_told_apart_as_keys_are() -> None:
    data = {
        "user": list(range(6)),
        "text": ["a", "A", "a", None, "", ""],
        "float": [0.0, -0.0, math.nan, math.inf, 1.5, None],
        "day": [date(2025, 1, 1), date(2025, 1, 1), None, date(1, 1, 1), date(9999, 12, 31), None],
        "flag": [True, False, None, True, True, True],
    }
    found = {name: read(data).distinct_values(USER, name, [1])[0][0] for name in ("text", "float", "day", "flag")}
    assert found == {"text": 3, "float": 3, "day": 3, "flag": 2}


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("cap", [3, "auto"])
def test_counts_are_right_and_their_lower_ends_hold(cap: Any, gaussian: bool) -> None:
    data = table([(u, "a", (u * 7 + i) % 300) for u in range(2000) for i in range(3)])
    plan = sy.CountDistinct("v", epsilon=1, cap=cap).plan(data.schema, terms(gaussian=gaussian))
    known: Any = Remembered(data)
    found = [plan.run(known, ExactNoise()) for _ in range(200)]
    assert abs(statistics.median(each.value for each in found) - 300) < 25
    assert sum(low <= 300 for each in found if each.error for low, _ in each.error.ends if low is not None) / 200 > 0.9
    assert all(high is None for each in found if each.error for _, high in each.error.ends)


def test_where_the_row_is_the_unit_both_ends_are_known() -> None:
    session = sy.Session(table(BASE), sy.open_account(":memory:", "a", unit=rows(), epsilon=3))
    release = session.release(sy.CountDistinct("v", epsilon=3))
    assert release.low <= release.value <= release.high
    assert release.title == "Different values of v"
    held = sy.Session(table(BASE), sy.open_account(":memory:", "b", unit=USER, epsilon=3))
    told = str(held.release(sy.CountDistinct("v", epsilon=1, cap=2)))
    assert "truth above" in told
    assert "may be missing" in told


def test_a_choice_of_the_cap_moves_by_one_whatever_unit_comes() -> None:
    """The costs are measured in how far one unit moves two counts, so every cost moves by at most one."""
    task = sy.CountDistinct("v", epsilon=1, **KEYS)
    less = seen_in(task, _SameSecret(table(BASE)), terms())
    for extra in EXTREME:
        more = seen_in(task, _SameSecret(table([*BASE, *extra])), terms())
        assert [each.event for each in more] == [each.event for each in less]
        assert distance(more[0].event, more[0].values, less[0].values) <= 1


def test_a_twin_that_compares_counts_as_they_are_is_caught() -> None:
    choice = ValuesCap(Exponential(Fraction(1), _FINE), 1, Fraction(1))
    less, more = [10] * len(_CAPS), [10 + cap for cap in _CAPS]
    assert max(abs(a - b) for a, b in zip(choice.costs(less), choice.costs(more), strict=True)) <= _FINE
    raw = [[_FINE * (max(counts) - each) for each in counts] for counts in (less, more)]
    assert max(abs(a - b) for a, b in zip(*raw, strict=True)) > _FINE


class _SameSecret:
    """A table that keeps the same values of a unit each time."""

    def __init__(self, inner: Table) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def distinct_values(self, *asked: Any) -> Any:
        unit, column, caps, by, keys = asked
        return self._inner.distinct_values(unit, column, caps, by, keys, SAME)


def test_prices_requests_and_refusals() -> None:
    session = sy.Session(table(BASE), sy.open_account(":memory:", "a", unit=users("user"), epsilon=3))
    for task in (sy.CountDistinct("v", epsilon="0.3"), sy.CountDistinct("v", epsilon="0.3", cap=9, **KEYS)):
        assert session.quote(task) == Loss.pure("0.3")
        assert task_from(request_of(task)) == task
    for cap in (0, True, "9", 2**21, 1.5):
        with pytest.raises(InvalidTask, match="whole number of values"):
            sy.CountDistinct("v", epsilon=1, cap=cap)  # type: ignore[arg-type]
    with pytest.raises(TableError, match="cannot be a key"):
        sy.CountDistinct("v", epsilon=1).plan(sy.read({"user": [1], "v": [b"x"]}).schema, terms())


def test_it_is_asked_beside_others_with_the_same_noise() -> None:
    tasks: list[Any] = [sy.CountDistinct("v", epsilon=1, cap=500, **KEYS), sy.Sum("v", epsilon=1, cap=9, **KEYS)]
    with observing() as alone:
        for task in tasks:
            task.plan(table(BASE).schema, terms()).run(table(BASE), TestNoise(1))
    with observing() as shared:
        sy.Together(tasks).plan(table(BASE).schema, terms()).run(table(BASE), TestNoise(1))
    assert shared == alone
