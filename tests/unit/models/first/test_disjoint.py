"""A check on rows the model has never seen: what it costs, what it promises, and what a unit can move."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.accounting.prices import PARTS, disjoint, price
from steelyard.bounding.amounts import sigma_for
from steelyard.desk import Desk
from steelyard.errors import CurrencyMismatch, InvalidTask, TableError, UnitMismatch
from steelyard.ledger import Account, Ledger, open_account
from steelyard.mechanisms import Gaussian, observing
from steelyard.models.columns import SIZE, Features, Plain
from steelyard.models.first.disjoint import DisjointSearch
from steelyard.models.first.disjoint_linear import LinearLook, OwnDesign
from steelyard.models.first.disjoint_logistic import DisjointLogistic, LogisticLook
from steelyard.models.first.disjoint_parts import Ids, Part, Parts, Split, of_rows
from steelyard.models.first.disjoint_steps import Look, Purse, Step
from steelyard.models.first.estimator import AccuracyFirst
from steelyard.models.first.looking import Series
from steelyard.models.first.losses import GRID, MARGIN
from steelyard.models.first.models import MODEL_BITS
from steelyard.models.first.outcome import Found
from steelyard.models.first.quantiles import normal_quantile
from steelyard.models.first.ridge_path import WHOLE
from steelyard.models.linear import FitLinear
from steelyard.models.linear_regression import LinearRegression
from steelyard.models.logistic_regression import LogisticRegression
from steelyard.models.rows import Target
from steelyard.noise import TestNoise
from steelyard.privacy import Event, Neighbours, Unit, rows, users
from steelyard.release import Outcome, request_of
from steelyard.session import Session
from steelyard.tables import read

N = 3000
DRAWS = np.random.default_rng(11)
X = DRAWS.uniform(-0.6, 0.6, (N, 2))
Y = np.clip(X @ [0.7, -0.5] + 0.1 * DRAWS.standard_normal(N), -1, 1)
TABLE = read({"x0": X[:, 0], "x1": X[:, 1], "y": Y, "id": np.arange(N), "who": np.arange(N) // 3})
FEATURES = Features([Plain("x0"), Plain("x1")], "clip", 1)
SEARCH = DisjointSearch(FEATURES, Target("y", -1, 1), Fraction(1, 1000))
SWAPPED = rows(neighbours="replace", n=N)
SWAP = Neighbours.REPLACE
RELATIONS = (Neighbours.ADD_REMOVE, SWAP)


def account(unit: Unit, name: str = "a") -> Account:
    return open_account(":memory:", name, unit=unit, epsilon=30, delta="1e-6")


def reach(at: Account, target: float, seed: int = 1, search: Any = SEARCH, key: str = "k") -> Found:
    found: Found = Session(TABLE, at, noise=TestNoise(seed)).open(search, key=key).reach_loss(target, 0.9)
    return found


def charged(at: Account) -> list[tuple[Event, int]]:
    """Every charge on the account, drawn or not: what was done and what it cost."""
    entries = [entry for entry in Ledger(at.location).entries() if entry.kind == "charge" and entry.account == at.name]
    return [(Event.from_json(json.loads(entry.detail)), entry.amount) for entry in entries]


def rises(events: list[Event]) -> dict[str, int]:
    """What the steps cost each part, by their own noise: recomputed by whoever audits the ledger."""
    total = dict.fromkeys(PARTS, 0)
    for event in events:
        inner = Event.from_json(json.loads(str(event.parameters["events"]))[0])
        part = next(name for name in PARTS if event.parameters[f"{name}_after"] != event.parameters[f"{name}_before"])
        total[part] += math.ceil(_mu_squared(inner) * 10**12)
    return total


def _mu_squared(event: Event) -> Fraction:
    given = {name: Fraction(str(value)) for name, value in event.parameters.items()}
    square = given["sensitivity"] ** 2 if "sensitivity" in given else given["sensitivity_squared"]
    return square * (given["sigma_denominator"] / given["sigma_numerator"]) ** 2


# what it costs


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
    assert at.spent.amount == found.spent == sum(math.ceil(_mu_squared(event) * 10**12) for event, _ in steps)
    looks = [stop for stop in found.path if stop.passed is not None]
    assert 0 < sum(round(look.mu2 * 10**12) for look in looks) < found.spent


def test_a_row_that_changes_part_is_told_apart_by_both_so_that_the_dearer_part_is_too_little() -> None:
    """The exact likelihood ratio: a sum of normal shifts, which only the price of both parts covers."""
    split, cost = Split(ids="id"), 10**10
    ids = {bool(checks): i for i, checks in enumerate(split.checks(Ids.read(pa.array(range(20)), 20).codes))}
    look = LinearLook((0,), 0.1)
    design = OwnDesign(SIZE, 1, 32)
    before = split.parts(read({"x": [1.0, 0.5], "id": [ids[False], 99]}), *_tiny())
    after = split.parts(read({"x": [1.0, 0.5], "id": [ids[True], 99]}), *_tiny())
    level, looked = design.step(cost), look.step(cost, 0.0, Neighbours.ADD_REMOVE, "t")
    coarse = design.coarse(cost)
    moved = design.values(before.train.exact, coarse) - design.values(after.train.exact, coarse)
    shift = sum(int(v) ** 2 for v in moved) / level.sigma**2
    shift += Fraction(look.value(after.check) - look.value(before.check)) ** 2 / _sigma(looked.event) ** 2
    first = disjoint(level.event, "train", dict.fromkeys(PARTS, 0))
    second = disjoint(looked.event, "check", {"train": cost, "check": 0})
    added, swapped = account(rows()).terms, account(SWAPPED, "s").terms
    dearer = sum(price(event, added).amount for event in (first, second))
    assert dearer == cost + 1
    assert shift * 10**12 > 1.9 * dearer  # the twin: the dearer part, where a row may change parts
    assert shift * 10**12 <= sum(price(event, swapped).amount for event in (first, second))
    replaced = OwnDesign(SIZE, 1, 32, Neighbours.REPLACE).step(cost).event, look.step(cost, 0.0, SWAP, "t").event
    assert sum(price(event, swapped).amount for event in replaced) == 2 * cost


def _tiny() -> tuple[Features, Target]:
    return Features([Plain("x")], "clip", "0.9999", intercept=False), Target("x", -1, 1)


def _sigma(event: Event) -> Fraction:
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
        found[step.part] += moved / _sigma(step.event) ** 2
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
    buy = Purse.buy

    def kept(self: Purse, step: Step, compute: Any) -> Any:
        steps.append(step)
        return buy(self, step, compute)

    monkeypatch.setattr(Purse, "buy", kept)
    monkeypatch.setattr(Split, "checks", split)
    at, label = account(rows()), Target("y", -1, 1)
    assert reach(at, 0.02).reason == "target_met"
    columns = {"x0": X[:, 0], "x1": X[:, 1], "y": Y}
    whole = Split().parts(TABLE, FEATURES, label)
    spread = []
    for gone in (0, 1, 2, 3, 1500, N - 1):
        without = read({name: np.delete(values, gone) for name, values in columns.items()})
        spread.append(told_apart(steps, whole, Split().parts(without, FEATURES, label)))
    covered = all(sum(each.values()) * 10**12 <= at.spent.amount for each in spread)
    alone = all(min(each.values()) == 0 < max(each.values()) for each in spread)
    assert covered is alone is (split is not by_position)


# what one unit moves

points = st.lists(st.floats(-1, 1), min_size=3, max_size=3)
labels = st.sampled_from([-1.0, 1.0]) | st.floats(-1, 1)


def part(*given: tuple[list[float], float], owners: list[int] | None = None) -> Part:
    x = np.array([row for row, _ in given]).reshape(-1, 3)
    x = np.trunc(x / np.maximum(np.linalg.norm(x, axis=1), 1.0)[:, None] * SIZE)
    y = np.rint(np.array([label for _, label in given]) * SIZE)
    return Part(x, y, None if owners is None else np.array(owners, dtype=np.int64))


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
    alone, replaced = (OwnDesign(unit, 3, vector, relation) for relation in RELATIONS)
    one, two = (alone.values(each.exact) for each in (whose, other))
    assert sum(int(v) ** 2 for v in one) <= alone.square
    assert sum(int(v) ** 2 for v in one - two) <= replaced.square
    assert alone.square <= replaced.square  # a replaced unit may also leave its part, or come into it


def test_half_the_distance_of_an_added_row_is_caught() -> None:
    design = OwnDesign(SIZE, 3, 20)
    longest = design.values(part(([1.0, 0.0, 0.0], 1.0)).exact)
    assert design.square // 2 < sum(int(v) ** 2 for v in longest) <= design.square


def linear(model: list[float], target: float, reach: float = 1.0) -> LinearLook:
    return LinearLook(tuple(int(k * 2**MODEL_BITS) for k in model), target, int(reach * WHOLE))


def logistic(model: list[float], target: float) -> LogisticLook:
    return LogisticLook(tuple(int(k * 2**GRID) for k in model), target, 3 << MARGIN)


def classed(each: Part) -> Part:
    """The labels of a part as one of two classes, or none."""
    return Part(each.x, np.sign(each.y) % 3, each.owners)


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
    look: Look = logistic(model, target) if classifier else linear(model, target, clip)
    if not hidden:
        given_rows = given_rows[:1]
    whose = part(*given_rows, owners=[3] * len(given_rows) if hidden else None)
    other = part(([-1.0, 1.0, -1.0], -1.0), owners=[4] if hidden else None)
    one, two = (look.value(classed(each) if classifier else each) for each in (whose, other))
    assert max(abs(one), abs(two)) <= look.moves(Neighbours.ADD_REMOVE)
    assert abs(one - two) <= look.moves(Neighbours.REPLACE)
    assert look.moves(Neighbours.ADD_REMOVE) <= look.moves(Neighbours.REPLACE)
    assert look.value(part(*[], owners=[] if hidden else None)) == 0


@pytest.mark.parametrize(("model", "target", "label"), [([0.5, 0.0, 0.0], 0.05, -1.0), ([0.0, 0.0, 0.0], 0.9, 0.0)])
def test_a_look_that_forgets_one_side_of_the_target_is_caught(model: list[float], target: float, label: float) -> None:
    look = linear(model, target)
    moved = abs(look.value(part(([1.0, 0.0, 0.0], label))))
    sides = [look.most - look.allowed, look.allowed - look.least]
    assert min(sides) < moved <= max(sides) == look.moves(Neighbours.ADD_REMOVE)


# what is promised


@pytest.mark.parametrize(("quantile", "caught"), [(True, False), (False, True)])
def test_a_model_just_above_the_target_passes_no_more_often_than_is_said(quantile: bool, caught: bool) -> None:
    check = Split().parts(TABLE, FEATURES, Target("y", -1, 1)).check
    loss = linear([0.3, -0.2, 0.0], 0.5).losses(check) / 2**20 / check.units
    look, failure = linear([0.3, -0.2, 0.0], loss - 1e-6), 0.05
    moves = look.moves(Neighbours.ADD_REMOVE)
    sums = Series(moves, check.units * look.allowed, 10**11, (), failure, once=True).next()
    assert sums is not None
    limit = sums[1] - check.units * look.allowed if quantile else 0.0
    step, noise = look.step(sums[0], limit, Neighbours.ADD_REMOVE, "t"), TestNoise(4)
    passed = np.mean([step.compute(check, noise)[0] <= limit for _ in range(2000)])
    assert bool(passed > failure + 4 * math.sqrt(failure / 2000)) is caught


@pytest.mark.parametrize("unit", [rows(), rows(neighbours="replace", n=600)])
@pytest.mark.parametrize("sure", [True, False])
def test_a_loss_that_no_model_has_is_promised_no_more_often_than_is_said(
    unit: Unit, sure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every promise of a loss below that of the best model for the check rows is broken; the twin's limit is on the wrong side."""
    table = read({"x0": X[:600, 0], "x1": X[:600, 1], "y": Y[:600]})
    check = Split().parts(table, FEATURES, Target("y", -1, 1)).check
    best = np.linalg.lstsq(check.x, check.y, rcond=None)[1][0] / len(check.y) / SIZE**2
    if not sure:
        twin = lambda failure, *_: -normal_quantile(failure)  # noqa: E731
        monkeypatch.setattr("steelyard.models.first.looking.joint_quantile", twin)
    broken, runs = 0, 12
    for seed in range(runs):
        session = Session(table, account(unit), noise=TestNoise(seed))
        broken += session.open(SEARCH, key="k").reach_loss(0.99 * float(best), 0.5).reason == "target_met"
    assert (broken <= runs / 2) is sure


def test_the_predictions_that_are_handed_out_keep_the_promise_on_the_check_rows() -> None:
    check = Split().parts(TABLE, FEATURES, Target("y", -1, 1)).check
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


# crashes, restarts and other targets


def test_a_path_is_read_back_and_goes_on_to_a_tighter_target() -> None:
    for unit in (SWAPPED, rows()):
        at = account(unit)
        one = reach(at, 0.03)
        paid = at.spent.amount
        again = reach(at, 0.03, seed=9)
        assert again.path == one.path
        assert np.array_equal(np.asarray(again.model), np.asarray(one.model))
        assert at.spent.amount == paid == again.spent
        tighter = reach(at, 0.015, seed=2)
        assert tighter.reason == "target_met"
        assert at.spent.amount == tighter.spent > paid
        assert reach(at, 0.03, seed=5).spent == at.spent.amount
    total = rises([event for event, _ in charged(at)])
    assert max(total.values()) <= at.spent.amount < sum(total.values())


class Crash(BaseException):
    """The process dies."""


@pytest.mark.parametrize("after", ["charge", "store"])
def test_a_path_that_dies_again_and_again_is_never_paid_too_little(after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at, answer = account(rows(), after), Desk.answer
    last, dying = [3], [True]

    def dies(self: Desk, *given: Any, **more: Any) -> Any:
        last[0] -= 1
        if dying[0] and last[0] < 0 and after == "charge":
            raise Crash
        found = answer(self, *given, **more)
        if dying[0] and last[0] < 0:
            raise Crash
        return found

    monkeypatch.setattr(Desk, "answer", dies)
    for life in range(12):  # a new target in each life, so that a step without an answer is asked for otherwise
        last[0] = life % 4
        try:
            reach(at, 0.06 - 0.002 * life, seed=life, key="k")
        except Crash:
            continue
    dying[0] = False
    assert reach(at, 0.035, seed=77).reason == "target_met"
    events = [event for event, _ in charged(at)]
    assert max(rises(events).values()) <= at.spent.amount


def steps(cost: int) -> Step:
    noisy = Gaussian(5, sigma_for(25, cost))
    return Step("check", "look", noisy.event, lambda part, noise: [0])


def forked(purse: type[Purse], name: str) -> tuple[int, dict[str, int]]:
    """Two processes stand at the same step, and both buy a look that the training part has paid for already."""
    at = account(rows(), name)
    desk = Desk(TABLE, TestNoise(1), at, "k", {"task": "t"})

    def facts(part: str, cost: int) -> Any:
        return lambda table, noise: Outcome(["0"], None, {"part": part, "cost": cost, "step": "look"})

    first, second = purse(desk), purse(desk)
    level = Step("train", "level", Gaussian(5, sigma_for(25, 10**6)).event, lambda part, noise: [0])
    first.buy(level, facts("train", 10**6))
    second.read()
    for each, cost in ((first, 900_000), (second, 800_000)):
        each._bought(steps(cost))
    return at.spent.amount, rises([event for event, _ in charged(at)])


class Forgetful(Purse):
    """The twin: a step whose name was taken is counted from where this process stood."""

    def _bought(self, step: Step) -> Any:
        if step.part == "train":
            return super()._bought(step)
        event = disjoint(step.event, step.part, self._before)
        return self._desk.charge(event, f"step {self._count} by {id(self)}"), event


def test_two_processes_that_take_the_same_step_pay_for_both_and_a_shared_count_is_caught() -> None:
    spent, total = forked(Purse, "good")
    assert spent >= max(total.values()) == 1_700_000
    spent, total = forked(Forgetful, "twin")
    assert spent < max(total.values())


# what is offered


def test_arrays_are_divided_too_and_the_certificate_says_which_rows_it_is_about() -> None:
    ridge = LinearRegression(x_bound=1, y_bounds=(-1, 1))
    for whose in (None, np.arange(N) // 2):
        first = AccuracyFirst(ridge, target_loss=0.03, check="disjoint", epsilon=20, noise=TestNoise(3))
        first.fit(X, Y, users=whose)
        assert first.stopped_reason_ == "target_met"
        assert "check rows that the model has not seen" in str(first.certificate_)
        assert first.account_.terms.unit.neighbours is Neighbours.ADD_REMOVE
        assert first.account_.spent.amount == first.spent_
        assert "n is secret" in first.note_
        assert first.resume(X, Y, users=whose, target_loss=0.02).stopped_reason_ == "target_met"


@pytest.mark.parametrize("whose", [None, np.arange(N) // 2])
def test_classifiers_are_checked_on_rows_they_have_not_seen(whose: Any) -> None:
    classes = (Y > 0).astype(int)
    model = LogisticRegression(classes=[0, 1], x_bound=1, norm="clip")
    first = AccuracyFirst(model, target_loss=0.6, check="disjoint", epsilon=30, noise=TestNoise(3))
    first.fit(X, classes, users=whose)
    assert first.stopped_reason_ == "target_met"
    assert "log loss on check rows" in str(first.certificate_)
    table = read({"x0": X[:, 0], "x1": X[:, 1], "y": classes, "user": np.arange(N) if whose is None else whose})
    labels, split = DisjointLogistic(FEATURES, "y", (0, 1), Fraction(1, 1000)).labels(), Split()
    check = (split if whose is None else Split(ids="user", users=True)).parts(table, FEATURES, labels).check
    cap = first.model_.margin
    assert cap is not None
    odds = np.clip(check.x @ np.array(first.model_.theta) / SIZE, -cap, cap)
    margins = odds * np.where(check.y == 2, 1, -1)
    assert np.mean(np.logaddexp(0, -margins)) <= 0.6


@pytest.mark.parametrize("unit", [rows(), SWAPPED, users("who"), users("who", neighbours="replace", n=N // 3)])
def test_tasks_on_a_session_are_divided_by_an_id_that_is_named(unit: Unit) -> None:
    at = account(unit, str(unit))
    task = FitLinear(FEATURES, "y", -1, 1, epsilon="1")
    first = AccuracyFirst(task, target_loss=0.03, check="disjoint")
    ids = "id" if unit.kind == "rows" else None
    first.release(Session(TABLE, at, noise=TestNoise(1)), key="k", ids=ids)
    assert first.stopped_reason_ == "target_met"
    assert at.spent.amount == first.spent_
    assert ("every user" in str(first.certificate_)) is (unit.kind == "users")


def changed(row: int) -> Any:
    """The table with one label corrected."""
    labels = Y.copy()
    labels[row] = -labels[row]
    return read({"x0": X[:, 0], "x1": X[:, 1], "y": labels, "id": np.arange(N), "who": np.arange(N) // 3})


@pytest.mark.parametrize("ids", [None, "id"])
def test_rows_that_changed_are_refused_before_a_charge_because_they_may_have_changed_parts(ids: str | None) -> None:
    at, search = account(rows()), replace(SEARCH, ids=ids)
    reach(at, 0.05, search=search)
    spent = at.spent.amount
    with pytest.raises(TableError, match="no longer, those that this path began with"):
        Session(changed(0), at, noise=TestNoise(2)).open(search, key="k").reach_loss(0.015, 0.9)
    assert at.spent.amount == spent
    assert reach(at, 0.015, search=search).reason == "target_met"


@pytest.mark.parametrize("unit", [users("who"), SWAPPED])
def test_where_a_changed_row_stays_in_its_part_or_both_are_paid_a_table_may_change(unit: Unit) -> None:
    at = account(unit)
    reach(at, 0.05)
    walk = Session(changed(0), at, noise=TestNoise(2)).open(SEARCH, key="k")
    assert walk.reach_loss(0.02, 0.9).reason == "target_met"


@pytest.mark.parametrize("moment", ["reading", "charging"])
def test_a_process_with_other_rows_does_not_go_on_from_a_step_it_did_not_take(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process takes step 0 on its rows while this one reads its own, or just before it charges."""
    at = account(rows())
    begun: list[bool] = []
    owner: Any = Split if moment == "reading" else Purse
    name = "parts" if moment == "reading" else "buy"
    before = getattr(owner, name)

    def first(self: Any, *given: Any) -> Any:
        if not begun:
            begun.append(True)
            with pytest.raises(Stopped):
                Session(TABLE, at, noise=TestNoise(5)).open(SEARCH, key="k").reach_loss(0.03, 0.9, progress=stopped)
        return before(self, *given)

    monkeypatch.setattr(owner, name, first)
    with pytest.raises(TableError, match="those that this path began with"):
        Session(changed(0), at, noise=TestNoise(6)).open(SEARCH, key="k").reach_loss(0.03, 0.9)
    assert reach(at, 0.03).reason == "target_met"
    kept, snapshots = Purse(Desk(TABLE, TestNoise(1), at, "k", request_of(SEARCH))), set()
    while (release := kept.read()) is not None:
        snapshots.add(release.point["snapshot"])
    assert len(snapshots) == 1


Stopped = KeyboardInterrupt


def stopped(stop: Any) -> None:
    raise Stopped


def test_a_corrected_row_may_change_parts_which_is_why_tables_are_compared() -> None:
    x, y = np.rint(X * SIZE), np.rint(Y * SIZE)
    before, after = (Split().checks(of_rows(x, labels)) for labels in (y, -y))
    assert (before != after).any()


def test_what_makes_no_sense_is_refused_before_anything_is_charged() -> None:
    ridge = LinearRegression(x_bound=1, y_bounds=(-1, 1))
    with pytest.raises(InvalidTask, match="know nothing of that one"):
        AccuracyFirst(ridge, excess_loss=0.1, check="disjoint").fit(X, Y)
    pure = open_account(":memory:", "pure", unit=rows(), epsilon=1)
    with pytest.raises(CurrencyMismatch):
        reach(pure, 0.1)
    with pytest.raises(InvalidTask, match="between 0 and 1"):
        reach(account(rows()), 0.1, search=DisjointSearch(FEATURES, Target("y", -1, 1), Fraction(1, 9), Fraction(1)))
    search = DisjointSearch(FEATURES, Target("y", -1, 1), Fraction(1, 9), ids="id")
    with pytest.raises(UnitMismatch, match="their own ids"):
        reach(account(users("who")), 0.1, search=search)
    first = AccuracyFirst(FitLinear(FEATURES, "y", -1, 1, epsilon="1"), target_loss=0.1)
    with pytest.raises(InvalidTask, match="leave it out"):
        first.release(Session(TABLE, account(SWAPPED)), ids="id")
    assert pure.spent.amount == 0


def test_a_loss_that_the_middle_has_on_every_row_is_free_and_one_that_nobody_has_ends() -> None:
    at = account(rows())
    assert reach(at, 1.0).reason == "null_model_ok"
    assert at.spent.amount == 0
    found = reach(at, 0.002)
    assert found.reason in ("cap_reached", "target_impossible")
    assert found.bound == math.inf
