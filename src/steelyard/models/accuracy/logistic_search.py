"""``LogisticSearch``: classifiers drawn again and again, each time less noisily, until one certainly has the loss asked for.

Every level is an objective perturbation of its own, so their average by price is a model too, about as good as one
draw at the price of all. A model of length r has a log loss between log(1 + e^-r) and log(1 + e^r) on every row, a
range of exactly r: that is how far a replaced row or user moves the sum of losses.
Law: the model that is looked at is the one that is handed out, on the grid on which its losses were added up
(docs/proofs/logistic_target.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.accounting.objective import LEAST, MOST
from steelyard.accounting.prices import price
from steelyard.desk import Desk
from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.mechanisms import Objective, UserObjective
from steelyard.models.accuracy.by_user import shares
from steelyard.models.accuracy.certificate import Array
from steelyard.models.accuracy.implied import Asked, answering
from steelyard.models.accuracy.limits import left_of
from steelyard.models.accuracy.looking import SHARES, Series, last_look, turn
from steelyard.models.accuracy.losses import GRID, LOSS, MARGIN, LogLoss, margin_cap
from steelyard.models.accuracy.outcome import Found, Stop
from steelyard.models.accuracy.questions import LOOKS, share_of
from steelyard.models.accuracy.ridge_path import CAP, IMPOSSIBLE, MET, NULL, gaussian_of
from steelyard.models.accuracy.ridge_search import check_terms
from steelyard.models.accuracy.steps import bought, stored
from steelyard.models.accuracy.transcript import Transcript
from steelyard.models.columns import Features
from steelyard.models.losses import Memory
from steelyard.models.objective import REACH, ObjectiveFit
from steelyard.models.rows import Classes, gather, signs
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Event, Terms
from steelyard.release import Outcome, Release
from steelyard.tables import Schema, Table

Progress = Callable[[Stop], None]
LONGEST = 32.0
RATIO, LADDER, LEVELS, START = 1.3, 40, 24, 0.5


@dataclass(frozen=True)
class LogisticSearch:
    """Open with ``session.open(LogisticSearch(features, label, classes, penalty), key=...)``, then ask for a loss.

    A row whose label is no declared class, or missing, counts as undecided: it has loss log 2 under every model.
    """

    features: Features
    label: str
    classes: Sequence[Any]
    penalty: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", two_classes(self.label, self.classes))

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        self.features.check(schema)
        Classes(self.label, self.classes).check(schema)
        check_terms(terms)
        if not Fraction(1, 10**8) <= self.penalty <= 100:
            raise InvalidTask("the penalty of an accuracy-first model must lie between 1e-8 and 100.")

    def start(self, desk: Desk) -> LogisticWalk:
        """Begin, or pick up where the stored steps left off."""
        return LogisticWalk(self, desk)

    def signed(self, table: Table, terms: Terms) -> Signed:
        """The rows times the signs of their classes, and whose they are where users are hidden."""
        rows = gather(table, self.features, Classes(self.label, self.classes), terms.unit)
        return Signed.of(rows.x, rows.y, rows.users)


def two_classes(label: str, classes: Sequence[Any]) -> Sequence[Any]:
    """The declared classes of a label, refused unless there are two."""
    values = Classes(label, classes).values
    if len(values) != 2:
        raise InvalidTask("a loss is certified for two classes.")
    return values


@dataclass(frozen=True)
class Signed:
    """Rows times the signs of their classes, and a code for whose each is where users are hidden."""

    x: Array
    owners: NDArray[np.int64] | None

    @classmethod
    def of(cls, x: Array, classes: Array, owners: NDArray[np.int64] | None) -> Signed:
        """Rows and the numbers of their classes; a row of no class becomes zero."""
        return cls(np.asarray(x * signs(classes, 2)[:, None]), owners)

    @property
    def memory(self) -> Memory:
        """The rows for a solver, those of a user weighing one together."""
        return Memory(self.x, shares(self.owners))


class LogisticWalk:
    """A path of classifiers on its account: ``reach_loss``, as often as wanted."""

    def __init__(self, search: LogisticSearch, desk: Desk) -> None:
        self._search, self._desk = search, desk

    def reach_loss(
        self, target: float, confidence: float, *, every: bool = False, progress: Progress | None = None
    ) -> Found:
        """A model whose mean log loss on these rows is at most ``target``.

        *Privacy:* every step is charged before it is drawn. *Accuracy:* the confidence holds for all targets asked of
        this path together. *Cost:* nothing where predicting one half is good enough.
        """
        if target >= math.log(2):
            spent = Transcript.of(self._desk).spent
            return Found(np.zeros(self._search.features.width), math.log(2), NULL, (), spent)
        asked, kept = Asked("loss", float(target), float(confidence), str(every)), kept_steps(self._desk)
        asked = next(iter(answering(asked, passed(kept))), asked)
        return self._walk(asked, _Walk(self._search, self._desk, asked.name, kept), progress)

    def _walk(self, asked: Asked, walk: _Walk, progress: Progress | None) -> Found:
        width, penalty = self._search.features.width, float(self._search.penalty)
        state = _State(width, walk.n, penalty, asked.amount, asked.how == "True")
        state.failure = (1 - asked.confidence) * share_of(walk.rank) / LOOKS
        walk.go(state, progress)
        bound = asked.amount if state.reason == MET else math.inf
        spent = Transcript.of(self._desk).spent
        return Found(state.model, bound, state.reason, tuple(state.history), spent, margin=state.margin)


def kept_steps(desk: Desk) -> list[Release]:
    """What is stored under the key, in order."""
    found: list[Release] = []
    while (release := stored(desk, f"step {len(found)}")) is not None:
        found.append(release)
    return found


def passed(kept: Sequence[Release]) -> list[str]:
    """The questions whose looks have passed a model, in order."""
    looks = [each for each in kept if "limit" in each.point]
    return [str(each.point["target"]) for each in looks if int(each.value[0]) <= each.point["limit"]]


@dataclass(frozen=True)
class _Seen:
    """A look that was made: after how many levels, for how much, what it said, and at what."""

    level: int
    cost: int
    answer: int
    model: tuple[int, ...]
    cap: int | None
    alone: bool = False


@dataclass
class _State:
    """What is known of a search, all of it released, and what to do next."""

    width: int
    n: int
    penalty: float
    target: float
    every: bool
    failure: float = 0.0
    drawn: list[tuple[int, Array]] = field(default_factory=list)
    seen: list[_Seen] = field(default_factory=list)
    history: list[Stop] = field(default_factory=list)
    model: Array | None = None
    margin: float | None = None
    reason: str = ""

    @property
    def paid(self) -> int:
        """What the levels have cost."""
        return sum(cost for cost, _ in self.drawn)

    def candidate(self) -> LogLoss:
        """The average of the models by price, shortened into the ball, on the grid; as it was looked at, if it was."""
        if self.seen and self.seen[-1].level == len(self.drawn):
            return LogLoss(self.n, self.seen[-1].model, self.target, self.seen[-1].cap)
        average = sum((cost * model for cost, model in self.drawn), np.zeros(self.width)) / self.paid
        ball, length = min(math.sqrt(2 * math.log(2) / self.penalty), LONGEST), float(np.linalg.norm(average))
        steps = np.trunc(average * min(1.0, ball / (length + 1e-300)) * 2**GRID)
        return LogLoss(self.n, tuple(int(k) for k in steps), self.target, margin_cap(self.target))

    def excess(self, paid: int) -> float:
        """The likely excess of an average that cost so much, for features that share a row's length evenly."""
        sigma = 2 * MICRO / math.sqrt(paid)
        ridge = max(self.penalty, float(steepness(self.width)) * sigma / self.n)
        noise: float = self.width * sigma**2 / (2 * self.n**2 * (ridge + 0.1 / self.width))
        return noise + (ridge - self.penalty)

    def ahead(self) -> list[int]:
        """What the levels may yet have cost in all, from one whose excess is likely twice the target."""
        ladder = [round((2 * LEAST * RATIO**k) ** 2) for k in range(LADDER)]
        coarse = [cost for cost in ladder if self.excess(cost) <= START * self.target]
        return [cost for cost in coarse[:LEVELS] if cost > self.paid * 1.05]

    def look(self, ask: LogLoss) -> tuple[int, float] | None:
        """What the next look at this model costs and where it passes, while the model has its turn."""
        tried, place = self._tried(), turn(self.seen, len(self.drawn))
        if place >= len(SHARES) or (not tried and not self.every and self._soon()):
            return None
        return Series(ask.moves, ask.limit(), self.paid, tried, self.failure * SHARES[place], self.every).next()

    def last(self, ask: LogLoss, left: int) -> tuple[int, float] | None:
        """One more look at this model with all that is left: its cost and where it passes."""
        place = turn(self.seen)
        if place >= len(SHARES):
            return None
        return last_look(ask.moves, ask.limit(), self._tried(), left, self.failure * SHARES[place])

    def _tried(self) -> list[tuple[int, int]]:
        """The looks of the present model's series: what each cost and said."""
        return [(look.cost, look.answer) for look in self.seen if look.level == len(self.drawn) and not look.alone]

    def told(self) -> float:
        """The sum of losses of the last model that was looked at, averaged over its looks by price."""
        looks = [look for look in self.seen if look.level == self.seen[-1].level]
        average = sum(look.cost * look.answer for look in looks) / sum(look.cost for look in looks)
        return average / (1 << LOSS)

    def _soon(self) -> bool:
        """Whether the last model that was looked at was so far off that the present one cannot be good enough yet."""
        if not self.seen or not self.ahead():
            return False
        last = self.seen[-1]
        ask, paid = (
            LogLoss(self.n, last.model, self.target, last.cap),
            sum(cost for cost, _ in self.drawn[: last.level]),
        )
        tried = [(look.cost, look.answer) for look in self.seen if look.level == last.level]
        return self.paid < Series(ask.moves, ask.limit(), paid, tried, self.failure).again_at()


class _Walk:
    """The stored steps of one key, in order, and how another is bought."""

    def __init__(self, search: LogisticSearch, desk: Desk, name: str, kept: Sequence[Release] = ()) -> None:
        self._search, self._desk, self._name, self._kept = search, desk, name, list(kept)
        self._signed: Signed | None = None
        self.n = desk.terms.unit.n or 1
        self._count = 0

    @property
    def rank(self) -> int:
        """How many other questions had looks before this one's first."""
        names = list(dict.fromkeys(str(each.point["target"]) for each in self._kept if "limit" in each.point))
        return names.index(self._name) if self._name in names else len(names)

    def go(self, state: _State, progress: Progress | None) -> None:
        """Read back what is stored, then look or draw until a model passes or the levels end."""
        for release in self._kept:
            if not state.reason:
                self._learn(state, release)
        self._count = len(self._kept)
        while not state.reason:
            taken = self._taken(state)
            if taken is not None:
                self._learn(state, taken)
            if taken is not None and progress is not None:
                progress(state.history[-1])

    def _taken(self, state: _State) -> Release | None:
        try:
            return self._next(state)
        except BudgetExceeded as refused:
            return self._last(state, left_of(refused))

    def _next(self, state: _State) -> Release | None:
        """A look while the present model has its turn, else the next level; neither is the end."""
        ask = state.candidate() if state.drawn else None
        worth = None if ask is None else state.look(ask)
        if ask is not None and worth is not None:
            return self._look(ask, *worth)
        ahead = state.ahead() if turn(state.seen) < len(SHARES) else []
        if ahead:
            return self._level(ahead[0] - state.paid)
        state.reason = IMPOSSIBLE
        return None

    def _last(self, state: _State, left: int) -> Release | None:
        """One look with what is left, before the search ends because the account would not pay for more."""
        state.reason, ask = CAP, state.candidate() if state.drawn else None
        worth = None if ask is None else state.last(ask, left)
        if ask is None or worth is None:
            return None
        try:
            return self._look(ask, *worth, alone=True)
        except BudgetExceeded as refused:
            return self._last(state, left_of(refused)) if left_of(refused) < left else None

    def _learn(self, state: _State, release: Release) -> None:
        point, cost = release.point, int(release.point["cost"])
        if "limit" not in point:
            step = Fraction(point["step"])
            state.drawn.append((cost, np.array([float(int(k) * step) for k in release.value])))
            state.history.append(Stop(f"level {len(state.drawn) - 1}", state.paid / MICRO**2))
            state.model = as_weights(state.candidate().model)
        elif point["target"] == self._name:
            answer = int(release.value[0])
            passed = bool(answer <= point["limit"])
            model, cap = tuple(int(k) for k in point["model"]), point.get("cap")
            state.seen.append(_Seen(len(state.drawn), cost, answer, model, cap, bool(point.get("alone", False))))
            state.history.append(
                Stop(f"look {len(state.seen) - 1}", cost / MICRO**2, passed=passed, loss=state.told() / self.n)
            )
            if passed:
                state.model, state.reason = as_weights(model), MET
                state.margin = None if cap is None else cap / 2**MARGIN

    def _level(self, cost: int) -> Release:
        """A fresh objective perturbation for about this price."""
        fit = ObjectiveFit(self._perturbed(min(max(math.isqrt(cost) // 2, LEAST), MOST)))
        step = fit.mechanism.step

        def steps(signed: Signed, noise: Noise) -> list[int]:
            return [round(Fraction(float(x)) / step) for x in fit.solve(signed.memory, noise)]

        return self._pay(fit.event, steps, {"step": str(step)})

    def _perturbed(self, shift: int) -> Objective:
        """Noise for about this many millionths of mu and one unit added."""
        width, least = self._search.features.width, self._search.penalty * self.n
        if self._desk.terms.unit.kind == "rows":
            ridge = max(least, steepness(width) * Fraction(MICRO, shift))
            return Objective(width, shift, ridge, max(1, shift // 16))
        return user_level(width, shift, least)

    def _look(self, ask: LogLoss, cost: int, limit: float, *, alone: bool = False) -> Release:
        step = gaussian_of(ask.moves, cost)
        facts = {"model": [str(k) for k in ask.model], "cap": ask.cap, "limit": limit, "target": self._name}
        answer = lambda signed, noise: step.release([ask.value(signed.x, signed.owners)], noise)  # noqa: E731
        return self._pay(step.event, answer, {**facts, "alone": True} if alone else facts)

    def _pay(self, event: Event, compute: Callable[[Signed, Noise], list[int]], facts: dict[str, Any]) -> Release:
        """Charge a step, compute it, store it, and read it back."""
        cost = price(event, self._desk.terms).amount

        def outcome(table: Table, noise: Noise) -> Outcome:
            return Outcome([str(value) for value in compute(self._rows(table), noise)], None, {"cost": cost, **facts})

        release = self._desk.answer(bought(self._desk, event, f"step {self._count}"), event, outcome)
        self._count += 1
        return release

    def _rows(self, table: Table) -> Signed:
        if self._signed is None:
            self._signed = self._search.signed(table, self._desk.terms)
        return self._signed


def steepness(width: int) -> Fraction:
    """The least ridge for a sigma of one: enough for the proof's price, and for noise to move a weight little."""
    return max(Fraction(1), Fraction(math.isqrt(width) + 1, REACH))


def user_level(width: int, shift: int, least: Fraction) -> UserObjective:
    """Noise for about this many millionths of mu and one user added, under a ridge of at least ``least``."""
    ridge = max(least, steepness(width) * Fraction(MICRO, shift))
    return UserObjective(width, shift, ridge, max(1, shift // 16))


def as_weights(steps: tuple[int, ...]) -> Array:
    """Whole steps of 2^-20 as the weights they stand for."""
    return np.array(steps, dtype=np.float64) / 2.0**GRID
