"""A picture of a path: what was certified after each step, against what had been paid by then."""

from __future__ import annotations

import math
from collections.abc import Sequence

from steelyard.charts import Chart, Line, lines
from steelyard.models.first.outcome import Stop


def path_chart(path: Sequence[Stop], target: float, *, scale: float = 1.0) -> Chart:
    """Certified bounds and looks along a path; ``scale`` turns bounds into the units of the target."""
    watched = any(stop.step.startswith("watch") for stop in path)  # epsilon was spent, not mu squared
    size = float if watched else math.sqrt
    spent, looks = [], []
    certified: list[tuple[float, float]] = []
    for stop in path:
        if stop.passed is not None or _aside(stop):
            if stop.passed is not None:
                looks.append((size(_total(path, stop)), target if stop.passed else None))
            continue
        spent.append(size(_level(stop)))
        if stop.bound is not None:
            certified.append((size(_level(stop)), stop.bound * scale))
    reached = [x for x, _ in (*certified, *((x, 0.0) for x, _ in looks))] or spent or [1.0]
    series = [Line("certified for free", [x for x, _ in certified], [y for _, y in certified])] if certified else []
    told = [(size(_total(path, stop)), stop.loss * scale) for stop in path if stop.loss is not None and stop.loss > 0]
    series += [Line("loss, as looks told it", [x for x, _ in told], [y for _, y in told])] if told else []
    series += [Line("target", [min(spent or reached), max(reached)], [target, target])]
    passed = "passed a question" if watched else "passed a paid look"  # drawn above the target, whose line ends there
    series += [Line(passed, [x for x, _ in looks], [y for _, y in looks])] if looks else []
    return lines(
        series,
        title="What was certain, and what it had cost by then",
        x_title="epsilon spent" if watched else "mu spent",
        y_title="loss",
        log_x=min(spent or reached) > 0,
        log_y=True,
        caption=_caption(len(spent), len(looks), "question" if watched else "paid look"),
    )


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
        if stop.passed is None and not _aside(stop):
            level = stop.mu2
        else:
            total += stop.mu2
        if stop is until:
            break
    return total + level


def _aside(stop: Stop) -> bool:
    """Whether a step is paid for beside the path: the size of the labels, or a watch."""
    return stop.step.startswith(("label", "watch"))


def _caption(levels: int, looks: int, look: str) -> str:
    counted = ((levels, "measurement"), (looks, look))
    return ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counted) + "."
