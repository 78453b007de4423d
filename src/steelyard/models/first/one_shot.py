"""Logistic models that are certainly near the best, in one release: the noise alone bounds the excess risk.

The minimizer of n L(t) + b.t has gradient -b/n, and L is lambda-strongly convex: its excess risk is at most
|b|^2/(2 lambda n^2), whatever the rows. b is drawn, not learnt, so its length has a known quantile; the sigma follows from
the accuracy that is wanted, and no row is asked whether it worked.
Law: the bound includes the solver's tolerance and the noise on its answer (docs/proofs/one_shot.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import numpy as np

from steelyard.accounting.objective import LEAST, MOST
from steelyard.bounding.amounts import check_unit
from steelyard.errors import InvalidTask
from steelyard.mechanisms import Objective, PureObjective
from steelyard.mechanisms.objective import GRID
from steelyard.mechanisms.spherical import error
from steelyard.models.columns import Features
from steelyard.models.first.by_user import shares
from steelyard.models.first.population import check_population, public_n
from steelyard.models.first.quantiles import chi_square, gamma_quantile
from steelyard.models.logistic import Classes, signs
from steelyard.models.newton import Memory
from steelyard.models.objective import ObjectiveFit
from steelyard.models.rows import gather
from steelyard.models.saved import Model
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Currency, Event, Terms
from steelyard.release import Outcome
from steelyard.tables import Table

_FINER, _FINER_PURE = 2**10, 2**7  # exact to far less than the perturbation, and still within reach of doubles
M = TypeVar("M", bound=Objective | PureObjective)
_COVERS = (12, 24, 48, 96)  # the noise on the answer may get one in so many parts of what the perturbation costs
_SURE = 0.01  # of the failure probability, for the noise on the answer


@dataclass(frozen=True)
class LogisticTask:
    """One release of a model of two classes whose penalized mean log loss is within ``alpha`` of the best.

    *Privacy:* objective perturbation, Gaussian or pure as the account is; neighbours replace a row and n is public. Where
    users are hidden the noise is pure on every account and each user counts once. *Accuracy:* with the stated confidence, for any rows. *Cost:* fixed by public numbers before a row is read.
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
            raise InvalidTask("an excess is certified for two classes.")

    def check(self, table: Table, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        check_unit(table, terms)
        self.features.check(table)
        table.require(self.label)
        self.fit(terms)
        check_population(table, terms)

    def event(self, table: Table, terms: Terms) -> Event:
        """One perturbed objective."""
        return self.fit(terms).event

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Draw, minimize, cover."""
        rows = gather(table, self.features, Classes(self.label, self.classes), terms.unit)
        fit = self.fit(terms)
        fitted = fit.run(Memory(rows.x * signs(rows.y, 2)[:, None], shares(rows.users)), noise)
        model = Model("logistic", self.features, self.label, fitted.coefficients.tolist(), positive=self.classes[1])
        bound = certified(fit.mechanism, terms.unit.n or 1, 1 - self.confidence)
        return Outcome(model.to_json(), None, {"excess": bound, "penalty": float(self.penalty)})

    def present(self, value: Any) -> Model:
        """A model that predicts, and can be saved."""
        return Model.from_json(value)

    def fit(self, terms: Terms) -> ObjectiveFit:
        """The least private noise that is still small enough, from public numbers alone."""
        n = public_n(terms)
        ridge, failure = self.penalty * n, 1 - self.confidence
        # the Gaussian price is proved for one row's curvature, which has rank one; a user's has not
        make = gaussian if terms.currency is Currency.GAUSSIAN and terms.unit.kind == "rows" else pure
        return ObjectiveFit(make(self.features.width, n, ridge, self.alpha, failure))


@dataclass(frozen=True)
class FineObjective(Objective):
    """Objective perturbation solved more exactly, so that the noise which covers the solver is negligible."""

    @property
    def gradient(self) -> Fraction:
        """How long the true gradient at the solver's answer may be."""
        return super().gradient / _FINER


@dataclass(frozen=True)
class FinePureObjective(PureObjective):
    """The same for spherical noise."""

    @property
    def gradient(self) -> Fraction:
        """How long the true gradient at the solver's answer may be."""
        return super().gradient / _FINER_PURE


def certified(mechanism: Objective | PureObjective, n: int, failure: float) -> float:
    """What the excess risk is at most, but for the failure probability: the perturbation, the solver and the cover.

    At the answer |grad L| <= |b|/n + g/n + (1/4 + lambda)|cover|, and the excess is at most its square over 2 lambda.
    """
    width, penalty = mechanism.width, float(mechanism.ridge) / n
    steps = float(mechanism.step)
    likely, rare = failure * (1 - _SURE), failure * _SURE
    if isinstance(mechanism, Objective):
        length = float(mechanism.sigma) * math.sqrt(chi_square(width, likely)) + math.sqrt(width) / 2**GRID
        cover = float(mechanism.cover) * math.sqrt(chi_square(width, rare))
    else:
        length = float(mechanism.scale) * gamma_quantile(width, likely) + error(width) / 2**GRID
        cover = math.sqrt(width) * (float(mechanism.cover) * math.log(width / rare) + 1)
    moved = steps * (cover + math.sqrt(width))
    slope: float = (length + float(mechanism.gradient)) / n + (0.25 + penalty) * moved
    return slope**2 / (2 * penalty) * (1 + 1e-9)


def gaussian(width: int, n: int, ridge: Fraction, alpha: float, failure: float) -> Objective:
    """The perturbation with the largest sigma whose certificate is at most alpha."""
    return _least(
        lambda shift: FineObjective(width, shift, ridge, max(1, shift // 16)), n, alpha, failure, (LEAST, MOST)
    )


def pure(width: int, n: int, ridge: Fraction, alpha: float, failure: float) -> PureObjective:
    """The same with spherical noise; the ridge must be at least its scale."""

    least = max(100, math.ceil(MICRO / ridge))
    found = [_least(partial(_spherical, width, ridge, share), n, alpha, failure, (least, 10**9)) for share in _COVERS]
    return min(found, key=lambda made: 1 / made.scale + Fraction(made.output, MICRO))


def _spherical(width: int, ridge: Fraction, share: int, micro: int) -> PureObjective:
    return FinePureObjective(width, Fraction(MICRO, micro), ridge, max(1, micro // share))


def _least(made: Callable[[int], M], n: int, alpha: float, failure: float, between: tuple[int, int]) -> M:
    low, high = between
    if certified(made(high), n, failure) > alpha:
        raise InvalidTask(
            "no noise that is worth its name is small enough for this accuracy: raise excess_loss or the penalty, "
            "or bring more rows."
        )
    while high > low:
        middle = (low + high) // 2
        low, high = (low, middle) if certified(made(middle), n, failure) <= alpha else (middle + 1, high)
    return made(high)


def log_loss(model: np.typing.NDArray[np.float64], signed: np.typing.NDArray[np.float64], penalty: float) -> float:
    """The penalized mean log loss of a model on rows times their signs (length at most one)."""
    return float(np.mean(np.logaddexp(0, -signed @ model)) + penalty / 2 * model @ model)
