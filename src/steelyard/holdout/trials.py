"""An objective for Optuna that tunes on your own score and lets the holdout pick a winner once per round.

The study sees the score that your function computes (a cross-validation score, say): a sampler fed with holdout scores would
climb on them. After every ``batch`` trials the holdout says which of them, and the winner before, is best: ln(batch + 1)
nats for a round. In the end ``best()`` has the winner's certified score; ``study.best_value`` remains your own score.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.holdout.answer import Answer
from steelyard.holdout.certified import read_whole
from steelyard.holdout.holdout import Holdout


class RoundObjective:
    """``function(trial)`` returns (your score, predictions for the holdout's rows); give the object to ``study.optimize``.

    *Cost:* ln(batch + 1) nats after every ``batch`` trials; run trials one at a time.
    """

    def __init__(self, holdout: Holdout, function: Callable[[Any], tuple[float, Any]], *, batch: int = 100) -> None:
        if holdout.mode != "rounds":
            raise InvalidTask(f"this objective needs a holdout in mode='rounds'; got {holdout.mode!r}.")
        self._holdout, self._function, self._batch = holdout, function, read_whole(batch, "batch")
        self._waiting: list[tuple[int, Any]] = []
        self._winner: tuple[int, Any] | None = None

    def __call__(self, trial: Any) -> float:
        """Run one trial; what the study sees is your own score."""
        score, predictions = self._function(trial)
        self._waiting.append((int(trial.number), predictions))
        if len(self._waiting) >= self._batch:
            self._play()
        return float(score)

    def best(self) -> tuple[int, Answer]:
        """The number of the winning trial and its certified score; ends the search and closes the holdout."""
        if self._waiting:
            self._play()
        if self._winner is None:
            raise InvalidTask("no trial was run yet.")
        return self._winner[0], self._holdout.finish(self._winner[1])

    def _play(self) -> None:
        batch = ([] if self._winner is None else [self._winner]) + self._waiting
        self._winner = batch[self._holdout.best_of([predictions for _, predictions in batch])]
        self._waiting = []
