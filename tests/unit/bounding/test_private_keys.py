"""Totals by keys that are found in the rows: accuracy, exact price with its delta, refusals, and what may slip."""

from __future__ import annotations

import datetime
import math
import statistics
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from steelyard.accounting._gaussian import mu_request
from steelyard.bounding import Count, CountUsers, Sum
from steelyard.bounding._amounts import Spend
from steelyard.bounding._private_keys import PrivateKeys
from steelyard.errors import CurrencyMismatch, InvalidTask, NeighbourMismatch
from steelyard.ledger import open_account
from steelyard.mechanisms import KeyThreshold
from steelyard.noise import ExactNoise
from steelyard.privacy import rows, users
from steelyard.session import Session
from steelyard.tables import Capped, Limits, Quantity, read
from unit.bounding.remembered import USER, Remembered, distance, seen_in, terms

COMMON = ["de", "fr", "it"]
ROWS = [(u, COMMON[(u + i) % 3], 1.0 + u % 4) for u in range(600) for i in range(2)]
ROWS += [(u, "rare", 9.0) for u in (3, 3, 3, 3, 5)]
DATA: dict[str, list[Any]] = {"user": [], "k": [], "x": []}
for user, key, value in ROWS:
    DATA["user"].append(user)
    DATA["k"].append(key)
    DATA["x"].append(value)
TABLE = read(DATA)
MINE = terms(gaussian=True, aside=True)
NOISE, DRAWS = ExactNoise(), 250


def asked(**more: Any) -> dict[str, Any]:
    return {"epsilon": 1, "by": "k", "max_keys": 4, **more}


@pytest.mark.parametrize(
    ("task", "truth"),
    [
        (Sum("x", **asked(cap=30)), lambda key: sum(x for _, k, x in ROWS if k == key)),
        (Count(**asked(cap=30)), lambda key: sum(k == key for _, k, _ in ROWS)),
        (CountUsers(**asked()), lambda key: len({u for u, k, _ in ROWS if k == key})),
    ],
    ids=["sum", "count", "users"],
)
def test_common_keys_are_found_with_the_noise_that_was_predicted(task: Any, truth: Any) -> None:
    known: Any = Remembered(TABLE)
    plan = task.plan(TABLE.schema, MINE)
    found = [plan.run(TABLE, NOISE), *[plan.run(known, NOISE) for _ in range(DRAWS - 1)]]
    error = plan.predicted
    for key in COMMON:
        values = [plan.present(each.value)[key] for each in found]
        assert abs(statistics.fmean(values) - truth(key)) < 5 * 1.3 * error.noise / math.sqrt(DRAWS)
        assert 0.8 < statistics.fmean(abs(value - truth(key)) for value in values) / error.noise < 1.2
        assert 0.9 < sum(abs(value - truth(key)) <= error.interval + 0.5 for value in values) / DRAWS < 0.99
    assert all(list(plan.present(each.value)) == COMMON for each in found)


def test_a_private_cap_and_private_keys_share_one_price() -> None:
    task = Sum("x", **asked(upper=1000))
    known: Any = Remembered(TABLE)
    plan = task.plan(TABLE.schema, MINE)
    values = [plan.present(plan.run(known, NOISE).value)["fr"] for _ in range(30)]
    truth = sum(x for _, k, x in ROWS if k == "fr")
    assert abs(statistics.median(values) / truth - 1) < 0.2


def account(**more: Any) -> Any:
    arguments: dict[str, Any] = {"unit": users("user"), "epsilon": 2, "delta": "2e-6", "additive_delta": "1e-6"}
    return open_account(":memory:", "a", **{**arguments, **more})


@pytest.mark.parametrize(
    "task", [Sum("x", **asked(cap=30)), Sum("x", **asked(upper=30)), Count(**asked(cap=3)), CountUsers(**asked())]
)
def test_the_price_is_what_was_asked_and_a_tenth_of_what_was_set_aside(task: Any) -> None:
    session = Session(TABLE, account())
    quoted = session.quote(task)
    allowed = mu_request(Fraction(1), session.account.terms.filter_delta)
    assert quoted.delta == 10**11
    assert allowed**2 - 4 * allowed < quoted.amount <= allowed**2  # shares of mu are rounded down to a micro
    session.release(task)
    assert session.account.spent == quoted


def test_after_ten_searches_nothing_is_left_of_what_was_set_aside() -> None:
    from steelyard.errors import BudgetExceeded

    session = Session(TABLE, account())
    for _ in range(10):
        session.release(CountUsers(mu="0.001", by="k", max_keys=4))
    with pytest.raises(BudgetExceeded):
        session.release(CountUsers(mu="0.001", by="k", max_keys=4))


def test_accounts_that_cannot_pay_for_a_slip_are_refused_with_the_way_out() -> None:
    for mine in (terms(), terms(gaussian=True)):
        for task in (Sum("x", **asked(cap=3)), CountUsers(**asked())):
            with pytest.raises(CurrencyMismatch, match=r"keys=\[\.\.\.\].*additive_delta"):
                task.plan(TABLE.schema, mine)
    replaced = account(unit=rows(neighbours="replace", n=10))
    with pytest.raises(NeighbourMismatch, match="doubled"):
        Session(TABLE, replaced).quote(Count(**asked()))


def test_without_max_keys_the_message_says_both_ways_out() -> None:
    with pytest.raises(InvalidTask, match=r"keys=\[\.\.\.\].*max_keys="):
        Sum("x", epsilon=1, cap=3, by="k")
    with pytest.raises(InvalidTask, match="max_keys="):
        CountUsers(epsilon=1, by="k")


def test_one_user_moves_counts_and_totals_by_no_more_than_was_paid_for() -> None:
    base = [(u, COMMON[i], 1.0) for u in range(3) for i in range(3)]
    extra = [(9, COMMON[i % 3], value) for i, value in enumerate([1e308, -1e308, math.nan, math.inf, 5.0, 7.0] * 9)]
    for task in (Sum("x", **asked(max_keys=3, cap=4)), CountUsers(**asked(max_keys=3))):
        fed = []
        for data in (base, base + extra):
            table = read(dict(zip(("user", "k", "x"), map(list, zip(*data, strict=True)), strict=True)))
            fed.append(seen_in(task, Everything(table), MINE))
        for less, more in zip(*fed, strict=True):
            assert less.event == more.event
            assert distance(less.event, less.values, more.values) <= 1


class Everything:
    """Makes every key frequent, so that all of them are shown and totals can be compared key by key."""

    def __init__(self, table: Any) -> None:
        self._table, self.schema = table, table.schema

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def found_sums_by_key(self, *arguments: Any) -> dict[Any, tuple[int, list[int]]]:
        found: dict[Any, tuple[int, list[int]]] = self._table.found_sums_by_key(*arguments)
        return {key: (units + 10**6, sums) for key, (units, sums) in found.items()}


def test_units_are_counted_and_not_their_rows() -> None:
    lone = read({"user": [1] * 500, "k": ["only"] * 500})
    found = lone.found_sums_by_key(USER, [Capped(Quantity(None), 10)], "k", Limits(max_keys=1))
    assert found == {"only": (1, [10])}
    plan, known = CountUsers(**asked()).plan(lone.schema, MINE), Remembered(lone)
    assert all(plan.run(known, NOISE).value == [] for _ in range(200))  # type: ignore[arg-type]


KEYED: dict[str, list[Any]] = {
    "date": [datetime.date(2026, 1, 2)],
    "decimal": [Decimal("1.50")],
    "infinite": [math.inf],
    "whole": [7],
    "truth": [True],
}


@pytest.mark.parametrize("kind", KEYED)
def test_keys_of_every_kind_can_be_stored_and_delivered(kind: str) -> None:
    table = read({"user": list(range(300)), "k": KEYED[kind] * 300})
    session = Session(table, account())
    (shown,) = session.release(CountUsers(**asked())).value
    assert str(shown) == str(KEYED[kind][0])
    (shown,) = session.release(Count(**asked(cap=1))).value
    assert str(shown) == str(KEYED[kind][0])


def test_the_plan_of_a_search_is_the_mechanism_that_runs() -> None:
    spend = Spend.read(1, None, MINE)
    plan = PrivateKeys.plan(("k",), 4, spend, MINE)
    assert plan.threshold == KeyThreshold(4, plan.threshold.sigma, Fraction(1, 10**7), plan.threshold.least)
    assert math.ceil(plan.threshold.counts.mu_squared * 10**12) == spend.micro**2
