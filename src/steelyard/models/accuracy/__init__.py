"""Accuracy first: name the accuracy, and get the most private release that is certainly good enough.

Two questions are kept apart: a loss that must be at most a public number, and a loss that must be near the unknown
best one. Names load when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.models.accuracy._chart import path_chart as path_chart
    from steelyard.models.accuracy._first_above import First as First
    from steelyard.models.accuracy._first_above import doubling as doubling
    from steelyard.models.accuracy._first_above import first_above as first_above
    from steelyard.models.accuracy._goal import Goal as Goal
    from steelyard.models.accuracy._goal import Stop as Stop
    from steelyard.models.accuracy._goal import loss_unit as loss_unit
    from steelyard.models.accuracy._reach import Reached as Reached
    from steelyard.models.accuracy._reach import epsilons as epsilons
    from steelyard.models.accuracy._reach import reach_linear as reach_linear
    from steelyard.models.accuracy._reach import reach_logistic as reach_logistic
    from steelyard.models.accuracy._reach import within as within
    from steelyard.models.accuracy._total import GradualSum as GradualSum

_HOMES: dict[str, str] = {
    "First": "_first_above",
    "Goal": "_goal",
    "GradualSum": "_total",
    "Reached": "_reach",
    "Stop": "_goal",
    "doubling": "_first_above",
    "epsilons": "_reach",
    "first_above": "_first_above",
    "loss_unit": "_goal",
    "path_chart": "_chart",
    "reach_linear": "_reach",
    "reach_logistic": "_reach",
    "within": "_reach",
}
__all__ = [
    "First",
    "Goal",
    "GradualSum",
    "Reached",
    "Stop",
    "doubling",
    "epsilons",
    "first_above",
    "loss_unit",
    "path_chart",
    "reach_linear",
    "reach_logistic",
    "within",
]

__getattr__ = loading(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
