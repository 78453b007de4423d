"""Before a search gives up it looks with what is left, and what it then hands out is the best model it knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from off_ledger import Ended, OffLedger, ended, ridge_judge
from steelyard.errors import KeyConflict
from steelyard.ledger import Ledger
from steelyard.models._columns import SIZE
from steelyard.models.accuracy import _looks as looks
from steelyard.models.accuracy import _posterior as posterior
from steelyard.models.accuracy._designs import as_model
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.models.accuracy._family import Step
from steelyard.models.accuracy._goal import CAP, MET, Goal
from steelyard.models.accuracy._looks import RESERVE, SHARES, last_look, share_of_turn, turn
from steelyard.models.accuracy._losses import Seen
from steelyard.models.accuracy._quantiles import normal_quantile
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO, Loss
from steelyard.session import Session
from unit.models.accuracy.combinations import MODELS, TABLE, TASKS, C, Combination, X, Y
from unit.models.accuracy.made_up import Data, whole

N = 20_000
DRAWS = np.random.default_rng(4)
ROWS = DRAWS.uniform(-1, 1, (N, 3)) / 2
LABELS = np.clip(ROWS @ [0.2, 0.15, 0.1] + 0.25 * DRAWS.standard_normal(N), -1, 1)
BEST = float(np.mean((LABELS - ROWS @ np.linalg.lstsq(ROWS, LABELS, rcond=None)[0]) ** 2))
NOTHING = float(np.mean(LABELS**2))


def walked(target: float, *, off: float | None = None, cap: float = math.inf, seed: int = 1) -> tuple[Ended, int]:
    """Where a path comes to and what it spent; ``off`` is by how many deviations the size of the labels is drawn too high."""
    data, goal = Data((whole(ROWS), np.rint(LABELS * SIZE))), Goal("loss", target, 0.9)
    judge, steps = ridge_judge(goal, N, 3, 0.001), OffLedger(data, N, TestNoise(seed), cap)

    def high(step: Step, answer: Any) -> Any:
        if step.kind != "size" or off is None:
            return answer
        return [round((NOTHING * N + off * MICRO / math.isqrt(steps.spent)) * SIZE**2)]

    steps.alter = high
    return ended(judge, steps), steps.spent


def keeps_looking(off: float) -> bool:
    """Whether a high draw of the labels' size makes a search at most some times as dear."""
    target = (BEST + NOTHING) / 2
    usual, high = walked(target, off=0.0), walked(target, off=off)
    assert usual[0].reason == high[0].reason == MET
    return high[1] <= 32 * usual[1]


@pytest.mark.parametrize("off", [1.5, 2.5, 6.0])
def test_a_high_draw_of_the_labels_does_not_stop_the_looks(off: float) -> None:
    assert keeps_looking(off)


def test_a_screen_that_believes_one_draw_for_ever_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posterior, "_SURE_ONCE", 1.0)
    monkeypatch.setattr(looks, "PATIENCE", math.inf)
    assert not keeps_looking(2.5)


def test_what_is_left_is_looked_with_before_the_cap_ends_a_search() -> None:
    target, ends = BEST + 0.2 * (NOTHING - BEST), []
    for seed in range(4):
        spent = walked(target, seed=seed)[1]
        for part in (0.6, 0.97):
            path, paid = walked(target, cap=part * spent, seed=seed)
            seen, levels = path.judge.seen, path.judge.family.levels
            last = [look for look in seen if look.alone]
            assert any(look.level == levels for look in seen), "no model is given up without a look"
            assert not last or (paid == int(part * spent) and path.reason == (MET if last[0].passed else CAP))
            ends += [look.passed for look in last]
    assert True in ends
    assert False in ends


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(1, 3)), max_size=12))
def test_no_share_is_given_twice(steps: list[tuple[int, bool, int]]) -> None:
    looks, level, given_out, shares = list[Seen](), 1, dict[int, object](), dict[int, float]()
    for rise, alone, count in steps:
        level += rise
        for _ in range(1 if alone else count):
            place = turn(looks) if alone else turn(looks, level)
            assert given_out.setdefault(place, (level, len(looks) if alone else None)) == (
                level,
                len(looks) if alone else None,
            )
            share = share_of_turn(looks, None if alone else level)
            assert shares.setdefault(place, share) == share, "a model's looks have one share, however many they are"
            looks.append(Seen((), 0, level, 1, 0, False, alone))
    assert sum(shares.values()) <= 1
    assert sum(SHARES) + RESERVE <= 1
    assert sorted(given_out) == list(range(len(given_out)))


def test_a_last_look_passes_wrongly_as_rarely_as_it_may_and_is_not_made_where_it_cannot_pass() -> None:
    cost, most = last_look(1 << 20, 1e12, [], 10**8, 0.01) or (0, 0.0)
    assert cost == 10**8
    assert most == pytest.approx(1e12 - normal_quantile(0.01) * (1 << 20) * MICRO / 10**4 - 2)
    assert last_look(1 << 20, 1e6, [], 10**8, 0.01) is None
    assert last_look(1 << 20, 1e12, [(10**8, 2 * 10**12)], 10**8, 0.01) is None
    assert last_look(1 << 20, 1e12, [], 0, 0.01) is None


def test_after_the_cap_the_sharpest_model_is_handed_out_and_not_the_first_that_was_looked_at() -> None:
    mine, first = list[float](), list[float]()
    for seed in range(3):
        path, _ = walked(0.98 * BEST, cap=2e11, seed=seed)
        assert path.reason == CAP
        for losses, model in ((mine, path.model), (first, as_model(path.judge.seen[0].model))):
            losses.append(float(np.mean((np.clip(ROWS @ model, -1, 1) - LABELS) ** 2)))
    assert max(mine) <= 1.01 * BEST
    assert max(first) > 1.03 * BEST  # what would have been handed out


def loss_of(kind: Combination, model: Any) -> float:
    told = np.asarray(model.predict({"a": X[:, 0], "b": X[:, 1]}))
    if kind.task == "linear":
        return float(np.mean((told - Y) ** 2))
    return float(-np.mean(np.where(C == 1, np.log(told), np.log(1 - told))))


def forgotten(kind: Combination, target: float, parts: Sequence[float]) -> int:
    """Of searches that an allowance ends early: after how many a stored look or level is not found again."""
    whole, found = kind.account(), 0
    kind.ask(whole, target)
    for part in parts:
        at = kind.account()
        most = Loss(at.terms.currency, int(part * whole.spent.amount))
        first = AccuracyFirst(TASKS[kind.task], target_loss=target, check=kind.check)
        first.release(Session(TABLE, at, noise=TestNoise(1)).up_to(most), key="k")
        kept = sum(entry.kind == "charge" for entry in Ledger(at.location).entries())
        try:
            again = AccuracyFirst(TASKS[kind.task], target_loss=target, check=kind.check)
            again.release(Session(TABLE, at, noise=TestNoise(2)).up_to(Loss(most.currency, 0)), key="k")
            found += len(again.path_) != kept
        except KeyConflict:
            found += 1
    return found


GAUSSIAN = [kind for kind in MODELS if kind.delta is not None and kind.unit.kind == "rows"]
PARTS = (0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 0.97)
TIGHT = {"linear": 0.0027, "logistic": 0.34}


@pytest.mark.parametrize("kind", GAUSSIAN, ids=str)
def test_a_refused_look_leaves_no_gap_behind_which_later_ones_are_forgotten(kind: Combination) -> None:
    assert not forgotten(kind, TIGHT[kind.task], (0.45, 0.7, 0.9) if kind is not GAUSSIAN[0] else PARTS)


@pytest.mark.parametrize("kind", MODELS, ids=str)
def test_the_model_of_a_search_that_ends_at_its_cap_is_the_sharpest_there_is(kind: Combination) -> None:
    target, best = {"linear": (0.0022, 0.0025), "logistic": (0.2, 0.31)}[kind.task]
    at = kind.account(60 if kind.task == "linear" else 10)
    found = kind.ask(at, target)
    assert found.stopped_reason_ in ("cap_reached", "target_impossible")
    assert not found.certificate_.met
    assert loss_of(kind, found.model_) <= 1.35 * best
    again = kind.ask(at, target, seed=5)
    assert loss_of(kind, again.model_) <= 1.35 * best
