"""``FitPoisson``: expected counts by a log-linear model, where labels alone are hidden and features are public.

Labels enter a Poisson likelihood through one sum of label times features, so that sum is released once and the rest is
computed from public rows (``LabelSums``, docs/proofs/label_sums.md). For accounts that hide rows or users no price is proved.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, InitVar, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from steelyard.bounding import Spend
from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.models._columns import Features
from steelyard.models._fits import read_features
from steelyard.models._label_sums import LabelSums
from steelyard.models._losses import POISSON
from steelyard.models._model import Model, present
from steelyard.models._passes import Reading
from steelyard.models._rows import Target
from steelyard.plan import Outcome, Plan
from steelyard.privacy import Number, Terms, Unit, positive
from steelyard.threads import one_thread

if TYPE_CHECKING:
    from steelyard.noise import Noise
    from steelyard.tables import Schema, Table


@dataclass(frozen=True)
class FitPoisson:
    """A log-linear model of a count between public bounds, on accounts that hide labels alone.

    ``features`` are ``Numeric``, ``Categorical`` or plain column names (then ``x_bound`` is needed), or ``Features``; ``lower`` and
    ``upper`` are whole numbers from 0 up. Predictions are expected counts between the bounds; a coefficient is the change of the
    count's logarithm. *Privacy:* one label moves the released sum by at most a proved whole number; NaN, null and infinite labels
    count as the middle of the bounds. Features, their order and the number of rows are public. *Accuracy:* counts beyond the bounds
    are clamped, so a low ``upper`` bends the model and a high one costs noise in proportion. *Cost:* exactly ``epsilon`` (on a
    Gaussian account: the mu it means there, or ``mu``).

    >>> FitPoisson(["visits"], "orders", 0, 20, epsilon="1", x_bound=5).features.width
    2
    """

    if TYPE_CHECKING:
        features: Any  # given as Features or a list of columns
    else:
        features: Features  # what it is once the task is made, and in its JSON
    label: str
    lower: Number
    upper: Number
    epsilon: Number | None = None
    _: KW_ONLY
    mu: Number | None = None
    x_bound: InitVar[Number | None] = None
    norm: InitVar[str] = "clip"
    intercept: InitVar[bool] = True

    def __post_init__(self, x_bound: Number | None, norm: str, intercept: bool) -> None:
        target = self.target
        POISSON.between(target)
        held = {"lower": target.lower, "upper": target.upper}
        held |= {name: positive(value, name) for name, value in self._price().items()}
        for name, value in held.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "features", read_features(self.features, x_bound, norm, intercept))
        if self.label in self.features.source:
            raise InvalidTask(f"the label {self.label!r} cannot also be a feature.")

    def _price(self) -> dict[str, Number]:
        given = {"epsilon": self.epsilon, "mu": self.mu}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def target(self) -> Target:
        """The label and its bounds."""
        return Target(self.label, self.lower, self.upper)

    def fit(self, terms: Terms) -> LabelSums:
        """One noisy sum of label times public features."""
        if terms.unit.kind != "labels":
            raise UnitMismatch(
                f"a Poisson model is fitted where labels alone are hidden (unit=labels({self.label!r})), since only then is a price "
                f"proved; this account hides {terms.unit}. FitLinear fits a linear model of the same label here; nothing was charged."
            )
        if terms.unit.column != self.label:
            raise UnitMismatch(f"this model is of the label {self.label!r}; the account hides {terms.unit}.")
        spend = Spend.read(self.epsilon, self.mu, terms)
        return LabelSums(spend, POISSON.between(self.target), self.features.intercept)

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One event; what is known of the error depends on the rows, so none is predicted."""
        self.features.check(schema)
        self.target.check(schema)
        method = self.fit(terms)
        return Plan(method.event, None, partial(self._model, method, terms.unit), present)

    def _model(self, method: LabelSums, unit: Unit, table: Table, noise: Noise) -> Outcome:
        with one_thread():
            fitted = method.fit(Reading(table, self.features, self.target, unit).of(0), noise)
        theta = fitted.coefficients.tolist()
        model = Model(POISSON.name, self.features, self.label, theta, self.lower, self.upper)
        return Outcome(model.to_json(), None, fitted.details)
