"""A sum or a count that is sharpened until its relative error is small enough, and not one step further.

On a Gaussian account every step is an independent measurement with its own price. On a pure account the path is one
entry whose level rises: each release refines the last one and needs the very same total, so the path is bound to it
by a digest under a seal of the ledger's own key (docs/proofs/accuracy_first_paths.md).
Law: the levels are fixed by the account's terms; the promise covers the noise, and what the cap cuts off is said beside it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from steelyard.bounding import Amount, Bounds, Count, Spend, Sum, check_unit
from steelyard.desk import Desk
from steelyard.errors import BudgetExceeded, CurrencyMismatch, InvalidTask, KeyConflict
from steelyard.mechanisms import Gaussian, sigma_for
from steelyard.models.accuracy.outcome import Stop
from steelyard.models.accuracy.quantiles import normal_quantile
from steelyard.models.accuracy.rising import Rising
from steelyard.models.accuracy.steps import MEANWHILE, all_stored, bought
from steelyard.models.accuracy.transcript import Transcript
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Currency, Neighbours, Terms
from steelyard.release import Error, Outcome, Release
from steelyard.tables import Quantity, Schema, Table

STOPS, RATIO = 24, 1.25
Progress = Callable[[Stop], None]


@dataclass(frozen=True)
class TotalSearch:
    """Open with ``session.open(TotalSearch(Sum("amount", cap=100)), key=...)``, then ``.reach(relative_error, confidence)``."""

    task: Sum | Count

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        check_unit(schema, terms)
        if terms.currency is Currency.NATS:
            raise CurrencyMismatch("this account counts validity in nats; a private total needs epsilon.")
        if self.task.by is not None:
            raise InvalidTask("a path sharpens one total; leave by= out.")
        self.bounds(schema, terms)

    def bounds(self, schema: Schema, terms: Terms) -> Bounds:
        """The public bounds of one unit's total: a number, or a profile that was paid for."""
        found = replace(self.task, epsilon=1, mu=None).request(schema, terms).fixed
        if found is None:
            raise InvalidTask("a path needs its cap beforehand: give cap= a number, or a released profile.")
        return found

    def start(self, desk: Desk) -> GaussianTotal | LaplaceTotal:
        """Begin, or pick up where the stored steps left off."""
        kind = GaussianTotal if desk.terms.currency is Currency.GAUSSIAN else LaplaceTotal
        return kind(self, desk)


@dataclass(frozen=True)
class Total:
    """What a path ended with: the last release, whether it is sharp enough, and every step."""

    release: Release | None
    reason: str
    path: tuple[Stop, ...]
    interval: float
    spent: int


class _TotalPath(ABC):
    """What both kinds share: the grid, the question, and the rule for stopping."""

    def __init__(self, search: TotalSearch, desk: Desk) -> None:
        self._search, self._desk = search, desk
        self._bounds = search.bounds(desk.schema, desk.terms)
        grid = Spend(True, MICRO)  # the grid must not change between steps, so it is that of mu = 1
        self._amount = Amount.of_values(self._bounds.lower, self._bounds.upper, grid)

    def reach(self, relative_error: float, confidence: float, *, progress: Progress | None = None) -> Total:
        """Sharpen until the total is within ``relative_error`` of itself, with this confidence for the noise."""
        failure = (1 - confidence) / STOPS
        last, history = self._stored(failure)
        while not (last is not None and good(last, relative_error)):
            wanted = self._wanted(last, relative_error, failure)
            if wanted is None:
                return self._end(last, "cap_reached", history)
            try:
                last = self._take(wanted, failure)
            except BudgetExceeded:
                return self._end(last, "cap_reached", history)
            history.append(Stop(f"level {len(history)}", last.level, last.half))
            if progress is not None:
                progress(history[-1])
        return self._end(last, "target_met", history)

    def _end(self, last: Step | None, reason: str, history: list[Stop]) -> Total:
        release = None if last is None else last.release
        return Total(
            release, reason, tuple(history), math.inf if last is None else last.half, Transcript.of(self._desk).spent
        )

    def _total(self, table: Table) -> int:
        amount, task = self._amount, self._search.task
        column = task.column if isinstance(task, Sum) else None
        return table.capped_sum(self._desk.terms.unit, Quantity(column, amount.step), amount.lower, amount.upper)

    def _levels(self) -> list[int]:
        """The stops, up to the whole account: millionths of mu, or of epsilon."""
        terms = self._desk.terms
        amount = terms.cap.amount
        top = math.isqrt(amount) if terms.currency is Currency.GAUSSIAN else amount
        if terms.unit.neighbours is Neighbours.REPLACE:
            top //= 2
        stops = [math.floor(top / RATIO**k) for k in range(STOPS - 1, -1, -1)]
        return [stop for stop in dict.fromkeys(stops) if stop >= 1]

    def _wanted(self, last: Step | None, relative_error: float, failure: float) -> int | None:
        """The level that should be sharp enough, never more than a few stops ahead of what is known."""
        ahead = [level for level in self._levels() if last is None or level > last.micro]
        if not ahead or last is None:
            return ahead[0] if ahead else None
        size = max(abs(last.value), last.half)
        needed = last.micro * last.half * (1 + relative_error) / (relative_error * size)
        return next((level for level in ahead[:8] if level >= needed), ahead[min(7, len(ahead) - 1)])

    def _told(self, value: float) -> float:
        return round(value) if isinstance(self._search.task, Count) else value

    @abstractmethod
    def _stored(self, failure: float) -> tuple[Step | None, list[Stop]]: ...

    @abstractmethod
    def _take(self, micro: int, failure: float) -> Step: ...


@dataclass(frozen=True)
class Step:
    """One release of a path: its level in millionths, its value, and how far off the noise may have put it."""

    micro: int
    level: float
    value: float
    half: float
    release: Release


def good(step: Step, relative_error: float) -> bool:
    """Whether the noise is small against the total itself, whatever it was within its interval."""
    return step.half <= relative_error * (abs(step.value) - step.half)


Measured = tuple[int, int, Release]
"""A step of a Gaussian path: what it cost, the integer that it measured, and its release, which averages all so far."""


def _read(release: Release) -> Measured:
    return int(release.point["cost"]), int(release.point["measured"]), release


def _cost(steps: list[Measured]) -> int:
    return sum(cost for cost, _, _ in steps)


def _follows(steps: list[Measured], step: Measured) -> bool:
    """Whether a release is the average of just these steps and its own: its level is what they cost together."""
    return _cost(steps) + step[0] == int(step[2].point["micro"]) ** 2


class GaussianTotal(_TotalPath):
    """Independent measurements, averaged by precision; a level m has cost exactly m squared."""

    def _measured(self) -> list[Measured]:
        """The sharpest row of stored steps that were averaged: of two askers at once each may have bought the next one."""
        best, grown = list[Measured](), [list[Measured]()]
        while grown:
            best = max([best, *grown], key=_cost)
            index = f"step {len(grown[0])}"
            kept = [_read(found) for found in all_stored(self._desk, index)]
            grown = [[*row, step] for row in grown for step in kept if _follows(row, step)]
        return best

    def _stored(self, failure: float) -> tuple[Step | None, list[Stop]]:
        self._steps = self._measured()
        steps = [self._step(self._steps[: i + 1], failure) for i in range(len(self._steps))]
        return (steps[-1] if steps else None), [Stop(f"level {i}", s.level, s.half) for i, s in enumerate(steps)]

    def _take(self, micro: int, failure: float) -> Step:
        spent = sum(cost for cost, _, _ in self._steps)
        step = Gaussian(self._amount.sensitivity, sigma_for(self._amount.sensitivity**2, micro**2 - spent))
        charge = bought(self._desk, step.event, f"step {len(self._steps)}")
        release = self._desk.answer(charge, step.event, lambda table, noise: self._measure(table, noise, step, micro))
        if not _follows(self._steps, _read(release)):
            raise KeyConflict(MEANWHILE)
        self._steps.append(_read(release))
        return self._step(self._steps, failure)

    def _measure(self, table: Table, noise: Noise, step: Gaussian, micro: int) -> Outcome:
        measured = step.release([self._total(table)], noise)[0]
        before = [(cost, value) for cost, value, _ in self._steps]
        cost = micro**2 - sum(paid for paid, _ in before)
        average = Fraction(sum(c * v for c, v in [*before, (cost, measured)]), micro**2)
        value = self._told(self._amount.back(round(average)))
        half = self._half(micro, 0.05)
        point = {"cap": float(self._bounds.upper), "cost": cost, "measured": measured, "micro": micro}
        return Outcome(value, Error(half / 2.4564, half, self._bounds.bias), point)

    def _half(self, micro: int, failure: float) -> float:
        sigma = self._amount.sensitivity * MICRO / micro
        return (normal_quantile(failure / 2) * sigma + 1) * float(self._amount.step)

    def _step(self, steps: list[Measured], failure: float) -> Step:
        micro = math.isqrt(sum(cost for cost, _, _ in steps))
        release = steps[-1][2]
        rounding = 0.5 if isinstance(self._search.task, Count) else 0.0
        half = self._half(micro, failure) + rounding
        return Step(micro, micro**2 / MICRO**2, float(release.value), half, release)


class LaplaceTotal(_TotalPath):
    """One entry whose level rises: every release refines the last, of the very same total."""

    def __init__(self, search: TotalSearch, desk: Desk) -> None:
        super().__init__(search, desk)
        self._rising = Rising(desk, self._amount.sensitivity, lambda release: [int(release.point["measured"])])

    @property
    def _releases(self) -> list[Release]:
        return self._rising.releases

    def _stored(self, failure: float) -> tuple[Step | None, list[Stop]]:
        steps = [self._step(release, failure) for release in self._rising.kept()]
        return (steps[-1] if steps else None), [Stop(f"level {i}", s.level, s.half) for i, s in enumerate(steps)]

    def _take(self, micro: int, failure: float) -> Step:
        return self._step(self._rising.take(micro, lambda table: [self._total(table)], self._outcome), failure)

    def _outcome(self, noised: list[int], facts: dict[str, Any]) -> Outcome:
        half = self._half(facts["micro"], 0.05)
        point = {"cap": float(self._bounds.upper), "measured": noised[0], **facts}
        value = self._told(self._amount.back(noised[0]))
        return Outcome(value, Error(half / math.log(20), half, self._bounds.bias), point)

    def _half(self, micro: int, failure: float) -> float:
        scale = self._amount.sensitivity * MICRO / micro
        return (scale * math.log(1 / failure) + 1) * float(self._amount.step)

    def _step(self, release: Release, failure: float) -> Step:
        micro = int(release.point["micro"])
        rounding = 0.5 if isinstance(self._search.task, Count) else 0.0
        half = self._half(micro, failure) + rounding
        return Step(micro, micro / MICRO, float(release.value), half, release)
