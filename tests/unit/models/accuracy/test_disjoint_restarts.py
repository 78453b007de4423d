"""A path with a check on other rows after crashes, with other targets, and on rows that changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from steelyard.desk import FAILED, Desk
from steelyard.documents import request_of
from steelyard.errors import TableError
from steelyard.ledger import Ledger
from steelyard.mechanisms import Gaussian, sigma_for
from steelyard.models._columns import SIZE
from steelyard.models.accuracy._family import CHECK, Step
from steelyard.models.accuracy._goal import Goal, Stop
from steelyard.models.accuracy._split import Split, TableRows, of_rows
from steelyard.models.accuracy._transcript import Transcript
from steelyard.noise import TestNoise
from steelyard.privacy import Event, Unit, rows, users
from steelyard.session import Session
from steelyard.tables import read
from unit.models.accuracy.disjoint_paths import SEARCH, SWAPPED, TABLE, N, X, Y, account, charged, reach, rises


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


def test_a_search_that_dies_between_two_looks_at_a_model_goes_on_with_the_looks_it_had_planned() -> None:
    def dies(stop: Stop) -> None:
        if stop.step == "look 0":
            raise Crash

    at = account(rows())
    with pytest.raises(Crash):
        Session(TABLE, at, noise=TestNoise(1)).open(SEARCH, key="k").reach_loss(0.02, 0.9, progress=dies)
    whole, again = (reach(each, 0.02).path for each in (account(rows()), at))
    planned = [(stop.step, stop.mu2) for stop in whole if stop.step == "look 1"]
    assert planned
    assert [(stop.step, stop.mu2) for stop in again if stop.step == "look 1"] == planned
    steps = [stop.step for stop in again]
    assert steps.index("look 1") == steps.index("look 0") + 1


GOAL = Goal("loss", 0.1, 0.9)


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
    assert Ledger(at.location).verify().ok, "steps count from each other, or from nothing"


def look(cost: int) -> Step:
    return Step("look", lambda: Gaussian(5, sigma_for(25, cost)), lambda noisy, part, noise: [0], part=CHECK)


def forked(kind: type[Transcript], name: str) -> tuple[int, dict[str, int], bool]:
    """Two processes stand at the same step, and both buy a look that the training part has paid for already."""
    at = account(rows(), name)
    desk = Desk(TABLE, TestNoise(1), at, "k", {"task": "t"})

    def made() -> Transcript:
        return kind(desk, SEARCH.reader(at.terms))

    level = Step("level", lambda: Gaussian(5, sigma_for(25, 10**6)), lambda noisy, part, noise: [0])
    made().buy(level, GOAL)
    first, second = made(), made()
    with pytest.MonkeyPatch.context() as patch:  # both are charged before either has an answer
        patch.setattr(Desk, "answer", lambda *_, **__: (_ for _ in ()).throw(Crash()))
        for each, cost in ((first, 900_000), (second, 800_000)):
            with pytest.raises(Crash):
                each.buy(look(cost), GOAL)
    return at.spent.amount, rises([event for event, _ in charged(at)]), Ledger(at.location).verify().ok


class Forgetful(Transcript):
    """The twin: a step whose number was taken is counted from where this process stood."""

    def _priced(self, step: Step, number: int) -> Event:
        return super()._priced(step, min(number, 1))


def test_two_processes_that_take_the_same_step_pay_for_both_and_a_shared_count_is_caught() -> None:
    spent, total, priced = forked(Transcript, "good")
    assert (spent >= max(total.values()) == 1_700_000, priced) == (True, True)
    spent, total, priced = forked(Forgetful, "twin")
    assert (spent < max(total.values()), priced) == (True, False)


# rows that changed


def changed(row: int) -> Any:
    """The table with one label corrected."""
    labels = Y.copy()
    labels[row] = -labels[row]
    return read({"x0": X[:, 0], "x1": X[:, 1], "y": labels, "id": np.arange(N), "who": np.arange(N) // 3})


@pytest.mark.parametrize("ids", [None, "id"])
def test_rows_that_changed_fail_a_step_that_is_paid_for_because_they_may_have_changed_parts(ids: str | None) -> None:
    at, search = account(rows()), replace(SEARCH, split=Split(ids=ids))
    first = Session(TABLE, at).open(search, key="k").reach_loss(0.05, 0.9)
    spent, texts = at.spent.amount, list[str]()
    for _ in range(2):
        with pytest.raises(TableError) as fault:
            Session(changed(0), at).open(search, key="k").reach_loss(0.015, 0.9)
        texts.append(str(fault.value))
        assert at.spent.amount > spent, "a comparison is part of a step that is paid for"
    assert texts == [FAILED, FAILED]
    again = Session(changed(0), at).open(search, key="k").reach_loss(0.05, 0.9)
    assert np.array_equal(np.asarray(again.model), np.asarray(first.model)), "what was answered before stays answered"


def goes_on(unit: Unit) -> bool:
    """Whether a path goes on along a table in which one label is another."""
    at = account(unit)
    reach(at, 0.05)
    walk = Session(changed(0), at, noise=TestNoise(2)).open(SEARCH, key="k")
    try:
        return bool(walk.reach_loss(0.02, 0.9).reason == "target_met")
    except TableError:
        return False


def test_where_both_parts_are_paid_for_a_table_may_change() -> None:
    assert goes_on(SWAPPED)


def test_a_level_that_looks_have_paid_for_is_not_drawn_from_another_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not goes_on(users("who"))
    monkeypatch.setattr(TableRows, "_sealed", lambda self, table, seal: "")  # the twin binds nothing
    assert goes_on(users("who"))


@pytest.mark.parametrize("moment", ["reading", "charging"])
def test_a_process_with_other_rows_does_not_go_on_from_a_step_it_did_not_take(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process takes step 0 on its rows while this one reads its own, or just before it charges."""
    at = account(rows())
    begun: list[bool] = []
    owner: Any = Split if moment == "reading" else Transcript
    name = "parts" if moment == "reading" else "buy"
    before = getattr(owner, name)

    def first(self: Any, *given: Any, **more: Any) -> Any:
        if not begun:
            begun.append(True)
            with pytest.raises(Stopped):
                Session(TABLE, at, noise=TestNoise(5)).open(SEARCH, key="k").reach_loss(0.03, 0.9, progress=stopped)
        return before(self, *given, **more)

    monkeypatch.setattr(owner, name, first)
    with pytest.raises(TableError, match="the rows changed under their division"):
        Session(changed(0), at, noise=TestNoise(6)).open(SEARCH, key="k").reach_loss(0.03, 0.9)
    assert reach(at, 0.03).reason == "target_met"
    desk = Desk(TABLE, TestNoise(1), at, "k", request_of(SEARCH))
    assert len({told.facts["snapshot"] for told in Transcript(desk, SEARCH.reader(at.terms)).told()}) == 1


Stopped = KeyboardInterrupt


def stopped(stop: Any) -> None:
    raise Stopped


def test_a_corrected_row_may_change_parts_which_is_why_tables_are_compared() -> None:
    x, y = np.rint(X * SIZE), np.rint(Y * SIZE)
    before, after = (Split().checks(of_rows(x, labels)) for labels in (y, -y))
    assert (before != after).any()
