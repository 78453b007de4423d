"""Pure ridge paths that die, are asked by two at once, or find other rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.desk import FAILED, Desk
from steelyard.documents import request_of
from steelyard.errors import BudgetExceeded, KeyConflict, TableError
from steelyard.ledger import Account, Ledger
from steelyard.mechanisms import AboveThreshold
from steelyard.models.accuracy import _watch as watches
from steelyard.models.accuracy._goal import Goal, share_of
from steelyard.models.accuracy._transcript import Kept, Transcript
from steelyard.models.accuracy._watch import QUESTIONS, Watch
from steelyard.noise import ExactNoise, TestNoise
from steelyard.privacy import MICRO
from steelyard.session import Session
from steelyard.tables import read
from unit.models.accuracy.pure_paths import SEARCH, X, Y, account, table

Stopped = KeyboardInterrupt
GOAL = Goal("loss", 0.04, 0.9)


def interrupted(at: Account, monkeypatch: pytest.MonkeyPatch, levels: int) -> None:
    """A walk that dies when so many levels are drawn."""
    rise = Transcript.rise

    def dying(self: Transcript, *given: Any) -> Any:
        if len(self._path) >= levels:
            raise Stopped
        return rise(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Transcript, "rise", dying)
        with pytest.raises(Stopped):
            Session(table(), at).open(SEARCH, key="k").reach_loss(0.004, 0.9)


def test_after_a_restart_levels_are_read_back_and_a_new_watch_is_bought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(account(tmp_path / "budget.db"), monkeypatch, 2)
    at = Account(tmp_path / "budget.db", "pure")
    before, (dead,) = at.spent.amount, kept(at)
    found = Session(table(), at).open(SEARCH, key="k").reach_loss(0.004, 0.9)
    levels = [stop for stop in found.path if stop.step.startswith("level")]
    assert len(levels) >= 2
    assert len(dead.told) == 4
    bought = [stop for stop in found.path if stop.step.startswith("watch")]
    assert [stop.step for stop in bought] == ["watch 0", "watch 1"]
    first, second = kept(at)
    assert first == dead
    assert second.micro > dead.micro  # it has less of the failure probability left
    assert at.spent.amount == found.spent == dead.micro + second.micro + round(levels[-1].mu2 * MICRO)
    assert at.spent.amount > before
    assert Ledger(at.location).verify().ok, "raised levels are priced again"
    again = Session(table(), Account(tmp_path / "budget.db", "pure")).open(SEARCH, key="k").reach_loss(0.004, 0.9)
    if found.reason == "target_met":
        assert np.array_equal(again.model, found.model)  # type: ignore[arg-type]
        assert again.spent == found.spent == at.spent.amount


def desk(at: Account) -> Desk:
    return Desk(table(), ExactNoise() if at.durable else TestNoise(1), at, "k", request_of(SEARCH))


def transcript(at: Account) -> Transcript:
    return Transcript(desk(at), SEARCH.reader(at.terms))


def kept(at: Account) -> list[Kept]:
    return transcript(at).watches


def watching(at: Account) -> watches.Watching:
    """A watch that is bought here."""
    facts = {"goal": GOAL.name, "levels": 0}
    return watches.Watching(desk(at), lambda index: Watch.of(50.0, GOAL.failure * share_of(index)), 0, facts)


def hopeless(rows: Any) -> int:
    """A model that leaves no room at all."""
    return -(10**15)


def test_a_watch_that_somebody_else_holds_is_passed_over_and_paid_for_anew() -> None:
    at = account()
    one = watching(at)
    two = watching(at)
    assert (one.index, two.index) == (0, 1)
    assert at.spent.amount == one.watch.micro + two.watch.micro
    assert not one.ask(hopeless, {"model": [], "level": 0})
    assert [len(each.told) for each in kept(at)] == [2, 1]


def test_two_questions_at_one_moment_never_share_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another question comes between the charge of the first watch and its threshold."""
    at = account(epsilon=10**4)
    others: list[Any] = []
    start = AboveThreshold.start

    def between(self: AboveThreshold, *given: Any) -> Any:
        if not others:
            others.append(None)
            others[0] = Session(table(), at, noise=TestNoise(3)).open(SEARCH, key="k").reach_loss(0.05, 0.9)
        return start(self, *given)

    monkeypatch.setattr(AboveThreshold, "start", between)
    walk = Session(table(), at, noise=TestNoise(4)).open(SEARCH, key="k")
    with pytest.raises(KeyConflict, match="at the same time"):  # its next level was taken meanwhile
        walk.reach_loss(0.04, 0.9)
    assert walk.reach_loss(0.04, 0.9).reason == "target_met"
    bought = kept(at)
    assert [each.index for each in bought] == list(range(len(bought)))
    assert bought[0].goal != bought[1].goal
    paid = at.spent.amount
    again = Session(table(), at, noise=TestNoise(5)).open(SEARCH, key="k").reach_loss(0.05, 0.9)
    assert again.reason == others[0].reason == "target_met"
    assert at.spent.amount == paid == again.spent


def test_integers_that_are_not_those_of_the_first_level_are_never_refined(tmp_path: Path) -> None:
    """The file changes under the key of its path."""
    file, at = tmp_path / "t.parquet", account(epsilon=10**6)

    def write(labels: Any) -> None:
        pq.write_table(pa.table({"x0": X[:, 0], "x1": X[:, 1], "y": labels}), file)

    def change(stop: Any) -> None:
        if stop.step.startswith("question about no"):
            write(-Y)
        if stop.step.startswith("level 0"):
            raise Stopped

    write(Y)
    with pytest.raises(Stopped):
        Session(read(file), at, noise=TestNoise(1)).open(SEARCH, key="k").reach_excess(0.003, 0.9, progress=change)
    with pytest.raises(TableError, match="the rows changed under"):
        Session(read(file), at, noise=TestNoise(2)).open(SEARCH, key="k").reach_excess(0.003, 0.9)


def in_a_child(action: Callable[[], object]) -> str:
    """What a forked child's attempt ends with: the name of an error, or nothing."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            action()
        except BaseException as error:
            os.write(writing, type(error).__name__.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    return os.read(reading, 100).decode()


def test_a_forked_child_neither_asks_a_watch_nor_spoils_a_question_of_its_parent(tmp_path: Path) -> None:
    one = watching(account(tmp_path / "budget.db"))
    assert not one.ask(hopeless, {})
    assert in_a_child(lambda: one.ask(hopeless, {})) == "KeyConflict"
    assert not one.ask(hopeless, {})


def test_a_child_that_is_let_through_to_the_desk_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: the mechanism refuses the child, the desk keeps that as a failure, and the parent's question has failed."""
    one = watching(account(tmp_path / "budget.db"))
    pid = os.getpid

    def through() -> None:
        one._process = pid()
        one.ask(hopeless, {})

    assert in_a_child(through) == "TableError"
    with pytest.raises(TableError):
        one.ask(hopeless, {})


def test_a_watch_answers_no_more_than_its_confidence_is_for() -> None:
    one = watching(account())
    for _ in range(QUESTIONS):
        one.ask(hopeless, {})
    with pytest.raises(BudgetExceeded):
        one.ask(hopeless, {})


def test_a_path_that_was_paid_for_and_never_drawn_is_bought_again() -> None:
    at = account()
    desk(at).charge(Watch.of(3.0, 0.09).mechanism.event, "watch 0")
    wasted = at.spent.amount
    found = Session(table(), at, noise=TestNoise(1)).open(SEARCH, key="k").reach_loss(0.04, 0.9)
    assert found.reason == "target_met"
    assert at.spent.amount == found.spent + wasted
    again = Session(table(), at, noise=TestNoise(2)).open(SEARCH, key="k").reach_loss(0.04, 0.9)
    assert at.spent.amount == again.spent + wasted
    assert again.path == found.path


def fails(at: Account) -> bool:
    """Whether other rows fail in the hands of a level that is paid for, and refine nothing."""
    before, other = len(levels(at)), Y.copy()
    other[5] += 0.01
    spent, told = at.spent.amount, ""
    try:
        Session(table(other), at).open(SEARCH, key="k").reach_loss(0.004, 0.9)
    except TableError as fault:
        told = str(fault)
    return told == FAILED and at.spent.amount > spent and len(levels(at)) == before


def levels(at: Account) -> list[Any]:
    return [told for told in transcript(at).told() if told.kind == "level"]


def test_other_rows_fail_after_their_level_was_charged() -> None:
    at = account()
    Session(table(), at).open(SEARCH, key="k").reach_loss(0.04, 0.9)
    assert fails(at)
    with pytest.raises(KeyConflict):
        Session(table(), at, noise=TestNoise(1)).open(replace(SEARCH, penalty=Fraction(1)), key="k").reach_loss(
            0.02, 0.9
        )


def test_a_path_that_does_not_compare_its_integers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    at = account()
    Session(table(), at).open(SEARCH, key="k").reach_loss(0.04, 0.9)
    monkeypatch.setattr("steelyard.models.accuracy._transcript.hmac.compare_digest", lambda *_: True)
    assert not fails(at)
