"""``Sum`` and ``Count``: bounded totals with exact noise.

One unit's rows are summed as integers on a public grid, the total is clamped to public bounds, and exactly as much
noise is added as the bounds demand. What the cap cuts off is bias and is never silently added back. Papers: Amin,
Kulesza, Munoz and Vassilvitskii on bounding contributions. The clamp comes before the noise, and the bounds before
the rows (laws 3 and 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from steelyard.bounding.amounts import Amount, Spend, bound, noise_error
from steelyard.bounding.grouping import Grouping
from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.privacy import Event, Number, Terms, positive
from steelyard.release import Error, Outcome
from steelyard.tables import Quantity, Table


@dataclass(frozen=True)
class Sum:
    """The sum of a column, each unit's total kept between ``lower`` and ``cap``.

    *Privacy:* one unit moves the integer total by at most the larger bound. *Accuracy:* ``error`` splits noise from
    bias. *Cost:* exactly ``epsilon`` (on a Gaussian account: the mu that ``epsilon`` means at its delta, or ``mu``).
    Values that are missing, NaN or infinite count as zero; rows without a unit are dropped.

    >>> Sum("amount", epsilon="0.5", cap=100).cap
    Fraction(100, 1)
    """

    column: str
    epsilon: Number | None = None
    cap: Number | None = None
    lower: Number = 0
    by: str | None = None
    keys: Sequence[Any] | None = None
    max_keys: int | None = None
    rows_per_key: int | None = None
    mu: Number | None = None

    def __post_init__(self) -> None:
        if self.cap is None:
            raise InvalidTask("Sum needs cap=, the most one unit may add to the total; it must be public knowledge.")
        cap, lower = bound(self.cap, "cap"), bound(self.lower, "lower")
        if cap <= 0:
            raise InvalidTask(f"cap must be above zero; got {self.cap!r}.")
        if lower > cap:
            raise InvalidTask(f"lower ({self.lower!r}) must not be above cap ({self.cap!r}).")
        if lower > 0:
            raise InvalidTask(f"lower must be zero or below, since an absent unit adds nothing; got {self.lower!r}.")
        if lower and self.by is not None:
            raise InvalidTask("with by=, cap bounds one unit's total in absolute value over all keys; leave lower out.")
        _normalize(self, cap=cap, lower=lower)

    def check(self, table: Table, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        check_unit(terms)
        table.require_numeric(self.column)
        self._grouping.check(table)

    def event(self, table: Table, terms: Terms) -> Event:
        """One noisy vector at the asked price."""
        return self._parts(terms)[1].event

    def predict(self, terms: Terms) -> Error:
        """The error of the noise, before anything is spent."""
        amount, mechanism = self._parts(terms)
        return noise_error(mechanism, amount.step)

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Bound, sum, noise."""
        amount, mechanism = self._parts(terms)
        quantity = Quantity(self.column, amount.step)
        totals = self._grouping.totals(table, terms.unit, quantity, amount, norm_of(mechanism))
        values = [amount.back(noised) for noised in mechanism.release(totals, noise)]
        point = {"cap": float(self.cap or 0), "lower": float(self.lower), "step": str(amount.step)}
        return Outcome(self._grouping.label(values), noise_error(mechanism, amount.step), point)

    def present(self, value: Any) -> Any:
        """A number, or a dictionary by key."""
        return self._grouping.present(value)

    @property
    def _grouping(self) -> Grouping:
        return Grouping.read(self.by, self.keys, self.max_keys, self.rows_per_key)

    def _parts(self, terms: Terms) -> tuple[Amount, Laplace | Gaussian]:
        spend = Spend.read(self.epsilon, self.mu, terms)
        amount = Amount.of_values(Fraction(self.lower), Fraction(self.cap or 0), spend)
        return amount, spend.mechanism(amount.sensitivity)


@dataclass(frozen=True)
class Count:
    """The number of rows, at most ``cap`` of them from any one unit.

    *Privacy:* one unit moves the count by at most ``cap``. *Cost:* exactly ``epsilon``, as for ``Sum``. Where the
    unit is the row itself the cap is one and need not be given.
    """

    epsilon: Number | None = None
    cap: int | None = None
    by: str | None = None
    keys: Sequence[Any] | None = None
    max_keys: int | None = None
    rows_per_key: int | None = None
    mu: Number | None = None

    def __post_init__(self) -> None:
        if self.cap is not None and (isinstance(self.cap, bool) or not isinstance(self.cap, int) or self.cap < 1):
            raise InvalidTask(f"cap must be a whole number of rows, at least 1; got {self.cap!r}.")
        _normalize(self)

    def check(self, table: Table, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        check_unit(terms)
        self._cap(terms)
        self._grouping.check(table)

    def event(self, table: Table, terms: Terms) -> Event:
        """One noisy vector at the asked price."""
        return self._mechanism(terms).event

    def predict(self, terms: Terms) -> Error:
        """The error of the noise, before anything is spent."""
        return noise_error(self._mechanism(terms), Fraction(1))

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Bound, count, noise."""
        mechanism = self._mechanism(terms)
        amount = Amount.of_rows(self._cap(terms))
        totals = self._grouping.totals(table, terms.unit, Quantity(None), amount, norm_of(mechanism))
        values = mechanism.release(totals, noise)
        return Outcome(self._grouping.label(values), noise_error(mechanism, amount.step), {"cap": amount.upper})

    def present(self, value: Any) -> Any:
        """A number, or a dictionary by key."""
        return self._grouping.present(value)

    @property
    def _grouping(self) -> Grouping:
        return Grouping.read(self.by, self.keys, self.max_keys, self.rows_per_key)

    def _mechanism(self, terms: Terms) -> Laplace | Gaussian:
        return Spend.read(self.epsilon, self.mu, terms).mechanism(self._cap(terms))

    def _cap(self, terms: Terms) -> int:
        if terms.unit.kind == "rows":
            return 1
        if self.cap is None:
            raise InvalidTask("Count needs cap=, the most rows one unit may add; it must be public knowledge.")
        return self.cap


def check_unit(terms: Terms) -> None:
    """Totals protect users or rows; label and holdout accounts pay for other things."""
    if terms.unit.kind not in ("users", "rows"):
        raise UnitMismatch(f"a total protects users or rows; this account hides {terms.unit}.")


def norm_of(mechanism: Laplace | Gaussian) -> str:
    """The norm in which the mechanism's sensitivity is measured."""
    return "l2" if isinstance(mechanism, Gaussian) else "l1"


def _normalize(task: Sum | Count, **read: Fraction) -> None:
    """Keep numbers exactly and lists as tuples, so that equal requests are equal bytes."""
    Grouping.read(task.by, task.keys, task.max_keys, task.rows_per_key)
    for name in ("epsilon", "mu"):
        if getattr(task, name) is not None:
            read[name] = positive(getattr(task, name), name)
    if task.keys is not None:
        object.__setattr__(task, "keys", tuple(task.keys))
    for name, value in read.items():
        object.__setattr__(task, name, value)
