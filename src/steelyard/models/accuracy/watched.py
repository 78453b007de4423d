"""Models under a watch: draw a sharper one, ask whether it is good enough, stop at the first that is.

A ridge path is one entry whose level rises, a logistic one a row of draws; the watch is an entry of its own, charged in
full. All that is ever released under a key costs the watches and the path, whatever was answered
(docs/proofs/pure_paths.md).
Law: every price is known before its step is drawn; stored levels and answers are read back, never redrawn; a model that
did not pass is never said to have passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from steelyard.desk import Desk
from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.models.accuracy import watch
from steelyard.models.accuracy.certificate import Array
from steelyard.models.accuracy.implied import Asked, answering
from steelyard.models.accuracy.outcome import Found, Stop
from steelyard.models.accuracy.ridge_path import CAP, IMPOSSIBLE, MET, NULL
from steelyard.models.accuracy.transcript import Transcript
from steelyard.privacy import MICRO
from steelyard.release import Release
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


class Levels(Protocol):
    """The stored levels of a path, each sharper than the one before."""

    releases: list[Release]

    def kept(self) -> list[Release]:
        """Those that are stored, read back once."""

    def cost(self, index: int) -> int:
        """What the path has cost with this level."""


class Course(Protocol):
    """What differs between kinds of models: levels, models, and what is read."""

    @property
    def path(self) -> Levels:
        """The levels drawn so far."""

    @property
    def bound(self) -> float:
        """What may be said of a model that passed."""

    @property
    def watches(self) -> int:
        """How many watches one call may buy, each sharper than the one before."""

    @property
    def patience(self) -> float:
        """How many times its watch's price a level may cost before a sharper watch is bought first."""

    def watch(self, failure: float, bought: int) -> watch.Watch:
        """The watch to buy when so many were bought, from public numbers."""

    def levels(self) -> Sequence[int]:
        """The levels of the path, from public numbers."""

    def null(self) -> Candidate | None:
        """The model that predicts nothing, where it may be good enough."""

    def take(self, micro: int) -> Release:
        """Pay for a level, draw it, store it, and read it back."""

    def candidate(self) -> Candidate:
        """The model that the levels so far give."""

    def model(self, steps: Sequence[int]) -> Array:
        """Whole steps as the weights they stand for."""

    def clipped(self, reach: int) -> dict[str, float]:
        """What ``Found`` says of a model's predictions."""


class Walk:
    """One question served along a path: ``found`` is all that may be handed out."""

    def __init__(self, desk: Desk, course: Course, name: str, progress: Progress | None) -> None:
        self._desk, self._course, self._progress = desk, course, progress
        kept = course.path.kept()
        self._watches, self._levels = watch.kept(desk), [self._level(index) for index in range(len(kept))]
        self._name = _answering(name, self._watches)
        self._history: list[Stop] = []
        self._bought: list[watch.Watch] = []
        self._watching: watch.Watching | None = None
        self._rank, self._reason = self._watches[-1].index + 1 if self._watches else 0, IMPOSSIBLE
        self._last: Candidate | None = None
        self._null, self._shown = False, 0

    def found(self, confidence: float) -> Found:
        """Read back what is known; else buy a watch and go on until a model passes, or levels or budget end."""
        if not (self._course.bound > 0 and 0 < confidence < 1):
            raise InvalidTask("an accuracy is a number above zero, and a confidence lies between 0 and 1.")
        self._remember()
        told = watch.passed(self._watches, self._name)
        if told is not None:
            return self._settled(told)
        self._history += self._levels[self._shown :]
        try:
            self._go(1 - confidence)
        except BudgetExceeded:
            self._reason = CAP
        met = self._reason in (MET, NULL)  # else the sharpest model there is, whether or not a watch was left to ask
        last = self._course.candidate() if self._course.path.releases and not met else self._last
        if last is None:
            return Found(None, math.inf, self._reason, tuple(self._history), self.spent)
        return self._ended(last.steps, last.reach, self._reason)

    @property
    def spent(self) -> int:
        """All watches under the key, and the path, whoever bought them."""
        return Transcript.of(self._desk).spent

    def _go(self, failure: float) -> None:
        course, releases = self._course, self._course.path.releases
        self._buy(failure)
        if self._passes(course.candidate() if releases else course.null()):
            return
        for micro in course.levels():
            if releases and micro <= int(releases[-1].point["micro"]):
                continue
            if releases and micro > course.patience * self._bought[-1].micro and self._sharper(failure):
                return
            course.take(micro)
            self._tell(self._level(len(releases) - 1))
            if self._passes(course.candidate()):
                return
        while len(self._bought) < course.watches:
            if self._sharper(failure):
                return

    def _buy(self, failure: float) -> None:
        count, levels = len(self._bought), len(self._course.path.releases)
        make = lambda rank: self._course.watch(failure * share_of(rank), count)  # noqa: E731
        self._watching = watch.Watching(self._desk, make, self._rank, self._name, levels)
        self._rank = self._watching.index + 1
        self._bought.append(self._watching.watch)
        self._tell(Stop(f"watch {self._watching.index}", self._watching.watch.micro / MICRO))

    def _sharper(self, failure: float) -> bool:
        """Whether the present model passes a sharper watch, where one may yet be bought."""
        if len(self._bought) >= self._course.watches:
            return False
        self._buy(failure)
        return self._passes(self._course.candidate())

    def _passes(self, candidate: Candidate | None) -> bool:
        if candidate is None or self._watching is None or not self._watching.left:
            return False
        self._last, level = candidate, len(self._course.path.releases)
        if candidate.null and self._null:
            return False  # the model that predicts nothing was asked about before
        self._null = self._null or candidate.null
        facts = {"model": [str(k) for k in candidate.steps], "reach": candidate.reach, "level": level}
        passed = self._watching.ask(candidate.room, facts)
        self._tell(_answered(level, passed))
        if passed:
            self._reason = NULL if candidate.null else MET
        return passed

    def _remember(self) -> None:
        """The line of steps that earlier watches for this very question saw."""
        for each in self._watches:
            if each.name != self._name:
                continue
            self._show(each.levels)
            self._history.append(Stop(f"watch {each.index}", each.micro / MICRO))
            for told in each.told:
                self._show(int(told.facts["level"]))
                self._history.append(_answered(int(told.facts["level"]), told.passed))

    def _show(self, levels: int) -> None:
        """The levels up to so many, each once."""
        self._history += self._levels[self._shown : levels]
        self._shown = max(self._shown, levels)

    def _settled(self, told: watch.Told) -> Found:
        """What this very question, or a tighter one, was answered before, for nothing."""
        steps = tuple(int(k) for k in told.facts["model"])
        return self._ended(steps, int(told.facts["reach"]), MET if any(steps) else NULL)

    def _ended(self, steps: Sequence[int], reach: int, reason: str) -> Found:
        bound = self._course.bound if reason in (MET, NULL) else math.inf
        model, history, clipped = self._course.model(steps), tuple(self._history), self._course.clipped(reach)
        return replace(Found(model, bound, reason, history, self.spent), **clipped)  # type: ignore[arg-type]

    def _level(self, index: int) -> Stop:
        return Stop(f"level {index}", self._course.path.cost(index) / MICRO)

    def _tell(self, stop: Stop) -> None:
        self._history.append(stop)
        if self._progress is not None:
            self._progress(stop)


def _answering(name: str, watches: Sequence[watch.Kept]) -> str:
    """The question whose answer this one's is: one that passed and asked for no less, or itself."""
    asked, passed = Asked.of(name), [each.name for each in watches if any(told.passed for told in each.told)]
    return name if asked is None else next((other.name for other in answering(asked, passed)), name)


def _answered(level: int, passed: bool) -> Stop:
    """Asking costs nothing beyond the watch."""
    return Stop(f"question at level {level - 1}" if level else "question about no model", 0.0, passed=passed)
