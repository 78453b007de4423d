"""TopK, and histograms of dates and of values: what one unit moves, what comes out, what is refused."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

import steelyard as sy
from steelyard.bounding._amounts import Spend
from steelyard.bounding._top import Peeling
from steelyard.documents import request_of
from steelyard.errors import CurrencyMismatch, InvalidTask, TableError
from steelyard.mechanisms._observe import Observed, observing
from steelyard.noise import ExactNoise, TestNoise
from steelyard.privacy import Loss, rows, users
from steelyard.requests import task_from
from steelyard.tables import Capped, KeyList, Quantity, Table, read
from unit.bounding.remembered import USER, NoNoise, Remembered, distance, seen_in, terms

NAMES = [f"p{i}" for i in range(40)]
HELD = [(u, f"p{v}") for u in range(900) for v in range(40) if (u * 7919 + v * 104729) % 900 < 800 / (v + 1)]
DAY = dt.date(2025, 1, 1)


def table(extra: Any = ()) -> Table:
    held = [*HELD, *extra]
    days = [DAY + dt.timedelta(days=(7 * i) % 365) if i % 50 else None for i in range(len(held))]
    return read(
        pa.table({"user": [u for u, _ in held], "product": [p for _, p in held], "day": pa.array(days, pa.date32()),
                  "land": ["ab"[u % 2] for u, _ in held]})
    )  # fmt: skip


TABLE = table()
COUNTS = {name: sum(p == name for _, p in HELD) for name in NAMES}
MORE = table([(5000, name) for name in NAMES for _ in range(30)])
TASK = sy.TopK("product", k=5, epsilon=1, keys=NAMES)


@pytest.mark.parametrize("gaussian", [False, True])
def test_the_most_held_values_come_with_honest_numbers(gaussian: bool) -> None:
    known: Any = Remembered(TABLE)
    plan = TASK.plan(TABLE.schema, terms(gaussian=gaussian))
    found = [plan.run(known, ExactNoise()) for _ in range(100)]
    assert plan.predicted is not None
    inside = [abs(n - COUNTS[v]) <= plan.predicted.interval for each in found for v, n in each.value]
    assert sum(inside) / len(inside) > 0.89
    first = sorted(COUNTS, key=lambda name: -COUNTS[name])[:3]
    assert sum({v for v, _ in each.value} >= set(first) for each in found) > 90
    assert all([n for _, n in each.value] == sorted((n for _, n in each.value), reverse=True) for each in found)
    behind = int(plan.predicted.note.split("more than ")[1].split(" ")[0].replace(",", ""))
    worst = [min(COUNTS[v] for v, _ in each.value) for each in found]
    left = [max(COUNTS[v] for v in NAMES if v not in dict(each.value)) for each in found]
    assert sum(a - b <= behind for a, b in zip(left, worst, strict=True)) > 85


def first_move(look: Callable[[Table], list[Observed]]) -> Any:
    less, more = look(TABLE), look(MORE)
    return distance(less[0].event, less[0].values, more[0].values)


def test_a_unit_with_every_value_and_many_rows_moves_a_choice_by_one() -> None:
    assert first_move(lambda data: seen_in(TASK, data, terms())) == 1
    event = TASK.plan(TABLE.schema, terms()).event
    assert event == TASK.plan(MORE.schema, terms()).event


def test_a_twin_that_counts_rows_is_caught() -> None:
    def look(data: Table) -> list[Observed]:
        peel = Peeling.of(5, TASK.grouping, Spend(False, 10**6))
        counts = data.sums_by_key(USER, [Capped(Quantity(None), 10**6)], "product", NAMES)[0]
        with observing() as seen:
            peel.choice.choose([-count for count in counts], TestNoise(1))
        return seen

    assert first_move(look) > 1


def test_a_twin_that_noises_the_chosen_for_one_is_caught() -> None:
    def numbers(data: Table) -> Observed:
        """What the last step of a run without noise is fed: the same values are chosen on both tables."""
        with observing() as seen:
            sy.TopK("product", k=40, epsilon=1, keys=NAMES).plan(data.schema, terms()).run(data, NoNoise(1))
        return seen[-1]

    less, more = numbers(TABLE), numbers(MORE)
    moved = sum(abs(a - b) for a, b in zip(sorted(less.values), sorted(more.values), strict=True))
    assert less.event.parameters["sensitivity"] == 40
    assert 1 < moved <= 40


def test_values_are_found_where_enough_units_hold_them() -> None:
    session = sy.Session(
        TABLE, sy.open_account(":memory:", "a", unit=USER, epsilon=4, delta="1e-6", additive_delta="1e-7")
    )
    release = session.release(sy.TopK("product", k=3, epsilon=4, max_keys=6))
    assert next(iter(release.value)) == "p0"
    assert len(release.value) == 3
    assert release.title == "Top 3 of product"
    assert release.table.column_names[:2] == ["product", "value"]
    pairs = session.quote(sy.TopK(["land", "product"], epsilon=1, max_keys=2))
    assert pairs.delta > 0
    pure = sy.Session(TABLE, sy.open_account(":memory:", "b", unit=USER, epsilon=4))
    with pytest.raises(CurrencyMismatch, match="keys="):
        pure.quote(sy.TopK("product", epsilon=1, max_keys=2))
    assert pure.quote(TASK) == Loss.pure(1)
    assert pure.release(replace(TASK, epsilon=2)).low["p0"] <= COUNTS["p0"]


BY_KEY = {
    "found": sy.TopK("product", k=2, mu=3, by="land", max_keys=6),
    "found values": sy.TopK("product", k=2, mu=3, by="land", keys=["b", "zz", "a"], cap=6),
    "public": sy.TopK("product", k=2, mu=3, by="land", keys=["b", "zz", "a"], values=NAMES, cap=6),
}
ASIDE: dict[str, Any] = {"epsilon": 60, "delta": "1e-6", "additive_delta": "5e-7"}


@pytest.mark.parametrize("name", BY_KEY)
def test_by_key_the_first_values_of_each_are_shown_and_cost_what_their_counts_cost(name: str) -> None:
    task, account = BY_KEY[name], sy.open_account(":memory:", "a", unit=USER, **ASIDE)
    release = sy.Session(TABLE, account).release(task, key="k")
    assert list(release.value["a"]) == list(release.value["b"]) == ["p0", "p1"]
    assert list(release.value) == (["a", "b"] if name == "found" else ["b", "zz", "a"])
    assert all(list(held.values()) == sorted(held.values(), reverse=True) for held in release.value.values())
    assert len(release.value.get("zz", {})) == (2 if name == "public" else 0)
    truth = sum(p == "p0" and u % 2 == 0 for u, p in HELD)
    assert release.error is not None
    assert release.value["a"]["p0"] == pytest.approx(truth, abs=3 * release.error.interval)
    pairs = None if name != "public" else [(land, value) for land in ("b", "zz", "a") for value in NAMES]
    counted = sy.CountUsers(mu=3, by=["land", "product"], keys=pairs, max_keys=6)
    assert account.spent == sy.Session(TABLE, account).quote(counted)
    assert release.title == "Top 2 of product by land"
    assert release.table.column_names[:3] == ["land", "product", "value"]
    assert release.table.num_rows == (6 if name == "public" else 4)
    assert "p1" in release.chart().svg()
    assert sy.Session(TABLE, account).release(task, key="k").value == release.value
    nobody = sy.Session(read({"user": [1], "land": ["a"], "product": ["p0"]}), account).release(replace(task, mu=1))
    assert nobody.table.column_names[:3] == ["land", "product", "value"]


@pytest.mark.parametrize("gaussian", [False, True])
def test_by_key_the_largest_of_many_noises_is_in_the_error(gaussian: bool) -> None:
    """All values are held alike, so what is shown was chosen by noise alone; the error of one count would hold a third of it."""
    names = [f"v{i}" for i in range(200)]
    data: Any = Remembered(read(pa.table({"user": list(range(400)), "land": ["a"] * 400, "product": names * 2})))
    task = sy.TopK("product", k=3, epsilon=1, by="land", keys=["a"], values=names, cap=1)
    plan, count = (each.plan(data.schema, terms(gaussian=gaussian)) for each in (task, task._by_pair))
    off = [abs(n - 2) for _ in range(60) for _, n in plan.run(data, ExactNoise()).value[0][1]]
    assert plan.predicted is not None
    assert count.predicted is not None
    assert sum(each <= plan.predicted.interval for each in off) / len(off) > 0.9
    assert sum(off) / len(off) <= plan.predicted.noise * 1.1
    twin = sum(each <= count.predicted.interval for each in off) / len(off)
    assert twin < 0.6


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        (pa.array([Decimal("1.50")] * 900), [Decimal("1.5")]),
        (pa.array([Decimal("2.00")] * 900), [2]),
        (pa.array([2.0] * 900), ["2"]),
        (pa.array([DAY] * 900), [DAY.isoformat()]),
        (pa.array([True] * 900), [True]),
    ],
    ids=["decimal", "whole", "text", "date", "boolean"],
)
def test_values_are_found_under_public_keys_however_they_are_written(column: Any, keys: list[Any]) -> None:
    data = read(pa.table({"user": list(range(900)), "land": column, "product": ["p"] * 900}))
    account = sy.open_account(":memory:", "a", unit=USER, **ASIDE)
    found = sy.Session(data, account).release(sy.TopK("product", k=2, mu=3, by="land", keys=keys, cap=2)).value
    assert list(found) == keys
    assert list(found[keys[0]]) == ["p"]


def test_by_key_the_noise_is_fed_what_the_counts_of_pairs_feed_it() -> None:
    for task in BY_KEY.values():
        one, two = (seen_in(each, TABLE, terms(gaussian=True, aside=True)) for each in (task, task._by_pair))
        assert one == two
        assert one


def test_the_first_values_and_histograms_of_values_are_asked_together_with_others() -> None:
    by: dict[str, Any] = {"by": "land", "max_keys": 2}
    parts: list[Any] = [
        sy.Count(mu=2, cap=9, **by),
        sy.TopK("product", k=2, mu=3, cap=6, **by),
        sy.Histogram("product", mu=3, cap=9, **by),
    ]
    account = sy.open_account(":memory:", "a", unit=USER, **ASIDE)
    session = sy.Session(TABLE, account)
    quoted = session.quote(sy.Together(parts))
    count, first, bars = (release := session.release(sy.Together(parts))).value
    assert account.spent == quoted
    assert quoted.amount <= sum(session.quote(each).amount for each in parts), "one search is paid for by all"
    assert set(count) == set(first) == {land for land, _ in bars} == {"a", "b"}
    assert list(first["a"]) == ["p0", "p1"]
    assert all(part["error"] for part in release.point["parts"])
    whole = sy.Together([sy.Count(epsilon=9, cap=9), TASK, sy.Histogram("product", epsilon=9, cap=9, values=["p0"])])
    pure = sy.Session(TABLE, sy.open_account(":memory:", "b", unit=USER, epsilon=99))
    assert pure.quote(whole) == Loss.pure(19)
    rows_, held, one = pure.release(whole).value
    assert rows_ == pytest.approx(len(HELD), rel=0.1)
    assert next(iter(held)) == next(iter(one)) == "p0"


def test_what_stands_under_a_key_that_was_not_shown_is_not_told() -> None:
    """Pairs have their own search: one may be shown whose key is not. A twin that tells them all is seen here."""
    from steelyard.bounding._together import Apart

    by: dict[str, Any] = {"by": "land", "max_keys": 2}
    apart = Apart.of(sy.TopK("product", k=2, mu=30, cap=6, **by), TABLE.schema, terms(gaussian=True, aside=True))
    shown = apart.groups.grouping.found(KeyList(["b"]))
    assert [key for key, _ in apart.told(shown, [], TABLE, NoNoise()).value] == ["b"]
    assert [key for key, _ in apart.plan.run(TABLE, NoNoise()).value] == ["a", "b"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sy.TopK("v", epsilon=1), "candidates"),
        (lambda: sy.TopK("v", epsilon=1, keys=["a"], max_keys=2), "candidates"),
        (lambda: sy.TopK("v", k=0, epsilon=1, keys=["a"]), "k must be"),
        (lambda: sy.TopK("v", epsilon=1, keys=list(range(2**14 + 1))), "at most 16,384"),
        (lambda: sy.Histogram("v", epsilon=1), "give edges"),
        (lambda: sy.Histogram("v", epsilon=1, edges=[0, 1], values=["a"]), "not both"),
        (lambda: sy.Histogram("v", epsilon=1, values=["a"], ranges=True), "no ranges"),
        (lambda: sy.Histogram("v", epsilon=1, values=["a"], by="k", max_keys=3), "public keys"),
        (lambda: sy.Histogram("v", epsilon=1, edges=["2025-01-01", 3]), "edges"),
        (lambda: sy.Histogram("v", epsilon=1, edges=["2025-02-01", "2025-01-01"]), "ascending"),
        (lambda: sy.Histogram("v", epsilon=1, edges=[dt.datetime(2025, 1, 1), DAY]), "edges"),
        (lambda: sy.Together([sy.Histogram("v", epsilon=1, values=["a"], others=True)]), "alone"),
        (lambda: sy.Together([sy.Count(epsilon=1, cap=1, by="k", keys=["x"]), TASK]), "same by"),
        (lambda: sy.TopK("v", epsilon=1, by="k", values=["a"], max_keys=2), "public keys="),
        (lambda: sy.TopK("v", epsilon=1, by="k"), "needs keys="),
        (lambda: sy.TopK("v", epsilon=1, by="k", keys=["x"], values=["a"]), "give cap="),
        (lambda: sy.TopK("v", epsilon=1, keys=["a"], cap=3), "no cap"),
        (lambda: sy.TopK("v", epsilon=1, keys=["a"], values=["b"]), "without by="),
        (lambda: sy.Within(sy.Histogram("v", values=["a"]), 3), "Count by them"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_written_down(make: Any, words: str) -> None:
    with pytest.raises(InvalidTask, match=words):
        make()


EDGES = ["2025-01-01", "2025-04-01", "2025-12-01", "2026-01-01"]


def test_dates_lie_between_edges_that_are_dates() -> None:
    task = sy.Histogram("day", epsilon=1, edges=EDGES, cap=999)
    outcome = task.plan(TABLE.schema, terms()).run(TABLE, NoNoise())
    days = [DAY + dt.timedelta(days=(7 * i) % 365) for i in range(len(HELD)) if i % 50]
    ends = [dt.date.fromisoformat(each) for each in EDGES]
    truth = [sum(a <= day < b for day in days) for a, b in pairwise(ends)]
    assert [row[2] for row in outcome.value] == truth
    assert outcome.value[0][:2] == EDGES[:2]
    release = sy.Session(TABLE, sy.open_account(":memory:", "a", unit=rows(), epsilon=2)).release(
        sy.Histogram("day", epsilon=1, edges=sy.months("2025-01", "2025-12"), by="land", keys=["a", "b"])
    )
    assert "2025-02-01 to 2025-03-01" in str(release)
    assert release.table.column("from").to_pylist()[0] == "2025-01-01"
    assert "2025-02-01" in release.chart().svg()


def test_odd_dates_are_in_no_bin_or_in_the_end_bins() -> None:
    odd = pa.array([None, 0, 2_932_896, 2_932_897, -719_163, 2**31 - 1, -(2**31), 20_000], pa.int32()).cast(pa.date32())
    data = read(pa.table({"user": list(range(8)), "day": odd}))
    value = sy.Histogram("day", epsilon=1, edges=EDGES, cap=1).plan(data.schema, terms()).run(data, NoNoise()).value
    assert 2 <= sum(row[2] for row in value) <= 8
    assert value[1][2] == 0


def test_edges_and_columns_of_different_kinds_are_refused_before_the_charge() -> None:
    for column, edges in (("day", [0, 1]), ("product", EDGES), ("user", EDGES)):
        with pytest.raises(InvalidTask, match="edges are dates"):
            sy.Histogram(column, epsilon=1, edges=edges, cap=1).plan(TABLE.schema, terms())
    with pytest.raises(TableError, match="string"):
        sy.Histogram("product", epsilon=1, edges=[0, 1], cap=1).plan(TABLE.schema, terms())


def test_a_histogram_of_values_is_a_count_by_them() -> None:
    keys: dict[str, Any] = {"by": "land", "keys": ["a", "b"]}
    task = sy.Histogram("product", epsilon=1, values=["p0", "p9"], cap=50, **keys)
    pairs = [(land, value) for land in "ab" for value in ("p0", "p9")]
    count = sy.Count(epsilon=1, cap=50, by=["land", "product"], keys=pairs)
    one, two = (seen_in(each, TABLE, terms()) for each in (task, count))
    assert one == two
    session = sy.Session(TABLE, sy.open_account(":memory:", "a", unit=USER, epsilon=9))
    assert session.release(task).value.keys() == set(pairs)
    plain = session.release(sy.Histogram("product", epsilon=1, values=["p0", "nobody"]))
    assert plain.title == "Histogram of product"
    assert math.isclose(plain.value["p0"], COUNTS["p0"], abs_tol=200)
    aside = sy.open_account(":memory:", "b", unit=USER, epsilon=4, delta="1e-6", additive_delta="1e-7")
    found = sy.Session(TABLE, aside).release(sy.Histogram("product", epsilon=4, cap=50, max_keys=6))
    assert "p0" in found.value


@pytest.mark.parametrize(
    "task",
    [
        TASK,
        sy.TopK(["land", "product"], epsilon=1, max_keys=3),
        sy.TopK("product", epsilon=1, by=["land", "day"], keys=[("a", DAY)], values=["p0"], cap=4),
        sy.TopK("product", epsilon=1, by="land", max_keys=4),
        sy.Histogram("day", epsilon=1, edges=EDGES),
        sy.Histogram("x", epsilon=1, edges=[0, "1/3"]),
        sy.Histogram("x", epsilon=1, values=["a"], by=["k", "l"], keys=[("x", 1)]),
        sy.Histogram("x", epsilon=1, max_keys=3, by="k"),
    ],
    ids=str,
)
def test_requests_come_back_as_they_were(task: Any) -> None:
    assert task_from(request_of(task)) == task


def test_a_gaussian_price_is_never_above_what_was_asked() -> None:
    session = sy.Session(TABLE, sy.open_account(":memory:", "a", unit=users("user"), epsilon=1, delta="1e-6"))
    cost, cap = session.quote(TASK).amount, session.account.terms.cap.amount
    assert 0.999 * cap < cost <= cap
