"""``FitLinear``: least squares from one noisy release of the sufficient statistics.

One streaming pass adds up X'X and X'y in exact integers; noise is added once; the rest is post-processing. There is no
step size, no number of iterations and nothing to tune on the data. The features' bounds and the label's bounds are
declared (law 6). Where the account hides users, all rows of a user are bounded together (``user_linear``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from steelyard.bounding import Spend, check_unit, finite
from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.models.columns import Categorical, Features, Numeric, Plain
from steelyard.models.method import Method
from steelyard.models.rows import Floats, Target, gather
from steelyard.models.saved import Model
from steelyard.models.solving import Noisy
from steelyard.models.statistics import BLOCK, Products, Statistics
from steelyard.noise import Noise
from steelyard.privacy import Neighbours, Number, Terms, Unit, positive, rows
from steelyard.release import Outcome
from steelyard.session import Plan
from steelyard.tables import Schema, Table


@dataclass(frozen=True)
class FitLinear:
    """A linear model of a label between public bounds, by least squares.

    ``features`` are ``Numeric``, ``Categorical`` or plain column names (then ``x_bound`` is needed), or ``Features``.
    *Privacy:* one row moves the weighted statistics by at most a proved whole number; NaN, null and infinite values
    count as the middle. *Accuracy:* ``point["expected_excess"]`` estimates what the noise adds to the mean squared
    error, from the release itself. Where users are hidden, ``public_rows`` (a row count you know without looking) helps.
    *Cost:* exactly ``epsilon`` (on a Gaussian account: the mu it means there, or ``mu``).

    >>> task = FitLinear([Numeric("age", 0, 100)], "spend", 0, 400, epsilon="1")
    >>> task.features.width
    2
    """

    features: Features
    label: str
    lower: Number
    upper: Number
    epsilon: Number | None = None
    mu: Number | None = None
    public_rows: int | None = None

    def __init__(
        self,
        features: Features | Sequence[Plain | Numeric | Categorical | str],
        label: str,
        lower: Number,
        upper: Number,
        epsilon: Number | None = None,
        *,
        x_bound: Number | None = None,
        norm: str = "clip",
        intercept: bool = True,
        mu: Number | None = None,
        public_rows: int | None = None,
    ) -> None:
        target = Target(label, lower, upper)
        keep = {
            "features": read_features(features, x_bound, norm, intercept),
            "label": label,
            "lower": target.lower,
            "upper": target.upper,
            "epsilon": None if epsilon is None else positive(epsilon, "epsilon"),
            "mu": None if mu is None else positive(mu, "mu"),
            "public_rows": public_rows,
        }
        for name, value in keep.items():
            object.__setattr__(self, name, value)
        if label in self.features.source:
            raise InvalidTask(f"the label {label!r} cannot also be a feature.")

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One noisy vector, or what hides users. The error falls with the number of rows, which is private: none is predicted."""
        check_unit(schema, terms)
        self.features.check(schema)
        schema.require_numeric(self.label)
        if terms.unit.kind == "users":
            method = self._by_user(terms)
            return Plan(method.event, None, partial(self._fit_users, method, terms.unit), Model.from_json)
        statistics = self.statistics(terms)
        return Plan(statistics.event, None, partial(self._fit_rows, statistics), Model.from_json)

    def _fit_users(self, method: Method, unit: Unit, table: Table, noise: Noise) -> Outcome:
        fitted = method.fit(gather(table, self.features, self.target, unit), noise)
        return Outcome(self._model(fitted.coefficients).to_json(), None, fitted.details)

    def _fit_rows(self, statistics: Statistics, table: Table, noise: Noise) -> Outcome:
        """Add up, noise, solve."""
        step = Products(self.features, self.target)
        gram, moment = table.fold([*self.features.source, self.label], step, step.start, size=BLOCK)
        return self._outcome(statistics.release(gram, moment, noise))

    @property
    def target(self) -> Target:
        """The label and its bounds."""
        return Target(self.label, self.lower, self.upper)

    def statistics(self, terms: Terms) -> Statistics:
        """The release of the statistics at this price."""
        if self.public_rows is not None:
            raise UnitMismatch(f"public_rows helps to bound users; this account hides {terms.unit}.")
        return Statistics(self.features.width, *price_of(self.epsilon, self.mu, terms))

    def _by_user(self, terms: Terms) -> Method:
        from steelyard.models.user_linear import UserSquares

        spend = Spend.read(self.epsilon, self.mu, terms)
        if not spend.gaussian:
            raise InvalidTask("a model that hides users needs Gaussian noise; open the account with a delta.")
        return UserSquares(spend.micro, self.public_rows)

    def _model(self, theta: Floats) -> Model:
        return Model("linear", self.features, self.label, theta.tolist(), self.lower, self.upper)

    def _outcome(self, noisy: Noisy) -> Outcome:
        theta, held = noisy.solve(self.features.intercept)
        point = {"floor": noisy.floor, "floored": noisy.floored, "noise": noisy.on_label, "rows": self._rows(noisy)}
        if point["rows"] is not None:
            excess = noisy.excess(theta, held) / point["rows"]
            point["expected_excess"] = finite(Fraction(excess) * Fraction(self.target.half) ** 2)
        return Outcome(self._model(theta).to_json(), None, point)

    def _rows(self, noisy: Noisy) -> float | None:
        """About how many rows there were, read off the released matrix where it says so."""
        if self.features.norm == "scale":
            return max(float(noisy.matrix.trace()), 1.0)
        return max(2 * float(noisy.matrix[-1, -1]), 1.0) if self.features.intercept else None


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
