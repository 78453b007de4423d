"""The common work of every total: find the bounds, sum what is inside them, noise it.

A ``Request`` is what is known before a row is read, worked out once: the column, the rule for the cap, the keys, and what
each step may spend. ``ready`` fixes the bounds (buying them where they are private); what is then left is one question to
the table and one draw of noise, so that several totals can share the question.
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
from steelyard.session import Plan
from steelyard.tables import Bounded, Capped, Quantity, Table


@dataclass(frozen=True)
class Request:
    """One total, before any row is read; ``column=None`` counts rows.

    ``found`` says how the keys are found, ``look`` what buys the cap, each where it is private; ``share`` and ``mechanism`` are
    left for the total. ``fixed`` are the bounds, where they are known in advance.
    """

    column: str | None
    rule: CapRule
    grouping: Grouping
    terms: Terms
    found: FoundKeys | None
    look: Spend | None
    share: Spend
    mechanism: Noisy
    fixed: Bounds | None

    @classmethod
    def read(cls, column: str | None, rule: CapRule, grouping: Grouping, spend: Spend, terms: Terms) -> Request:
        """Share the spend out."""
        found = None
        if grouping.by is not None and grouping.found:
            first, spend = spend.split(SHARE)
            found = FoundKeys.plan(grouping.by, grouping.max_keys or 1, grouping.rows_per_key, first, terms)
        look, share = rule.parts(spend)
        return cls(column, rule, grouping, terms, found, look, share, rule.mechanism(share), rule.fixed(share))

    @property
    def plan(self) -> Plan:
        """The total alone."""
        return Plan(self.event, self._predicted, self.run, self.grouping.present)

    @property
    def event(self) -> Event:
        """Everything that will be noised, at its full price."""
        total = self.mechanism.event
        total = total if self.look is None else composed(self.look.mechanism(1).event, total)
        return total if self.found is None else composed(self.found.threshold.event, total)

    @property
    def _predicted(self) -> Error | None:
        """The error, where the bounds are known in advance."""
        return None if self.fixed is None else self._within(self.fixed).error

    def ready(self, table: Table, noise: Noise) -> Ready:
        """Fix the bounds, buying them first where they are private."""
        if self.fixed is not None:
            return self._within(self.fixed)
        assert self.look is not None  # a cap that is not known is bought
        return self._within(self.rule.bought(table, self.terms, self.column, self.look, self.share, noise))

    def _within(self, bounds: Bounds) -> Ready:
        amount = Amount.of_values(bounds.lower, bounds.upper, self.share)
        return Ready(self.column, bounds, amount, self.mechanism, self.share)

    def run(self, table: Table, noise: Noise) -> Outcome:
        """Bound, ask, noise."""
        ready = self.ready(table, noise)
        if self.found is None:
            return ready.finish(self.grouping.keys, self.grouping.totals(table, self.terms.unit, [ready])[0], noise)
        shown = self.found.look(table, self.terms, ready.capped, noise)
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

    @property
    def error(self) -> Error:
        """The error to expect within these bounds."""
        return noise_error(self.mechanism, self.amount.step, self.bounds.bias)

    def finish(self, keys: Sequence[Any] | None, totals: Sequence[int], noise: Noise) -> Outcome:
        """Noise the integers and say what they mean; counts are rounded to whole rows after the noise."""
        values = [self.amount.back(noised) for noised in self.mechanism.release(totals, noise)]
        told = [round(value) for value in values] if self.column is None else values
        bounds = self.bounds
        point = {"cap": float(bounds.upper), "lower": float(bounds.lower), "spent_on_noise": self.share.micro / MICRO}
        return Outcome(told[0] if keys is None else labelled(keys, told), self.error, point)
