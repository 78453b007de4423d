"""``Sum``, ``Count`` and ``CountUsers``: bounded totals with exact noise.

One unit's rows are summed as integers on a public grid, the total is clamped to bounds, and exactly as much noise is
added as the bounds demand. What the cap cuts off is bias and is never silently added back. Papers: Amin, Kulesza,
Munoz and Vassilvitskii on bounding contributions. The clamp comes before the noise, and bounds are public or bought
(laws 3 and 6). A ``Request`` is all that is known before a row is read; once its bounds are fixed, what is left is one
question to the table and one draw of noise, so that several totals can share the question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

from steelyard.bounding._amounts import Amount, Noisy, Spend, check_kind, check_unit, noise_error, norm_of
from steelyard.bounding._asking import ByKey, Integers, OwnPass, Single, plan_alone
from steelyard.bounding._cap_choice import BoughtCounts
from steelyard.bounding._cap_rule import Bounds, Cap, CapRule
from steelyard.bounding._grouping import By, Grouping, PublicKeys, keep_exact, keep_keys, labelled
from steelyard.bounding._private_keys import Groups, PrivateKeys
from steelyard.bounding._serving import check_minimise
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, Laplace, sigma_for
from steelyard.noise import Noise
from steelyard.plan import Error, Outcome, Plan, as_it_is
from steelyard.privacy import MICRO, Event, Neighbours, Number, Terms, Unit, composed
from steelyard.tables import Bounded, Capped, Joint, KeyList, Limits, Quantity, Schema, Table


@dataclass(frozen=True)
class Sum(Single):
    """The sum of a column, each unit's total kept between ``lower`` and a cap; without ``lower``, between minus the cap and the cap.

    ``cap`` is a public number, a released profile, or ``"auto"``: then it is chosen privately below ``upper``, inside
    the same epsilon, for as many numbers as there are keys; ``minimise`` says whether their "mean" error, the "relative" one or that of
    their "total" is to be small. *Privacy:* one unit moves the integer total by at most the larger bound. *Accuracy:* ``error``
    splits noise from bias. *Cost:* exactly ``epsilon`` (on a Gaussian account: the mu that ``epsilon`` means at its
    delta, or ``mu``). Values that are missing, NaN or infinite count as zero; rows without a unit are dropped. ``others`` adds a row for
    all that stands under none of the keys, found or given; its key is None.

    >>> Sum("amount", epsilon="0.5", cap=100).cap
    Fraction(100, 1)
    """

    column: str
    epsilon: Number | None = None
    cap: Cap = "auto"
    lower: Number | None = None
    upper: Number | None = None
    by: By | None = None
    keys: PublicKeys | None = None
    max_keys: int | None = None
    rows_per_key: int | None = None
    resolution: Number | None = None
    mu: Number | None = None
    minimise: str = "mean"
    others: bool = False

    def __post_init__(self) -> None:
        keep_keys(self)
        rule = self._rule
        if rule.lower is not None and self.by is not None:
            raise InvalidTask(
                "with by=, cap bounds one unit's totals in absolute value over all keys, whatever their signs; leave lower out."
            )
        keep_exact(self, "epsilon", "mu", "cap", "lower", "upper", "resolution")

    def request(self, schema: Schema, terms: Terms) -> Request:
        """The choice of the cap, if it is private, and one noisy vector; an error is predicted where the cap is known."""
        check_kind(terms)
        spend = Spend.read(self.epsilon, self.mu, terms)
        return Request.read(self.column, self._rule, self._grouping, spend, schema, terms)

    @lazy
    def _rule(self) -> CapRule:
        task = (self.cap, self.lower, self.upper, self.resolution)
        return CapRule.read(*task, rows=False, grouping=self._grouping, minimise=self.minimise)


@dataclass(frozen=True)
class Count(Single):
    """The number of rows, at most a cap of them from any one unit.

    *Privacy:* one unit moves the count by at most the cap. *Cost:* exactly ``epsilon``, as for ``Sum``. Where the unit
    is the row itself the cap is one and nothing need be given.
    """

    epsilon: Number | None = None
    cap: Cap = "auto"
    upper: Number | None = None
    by: By | None = None
    keys: PublicKeys | None = None
    max_keys: int | None = None
    rows_per_key: int | None = None
    mu: Number | None = None
    minimise: str = "mean"
    others: bool = False

    def __post_init__(self) -> None:
        check_minimise(self.minimise)
        keep_keys(self)
        if self.cap != "auto" or self.upper is not None:
            self._rule(self.cap)
        keep_exact(self, "epsilon", "mu", "cap", "upper")

    def request(self, schema: Schema, terms: Terms) -> Request:
        """The choice of the cap, if it is private, and one noisy vector; an error is predicted where the cap is known."""
        check_kind(terms)
        cap = 1 if terms.unit.kind == "rows" else self.cap
        return Request.read(
            None, self._rule(cap), self._grouping, Spend.read(self.epsilon, self.mu, terms), schema, terms
        )

    def _rule(self, cap: Cap) -> CapRule:
        return CapRule.read(cap, 0, self.upper, None, rows=True, grouping=self._grouping, minimise=self.minimise)


@dataclass(frozen=True)
class CountUsers(Single):
    """The number of units with at least one row; by keys, of units with a row under each key.

    *Privacy:* one unit moves the count by one, and by keys at most ``max_keys`` of them by one each. Without ``max_keys``, under public keys, how many keys one
    unit counts for is chosen privately inside the same epsilon, and a unit with more counts for its share under each; ``minimise`` is as for ``Sum``.
    """

    epsilon: Number | None = None
    by: By | None = None
    keys: PublicKeys | None = None
    max_keys: int | None = None
    mu: Number | None = None
    minimise: str = "mean"
    others: bool = False

    def __post_init__(self) -> None:
        check_minimise(self.minimise)
        keep_keys(self)
        keep_exact(self, "epsilon", "mu")

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One noisy vector, or the keys that reach their threshold; before it a look at how many keys units reach, where that is bought."""
        if not self._grouping.private:
            return plan_alone(self.request(schema, terms))
        check_unit(schema, terms)
        self._grouping.check(schema)
        spend, keys = Spend.read(self.epsilon, self.mu, terms), self.max_keys or 1
        rest: Spend | None = None
        if self.others:  # as if it were one more key: the noise is then the same everywhere
            spend, rest = spend.split(Fraction(math.isqrt(keys * MICRO**2 // (keys + 1)), MICRO))
        counted = self._counted(spend, Groups(self._grouping, terms.unit))
        found = PrivateKeys.plan(self._grouping.by, keys, spend, terms)
        events = [found.threshold.event, *([] if rest is None else [rest.mechanism(1).event])]
        run = partial(self._look, found=found, unit=terms.unit, error=counted.predicted, rest=rest)
        event = events[0] if rest is None else composed(*events)
        return Plan(event, counted.predicted, run, self._grouping.present)

    def request(self, schema: Schema, terms: Terms) -> Request | CountedUnits:
        """Everything that is known before a row is read; with keys that are found, under those that a search shows beforehand."""
        check_unit(schema, terms)
        self._grouping.check(schema)
        if self._grouping.public is not None and self.max_keys is None:
            return self._bought(schema, terms, len(self._grouping.public))
        groups, spend = Groups.plan(self._grouping, Spend.read(self.epsilon, self.mu, terms), schema, terms)
        return self._counted(spend, groups)

    def _counted(self, spend: Spend, groups: Groups) -> CountedUnits:
        keys = self.max_keys or 1
        mechanism: Laplace | Gaussian = spend.mechanism(keys)
        if spend.gaussian:
            mechanism = Gaussian(None, sigma_for(keys, spend.micro**2), Neighbours.ADD_REMOVE, keys)
        error = noise_error(mechanism, Fraction(1), 0.0)
        if self.by is not None:
            lost = f"a unit with rows under more than {keys} keys counts under {keys} of them, and is missing under the others"
            error = replace(noise_error(mechanism, Fraction(1)), blind_spot=lost)
        return CountedUnits(groups, mechanism, keys, error)

    def _bought(self, schema: Schema, terms: Terms, keys: int) -> Request:
        """A count of rows with one row for each unit and key, its cap bought; where the row is the unit it reaches one key."""
        grouping, cap = replace(self._grouping, rows_per_key=1), 1 if terms.unit.kind == "rows" else "auto"
        rule = CapRule.read(cap, 0, keys, None, rows=True, grouping=grouping, minimise=self.minimise)
        return Request.read(None, rule, grouping, Spend.read(self.epsilon, self.mu, terms), schema, terms)

    @staticmethod
    def _look(
        table: Table, noise: Noise, *, found: PrivateKeys, unit: Unit, error: Error, rest: Spend | None
    ) -> Outcome:
        """Count each unit once under the keys that are found, and once more if it has a row under none of them."""
        shown, threshold = found.look(table, unit, noise), found.threshold
        value = labelled(list(shown), list(shown.values()))
        if rest is not None:
            listed = KeyList(shown)
            listed.found = True
            keys = listed.with_others(len(found.by))
            # one row under each key, so no norm is above the number of keys, and one unit moves the last count by one
            last = table.sums_by_key(unit, [Capped(Quantity(None), len(keys))], found.by, keys, Limits(None, 1))[0][-1]
            value += labelled(keys[-1:], rest.mechanism(1).release([last], noise))
        return Outcome(value, error, {"max_keys": threshold.max_keys, "threshold": threshold.threshold})


@dataclass(frozen=True)
class CountedUnits(OwnPass):
    """Units under each key, each once, under at most ``keys`` of them: at most so many ones per unit, so nothing is scaled.

    A unit's keys are limited here as nowhere else.
    """

    groups: Groups
    mechanism: Laplace | Gaussian
    keys: int
    predicted: Error
    limits: ClassVar[ByKey] = (None, 1)

    @property
    def event(self) -> Event:
        """One noisy vector."""
        return self.mechanism.event

    def told(self, grouping: Grouping, found: Integers, table: Table, noise: Noise) -> Outcome:
        """Count each unit once, noise."""
        unit, keys = self.groups.unit, grouping.public
        if keys is None:
            counts = [table.count_units(unit)]
        else:
            ones = Capped(Quantity(None), self.keys)
            counts = table.sums_by_key(unit, [ones], grouping.by, keys, Limits(self.keys, 1))[0]
        return Outcome(grouping.label(self.mechanism.release(counts, noise)), self.predicted, {"max_keys": self.keys})


@dataclass(frozen=True)
class Request:
    """One total, before any row is read; ``column=None`` counts rows.

    ``groups`` say how the keys are found, ``look`` what buys the cap, each where it is private; ``share`` and ``mechanism`` are
    left for the total. ``fixed`` are the bounds and ``predicted`` the error, where they are known in advance; ``event`` is
    everything that will be noised once the keys are known, at its full price.
    """

    column: str | None
    rule: CapRule
    groups: Groups
    terms: Terms
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
        check_unit(schema, terms)
        if column is not None:
            rule = rule.of_kind(schema.numeric[column])
        groups, spend = Groups.plan(grouping, spend, schema, terms)
        bought, share = rule.parts(spend)
        fixed = rule.fixed(share)
        look, mechanism = rule.noise(bought, share)
        _, event = mechanism.size, mechanism.event  # worked out before rows are read
        event = event if look is None else composed(look.mechanism.event, event)
        predicted = None if fixed is None else Ready(column, fixed, mechanism, share, whole(column, terms)).error
        present = grouping.present if grouping.by else as_it_is
        return cls(column, rule, groups, terms, look, share, mechanism, fixed, predicted, event, present)

    def looking(self, grouping: Grouping) -> tuple[ByKey, tuple[Capped, tuple[int, ...]]] | None:
        """What ``ready`` will ask of norms by key, under which limits; None where it asks nothing of the kind."""
        own = self.groups.limited(grouping)
        if self.fixed is not None or not own.by:
            return None
        return (own.max_keys, own.rows_per_key), self.rule.look_by_key(self.column, self.share)

    def ready(self, table: Table, noise: Noise, grouping: Grouping) -> Ready:
        """Fix the bounds, buying them first where they are private, for a total under these keys."""
        bounds, own = self.fixed, self.groups.limited(grouping)
        if bounds is None:
            assert self.look is not None  # a cap that is not known is bought
            rule = replace(self.rule, grouping=own)
            bounds = rule.bought(table, self.terms, self.column, self.look, self.share, noise, own.size)
        limits = own.max_keys, own.rows_per_key
        return Ready(self.column, bounds, self.mechanism, self.share, whole(self.column, self.terms), limits)


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
    limits: ByKey = (None, None)

    @lazy
    def amount(self) -> Amount:
        """The bounds as integers."""
        return Amount.of_values(self.bounds.lower, self.bounds.upper, self.share)

    def balls(self, grouping: Grouping) -> Sequence[Bounded | Capped | Joint]:
        """The total's bounds; by key its ball, in the norm of the noise."""
        amount, one = self.amount, grouping.public is None
        quantity = Quantity(self.column, amount.step)
        if one:
            return [Bounded(quantity, amount.lower, amount.upper)]
        return [Capped(quantity, amount.upper, norm_of(self.mechanism))]

    @property
    def error(self) -> Error:
        """The error to expect within these bounds."""
        more = {} if self.bounds.cut is None else self.bounds.cut.told
        alone = noise_error(self.mechanism, self.amount.step, 0.0 if self.whole else None)
        return replace(alone, **more, note=self.bounds.note)

    def told(self, grouping: Grouping, found: Integers, table: Table, noise: Noise) -> Outcome:
        """Noise, and what the noisy integers mean; counts are rounded to whole rows after the noise."""
        values = self.amount.all_back(self.mechanism.release(found[0], noise))
        told: list[Any] = list(map(round, values)) if self.column is None else values
        bounds = self.bounds
        point = {"cap": float(bounds.upper), "lower": float(bounds.lower), "spent_on_noise": self.share.level}
        return Outcome(grouping.label(told), self.error, point)


def whole(column: str | None, terms: Terms) -> bool:
    """Whether a cap cuts nothing off whatever the rows hold: where rows are counted and hidden one by one."""
    return column is None and terms.unit.kind == "rows"
