"""Sums and counts on accounts that hide a replaced user: the price of one removed and one added."""

from __future__ import annotations

import pytest

from steelyard.accounting._prices import price
from steelyard.bounding import Count, CountUsers, Sum
from steelyard.ledger import open_account
from steelyard.noise import TestNoise
from steelyard.privacy import Unit, users
from steelyard.session import Session
from steelyard.tables import read

TABLE = {"who": ["a", "a", "b", "c"] * 50, "amount": [3.0, 4.0, -1.0, 9.0] * 50}
TASKS = [Sum("amount", epsilon="1", cap=10, lower=-5), Count(epsilon="1", cap=4), CountUsers(epsilon="1")]


def _session(unit: Unit, **terms: str) -> Session:
    account = open_account(":memory:", "a", unit=unit, epsilon="2", **terms)
    return Session(read(TABLE), account, noise=TestNoise(1))


@pytest.mark.parametrize("terms", [{}, {"delta": "1e-6"}])
@pytest.mark.parametrize("task", TASKS, ids=["sum", "count", "users"])
def test_a_replaced_user_is_charged_as_one_removed_and_one_added(
    task: Sum | Count | CountUsers, terms: dict[str, str]
) -> None:
    replaced, added = _session(users("who", neighbours="replace", n=3), **terms), _session(users("who"), **terms)
    event = task.plan(read(TABLE).schema, replaced.account.terms).event
    once, asked = price(event, added.account.terms).amount, added.quote(task).amount
    cost = replaced.release(task).guarantee.spent.amount
    assert cost == (4 if terms else 2) * once  # mu counts in squares
    assert asked * 0.999 <= cost <= asked * 1.001


def test_the_same_epsilon_hides_a_replaced_user_under_twice_the_noise() -> None:
    widths = []
    for unit in (users("who", neighbours="replace", n=3), users("who")):
        error = _session(unit).release(Sum("amount", epsilon="1", cap=10, lower=-5)).error
        assert error is not None
        widths.append(error.interval)
    assert 1.8 <= widths[0] / widths[1] <= 2.3
