"""``FitLogistic``: a private classifier by objective perturbation, one certified solve per class.

Two classes make one model; more make one model for each class against the rest, each a release of its own. The features'
bounds and the classes are declared (law 6): a row whose label is none of them, or missing, counts for nothing. Where the
account hides users, all rows of a user are bounded together (``user_logistic``). On Spark, and
where the rows would take more than ``passes.LIMIT``, the solver passes over them where they lie; else they are kept in
memory. Only the logistic loss is offered: the proof needs its curvature.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import isqrt
from typing import Any

import numpy as np

from steelyard.accounting.prices import composed
from steelyard.bounding import Spend, check_unit, level_epsilon
from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.lazy import lazy
from steelyard.models.classes import Classes as Classes
from steelyard.models.classes import signs as signs
from steelyard.models.columns import Categorical, Features, Numeric, Plain
from steelyard.models.descent import DescentFit
from steelyard.models.hypotheses import Hypotheses
from steelyard.models.linear import read_features
from steelyard.models.method import Learner
from steelyard.models.newton import Floats
from steelyard.models.objective import gaussian_objective, pure_objective
from steelyard.models.output import OutputFit
from steelyard.models.passes import Reading
from steelyard.models.saved import Model, write
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Number, Terms, Unit, positive
from steelyard.release import Outcome
from steelyard.session import Plan
from steelyard.tables import Schema, Table

METHODS = ("auto", "objective", "output", "descent", "choice")


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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the models as one JSON file."""
        write(self.to_json(), path)

    @classmethod
    def from_json(cls, data: Any) -> OneVsRest:
        """Read back what ``to_json`` wrote."""
        return cls(tuple(Model.from_json(each) for each in data["models"]))


@dataclass(frozen=True)
class FitLogistic:
    """A logistic classifier over declared classes.

    ``features`` are ``Numeric``, ``Categorical`` or plain column names (then ``x_bound`` is needed), or ``Features``.
    ``method`` is "auto" (objective perturbation), "output", "descent" or "choice"; ``ridge`` is chosen from public facts
    unless given. A "choice" picks one of the public ``candidates``: coefficients on the features, as ``Model.theta`` has them.
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
    candidates: Sequence[Sequence[float]] | None = None

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
        candidates: Sequence[Sequence[float]] | None = None,
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
            "candidates": None if candidates is None else tuple(tuple(map(float, each)) for each in candidates),
        }
        for name, value in keep.items():
            object.__setattr__(self, name, value)
        if label in self.features.source:
            raise InvalidTask(f"the label {label!r} cannot also be a feature.")
        if (candidates is None) == (method == "choice"):
            raise InvalidTask("a choice needs candidates, and no other method does.")
        if method == "choice" and (len(self.classes) > 2 or ridge is not None):
            raise InvalidTask("a choice is between models of two classes, and has no ridge.")

    @lazy
    def target(self) -> Classes:
        """The label and its classes."""
        return Classes(self.label, self.classes)

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One event for each model. A bound on the loss is in the point; an error of coefficients means little."""
        check_unit(schema, terms)
        self.features.check(schema)
        self.target.check(schema)
        method, models = self.fit(terms), len(self.target.targets)
        event = composed(*[method.event] * models) if models > 1 else method.event
        return Plan(event, None, partial(self._models, method, terms.unit), _present)

    def _models(self, method: Learner, unit: Unit, table: Table, noise: Noise) -> Outcome:
        """Fit each class's model."""
        data, models = Reading(table, self.features, self.target, unit), []
        for target in self.target.targets:
            fitted = method.learn(data, target, noise)
            theta, named = fitted.coefficients.tolist(), self.classes[target - 1]
            models.append(Model("logistic", self.features, self.label, theta, positive=named))
        told = models[0].to_json() if len(models) == 1 else OneVsRest(tuple(models)).to_json()
        return Outcome(told, None, fitted.details)

    def fit(self, terms: Terms) -> Learner:
        """The way one model is fitted, at its share of the price."""
        spend = Spend.read(self.epsilon, self.mu, terms)
        models, width = len(self.target.targets), self.features.width
        micro = isqrt(spend.micro**2 // models) if spend.gaussian else spend.micro // models
        ridge = None if self.ridge is None else positive(self.ridge, "ridge")
        if terms.unit.kind == "users":
            return self._by_user(spend, micro, ridge)
        if self.cap is not None or self.public_rows is not None:
            raise UnitMismatch(f"cap and public_rows bound users; this account hides {terms.unit}.")
        if self.candidates is not None:
            return self._choice(self.candidates, spend)
        if self.method == "output":
            return OutputFit(width, micro, spend.gaussian, ridge or _output_ridge(width, micro))
        if self.method == "descent":
            if not spend.gaussian:
                raise InvalidTask("a descent needs Gaussian noise; open the account with a delta.")
            return DescentFit(width, micro)
        return (gaussian_objective if spend.gaussian else pure_objective)(width, micro, ridge)

    def _choice(self, candidates: Sequence[Sequence[float]], spend: Spend) -> Hypotheses:
        if {len(each) for each in candidates} != {self.features.width}:
            raise InvalidTask(f"each candidate has {self.features.width} coefficients, one for each feature.")
        return Hypotheses(candidates, level_epsilon(spend, 1))

    def _by_user(self, spend: Spend, micro: int, ridge: Fraction | None) -> Learner:
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


def _present(value: Any) -> Model | OneVsRest:
    """A model that predicts, and can be saved; with more than two classes, one for each."""
    return OneVsRest.from_json(value) if "models" in value else Model.from_json(value)


def _output_ridge(width: int, micro: int) -> Fraction:
    """A ridge from public facts: five times what perturbing the objective would take."""
    return Fraction(MICRO, micro) * max(Fraction(2), Fraction(isqrt(width * 10**6) + 1, 4000))
