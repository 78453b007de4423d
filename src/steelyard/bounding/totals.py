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
from typing import Any

from steelyard.bounding.amounts import Spend, check_unit, noise_error, sigma_for
from steelyard.bounding.caps import Cap, CapRule
from steelyard.bounding.found import FoundKeys
from steelyard.bounding.grouping import Grouping, labelled
from steelyard.bounding.request import Request
from steelyard.errors import InvalidTask
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.privacy import Event, Neighbours, Number, Terms, exact, positive
from steelyard.release import Error, Outcome
from steelyard.tables import Capped, Limits, Quantity, Table


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

    def check(self, table: Table, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        check_unit(table, terms)
        table.require_numeric(self.column)
        self._grouping.check(table)

    def event(self, table: Table, terms: Terms) -> Event:
        """The choice of the cap, if it is private, and one noisy vector."""
        return self.request(terms).event

    def predict(self, terms: Terms) -> Error | None:
        """The error to expect, before anything is spent; ``None`` where it depends on a cap not yet chosen."""
        return self.request(terms).predict()

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Bound, sum, noise."""
        return self.request(terms).run(table, noise)

    def present(self, value: Any) -> Any:
        """A number, or a dictionary by key."""
        return self._grouping.present(value)

    def request(self, terms: Terms) -> Request:
        """Everything that is known before a row is read."""
        return Request(self.column, self._rule, self._grouping, Spend.read(self.epsilon, self.mu, terms), terms)

    @property
    def _grouping(self) -> Grouping:
        return Grouping.read(self.by, self.keys, self.max_keys, self.rows_per_key)

    @property
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

    def check(self, table: Table, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        check_unit(table, terms)
        self._rule(terms)
        self._grouping.check(table)

    def event(self, table: Table, terms: Terms) -> Event:
        """The choice of the cap, if it is private, and one noisy vector."""
        return self.request(terms).event

    def predict(self, terms: Terms) -> Error | None:
        """The error to expect, before anything is spent; ``None`` where it depends on a cap not yet chosen."""
        return self.request(terms).predict()

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Bound, count, noise; a count is rounded to whole rows after the noise."""
        return self.request(terms).run(table, noise)

    def present(self, value: Any) -> Any:
        """A number, or a dictionary by key."""
        return self._grouping.present(value)

    def request(self, terms: Terms) -> Request:
        """Everything that is known before a row is read."""
        return Request(None, self._rule(terms), self._grouping, Spend.read(self.epsilon, self.mu, terms), terms)

    @property
    def _grouping(self) -> Grouping:
        return Grouping.read(self.by, self.keys, self.max_keys, self.rows_per_key)

    def _rule(self, terms: Terms) -> CapRule:
        cap = 1 if terms.unit.kind == "rows" else self.cap
        return CapRule.read(cap, 0, self.upper, None, rows=True, scalar=self.by is None)


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
        _ = self._grouping
        normalize(self, "epsilon", "mu")

    def check(self, table: Table, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        check_unit(table, terms)
        self._grouping.check(table)

    def event(self, table: Table, terms: Terms) -> Event:
        """One noisy vector, or the keys that reach their threshold."""
        found = self._found(terms)
        return self._mechanism(terms).event if found is None else found.threshold.event

    def predict(self, terms: Terms) -> Error:
        """The error to expect, before anything is spent."""
        return noise_error(self._mechanism(terms), Fraction(1), 0.0 if self.by is None else None)

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Count each unit once, noise."""
        point, found = {"max_keys": self.max_keys or 1}, self._found(terms)
        # at most max_keys ones per unit, so no norm is ever above max_keys and nothing is scaled
        ones = Capped(Quantity(None), self.max_keys or 1)
        if found is not None:
            shown = found.look(table, terms, ones, noise)
            value = labelled(list(shown), [units for units, _ in shown.values()])
            return Outcome(value, self.predict(terms), {**point, "threshold": found.threshold.threshold})
        if self.by is None or self.keys is None:
            counts = [table.count_units(terms.unit)]
        else:
            counts = table.sums_by_key(terms.unit, [ones], self.by, self.keys, Limits(self.max_keys, 1))[0]
        values = self._mechanism(terms).release(counts, noise)
        return Outcome(self._grouping.label(values), self.predict(terms), point)

    def present(self, value: Any) -> Any:
        """A number, or a dictionary by key."""
        return self._grouping.present(value)

    @property
    def _grouping(self) -> Grouping:
        return Grouping.read(self.by, self.keys, self.max_keys, None)

    def _found(self, terms: Terms) -> FoundKeys | None:
        if self.by is None or not self._grouping.found:
            return None
        return FoundKeys.plan(self.by, self.max_keys or 1, 1, Spend.read(self.epsilon, self.mu, terms), terms)

    def _mechanism(self, terms: Terms) -> Laplace | Gaussian:
        spend, keys = Spend.read(self.epsilon, self.mu, terms), self.max_keys or 1
        if not spend.gaussian:
            return spend.mechanism(keys)
        return Gaussian(None, sigma_for(keys, spend.micro**2), Neighbours.ADD_REMOVE, keys)


def normalize(task: Any, *numbers: str) -> None:
    """Keep numbers exactly and lists as tuples, so that equal requests are equal bytes."""
    Grouping.read(task.by, task.keys, task.max_keys, getattr(task, "rows_per_key", None))
    for name in numbers:
        value = getattr(task, name)
        if value is None or value == "auto" or hasattr(value, "to_json"):
            continue
        read = positive(value, name) if name in ("epsilon", "mu", "resolution") else exact(value, name)
        object.__setattr__(task, name, read)
    if task.keys is not None:
        object.__setattr__(task, "keys", tuple(task.keys))
