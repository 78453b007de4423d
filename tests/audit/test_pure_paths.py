"""The audit of paths on pure accounts passes what ships, and sees half a distance and questions of the wrong size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from steelyard.audit._suite import run
from steelyard.models.accuracy import _first_above as first_above
from steelyard.models.accuracy._designs import Triangle
from steelyard.models.accuracy._losses import ClippedLoss


def failing(names: list[str]) -> set[str]:
    return {verdict.subject for verdict in run(names, quick=True, jobs=1) if not verdict.ok}


def test_levels_and_questions_of_pure_paths_pass_their_audit() -> None:
    assert (
        failing(["first-pure-levels-users", "first-pure-loss-rows", "first-pure-excess-rows", "first-pure-log-loss"])
        == set()
    )


def test_half_the_distance_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true = Triangle.sensitivity._work
    monkeypatch.setattr(Triangle, "sensitivity", property(lambda self: true(self) // 2))
    assert failing(["first-pure-levels-rows"]) == {"first-pure-levels-rows"}


def test_questions_that_move_further_than_they_say_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClippedLoss, "moves", 2**18)
    assert failing(["first-pure-loss-users"]) == {"first-pure-loss-users"}


def test_rows_of_queries_pass_their_audit_and_half_a_sensitivity_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["first-above", "first-above-rows", "first-above-replace"]
    assert failing(names) == set()
    made = first_above.Row.question

    def halved(self: first_above.Row, *given: Any) -> first_above.Question:
        asked = made(self, *given)
        return replace(asked, moves=asked.moves / 2)

    monkeypatch.setattr(first_above.Row, "question", halved)
    assert failing(names) == set(names)
