"""Accuracy first: name the accuracy, and get the most private release that is certainly good enough.

Two questions are kept apart: a loss that must be at most a public number, and a loss that must be near the unknown
best one. Names load when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.models.accuracy.chart import path_chart as path_chart
    from steelyard.models.accuracy.estimator import AccuracyFirst as AccuracyFirst
    from steelyard.models.accuracy.goal import CHECKS as CHECKS
    from steelyard.models.accuracy.goal import Certificate as Certificate
    from steelyard.models.accuracy.goal import Goal as Goal
    from steelyard.models.accuracy.goal import Stop as Stop
    from steelyard.models.accuracy.goal import loss_unit as loss_unit
    from steelyard.models.accuracy.reach import Reached as Reached
    from steelyard.models.accuracy.reach import epsilons as epsilons
    from steelyard.models.accuracy.reach import reach_linear as reach_linear
    from steelyard.models.accuracy.reach import reach_logistic as reach_logistic
    from steelyard.models.accuracy.reach import within as within
    from steelyard.models.accuracy.total import GradualSum as GradualSum

_HOMES: dict[str, str] = {
    "CHECKS": "goal",
    "AccuracyFirst": "estimator",
    "Certificate": "goal",
    "Reached": "reach",
    "Stop": "goal",
    "Goal": "goal",
    "GradualSum": "total",
    "epsilons": "reach",
    "loss_unit": "goal",
    "path_chart": "chart",
    "reach_linear": "reach",
    "reach_logistic": "reach",
    "within": "reach",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
