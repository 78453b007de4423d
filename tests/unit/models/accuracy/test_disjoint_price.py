"""What a path with a check on other rows costs: its dearer part, or both where a row may change parts."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from steelyard.accounting import disjoint, price
from steelyard.mechanisms._observe import observing
from steelyard.models._columns import SIZE, Features, Plain
from steelyard.models._rows import Target
from steelyard.models.accuracy._designs import Design
from steelyard.models.accuracy._family import PARTS, Step
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._losses import ClippedLoss, looked
from steelyard.models.accuracy._split import Ids, Parts, Split
from steelyard.models.accuracy._transcript import Transcript
from steelyard.noise import TestNoise
from steelyard.privacy import Event, Neighbours, rows
from steelyard.tables import read
from unit.models.accuracy.disjoint_paths import (
    FEATURES,
    SWAPPED,
    TABLE,
    N,
    X,
    Y,
    account,
    charged,
    mu_squared,
    reach,
    rises,
)


@pytest.mark.parametrize("target", [0.2, 0.03, 0.018])
def test_where_a_row_is_added_or_removed_a_path_costs_its_dearer_part_to_the_last_unit(target: float) -> None:
    at = account(rows())
    found = reach(at, target)
    assert found.reason in ("target_met", "null_model_ok")
    steps = charged(at)
    total = rises([event for event, _ in steps])
    free, top = 0, 0
    for k in range(len(steps)):
        reached = max(rises([event for event, _ in steps[: k + 1]]).values())
        free, top = free + (reached == top), reached
    assert at.spent.amount == found.spent == max(total.values()) + free
    assert min(total.values()) > 0


@pytest.mark.parametrize("target", [0.03, 0.018])
def test_where_a_row_is_replaced_a_path_costs_both_parts(target: float) -> None:
    at = account(SWAPPED)
    found = reach(at, target)
    steps = charged(at)
    assert {event.name for event, _ in steps} == {"gaussian"}
    assert {event.neighbours for event, _ in steps} == {Neighbours.REPLACE}
    assert at.spent.amount == found.spent == sum(math.ceil(mu_squared(event) * 10**12) for event, _ in steps)
    looks = [stop for stop in found.path if stop.passed is not None]
    assert 0 < sum(round(look.mu2 * 10**12) for look in looks) < found.spent


def test_a_row_that_changes_part_is_told_apart_by_both_so_that_the_dearer_part_is_too_little() -> None:
    """The exact likelihood ratio: a sum of normal shifts, which only the price of both parts covers."""
    split, cost = Split(ids="id"), 10**10
    ids = {bool(checks): i for i, checks in enumerate(split.checks(Ids.read(pa.array(range(20)), 20).codes))}
    look = ClippedLoss((0,), 0.1, neighbours=Neighbours.ADD_REMOVE)
    design = Design(SIZE, 1, 32, Neighbours.ADD_REMOVE)
    before = split.parts(read({"x": [1.0, 0.5], "id": [ids[False], 99]}), *tiny(), rows())
    after = split.parts(read({"x": [1.0, 0.5], "id": [ids[True], 99]}), *tiny(), rows())
    level, seen = design.step(cost), looked(look, cost, 0.0, 1)
    coarse = design.coarse(cost)
    moved = design.values(before.train.exact, coarse) - design.values(after.train.exact, coarse)
    shift = sum(int(v) ** 2 for v in moved) / level.sigma**2
    shift += Fraction(look.value(after.check) - look.value(before.check)) ** 2 / sigma(seen.event) ** 2
    first = disjoint(level.event, "train", dict.fromkeys(PARTS, 0))
    second = disjoint(seen.event, "check", {"train": cost, "check": 0})
    added, swapped = account(rows()).terms, account(SWAPPED, "s").terms
    dearer = sum(price(event, added).amount for event in (first, second))
    assert dearer == cost + 1
    assert shift * 10**12 > 1.9 * dearer  # the twin: the dearer part, where a row may change parts
    assert shift * 10**12 <= sum(price(event, swapped).amount for event in (first, second))
    swap = Neighbours.REPLACE
    replaced = Design(SIZE, 1, 32, swap).step(cost), looked(replace(look, neighbours=swap, apart=True), cost, 0.0, 1)
    assert sum(price(step.event, swapped).amount for step in replaced) == 2 * cost


def tiny() -> tuple[Features, Target]:
    return Features([Plain("x")], "clip", "0.9999", intercept=False), Target("x", -1, 1)


def sigma(event: Event) -> Fraction:
    return Fraction(int(str(event.parameters["sigma_numerator"])), int(str(event.parameters["sigma_denominator"])))


def told_apart(steps: list[Step], one: Parts, other: Parts) -> dict[str, Fraction]:
    """By how much the steps of a path tell two tables apart, given their answers: the sum of squared shifts over sigma."""
    found = dict.fromkeys(PARTS, Fraction(0))
    for step in steps:
        seen = []
        for parts in (one, other):
            with observing() as window:
                step.compute(parts.train if step.part == "train" else parts.check, TestNoise(1))
            seen.append([int(value) for value in window[0].values])
        moved = sum((a - b) ** 2 for a, b in zip(*seen, strict=True))
        found[step.part] += moved / sigma(step.event) ** 2
    return found


def by_position(self: Split, codes: Any) -> Any:
    """The twin: every other row checks, wherever it stands."""
    return np.arange(len(codes)) % 2 == 1


@pytest.mark.parametrize("split", [Split.checks, by_position])
def test_a_whole_path_tells_a_removed_row_apart_by_no_more_than_it_was_charged(
    split: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exact likelihood ratio of a transcript is normal with this variance, for each row that may be removed."""
    steps: list[Step] = []
    buy = Transcript.buy

    def kept(self: Transcript, step: Step, goal: Goal) -> Any:
        steps.append(step)
        return buy(self, step, goal)

    monkeypatch.setattr(Transcript, "buy", kept)
    monkeypatch.setattr(Split, "checks", split)
    at, label = account(rows()), Target("y", -1, 1)
    assert reach(at, 0.02).reason == "target_met"
    columns = {"x0": X[:, 0], "x1": X[:, 1], "y": Y}
    whole = Split().parts(TABLE, FEATURES, label, rows())
    spread = []
    for gone in (0, 1, 2, 3, 1500, N - 1):
        without = read({name: np.delete(values, gone) for name, values in columns.items()})
        spread.append(told_apart(steps, whole, Split().parts(without, FEATURES, label, rows())))
    covered = all(sum(each.values()) * 10**12 <= at.spent.amount for each in spread)
    alone = all(min(each.values()) == 0 < max(each.values()) for each in spread)
    assert covered is alone is (split is not by_position)
