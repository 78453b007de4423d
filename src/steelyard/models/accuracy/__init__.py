"""Accuracy first: name the accuracy, and get the most private release that is certainly good enough.

Two questions are kept apart: a loss that must be at most a public number, and a loss that must be near the unknown
best one. Names load when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.models.accuracy._chart import path_chart
    from steelyard.models.accuracy._first_above import First, doubling, first_above
    from steelyard.models.accuracy._goal import Goal, Stop
    from steelyard.models.accuracy._reach import Reached, reach, within
    from steelyard.models.accuracy._telling import epsilons, say, teller
    from steelyard.models.accuracy._total import GradualSum

__all__ = [
    "First",
    "Goal",
    "GradualSum",
    "Reached",
    "Stop",
    "doubling",
    "epsilons",
    "first_above",
    "path_chart",
    "reach",
    "say",
    "teller",
    "within",
]
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
