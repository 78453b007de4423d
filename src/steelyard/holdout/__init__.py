"""A validation set that stays valid however often it is asked: planner, certified checks, private checks, ladder, rounds.

Names load when first used, so importing this package costs nothing. The package is also the unit constructor of the
same public name: ``holdout("name")`` is a holdout whose validity is spent, in nats.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from steelyard.privacy import Unit
from steelyard.privacy import holdout as unit_of_holdout

_HOMES: dict[str, str] = {
    "AbsoluteError": "metrics",
    "Accuracy": "metrics",
    "Answer": "answer",
    "Brier": "metrics",
    "Cost": "metrics",
    "Holdout": "holdout",
    "LogLoss": "metrics",
    "Packed": "packed",
    "PerExample": "metrics",
    "Question": "question",
    "Plan": "planner",
    "RoundObjective": "trials",
    "SquaredError": "metrics",
    "pack": "packed",
    "plan": "planner",
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
        return sorted({*super().__dir__(), *_HOMES})


sys.modules[__name__].__class__ = _Holdout
