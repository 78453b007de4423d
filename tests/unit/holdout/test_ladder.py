"""The ladder: the best so far on a grid, certified; histories counted; a twin that shows more."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.audit.attacks._strategies import pair_flip_climb
from steelyard.errors import InvalidTask
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._modes import Frame
from steelyard.holdout._modes._ladder import LadderMode

N = 20_000


def frame(rows: int = N) -> Frame:
    return Frame("h", rows, 1, Fraction(1), Fraction("0.2"), Fraction("0.5"))


def right(labels: Any, share: float, seed: int = 0) -> Any:
    """Predictions that are right on about this share of the rows."""
    return labels ^ (np.random.default_rng(seed).random(len(labels)) > share)


@pytest.fixture
def labels() -> Any:
    return np.random.default_rng(0).integers(0, 2, N).astype(bool)


def history_sum(price: Callable[[int, int], float], levels: int, most: int) -> float:
    """The chance that any record is certified wrongly: every history before, times the values the record may take."""
    total = 0.0
    for number in range(1, most + 1):
        for pattern in itertools.product((False, True), repeat=number - 1):
            before = sum(pattern)
            for values in itertools.combinations(range(levels), before + 1):
                total += math.exp(-price(number, before)) if values else 0
    return total


@pytest.mark.parametrize("questions", [None, 5])
def test_the_levels_of_all_histories_of_records_sum_to_at_most_beta(questions: int | None) -> None:
    mode = LadderMode(frame(), steps=4, questions=questions)
    assert history_sum(mode.price, 4, 5) <= 0.5


def test_the_same_sum_catches_a_price_that_forgets_the_records() -> None:
    cheap = lambda asked, paid: math.log(2) + math.log(asked * (asked + 1))  # noqa: E731
    assert history_sum(cheap, 4, 5) > 0.5


def test_only_records_change_what_is_shown(labels: Any) -> None:
    holdout = Holdout(labels, tolerance=0.05, mode="ladder", steps=100, start="0.5")
    shown = [holdout.check(right(labels, share)) for share in (0.7, 0.6, 0.702, 0.8, 0.75)]
    assert [answer.kind for answer in shown] == ["paid", "free", "free", "paid", "free"]
    assert [answer.value for answer in shown] == pytest.approx([0.7, 0.7, 0.7, 0.8, 0.8], abs=0.011)
    assert (shown[0].low, shown[0].high) == (shown[1].low, shown[1].high)
    assert all(round((answer.value or 0) * 100, 9).is_integer() for answer in shown)


def test_before_the_first_record_nothing_is_claimed(labels: Any) -> None:
    answer = Holdout(labels, mode="ladder", start="0.5").check(right(labels, 0.3))
    assert (answer.value, answer.low, answer.high, answer.kind) == (0.5, 0, 1, "free")


def test_a_ladder_of_losses_climbs_down(labels: Any) -> None:
    holdout = Holdout(labels, mode="ladder", metric="error")
    shown = [holdout.check(right(labels, share)).value for share in (0.6, 0.5, 0.9)]
    assert shown == pytest.approx([0.4, 0.4, 0.1], abs=0.02)


def test_the_best_so_far_survives_a_restart(tmp_path: Path, labels: Any) -> None:
    options: dict[str, Any] = {"mode": "ladder", "ledger": tmp_path / "b.db", "name": "board"}
    best = Holdout(labels, **options).check(right(labels, 0.8))
    again = Holdout(labels, **options).check(right(labels, 0.7))
    assert (again.value, again.kind) == (best.value, "free")


def test_a_climber_gets_no_certificate_that_misses(labels: Any) -> None:
    holdout = Holdout(labels, mode="ladder", start="0.5")
    attacked = pair_flip_climb(holdout, n=N, questions=400, labels=labels)
    assert attacked.missed == 0
    assert attacked.reported is not None
    assert attacked.reported < 0.53


def test_a_ladder_ends_after_the_submissions_that_were_declared(labels: Any) -> None:
    holdout = Holdout(labels, mode="ladder", questions=2)
    assert [holdout.check(right(labels, 0.6, seed)).kind for seed in range(4)][2:] == ["refused", "refused"]


def test_a_start_off_the_grid_is_refused(labels: Any) -> None:
    with pytest.raises(InvalidTask, match="start must be a value of the grid"):
        Holdout(labels, mode="ladder", steps=100, start="0.505")
