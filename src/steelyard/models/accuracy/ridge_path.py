"""The ridge path: sharpen noisy statistics step by step until the model they give is certainly good enough.

The path is a plain object that says what to pay for next and learns from the answers; it holds released numbers only,
so it can be rebuilt from stored answers after a crash, or taken up later for a tighter target at the price of the
difference. How a model is judged (excess risk, or a public target) is the question's business.
Law: a step's price is fixed before it is measured; a model that did not pass is never said to have passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from steelyard.mechanisms import Gaussian, sigma_for
from steelyard.models.accuracy import schedule
from steelyard.models.accuracy.certificate import Array, Noisy, Ridge
from steelyard.models.accuracy.losses import LOSS_BITS
from steelyard.models.accuracy.measured import Design, Integers, Pool, best_weight, label_step, norm_bound
from steelyard.models.accuracy.models import Private, as_model
from steelyard.models.accuracy.outcome import Stop
from steelyard.models.accuracy.quantiles import normal_quantile
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Event, Neighbours

WHOLE = 1 << LOSS_BITS
NULL, MET, CAP, IMPOSSIBLE = "null_model_ok", "target_met", "cap_reached", "target_impossible"


@dataclass(frozen=True)
class Ask:
    """One step to be paid for: its name, its event, its cost in 1e-12 of mu squared, and how it is computed."""

    name: str
    event: Event
    cost: int
    compute: Callable[[Private, Noise], Integers]
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """A look that was made: at a model, after so many measurements, for so much, and what it said."""

    model: tuple[int, ...]
    level: int
    cost: int
    passed: bool
    answer: int
    reach: int
    alone: bool = False


class Look(Protocol):
    """A question to the rows about one released model, answered by one noisy integer."""

    @property
    def moves(self) -> int:
        """By how many steps one replaced row moves the answer."""

    @property
    def model(self) -> tuple[int, ...]:
        """The model in whole steps."""

    @property
    def reach(self) -> int:
        """What the model's predictions are clipped to, in steps of 2^-20."""

    def value(self, private: Private) -> int:
        """The integer to be noised."""

    def limit(self) -> float:
        """At or below this many steps the model is good enough."""


@dataclass(frozen=True)
class Worth:
    """A look worth paying for: at what, its cost, and the answer at or below which it passes."""

    look: Look
    cost: int
    limit: float
    alone: bool = False

    @property
    def step(self) -> Gaussian:
        """The noise of the answer."""
        return gaussian_of(self.look.moves, self.cost)

    @classmethod
    def once(cls, look: Look, cost: int, failure: float) -> Worth:
        """A look of this cost that stands for itself."""
        sigma = float(gaussian_of(look.moves, cost).sigma)
        return cls(look, cost, look.limit() - normal_quantile(failure) * sigma - 2)


def gaussian_of(moves: int, cost: int) -> Gaussian:
    """The noise on one whole number that a replaced row or user moves by so many steps."""
    return Gaussian(moves, sigma_for(moves**2, cost), Neighbours.REPLACE)


class Question(Protocol):
    """How a model is judged: by excess risk or by a public target."""

    @property
    def looks(self) -> int:
        """How many looks may be made."""

    @property
    def blind(self) -> bool:
        """Whether nothing is ever certified without a look."""

    def levels(self, path: RidgePath) -> list[schedule.Level]:
        """The stops, fixed once the bound on the best model's length is known."""

    def null(self, square: float) -> float:
        """What may be said of predicting nothing, given a bound on the mean of y squared."""

    def certificate(self, path: RidgePath, stop: schedule.Level) -> tuple[Array, float] | None:
        """A model and its bound, where the released statistics alone decide."""

    def certified(self, bound: float) -> bool:
        """Whether a certified bound answers the question."""

    def look(self, path: RidgePath) -> Worth | None:
        """A look worth paying for now."""

    def last(self, path: RidgePath) -> Worth | None:
        """A look with all that is left, before the search gives up."""

    def over(self, path: RidgePath) -> bool:
        """Whether nothing can be certified any more."""

    def guess(self, path: RidgePath) -> Array:
        """The best guess of a model that the released statistics give."""

    def told(self, path: RidgePath, looks: Sequence[Seen]) -> float | None:
        """The noisy loss that these looks at one model tell, if they tell one."""

    def passed(self, path: RidgePath) -> float:
        """What may be said of a model that passed a look."""


@dataclass
class RidgePath:
    """A search in progress: ``next`` says what to pay for, ``take`` learns its answer."""

    ridge: Ridge
    unit: int
    question: Question
    failure: schedule.Failure
    label_micro: int
    history: list[Stop] = field(default_factory=list)
    measured: list[tuple[int, Integers]] = field(default_factory=list)
    model: Array | None = None
    bound: float = math.inf
    reason: str = ""
    reach: int = WHOLE
    norm: float = 0.0
    square: float = 1.0
    typical_square: float = 1.0
    seen: list[Seen] = field(default_factory=list)
    left: int | None = None

    def __post_init__(self) -> None:
        self.design = Design(self.unit, self.ridge.width, 1)
        self.stops: list[schedule.Level] = []
        self._pool = Pool(self.design)
        self._pending: Ask | None = self._label()
        self._look: Worth | None = None

    def next(self) -> Ask | None:
        """The step to pay for next, or None when the search is over."""
        return None if self.reason else self._pending

    def take(self, answer: Integers) -> None:
        """Learn the answer of the step that was asked for, and decide what comes next."""
        ask, self._pending = self._pending, None
        if ask is None:
            return
        if ask.name == "label":
            self._begin(int(answer[0]))
        elif self._look is not None:
            self._judge(ask, int(answer[0]))
        else:
            self._measure(ask, answer)
        if not self.reason and self._pending is None:
            self._go_on()

    def measure_as(self, vector: int) -> None:
        """Measurements made before fix how those to come are weighted."""
        self.design = Design(self.unit, self.ridge.width, vector)

    def take_up(self, measured: list[tuple[int, Integers]], looks: Sequence[Seen]) -> None:
        """Go on from measurements made before: for the same target after a crash, or for another one."""
        self._remember(measured, looks)
        if self.measured and not self.reason:
            self._pending = None
            self._weigh(self._stop())
            if not self.reason and self._pending is None:
                self._go_on()

    def _remember(self, measured: list[tuple[int, Integers]], looks: Sequence[Seen]) -> None:
        self.measured, self.seen, self._pool = list(measured), list(looks), Pool(self.design)
        spent = 0
        for index, (cost, _) in enumerate(self.measured):
            spent += cost
            self.history.append(Stop(f"level {index}", spent / MICRO**2))
            then = [(i, look) for i, look in enumerate(looks) if look.level == index + 1]
            self.history += [
                Stop(f"look {i}", look.cost / MICRO**2, passed=look.passed, loss=self._told(i)) for i, look in then
            ]

    def settle(self, measured: list[tuple[int, Integers]], looks: Sequence[Seen]) -> None:
        """The last of these stored looks has passed its model before: nothing more is asked."""
        self._remember(measured[: looks[-1].level], looks)
        self._pending = None
        if not self.reason:
            self._finish(as_model(looks[-1].model), self.question.passed(self), MET, looks[-1].reach)

    @property
    def looked(self) -> int:
        """How many looks have been made."""
        return len(self.seen)

    @property
    def spent(self) -> int:
        """What the measured levels cost in all, in 1e-12 of mu squared."""
        return sum(cost for cost, _ in self.measured)

    @property
    def ahead(self) -> list[schedule.Level]:
        """The stops that are sharper than what is measured."""
        return [stop for stop in self.stops if stop.micro**2 > self.spent]

    @property
    def noisy(self) -> Noisy:
        """All measurements so far as one."""
        if self._pool.design != self.design or self._pool.levels > len(self.measured):
            self._pool = Pool(self.design)
        for cost, values in self.measured[self._pool.levels :]:
            self._pool.add(cost, values)
        return self._pool.noisy(self.ridge)

    def _label(self) -> Ask:
        step, cost = label_step(self.unit, self.label_micro**2), self.label_micro**2
        return Ask("label", step.event, cost, lambda private, noise: step.release([private.exact.square], noise))

    def _begin(self, square: int) -> None:
        noise = normal_quantile(self.failure.label) * MICRO / self.label_micro
        self.typical_square = min(max(square / self.unit**2 / self.ridge.n, 0.0), 1.0)
        self.square = min(max((square / self.unit**2 + noise + 1) / self.ridge.n, 0.0), 1.0)
        self.norm = norm_bound(Fraction(self.square), self.ridge.penalty)
        self.history.append(Stop("label", self.label_micro**2 / MICRO**2))
        null = self.question.null(self.square)
        if self.norm <= 0 or self.question.certified(null):
            self._finish(np.zeros(self.ridge.width), null, NULL)
            return
        self.design = Design(self.unit, self.ridge.width, best_weight(self.norm))
        self.stops = self.question.levels(self)

    def _go_on(self) -> None:
        ahead, design = self.ahead, self.design
        if not ahead or self.question.over(self):
            self.give_up(IMPOSSIBLE)
            return
        cost = ahead[0].micro ** 2 - self.spent
        event = design.step(cost).event
        self._pending = Ask(
            f"level {len(self.measured)}",
            event,
            cost,
            lambda private, noise: design.measure(private.exact, cost, noise),
            {"vector": design.vector},
        )

    def _measure(self, ask: Ask, answer: Integers) -> None:
        self.measured.append((ask.cost, answer))
        self.history.append(Stop(ask.name, self.spent / MICRO**2))
        self._weigh(self._stop())

    def _stop(self) -> schedule.Level | None:
        """The stop that is measured; the last one, where another question went beyond all of them."""
        here = next((stop for stop in self.stops if stop.micro**2 == self.spent), None)
        return self.stops[-1] if here is None and self.stops and not self.ahead else here

    def _weigh(self, stop: schedule.Level | None) -> None:
        """See what the statistics alone certify; else whether a look is worth its price."""
        found = None if stop is None else self.question.certificate(self, stop)
        if found is not None:
            model, bound = found
            last = self.history[-1]
            self.history[-1] = Stop(last.step, last.mu2, bound)
            if bound < self.bound:
                self.model, self.bound = model, bound
            if self.question.certified(bound):
                self._finish(model, bound, MET)
                return
        self._offer()

    def refused(self, left: int) -> None:
        """The account would not pay for the next step: one last look with what it has left, or the end."""
        worth = self._last(left) if self.measured and (self.left is None or left < self.left) else None
        self._pending = self._look = None
        if worth is None:
            self.give_up(CAP)
        else:
            self._ask(worth)

    def _last(self, left: int) -> Worth | None:
        self.left = left
        return self.question.last(self)

    def _offer(self) -> None:
        worth = self.question.look(self)
        if worth is not None:
            self._ask(worth)

    def _ask(self, worth: Worth) -> None:
        self._look, look, step = worth, worth.look, worth.step
        self._pending = Ask(
            f"look {self.looked}",
            step.event,
            worth.cost,
            lambda private, noise: step.release([look.value(private)], noise),
            {
                "model": [str(k) for k in look.model],
                "limit": worth.limit,
                "level": len(self.measured),
                "reach": look.reach,
                **({"alone": True} if worth.alone else {}),
            },
        )

    def _judge(self, ask: Ask, answer: int) -> None:
        assert self._look is not None
        worth, self._look = self._look, None
        model, reach, passed = worth.look.model, worth.look.reach, bool(answer <= worth.limit)
        self.seen.append(Seen(model, len(self.measured), ask.cost, passed, answer, reach, worth.alone))
        self.history.append(Stop(ask.name, ask.cost / MICRO**2, passed=passed, loss=self._told(self.looked - 1)))
        if passed:
            self._finish(as_model(model), self.question.passed(self), MET, reach)
        elif worth.alone:
            self.give_up(CAP)
        elif self.question.blind:
            self._offer()

    def _told(self, index: int) -> float | None:
        """What the looks at one model, up to this one, say of its loss."""
        level = self.seen[index].level
        return self.question.told(self, [look for look in self.seen[: index + 1] if look.level == level])

    def give_up(self, reason: str) -> None:
        """End without an answer: the model is the one with the least bound, or else the best guess that all levels give."""
        self.reason = reason
        if self.measured and not math.isfinite(self.bound):
            self.model = self.question.guess(self)

    def _finish(self, model: Array, bound: float, reason: str, reach: int = WHOLE) -> None:
        self.model, self.bound, self.reason, self.reach = model, bound, reason, reach
