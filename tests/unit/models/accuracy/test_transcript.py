"""What a search says it has cost is what its key's stored steps cost: whatever was asked, and whoever else asked."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from steelyard.accounting._odometers import MixtureOdometer
from steelyard.accounting._prices import price
from steelyard.desk import Desk
from steelyard.documents import request_of
from steelyard.errors import KeyConflict, SteelyardError
from steelyard.ledger import Account, open_account
from steelyard.models._fits import FitLogistic
from steelyard.models.accuracy import _transcript as transcript
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._reach import Reached, reach
from steelyard.models.accuracy._transcript import costs_of
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO, Loss, Terms, Unit, rows
from steelyard.session import Session
from unit.models.accuracy.bound_paths import FEATURES, LOGISTIC
from unit.models.accuracy.combinations import COMBINATIONS, MODELS, NULL, TABLE, Combination, units


@pytest.mark.parametrize("kind", MODELS, ids=str)
def test_a_target_that_costs_nothing_takes_nothing_away_from_what_was_spent(kind: Combination) -> None:
    at = kind.account()
    first = kind.ask(at, kind.amounts[1])
    assert first.stopped_reason_ == "target_met"
    assert first.spent_ == at.spent.amount > 0
    again = kind.ask(at, NULL[kind.task], seed=2)
    assert again.stopped_reason_ in ("null_model_ok", "target_met")
    assert again.spent_ == at.spent.amount == first.spent_
    assert again.epsilon_ == first.epsilon_ > 0


def shared(kind: Combination, at: Account) -> None:
    """Two askers at once: the second asks for something tighter when the first has charged its second step and not drawn it."""
    answer, asking = Desk.answer, list[int]()

    def late(self: Desk, charge: Any, *given: Any, **named: Any) -> Any:
        if charge.answers.get(named.get("step", 0)) is None:
            asking.append(1)
            if len(asking) == 2:
                kind.ask(at, kind.amounts[0], seed=2)
        return answer(self, charge, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Desk, "answer", late)
        with suppress(SteelyardError):  # a step that was taken meanwhile: ask again
            kind.ask(at, kind.amounts[1])
    assert len(asking) > 2


@pytest.mark.parametrize("kind", COMBINATIONS, ids=str)
def test_steps_that_two_askers_bought_at_once_all_count(kind: Combination) -> None:
    at = kind.account(400)
    shared(kind, at)
    for amount in kind.amounts:
        found = kind.ask(at, amount, seed=3)
        assert found.spent_ == at.spent.amount
    assert found.epsilon_ >= found.epsilon_filter_ > 0


def test_a_transcript_that_reads_the_steps_of_one_goal_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = next(each for each in COMBINATIONS if str(each).startswith("linear gaussian auto rows"))

    def mine(desk: Desk) -> dict[str, int]:
        told = {step: desk.find(step) for step in costs_of(desk)}
        goal = Goal("loss", kind.amounts[2], 0.9)
        return {step: cost for step, cost in costs_of(desk).items() if told[step].point["goal"] == goal.name}  # type: ignore[union-attr]

    monkeypatch.setattr(transcript, "costs_of", mine)
    at = kind.account(400)
    shared(kind, at)
    assert kind.ask(at, kind.amounts[2], seed=3).spent_ < at.spent.amount


def test_a_step_that_was_charged_and_never_stored_released_nothing_and_does_not_count() -> None:
    at = open_account(":memory:", "a", unit=rows(neighbours="replace", n=3), epsilon=1)
    desk = Desk(TABLE, TestNoise(1), at, "k", request_of(LOGISTIC))
    for step, answered in (("step 0", True), ("step 2", True), ("path 0", True), ("step 3", False)):
        charge = at.charge(Loss.pure("0.1"), **desk._naming(step))
        if answered:
            charge.store(b"{}")
    assert sum(costs_of(desk).values()) == 300_000


def test_keys_that_begin_like_this_one_are_other_keys_and_a_raised_level_counts_whole() -> None:
    at = open_account(":memory:", "a", unit=rows(), epsilon=1)
    desk = Desk(TABLE, TestNoise(1), at, "k", request_of(LOGISTIC))
    for name in ("k", "k/other/step 0", "k/other", "k1/step 0", "K/step 0", "j"):
        at.charge(Loss.pure("0.01"), key=name, request=b"").store(b"{}")
    path = at.charge(Loss.pure("0.01"), **desk._naming("path 0"))
    path.store(b"{}")
    path.raise_to(Loss.pure("0.2"))
    assert costs_of(desk) == {"path 0": 200_000}


@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_a_key_names_one_way_to_check_and_another_is_refused_before_it_is_charged(task: str) -> None:
    swapped = units("rows", replaced=True)
    shared, apart = (Combination(task, "1e-6", check, swapped) for check in ("auto", "disjoint"))
    for one, other in ((shared, apart), (apart, shared)):
        at = one.account()
        one.ask(at, one.amounts[1])
        spent = at.spent
        with pytest.raises(KeyConflict, match="already names another request"):
            other.ask(at, one.amounts[1])
        assert at.spent == spent


def near(at: Account, excess: float) -> Reached:
    session, wanted = Session(TABLE, at, noise=TestNoise(2)), Goal("excess", excess, 0.9)
    return reach(session, FitLogistic(FEATURES, "c", (0, 1)), wanted, penalty="0.001", key="k")


@pytest.mark.parametrize("unit", [units("rows", replaced=True), units("users", replaced=True)], ids=str)
def test_one_draw_near_the_best_is_told_at_what_holds_wherever_one_stops(unit: Unit) -> None:
    at = open_account(":memory:", "near", unit=unit, epsilon=60, delta="1e-6")
    found, again = near(at, 0.1), near(at, 0.02)
    odometer = MixtureOdometer(1e-6, tuned_at=float(at.terms.cap.value) / 1024)
    events = [entry.event for entry in (released(at, 0), released(at, 1))]
    for reached, drawn in ((found, events[:1]), (again, events)):
        after = odometer.epsilon(reached.spent / MICRO**2)
        if all(event.name == "objective_pure" for event in drawn):
            sure = sum(float(price(event, Terms(unit, Loss.pure(1))).value) for event in drawn)
            assert reached.epsilon == pytest.approx(min(after, sure))
        else:
            assert reached.epsilon == pytest.approx(after)
    assert found.epsilon < again.epsilon
    assert near(at, 0.1).epsilon == again.epsilon


def released(at: Account, index: int) -> Any:
    desk = Desk(TABLE, TestNoise(1), at, "k", {**request_of(LOGISTIC)})
    return desk.find(f"step {index}")
