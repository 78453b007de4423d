"""``FitLogistic``: a private classifier by objective perturbation, one certified solve per class.

Two classes make one model; more make one model for each class against the rest, each a release of its own. The features'
bounds and the classes are declared (law 6): a row whose label is none of them, or missing, counts for nothing. Where the
account hides users, all rows of a user are bounded together (``user_logistic``). On Spark the solver's passes run where
the rows are; elsewhere the rows are kept in memory. Only the logistic loss is offered: the proof needs its curvature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

from steelyard.accounting.prices import composed
from steelyard.bounding.amounts import Spend, check_unit
from steelyard.errors import InvalidTask, OurBug, UnitMismatch
from steelyard.models.columns import Categorical, Features, Numeric, Plain
from steelyard.models.descent import DescentFit
from steelyard.models.linear import read_features
from steelyard.models.method import Fitted, Method
from steelyard.models.newton import Floats, Memory, Sums, batch_sums, exact_pull
from steelyard.models.objective import ObjectiveFit, gaussian_objective, pure_objective
from steelyard.models.output import OutputFit
from steelyard.models.rows import Rows, gather
from steelyard.models.saved import Model
from steelyard.models.values import matched
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Event, Number, Terms, positive
from steelyard.release import Error, Outcome
from steelyard.tables import Table

METHODS = ("auto", "objective", "output", "descent")


@dataclass(frozen=True)
class Classes:
    """The label's column and its declared classes: the place of each entry's class counted from 1, 0 for none."""

    column: str
    values: Sequence[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not isinstance(self.column, str) or not self.column:
            raise InvalidTask(f"the label needs the name of a column; got {self.column!r}.")
        if len(self.values) < 2 or len(set(self.values)) != len(self.values):
            raise InvalidTask("classes are the label's public values, at least two, each once.")
        if not all(isinstance(value, str | int) for value in self.values):
            raise InvalidTask("classes are texts, whole numbers or booleans.")

    def whole(self, array: Any) -> Floats:
        """The place of each entry's class; what is no declared class is 0."""
        return np.asarray(matched(array, self.values) + 1, dtype=np.float64)

    @property
    def targets(self) -> list[int]:
        """The classes that get a model: the second of two, or each of more."""
        return [2] if len(self.values) == 2 else list(range(1, len(self.values) + 1))


def signs(y: Floats, target: int) -> Floats:
    """One where the class is the target, minus one where it is another, zero where it is none."""
    return np.where(y == 0, 0.0, np.where(y == target, 1.0, -1.0))


@dataclass(frozen=True)
class _Folded:
    """Signed rows behind a table, passed over where they lie."""

    table: Table
    features: Features
    label: Classes
    target: int

    def sums(self, theta: Floats) -> Sums:
        """The sums at a parameter."""
        width = self.features.width
        none = np.array([0], dtype=object)
        start = [np.zeros(width, dtype=object), np.zeros((width, width)), none, none]
        pull, hessian, count, parts = self._fold(lambda signed: batch_sums(signed, theta), start)
        return Sums(pull, hessian, int(count[0]), int(parts[0]))

    def pull(self, theta: Floats, digits: int) -> tuple[list[Decimal], int]:
        """The same in decimals, carried as whole numbers of the last digit."""
        scale = Decimal(10) ** (digits - 10)

        def step(signed: Floats) -> list[Any]:
            whole = [int(x * scale) for x in exact_pull(signed, theta, digits)]
            return [np.array(whole, dtype=object), np.array([len(signed)], dtype=object)]

        total, count = self._fold(step, [np.zeros(self.features.width, dtype=object), np.array([0], dtype=object)])
        return [Decimal(int(x)) / scale for x in total], int(count[0])

    def _fold(self, step: Any, start: list[Any]) -> list[Any]:
        features, label, target = self.features, self.label, self.target
        columns = [*features.source, label.column]

        def of_batch(batch: Any) -> list[Any]:
            y = label.whole(batch.column(len(columns) - 1))
            found: list[Any] = step(np.ascontiguousarray((features.whole(batch) * signs(y, target)).T))
            return found

        return self.table.fold(columns, of_batch, start)


@dataclass(frozen=True)
class OneVsRest:
    """A model for each of more than two classes; the most probable one is predicted."""

    models: tuple[Model, ...]

    @property
    def classes(self) -> tuple[Any, ...]:
        """The declared classes, in order."""
        return tuple(model.positive for model in self.models)

    def probabilities(self, data: Any) -> Floats:
        """One column for each class, each row adding up to one."""
        each = np.maximum(np.column_stack([model.predict(data) for model in self.models]), 1e-300)
        return np.asarray(each / each.sum(axis=1, keepdims=True))

    def predict(self, data: Any) -> list[Any]:
        """The most probable class of each row."""
        return [self.classes[i] for i in self.probabilities(data).argmax(axis=1)]

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``OneVsRest.from_json`` reads it back."""
        return {"models": [model.to_json() for model in self.models]}

    @classmethod
    def from_json(cls, data: Any) -> OneVsRest:
        """Read back what ``to_json`` wrote."""
        return cls(tuple(Model.from_json(each) for each in data["models"]))


@dataclass(frozen=True)
class FitLogistic:
    """A logistic classifier over declared classes.

    ``features`` are ``Numeric``, ``Categorical`` or plain column names (then ``x_bound`` is needed), or ``Features``.
    ``method`` is "auto" (objective perturbation), "output" or "descent"; ``ridge`` is chosen from public facts unless given.
    Where users are hidden, "auto" descends along clipped user gradients, better so with ``public_rows``, a row count you
    know without looking; ``cap`` keeps that many rows of each user instead and fits those by objective perturbation.
    *Privacy:* one row's presence, at the stated price, pure or Gaussian; several classes share it. *Accuracy:*
    ``point["expected_excess_sum"]`` bounds the expected sum of losses above the best penalized model's. *Cost:* at most
    ``epsilon`` (on a Gaussian account: the mu it means there, or ``mu``).

    >>> FitLogistic([Numeric("age", 0, 100)], "churned", [False, True], epsilon="1").features.width
    2
    """

    features: Features
    label: str
    classes: Sequence[Any]
    epsilon: Number | None = None
    mu: Number | None = None
    method: str = "auto"
    ridge: Number | None = None
    cap: int | None = None
    public_rows: int | None = None

    def __init__(
        self,
        features: Features | Sequence[Plain | Numeric | Categorical | str],
        label: str,
        classes: Sequence[Any],
        epsilon: Number | None = None,
        *,
        x_bound: Number | None = None,
        norm: str = "scale",
        intercept: bool = True,
        mu: Number | None = None,
        method: str = "auto",
        ridge: Number | None = None,
        cap: int | None = None,
        public_rows: int | None = None,
    ) -> None:
        if method not in METHODS:
            raise InvalidTask(f"method must be one of {', '.join(METHODS)}; got {method!r}.")
        keep = {
            "features": read_features(features, x_bound, norm, intercept),
            "label": label,
            "classes": Classes(label, classes).values,
            "epsilon": None if epsilon is None else positive(epsilon, "epsilon"),
            "mu": None if mu is None else positive(mu, "mu"),
            "method": method,
            "ridge": None if ridge is None else positive(ridge, "ridge"),
            "cap": cap,
            "public_rows": public_rows,
        }
        for name, value in keep.items():
            object.__setattr__(self, name, value)
        if label in self.features.source:
            raise InvalidTask(f"the label {label!r} cannot also be a feature.")

    @property
    def target(self) -> Classes:
        """The label and its classes."""
        return Classes(self.label, self.classes)

    def check(self, table: Table, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        check_unit(table, terms)
        self.features.check(table)
        table.require(self.label)
        self.event(table, terms)

    def event(self, table: Table, terms: Terms) -> Event:
        """One event for each model."""
        each = self.plan(terms).event
        return composed(*[each] * len(self.target.targets)) if len(self.target.targets) > 1 else each

    def predict(self, terms: Terms) -> Error | None:
        """A bound on the loss is in the point; an error of coefficients means little."""
        return None

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Fit each class's model."""
        plan, models = self.plan(terms), []
        rows = None if self._folds(table, plan) else gather(table, self.features, self.target, terms.unit)
        for target in self.target.targets:
            fitted = self._one(plan, table, rows, target, noise)
            theta, named = fitted.coefficients.tolist(), self.classes[target - 1]
            models.append(Model("logistic", self.features, self.label, theta, positive=named))
        if len(models) == 1:
            return Outcome(models[0].to_json(), None, fitted.details)
        return Outcome(OneVsRest(tuple(models)).to_json(), None, fitted.details)

    def present(self, value: Any) -> Model | OneVsRest:
        """A model that predicts, and can be saved; with more than two classes, one for each."""
        return OneVsRest.from_json(value) if "models" in value else Model.from_json(value)

    def plan(self, terms: Terms) -> Method:
        """The way one model is fitted, at its share of the price."""
        spend = Spend.read(self.epsilon, self.mu, terms)
        models, width = len(self.target.targets), self.features.width
        micro = isqrt(spend.micro**2 // models) if spend.gaussian else spend.micro // models
        ridge = None if self.ridge is None else positive(self.ridge, "ridge")
        if terms.unit.kind == "users":
            return self._by_user(spend, micro, ridge)
        if self.cap is not None or self.public_rows is not None:
            raise UnitMismatch(f"cap and public_rows bound users; this account hides {terms.unit}.")
        if self.method == "output":
            return OutputFit(width, micro, spend.gaussian, ridge or _output_ridge(width, micro))
        if self.method == "descent":
            if not spend.gaussian:
                raise InvalidTask("a descent needs Gaussian noise; open the account with a delta.")
            return DescentFit(width, micro)
        return (gaussian_objective if spend.gaussian else pure_objective)(width, micro, ridge)

    def _by_user(self, spend: Spend, micro: int, ridge: Fraction | None) -> Method:
        from steelyard.models.capped import Capped, check_cap
        from steelyard.models.user_logistic import UserDescent

        if self.cap is not None:
            each = micro // check_cap(self.cap)
            if self.method not in ("auto", "objective") or self.public_rows is not None:
                raise UnitMismatch("a cap goes with objective perturbation; leave method and public_rows out.")
            row = (gaussian_objective if spend.gaussian else pure_objective)(self.features.width, each, ridge)
            return Capped(row, self.cap)
        if not spend.gaussian:
            raise InvalidTask(
                "a model that hides users needs Gaussian noise (open the account with a delta) or a cap on rows per user."
            )
        if self.method not in ("auto", "descent") or ridge is not None:
            raise UnitMismatch("where users are hidden the model is fitted by descent; leave method and ridge out.")
        return UserDescent(micro, self.public_rows)

    @staticmethod
    def _folds(table: Table, plan: Method) -> bool:
        return table.engine == "pyspark" and isinstance(plan, ObjectiveFit | OutputFit)

    def _one(self, plan: Method, table: Table, rows: Rows | None, target: int, noise: Noise) -> Fitted:
        if isinstance(plan, ObjectiveFit | OutputFit):
            if rows is None:
                return plan.run(_Folded(table, self.features, self.target, target), noise)
            return plan.run(Memory(rows.x * signs(rows.y, target)[:, None]), noise)
        if rows is None:
            raise OurBug("only a certified solver passes over rows where they lie.")
        y = signs(rows.y, target)
        return plan.fit(Rows(rows.x * np.abs(y)[:, None], y, rows.users), noise)


def _output_ridge(width: int, micro: int) -> Fraction:
    """A ridge from public facts: five times what perturbing the objective would take."""
    return Fraction(MICRO, micro) * max(Fraction(2), Fraction(isqrt(width * 10**6) + 1, 4000))
