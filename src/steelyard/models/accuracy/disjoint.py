"""A check on rows that the model has never seen: units are divided in two, one part trains and the other is looked at.

What is promised is a mean over the check part, so it is an honest estimate for rows to come. Where neighbours add or
remove a unit, a training unit is seen by the measurements and a check unit by the looks, and the path costs the dearer
of the two instead of their sum; where they replace one, the sum.
Law: the model that is looked at is the one that is handed out; no number of rows is used that was not public or bought
(docs/proofs/disjoint_check.md).
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from steelyard.desk import Desk
from steelyard.errors import BudgetExceeded, CurrencyMismatch, InvalidTask, TableError, UnitMismatch
from steelyard.models.accuracy.certificate import Array
from steelyard.models.accuracy.disjoint_linear import Linear
from steelyard.models.accuracy.disjoint_parts import HALF, Parts, Split
from steelyard.models.accuracy.disjoint_steps import Crowd, Look, Purse, Step
from steelyard.models.accuracy.implied import Asked, answering
from steelyard.models.accuracy.limits import left_of
from steelyard.models.accuracy.looking import SHARES, Series, last_look, turn
from steelyard.models.accuracy.measured import Integers, packed, unpacked
from steelyard.models.accuracy.outcome import Found, Stop
from steelyard.models.accuracy.population import public_n
from steelyard.models.accuracy.questions import PATIENCE
from steelyard.models.accuracy.ridge_path import CAP, IMPOSSIBLE, MET, NULL
from steelyard.models.accuracy.transcript import Transcript
from steelyard.models.columns import Features
from steelyard.models.rows import Label, Target
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Currency, Neighbours, Terms
from steelyard.release import Outcome, Release
from steelyard.tables import Schema, Table

Progress = Callable[[Stop], None]
FREE = 4  # looks at a model are as sharp as if the path had cost so many times what looks may cost for nothing
SCANT = 100  # less than one part in so many of what the levels have cost is nothing to look with


class Trainer(Protocol):
    """A family of models on the training part: what it knows, all of it released, and what it would buy next."""

    paid: int
    """What the levels have cost."""

    @property
    def null(self) -> float:
        """What predicting nothing loses at most, whatever the rows."""

    @property
    def n(self) -> float:
        """About how many units train."""

    def size(self) -> Step | None:
        """A count that has to be bought before anything else."""

    def level(self, cost: int) -> Step:
        """One more level, at about this price."""

    def ahead(self) -> list[int]:
        """What the levels may yet have cost in all."""

    def learn(self, kind: str, cost: int, values: Integers, facts: Any) -> None:
        """Take a stored step into account."""

    def candidate(self) -> Look:
        """The model to look at, once there is a level."""

    def again(self, model: tuple[int, ...], reach: int) -> Look:
        """A model that was looked at before."""

    def hopeless(self) -> bool:
        """Whether released numbers rule the candidate out."""

    def model(self, steps: tuple[int, ...]) -> Array:
        """Whole steps as weights."""

    def clips(self, reach: int) -> dict[str, Any]:
        """Where the handed-out model clips, as it did when it was looked at."""


@dataclass(frozen=True)
class DisjointSearch:
    """A ridge search with a check part: ``session.open(DisjointSearch(features, label, penalty), key=...)``.

    ``share`` of the units check, by a hash of the column ``ids`` or, without one, of what the row says.
    """

    features: Features
    label: Target
    penalty: Fraction
    share: Fraction = HALF
    ids: str | None = None

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        self.features.check(schema)
        schema.require_numeric(self.label.column)
        check_search(schema, terms, self.penalty, Split(self.share, self.ids))

    def start(self, desk: Desk) -> DisjointWalk:
        """Begin, or pick up where the stored steps left off."""
        return DisjointWalk(self, desk)

    def trainer(self, target: float, crowd: Crowd) -> Trainer:
        """What is to be trained."""
        return Linear(self.features.width, float(self.penalty), target, crowd)

    def labels(self) -> Label:
        """The label as whole numbers."""
        return self.label


def check_search(schema: Schema, terms: Terms, penalty: Fraction, split: Split) -> None:
    """Refuse accounts that do not hide rows, other currencies, and ids that cannot be told apart."""
    if terms.unit.kind not in ("rows", "users"):
        raise UnitMismatch(f"a disjoint check divides rows or users; this account hides {terms.unit}.")
    if terms.unit.column is not None and split.ids not in (None, terms.unit.column):
        raise UnitMismatch(f"users are divided by their own ids; leave ids out, or give {terms.unit.column!r}.")
    if terms.currency is not Currency.GAUSSIAN:
        raise CurrencyMismatch("a disjoint check adds Gaussian steps; open the account with a delta.")
    if terms.unit.neighbours is Neighbours.REPLACE:
        public_n(terms)
    names = split.ids or terms.unit.column
    if names is not None:
        schema.require_keys(names)
    if not 0 < split.share < 1:
        raise InvalidTask(f"the share of rows that check must lie between 0 and 1; got {split.share}.")
    if not Fraction(1, 10**8) <= penalty <= 100:
        raise InvalidTask("the penalty of an accuracy-first model must lie between 1e-8 and 100.")


class DisjointWalk:
    """A search with a check part on its account: ``reach_loss``, as often as wanted."""

    def __init__(self, search: Any, desk: Desk) -> None:
        self._search, self._desk = search, desk

    def reach_loss(self, target: float, confidence: float, *, progress: Progress | None = None) -> Found:
        """A model whose mean loss on the check part is at most ``target``.

        *Privacy:* every step is charged before it is drawn. *Accuracy:* the confidence holds for all targets asked of
        this path together. *Cost:* the dearer part where units are added or removed, both where they are replaced.
        """
        search, crowd = self._search, Crowd(self._desk.terms.unit, self._search.share)
        null = search.trainer(target, crowd).null
        if target >= null:
            return Found(np.zeros(search.features.width), null, NULL, (), Transcript.of(self._desk).spent)
        asked = Asked("loss", float(target), float(confidence))
        asked = next(iter(answering(asked, passed(self._desk))), asked)
        walk = _Walk(search, self._desk, search.trainer(asked.amount, crowd), crowd, asked)
        walk.go(progress)
        return walk.found()


def passed(desk: Desk) -> list[str]:
    """The questions whose looks have passed a model, in order."""
    purse, names = Purse(desk), list[str]()
    while (kept := purse.read()) is not None:
        if kept.point["step"] == "look" and int(unpacked(kept.value)[0]) <= kept.point["limit"]:
            names.append(str(kept.point["target"]))
    return names


class _Walk:
    """One question on its way: stored steps first, then new ones until a model passes or the levels end."""

    def __init__(self, search: Any, desk: Desk, trainer: Trainer, crowd: Crowd, question: Asked) -> None:
        self._search, self._trainer, self._crowd = search, trainer, crowd
        self._question, self._desk, self._purse = question, desk, Purse(desk)
        self._snapshot, self._seal = "", ""
        self._asked: list[str] = []
        self._looks: list[Looked] = []
        self._level, self._base, self._since = 0, 0, 0
        self._history: list[Stop] = []
        self._parts: Parts | None = None
        self._passed: Looked | None = None
        self.reason = ""

    def go(self, progress: Progress | None) -> None:
        """Read back what is stored; then buy, learn, and decide from released numbers."""
        while (kept := self._purse.read()) is not None:
            self._bind(kept)
            if not self.reason:
                self._learn(kept)
        while not self.reason:
            step = self._next()
            if step is None:
                self.reason = IMPOSSIBLE
                return
            try:
                self._buy(step, progress)
            except BudgetExceeded as refused:
                self.reason = CAP
                self._last(left_of(refused), progress)

    def _buy(self, step: Step, progress: Progress | None) -> None:
        release = self._purse.buy(step, lambda table, noise: self._outcome(step, table, noise))
        self._bind(release)
        self._learn(release)
        if progress is not None:
            progress(self._history[-1])

    def _last(self, left: int, progress: Progress | None) -> None:
        """One look with what is left, before the search ends because the account would not pay for more."""
        place = turn(self._looks)
        if not self._trainer.paid or place >= len(SHARES) or SCANT * left < self._trainer.paid:
            return
        ask, none, tried = self._candidate()
        cost = left + self._purse.paid.free
        worth = last_look(ask.moves(self._crowd.neighbours), none, tried, cost, self._failure * SHARES[place])
        if worth is None:
            return
        step = ask.step(worth[0], worth[1] - none, self._crowd.neighbours, self._question.name)
        try:
            self._buy(replace(step, facts={**step.facts, "alone": True}), progress)
        except BudgetExceeded as refused:
            if left_of(refused) < left:
                self._last(left_of(refused), progress)

    @property
    def _failure(self) -> float:
        """The failure probability that all looks of this question share."""
        name, asked = self._question.name, self._asked
        rank = asked.index(name) if name in asked else len(asked)
        return 0.9 * 0.1**rank * (1 - self._question.confidence)

    def found(self) -> Found:
        """What came of it."""
        history, spent = tuple(self._history), Transcript.of(self._desk).spent
        if self._passed is not None:
            model, clips = self._trainer.model(self._passed.model), self._trainer.clips(self._passed.reach)
            return Found(model, self._question.amount, self.reason, history, spent, **clips)
        guess = self._trainer.model(self._trainer.candidate().model) if self._trainer.paid else None
        return Found(guess, math.inf, self.reason, history, spent)

    def _next(self) -> Step | None:
        trainer = self._trainer
        size = trainer.size()
        if size is not None:
            return size
        ahead = trainer.ahead() if turn(self._looks) < len(SHARES) else []
        look = self._look(bool(ahead)) if trainer.paid else None
        return trainer.level(ahead[0] - trainer.paid) if look is None and ahead else look

    def _look(self, ahead: bool) -> Step | None:
        """The next look at the present model, while it has its turn."""
        place, (ask, none, tried) = turn(self._looks, self._level), self._candidate()
        soon = ahead and self._trainer.paid < PATIENCE * self._since and self._trainer.hopeless()
        if place >= len(SHARES) or (not tried and soon):
            return None
        moves = ask.moves(self._crowd.neighbours)
        worth = Series(moves, none, self._base, tried, self._failure * SHARES[place]).next()
        if worth is None:
            return None
        return ask.step(worth[0], worth[1] - none, self._crowd.neighbours, self._question.name)

    def _candidate(self) -> tuple[Look, int, list[tuple[int, int]]]:
        """The present model, the sum that it may lose, and its looks so far: as sums of losses, for about so many units."""
        seen = [look for look in self._looks if look.level == self._level and not look.alone]
        ask = self._trainer.again(seen[0].model, seen[0].reach) if seen else self._trainer.candidate()
        none = round(self._crowd.checking(self._trainer.n) * ask.allowed)
        return ask, none, [(look.cost, look.answer + none) for look in seen]

    def _outcome(self, step: Step, table: Table, noise: Noise) -> Outcome:
        parts = self._read(table)
        if self._snapshot and not hmac.compare_digest(self._seal, self._snapshot):
            raise TableError("the rows changed under their division")  # told to nobody: it fails like any other
        answer = step.compute(parts.train if step.part == "train" else parts.check, noise)
        facts = {"part": step.part, "step": step.kind, "cost": self._purse.rise(step.event), **step.facts}
        return Outcome(packed(answer), None, {**facts, "snapshot": self._seal} if self._divisible else facts)

    def _read(self, table: Table) -> Parts:
        """The parts, read once a call inside a step that is paid for, and what seals the rows that they are made of."""
        if self._parts is None:
            whose, self._seal = self._crowd.unit.column, self._sealed(table)
            split = Split(self._search.share, whose or self._search.ids, whose is not None)
            parts = split.parts(table, self._search.features, self._search.labels())
            if self._sealed(table) != self._seal:
                raise TableError("the rows changed while they were divided")
            self._parts = parts
        return self._parts

    @property
    def _divisible(self) -> bool:
        """Whether a row that is changed may change parts, at the price of one: rows are their own names, users are not."""
        return self._crowd.unit.kind == "rows" and self._crowd.neighbours is Neighbours.ADD_REMOVE

    def _bind(self, release: Release) -> None:
        """The first stored step, whoever took it, binds all to come to its rows; their own step compares."""
        self._snapshot = self._snapshot or str(release.point.get("snapshot", ""))

    def _sealed(self, table: Table) -> str:
        """The fingerprint of what is read, under two seals of the desk's own key: noise to whoever does not hold that."""
        if not self._divisible:
            return ""
        names = [*self._search.features.source, self._search.labels().column, self._search.ids]
        columns = [name for name in dict.fromkeys(names) if name is not None]
        found = table.fingerprint(columns, self._desk.seal(b"the secret of a fingerprint"))
        return self._desk.seal(f"snapshot {found}".encode()).hex()

    @property
    def _paid(self) -> float:
        """What the account has paid for the steps so far: the dearer part, or both."""
        return self._purse.spent / MICRO**2

    def _learn(self, release: Release) -> None:
        point, cost, values = release.point, int(release.point["cost"]), unpacked(release.value)
        if point["step"] != "look":
            self._trainer.learn(str(point["step"]), cost, values, point)
            self._level, self._base = self._level + 1, max(self._trainer.paid, FREE * self._purse.paid.free)
            self._since = self._since or self._trainer.paid
            name = f"{point['step']} {sum(stop.step.startswith(str(point['step'])) for stop in self._history)}"
            self._history.append(Stop(name, (self._trainer.paid or cost) / MICRO**2, paid=self._paid))
            return
        if point["target"] not in self._asked:
            self._asked.append(str(point["target"]))
        if point["target"] == self._question.name:
            model, alone = tuple(int(k) for k in point["model"]), bool(point.get("alone", False))
            look = Looked(model, int(point["reach"]), cost, int(values[0]), self._level, alone)
            self._judge(look, float(point["limit"]))

    def _judge(self, look: Looked, limit: float) -> None:
        passed = look.answer <= limit
        self._history.append(Stop(f"look {len(self._looks)}", look.cost / MICRO**2, passed=passed, paid=self._paid))
        self._looks.append(look)
        self._since = self._trainer.paid
        if passed:
            self._passed, self.reason = look, MET if any(look.model) else NULL


@dataclass(frozen=True)
class Looked:
    """A look that was made: at a model that clips at its reach, for so much, and what it said."""

    model: tuple[int, ...]
    reach: int
    cost: int
    answer: int
    level: int
    alone: bool
