"""Every attack against one oracle, side by side: what was reported, what is certified, and the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from steelyard.audit.attacks._oracle import Attacked, HoldoutChecker, Score
from steelyard.audit.attacks._strategies import (
    block_flip_climb,
    feature_selection,
    log_loss_reconstruction,
    memorising,
    pair_flip_climb,
    threshold_riding,
    wacky_boosting,
)
from steelyard.charts import Chart, intervals
from steelyard.errors import InvalidTask

ATTACKS: dict[str, Callable[..., Attacked]] = {
    "feature selection": feature_selection,
    "wacky boosting": wacky_boosting,
    "threshold riding": threshold_riding,
    "memorising the training set": memorising,
    "pair-flip climb": pair_flip_climb,
    "block-flip climb": block_flip_climb,
}
"""Attacks on an accuracy, by name; ``log_loss_reconstruction`` attacks a log loss."""

_NEED_A_GUESS = ("threshold riding", "memorising the training set")
"""Against an oracle that takes no guess these two are wacky boosting again."""

_HEAD = ("attack", "asked", "answered", "reported", "certified", "on these rows", "on fresh rows", "missed")


@dataclass(frozen=True)
class AttackReport:
    """What a suite of attacks came to; ``table()`` for people, ``data`` for programs, ``chart()`` as a picture."""

    attacks: tuple[Attacked, ...]

    @property
    def data(self) -> list[dict[str, Any]]:
        """One plain dictionary for each attack."""
        return [attack.to_json() for attack in self.attacks]

    @property
    def worst(self) -> Attacked:
        """The attack whose report lies furthest above the truth."""
        return max(self.attacks, key=lambda attack: attack.fooled)

    @property
    def missed(self) -> int:
        """How many certified intervals, over all attacks, did not hold the truth."""
        return sum(attack.missed for attack in self.attacks)

    def table(self) -> str:
        """The attacks as text, one line each, and one line on the worst."""
        rows = [_HEAD, *(_cells(attack) for attack in self.attacks)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, self._verdict()])

    def _verdict(self) -> str:
        certified = sum(attack.certified for attack in self.attacks)
        worst = self.worst
        claim = f"{self.missed} of {certified} certified intervals missed the truth. " if certified else ""
        if worst.fooled < 0.005:
            return f"{claim}No report lies above the truth by more than half a percent."
        return f"{claim}The worst report, after {worst.attack}, lies {worst.fooled:.1%} above the truth."

    def chart(self) -> Chart:
        """What was reported of each last predictor beside what it is worth on fresh rows."""
        shown = [attack for attack in self.attacks if attack.reported is not None]
        values = [attack.reported for attack in shown]
        return intervals(
            [attack.attack for attack in shown],
            values,
            [attack.reported if attack.low is None else attack.low for attack in shown],
            [attack.reported if attack.high is None else attack.high for attack in shown],
            truths=[attack.truth for attack in shown],
            title="What attackers are told, and the truth",
            x_title="accuracy of the attacker's last predictor",
        )


def _cells(attack: Attacked) -> tuple[str, ...]:
    interval = "none" if attack.low is None or attack.high is None else f"{attack.low:.3f} to {attack.high:.3f}"
    reported = "refused" if attack.reported is None else f"{attack.reported:.3f}"
    real = "unknown" if attack.holdout is None else f"{attack.holdout:.3f}"
    missed = f"{attack.missed} of {attack.certified}" if attack.certified else "none given"
    counts = f"{attack.asked:,}", f"{attack.answered:,}"
    return (attack.attack, *counts, reported, interval, real, f"{attack.truth:.3f}", missed)


def suite(
    oracle: Score | HoldoutChecker | None,
    *,
    labels: ArrayLike,
    questions: int = 1000,
    seed: int = 0,
    metric: str = "accuracy",
    only: Sequence[str] = (),
    renew: Callable[[], Score | HoldoutChecker] | None = None,
) -> AttackReport:
    """Run every attack against a leaderboard function or a holdout, with ``questions`` questions each.

    ``labels`` (0 and 1) are used to say how the attacker really did; the attacker never sees them. An oracle with a
    memory should be made anew for each attack: give ``renew``, a function that makes one. ``metric="log loss"`` is for
    an oracle that takes chances and gives a mean log loss.
    """
    truth = np.asarray(labels)
    if truth.ndim != 1 or not np.isin(truth, (0, 1)).all():
        raise InvalidTask("labels must be one list of 0 and 1.")
    known: dict[str, Callable[..., Attacked]] = {"accuracy": ATTACKS, "log loss": _LOG_LOSS}.get(metric, {})
    unknown = [name for name in only if name not in known]
    if not known or unknown:
        raise InvalidTask(f"metric is 'accuracy' or 'log loss', attacks are {', '.join(known or ATTACKS)}.")
    given = {"n": truth.size, "questions": questions, "seed": seed, "labels": truth}
    make: Callable[[], Any] = renew or (lambda: oracle)
    guessing = hasattr(make(), "check")
    chosen = [name for name in known if (name in only if only else guessing or name not in _NEED_A_GUESS)]
    return AttackReport(tuple(known[name](make(), **given) for name in chosen))


_LOG_LOSS: dict[str, Callable[..., Attacked]] = {"log-loss reconstruction": log_loss_reconstruction}
