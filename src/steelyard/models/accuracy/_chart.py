"""A picture of a path: what was certified after each step, against what had been paid by then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from steelyard.charts import Chart, Line, lines
from steelyard.models.accuracy._goal import Stop


def path_chart(
    path: Sequence[Stop],
    target: float,
    *,
    pure: bool | None = None,
    y_title: str = "loss",
) -> Chart:
    """Certified bounds and looks along a path, all in the units of the target.

    ``pure`` says that epsilon was spent, not mu squared; left out, the names of the steps say so.
    """
    watched = any(stop.step.startswith("watch") for stop in path)
    pure = watched or any(stop.step.startswith("pure") for stop in path) if pure is None else pure
    size = float if pure else math.sqrt
    levels = [stop for stop in path if _is_level(stop)]
    spent = [size(_level(stop)) for stop in levels]
    certified = [(size(_level(stop)), stop.bound) for stop in levels if stop.bound is not None]
    looks = [(size(_total(path, s)), target if s.passed else None) for s in path if s.passed is not None]
    reached = [x for x, _ in (*certified, *looks)] or spent
    reached = reached or [size(_total(path, stop)) for stop in path[-1:]]  # nothing but the size of the labels
    told = [(size(_total(path, stop)), stop.loss) for stop in path if stop.loss is not None and stop.loss > 0]
    passed = "passed a question" if watched else "passed a paid look"  # drawn above the target, whose line ends there
    return lines(
        [
            _line("certified for free", certified),
            _line("loss, as looks told it", told),
            _line("target", [(x, target) for x in (min(spent or reached), max(reached))] if reached else []),
            _line(passed, looks),
        ],
        title="What was certain, and what it had cost by then",
        x_title="epsilon spent" if pure else "mu spent",
        y_title=y_title,
        log_x=bool(reached) and min(spent or reached) > 0,
        log_y=True,
        caption=_caption(len(spent), len(looks), "question" if watched else "paid look")
        if path
        else "Nothing was spent.",
    )


def relative(path: Sequence[Stop], total: float) -> list[Stop]:
    """A path whose bounds are parts of the total that it ended with: h is within h/(|total| - h) of what it may be."""
    return [
        replace(stop, bound=stop.bound / (abs(total) - stop.bound) if stop.bound < abs(total) else None)
        for stop in path
        if stop.bound is not None
    ]


def _line(label: str, points: Sequence[tuple[float, float | None]]) -> Line:
    return Line(label, [x for x, _ in points], [y for _, y in points])


def _level(stop: Stop) -> float:
    """What a level had cost, or the account by then where the path says that."""
    return stop.mu2 if stop.paid is None else stop.paid


def _total(path: Sequence[Stop], until: Stop) -> float:
    """What everything up to a look had cost: the last level (levels replace each other), the label, watches and looks.

    Where the path says what the account had paid, that: parts of a table may cost the dearer one alone.
    """
    if until.paid is not None:
        return until.paid
    total, level = 0.0, 0.0
    for stop in path:
        if _is_level(stop):
            level = stop.mu2
        else:
            total += stop.mu2
        if stop is until:
            break
    return total + level


def _is_level(stop: Stop) -> bool:
    """Whether a step is one of the path's own: looks, the size of the labels and watches are paid for beside it."""
    return stop.passed is None and not stop.step.startswith(("size", "watch"))


def _caption(levels: int, looks: int, look: str) -> str:
    counted = ((levels, "measurement"), (looks, look))
    return ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counted) + "."
