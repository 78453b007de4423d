"""``Sum``, ``Count``, ``CountUsers`` and ``Together``: bounded totals with exact noise.

One unit's rows are summed as integers on a public grid, the total is clamped to bounds, and exactly as much noise is
added as the bounds demand. What the cap cuts off is bias and is never silently added back. Papers: Amin, Kulesza,
Munoz and Vassilvitskii on bounding contributions. The clamp comes before the noise, and bounds are public or bought
(laws 3 and 6). A ``Request`` is all that is known before a row is read; once its bounds are fixed, what is left is one
question to the table and one draw of noise, so that several totals can share the question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from steelyard.accounting import composed
from steelyard.bounding._amounts import Amount, Noisy, Spend, check_kind, check_unit, noise_error, norm_of
from steelyard.bounding._cap_choice import BoughtCounts
from steelyard.bounding._cap_rule import Bounds, Cap, CapRule
from steelyard.bounding._grouping import Grouping, keep_exact, keep_keys, labelled
from steelyard.bounding._private_keys import SHARE, PrivateKeys
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, Laplace, sigma_for
from steelyard.noise import Noise
from steelyard.privacy import Event, Neighbours, Number, Terms, Unit
from steelyard.release import Error, Outcome, as_it_is
from steelyard.session import Plan
from steelyard.tables import Bounded, Capped, Limits, Quantity, Schema, Table


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
        keep_keys(self)
        keep_exact(self, "epsilon", "mu", "cap", "lower", "upper", "resolution")

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """The choice of the cap, if it is private, and one noisy vector; an error is predicted where the cap is known."""
        request = self.request(schema, terms)
        return Plan(request.event, request.predicted, request.run, request.present)

    def request(self, schema: Schema, terms: Terms) -> Request:
        """Everything that is known before a row is read; refuses what the schema or the account rule out."""
        check_kind(terms)
        spend = Spend.read(self.epsilon, self.mu, terms)
        return Request.read(self.column, self._rule, self._grouping, spend, schema, terms)

    @lazy
    def _grouping(self) -> Grouping:
        return Grouping.of(self)

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
        keep_keys(self)
        keep_exact(self, "epsilon", "mu", "cap", "upper")

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """The choice of the cap, if it is private, and one noisy vector; an error is predicted where the cap is known."""
        request = self.request(schema, terms)
        return Plan(request.event, request.predicted, request.run, request.present)

    def request(self, schema: Schema, terms: Terms) -> Request:
        """Everything that is known before a row is read; refuses what the schema or the account rule out."""
        check_kind(terms)
        cap = 1 if terms.unit.kind == "rows" else self.cap
        rule = CapRule.read(cap, 0, self.upper, None, rows=True, scalar=self.by is None)
        return Request.read(None, rule, self._grouping, Spend.read(self.epsilon, self.mu, terms), schema, terms)

    @lazy
    def _grouping(self) -> Grouping:
        return Grouping.of(self)


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
        keep_keys(self)
        keep_exact(self, "epsilon", "mu")

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One noisy vector, or the keys that reach their threshold."""
        check_unit(schema, terms)
        self._grouping.check(schema)
        spend, keys = Spend.read(self.epsilon, self.mu, terms), self.max_keys or 1
        mechanism: Laplace | Gaussian = spend.mechanism(keys)
        if spend.gaussian:
            mechanism = Gaussian(None, sigma_for(keys, spend.micro**2), Neighbours.ADD_REMOVE, keys)
        error = noise_error(mechanism, Fraction(1), 0.0)
        if self.by is not None:
            lost = f"a unit with rows under more than {keys} keys counts under {keys} of them, and is missing under the others"
            error = replace(noise_error(mechanism, Fraction(1)), blind_spot=lost)
        # at most max_keys ones per unit, so no norm is ever above max_keys and nothing is scaled
        ones = Capped(Quantity(None), keys)
        if self.by is not None and self._grouping.private:
            found = PrivateKeys.plan(self.by, keys, 1, spend, terms)
            run = partial(self._look, found=found, ones=ones, terms=terms, error=error)
            return Plan(found.threshold.event, error, run, self._grouping.present)
        run = partial(self._count, mechanism=mechanism, ones=ones, unit=terms.unit, error=error)
        return Plan(mechanism.event, error, run, self._grouping.present)

    def _look(
        self, table: Table, noise: Noise, *, found: PrivateKeys, ones: Capped, terms: Terms, error: Error
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
        return Grouping.of(self)


@dataclass(frozen=True)
class Request:
    """One total, before any row is read; ``column=None`` counts rows.

    ``private`` says how the keys are found, ``look`` what buys the cap, each where it is private; ``share`` and ``mechanism`` are
    left for the total. ``fixed`` are the bounds and ``predicted`` the error, where they are known in advance; ``event`` is
    everything that will be noised, at its full price.
    """

    column: str | None
    rule: CapRule
    grouping: Grouping
    terms: Terms
    private: PrivateKeys | None
    look: BoughtCounts | None
    share: Spend
    mechanism: Noisy
    fixed: Bounds | None
    predicted: Error | None
    event: Event
    present: Callable[[Any], Any]

    @classmethod
    def read(
        cls, column: str | None, rule: CapRule, grouping: Grouping, spend: Spend, schema: Schema, terms: Terms
    ) -> Request:
        """Share the spend out, and refuse what the schema rules out."""
        private = None
        if grouping.by is not None and grouping.private:
            first, spend = spend.split(SHARE)
            private = PrivateKeys.plan(grouping.by, grouping.max_keys or 1, grouping.rows_per_key, first, terms)
        bought, share = rule.parts(spend)
        fixed = rule.fixed(share)
        look, mechanism = rule.noise(bought, share)
        _, event = mechanism.size, mechanism.event  # worked out before rows are read
        event = event if look is None else composed(look.mechanism.event, event)
        event = event if private is None else composed(private.threshold.event, event)
        predicted = None if fixed is None else Ready(column, fixed, mechanism, share, whole(column, terms)).error
        schema.require_unit(terms.unit)
        if column is not None:
            schema.require_numeric(column)
        if grouping.by is not None:
            schema.require_keys(grouping.by, grouping.keys or ())
        present = as_it_is if grouping.by is None else grouping.present
        return cls(column, rule, grouping, terms, private, look, share, mechanism, fixed, predicted, event, present)

    def ready(self, table: Table, noise: Noise) -> Ready:
        """Fix the bounds, buying them first where they are private."""
        bounds = self.fixed
        if bounds is None:
            assert self.look is not None  # a cap that is not known is bought
            bounds = self.rule.bought(table, self.terms, self.column, self.look, self.share, noise)
        return Ready(self.column, bounds, self.mechanism, self.share, whole(self.column, self.terms))

    def run(self, table: Table, noise: Noise) -> Outcome:
        """Bound, ask, noise."""
        ready, keys = self.ready(table, noise), self.grouping.keys
        if self.private is None:
            (totals,) = totals_of([ready], self.grouping, self.terms.unit, table)
        else:
            shown = self.private.look(table, self.terms, ready.capped, noise)
            keys, totals = tuple(shown), [total for _, total in shown.values()]
        return ready.told(keys, self.mechanism.release(totals, noise))


@dataclass(frozen=True)
class Ready:
    """One total whose bounds are fixed: what to ask the table, and what to do with its answer.

    ``whole`` says that the bounds cut nothing off whatever the rows: where the unit is the row, and rows are counted.
    """

    column: str | None
    bounds: Bounds
    mechanism: Noisy
    share: Spend
    whole: bool = False

    @lazy
    def amount(self) -> Amount:
        """The bounds as integers."""
        return Amount.of_values(self.bounds.lower, self.bounds.upper, self.share)

    @property
    def bounded(self) -> Bounded:
        """The question for one total."""
        amount = self.amount
        return Bounded(Quantity(self.column, amount.step), amount.lower, amount.upper)

    @property
    def capped(self) -> Capped:
        """The question for totals by key, in the norm of the noise."""
        amount, norm = self.amount, norm_of(self.mechanism)
        return Capped(Quantity(self.column, amount.step), amount.upper, norm)

    @property
    def error(self) -> Error:
        """The error to expect within these bounds."""
        alone, cut = noise_error(self.mechanism, self.amount.step, 0.0 if self.whole else None), self.bounds.cut
        return alone if cut is None else cut.onto(alone)

    def told(self, keys: Sequence[Any] | None, noised: Sequence[int]) -> Outcome:
        """What noisy integers mean; counts are rounded to whole rows after the noise."""
        values = [self.amount.back(each) for each in noised]
        told = [round(value) for value in values] if self.column is None else values
        bounds = self.bounds
        point = {"cap": float(bounds.upper), "lower": float(bounds.lower), "spent_on_noise": self.share.level}
        return Outcome(told[0] if keys is None else labelled(keys, told), self.error, point)


def whole(column: str | None, terms: Terms) -> bool:
    """Whether a cap cuts nothing off whatever the rows hold: where rows are counted and hidden one by one."""
    return column is None and terms.unit.kind == "rows"


def totals_of(ready: Sequence[Ready], grouping: Grouping, unit: Unit, table: Table) -> Sequence[Sequence[int]]:
    """The bounded integers of several totals in one pass over the rows: for each, one integer per key, or one."""
    if grouping.by is None or grouping.keys is None:
        return list(zip(table.capped_totals(unit, [each.bounded for each in ready]), strict=True))
    limits = Limits(grouping.max_keys, grouping.rows_per_key)
    return table.sums_by_key(unit, [each.capped for each in ready], grouping.by, grouping.keys, limits)


@dataclass(frozen=True)
class Together:
    """A list of ``Sum`` and ``Count`` with the same ``by``, ``keys`` and limits; the value is the list of their values.

    *Privacy, cost:* the sum of the parts. *Accuracy:* each part's error is in ``release.point["parts"]``.

    >>> task = Together([Sum("amount", epsilon="0.5", cap=100), Count(epsilon="0.1", cap=10)])
    >>> len(task.tasks)
    2
    """

    tasks: Sequence[Sum | Count]

    def __post_init__(self) -> None:
        tasks = tuple(self.tasks)
        if not tasks or not all(isinstance(task, Sum | Count) for task in tasks):
            raise InvalidTask("Together takes a list of Sum and Count.")
        first = tasks[0]
        for task in tasks:
            if (task.by, task.keys, task.max_keys, task.rows_per_key) != (
                first.by, first.keys, first.max_keys, first.rows_per_key
            ):  # fmt: skip
                raise InvalidTask("totals that are asked together need the same by, keys, max_keys and rows_per_key.")
        if first.by is not None and first.keys is None:
            raise InvalidTask("totals that are asked together need public keys; ask for found keys one by one.")
        object.__setattr__(self, "tasks", tasks)

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """All parts, at their full price; each tells its own error, there is none for a list."""
        requests = [task.request(schema, terms) for task in self.tasks]
        present = requests[0].present
        return Plan(
            composed(*(request.event for request in requests)),
            None,
            lambda table, noise: _read_once(requests, table, noise),
            lambda values: [present(value) for value in values],
        )


def _read_once(requests: Sequence[Request], table: Table, noise: Noise) -> Outcome:
    """Fix all bounds, read once, noise each."""
    grouping, unit = requests[0].grouping, requests[0].terms.unit
    ready = [request.ready(table, noise) for request in requests]
    totals = totals_of(ready, grouping, unit, table)
    parts = [
        each.told(grouping.keys, each.mechanism.release(found, noise))
        for each, found in zip(ready, totals, strict=True)
    ]
    told = [{**part.point, "error": part.error.to_json() if part.error else None} for part in parts]
    return Outcome([part.value for part in parts], None, {"parts": told})
