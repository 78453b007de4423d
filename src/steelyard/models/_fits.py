"""``FitLinear`` and ``FitLogistic``: one model for each declared target, at a price fixed from public facts.

A task names features and a label with public bounds or classes (law 6), a loss, and the way of fitting that its account
can pay for: least squares from one noisy release of the sufficient statistics, objective perturbation with one certified
solve per class, or, where the account hides users, descents over clipped user gradients, or any row-level way on at most
``cap`` rows of each user. Two classes make one model; more make one model for each class against the rest, each a release
of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from fractions import Fraction
from functools import partial
from math import isqrt
from typing import TYPE_CHECKING, Any, ClassVar

from steelyard.bounding import Spend, check_unit, level_epsilon
from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.lazy import lazy
from steelyard.models._columns import Categorical, Features, Numeric, Plain
from steelyard.models._exponential_mechanism import BallChoice, Hypotheses, check_ball, read_candidates
from steelyard.models._gradient_descent import DescentFit
from steelyard.models._label_sums import LabelSums
from steelyard.models._losses import LOG_COSH, LOGISTIC, SQUARED, LossFunction
from steelyard.models._model import Model, OneVsRest, present
from steelyard.models._objective import gaussian_objective, pure_objective
from steelyard.models._output_perturbation import OutputFit
from steelyard.models._passes import Method, Reading
from steelyard.models._rows import Classes, Label, Target, Weights
from steelyard.models._statistics import LeastSquares, StatisticsRelease
from steelyard.models._user_descent import CappedFit, UserDescent, check_cap
from steelyard.plan import Outcome, Plan
from steelyard.privacy import Neighbours, Number, Terms, Unit, composed, positive, rows
from steelyard.threads import one_thread

if TYPE_CHECKING:
    from steelyard.noise import Noise
    from steelyard.tables import Schema, Table


@dataclass(frozen=True)
class Fit(ABC):
    """What every fit of a loss to a label shares; a task adds its label and how it is fitted on an account."""

    if TYPE_CHECKING:
        features: Any  # given as Features or a list of columns
    else:
        features: Features  # what it is once the task is made, and in its JSON

    _: KW_ONLY
    mu: Number | None = None
    method: str = "auto"
    ridge: Number | None = None
    cap: int | None = None
    public_rows: int | None = None
    candidates: Sequence[Sequence[float]] | None = None
    radius: Number | None = None
    weight: str | None = None
    weight_bound: Number = 1

    loss: ClassVar[LossFunction]
    slope_one: ClassVar[LossFunction]
    """The loss that every method but sums of products fits: no row pulls by more than one."""
    methods: ClassVar[tuple[str, ...]]

    def _read(self, x_bound: Number | None, norm: str, intercept: bool, epsilon: Number | None) -> None:
        """Replace what was given by what it means: features by Features, amounts by exact numbers above zero."""
        object.__setattr__(self, "features", read_features(self.features, x_bound, norm, intercept))
        amounts = {"epsilon": epsilon, "mu": self.mu, "ridge": self.ridge, "radius": self.radius}
        for name, amount in amounts.items():
            object.__setattr__(self, name, None if amount is None else positive(amount, name))
        if self.target.column in self.features.source:
            raise InvalidTask(f"the label {self.target.column!r} cannot also be a feature.")
        if self.method not in self.methods:
            raise InvalidTask(f"method must be one of {', '.join(self.methods)}; got {self.method!r}.")
        object.__setattr__(self, "weight_bound", positive(self.weight_bound, "weight_bound"))
        if self.weights is not None and self.weights.column in (*self.features.source, self.target.column):
            raise InvalidTask(f"the weight {self.weight!r} cannot also be a feature or the label.")
        self._read_choice()

    @property
    def weights(self) -> Weights | None:
        """How much rows count, where they do not count alike."""
        return None if self.weight is None else Weights(self.weight, self.weight_bound)

    def _check_weights(self, schema: Schema, terms: Terms) -> None:
        if self.weight is None:
            return
        _ = schema.numeric[self.weight]
        if terms.unit.kind != "rows" or self.method not in ("auto", "objective", "output"):
            raise UnitMismatch(
                "weights are for models that hide single rows, by method auto, objective or output: elsewhere a row's share of the noise is "
                "proved for rows that count alike. Leave the weight out; nothing was charged."
            )

    def _read_choice(self) -> None:
        """Refuse what a choice does not take, and what only a choice takes."""
        given = (self.candidates is not None) + (self.radius is not None)
        if self.method != "choice":
            if given:
                raise InvalidTask("candidates and radius are for method='choice'; leave them out.")
            return
        if given != 1:
            raise InvalidTask("a choice needs candidates, or the radius of a ball of them, and not both.")
        if len(self.target.targets) > 1 or self.ridge is not None:
            raise InvalidTask("a choice is between models of two classes, or of a number, and has no ridge.")
        if self.candidates is None:
            check_ball(self.features.width, Fraction(self.radius or 0))
            return
        object.__setattr__(self, "candidates", read_candidates(self.candidates))
        if {len(each) for each in self.candidates} != {self.features.width}:
            raise InvalidTask(f"each candidate has {self.features.width} coefficients, one for each feature.")

    @property
    @abstractmethod
    def target(self) -> Label:
        """The label, with its bounds or classes."""

    @abstractmethod
    def fit(self, terms: Terms) -> Method:
        """The way one model is fitted, at its share of the price."""

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One event for each model; what is known of the error depends on the rows, so none is predicted."""
        if terms.unit.kind != "labels":
            check_unit(schema, terms)
        self.features.check(schema)
        self.target.check(schema)
        self._check_weights(schema, terms)
        method, models = self.fit(terms), len(self.target.targets)
        event = composed(*[method.event] * models) if models > 1 else method.event
        run = partial(self._models, method, terms.unit)
        return Plan(event, None, run, present, workers=terms.unit.kind != "labels")

    def _models(self, method: Method, unit: Unit, table: Table, noise: Noise) -> Outcome:
        """Fit each target's model."""
        data, models = Reading(table, self.features, self.target, unit, self.weights), []
        for target in self.target.targets:
            with one_thread():  # products are of a few hundred rows
                fitted = method.fit(data.of(target), noise)
            facts = self._facts(target)
            models.append(
                Model(self.loss.name, self.features, self.target.column, fitted.coefficients.tolist(), **facts)
            )
        told = models[0].to_json() if len(models) == 1 else OneVsRest(tuple(models)).to_json()
        return Outcome(told, None, fitted.details)

    def _share(self, spend: Spend) -> Spend:
        """What one model may spend for one row: a part for each class, and of that a part for each row of a user."""
        models, rows = len(self.target.targets), self.cap or 1
        micro = (isqrt(spend.micro**2 // models) if spend.gaussian else spend.micro // models) // rows
        if micro < 1:
            raise InvalidTask("what this model may spend is too little to share among classes, and rows of a user.")
        return Spend(spend.gaussian, micro)

    def _by_row(self, spend: Spend) -> Method:
        """A method whose price for one row is its share of the spend."""
        share, width, loss = self._share(spend), self.features.width, self.slope_one
        ridge = None if self.ridge is None else Fraction(self.ridge)
        if self.method == "choice":
            return self._choice(level_epsilon(spend, 1) // (self.cap or 1))
        if self.method == "output":
            return OutputFit.public(width, share.micro, share.gaussian, ridge, loss)
        if self.method == "descent":
            if not spend.gaussian:
                raise InvalidTask("a descent needs Gaussian noise; open the account with a delta.")
            if ridge is not None:
                raise InvalidTask("a descent has no ridge; leave it out.")
            return DescentFit(width, share.micro)
        return (gaussian_objective if spend.gaussian else pure_objective)(width, share.micro, ridge, loss)

    def _choice(self, micro: int) -> Hypotheses:
        if self.radius is not None:
            return BallChoice.over(self.features.width, float(Fraction(self.radius)), micro, self.slope_one)
        return Hypotheses(self.candidates or (), micro, self.slope_one)

    def _by_user(self, spend: Spend) -> Method:
        """Any row-level method on so many rows of each user, or descents over all of them."""
        if self.cap is not None:
            if self.public_rows is not None:
                raise UnitMismatch("public_rows helps descents over all rows of a user; with a cap leave it out.")
            cap = check_cap(self.cap)
            return CappedFit(self._by_row(spend), cap)
        if not spend.gaussian:
            raise InvalidTask(
                "a model that hides users needs Gaussian noise (open the account with a delta) or a cap on rows per user."
            )
        if self.method not in ("auto", "descent") or self.ridge is not None:
            raise UnitMismatch(
                "where users are hidden the model is fitted by descent; leave method and ridge out, or give cap, how many rows "
                "of each user are kept."
            )
        models = len(self.target.targets)
        return UserDescent(isqrt(spend.micro**2 // models), self.public_rows, self.loss)

    def _by_label(self, spend: Spend, terms: Terms) -> Method:
        """One noisy sum of label times public features, where nothing but labels is hidden."""
        if terms.unit.column != self.target.column:
            raise UnitMismatch(f"this model is of the label {self.target.column!r}; the account hides {terms.unit}.")
        if self.method != "auto" or self.ridge is not None:
            raise UnitMismatch("where labels alone are hidden there is one way to fit; leave method and ridge out.")
        self._only_users(terms)
        return LabelSums(self._share(spend), self.loss, self.features.intercept)

    def _only_users(self, terms: Terms) -> None:
        """Refuse, where rows are hidden, what bounds users."""
        if self.cap is not None or self.public_rows is not None:
            raise UnitMismatch(f"cap and public_rows bound users; this account hides {terms.unit}.")

    @abstractmethod
    def _facts(self, target: int) -> dict[str, Any]:
        """What a model of this target says of its label."""


@dataclass(frozen=True)
class FitLinear(Fit):
    """A linear model of a label between public bounds, by least squares.

    ``features`` are ``Numeric``, ``Categorical`` or plain column names (then ``x_bound`` is needed), or ``Features``.
    ``method`` is "auto" (least squares from sums of products), or "objective", "output" or "choice" as for ``FitLogistic``,
    which fit a loss that is a square near zero and a slope of one far out (log cosh). Where users are hidden, "auto" descends
    along clipped user gradients; ``cap`` keeps that many rows of each user instead, for any method. ``weight`` and ``weight_bound`` are
    those of ``FitLogistic``. *Privacy:* one row moves the weighted statistics by at most a proved whole number; NaN, null and infinite values
    count as the middle. On an account that hides labels alone (``labels``), features, their order and the number of rows are
    public. *Accuracy:* ``point["expected_excess"]`` estimates what the noise adds to the mean squared
    error, from the release itself. Where users are hidden, ``public_rows`` (a row count you know without looking) helps.
    *Cost:* exactly ``epsilon`` (on a Gaussian account: the mu it means there, or ``mu``); with a cap at most that.

    >>> task = FitLinear([Numeric("age", 0, 100)], "spend", 0, 400, epsilon="1")
    >>> task.features.width
    2
    """

    label: str
    lower: Number
    upper: Number
    epsilon: Number | None = None
    _: KW_ONLY
    x_bound: InitVar[Number | None] = None
    norm: InitVar[str] = "clip"
    intercept: InitVar[bool] = True

    loss, slope_one, methods = SQUARED, LOG_COSH, ("auto", "objective", "output", "choice")

    def __post_init__(self, x_bound: Number | None, norm: str, intercept: bool) -> None:
        object.__setattr__(self, "lower", self.target.lower)
        object.__setattr__(self, "upper", self.target.upper)
        self._read(x_bound, norm, intercept, self.epsilon)
        if self.method == "auto" and self.ridge is not None:
            raise InvalidTask("least squares chooses what to divide by from the release; leave ridge out.")

    @property
    def target(self) -> Target:
        """The label and its bounds."""
        return Target(self.label, self.lower, self.upper)

    def fit(self, terms: Terms) -> Method:
        """Least squares; descents where users are hidden."""
        if terms.unit.kind == "users":
            return self._by_user(Spend.read(self.epsilon, self.mu, terms))
        if terms.unit.kind == "labels":
            return self._by_label(Spend.read(self.epsilon, self.mu, terms), terms)
        if self.method == "auto":
            return self._squares(self.statistics(terms))
        self._only_users(terms)
        return self._by_row(Spend.read(self.epsilon, self.mu, terms))

    def statistics(self, terms: Terms) -> StatisticsRelease:
        """The release of the statistics at this price."""
        self._only_users(terms)
        return StatisticsRelease(self.features.width, *price_of(self.epsilon, self.mu, terms))

    def _by_row(self, spend: Spend) -> Method:
        if self.method == "auto":
            return self._squares(StatisticsRelease(self.features.width, self._share(spend)))
        return super()._by_row(spend)

    def _squares(self, statistics: StatisticsRelease) -> LeastSquares:
        return LeastSquares(statistics, self.target, self.features.norm, self.features.intercept)

    def _facts(self, target: int) -> dict[str, Any]:
        return {"lower": self.lower, "upper": self.upper}


@dataclass(frozen=True)
class FitLogistic(Fit):
    """A logistic classifier over declared classes.

    ``features`` are ``Numeric``, ``Categorical`` or plain column names (then ``x_bound`` is needed), or ``Features``.
    A row whose label is none of the classes, or missing, counts for nothing; on an account that hides labels alone (``labels``) its features
    count, since features, their order and the number of rows are then public.
    ``method`` is "auto" (objective perturbation), "output", "descent" or "choice"; ``ridge`` is chosen from public facts
    unless given. A "choice" picks one of the public ``candidates`` (coefficients on the features, as ``Model.theta`` has them),
    or a point of a grid over the ball of coefficients of this ``radius``.
    Where users are hidden, "auto" descends along clipped user gradients, better so with ``public_rows``, a row count you
    know without looking; ``cap`` keeps that many rows of each user instead and fits those by any of the methods.
    ``weight`` is a column of how much each row counts, between 0 and the public ``weight_bound``.
    *Privacy:* one row's presence, at the stated price, pure or Gaussian; several classes share it. *Accuracy:*
    ``point["expected_excess_sum"]`` bounds the expected sum of losses above the best penalized model's, but for
    ``point["expected_excess_row"]`` of each row where the objective is perturbed. *Cost:* at most
    ``epsilon`` (on a Gaussian account: the mu it means there, or ``mu``). On Spark, and where the rows would take more
    than ``passes.LIMIT``, the solver passes over them where they lie.

    >>> FitLogistic([Numeric("age", 0, 100)], "churned", [False, True], epsilon="1").features.width
    2
    """

    label: str
    classes: Sequence[Any]
    epsilon: Number | None = None
    _: KW_ONLY
    x_bound: InitVar[Number | None] = None
    norm: InitVar[str] = "scale"
    intercept: InitVar[bool] = True

    loss, slope_one, methods = LOGISTIC, LOGISTIC, ("auto", "objective", "output", "descent", "choice")

    def __post_init__(self, x_bound: Number | None, norm: str, intercept: bool) -> None:
        object.__setattr__(self, "classes", self.target.values)
        self._read(x_bound, norm, intercept, self.epsilon)

    @lazy
    def target(self) -> Classes:
        """The label and its classes."""
        return Classes(self.label, self.classes)

    def fit(self, terms: Terms) -> Method:
        """The way one model is fitted, at its share of the price."""
        spend = Spend.read(self.epsilon, self.mu, terms)
        if terms.unit.kind == "users":
            return self._by_user(spend)
        if terms.unit.kind == "labels":
            return self._by_label(spend, terms)
        self._only_users(terms)
        return self._by_row(spend)

    def _facts(self, target: int) -> dict[str, Any]:
        return {"positive": self.classes[target - 1], "negative": self.classes[0] if len(self.classes) == 2 else None}


def read_features(
    given: Features | Sequence[Plain | Numeric | Categorical | str], x_bound: Number | None, norm: str, intercept: bool
) -> Features:
    """Features as given, or made of a list of columns; a bare name is a plain column."""
    if isinstance(given, Features):
        if x_bound is not None:
            raise InvalidTask("these features already say how long a row may be; leave x_bound out.")
        return given
    if isinstance(given, str):
        raise InvalidTask("features are a list of columns; give [name] for one.")
    return Features([Plain(each) if isinstance(each, str) else each for each in given], norm, x_bound, intercept)


def price_of(epsilon: Number | None, mu: Number | None, terms: Terms) -> tuple[Spend, Neighbours]:
    """What the statistics may spend, and the neighbours their sensitivity is derived for.

    Gaussian noise has a sensitivity of its own for replaced rows, below twice that for added ones, so there the price
    is not halved first.
    """
    spend = Spend.read(epsilon, mu, terms)
    if not spend.gaussian or terms.unit.neighbours is not Neighbours.REPLACE:
        return spend, Neighbours.ADD_REMOVE
    return Spend.read(epsilon, mu, replace(terms, unit=rows())), Neighbours.REPLACE
