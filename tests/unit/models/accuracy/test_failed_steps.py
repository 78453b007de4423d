"""A step that fails is charged, counted and never drawn again; what other steps of its key have answered stays answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from steelyard.desk import Desk
from steelyard.errors import TableError
from steelyard.ledger import Account
from steelyard.models.accuracy import _transcript as transcript
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.session import Session
from unit.models.accuracy.combinations import COMBINATIONS, TABLE, TASKS, Combination

KINDS = [kind for kind in COMBINATIONS if kind.unit.kind == "rows"]
NEAR: tuple[dict[str, Any], dict[str, Any]] = ({"excess_loss": 0.2}, {"excess_loss": 0.05})


def ask(task: str, check: str, at: Account, goal: dict[str, Any]) -> AccuracyFirst:
    first = AccuracyFirst(TASKS[task], check=check, **goal)
    first.release(Session(TABLE, at), key="k")
    return first


def failing(asked: Callable[[], object], at: Account) -> int:
    """What a step cost that fails after its charge, as a full disk would make it; one that failed is not drawn again."""
    before = at.spent.amount
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Desk, "_payload", lambda *_: 1 / 0)
        with pytest.raises(TableError, match="for good"):
            asked()
    paid = at.spent.amount - before
    with pytest.raises(TableError, match="for good"):
        asked()
    return paid


def stays(task: str, check: str, at: Account, goals: tuple[dict[str, Any], dict[str, Any]]) -> bool:
    """Whether a question is answered as before when a tighter one has failed, and says what both have cost."""
    first = ask(task, check, at, goals[0])
    assert first.stopped_reason_ == "target_met"
    assert failing(lambda: ask(task, check, at, goals[1]), at) > 0
    spent = at.spent.amount
    try:
        again = ask(task, check, at, goals[0])
    except TableError:
        return False
    told = [getattr(each, "model_", None) or getattr(each, "release_").value for each in (first, again)]  # noqa: B009
    same = told[0] == told[1]
    assert again.epsilon_ > first.epsilon_
    return bool(same and again.spent_ == at.spent.amount == spent)


def goals(kind: Combination) -> tuple[dict[str, Any], dict[str, Any]]:
    name = "target_loss" if kind.task in ("linear", "logistic") else "relative_error"
    return {name: kind.amounts[1]}, {name: kind.amounts[0] / 3}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_was_answered_stays_answered_when_a_later_step_has_failed(kind: Combination) -> None:
    assert stays(kind.task, kind.check, kind.account(400), goals(kind))


@pytest.mark.parametrize("index", [0, 1])
def test_so_it_does_near_the_best(index: int) -> None:
    kind = [each for each in KINDS if each.task == "logistic" and each.check == "auto"][index]
    assert stays("logistic", "auto", kind.account(400), NEAR)


def test_a_path_that_a_failed_step_has_closed_for_all_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Never(Exception):
        """What nothing raises."""

    monkeypatch.setattr(transcript, "TableError", Never)
    assert not stays(KINDS[0].task, KINDS[0].check, KINDS[0].account(400), goals(KINDS[0]))
