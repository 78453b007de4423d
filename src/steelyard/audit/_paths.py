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
from hashlib import sha256

from steelyard.accounting import disjoint
from steelyard.bounding import Count, Sum
from steelyard.mechanisms import Gaussian, LaplacePath, sigma_for
from steelyard.models.accuracy import Goal
from steelyard.models.accuracy._certificate import RootExcess
from steelyard.models.accuracy._crowd import Crowd
from steelyard.models.accuracy._designs import Design, Exact, Ridge
from steelyard.models.accuracy._family import PARTS, WHOLE, Step, Told, packed
from steelyard.models.accuracy._first_above import Row
from steelyard.models.accuracy._goal import public_n
from steelyard.models.accuracy._logistic import GaussianDraws, LogisticSearch, PureDraws
from steelyard.models.accuracy._losses import ClippedLoss, looked, margin_cap
from steelyard.models.accuracy._ridge import GaussianRidge, LaplaceRidge, RidgeSearch
from steelyard.models.accuracy._schedule import Failure
from steelyard.models.accuracy._users import exact_of
from steelyard.models.accuracy._watch import Watch, room
from steelyard.noise import Noise
from steelyard.plan import Outcome, Plan
from steelyard.privacy import MICRO, Neighbours, Terms
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
        design = Design(Crowd(terms.unit).grain, self.search.features.width, self.vector)

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

    search: RidgeSearch
    levels: tuple[int, int]

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """The entry at its last level: add up, release, refine."""
        require(self.search, schema)
        triangle = self.search.laplace(Goal("loss", 0.1, 0.9), terms).triangle
        scales = tuple(Fraction(triangle.sensitivity * MICRO, level) for level in self.levels)
        path = LaplacePath(triangle.sensitivity, scales, Neighbours.REPLACE)

        def run(table: Table, noise: Noise) -> Outcome:
            values = triangle.values(exact(self.search, table, terms))
            first = path.release(values, noise)
            return Outcome([packed(first), packed(path.refine(values, first, 1, noise))], None)

        return Plan(path.event, None, run)


@dataclass(frozen=True)
class PureQuestions:
    """A watch on a pure account that is asked about models, given in whole steps, for one goal."""

    search: RidgeSearch | LogisticSearch
    goal: Goal
    models: tuple[tuple[int, ...], ...]

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """All questions together: ask until one passes."""
        self.search.check(schema, terms)
        family, reach = self._family(terms)
        watch = Watch.of(family.needs(), 0.1)

        def run(table: Table, noise: Noise) -> Outcome:
            held, answers = self.search.reader(terms).rows(table, "", unsealed), list[bool]()
            running = watch.mechanism.start(watch.threshold, noise)
            for model in self.models:
                if running.left:
                    look = family.again(model, reach)
                    answers.append(running.above(room(look, look.value(held))))
            return Outcome(answers, None)

        return Plan(watch.mechanism.event, None, run)

    def _family(self, terms: Terms) -> tuple[LaplaceRidge | PureDraws, int]:
        """The family, and where its predictions are clipped."""
        if isinstance(self.search, RidgeSearch):
            return self.search.laplace(self.goal, terms), WHOLE
        draws = PureDraws(self.goal, self.search.features.width, Crowd(terms.unit))
        return draws, margin_cap(self.goal.amount)


@dataclass(frozen=True)
class LogisticLevel:
    """One perturbed objective of a logistic search on a Gaussian account, as a level of its path."""

    search: LogisticSearch
    cost: int

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """The first level: one fit, and the noise that covers its solver."""
        self.search.check(schema, terms)
        family = GaussianDraws(Goal("loss", 0.5, 0.9), self.search.features.width, Crowd(terms.unit))
        step = family.level(self.cost)

        def run(table: Table, noise: Noise) -> Outcome:
            rows = self.search.reader(terms).rows(table, "", unsealed)
            return Outcome(packed(step.compute(rows, noise)), None)

        return Plan(step.event, None, run)


@dataclass(frozen=True)
class RowQuestions:
    """A row of one's own queries that is asked about, one after the other."""

    row: Row
    queries: tuple[Sum | Count, ...]

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """All questions together: ask until one is above."""
        watch = self.row.watch(terms.unit.neighbours)
        asked = [self.row.question(query, schema, terms) for query in self.queries]

        def run(table: Table, noise: Noise) -> Outcome:
            running = watch.mechanism.start(watch.threshold, noise)
            return Outcome([running.above(question.steps(table)) for question in asked if running.left], None)

        return Plan(watch.mechanism.event, None, run)


@dataclass(frozen=True)
class DisjointStep:
    """One step of a search with a check part: a count, a measurement of the training part, or a look at the other one."""

    search: RidgeSearch
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

        def run(table: Table, noise: Noise) -> Outcome:
            rows = self.search.reader(terms).rows(table, step.part, unsealed)
            return Outcome(packed(step.compute(rows, noise)), None)

        return Plan(event, None, run)

    def _step(self, terms: Terms) -> Step:
        crowd, goal = Crowd(terms.unit, self.search.split), Goal("loss", self.target, 0.9)
        if self.kind == "look":
            return looked(ClippedLoss(self.model, self.target, WHOLE, crowd.neighbours, apart=True), self.cost, 1.0, 1)
        family = GaussianRidge(goal, self.search.features.width, float(self.search.penalty), crowd, Failure(0.1))
        size = family.size()
        if self.kind == "size" and size is not None:
            return size
        family.learn(Told("size", self.cost, [10 * crowd.grain**2, 3 * crowd.grain**2]))
        return family.level(self.cost)


def unsealed(data: bytes) -> bytes:
    """A seal where nothing is stored, without a key: the fingerprint it serves stays in the run."""
    return sha256(data).digest()


@dataclass(frozen=True)
class _Sums:
    """All that a look at the root of an excess reads."""

    exact: Exact


def require(search: RidgeSearch, schema: Schema) -> None:
    """Refuse columns that are not there or no numbers."""
    search.features.check(schema)
    schema.require_numeric(search.label.column)


def exact(search: RidgeSearch, table: Table, terms: Terms) -> Exact:
    """The exact statistics of the rows."""
    return exact_of(table, search.features, search.label, terms.unit)
