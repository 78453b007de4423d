"""A look at rows the model has never seen: what a unit can move, and what is promised."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.models._columns import SIZE
from steelyard.models._rows import Target
from steelyard.models.accuracy._designs import MODEL_BITS, Design
from steelyard.models.accuracy._family import WHOLE
from steelyard.models.accuracy._held import SplitPart
from steelyard.models.accuracy._looks import Series
from steelyard.models.accuracy._losses import GRID, MARGIN, ClippedLoss, LoggedLoss, LossLook, looked
from steelyard.models.accuracy._quantiles import normal_quantile
from steelyard.models.accuracy._split import Split
from steelyard.noise import TestNoise
from steelyard.privacy import Neighbours, Unit, rows
from steelyard.session import Session
from steelyard.tables import read
from unit.models.accuracy.disjoint_paths import FEATURES, SEARCH, SWAPPED, TABLE, X, Y, account, reach

ADDED = Neighbours.ADD_REMOVE
points = st.lists(st.floats(-1, 1), min_size=3, max_size=3)
labels = st.sampled_from([-1.0, 1.0]) | st.floats(-1, 1)


def part(*given: tuple[list[float], float], owners: list[int] | None = None) -> SplitPart:
    x = np.array([row for row, _ in given]).reshape(-1, 3)
    x = np.trunc(x / np.maximum(np.linalg.norm(x, axis=1), 1.0)[:, None] * SIZE)
    y = np.rint(np.array([label for _, label in given]) * SIZE)
    return SplitPart(x, y, None if owners is None else np.array(owners, dtype=np.int64))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 45), st.lists(st.tuples(points, labels), min_size=1, max_size=4), st.booleans())
def test_a_unit_moves_the_statistics_no_further_than_is_said(
    vector: int, given_rows: list[tuple[list[float], float]], hidden: bool
) -> None:
    if not hidden:
        given_rows = given_rows[:1]
    whose = part(*given_rows, owners=[3] * len(given_rows) if hidden else None)
    other = part(([1.0, 1.0, -1.0], 1.0), owners=[4] if hidden else None)
    unit = SIZE * 2**10 if hidden else SIZE
    alone, replaced = (Design(unit, 3, vector, relation) for relation in (Neighbours.ADD_REMOVE, Neighbours.REPLACE))
    one, two = (alone.values(each.exact) for each in (whose, other))
    assert sum(int(v) ** 2 for v in one) <= alone.square
    assert sum(int(v) ** 2 for v in one - two) <= replaced.square
    assert alone.square <= replaced.square  # a replaced unit may also leave its part, or come into it


def test_half_the_distance_of_an_added_row_is_caught() -> None:
    design = Design(SIZE, 3, 20, ADDED)
    longest = design.values(part(([1.0, 0.0, 0.0], 1.0)).exact)
    assert design.square // 2 < sum(int(v) ** 2 for v in longest) <= design.square


def linear(model: list[float], target: float, reach: float = 1.0) -> ClippedLoss:
    return ClippedLoss(tuple(int(k * 2**MODEL_BITS) for k in model), target, int(reach * WHOLE), ADDED)


def logistic(model: list[float], target: float) -> LoggedLoss:
    return LoggedLoss(tuple(int(k * 2**GRID) for k in model), target, 3 << MARGIN, ADDED)


def classed(each: SplitPart) -> SplitPart:
    """The labels of a part as one of two classes, or none."""
    return SplitPart(each.x, np.sign(each.y) % 3, each.owners)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    st.sampled_from([1e-9, 0.01, 0.3, 0.9, 3.5]) | st.floats(1e-6, 4),
    st.lists(st.tuples(points, labels), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([0.0, 0.1, 1.0]),
)
def test_a_unit_moves_a_look_no_further_than_is_said(
    model: list[float], target: float, given_rows: list[tuple[list[float], float]], hidden: bool, clip: float
) -> None:
    classifier = clip == 0.0  # a ridge model clips somewhere
    look: LossLook = logistic(model, target) if classifier else linear(model, target, clip)
    if not hidden:
        given_rows = given_rows[:1]
    whose = part(*given_rows, owners=[3] * len(given_rows) if hidden else None)
    other = part(([-1.0, 1.0, -1.0], -1.0), owners=[4] if hidden else None)
    one, two = (look.value(classed(each) if classifier else each) for each in (whose, other))
    replaced = replace(look, neighbours=Neighbours.REPLACE, apart=True)
    assert max(abs(one), abs(two)) <= look.moves
    assert abs(one - two) <= replaced.moves
    assert look.moves <= replaced.moves
    assert look.value(part(*[], owners=[] if hidden else None)) == 0


@pytest.mark.parametrize(("model", "target", "label"), [([0.5, 0.0, 0.0], 0.05, -1.0), ([0.0, 0.0, 0.0], 0.9, 0.0)])
def test_a_look_that_forgets_one_side_of_the_target_is_caught(model: list[float], target: float, label: float) -> None:
    look = linear(model, target)
    moved = abs(look.value(part(([1.0, 0.0, 0.0], label))))
    sides = [look.most - look.allowed, look.allowed - look.least]
    assert min(sides) < moved <= max(sides) == look.moves


# what is promised


@pytest.mark.parametrize(("quantile", "caught"), [(True, False), (False, True)])
def test_a_model_just_above_the_target_passes_no_more_often_than_is_said(quantile: bool, caught: bool) -> None:
    check = Split().parts(TABLE, FEATURES, Target("y", -1, 1), rows()).check
    loss = linear([0.3, -0.2, 0.0], 0.5).losses(check) / 2**20 / check.units
    look, failure = linear([0.3, -0.2, 0.0], loss - 1e-6), 0.05
    moves = look.moves
    sums = Series(moves, check.units * look.allowed, 10**11, (), failure, once=True).next()
    assert sums is not None
    limit = sums[1] - check.units * look.allowed if quantile else 0.0
    step, noise = looked(look, sums[0], limit, 1), TestNoise(4)
    passed = np.mean([step.compute(check, noise)[0] <= limit for _ in range(2000)])
    assert bool(passed > failure + 4 * math.sqrt(failure / 2000)) is caught


@pytest.mark.parametrize("unit", [rows(), rows(neighbours="replace", n=600)])
@pytest.mark.parametrize("sure", [True, False])
def test_a_loss_that_no_model_has_is_promised_no_more_often_than_is_said(
    unit: Unit, sure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every promise of a loss below that of the best model for the check rows is broken; the twin's limit is on the wrong side."""
    table = read({"x0": X[:600, 0], "x1": X[:600, 1], "y": Y[:600]})
    check = Split().parts(table, FEATURES, Target("y", -1, 1), rows()).check
    best = np.linalg.lstsq(check.x, check.y, rcond=None)[1][0] / len(check.y) / SIZE**2
    if not sure:
        twin = lambda failure, *_: -3 * normal_quantile(failure)  # noqa: E731
        for quantile in ("joint_quantile", "normal_quantile"):
            monkeypatch.setattr(f"steelyard.models.accuracy._looks.{quantile}", twin)
    broken, runs = 0, 12
    for seed in range(runs):
        session = Session(table, account(unit), noise=TestNoise(seed))
        broken += session.open(SEARCH, key="k").reach_loss(0.99 * float(best), 0.5).reason == "target_met"
    assert (broken <= runs / 2) is sure


def test_the_predictions_that_are_handed_out_keep_the_promise_on_the_check_rows() -> None:
    check = Split().parts(TABLE, FEATURES, Target("y", -1, 1), rows()).check
    for seed, unit in enumerate((rows(), SWAPPED)):
        found = reach(account(unit, str(seed)), 0.015, seed)
        assert found.reason == "target_met"
        assert found.model is not None
        told = np.clip(check.x @ found.model / SIZE, -found.reach, found.reach)
        assert np.mean((check.y / SIZE - told) ** 2) <= 0.015 == found.bound


def test_a_check_part_with_no_rows_promises_nothing_that_is_false() -> None:
    table = read({"x0": np.empty(0), "x1": np.empty(0), "y": np.empty(0)})
    found = Session(table, account(rows()), noise=TestNoise(1)).open(SEARCH, key="k").reach_loss(0.02, 0.9)
    assert found.reason in ("cap_reached", "target_impossible", "target_met", "null_model_ok")
