"""Classifiers within an excess of the best, under one key: each is a single release, kept, counted, and never sharpened.

The key names the model (features, classes, penalty), as it does for a target; how near the best is asked of it, and every
draw that an answer needs is a step of its own at its full price. What is stored answers the same question, and any looser
one, for nothing: which draw is handed out depends on what was asked, never on what was drawn.
Law: each stored draw counts in what the key has spent, whatever is asked later.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from steelyard.desk import Desk
from steelyard.models.accuracy.one_shot import LogisticTask
from steelyard.models.accuracy.steps import all_stored, bought
from steelyard.noise import Noise
from steelyard.release import Outcome, Release
from steelyard.tables import Table


class NearBest:
    """The stored draws of one key, in order, and how another is bought."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.kept: list[Release] = []
        self._next = 0
        while found := all_stored(desk, f"excess {self._next}"):
            self.kept += found
            self._next += 1

    @property
    def spent(self) -> int:
        """What all draws cost, in the ledger's smallest units."""
        return sum(release.guarantee.spent.amount for release in self.kept)

    def reach(self, task: LogisticTask) -> Release:
        """The draw for this very question; else the first that is near enough and sure enough; else a new one."""
        close = [release for release in self.kept if _answers(release, task)]
        return next((each for each in close if _same(each, task)), close[0] if close else None) or self._new(task)

    def _new(self, task: LogisticTask) -> Release:
        plan = task.plan(self._desk.schema, self._desk.terms)

        def compute(table: Table, noise: Noise) -> Outcome:
            drawn = plan.run(table, noise)
            return replace(drawn, point={**drawn.point, "alpha": task.alpha, "confidence": task.confidence})

        for index in count(self._next):  # pragma: no branch - a step that somebody else stored meanwhile counts too
            charge = bought(self._desk, plan.event, f"excess {index}")
            self.kept.append(self._desk.answer(charge, plan.event, compute))
            if _same(self.kept[-1], task):
                break
        return self.kept[-1]


def _same(release: Release, task: LogisticTask) -> bool:
    point: Any = release.point
    return bool(point["alpha"] == task.alpha and point["confidence"] == task.confidence)


def _answers(release: Release, task: LogisticTask) -> bool:
    point: Any = release.point
    return bool(point["excess"] <= task.alpha and point["confidence"] >= task.confidence)
