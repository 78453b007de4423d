"""A validation set that stays valid however often it is asked: certified and private checks, ladder, rounds, a planner.

Names load when first used, so importing this package costs nothing. The package is also the unit constructor of the
same public name: ``holdout("name")`` is a holdout whose validity is spent, in nats.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from steelyard.privacy import Unit
from steelyard.privacy import holdout as unit_of_holdout

if TYPE_CHECKING:
    from steelyard.holdout._answer import Answer
    from steelyard.holdout._classes import pack as pack
    from steelyard.holdout._holdout import Holdout
    from steelyard.holdout._metrics import AbsoluteError, Accuracy, Cost, LogLoss, PerExample, SquaredError
    from steelyard.holdout._modes import HIDING as HIDING
    from steelyard.holdout._modes._thresholdout import Thresholdout
    from steelyard.holdout._planner import plan
    from steelyard.holdout._question import Question
    from steelyard.holdout._ratios import F1Score, R2Score, RootSquaredError
    from steelyard.holdout._scorers import ClosedHoldout, RoundObjective
    from steelyard.holdout._theorems import Overfitting

__all__ = [
    "AbsoluteError",
    "Accuracy",
    "Answer",
    "ClosedHoldout",
    "Cost",
    "F1Score",
    "Holdout",
    "LogLoss",
    "Overfitting",
    "PerExample",
    "Question",
    "R2Score",
    "RootSquaredError",
    "RoundObjective",
    "SquaredError",
    "Thresholdout",
    "plan",
]
_HOMES: dict[str, str] = {
    **dict.fromkeys(("AbsoluteError", "Accuracy", "Cost", "LogLoss", "PerExample", "SquaredError"), "_metrics"),
    "Answer": "_answer",
    "ClosedHoldout": "_scorers",
    "F1Score": "_ratios",
    "HIDING": "_modes",
    "Holdout": "_holdout",
    "Overfitting": "_theorems",
    "Question": "_question",
    "R2Score": "_ratios",
    "RootSquaredError": "_ratios",
    "RoundObjective": "_scorers",
    "Thresholdout": "_modes._thresholdout",
    "pack": "_classes",
    "plan": "_planner",
}


class _Holdout(ModuleType):
    """A module that can be called, because ``holdout`` names both a package and a unit of validity."""

    def __call__(self, name: str) -> Unit:
        """The holdout of this name, whose validity is spent."""
        return unit_of_holdout(name)

    def __getattr__(self, name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{self.__name__}.{_HOMES[name]}"), name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Holdout
