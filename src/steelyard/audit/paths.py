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

from steelyard.accounting.prices import PARTS, disjoint
from steelyard.mechanisms import Gaussian, LaplacePath, sigma_for
from steelyard.models.accuracy.by_user import exact_of, unit_of
from steelyard.models.accuracy.certificate import Ridge
from steelyard.models.accuracy.disjoint import DisjointSearch
from steelyard.models.accuracy.disjoint_linear import Linear, LinearLook
from steelyard.models.accuracy.disjoint_parts import Split
from steelyard.models.accuracy.disjoint_steps import Crowd, Step
from steelyard.models.accuracy.excess import RootExcess
from steelyard.models.accuracy.losses import LogLoss, margin_cap
from steelyard.models.accuracy.measured import Design, Exact, packed
from steelyard.models.accuracy.population import public_n
from steelyard.models.accuracy.pure_logistic import PureLogistic
from steelyard.models.accuracy.pure_questions import LowLoss, NearBest, Setting
from steelyard.models.accuracy.pure_ridge import PureRidge
from steelyard.models.accuracy.ridge_path import WHOLE
from steelyard.models.accuracy.ridge_search import RidgeSearch, TableRows
from steelyard.models.accuracy.watch import Watch, room
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Neighbours, Terms
from steelyard.release import Outcome
from steelyard.session import Plan
from steelyard.tables import Schema, Table


@dataclass(frozen=True)
class RidgeLevel:
    """One measurement of a ridge path's statistics, at a price in 1e-12 of mu squared."""

    search: RidgeSearch
    cost: int
    vector: int = 20

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One Gaussian release: add up and measure."""
        require(self.search, schema)
        design = Design(unit_of(terms.unit), self.search.features.width, self.vector)

        def run(table: Table, noise: Noise) -> Outcome:
            return Outcome(packed(design.measure(exact(self.search, table, terms), self.cost, noise)), None)

        return Plan(design.step(self.cost).event, None, run)


@dataclass(frozen=True)
class RidgeLook:
    """One look at the root of the excess risk of a model, given in steps of 2^-48."""

    search: RidgeSearch
    cost: int
    model: tuple[int, ...]
    alpha: float = 0.01

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One Gaussian release of one integer: find the root and noise it."""
        require(self.search, schema)
        ridge = Ridge(public_n(terms), self.search.features.width, float(self.search.penalty))
        look = RootExcess(ridge, self.model, Fraction(2), self.alpha)
        step = Gaussian(look.moves, sigma_for(look.moves**2, self.cost), Neighbours.REPLACE)

        def run(table: Table, noise: Noise) -> Outcome:
            return Outcome(step.release([look.value(_Sums(exact(self.search, table, terms)))], noise)[0], None)

        return Plan(step.event, None, run)


@dataclass(frozen=True)
class PureLevels:
    """A ridge path on a pure account, released and refined once; levels are millionths of epsilon."""

    search: PureRidge
    levels: tuple[int, int]

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """The entry at its last level: add up, release, refine."""
        require(self.search, schema)
        triangle = Setting.of(self.search.features, self.search.penalty, terms).triangle
        scales = tuple(Fraction(triangle.sensitivity * MICRO, level) for level in self.levels)
        path = LaplacePath(triangle.sensitivity, scales, Neighbours.REPLACE)

        def run(table: Table, noise: Noise) -> Outcome:
            values = triangle.values(exact(self.search, table, terms))
            first = path.release(values, noise)
            return Outcome([packed(first), packed(path.refine(values, first, 1, noise))], None)

        return Plan(path.event, None, run)


@dataclass(frozen=True)
class PureQuestions:
    """A watch on a pure account that is asked about models, given in steps of 2^-48, for one question."""

    search: PureRidge
    question: LowLoss | NearBest
    models: tuple[tuple[int, ...], ...]

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """All questions together: ask until one passes."""
        require(self.search, schema)
        setting = Setting.of(self.search.features, self.search.penalty, terms)
        watch = Watch.of(self.question.needs(setting), 0.1)

        def run(table: Table, noise: Noise) -> Outcome:
            held = TableRows(table, self.search.features, self.search.label, terms.unit)
            running, answers = watch.mechanism.start(watch.threshold, noise), []
            for model in self.models:
                if running.left:
                    look = self.question.look(setting, model, WHOLE)
                    answers.append(running.above(room(look, look.value(held))))
            return Outcome(answers, None)

        return Plan(watch.mechanism.event, None, run)


@dataclass(frozen=True)
class PureLogQuestions:
    """A watch on a pure account that is asked about classifiers, given in steps of 2^-20, for a target."""

    search: PureLogistic
    target: float
    models: tuple[tuple[int, ...], ...]

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """All questions together: ask until one passes."""
        self.search.features.check(schema)
        schema.require(self.search.label)
        watch = Watch.of(public_n(terms) * self.target / 48, 0.1)

        def run(table: Table, noise: Noise) -> Outcome:
            signed, answers = self.search.search.signed(table, terms), list[bool]()
            running = watch.mechanism.start(watch.threshold, noise)
            for model in self.models:
                if running.left:
                    look = LogLoss(public_n(terms), model, self.target, margin_cap(self.target))
                    answers.append(running.above(room(look, look.value(signed.x, signed.owners))))
            return Outcome(answers, None)

        return Plan(watch.mechanism.event, None, run)


@dataclass(frozen=True)
class DisjointStep:
    """One step of a search with a check part: a count, a measurement of the training part, or a look at the other one."""

    search: DisjointSearch
    cost: int
    kind: str
    model: tuple[int, ...] = ()
    target: float = 0.1

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """The first step of its part: where units are added or removed it costs that part alone."""
        require(self.search, schema)
        step = self._step(terms)
        event = step.event
        if terms.unit.neighbours is not Neighbours.REPLACE:
            event = disjoint(event, step.part, dict.fromkeys(PARTS, 0))
        split = Split(self.search.share, terms.unit.column or self.search.ids, terms.unit.column is not None)

        def run(table: Table, noise: Noise) -> Outcome:
            parts = split.parts(table, self.search.features, self.search.label)
            return Outcome(packed(step.compute(parts.train if step.part == "train" else parts.check, noise)), None)

        return Plan(event, None, run)

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
class _Sums:
    """All that a look at the root of an excess reads."""

    exact: Exact


def require(search: RidgeSearch | PureRidge | DisjointSearch, schema: Schema) -> None:
    """Refuse columns that are not there or no numbers."""
    search.features.check(schema)
    schema.require_numeric(search.label.column)


def exact(search: RidgeSearch | PureRidge, table: Table, terms: Terms) -> Exact:
    """The exact statistics of the rows."""
    return exact_of(table, search.features, search.label, terms.unit)
