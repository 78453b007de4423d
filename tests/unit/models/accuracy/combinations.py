"""Every search there is, by what is fitted, the currency, how it is checked and whose presence is hidden: one way to ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.bounding import Count, Sum
from steelyard.ledger import Account, open_account
from steelyard.models._fits import FitLinear, FitLogistic
from steelyard.models.accuracy._estimator import AccuracyFirst
from steelyard.noise import TestNoise
from steelyard.privacy import Unit, rows, users
from steelyard.session import Session
from steelyard.tables import read

N = 4000
DRAWS = np.random.default_rng(31)
X = DRAWS.uniform(-0.7, 0.7, (N, 2))
Y = np.clip(X @ [0.8, -0.5] + 0.05 * DRAWS.standard_normal(N), -1, 1)
C = (DRAWS.uniform(size=N) < 1 / (1 + np.exp(-(X @ [9.0, -6.0])))).astype(int)
TABLE = read({"a": X[:, 0], "b": X[:, 1], "y": Y, "c": C, "z": np.ones(N), "who": np.arange(N) // 2})
TASKS: dict[str, Any] = {
    "linear": FitLinear(["a", "b"], "y", -1, 1, x_bound=1),
    "logistic": FitLogistic(["a", "b"], "c", [0, 1], x_bound=1),
    "sum": Sum("z", cap=2),
    "count": Count(cap=2),
}
AMOUNTS = {"linear": (0.03, 0.05, 0.08), "logistic": (0.45, 0.5, 0.6), "sum": (0.0004, 0.0008, 0.01), "count": (0.0004, 0.0008, 0.01)}  # fmt: skip
NULL = {"linear": 1.5, "logistic": 1.5}
"""Targets that the model which predicts nothing meets."""


@dataclass(frozen=True)
class Combination:
    """One kind of search; ``amounts`` are three accuracies of it, the tightest first."""

    task: str
    delta: str | None
    check: str
    unit: Unit

    def __str__(self) -> str:
        currency = "pure" if self.delta is None else "gaussian"
        return f"{self.task} {currency} {self.check} {self.unit.kind} {self.unit.neighbours}"

    @property
    def amounts(self) -> tuple[float, float, float]:
        """Three accuracies, the tightest first."""
        return AMOUNTS[self.task]

    def account(self, epsilon: float = 60) -> Account:
        """An account that such a search may use."""
        given = {} if self.delta is None else {"delta": self.delta}
        return open_account(":memory:", "combination", unit=self.unit, epsilon=epsilon, **given)

    def ask(self, at: Account, amount: float, confidence: float = 0.9, *, seed: int = 1, **more: Any) -> AccuracyFirst:
        """Ask for an accuracy under the key "k"."""
        goal: dict[str, Any] = (
            {"target_loss": amount} if self.task in ("linear", "logistic") else {"relative_error": amount}
        )
        first = AccuracyFirst(TASKS[self.task], confidence=confidence, check=self.check, **goal)
        first.release(Session(TABLE, at, noise=TestNoise(seed)), key="k", **more)
        return first


def units(kind: str, *, replaced: bool) -> Unit:
    """Rows or users, added or replaced."""
    if not replaced:
        return rows() if kind == "rows" else users("who")
    given: dict[str, Any] = {"neighbours": "replace", "n": N if kind == "rows" else N // 2}
    return rows(**given) if kind == "rows" else users("who", **given)


def _all() -> list[Combination]:
    found = []
    for kind in ("rows", "users"):
        swapped, added = units(kind, replaced=True), units(kind, replaced=False)
        for task in ("linear", "logistic"):
            found += [Combination(task, delta, "auto", swapped) for delta in ("1e-6", None)]
            found += [Combination(task, "1e-6", "disjoint", unit) for unit in (swapped, added)]
        found += [Combination("sum", delta, "auto", added) for delta in ("1e-6", None)]
        found += [Combination("count", delta, "auto", swapped) for delta in ("1e-6", None)]
    return found


COMBINATIONS = _all()
MODELS = [each for each in COMBINATIONS if each.task in NULL]
