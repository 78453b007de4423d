"""Ridge models: sharpen noisy statistics step by step until the model they give is certainly good enough.

On a Gaussian account every measurement is an independent release, and all are averaged; how many units there are may be
secret where rows are divided, so a rough count is bought first and nothing that is promised rests on it. On a pure account
the statistics are released along a Laplace path, each refining the last at the price of the last
(Ligett, Neel, Roth, Waggoner and Wu, 2017, is the idea; the noise is exact, the sensitivities are proved anew).
Guesses about rows decide the price of a search alone; its privacy and its promise hold without them.
Law: released and public numbers only; the exact statistics and rows live inside one call
(docs/proofs/accuracy_first_paths.md, pure_paths.md, disjoint_check.md).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.models._columns import Features
from steelyard.models._model import Model
from steelyard.models._rows import Target
from steelyard.models.accuracy import _schedule as schedule
from steelyard.models.accuracy._certificate import RootExcess
from steelyard.models.accuracy._crowd import Counts, Crowd
from steelyard.models.accuracy._designs import (
    MODEL_BITS,
    Array,
    Design,
    Noisy,
    PooledDesign,
    Ridge,
    Triangle,
    as_model,
    best_triangle,
    best_weight,
    in_ball,
    norm_bound,
)
from steelyard.models.accuracy._explained import Moments, Unexplained
from steelyard.models.accuracy._family import WHOLE, Ending, Family, Judge, Look, Rise, Step, Told, packed, unpacked
from steelyard.models.accuracy._goal import NULL, Found, Goal, loss_unit, public_n, share_of
from steelyard.models.accuracy._looks import Looks
from steelyard.models.accuracy._losses import ClippedLoss
from steelyard.models.accuracy._model_search import ModelSearch
from steelyard.models.accuracy._posterior import expected_excess, expected_model, reach_of, ruled_out
from steelyard.models.accuracy._quantiles import normal_quantile
from steelyard.models.accuracy._split import Split
from steelyard.models.accuracy._transcript import Transcript
from steelyard.models.accuracy._watch import QUESTIONS, Watched
from steelyard.plan import Outcome
from steelyard.privacy import MICRO, Currency, Neighbours, Terms

START, STEEP, ABOVE = 3, 1.3, 4
"""The first stop, against what a look costs whose noise is the target; their ratio; the last."""

LIKELY = 0.25
"""How long a model is expected to be, as a share of what the best one is at most, on a pure account."""

_NULL = 4.0
_STEEP = 1.15  # the least ratio of two levels of a Laplace path
_DISTANCE = 17.5  # about the epsilon of a watch for models that leave room for one replaced row


@dataclass(frozen=True)
class RidgeSearch(ModelSearch):
    """A search for ridge models: the loss is half the mean squared error, with labels mapped to [-1, 1]."""

    features: Features
    label: Target
    penalty: Fraction
    split: Split | None = None

    @property
    def target(self) -> Target:
        """The label, as rows are read."""
        return self.label

    @property
    def scale(self) -> float:  # type: ignore[override]
        """A squared error of one in the label's own units."""
        return loss_unit(self.label)

    def asked(self, goal: Goal) -> Goal:
        """The goal where labels lie in [-1, 1]."""
        if goal.kind == "error":
            raise InvalidTask(
                "target_accuracy is for a classifier; a linear model takes target_r2, target_rmse or target_loss."
            )
        if goal.kind == "unexplained":
            return goal  # a share: the label's units do not matter
        return replace(goal, amount=goal.within(self.label))

    def told(self, goal: Goal, found: Found) -> tuple[str, Model | None]:
        """The question in words, and the model that was found, if one was."""
        measure = "root mean squared error" if goal.rooted else "mean squared error"
        question = f"the {measure} on {goal.where}, predictions held within the label's bounds,"
        if goal.kind == "excess":
            question = "the penalized half mean squared error above the best possible"
        if goal.kind == "unexplained":
            question = f"R squared on {goal.where}, labels and predictions held within the label's bounds,"
        if found.model is None:
            return question, None
        label, weights = self.label, found.model.tolist()
        return question, Model(
            "linear", self.features, label.column, weights, label.lower, label.upper, reach=found.reach
        )

    def null(self, goal: Goal) -> tuple[Array, float] | None:
        """The model that predicts nothing, and what it is good for whatever the rows: labels lie in [-1, 1]. It explains nothing."""
        if goal.kind == "unexplained":
            return None
        return np.zeros(self.features.width), 0.5 if goal.kind == "excess" else 1.0

    def judge(self, goal: Goal, transcript: Transcript) -> Judge:
        """The currency chooses the draw and the judge, the unit the weights, the split the rows."""
        terms = transcript.desk.terms
        if terms.currency is Currency.PURE:
            if goal.kind == "unexplained":
                raise InvalidTask(
                    "target_r2 is made of Gaussian steps; open the account with a delta, or ask for target_rmse."
                )
            if goal.check == "certificate":
                raise InvalidTask(
                    "check='certificate' is made of Gaussian steps; open the account with a delta, or leave it out."
                )
            return Watched(goal, self.laplace(goal, terms), transcript)
        failure = schedule.Failure(goal.failure * share_of(transcript.rank(goal)))
        crowd = Crowd(terms.unit, self.split)
        family = GaussianRidge(goal, self.features.width, float(self.penalty), crowd, failure)
        if goal.kind == "excess":
            return schedule.NearBest(goal, family, failure, 0 if goal.check == "certificate" else 2)
        return Looks(goal, family, failure.looks if self.split is None else failure.total, transcript.dearer)

    def laplace(self, goal: Goal, terms: Terms) -> LaplaceRidge:
        """The family on a pure account; of a column's values a row has one."""
        ridge = Ridge(public_n(terms), self.features.width, float(self.penalty))
        return LaplaceRidge(goal, ridge, Crowd(terms.unit).grain, len(self.features.columns) + self.features.intercept)


class RidgeFamily(Family):
    """What both currencies share: the model that noisy statistics give, and the question about it."""

    ridge: Ridge
    norm: float
    neighbours = Neighbours.REPLACE

    def __init__(self, goal: Goal) -> None:
        super().__init__()
        self.goal = goal

    @property
    @abstractmethod
    def noisy(self) -> Noisy:
        """All that was released of the statistics."""

    def guess(self) -> Array:
        """Any model may meet a target: the one to expect. For an excess, a penalized one that noise would move little."""
        if self.goal.kind == "excess":
            return schedule.guess(self.ridge, self.noisy, self.norm, self.noisy.variance).model
        return expected_model(self.ridge, self.noisy, self.norm)

    def candidate(self, model: Array | None = None) -> Look:
        """The model that the statistics give, clipped where its predictions end."""
        found = self.guess() if model is None else model
        return self.again(in_ball(found, self.norm), reach_of(self.ridge, self.noisy, found))

    def again(self, model: tuple[int, ...], reach: int) -> Look:
        """The root of its excess, or its clipped loss."""
        if self.goal.kind == "excess":
            return RootExcess(self.ridge, model, Fraction(self.norm), self.goal.amount)
        return self.looked_at(model, reach)

    def looked_at(self, model: tuple[int, ...], reach: int) -> ClippedLoss:
        """Its clipped loss."""
        return ClippedLoss(model, self.goal.amount, reach, self.neighbours, self.secret)

    def weights(self, steps: Sequence[int]) -> Array:
        """Steps of 2^-48."""
        return as_model(steps)

    def clips(self, reach: int) -> dict[str, float]:
        """What predictions are clipped to, as a part of the label's range."""
        return {"reach": reach / WHOLE}


class GaussianRidge(RidgeFamily):
    """Statistics measured again and again, of all rows or of a training part."""

    def __init__(self, goal: Goal, width: int, penalty: float, crowd: Crowd, failure: schedule.Failure) -> None:
        super().__init__(goal)
        self._width, self._penalty, self.crowd, self.failure = width, penalty, crowd, failure
        self.secret, self.neighbours = crowd.split is not None, crowd.neighbours
        self.explains = goal.kind == "unexplained"
        self.sizes = Moments(crowd, goal.amount) if self.explains else Counts(crowd, goal.amount, crowd.grain**2)
        self._pool: PooledDesign | None = None

    def size(self) -> Step | None:
        """The size of the labels (and where it is secret the number of units), sharpened until it is good enough."""
        first = self._first() if self.goal.kind == "excess" and not self.sizes.told else None
        return self.sizes.step(lambda rows: [rows.exact.square], first)

    def _first(self) -> int:
        """What the size of the labels costs first where an excess is asked for: a small part of what the plan expects to spend."""
        ridge = Ridge(self.crowd.n or 1, self._width, self._penalty)
        planned = schedule.planned_mu(ridge, norm_bound(Fraction(1), self._penalty), self.goal.amount, 0.01)
        null = _NULL * MICRO / (2 * ridge.n * self.goal.amount)  # enough to see that predicting nothing is far within
        return max(100, min(20_000, round(max(planned * MICRO / 16, null)))) ** 2

    @property
    def checked(self) -> float:  # type: ignore[override]
        """About how many units are looked at."""
        return self.crowd.checking(self.sizes.n)

    @property
    def target(self) -> float:
        """The loss that is good enough, labels in [-1, 1]; of a share of their variance, about."""
        return self.goal.amount * self.unit

    @property
    def unit(self) -> float:  # type: ignore[override]
        """What the goal is a part of."""
        return self.sizes.variance if isinstance(self.sizes, Moments) and self.sizes.told else 1.0

    def looked_at(self, model: tuple[int, ...], reach: int) -> ClippedLoss:
        """Its clipped loss, or that beside the labels' own."""
        if not isinstance(self.sizes, Moments):
            return super().looked_at(model, reach)
        known = self.goal.amount, self.sizes.centre, self.sizes.off(self.failure.label)
        return Unexplained(model, self.target, reach, self.neighbours, self.secret, *known)

    @lazy
    def square(self) -> float:
        """About the mean of the squared labels."""
        if not self.sizes.told:
            return 1.0
        return min(max(self.sizes.mean(-1) / self.sizes.n, 0.0), 1.0)

    @lazy
    def most_square(self) -> float:
        """What the mean of the squared labels is at most, but for a failure probability, where n is public."""
        if not self.sizes.told:
            return 1.0
        high = self.sizes.mean(-1) + normal_quantile(self.failure.label) * self.sizes.spread + 1
        return min(max(high / self.sizes.n, 0.0), 1.0)

    @lazy
    def norm(self) -> float:
        """How long the best model is at most."""
        return max(norm_bound(Fraction(self.most_square), self._penalty), 1e-9)

    @lazy
    def ridge(self) -> Ridge:
        """The question as far as it is known."""
        return Ridge(max(1, round(self.sizes.n)), self._width, self._penalty)

    def null(self) -> Ending | None:
        """Predicting the middle misses by the mean of y squared, and is off by half of it: known where n is public."""
        if not self.sizes.told or self.secret or self.explains:
            return None
        bound = self.most_square / 2 if self.goal.kind == "excess" else self.most_square
        return Ending(np.zeros(self._width), bound, NULL)

    @property
    def design(self) -> Design:
        """How statistics are measured; the first measurement fixes it."""
        return self._designed(best_weight(self.norm, self.neighbours)) if self._pool is None else self._pool.design

    def _designed(self, vector: int) -> Design:
        return Design(self.crowd.grain, self._width, vector, self.neighbours)

    @lazy
    def stops(self) -> list[schedule.Level]:
        """Where the path may stop: for an excess its schedule; for a target a geometric row.

        That is from where a look can first pass to where a tenth of the target would be certified.
        """
        target = self.target
        if self.goal.kind == "excess":
            return schedule.levels(self.ridge, self.norm, target, self.failure)
        last = schedule.planned_mu(self.ridge, self.norm, target / 10, 0.05) * ABOVE
        first = min(START * 4 / (self.checked * target), last)
        ratio = STEEP**2 if self.goal.every else STEEP
        count = 1 + math.ceil(math.log(last / first, ratio))
        stops = (max(1, round(first * MICRO * ratio**k)) for k in range(count))
        return [schedule.Level(micro) for micro in dict.fromkeys(stops)]

    def ahead(self) -> list[int]:
        """What the levels may yet have cost in all."""
        return [stop.micro**2 for stop in self.stops if stop.micro**2 > self.paid]

    def rest(self, left: int) -> Step | None:
        """One more measurement, where what it is planned by is known: a secret number of units, or the labels' own variance."""
        counted = self.sizes.told or not (self.sizes.secret or self.explains)
        return self.level(self.paid + left) if counted else None

    def stop(self) -> schedule.Level | None:
        """The stop that is measured; the last one, where another question's level is the first beyond all of them."""
        here = next((stop for stop in self.stops if stop.micro**2 == self.paid), None)
        beyond = self.stops and self.spent_at(self.levels - 1) < self.stops[-1].micro ** 2 < self.paid
        return self.stops[-1] if here is None and beyond else here

    def level(self, cost: int) -> Step:
        """One more measurement of the statistics, after which all have cost exactly this much."""
        design, more = self.design, cost - self.paid
        compute = lambda noisy, rows, noise: design.measure(rows.exact, more, noise, noisy)  # noqa: E731
        return Step("level", lambda: design.step(more), compute, {"vector": design.vector})

    def learn(self, told: Told) -> None:
        """Take a stored measurement into account."""
        if told.kind == "size":
            if bool(told.facts.get("moments")) != self.explains or (self.explains and told.goal != self.goal.name):
                return  # counted for another question; looks at one share all need one centre
            self.sizes.learn(told)
            for name in ("square", "most_square", "norm", "ridge", "stops"):
                self.__dict__.pop(name, None)
            return
        vector = int(told.facts["vector"])
        self._pool = self._pool or PooledDesign(self._designed(vector))
        if self._pool.design.vector == vector:  # one that was bought at the same moment in other units fits no average
            self._pool.add(told.cost, told.values)
            self.rise(told.cost)
            self.__dict__.pop("noisy", None)

    @lazy
    def noisy(self) -> Noisy:
        """All measurements as one."""
        assert self._pool is not None
        return self._pool.noisy(self.ridge)

    def excess(self, paid: int) -> float:
        """What the noise of the statistics does to the model that they are expected to give."""
        return expected_excess(self.ridge, self.noisy, self.design.variance(max(paid, 1)))

    def hopeless(self) -> bool:
        """Whether the statistics, which flatter the model they give, put even its loss above the target."""
        label = self.sizes.spread / self.ridge.n
        return ruled_out(self.ridge, self.noisy, self.guess(), self.square, label, self.target)


class LaplaceRidge(RidgeFamily):
    """Statistics along a Laplace path on a pure account: public numbers fix its weights, its levels and its watches."""

    scale, least = float(MICRO), 200

    def __init__(self, goal: Goal, ridge: Ridge, grain: int, busy: int) -> None:
        super().__init__(goal)
        self.ridge, self.norm = ridge, norm_bound(Fraction(1), ridge.penalty)
        self.triangle: Triangle = best_triangle(grain, ridge.width, LIKELY * self.norm, busy)
        self._released: Sequence[int] = ()

    def nobody(self) -> Look:
        """The model that predicts nothing."""
        return self.again((0,) * self.ridge.width, WHOLE)

    def needs(self) -> float:
        """How much room a model that should pass is expected to leave, in moves of a row.

        Of a target a quarter, for predictions that make a row's loss three at most. Of an excess a part of the root, the
        larger the dearer the watch is beside the level that leaves the rest.
        """
        if self.goal.kind == "loss":
            return self.ridge.n * self.goal.amount / 12
        ridge, length = self.ridge, LIKELY * self.norm
        likely = (int(length * 2**MODEL_BITS),) + (0,) * (ridge.width - 1)
        look = RootExcess(ridge, likely, Fraction(self.norm), self.goal.amount)
        whole = math.sqrt(self.goal.amount) / look.sensitivity
        level = self.triangle.level(ridge, length, self.goal.amount, ridge.penalty + 0.1 / ridge.width) / MICRO
        part = 1 / (1 + math.sqrt(level / (_DISTANCE / whole)))
        return whole * min(max(part, 0.3), 0.65)

    @lazy
    def stops(self) -> list[int]:
        """A geometric row from where a model may first pass, if features are even, to where it should, if they are not."""
        ridge, length, amount = self.ridge, LIKELY * self.norm, self.goal.amount
        easy, hard = (amount, amount / 16) if self.goal.kind == "excess" else (amount / 2, amount / 32)
        first = self.triangle.level(ridge, length, easy, ridge.penalty + 0.5 / ridge.width)
        last = max(self.triangle.level(ridge, length, hard, ridge.penalty), 2 * first)
        ratio = max(_STEEP, (last / first) ** (1 / (QUESTIONS - 2)))
        count = min(QUESTIONS - 1, 2 + math.ceil(math.log(last / first, ratio)))
        return list(dict.fromkeys(max(1, round(first * ratio**k)) for k in range(count)))

    def ahead(self) -> list[int]:
        """To which levels the entry may yet rise."""
        return [micro for micro in self.stops if micro > self.paid]

    def level(self, cost: int) -> Rise:
        """Raise the entry and refine."""
        triangle = self.triangle
        tell = lambda noised: Outcome(packed(noised), None, {"vector": triangle.vector})  # noqa: E731
        values, back = lambda rows: triangle.values(rows.exact), lambda release: unpacked(release.value)
        return Rise(cost, triangle.sensitivity, Neighbours.REPLACE, values, back, tell)

    def learn(self, told: Told) -> None:
        """The last release says all."""
        self._released = [int(value) for value in told.values]
        self.rise(told.cost)

    @property
    def noisy(self) -> Noisy:
        """The last release."""
        return self.triangle.noisy(self.ridge, self._released, self.paid)
