"""One protocol, two stores: a holdout keeps its budget on a file and on PostgreSQL alike."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import postgres
from steelyard.errors import LedgerError, UnitMismatch
from steelyard.holdout._holdout import Holdout
from steelyard.ledger import Ledger
from steelyard.ledger._anchor import FileAnchor

N = 10_000
LABELS = np.random.default_rng(0).integers(0, 2, N).astype(bool)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    return str(tmp_path / "budget.db") if request.param == "sqlite" else postgres.new_database()


def guessed(seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 2, N).astype(bool)


def test_free_and_paid_answers_outlive_the_holdout_that_gave_them(place: str) -> None:
    with Holdout(LABELS, ledger=place, name="spring") as first:
        answers = [first.check(guessed(1), guess=0.5), first.check(guessed(2), guess=0.9), first.check(guessed(3))]
    assert [answer.kind for answer in answers] == ["free", "paid", "paid"]
    spent = first.account.spent
    again = Holdout(LABELS, ledger=place, name="spring")
    assert [again.check(guessed(1), guess=0.5), again.check(guessed(2), guess=0.9), again.check(guessed(3))] == answers
    assert again.account.spent == spent
    assert Ledger(place).verify().ok
    with pytest.raises(UnitMismatch, match="other labels"):
        Holdout(~LABELS, ledger=place, name="spring")


def test_two_handles_share_one_budget_and_never_a_question_number(place: str) -> None:
    handles = [Holdout(LABELS, ledger=place, name="spring") for _ in range(2)]
    promised, kinds = handles[0].forecast(), []
    for seed in range(60):
        kinds.append(handles[seed % 2].check(guessed(seed), guess=0.9 if seed % 4 == 0 else 0.5).kind)
    assert 1 <= kinds.count("paid") <= promised
    assert kinds[-1] == "refused"
    assert [each.check(guessed(99), guess=0.5).kind for each in handles] == ["refused", "refused"]


@pytest.mark.parametrize("guess", [0.5, 0.9])
def test_a_handle_asks_what_others_were_told_before_it_takes_a_number(place: str, guess: float) -> None:
    first, second = (Holdout(LABELS, ledger=place, name="spring") for _ in range(2))
    assert second.forecast() >= 1
    told = first.check(guessed(1), guess=guess)
    first.flush()
    spent = first.account.spent
    assert second.check(guessed(1), guess=guess) == told
    assert second.account.spent == spent, "a number was taken"


def test_nothing_is_told_that_a_glance_of_another_process_would_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holdout = Holdout(LABELS, ledger=tmp_path / "b.db", name="spring")

    def full(*_: Any) -> Any:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(FileAnchor, "write", full)  # the charge is durable; only the anchor lags
        with pytest.raises(LedgerError, match="anchor could not be written"):
            holdout.check(guessed(1))
    assert holdout.check(guessed(1)).kind == "paid"


def test_an_entry_that_comes_while_others_are_read_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (Holdout(LABELS, ledger=tmp_path / "b.db", name="spring") for _ in range(2))
    record, find, late = second._record, second._record._find, list[Any]()

    def slowly(number: int) -> Any:
        found = find(number)
        if found is None and not late:
            late.append(first.check(guessed(1)))  # after this handle looked, and before it is done
        return found

    monkeypatch.setattr(record, "_find", slowly)
    record.refresh()
    assert not record.current()
    assert second.check(guessed(1)) == late[0]


def free_at_first(guess: float) -> bool:
    return Holdout(LABELS).check(guessed(1), guess=guess).kind == "free"


def test_a_paid_answer_stands_where_another_was_told_that_the_guess_holds(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    first, second = (Holdout(LABELS, ledger=tmp_path / "b.db", name="spring") for _ in range(2))
    edge = max(guess / 1000 for guess in range(500, 560) if free_at_first(guess / 1000))
    assert first.check(guessed(1), guess=edge).kind == "free"  # known to this handle alone until it is flushed
    assert second.check(guessed(2), guess=0.9).kind == "paid"
    told = second.check(guessed(1), guess=edge)
    assert told.kind == "paid"
    first.flush()
    asked = [first, second, Holdout(LABELS, ledger=tmp_path / "b.db", name="spring")]
    assert [each.check(guessed(1), guess=edge) for each in asked] == [told] * 3


def test_threads_that_ask_at_once_get_what_was_stored(place: str) -> None:
    told: list[tuple[int, Any]] = []

    def guess(seed: int) -> float:
        return 0.9 if seed % 10 == 0 else 0.5

    def ask(start: int) -> None:
        with Holdout(LABELS, ledger=place, name="spring") as mine:
            for seed in range(start, start + 12):
                told.append((seed, mine.check(guessed(seed), guess=guess(seed))))

    threads = [threading.Thread(target=ask, args=(start,)) for start in (0, 6, 100)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(told) == 36, "a thread failed"
    paid = {(seed, answer.value) for seed, answer in told if answer.kind == "paid"}
    assert len(paid) == len({seed for seed, _ in paid}) >= 1, "one question, two answers"
    later = Holdout(LABELS, ledger=place, name="spring")
    assert {(seed, later.check(guessed(seed), guess=guess(seed)).value) for seed, _ in paid} == paid


def test_private_answers_are_charged_once_wherever_they_are_kept(place: str) -> None:
    given: dict[str, Any] = {"tolerance": 0.1, "mode": "private", "classes": [0, 1], "questions": 3}
    first = Holdout(LABELS, ledger=place, name="people", **given)
    answer = first.check(guessed(1))
    spent = first.account.spent
    again = Holdout(LABELS, ledger=place, name="people", **given)
    assert again.check(guessed(1)) == answer
    assert (again.account.spent, again.forecast()) == (spent, 2)
