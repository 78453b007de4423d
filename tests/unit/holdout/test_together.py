"""Holdouts that share a ledger with others, a process with threads, or a lock that was lost: nothing is paid for twice."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import postgres
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._questions import PAID
from steelyard.holdout._record import HoldoutEntry, Record
from steelyard.ledger import _connection as connection
from steelyard.ledger import open_account
from steelyard.ledger._lock import DatabaseLock
from steelyard.privacy import Loss, rows
from steelyard.privacy import holdout as of_holdout

N = 10_000
LABELS = np.random.default_rng(0).integers(0, 2, N).astype(bool)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    return str(tmp_path / "b.db")


def guessed(seed: int) -> Any:
    return np.random.default_rng([1, seed]).integers(0, 2, N).astype(bool)


def paid(holdout: Holdout) -> int:
    mode: Any = holdout._mode
    return int(mode._learnt(holdout._record).paid)


def while_scoring(holdout: Holdout, act: Callable[[], object]) -> None:
    judge: Any = holdout._judge
    score = judge.total

    def total(read: Any) -> int:
        act()
        return int(score(read))

    vars(judge)["total"] = total


def test_what_others_write_on_the_ledger_costs_a_check_nothing(ledger: str) -> None:
    holdout, other = Holdout(LABELS, ledger=ledger, name="h"), open_account(ledger, "other", unit=rows(), epsilon=1)
    keys = iter(range(100))

    def charge() -> None:
        other.charge(Loss.pure("0.001"), key=f"k{next(keys)}", request=b"").store(b"1")

    while_scoring(holdout, charge)
    assert [holdout.check(guessed(seed), guess=0.9).kind for seed in range(3)] == ["paid"] * 3
    assert paid(holdout) == 3


def test_names_with_a_slash_do_not_share_a_lock(ledger: str) -> None:
    first = Holdout(LABELS, account=open_account(ledger, "a/b", unit=of_holdout("c"), nats=20))
    second = Holdout(~LABELS, account=open_account(ledger, "a", unit=of_holdout("b/c"), nats=20))
    child = os.fork()
    if child == 0:
        while_scoring(first, lambda: os.kill(os.getpid(), signal.SIGKILL))
        first.check(guessed(1), guess=0.9)
    os.waitpid(child, 0)
    assert second.check(guessed(2), guess=0.5).kind == "free"
    assert first.check(guessed(3), guess=0.5).kind == "free"
    assert (paid(first), paid(second)) == (1, 0), "one pays for the death in the other"


def test_what_is_left_is_told_while_another_asks(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WAIT", 0.05)
    holdout, other = (Holdout(LABELS, ledger=ledger, name="h") for _ in range(2))
    told: list[str] = []
    while_scoring(other, lambda: told.append(f"{holdout.forecast()} {other.forecast()} {holdout}"))
    assert other.check(guessed(1), guess=0.9).kind == "paid"
    assert len(told) == 1


def test_a_child_forked_while_another_thread_asks_can_ask(ledger: str) -> None:
    holdout, forked = Holdout(LABELS, ledger=ledger, name="h"), threading.Event()
    with_lock = threading.Event()

    def hold() -> None:
        with holdout._lock:
            with_lock.set()
            forked.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    with_lock.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(7 if holdout.check(guessed(1), guess=0.5).kind == "free" else 1)
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_surprise_that_another_forfeits_after_a_lost_lock_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    place = postgres.new_database()
    first, second = (Holdout(LABELS, ledger=place, name="h") for _ in range(2))
    add, lost = Record.add, list[str]()

    def add_late(self: Record, kind: str, *rest: Any) -> HoldoutEntry | None:
        if self is first._record and kind == PAID and not lost:
            connect = second._record._ledger._store.connect
            own = DatabaseLock("another", "another", connect)  # as if the server had let go of the lock
            monkeypatch.setattr(second._record, "lock", lambda: own)
            lost.append(second.check(guessed(7), guess=0.5).kind)
        return add(self, kind, *rest)

    monkeypatch.setattr(Record, "add", add_late)
    told = first.check(guessed(1), guess=0.9)
    assert (told.kind, lost) == ("paid", ["free"])
    assert paid(first) == 2, "the surprise that was lost, and the one that was told"
    assert first.check(guessed(1), guess=0.9) == told
