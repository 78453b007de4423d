"""A sum or a count that is sharpened until its relative error is small enough, and not one step further.

On a Gaussian account every step is an independent measurement with its own price, and the answer is the average of all by
precision: after steps that cost a_1, ..., a_k (mu squared) it is as sharp as one release that cost their sum. On a pure
account the path is one entry whose level rises: each release refines the last one and needs the very same total, so the path
is bound to it by a digest under a seal of the ledger's own key (docs/proofs/accuracy_first_paths.md, gradual_sum.md).
Law: the levels are fixed by the account's terms; the promise covers the noise, and what the cap cuts off is said beside it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from steelyard.bounding import Amount, Bounds, Count, Spend, Sum, bound, check_unit, noise_error
from steelyard.desk import Desk
from steelyard.errors import CurrencyMismatch, InvalidTask
from steelyard.mechanisms import Gaussian, Laplace, sigma_for
from steelyard.models.accuracy._family import SCANT, Ending, Judge, Rise, Step, Taken, Told
from steelyard.models.accuracy._goal import CAP, Found, Goal, Stop
from steelyard.models.accuracy._quantiles import normal_quantile
from steelyard.models.accuracy._search import Search
from steelyard.models.accuracy._transcript import Transcript
from steelyard.plan import Outcome
from steelyard.privacy import MICRO, Currency, Neighbours, Number, Terms
from steelyard.release import Release
from steelyard.tables import Quantity, Schema, Table

STOPS, RATIO = 24, 1.25
_STRIDE = 8  # how many stops ahead of what is known a step may go
_GRID = Spend(True, MICRO)  # the grid must not change between steps, so it is that of mu = 1


def step_of(sensitivity: int, cost: int) -> Gaussian:
    """The measurement whose price is exactly ``cost`` (1e-12 of mu squared)."""
    return Gaussian(sensitivity, sigma_for(sensitivity**2, cost))


@dataclass(frozen=True)
class TotalSearch:
    """Open with ``session.open(TotalSearch(Sum("amount", cap=100)), key=...)``, then ``.reach(Goal("relative", 0.01, 0.9))``."""

    task: Sum | Count
    scale = 1.0

    def asked(self, goal: Goal) -> Goal:
        """The goal as it is."""
        return goal

    def told(self, goal: Goal, found: Found) -> tuple[str, None]:
        """The question in words; the total is a release, and no model."""
        return "the noise, relative to the capped total,", None

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
        alone = replace(self.task, epsilon=1, mu=None)
        if terms.currency is Currency.GAUSSIAN:  # which may have no delta to read an epsilon at
            alone = replace(self.task, epsilon=None, mu=1)
        found = alone.request(schema, terms).fixed
        if found is None:
            raise InvalidTask("a path needs its cap beforehand: give cap= a number, or a released profile.")
        return found

    def start(self, desk: Desk) -> Search:
        """Begin, or pick up where the stored steps left off."""
        return Search(Total(self, desk.schema, desk.terms), desk)


class Total:
    """A capped total on given terms, as a search asks for it: in whole steps of its amount's grid, read anew for each step."""

    divided, snapshot = False, ""
    kinds: tuple[str, ...] = ("relative",)

    def __init__(self, search: TotalSearch, schema: Schema, terms: Terms) -> None:
        self.count, self.terms, self.bounds = isinstance(search.task, Count), terms, search.bounds(schema, terms)
        self._column = search.task.column if isinstance(search.task, Sum) else None
        self.amount = Amount.of_values(self.bounds.lower, self.bounds.upper, _GRID)

    def reader(self, terms: Terms) -> Total:
        """It reads itself."""
        return self

    def settle(self, table: Table, seal: Callable[[bytes], bytes]) -> None:
        """A key is bound to no rows here."""

    def rows(self, table: Table, part: str = "", seal: Callable[[bytes], bytes] = bytes) -> int:
        """The total."""
        amount = self.amount
        return table.capped_sum(self.terms.unit, Quantity(self._column, amount.step), amount.lower, amount.upper)

    def judge(self, goal: Goal, transcript: Transcript) -> TotalJudge:
        """Who decides whether it is sharp enough."""
        return TotalJudge(goal, self)

    def null(self, goal: Goal) -> None:
        """No total is known without a step."""

    @property
    def moves(self) -> int:
        """How many units added or removed make one of the account's moves to a neighbour."""
        return 2 if self.terms.unit.neighbours is Neighbours.REPLACE else 1

    def stops(self) -> list[int]:
        """Where a path may stop, up to the whole account: millionths of mu, or of epsilon."""
        amount = self.terms.cap.amount
        top = math.isqrt(amount) if self.terms.currency is Currency.GAUSSIAN else amount
        top //= self.moves
        stops = [math.floor(top / RATIO**k) for k in range(STOPS - 1, -1, -1)]
        return [stop for stop in dict.fromkeys(stops) if stop >= 1]

    def told(self, value: Fraction | int, noise: Gaussian | Laplace, **facts: int) -> Outcome:
        """A total as it is released: its value, how far noise as sharp as this may have put it off, and what was measured."""
        found, cut = self.amount.back(round(value)), self.bounds.cut
        error = noise_error(noise, self.amount.step)
        error = error if cut is None else cut.beside(error)
        return Outcome(round(found) if self.count else found, error, {"cap": float(self.bounds.upper), **facts})


@dataclass(frozen=True)
class Sharp:
    """One release of a path: its level in millionths, its value, and how far off the noise may have put it."""

    micro: int
    value: float
    half: float
    release: Release | None

    def good(self, relative_error: float) -> bool:
        """Whether the noise is small against the total itself, whatever it was within its interval."""
        return self.half <= relative_error * (abs(self.value) - self.half)


class TotalJudge(Judge):
    """Stop at the first release whose interval is narrow enough: the interval holds at all levels at once.

    On a Gaussian account levels are millionths of mu, whose squares add up: each step measures anew, and all are averaged by
    precision. On a pure one they are millionths of epsilon, which adds up itself: one entry rises, and every release refines the last.
    """

    def __init__(self, goal: Goal, total: Total) -> None:
        super().__init__(goal, None)
        self.total, self._gaussian = total, total.terms.currency is Currency.GAUSSIAN
        self._power, self._least = (2, 10**4) if self._gaussian else (1, 200)
        self._steps: list[tuple[int, int]] = []
        self.last_release: Sharp | None = None

    @property
    def end(self) -> str:
        """The last level is the whole account."""
        return CAP

    @property
    def _paid(self) -> int:
        return sum(cost for cost, _ in self._steps)

    @property
    def reached(self) -> int:
        """The level that all steps make together, whoever bought them."""
        return self._level_of(self._paid)

    def _level_of(self, cost: int) -> int:
        return math.isqrt(cost) if self._gaussian else cost

    def next(self) -> Taken | None:
        """The level that should be sharp enough, never more than a few stops ahead of what is known."""
        last, goal = self.last_release, self.goal.amount
        ahead = [level for level in self.total.stops() if level > self.reached]
        if not ahead or last is None:
            return self.level(ahead[0]) if ahead else None
        size = max(abs(last.value), last.half)
        needed = last.micro * last.half * (1 + goal) / (goal * size)
        ahead = ahead[:_STRIDE]
        return self.level(next((level for level in ahead if level >= needed), ahead[-1]))

    def last(self, left: int) -> Taken | None:
        """One more release with all that is left; it is no level of the path, so its interval promises nothing."""
        self._sharpened += 1
        beyond = self._level_of(self._paid + left // self.total.moves**self._power)
        scant = left < self._least or self.reached * (SCANT + 1) > beyond * SCANT
        return None if scant or self._sharpened > 1 else self.level(beyond, last=True)

    def learn(self, told: Told) -> None:
        """A release stands for itself: its level says how sharp it is."""
        micro, value = int(told.facts["micro"]), told.release.value if told.release is not None else 0.0
        self._steps.append((told.cost, int(told.facts["measured"])))
        half = self.half(micro, self.goal.failure / STOPS) + (0.5 if self.total.count else 0.0)
        last = Sharp(micro, float(value), half, told.release)
        if self.last_release is None or micro >= self.last_release.micro:
            self.last_release = last
        self.history.append(Stop(f"level {len(self.history)}", micro**self._power / MICRO**self._power, half))
        if last.good(self.goal.amount) and not told.facts.get("last"):
            self.verdict = Ending(None, self.goal.amount, release=told.release)

    def judged(self, told: Told) -> None:
        """Levels are all there is."""

    def look(self) -> None:
        """Nothing but the interval is asked."""

    def guess(self) -> Ending | None:
        """The sharpest release there is."""
        return None if self.last_release is None else Ending(None, math.inf, release=self.last_release.release)

    def half(self, micro: int, failure: float) -> float:
        """How far off the noise puts a release of this level, but for a failure probability."""
        deviations = normal_quantile(failure / 2) if self._gaussian else math.log(1 / failure)
        amount = self.total.amount
        return (deviations * (amount.sensitivity * MICRO / micro) + 1) * float(amount.step)

    def level(self, micro: int, *, last: bool = False) -> Taken:
        """The step to this level."""
        facts = {"last": True} if last else {}
        return self._measure(micro, facts) if self._gaussian else self._rise(micro, facts)

    def _measure(self, micro: int, facts: dict[str, bool]) -> Step:
        """A measurement for the difference; what is released is the average of all."""
        before, sensitivity = list(self._steps), self.total.amount.sensitivity
        cost, whole = micro**2 - self._paid, step_of(sensitivity, micro**2)

        def tell(measured: int) -> Outcome:
            average = Fraction(sum(paid * value for paid, value in [*before, (cost, measured)]), micro**2)
            return self.total.told(average, whole, measured=measured, cost=cost, steps=len(before) + 1)

        compute = lambda step, total, noise: step.release([total], noise)[0]  # noqa: E731
        return Step("level", lambda: step_of(sensitivity, cost), compute, {"micro": micro, **facts}, tell=tell)

    def _rise(self, micro: int, facts: dict[str, bool]) -> Rise:
        """Raise the entry and refine, of the very same total."""
        sensitivity = self.total.amount.sensitivity
        whole = Laplace(sensitivity, Fraction(sensitivity * MICRO, micro))
        return Rise(
            micro,
            sensitivity,
            Neighbours.ADD_REMOVE,
            lambda total: [total],
            lambda release: [int(release.point["measured"])],
            lambda noised: self.total.told(noised[0], whole, measured=noised[0], **facts),
        )


@dataclass(frozen=True)
class GradualSum:
    """Open with ``session.open(GradualSum("amount", cap=100), key="total")``; then ``.refine(epsilon)`` at will.

    *Privacy:* each step is charged before it is drawn: on a Gaussian account as a measurement of its own, on a pure one by raising
    the path's one entry, and every release refines the last. *Cost:* after ``refine(epsilon)`` the whole path has cost
    exactly what one release at that epsilon would have.
    """

    column: str
    cap: Number
    lower: Number | None = None

    def __post_init__(self) -> None:
        for name in ("cap", "lower"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, bound(getattr(self, name), name))

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        self._search.check(schema, terms)

    def start(self, desk: Desk) -> SumPath:
        """Begin, or pick up where the stored steps left off."""
        return SumPath(Total(self._search, desk.schema, desk.terms), desk)

    @property
    def _search(self) -> TotalSearch:
        return TotalSearch(Sum(self.column, cap=self.cap, lower=self.lower))


class SumPath:
    """A running gradual sum: ``refine`` until it is sharp enough."""

    def __init__(self, total: Total, desk: Desk) -> None:
        self._total, self._desk, self._goal = total, desk, Goal("sum", 0.0, 0.0)
        self._turn = threading.Lock()
        self._read()

    @property
    def spent(self) -> int:
        """What the path has cost so far, in the ledger's smallest units."""
        return self._read()[0].spent

    def refine(self, epsilon: Number | None = None, *, mu: Number | None = None) -> Release:
        """Sharpen the sum to what one release at this epsilon (or mu) would give; pays only the difference."""
        level = Spend.read(epsilon, mu, self._desk.terms).micro
        with self._turn:
            transcript, path = self._read()  # somebody else may have taken steps under this key meanwhile
            if level <= path.reached:
                raise InvalidTask("the path is already this sharp; ask for a larger epsilon, or use the last answer.")
            told = path.level(level).take(transcript, self._goal)
            assert told.release is not None
            return told.release

    def _read(self) -> tuple[Transcript, TotalJudge]:
        """What is stored by now, and the path that it makes: as a goal that no sum meets."""
        transcript = Transcript(self._desk, self._total)
        path = self._total.judge(self._goal, transcript)
        for told in transcript.told():
            path.learn(told)
        return transcript, path
