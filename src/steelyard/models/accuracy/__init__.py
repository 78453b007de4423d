"""Accuracy first: name the accuracy, and get the most private release that is certainly good enough.

Two questions are kept apart: a loss that must be at most a public number, and a loss that must be near the unknown
best one. Names load when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.models.accuracy._chart import path_chart as path_chart
    from steelyard.models.accuracy._first_above import First, doubling, first_above
    from steelyard.models.accuracy._goal import Goal
    from steelyard.models.accuracy._goal import Stop as Stop
    from steelyard.models.accuracy._reach import Reached as Reached
    from steelyard.models.accuracy._reach import reach
    from steelyard.models.accuracy._reach import within as within
    from steelyard.models.accuracy._telling import epsilons as epsilons
    from steelyard.models.accuracy._telling import say as say
    from steelyard.models.accuracy._telling import teller as teller
    from steelyard.models.accuracy._total import GradualSum

__all__ = ["First", "Goal", "GradualSum", "doubling", "first_above", "reach"]
_HOMES = {
    "_chart": ("path_chart",),
    "_first_above": ("First", "doubling", "first_above"),
    "_goal": ("Goal", "Stop"),
    "_reach": ("Reached", "reach", "within"),
    "_telling": ("epsilons", "say", "teller"),
    "_total": ("GradualSum",),
}
__getattr__ = loading(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
