"""Holdout: one durable budget for whoever asks, replays for nothing, and nothing about the labels on the ledger."""

from __future__ import annotations

import json
import pickle
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.account import Allowance
from steelyard.errors import CurrencyMismatch, InvalidTask, UnitMismatch
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._metrics import AbsoluteError
from steelyard.ledger import Ledger, open_account
from steelyard.privacy import Loss, rows
from steelyard.privacy import holdout as unit_of

N = 10_000


@pytest.fixture
def labels() -> Any:
    return np.random.default_rng(0).integers(0, 2, N).astype(bool)


def guessed(seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 2, N).astype(bool)


def test_a_handle_that_only_wraps_an_account_keeps_no_holdout(labels: Any) -> None:
    account: Any = Allowance(open_account(":memory:", "h", unit=unit_of("h"), nats=100), Loss.nats(1))
    with pytest.raises(InvalidTask, match="got Allowance"):
        Holdout(labels, account=account)


def test_a_right_guess_is_free_and_a_wrong_one_is_paid(labels: Any) -> None:
    holdout = Holdout(labels)
    free, paid = holdout.check(guessed(1), guess=0.51), holdout.check(guessed(2), guess=0.7)
    assert (free.value, free.low, free.high, free.kind) == (0.51, 0.46, 0.56, "free")
    assert paid.kind == "paid"
    assert paid.low is not None
    assert paid.high is not None
    assert paid.value is not None
    assert paid.low < float((guessed(2) == labels).mean()) < paid.high
    assert round(paid.value * 200, 6).is_integer()


def test_a_loss_in_its_own_unit_has_answers_in_that_unit() -> None:
    truth = np.linspace(0, 100, N)
    holdout = Holdout(truth, tolerance=3, metric=AbsoluteError(50))  # type: ignore[arg-type]
    answer = holdout.check(truth + 10, guess=10)
    assert (answer.value, answer.low, answer.high) == (10, 7, 13)
    assert holdout.check(truth + 20).value == pytest.approx(20, abs=0.1)


def test_the_same_question_costs_nothing_again(labels: Any) -> None:
    holdout = Holdout(labels)
    asked = [(guessed(1), 0.5), (guessed(2), 0.9), (guessed(3), None)]
    first = [holdout.check(p, guess=g) for p, g in asked]
    spent = holdout.account.spent
    assert [holdout.check(p.astype(int), guess=g) for p, g in asked] == first
    assert holdout.account.spent == spent


def test_a_replay_is_answered_even_after_the_holdout_is_closed(labels: Any) -> None:
    holdout = Holdout(labels, questions=1)
    first = holdout.check(guessed(1), guess=0.5)
    assert holdout.check(guessed(2), guess=0.5).kind == "refused"
    assert holdout.check(guessed(1), guess=0.5) == first


def test_opening_again_costs_nothing_and_continues(tmp_path: Path, labels: Any) -> None:
    place = tmp_path / "budget.db"
    with Holdout(labels, ledger=place, name="spring") as first:
        answers = [first.check(guessed(1), guess=0.5), first.check(guessed(2), guess=0.9)]
    spent, shown = first.account.spent, str(first)
    again = Holdout(labels, account=Ledger(place).account("spring"))
    assert again.account.spent == spent
    assert [again.check(guessed(1), guess=0.5), again.check(guessed(2), guess=0.9)] == answers
    assert again.account.spent == spent
    assert str(again) == shown


def test_other_labels_or_settings_under_the_same_name_are_refused(tmp_path: Path, labels: Any) -> None:
    place = tmp_path / "budget.db"
    account = Holdout(labels, ledger=place, name="spring").account
    flipped = labels.copy()
    flipped[0] = not flipped[0]
    for wrong in ({"labels": flipped}, {"labels": labels, "confidence": 0.9}, {"labels": labels, "metric": "error"}):
        with pytest.raises(UnitMismatch, match="other labels"):
            Holdout(**wrong, account=account)
    with pytest.raises(UnitMismatch, match="'spring', not for 'autumn'"):
        Holdout(labels, account=account, name="autumn")


def surprises(holdouts: list[Holdout]) -> int:
    """Every user asks in turn, without guesses, until all are refused."""
    count = 0
    for turn in range(200):
        answers = [each.check(guessed(1000 * user + turn)) for user, each in enumerate(holdouts)]
        count += sum(answer.kind == "paid" for answer in answers)
        if all(answer.kind == "refused" for answer in answers):
            return count
    raise AssertionError


def test_one_budget_whoever_asks(tmp_path: Path, labels: Any) -> None:
    users = [Holdout(labels, ledger=tmp_path / "budget.db", name="spring") for _ in range(3)]
    promised = users[0].forecast()
    assert surprises(users) <= promised


def promised(holdout: Holdout) -> list[str]:
    return [line for line in str(holdout).splitlines() if "±" in line or line.startswith("promise")]


@pytest.mark.parametrize("mode", ["certified", "ladder", "rounds", "private", "classic"])
def test_a_holdout_prints_one_promise_and_its_answers_keep_it(labels: Any, mode: str) -> None:
    """Where the tolerance is not certified it is not promised; no printed interval is narrower than a given one."""
    given: dict[str, Any] = (
        {"questions": 3, "classes": [0, 1]} if mode in ("private", "classic") else {"between": (0, 0.6)}
    )
    holdout = Holdout(labels, tolerance=0.1, mode=mode, **given)
    promise = float(promised(holdout)[0].split("±")[1].split()[0])
    asked: dict[str, Any] = {"guess": 0.5} if mode == "classic" else {}
    answer = holdout.finish(guessed(1)) if mode == "rounds" else holdout.check(guessed(1), **asked)
    value, low, high = (float(end) for end in (answer.value, answer.low, answer.high) if end is not None)
    assert max(value - low, high - value) <= promise
    assert (promise > 0.1) == (mode == "classic")
    assert len(promised(holdout)) == (2 if mode == "private" else 1)
    assert ("between 0 and 0.6" in promised(holdout)[0]) == (mode in ("certified", "ladder", "rounds"))


def test_a_budget_for_each_user_is_caught(tmp_path: Path, labels: Any) -> None:
    users = [Holdout(labels, ledger=tmp_path / f"{user}.db", name=f"spring of {user}") for user in range(3)]
    promised = users[0].forecast()
    assert surprises(users) > promised


def test_every_answer_was_charged_at_the_level_it_was_made(tmp_path: Path, labels: Any) -> None:
    """The public state is a function of the transcript: recompute it from the entries alone."""
    holdout = Holdout(labels, ledger=tmp_path / "budget.db", name="spring")
    kinds = [holdout.check(guessed(seed), guess=0.9 if seed in (7, 20) else 0.5).kind for seed in range(40)]
    assert "refused" not in kinds
    mode: Any = holdout._mode
    events = [json.loads(e.detail) for e in Ledger(tmp_path / "budget.db").entries() if e.kind == "charge"]
    last = [e["parameters"] for e in events if "questions" in e["parameters"]][-1]
    assert last["surprises"] == kinds.count("paid") >= 2
    assert last["questions"] >= 40
    needed = mode.price(last["questions"], last["surprises"])
    assert needed <= float(holdout.account.spent.value) <= needed + 1e-4


def test_nothing_on_the_ledger_tells_a_label_or_a_prediction(tmp_path: Path, labels: Any) -> None:
    place = tmp_path / "budget.db"
    with Holdout(labels, ledger=place, name="spring") as holdout:
        for seed in range(30):
            holdout.check(guessed(seed), guess=0.5)
    with sqlite3.connect(place) as link:
        payloads = [row[0] for row in link.execute("SELECT payload FROM answers")]
        requests = {row[0] for row in link.execute("SELECT request FROM entries")}
    other = Holdout(labels, ledger=tmp_path / "other.db", name="spring")
    other.check(guessed(0), guess=0.5)
    with sqlite3.connect(tmp_path / "other.db") as link:
        elsewhere = {row[0] for row in link.execute("SELECT request FROM entries")}
    assert all(set(json.loads(text)) <= {"by", "free", "question", "answer", "closed"} for text in payloads)
    assert requests & elsewhere <= {""}, "the same labels under another key must look different"


def test_two_handles_in_one_process_never_share_a_question_number(tmp_path: Path, labels: Any) -> None:
    one = Holdout(labels, ledger=tmp_path / "budget.db", name="spring")
    two = Holdout(labels, ledger=tmp_path / "budget.db", name="spring")
    for seed in range(60):
        (one if seed % 2 else two).check(guessed(seed), guess=0.5)
    mode: Any = one._mode
    one.forecast()
    assert mode.counter.asked >= 60


def test_a_holdout_can_be_sent_to_another_process(tmp_path: Path, labels: Any) -> None:
    holdout = Holdout(labels, ledger=tmp_path / "budget.db", name="spring")
    first = holdout.check(guessed(1), guess=0.9)
    (tmp_path / "sent").write_bytes(pickle.dumps(holdout))
    (tmp_path / "asked").write_bytes(pickle.dumps(guessed(1)))
    code = "import pickle, sys; h, p = (pickle.load(open(f, 'rb')) for f in sys.argv[1:]); print(h.check(p, guess=0.9).value)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "sent"), str(tmp_path / "asked")], capture_output=True, text=True
    )
    assert done.stdout.strip() == str(first.value), done.stderr[-2000:]


def test_a_bad_guess_or_account_is_refused_before_anything_is_charged(labels: Any) -> None:
    holdout = Holdout(labels)
    for guess in (-0.1, 1.1, float("nan"), "many"):
        with pytest.raises(InvalidTask):
            holdout.check(guessed(1), guess=guess)
    assert holdout.account.spent.amount == 0
    with pytest.raises(CurrencyMismatch, match="spends nats"):
        Holdout(labels, account=open_account(":memory:", "a", unit=rows(), epsilon=1))
    with pytest.raises(InvalidTask, match="not both"):
        Holdout(labels, ledger="x", account=open_account(":memory:", "a", unit=unit_of("h"), nats=9))


def test_settings_that_make_no_sense_are_refused(labels: Any) -> None:
    for wrong in (
        {"tolerance": 0},
        {"tolerance": 1},
        {"confidence": 1},
        {"mode": "magic"},
        {"steps": 0},
        {"colour": 1},
    ):
        with pytest.raises(InvalidTask):
            Holdout(labels, **wrong)
    with pytest.raises(InvalidTask, match="mode='rounds'"):
        Holdout(labels).best_of([guessed(1)])


def test_printing_a_holdout_tells_the_public_state(labels: Any) -> None:
    holdout = Holdout(labels)
    holdout.check(guessed(1), guess=0.5)
    text = str(holdout)
    for word in ("10,000 rows", "± 0.05", "in memory", "surprises", "nats", "open"):
        assert word in text


def test_a_smaller_account_answers_fewer_surprises(labels: Any) -> None:
    small = open_account(":memory:", "small", unit=unit_of("small"), nats=20)
    assert 0 < Holdout(labels, account=small).forecast() < Holdout(labels).forecast()
