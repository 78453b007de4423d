"""Rounds: winners only, paid by the logarithm of the batch; one certified score at the end."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.holdout._holdout import Holdout

N = 10_000


@pytest.fixture
def labels() -> Any:
    return np.random.default_rng(0).integers(0, 2, N).astype(bool)


def right(labels: Any, share: float, seed: int = 0) -> Any:
    return labels ^ (np.random.default_rng(seed).random(len(labels)) > share)


def test_the_winner_is_the_best_and_ties_go_to_the_first(labels: Any) -> None:
    holdout = Holdout(labels, mode="rounds")
    assert holdout.best_of([right(labels, share) for share in (0.6, 0.8, 0.7)]) == 1
    assert holdout.best_of([right(labels, 0.7), right(labels, 0.9), right(labels, 0.9)]) == 1
    losses = Holdout(labels, mode="rounds", metric="error")
    assert losses.best_of([right(labels, share) for share in (0.6, 0.8, 0.7)]) == 1


def test_a_round_costs_the_logarithm_of_its_candidates(labels: Any) -> None:
    holdout = Holdout(labels, mode="rounds")
    holdout.best_of([right(labels, 0.6, seed) for seed in range(10)])
    assert float(holdout.account.spent.value) == pytest.approx(math.log(10), abs=1e-5)
    assert holdout.best_of([right(labels, 0.6, seed) for seed in range(10)]) is not None
    assert float(holdout.account.spent.value) == pytest.approx(math.log(10), abs=1e-5), "a replay is free"


def test_ten_rounds_of_a_hundred_fit_ten_thousand_rows(labels: Any) -> None:
    holdout = Holdout(labels, mode="rounds")
    best = right(labels, 0.5, 999)
    for turn in range(9):
        batch = [best, *(right(labels, 0.5, 100 * turn + k) for k in range(19))]
        best = batch[holdout.best_of(batch)]
    answer = holdout.finish(best)
    assert answer.low is not None
    assert answer.high is not None
    assert answer.value is not None
    assert answer.low <= 0.5 <= answer.high, "coin flips chosen among 180 are still coin flips"
    assert answer.value > 0.505
    assert max(answer.high - answer.value, answer.value - answer.low) <= 0.05


def test_the_score_without_its_nats_would_certify_nonsense(labels: Any) -> None:
    """The twin: the winner's interval as if it were the only question ever asked."""
    best = right(labels, 0.5, 0)
    for seed in range(3000):
        rival = right(labels, 0.5, seed)
        best = rival if (rival == labels).sum() > (best == labels).sum() else best
    alone = Holdout(labels, mode="rounds", confidence=0.9).finish(best)
    assert alone.low is not None
    assert alone.low > 0.5


def test_finishing_closes_the_holdout(tmp_path: Path, labels: Any) -> None:
    options: dict[str, Any] = {"mode": "rounds", "ledger": tmp_path / "b.db", "name": "tuning"}
    holdout = Holdout(labels, **options)
    holdout.best_of([right(labels, 0.6), right(labels, 0.7)])
    answer = holdout.finish(right(labels, 0.7))
    again = Holdout(labels, **options)
    assert again.finish(right(labels, 0.7)) == answer
    assert again.finish(right(labels, 0.6)).kind == "refused"
    with pytest.raises(BudgetExceeded, match="finished"):
        again.best_of([right(labels, 0.1), right(labels, 0.2)])
    assert again.best_of([right(labels, 0.6), right(labels, 0.7)]) == 1, "what was answered is answered again"


def test_rounds_stop_when_the_nats_are_gone(labels: Any) -> None:
    holdout = Holdout(labels, mode="rounds")

    def play(turn: int) -> int:
        return holdout.best_of([right(labels, 0.5, 10 * turn + k) for k in range(8)])

    with pytest.raises(BudgetExceeded, match="nats") as refused:
        [play(turn) for turn in range(40)]
    assert refused.value.wanted is not None


def test_neither_scores_nor_totals_are_kept_on_the_ledger(labels: Any) -> None:
    holdout = Holdout(labels, mode="rounds")
    holdout.best_of([right(labels, 0.6), right(labels, 0.7)])
    held = holdout._record.entries[1].held
    assert held is not None
    assert set(held) == {"question", "winner", "candidates"}


def test_a_single_score_and_an_empty_round_are_refused(labels: Any) -> None:
    holdout = Holdout(labels, mode="rounds")
    with pytest.raises(InvalidTask, match="winners only"):
        holdout.check(right(labels, 0.6), guess=0.6)
    with pytest.raises(InvalidTask, match="at least one"):
        holdout.best_of([])
    assert "rounds" in str(holdout)
