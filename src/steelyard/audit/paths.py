"""Single steps of accuracy-first paths as tasks, so that the audit can replay them on neighbouring tables.

A path decides from released numbers what to pay for next, so its privacy is that of its steps: one measurement of ridge
statistics, one look at the root of an excess, one perturbed logistic objective, one step on one of two disjoint parts,
the levels of a Laplace path, the questions of a watch. Each runs here as it does on a path.
Law: a step's event is a function of public numbers; tables shorter than n stand for tables padded with rows, or users, of
one kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from steelyard.accounting.prices import PARTS, disjoint
from steelyard.bounding.amounts import sigma_for
from steelyard.mechanisms import Gaussian, LaplacePath
from steelyard.models.first.by_user import exact_of, unit_of
from steelyard.models.first.certificate import Ridge
from steelyard.models.first.disjoint import DisjointSearch
from steelyard.models.first.disjoint_linear import Linear, LinearLook
from steelyard.models.first.disjoint_parts import Split
from steelyard.models.first.disjoint_steps import Crowd, Step
from steelyard.models.first.excess import RootExcess
from steelyard.models.first.losses import LogLoss, margin_cap
from steelyard.models.first.measured import Design, Exact, packed
from steelyard.models.first.one_shot import LogisticTask
from steelyard.models.first.population import public_n
from steelyard.models.first.pure_logistic import PureLogistic
from steelyard.models.first.pure_questions import LowLoss, NearBest, Setting
from steelyard.models.first.pure_ridge import PureRidge
from steelyard.models.first.ridge_path import WHOLE
from steelyard.models.first.ridge_search import RidgeSearch, TableRows
from steelyard.models.first.watch import Watch, room
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Event, Neighbours, Terms
from steelyard.release import Outcome
from steelyard.tables import Table


@dataclass(frozen=True)
class _Step:
    """What steps of a ridge path share."""

    search: RidgeSearch
    cost: int

    def check(self, table: Table, terms: Terms) -> None:
        """The public schema."""
        self.search.features.check(table)
        table.require_numeric(self.search.label.column)

    def present(self, value: Any) -> Any:
        """As it is."""
        return value

    def _exact(self, table: Table, terms: Terms) -> Exact:
        return exact_of(table, self.search.features, self.search.label, terms.unit)


@dataclass(frozen=True)
class RidgeLevel(_Step):
    """One measurement of the statistics, at a price in 1e-12 of mu squared."""

    vector: int = 20

    def _design(self, terms: Terms) -> Design:
        return Design(unit_of(terms.unit), self.search.features.width, self.vector)

    def event(self, table: Table, terms: Terms) -> Event:
        """One Gaussian release."""
        return self._design(terms).step(self.cost).event

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Add up and measure."""
        return Outcome(packed(self._design(terms).measure(self._exact(table, terms), self.cost, noise)), None)


@dataclass(frozen=True)
class RidgeLook(_Step):
    """One look at the root of the excess risk of a model, given in steps of 2^-48."""

    model: tuple[int, ...]
    alpha: float = 0.01

    def _look(self, terms: Terms) -> RootExcess:
        ridge = Ridge(public_n(terms), self.search.features.width, float(self.search.penalty))
        return RootExcess(ridge, self.model, Fraction(2), self.alpha)

    def _step(self, terms: Terms) -> Gaussian:
        moves = self._look(terms).moves
        return Gaussian(moves, sigma_for(moves**2, self.cost), Neighbours.REPLACE)

    def event(self, table: Table, terms: Terms) -> Event:
        """One Gaussian release of one integer."""
        return self._step(terms).event

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Find the root and noise it."""
        private = _Sums(self._exact(table, terms))
        return Outcome(self._step(terms).release([self._look(terms).value(private)], noise)[0], None)


@dataclass(frozen=True)
class PureLevels:
    """A ridge path on a pure account, released and refined once; levels are millionths of epsilon."""

    search: PureRidge
    levels: tuple[int, int]

    def check(self, table: Table, terms: Terms) -> None:
        """The public schema."""
        self.search.features.check(table)
        table.require_numeric(self.search.label.column)

    def event(self, table: Table, terms: Terms) -> Event:
        """The entry at its last level."""
        return self._path(terms).event

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Add up, release, refine."""
        exact = exact_of(table, self.search.features, self.search.label, terms.unit)
        values, path = (
            Setting.of(self.search.features, self.search.penalty, terms).triangle.values(exact),
            self._path(terms),
        )
        first = path.release(values, noise)
        return Outcome([packed(first), packed(path.refine(values, first, 1, noise))], None)

    def present(self, value: Any) -> Any:
        """As it is."""
        return value

    def _path(self, terms: Terms) -> LaplacePath:
        sensitivity = Setting.of(self.search.features, self.search.penalty, terms).triangle.sensitivity
        scales = tuple(Fraction(sensitivity * MICRO, level) for level in self.levels)
        return LaplacePath(sensitivity, scales, Neighbours.REPLACE)


@dataclass(frozen=True)
class PureQuestions:
    """A watch on a pure account that is asked about models, given in steps of 2^-48, for one question."""

    search: PureRidge
    question: LowLoss | NearBest
    models: tuple[tuple[int, ...], ...]

    def check(self, table: Table, terms: Terms) -> None:
        """The public schema."""
        self.search.features.check(table)
        table.require_numeric(self.search.label.column)

    def event(self, table: Table, terms: Terms) -> Event:
        """All questions together."""
        return self._watch(terms).mechanism.event

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Ask until one passes."""
        watch, setting = self._watch(terms), Setting.of(self.search.features, self.search.penalty, terms)
        held = TableRows(table, self.search.features, self.search.label, terms.unit)
        running, answers = watch.mechanism.start(watch.threshold, noise), []
        for model in self.models:
            if running.left:
                look = self.question.look(setting, model, WHOLE)
                answers.append(running.above(room(look, look.value(held))))
        return Outcome(answers, None)

    def present(self, value: Any) -> Any:
        """As it is."""
        return value

    def _watch(self, terms: Terms) -> Watch:
        return Watch.of(self.question.needs(Setting.of(self.search.features, self.search.penalty, terms)), 0.1)


@dataclass(frozen=True)
class PureLogQuestions:
    """A watch on a pure account that is asked about classifiers, given in steps of 2^-20, for a target."""

    search: PureLogistic
    target: float
    models: tuple[tuple[int, ...], ...]

    def check(self, table: Table, terms: Terms) -> None:
        """The public schema."""
        self.search.features.check(table)
        table.require(self.search.label)

    def event(self, table: Table, terms: Terms) -> Event:
        """All questions together."""
        return self._watch(terms).mechanism.event

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Ask until one passes."""
        watch, signed, answers = self._watch(terms), self.search.search.signed(table, terms), list[bool]()
        running = watch.mechanism.start(watch.threshold, noise)
        for model in self.models:
            if running.left:
                look = LogLoss(public_n(terms), model, self.target, margin_cap(self.target))
                answers.append(running.above(room(look, look.value(signed.x, signed.owners))))
        return Outcome(answers, None)

    def present(self, value: Any) -> Any:
        """As it is."""
        return value

    def _watch(self, terms: Terms) -> Watch:
        return Watch.of(public_n(terms) * self.target / 48, 0.1)


@dataclass(frozen=True)
class DisjointStep:
    """One step of a search with a check part: a count, a measurement of the training part, or a look at the other one."""

    search: DisjointSearch
    cost: int
    kind: str
    model: tuple[int, ...] = ()
    target: float = 0.1

    def check(self, table: Table, terms: Terms) -> None:
        """The public schema."""
        self.search.features.check(table)
        table.require_numeric(self.search.label.column)

    def event(self, table: Table, terms: Terms) -> Event:
        """The first step of its part: where units are added or removed it costs that part alone."""
        step = self._step(terms)
        if terms.unit.neighbours is Neighbours.REPLACE:
            return step.event
        return disjoint(step.event, step.part, dict.fromkeys(PARTS, 0))

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Divide the rows and read one part."""
        split = Split(self.search.share, terms.unit.column or self.search.ids, terms.unit.column is not None)
        parts, step = split.parts(table, self.search.features, self.search.label), self._step(terms)
        return Outcome(packed(step.compute(parts.train if step.part == "train" else parts.check, noise)), None)

    def present(self, value: Any) -> Any:
        """As it is."""
        return value

    def _step(self, terms: Terms) -> Step:
        crowd = Crowd(terms.unit, self.search.share)
        if self.kind == "look":
            return LinearLook(self.model, self.target).step(self.cost, 1.0, crowd.neighbours, "audit")
        trainer = Linear(self.search.features.width, float(self.search.penalty), self.target, crowd)
        size = trainer.size()
        if self.kind == "size" and size is not None:
            return size
        trainer.learn("size", self.cost, [10 * crowd.grain**2, 3 * crowd.grain**2], {})
        return trainer.level(self.cost)


@dataclass(frozen=True)
class OneShot:
    """A logistic release that is certain of its excess, on tables of any length."""

    task: LogisticTask

    def check(self, table: Table, terms: Terms) -> None:
        """The public schema."""
        self.task.features.check(table)
        table.require(self.task.label)

    def event(self, table: Table, terms: Terms) -> Event:
        """The task's own."""
        return self.task.event(table, terms)

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """The task's own."""
        return self.task.run(table, noise, terms)

    def present(self, value: Any) -> Any:
        """The task's own."""
        return self.task.present(value)


@dataclass(frozen=True)
class _Sums:
    """All that a look at the root of an excess reads."""

    exact: Exact
