"""Checks that end in an error or a death: each one that could tell a surprise is counted, and three twins that forget."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import postgres
from steelyard.errors import LedgerError, LedgerLocked
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._questions import PAID, Counter
from steelyard.holdout._record import HoldoutEntry, Record
from steelyard.ledger import Ledger
from steelyard.ledger import _connection as connection
from steelyard.ledger import _lock as lock
from unit.holdout.twins import Thrifty

N = 20_000
LABELS = np.random.default_rng(0).integers(0, 2, N).astype(bool)
ROUNDS = 8


class Dead(BaseException):
    """The process ends here."""


@pytest.fixture(params=["certified", "ladder"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    return str(tmp_path / "b.db")


def opened(ledger: str, mode: str = "certified") -> Holdout:
    options: dict[str, Any] = {"start": "0.6", "steps": 100} if mode == "ladder" else {}
    return Holdout(LABELS, tolerance=0.1, mode=mode, ledger=ledger, name="h", **options)


def counter_of(holdout: Holdout) -> Counter:
    found: Counter = holdout._mode._count(holdout._record)  # type: ignore[attr-defined]
    found.follow()
    return found


def surprising(seed: int, mode: str = "certified") -> tuple[Any, Fraction | None]:
    """Predictions, all different, whose answer is a surprise as long as no earlier one was stored."""
    share = np.random.default_rng(seed).random(N)
    return LABELS ^ (share > 0.8), None if mode == "ladder" else Fraction(1, 2)


def ask(holdout: Holdout, seed: int, mode: str = "certified") -> str:
    return holdout.check(*surprising(seed, mode)).kind


def dying(where: str, monkeypatch: pytest.MonkeyPatch, how: type[BaseException]) -> None:
    """Let the charge or the claim of a surprise end in ``how``."""
    add, claim = Record.add, Record.claim

    def no_add(self: Record, kind: str, *rest: Any) -> HoldoutEntry | None:
        if kind == PAID:
            raise how
        return add(self, kind, *rest)

    def no_claim(self: Record, entry: HoldoutEntry, content: Mapping[str, Any]) -> Mapping[str, Any]:
        if "question" in content:
            raise how
        return claim(self, entry, content)

    monkeypatch.setattr(Record, "add", no_add if where == "charge" else add)
    monkeypatch.setattr(Record, "claim", no_claim if where == "claim" else claim)


def uncounted(open_one: Callable[[], Holdout], where: str, how: type[BaseException], mode: str) -> int:
    """How many surprises were told by an error and not charged before another question was answered."""
    told = 0
    for seed in range(ROUNDS):
        with pytest.MonkeyPatch.context() as patch:
            dying(where, patch, how)
            try:
                kind = ask(open_one(), seed, mode)
                assert kind == "refused"
            except how:
                told += 1
        harmless = LABELS ^ (np.random.default_rng(1000 + seed).random(N) > 0.5)
        assert open_one().check(harmless, Fraction(1, 2)).kind in ("free", "refused")
    assert told >= 3
    return told - counter_of(open_one()).paid


@pytest.mark.parametrize("where", ["charge", "claim"])
@pytest.mark.parametrize("how", [LedgerLocked, Dead])
def test_a_surprise_that_ends_in_an_error_is_counted_before_the_next_answer(
    where: str, how: type[BaseException], mode: str, ledger: str
) -> None:
    assert uncounted(lambda: opened(ledger, mode), where, how, mode) == 0


@pytest.mark.parametrize("where", ["charge", "claim"])
def test_one_handle_that_goes_on_after_errors_counts_them_too(where: str, mode: str) -> None:
    holdout = opened(":memory:", mode)
    assert uncounted(lambda: holdout, where, LedgerLocked, mode) == 0


@pytest.mark.parametrize("where", ["charge", "claim"])
def test_a_surprise_lost_on_postgresql_is_counted_without_any_mark(
    where: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    place = postgres.new_database()
    assert uncounted(lambda: opened(place), where, Dead, "certified") == 0


# --- twins ---------------------------------------------------------------------------------------------------------


def test_a_holdout_that_reuses_an_unclaimed_surprise_is_caught(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.holdout._questions.Counter", Thrifty)
    assert uncounted(lambda: opened(ledger), "claim", Dead, "certified") > 0


def test_a_holdout_without_a_mark_is_caught(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock.FileLock, "mark", lambda self, number: None)
    assert uncounted(lambda: opened(ledger), "charge", Dead, "certified") > 0


def test_a_holdout_that_clears_its_mark_when_it_fails_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def give(self: lock.Lock) -> None:
        self.clear()

    monkeypatch.setattr(lock.Lock, "_give", give)
    holdout = opened(":memory:")
    assert uncounted(lambda: holdout, "charge", LedgerLocked, "certified") > 0


# --- deaths, turns and boots ---------------------------------------------------------------------------------------


def die_in_flight(ledger: str) -> None:
    """A child takes a number and is killed while it scores."""
    child = os.fork()
    if child == 0:
        holdout = opened(ledger)
        holdout._judge.total = lambda read: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,return-value]
        ask(holdout, 99_999)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_a_process_killed_while_it_scores_costs_one_surprise(ledger: str) -> None:
    first = opened(ledger)
    assert ask(first, 0) == "paid"
    die_in_flight(ledger)
    assert counter_of(first).paid == 1, "nothing is charged by looking"
    assert first.check(LABELS, 1).kind == "free"
    assert first.check(~LABELS, 0).kind == "free"
    assert counter_of(first).paid == 2
    assert Ledger(ledger).verify().ok


def test_a_debt_that_cannot_be_paid_closes_the_holdout(ledger: str) -> None:
    holdout = opened(ledger)
    seeds = iter(range(10_000))
    while holdout.forecast() > 1:
        ask(holdout, next(seeds))
    assert not counter_of(holdout).closed
    die_in_flight(ledger)
    assert holdout.check(LABELS, 1).kind == "refused"
    assert counter_of(holdout).closed


def test_nobody_asks_while_another_is_being_answered(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = opened(ledger), opened(ledger)
    second.check(LABELS, 1)
    monkeypatch.setattr(connection, "WAIT", 0.05)
    asked = counter_of(second).asked
    with counter_of(first).locked(), pytest.raises(LedgerLocked, match="nothing was asked"):
        second.check(~LABELS, 0)
    assert counter_of(second).asked == asked
    assert second.check(~LABELS, 0).kind == "free"


def test_a_child_does_not_inherit_its_parents_lock(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WAIT", 0.05)
    holdout = opened(ledger)
    with counter_of(holdout).locked():
        child = os.fork()
        if child == 0:
            try:
                opened(ledger).check(LABELS, 1)
            except LedgerLocked:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def restarted(ledger: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The surprises after the machine was started again and one more question was asked."""
    monkeypatch.setattr(lock, "_boot_id", lambda: "another boot")
    for path in Path(ledger).parent.glob("*.lock"):
        path.unlink()
    child = os.fork()
    if child == 0:
        holdout = opened(ledger)
        for seed in range(3):
            assert holdout.check(LABELS ^ (np.arange(N) < seed), 1).kind == "free"
        os._exit(counter_of(holdout).paid)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_after_a_power_cut_a_block_that_was_not_left_costs_one_surprise(ledger: str, monkeypatch: Any) -> None:
    opened(ledger).check(~LABELS, 0)
    assert restarted(ledger, monkeypatch) == 1


def test_after_a_power_cut_a_block_that_was_left_costs_nothing(ledger: str, monkeypatch: Any) -> None:
    with opened(ledger) as holdout:
        holdout.check(~LABELS, 0)
    assert restarted(ledger, monkeypatch) == 0


def test_a_process_that_ends_in_order_leaves_its_block(ledger: str, monkeypatch: Any) -> None:
    program = (
        "import numpy as np; from unit.holdout.test_crash_counting import *; "
        f"kept = opened({ledger!r}); print(kept.check(~LABELS, 0).kind)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.strip() == "free", done.stderr
    assert done.stderr == ""
    assert restarted(ledger, monkeypatch) == 0


def test_where_the_machine_has_no_boot_id_every_outcome_is_stored(ledger: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(lock, "_boot_id", lambda: None)
    assert uncounted(lambda: opened(ledger), "charge", Dead, "certified") == 0
    counter = counter_of(opened(ledger))
    assert all(entry.kind != "block" for entry in counter._record.entries)


def test_a_turn_file_that_cannot_be_opened_stops_the_question(ledger: str, monkeypatch: Any) -> None:
    holdout = opened(ledger)
    monkeypatch.setattr(holdout._record.lock(), "_path", Path(ledger) / "turn")
    with pytest.raises(LedgerError, match="cannot be opened: Not a directory"):
        holdout.check(LABELS, 1)
