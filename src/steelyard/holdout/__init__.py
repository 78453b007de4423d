"""A validation set that stays valid however often it is asked: planner, certified checks, private checks, ladder, rounds.

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
    from steelyard.holdout.answer import Answer as Answer
    from steelyard.holdout.classes import Packed as Packed
    from steelyard.holdout.classes import pack as pack
    from steelyard.holdout.holdout import Holdout as Holdout
    from steelyard.holdout.metrics import AbsoluteError as AbsoluteError
    from steelyard.holdout.metrics import Accuracy as Accuracy
    from steelyard.holdout.metrics import Brier as Brier
    from steelyard.holdout.metrics import Cost as Cost
    from steelyard.holdout.metrics import LogLoss as LogLoss
    from steelyard.holdout.metrics import Metric as Metric
    from steelyard.holdout.metrics import PerExample as PerExample
    from steelyard.holdout.metrics import SquaredError as SquaredError
    from steelyard.holdout.modes import HIDING as HIDING
    from steelyard.holdout.modes.thresholdout import Thresholdout as Thresholdout
    from steelyard.holdout.planner import HoldoutPlan as HoldoutPlan
    from steelyard.holdout.planner import plan as plan
    from steelyard.holdout.question import Question as Question
    from steelyard.holdout.scorers import RoundObjective as RoundObjective

_HOMES: dict[str, str] = {
    "HIDING": "modes",
    "AbsoluteError": "metrics",
    "Accuracy": "metrics",
    "Answer": "answer",
    "Brier": "metrics",
    "Cost": "metrics",
    "Holdout": "holdout",
    "HoldoutPlan": "planner",
    "LogLoss": "metrics",
    "Metric": "metrics",
    "Packed": "classes",
    "PerExample": "metrics",
    "Question": "question",
    "RoundObjective": "scorers",
    "SquaredError": "metrics",
    "Thresholdout": "modes.thresholdout",
    "pack": "classes",
    "plan": "planner",
}
__all__ = list(_HOMES)


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
        return sorted({*super().__dir__(), *_HOMES})


sys.modules[__name__].__class__ = _Holdout
