"""The common work of every total: find the bounds, sum what is inside them, noise it.

A ``Request`` is what is known before a row is read: the column, the rule for the cap, the keys, the price. ``ready``
fixes the bounds (buying them where they are private); what is then left is one question to the table and one draw of
noise, so that several totals can share the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.accounting.prices import composed
from steelyard.bounding.amounts import Amount, Noisy, Spend, noise_error, norm_of
from steelyard.bounding.caps import Bounds, CapRule
from steelyard.bounding.found import SHARE, FoundKeys
from steelyard.bounding.grouping import Grouping, labelled
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Event, Terms
from steelyard.release import Error, Outcome
from steelyard.tables import Bounded, Capped, Quantity, Table


@dataclass(frozen=True)
class Request:
    """One total, before any row is read; ``column=None`` counts rows."""

    column: str | None
    rule: CapRule
    grouping: Grouping
    spend: Spend
    terms: Terms

    @property
    def shares(self) -> tuple[FoundKeys | None, Spend]:
        """How the keys are found, where they must be, and what is left for the total."""
        grouping = self.grouping
        if grouping.by is None or not grouping.found:
            return None, self.spend
        look, rest = self.spend.split(SHARE)
        return FoundKeys.plan(grouping.by, grouping.max_keys or 1, grouping.rows_per_key, look, self.terms), rest

    @property
    def event(self) -> Event:
        """Everything that will be noised, at its full price."""
        found, rest = self.shares
        return self.rule.event(rest) if found is None else composed(found.threshold.event, self.rule.event(rest))

    def predict(self) -> Error | None:
        """The error, where the bounds are known in advance."""
        _, rest = self.shares
        bounds = self.rule.fixed(rest)
        if bounds is None:
            return None
        step = Amount.of_values(bounds.lower, bounds.upper, rest).step
        return noise_error(self.rule.mechanism(rest), step, bounds.bias)

    def ready(self, table: Table, noise: Noise) -> Ready:
        """Fix the bounds, buying them first where they are private."""
        _, rest = self.shares
        bounds = self.rule.bounds(table, self.terms, self.column, rest, noise)
        _, share = self.rule.parts(rest)
        amount = Amount.of_values(bounds.lower, bounds.upper, share)
        return Ready(self.column, bounds, amount, self.rule.mechanism(share), share)

    def run(self, table: Table, noise: Noise) -> Outcome:
        """Bound, ask, noise."""
        ready, (found, _) = self.ready(table, noise), self.shares
        if found is None:
            return ready.finish(self.grouping.keys, self.grouping.totals(table, self.terms.unit, [ready])[0], noise)
        shown = found.look(table, self.terms, ready.capped, noise)
        return ready.finish(tuple(shown), [total for _, total in shown.values()], noise)


@dataclass(frozen=True)
class Ready:
    """One total whose bounds are fixed: what to ask the table, and what to do with its answer."""

    column: str | None
    bounds: Bounds
    amount: Amount
    mechanism: Noisy
    share: Spend

    @property
    def bounded(self) -> Bounded:
        """The question for one total."""
        return Bounded(Quantity(self.column, self.amount.step), self.amount.lower, self.amount.upper)

    @property
    def capped(self) -> Capped:
        """The question for totals by key, in the norm of the noise."""
        return Capped(Quantity(self.column, self.amount.step), self.amount.upper, norm_of(self.mechanism))

    def finish(self, keys: Sequence[Any] | None, totals: Sequence[int], noise: Noise) -> Outcome:
        """Noise the integers and say what they mean; counts are rounded to whole rows after the noise."""
        values = [self.amount.back(noised) for noised in self.mechanism.release(totals, noise)]
        told = [round(value) for value in values] if self.column is None else values
        bounds = self.bounds
        point = {"cap": float(bounds.upper), "lower": float(bounds.lower), "spent_on_noise": self.share.micro / MICRO}
        error = noise_error(self.mechanism, self.amount.step, bounds.bias)
        return Outcome(told[0] if keys is None else labelled(keys, told), error, point)
