"""Attacks on validation sets: what a hostile or merely persistent analyst gets out of a score.

Each takes an oracle (a function from predictions to a score, or a holdout), asks it ``questions`` times, and says what
was reported of the attacker's last predictor beside the truth. ``ATTACKS`` names them, ``suite`` runs all of them.

>>> import numpy as np
>>> labels = np.random.default_rng(1).integers(0, 2, 1000)
>>> attacked = wacky_boosting(lambda p: float(np.mean(p == labels)), n=1000, questions=1000, labels=labels)
>>> attacked.reported > 0.75, attacked.truth
(True, 0.5...)
"""

from __future__ import annotations

from steelyard.audit.attacks._oracle import Attacked
from steelyard.audit.attacks._report import ATTACKS, suite
from steelyard.audit.attacks._strategies import feature_selection, wacky_boosting

__all__ = ["ATTACKS", "Attacked", "feature_selection", "suite", "wacky_boosting"]
