"""The picture of a path with a check on other rows stands on what its account had paid, step by step."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from steelyard.charts._scales import short
from steelyard.ledger import Account
from steelyard.models.accuracy._chart import path_chart
from steelyard.models.accuracy._goal import Found
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO, Unit, rows, users
from steelyard.session import Session
from unit.models.accuracy.disjoint_paths import SEARCH, SWAPPED, TABLE, account

TARGET = 0.015


def walked(at: Account, target: float = TARGET) -> tuple[Found, list[int]]:
    """A path that was new, and what its account had spent after each step."""
    spent: list[int] = []
    tell: Any = lambda stop: spent.append(at.spent.amount)  # noqa: E731
    walk = Session(TABLE, at, noise=TestNoise(1)).open(SEARCH, key="k")
    return walk.reach_loss(target, 0.9, progress=tell), spent


def drawn_at(mu: float) -> str:
    """How a picture tells that a look at this price passed."""
    return f"passed a paid look: {short(TARGET)} at {short(mu)}"


@pytest.mark.parametrize("unit", [rows(), SWAPPED, users("who")])
def test_every_step_says_what_the_account_had_paid_by_then_and_is_drawn_there(unit: Unit) -> None:
    at = account(unit)
    found, spent = walked(at)
    assert found.reason == "target_met"
    assert [round((stop.paid or 0) * MICRO**2) for stop in found.path] == spent
    assert [stop.to_json()["paid"] for stop in found.path] == [stop.paid for stop in found.path]
    assert drawn_at(math.sqrt(at.spent.amount) / MICRO) in path_chart(found.path, TARGET).description


def test_adding_up_the_costs_of_both_parts_where_the_dearer_one_is_paid_is_caught() -> None:
    at = account(rows())
    found, _ = walked(at)
    added = [replace(stop, paid=None) for stop in found.path]
    assert drawn_at(math.sqrt(at.spent.amount) / MICRO) not in path_chart(added, TARGET).description


def test_a_path_that_is_read_back_is_drawn_where_it_was() -> None:
    at = account(rows())
    found, spent = walked(at)
    again, nothing = walked(at)
    assert nothing == []
    assert again.path == found.path
    tighter, more = walked(at, 0.013)
    paid = [round((stop.paid or 0) * MICRO**2) for stop in tighter.path]
    assert paid[-len(more) :] == more
    assert paid == sorted(paid)
    assert more[0] > spent[-1]


def test_the_look_that_passed_is_not_hidden_by_the_end_of_the_target() -> None:
    found, _ = walked(account(rows()))
    drawn = path_chart(found.path, TARGET).svg()
    assert drawn.rindex("<title>passed a paid look: ") > drawn.rindex("<title>target: ")
