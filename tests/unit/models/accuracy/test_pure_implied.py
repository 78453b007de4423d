"""Pure paths: a looser question is answered for nothing, and draws of classifiers need no comparison of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from steelyard.ledger import Account
from steelyard.models.accuracy._goal import Found
from steelyard.noise import TestNoise
from steelyard.session import Session
from unit.models.accuracy import pure_draws, pure_paths
from unit.models.accuracy.bound_paths import is_repeated

WALKS: dict[str, tuple[Any, tuple[float, float, float], Callable[[Any, float, float], Found]]] = {
    "ridge target": (pure_paths, (0.02, 0.04, 0.06), lambda walk, amount, sure: walk.reach_loss(amount, sure)),
    "ridge excess": (pure_paths, (0.01, 0.02, 0.04), lambda walk, amount, sure: walk.reach_excess(amount, sure)),
    "logistic": (pure_draws, (0.45, 0.5, 0.6), lambda walk, amount, sure: walk.reach_loss(amount, sure)),
}


def walk(kind: str) -> tuple[Account, Callable[[float, float], Found]]:
    module, _, ask = WALKS[kind]
    at = module.account()
    return at, lambda amount, sure: ask(
        Session(module.table(), at, noise=TestNoise(at.spent.amount % 99)).open(module.SEARCH, key="k"), amount, sure
    )


@pytest.mark.parametrize("kind", WALKS)
def test_a_looser_question_costs_nothing_and_gets_the_same_model(kind: str) -> None:
    (at, ask), (tighter, tight, loose) = walk(kind), WALKS[kind][1]
    first = ask(tight, 0.9)
    assert first.reason == "target_met"
    for amount, sure in ((loose, 0.9), (loose, 0.8), (tight, 0.8)):
        again = ask(amount, sure)
        assert is_repeated(first, again)
        assert at.spent.amount == first.spent
        assert tight <= again.bound <= amount
    ask(tight, 0.99)
    surer = at.spent.amount
    assert surer > first.spent
    ask(tighter, 0.9)
    assert at.spent.amount > surer


def test_draws_are_releases_of_their_own_and_go_on_whatever_became_of_the_rows() -> None:
    made, at, other = pure_draws, pure_draws.account(), pure_draws.Y.copy()
    Session(made.table(), at, noise=TestNoise(1)).open(made.SEARCH, key="k").reach_loss(0.5, 0.9)
    before, other[5] = at.spent.amount, 1 - other[5]
    found = Session(made.table(other), at, noise=TestNoise(2)).open(made.SEARCH, key="k").reach_loss(0.45, 0.9)
    assert found.reason == "target_met"
    assert at.spent.amount == found.spent > before
