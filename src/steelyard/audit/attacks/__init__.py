"""Attacks on validation sets: what a hostile or merely persistent analyst gets out of a score.

Each takes an oracle (a function from predictions to a score, or a holdout), asks it ``questions`` times, and says what
was reported of the attacker's last predictor beside the truth. ``suite`` runs all of them.

>>> import numpy as np
>>> labels = np.random.default_rng(1).integers(0, 2, 1000)
>>> attacked = wacky_boosting(lambda p: float(np.mean(p == labels)), n=1000, questions=1000, labels=labels)
>>> attacked.reported > 0.75, attacked.truth
(True, 0.5...)
"""

from __future__ import annotations

from steelyard.audit.attacks._oracle import Attacked
from steelyard.audit.attacks._report import ATTACKS, AttackReport, suite
from steelyard.audit.attacks._strategies import (
    block_flip_climb,
    feature_selection,
    labels_per_question,
    log_loss_reconstruction,
    memorising,
    pair_flip_climb,
    threshold_riding,
    wacky_boosting,
)

__all__ = [
    "ATTACKS", "AttackReport", "Attacked", "block_flip_climb", "feature_selection", "labels_per_question",
    "log_loss_reconstruction", "memorising", "pair_flip_climb", "suite", "threshold_riding", "wacky_boosting",
]  # fmt: skip
