"""``Sum``, ``Count`` and ``CountUsers``: bounded totals with exact noise.

One unit's rows are summed as integers on a public grid, the total is clamped to bounds, and exactly as much noise is
added as the bounds demand. What the cap cuts off is bias and is never silently added back. Papers: Amin, Kulesza,
Munoz and Vassilvitskii on bounding contributions. The clamp comes before the noise, and bounds are public or bought
(laws 3 and 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from steelyard.bounding.amounts import Spend, check_unit, noise_error, sigma_for
from steelyard.bounding.caps import Cap, CapRule
from steelyard.bounding.found import FoundKeys
from steelyard.bounding.grouping import Grouping, labelled
from steelyard.bounding.request import Request
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.privacy import Neighbours, Number, Terms, Unit, exact, positive
from steelyard.release import Error, Outcome
from steelyard.session import Plan
from steelyard.tables import Capped, Limits, Quantity, Schema, Table


@dataclass(frozen=True)
class Sum:
    """The sum of a column, each unit's total kept between ``lower`` and a cap.

    ``cap`` is a public number, a released profile, or ``"auto"``: then it is chosen privately below ``upper``, inside
    the same epsilon. *Privacy:* one unit moves the integer total by at most the larger bound. *Accuracy:* ``error``
    splits noise from bias. *Cost:* exactly ``epsilon`` (on a Gaussian account: the mu that ``epsilon`` means at its
    delta, or ``mu``). Values that are missing, NaN or infinite count as zero; rows without a unit are dropped.

    >>> Sum("amount", epsilon="0.5", cap=100).cap
    Fraction(100, 1)
    """

    column: str
    epsilon: Number | None = None
    cap: Cap = "auto"
    lower: Number = 0
    upper: Number | None = None
    by: str | None = None
    keys: Sequence[Any] | None = None
    max_keys: int | None = None
    rows_per_key: int | None = None
    resolution: Number | None = None
    mu: Number | None = None

    def __post_init__(self) -> None:
        rule = self._rule
        if rule.upper is not None and rule.upper < rule.lower:
            raise InvalidTask(f"upper ({self.upper!r}) must not be below lower ({self.lower!r}).")
        if rule.lower and self.by is not None:
            raise InvalidTask("with by=, cap bounds one unit's total in absolute value over all keys; leave lower out.")
        normalize(self, "epsilon", "mu", "cap", "lower", "upper", "resolution")

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """The choice of the cap, if it is private, and one noisy vector; an error is predicted where the cap is known."""
        return self.request(schema, terms).plan

    def request(self, schema: Schema, terms: Terms) -> Request:
        """Everything that is known before a row is read; refuses what the schema or the account rule out."""
        check_unit(schema, terms)
        schema.require_numeric(self.column)
        self._grouping.check(schema)
        return Request.read(self.column, self._rule, self._grouping, Spend.read(self.epsilon, self.mu, terms), terms)

    @lazy
    def _grouping(self) -> Grouping:
        return grouping_of(self)

    @lazy
    def _rule(self) -> CapRule:
        return CapRule.read(self.cap, self.lower, self.upper, self.resolution, rows=False, scalar=self.by is None)


@dataclass(frozen=True)
class Count:
    """The number of rows, at most a cap of them from any one unit.

    *Privacy:* one unit moves the count by at most the cap. *Cost:* exactly ``epsilon``, as for ``Sum``. Where the unit
    is the row itself the cap is one and nothing need be given.
    """

    epsilon: Number | None = None
    cap: Cap = "auto"
    upper: Number | None = None
    by: str | None = None
    keys: Sequence[Any] | None = None
    max_keys: int | None = None
    rows_per_key: int | None = None
    mu: Number | None = None

    def __post_init__(self) -> None:
        if self.cap != "auto" or self.upper is not None:
            CapRule.read(self.cap, 0, self.upper, None, rows=True, scalar=self.by is None)
        normalize(self, "epsilon", "mu", "cap", "upper")

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """The choice of the cap, if it is private, and one noisy vector; an error is predicted where the cap is known."""
        return self.request(schema, terms).plan

    def request(self, schema: Schema, terms: Terms) -> Request:
        """Everything that is known before a row is read; refuses what the schema or the account rule out."""
        check_unit(schema, terms)
        cap = 1 if terms.unit.kind == "rows" else self.cap
        rule = CapRule.read(cap, 0, self.upper, None, rows=True, scalar=self.by is None)
        self._grouping.check(schema)
        return Request.read(None, rule, self._grouping, Spend.read(self.epsilon, self.mu, terms), terms)

    @lazy
    def _grouping(self) -> Grouping:
        return grouping_of(self)


@dataclass(frozen=True)
class CountUsers:
    """The number of units with at least one row; by keys, of units with a row under each key.

    *Privacy:* one unit moves the count by one, and by keys at most ``max_keys`` of them by one each.
    """

    epsilon: Number | None = None
    by: str | None = None
    keys: Sequence[Any] | None = None
    max_keys: int | None = None
    mu: Number | None = None

    def __post_init__(self) -> None:
        if self.by is not None and self.max_keys is None:
            raise InvalidTask("counting users by key needs max_keys=, the most keys one user may count under.")
        normalize(self, "epsilon", "mu")

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One noisy vector, or the keys that reach their threshold."""
        check_unit(schema, terms)
        self._grouping.check(schema)
        spend, keys = Spend.read(self.epsilon, self.mu, terms), self.max_keys or 1
        mechanism: Laplace | Gaussian = spend.mechanism(keys)
        if spend.gaussian:
            mechanism = Gaussian(None, sigma_for(keys, spend.micro**2), Neighbours.ADD_REMOVE, keys)
        error = noise_error(mechanism, Fraction(1), 0.0 if self.by is None else None)
        # at most max_keys ones per unit, so no norm is ever above max_keys and nothing is scaled
        ones = Capped(Quantity(None), keys)
        if self.by is not None and self._grouping.found:
            found = FoundKeys.plan(self.by, keys, 1, spend, terms)
            run = partial(self._look, found=found, ones=ones, terms=terms, error=error)
            return Plan(found.threshold.event, error, run, self._grouping.present)
        run = partial(self._count, mechanism=mechanism, ones=ones, unit=terms.unit, error=error)
        return Plan(mechanism.event, error, run, self._grouping.present)

    def _look(
        self, table: Table, noise: Noise, *, found: FoundKeys, ones: Capped, terms: Terms, error: Error
    ) -> Outcome:
        """Count each unit once under the keys that are found."""
        shown = found.look(table, terms, ones, noise)
        value = labelled(list(shown), [units for units, _ in shown.values()])
        return Outcome(value, error, {"max_keys": ones.cap, "threshold": found.threshold.threshold})

    def _count(
        self, table: Table, noise: Noise, *, mechanism: Laplace | Gaussian, ones: Capped, unit: Unit, error: Error
    ) -> Outcome:
        """Count each unit once, noise."""
        if self.by is None or self.keys is None:
            counts = [table.count_units(unit)]
        else:
            counts = table.sums_by_key(unit, [ones], self.by, self.keys, Limits(ones.cap, 1))[0]
        return Outcome(self._grouping.label(mechanism.release(counts, noise)), error, {"max_keys": ones.cap})

    @lazy
    def _grouping(self) -> Grouping:
        return grouping_of(self)


def grouping_of(task: Any) -> Grouping:
    """The keys of a task, checked."""
    return Grouping.read(task.by, task.keys, task.max_keys, getattr(task, "rows_per_key", None))


def normalize(task: Any, *numbers: str) -> None:
    """Keep numbers exactly and lists as tuples, so that equal requests are equal bytes."""
    _ = task._grouping
    for name in numbers:
        value = getattr(task, name)
        if value is None or value == "auto" or hasattr(value, "to_json"):
            continue
        read = positive(value, name) if name in ("epsilon", "mu", "resolution") else exact(value, name)
        object.__setattr__(task, name, read)
    if task.keys is not None:
        object.__setattr__(task, "keys", tuple(task.keys))
