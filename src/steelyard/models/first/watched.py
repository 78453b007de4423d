"""A Laplace path under a watch: sharpen one statistic, ask of each model whether it is good enough, stop at the first.

The path is one entry whose level rises, the watch another that is charged in full: all that is ever released under a key
costs the watches that were bought and the path's last level, whatever was answered (docs/proofs/pure_paths.md).
Law: every price is known before its step is drawn; stored levels and answers are read back, never redrawn; a model that
did not pass is never said to have passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from steelyard.desk import Desk
from steelyard.errors import BudgetExceeded
from steelyard.models.first import watch
from steelyard.models.first.certificate import Array
from steelyard.models.first.outcome import Found, Stop
from steelyard.models.first.ridge_path import CAP, IMPOSSIBLE, MET, NULL, WHOLE
from steelyard.models.first.rising import Rising
from steelyard.privacy import MICRO
from steelyard.release import Outcome, Release
from steelyard.tables import Table

Progress = Callable[[Stop], None]


def share_of(rank: int) -> float:
    """The share of the failure probability for the watch of this rank; those of all ranks make at most one."""
    return 0.9 * 0.1**rank


@dataclass(frozen=True)
class Candidate:
    """A released model in whole steps, what its predictions are clipped to, and how its room is found."""

    steps: tuple[int, ...]
    reach: int
    room: Callable[[Table], int]

    @property
    def null(self) -> bool:
        """Whether it predicts nothing."""
        return not any(self.steps)


class Course(Protocol):
    """What differs between kinds of models: levels, models, and what is read."""

    @property
    def bound(self) -> float:
        """What may be said of a model that passed."""

    def watch(self, failure: float) -> watch.Watch:
        """The watch to buy, from public numbers."""

    def levels(self) -> Sequence[int]:
        """The levels of the path, from public numbers."""

    def null(self) -> Candidate:
        """The model that predicts nothing."""

    def candidate(self, release: Release) -> Candidate:
        """The model that a release gives."""

    def model(self, steps: Sequence[int]) -> Array:
        """Whole steps as the weights they stand for."""

    def read(self, table: Table) -> tuple[str, Sequence[int]]:
        """The seal of the rows, and the integers that the path hides; read once in a call."""

    def tell(self, noised: list[int], facts: dict[str, Any]) -> Outcome:
        """A release of the path."""


class Walk:
    """One question served along a path: ``found`` is all that may be handed out."""

    def __init__(self, desk: Desk, rising: Rising, course: Course, name: str, progress: Progress | None) -> None:
        self._desk, self._rising, self._course = desk, rising, course
        self._name, self._progress = name, progress
        self._watches, self._levels = watch.kept(desk), [_level(*kept) for kept in enumerate(rising.kept())]
        self._history: list[Stop] = []
        self._bought, self._reason = 0, IMPOSSIBLE
        self._last: Candidate | None = None
        self._null, self._shown = False, 0

    def found(self, confidence: float) -> Found:
        """Read back what is known; else buy a watch and go on until a model passes, the levels end, or the budget does."""
        self._remember()
        told = watch.passed(self._watches, self._name)
        if told is not None:
            return self._settled(told)
        self._history += self._levels[self._shown :]
        self._rising.compare()
        try:
            self._go((1 - confidence) * share_of(len(self._watches)))
        except BudgetExceeded:
            self._reason = CAP
        last, bound = self._last, self._course.bound if self._reason in (MET, NULL) else math.inf
        reach = 1.0 if last is None else last.reach / WHOLE
        return Found(self._model(last), bound, self._reason, tuple(self._history), self.spent, reach=reach)

    @property
    def spent(self) -> int:
        """All watches under the key, and the path's level."""
        return sum(each.micro for each in self._watches) + self._bought + self._rising.spent

    def _go(self, failure: float) -> None:
        bought = self._course.watch(failure)
        watching = watch.Watching(self._desk, bought, len(self._watches), self._name)
        self._bought = bought.micro
        self._tell(Stop(f"watch {watching.index}", bought.micro / MICRO))
        releases = self._rising.releases
        first = self._course.candidate(releases[-1]) if releases else self._course.null()
        if self._passes(watching, first, len(releases)):
            return
        for micro in self._course.levels():
            if releases and micro <= int(releases[-1].point["micro"]):
                continue
            if not watching.left:
                return
            release = self._rising.take(micro, self._course.read, self._course.tell)
            self._tell(_level(len(releases) - 1, release))
            if self._passes(watching, self._course.candidate(release), len(releases)):
                return

    def _passes(self, watching: watch.Watching, candidate: Candidate, level: int) -> bool:
        self._last = candidate
        if candidate.null and self._null:
            return False  # the model that predicts nothing was asked about before
        self._null = self._null or candidate.null
        facts = {"model": [str(k) for k in candidate.steps], "reach": candidate.reach, "level": level}
        passed = watching.ask(candidate.room, facts)
        self._tell(_answered(level, passed))
        if passed:
            self._reason = NULL if candidate.null else MET
        return passed

    def _remember(self) -> None:
        """The line of steps that earlier watches for this very question saw."""
        for index, each in enumerate(self._watches):
            if each.name != self._name:
                continue
            before = int(each.told[0].facts["level"]) if each.told else self._shown
            self._show(before)
            self._history.append(Stop(f"watch {index}", each.micro / MICRO))
            for told in each.told:
                self._show(int(told.facts["level"]))
                self._history.append(_answered(int(told.facts["level"]), told.passed))

    def _show(self, levels: int) -> None:
        """The levels up to so many, each once."""
        self._history += self._levels[self._shown : levels]
        self._shown = max(self._shown, levels)

    def _settled(self, told: watch.Told) -> Found:
        """What this very question was answered before, for nothing."""
        steps = tuple(int(k) for k in told.facts["model"])
        reason, reach = MET if any(steps) else NULL, int(told.facts["reach"]) / WHOLE
        return Found(
            self._course.model(steps), self._course.bound, reason, tuple(self._history), self.spent, reach=reach
        )

    def _model(self, last: Candidate | None) -> Array | None:
        return None if last is None else self._course.model(last.steps)

    def _tell(self, stop: Stop) -> None:
        self._history.append(stop)
        if self._progress is not None:
            self._progress(stop)


def _answered(level: int, passed: bool) -> Stop:
    """Asking costs nothing beyond the watch."""
    return Stop(f"question at level {level - 1}" if level else "question about no model", 0.0, passed=passed)


def _level(index: int, release: Release) -> Stop:
    """What the path has cost with this level: all levels before it are included."""
    return Stop(f"level {index}", int(release.point["micro"]) / MICRO)
