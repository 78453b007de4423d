"""A looser question about a path that passed a tighter one is answered by the same model, for nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from steelyard.models.accuracy._goal import Found, Goal
from steelyard.models.accuracy._losses import margin_cap
from steelyard.noise import TestNoise
from steelyard.session import Session
from unit.models.accuracy.bound_paths import LOGISTIC, RIDGE, account, is_repeated, table

WALKS: dict[str, tuple[Any, tuple[float, float, float], Callable[[Any, float, float], Found]]] = {
    "ridge target": (RIDGE, (0.01, 0.02, 0.04), lambda walk, amount, sure: walk.reach_loss(amount, sure)),
    "ridge target, every": (RIDGE, (0.01, 0.02, 0.04), lambda walk, amount, sure: walk.reach_loss(amount, sure, every=True)),
    "ridge excess": (RIDGE, (0.003, 0.01, 0.02), lambda walk, amount, sure: walk.reach_excess(amount, sure)),
    "ridge certificate": (RIDGE, (0.003, 0.01, 0.02), lambda walk, amount, sure: walk.reach_excess(amount, sure, looks=0)),
    "logistic": (LOGISTIC, (0.53, 0.55, 0.6), lambda walk, amount, sure: walk.reach_loss(amount, sure)),
}  # fmt: skip


def walk(kind: str, unit: str = "rows") -> tuple[Any, Callable[[float, float], Found]]:
    search, _, ask = WALKS[kind]
    at = account(unit)
    return at, lambda amount, sure: ask(
        Session(table(), at, noise=TestNoise(at.spent.amount % 99)).open(search, key="k"), amount, sure
    )


@pytest.mark.parametrize("unit", ["rows", "users"])
@pytest.mark.parametrize("kind", WALKS)
def test_a_looser_question_costs_nothing_and_gets_the_same_model(kind: str, unit: str) -> None:
    (at, ask), (_, tight, loose) = walk(kind, unit), WALKS[kind][1]
    first = ask(tight, 0.9)
    assert first.reason == "target_met"
    for amount, sure in ((loose, 0.9), (loose, 0.8), (tight, 0.8)):
        again = ask(amount, sure)
        assert is_repeated(first, again)
        assert at.spent.amount == first.spent
        assert again.bound == first.bound <= tight


@pytest.mark.parametrize("kind", WALKS)
def test_a_question_that_passed_keeps_its_answer_when_the_path_has_gone_on(kind: str) -> None:
    (at, ask), (tighter, tight, loose) = walk(kind), WALKS[kind][1]
    first, second = ask(tight, 0.9), ask(tighter, 0.9)
    assert second.reason == "target_met"
    assert second.spent > first.spent
    for amount in (tight, loose):
        again = ask(amount, 0.9)
        assert np.array_equal(again.model, first.model)  # type: ignore[arg-type]
        assert again.bound == first.bound
        assert at.spent.amount == again.spent == second.spent


@pytest.mark.parametrize("kind", WALKS)
def test_a_tighter_or_a_surer_question_is_not_answered_by_a_looser_one(kind: str) -> None:
    (at, ask), (tighter, tight, _) = walk(kind), WALKS[kind][1]
    ask(tight, 0.8)
    before = at.spent.amount
    ask(tighter, 0.8)
    after = at.spent.amount
    assert after > before
    ask(tighter, 0.99)
    assert at.spent.amount > after


@pytest.mark.parametrize("kind", ["ridge target", "logistic"])
def test_a_walk_that_minds_no_confidence_is_caught(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Goal, "answers", lambda self, other: self.kind == other.kind and self.amount <= other.amount)
    (at, ask), (_, tight, _) = walk(kind), WALKS[kind][1]
    ask(tight, 0.8)
    before = at.spent.amount
    ask(tight, 0.99)
    assert at.spent.amount == before  # what the tests above would not let pass


def test_a_question_that_ended_at_the_cap_answers_nothing() -> None:
    at, ask = walk("ridge target")
    assert ask(1e-7, 0.9).reason != "target_met"
    before = at.spent.amount
    found = ask(0.9, 0.9)
    assert found.reason in ("target_met", "null_model_ok")
    assert found.bound <= 0.9
    assert at.spent.amount >= before


def test_the_predictions_are_clipped_as_they_were_when_they_were_looked_at() -> None:
    _, ask = walk("logistic")
    ask(0.55, 0.9)
    assert ask(0.6, 0.9).margin == margin_cap(0.55) / 2**14


def test_a_target_never_stands_for_an_excess() -> None:
    loss, excess = Goal("loss", 0.01, 0.9), Goal("excess", 0.02, 0.9)
    assert not excess.answered_by([loss.name])
    assert not loss.answered_by([Goal("excess", 0.001, 0.99).name])


@pytest.mark.parametrize("name", ["loss 0.02 0.9 every", "loss 0.02 0.9", "excess 1e-05 0.95", "relative 0.1 0.9"])
def test_names_are_read_as_they_are_written(name: str) -> None:
    asked = Goal.of(name)
    assert asked is not None
    assert asked.name == name


def test_names_of_other_kinds_answer_nothing() -> None:
    assert Goal.of("watch") is None
    assert Goal.of("loss np.float64(1) 0.9") is None
    assert not Goal("loss", 1.0, 0.9).answered_by(["", "loss", "loss a b"])


def test_itself_comes_first_and_then_the_first_that_was_asked() -> None:
    wanted = Goal("loss", 0.5, 0.9)
    names = [Goal("loss", amount, 0.9).name for amount in (0.4, 0.6, 0.3, 0.5)]
    assert [asked.amount for asked in wanted.answered_by(names)] == [0.5, 0.4, 0.3]
