"""Logistic models that are certainly near the best, in one release: the noise alone bounds the excess risk.

The minimizer of n L(t) + b.t has gradient -b/n, and L is lambda-strongly convex: its excess risk is at most
|b|^2/(2 lambda n^2), whatever the rows; a little more ridge than the question's makes it less (``shrinkage``). b is
drawn, not learnt, so its length has a known quantile; the sigma follows from the accuracy that is wanted, and no row is
asked whether it worked.
Law: the bound includes the solver's tolerance and the noise on its answer (docs/proofs/one_shot.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, TypeVar

from steelyard.accounting import LEAST, MOST, STEEPEST, STEEPEST_USERS, epsilon_of, epsilon_replaced, price
from steelyard.bounding import check_unit
from steelyard.errors import InvalidTask
from steelyard.mechanisms import GRID, Objective, PureObjective, UserObjective, error
from steelyard.models._columns import Features
from steelyard.models._losses import Passes, rounding
from steelyard.models._model import Model
from steelyard.models._objective import ObjectiveFit
from steelyard.models._rows import Classes
from steelyard.models.accuracy._family import Ending, Family, Judge, Step, Taken, Told
from steelyard.models.accuracy._goal import TWO_CLASSES, Goal, public_n
from steelyard.models.accuracy._quantiles import LAPLACE, LEANS, LONGEST, NORMAL, chi_square, pull, shifted_quantile
from steelyard.models.accuracy._split import Whole
from steelyard.noise import Noise
from steelyard.plan import Outcome, Plan
from steelyard.privacy import MICRO, Currency, Event, Loss, Terms
from steelyard.tables import Schema, Table

M = TypeVar("M", bound=Objective | PureObjective)
_COVERS = tuple(2**k for k in (3, 5, 6, 7, 8, 9))
"""The noise on the answer may get one in so many parts of what the perturbation costs."""

_SURE = 0.01  # of the failure probability, for the noise on the answer
_STEP = 60  # gradients are told in steps of 2^-60
_STRONGER = tuple(Fraction(k, 4) for k in (5, 6, 8, 10, 12, 16, 24))  # pulls for noise that only the ridge limits
_LEAST_PURE = 100  # millionths of epsilon
_ENOUGH = 16  # noise is found to one part in 2^16


@dataclass(frozen=True)
class LogisticTask:
    """One release of a model of two classes whose penalized mean log loss is within ``alpha`` of the best.

    *Privacy:* objective perturbation, Gaussian or pure as the account is; neighbours replace a row and n is public. Where
    users are hidden each of them counts once, and a Gaussian account takes whichever noise costs less. *Accuracy:* with
    the stated confidence, for any rows. *Cost:* fixed by public numbers before a row is read.
    """

    features: Features
    label: str
    classes: Sequence[Any]
    alpha: float
    confidence: float
    penalty: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", Classes(self.label, self.classes).values)
        if len(self.classes) != 2:
            raise InvalidTask(TWO_CLASSES)

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One perturbed objective."""
        check_unit(schema, terms)
        self.features.check(schema)
        label = Classes(self.label, self.classes)
        label.check(schema)
        fit = self.fit(terms)

        def draw(table: Table, noise: Noise) -> Outcome:
            rows = Whole(table, self.features, label, terms.unit)
            return self.told(fit, terms, self.drawn(fit, rows.against(2), noise))

        return Plan(fit.event, None, draw, Model.from_json, workers=True)

    def drawn(self, fit: ObjectiveFit, passes: Passes, noise: Noise) -> list[float]:
        """The weights of one draw."""
        found: list[float] = fit.run(passes, noise).coefficients.tolist()
        return found

    def told(self, fit: ObjectiveFit, terms: Terms, theta: list[float]) -> Outcome:
        """A drawn model, and what its excess is at most."""
        n = public_n(terms)
        model = Model("logistic", self.features, self.label, theta, positive=self.classes[1], negative=self.classes[0])
        bound = certified(fit.mechanism, n, self.penalty * n, 1 - self.confidence)
        return Outcome(model.to_json(), None, {"excess": bound, "penalty": float(self.penalty)})

    def fit(self, terms: Terms) -> ObjectiveFit:
        """The least private noise that is still small enough, from public numbers alone."""
        n = public_n(terms)
        ridge, failure = self.penalty * n, 1 - self.confidence
        asked = (self.features.width, n, ridge, self.alpha, failure)
        if terms.currency is not Currency.GAUSSIAN:
            return ObjectiveFit(pure(*asked))
        if terms.unit.kind == "rows":
            return ObjectiveFit(gaussian(*asked))
        able: list[Objective | PureObjective] = [pure(*asked)]
        with suppress(InvalidTask):  # a ridge that is too small for Gaussian noise: said of public numbers
            able.append(gaussian_users(*asked))
        return ObjectiveFit(min(able, key=lambda made: price(made.event, terms).amount))


class _Fine:
    """Solved as exactly as a public number of rows allows: ``finest`` steps of 2^-60."""

    finest: int

    @property
    def gradient(self) -> Fraction:
        """How long the true gradient at the solver's answer may be."""
        return Fraction(self.finest, 1 << _STEP)

    @property
    def event(self) -> Event:
        """What a fit is charged for."""
        event: Event = super().event  # type: ignore[misc]
        return Event(event.name, {**event.parameters, "gradient_steps": self.finest}, event.neighbours, event.status)


@dataclass(frozen=True)
class FineObjective(_Fine, Objective):
    """Gaussian objective perturbation."""

    finest: int


@dataclass(frozen=True)
class FineUserObjective(FineObjective, UserObjective):
    """The same, priced for users whose rows weigh one together."""


@dataclass(frozen=True)
class FinePureObjective(_Fine, PureObjective):
    """The same for spherical noise."""

    finest: int


def certified(mechanism: Objective | PureObjective, n: int, ridge: Fraction, failure: float) -> float:
    """What the excess risk over the question's ``ridge`` = n lambda is at most, but for the failure probability.

    The solver's s has a root excess of at most (|mu t* + b/n| + g/n)/sqrt(2 lambda + 4 mu), mu being the ridge above the
    question's, and the cover c, by which L bends at most by 1/4 + lambda, adds at most sqrt((1/4 + lambda)/2)|c|.
    """
    width, penalty, more = mechanism.width, float(ridge) / n, float(mechanism.ridge - ridge) / n
    likely, rare = failure * (1 - _SURE), failure * _SURE
    if isinstance(mechanism, Objective):
        law, scale, off = NORMAL, float(mechanism.sigma), math.sqrt(width)
        cover = float(mechanism.cover) * math.sqrt(chi_square(width, rare))
    else:
        law, scale, off = LAPLACE, float(mechanism.scale), float(error(width))
        cover = math.sqrt(width) * (float(mechanism.cover) * math.log(width / rare) + 1)
    shift = more * n * math.sqrt(LONGEST / penalty) / scale
    length = scale * shifted_quantile(law, width, shift, likely) + off / (1 << GRID) + float(mechanism.gradient)
    moved = float(mechanism.step) * (cover + math.sqrt(width))
    root = length / n / math.sqrt(2 * penalty + 4 * more) + math.sqrt((0.25 + penalty) / 2) * moved
    return root * root * (1 + 1e-9)


def epsilon_before(event: Event, terms: Terms) -> float:
    """The epsilon of one such release alone, at the account's delta: known before a row is read, the least that is proved.

    *Privacy:* where a unit is replaced. Pure noise has its pure epsilon on every account; the ledger goes on charging the
    mu that holds for every epsilon.
    """
    if event.name == "objective_pure":
        return float(price(event, Terms(terms.unit, Loss.pure(1))).value) * (1 + 1e-12)
    charged = epsilon_of(math.sqrt(float(price(event, terms).value)) * (1 + 1e-12), terms.filter_delta)
    if event.name == "objective_users":
        return charged
    given = {name: int(value) for name, value in event.parameters.items() if isinstance(value, int)}
    ridge = Fraction(given["ridge_numerator"], given["ridge_denominator"])
    return min(charged, epsilon_replaced(given["shift_micro"], ridge, given["output_micro"], terms.filter_delta))


def finest(width: int, n: int, ridge: Fraction, alpha: float) -> int:
    """A tolerance that doubles can certify over n rows, or users: twice their rounding, in steps of 2^-60.

    The model is hardly longer than (0.6 + 1.6 sqrt(alpha))/sqrt(lambda); were it, the solver would take longer.
    """
    penalty = float(ridge) / n
    length, slope = (0.6 + 1.6 * math.sqrt(alpha)) / math.sqrt(penalty), 1.6 * math.sqrt(alpha * penalty)
    doubles = rounding(width, n, length, float(ridge), n * slope)
    return math.ceil(2 * doubles * (1 << _STEP))


@lru_cache(maxsize=256)
def gaussian(width: int, n: int, ridge: Fraction, alpha: float, failure: float) -> Objective:
    """The perturbation with the largest sigma whose certificate is at most alpha; no sigma beyond four ridges is priced."""
    fine = finest(width, n, ridge, alpha)
    made = lambda more, share, shift: FineObjective(width, shift, more, max(1, shift // share), fine)  # noqa: E731
    asked = _Asked(n, ridge, alpha, failure, (LEAST, MOST), lambda more: math.ceil(MICRO / (more * STEEPEST)))
    found = asked.cheapest(made, lambda found: Fraction(found.shift**2 + found.output**2), LEAST)
    try:
        found.event  # noqa: B018
    except InvalidTask as fault:
        raise InvalidTask(
            "no price is proved for so little ridge: raise the penalty, or bring more rows, until the penalty times their "
            "number is an eighth at least."
        ) from fault
    return found


@lru_cache(maxsize=256)
def gaussian_users(width: int, n: int, ridge: Fraction, alpha: float, failure: float) -> UserObjective:
    """The same for n users whose rows weigh one together; the ridge must be an eighth of sigma at least."""
    fine = finest(width, n, ridge, alpha)

    def floor(more: Fraction) -> int:
        return max(LEAST, math.ceil(MICRO / (more * STEEPEST_USERS)))

    made = lambda more, share, shift: FineUserObjective(width, shift, more, max(1, shift // share), fine)  # noqa: E731
    asked = _Asked(n, ridge, alpha, failure, (floor(ridge), max(floor(ridge), MOST)), floor)
    return asked.cheapest(made, lambda found: Fraction(found.price**2 + found.output**2), LEAST)


@lru_cache(maxsize=256)
def pure(width: int, n: int, ridge: Fraction, alpha: float, failure: float) -> PureObjective:
    """The same with spherical noise; the ridge must be at least its scale."""
    fine = finest(width, n, ridge, alpha)

    def floor(more: Fraction) -> int:
        return max(_LEAST_PURE, math.ceil(MICRO / more))

    def made(more: Fraction, share: int, micro: int) -> FinePureObjective:
        return FinePureObjective(width, Fraction(MICRO, micro), more, max(1, micro // share), fine)

    asked = _Asked(n, ridge, alpha, failure, (floor(ridge), 10**9), floor)
    return asked.cheapest(made, lambda found: 1 / found.scale + Fraction(found.output, MICRO), _LEAST_PURE)


@dataclass(frozen=True)
class _Asked:
    """The question, between what prices its noise is looked for, and the least price that is proved for a ridge.

    What is made takes a ridge, a share for the cover, and about its price in millionths: the less, the more noise.
    """

    n: int
    ridge: Fraction
    alpha: float
    failure: float
    between: tuple[int, int]
    floor: Callable[[Fraction], int]

    def cheapest(self, made: Callable[[Fraction, int, int], M], cost: Callable[[M], Fraction], least: int) -> M:
        """The cheapest noise over how strongly the model is drawn to zero, and then over how well it is covered.

        Where the ridge and not the accuracy limits the noise, stronger pulls are tried too, down to the ``least`` price.
        """
        found = self._over(made, cost, LEANS)
        if found is None or self._limited(found[1]):
            wider = replace(self, between=(least, self.between[1]))
            again = wider._over(made, cost, LEANS + _STRONGER)
            found = again if found is None or (again is not None and cost(again[0]) < cost(found[0])) else found
        if found is None:
            raise InvalidTask(
                "no noise that is worth its name is small enough for this accuracy: raise excess_loss or the penalty, "
                "or bring more rows."
            )
        return found[0]

    def _limited(self, lowest: int) -> bool:
        """Whether a price is the lowest that was looked for, as nearly as the search tells."""
        return lowest - (lowest >> (_ENOUGH - 1)) - 1 <= max(self.between[0], self.floor(self.ridge))

    def _over(
        self, made: Callable[[Fraction, int, int], M], cost: Callable[[M], Fraction], leans: Sequence[Fraction]
    ) -> tuple[M, int] | None:
        """The cheapest over these pulls, then over covers, with about its price; None where none answers."""
        ridges = [self.ridge * (1 + pull(self.alpha, lean)) for lean in leans]
        tried = {more: found for more in ridges if (found := self._least(partial(made, more, _COVERS[-1]), more))}
        if not tried:
            return None
        best = min(tried, key=lambda more: cost(tried[more][0]))
        covered = [self._least(partial(made, best, share), best) for share in _COVERS]
        return min((each for each in covered if each is not None), key=lambda each: cost(each[0]))

    def _least(self, made: Callable[[int], M], ridge: Fraction) -> tuple[M, int] | None:
        """The most noise that answers and may be priced under a ridge, if any does."""
        floor = self.floor(ridge)
        low, high = self.between
        if not self._answers(made(max(high, floor))):
            return None
        while high - low > high >> _ENOUGH:
            middle = (low + high) // 2
            low, high = (low, middle) if self._answers(made(max(middle, floor))) else (middle + 1, high)
        return made(max(high, floor)), max(high, floor)

    def _answers(self, mechanism: M) -> bool:
        return certified(mechanism, self.n, self.ridge, self.failure) <= self.alpha


class Drawn(Judge):
    """An excess of a classifier: each draw is a single release, kept, counted, and never sharpened.

    What is stored answers the same goal, and any looser one, for nothing; a tighter one is drawn anew at its full price.
    Where that is too dear, what there is buys a plain draw of the ``family``, of which nothing is promised.
    """

    sharpens = (Fraction(1),)

    def __init__(self, goal: Goal, family: Family, task: LogisticTask, terms: Terms) -> None:
        super().__init__(goal, family)
        self._task, self._terms = task, terms
        self._dearest: Told | None = None

    def next(self) -> Step:
        """The one draw."""
        task, terms = self._task, self._terms
        fit = task.fit(terms)
        draw = lambda fit, rows, noise: task.drawn(fit, rows.against(2), noise)  # noqa: E731
        return Step("draw", lambda: fit, draw, tell=lambda theta: task.told(fit, terms, theta))

    def learn(self, told: Told) -> None:
        """Of draws with a promise only one for this goal answers it; the dearest is the best model known."""
        if told.kind == "draw" and (self._dearest is None or told.cost > self._dearest.cost):
            self._dearest = told
        if told.kind == "level" or told.goal == self.goal.name:
            super().learn(told)

    def last(self, left: int) -> Taken | None:
        """A plain draw, where it is dearer than what there is."""
        return super().last(left) if self._dearest is None or left > self._dearest.cost else None

    def guess(self) -> Ending | None:
        """The dearer of what was drawn for another goal and of plain draws."""
        if self._dearest is None or self.family.paid > self._dearest.cost:
            return super().guess()
        return Ending(None, math.inf, release=self._dearest.release)

    def judged(self, told: Told) -> None:
        """One line for one draw; on a pure account its epsilon stands where mu squared would."""
        pure, bound = self._terms.currency is Currency.PURE, float(told.facts["excess"])
        self.write("pure objective" if pure else "objective", told.cost, told, bound=bound)
        self.verdict = Ending(None, bound, release=told.release)

    def look(self) -> None:
        """The noise alone bounds the excess, whatever the rows it was drawn from."""
