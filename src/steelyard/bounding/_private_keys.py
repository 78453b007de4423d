"""Keys that are not public: found in the rows, shown only where enough units stand behind them, and paid for.

A part of the price buys noisy numbers of units by key, and the keys that reach the threshold. Once shown they are released, and what
else is asked is asked under them as under public keys, at the price that is left: so every task finds keys alike, and several
share one search. A rare key may slip out with a small probability, charged on what the account sets aside for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any

from steelyard.bounding._amounts import MOST, Spend
from steelyard.errors import CurrencyMismatch
from steelyard.mechanisms import KeyThreshold, sigma_for
from steelyard.noise import Noise
from steelyard.plan import Outcome
from steelyard.privacy import Event, Terms, Unit, composed
from steelyard.tables import KeyList, Limits, Schema

if TYPE_CHECKING:
    from steelyard.bounding._grouping import Grouping
    from steelyard.tables import Table

SHARE = Fraction(1, 2)
"""The share of mu that buys the keys; squares add, so the totals keep 87 % of it."""

_SLICE = 10
"""One release may use a tenth of the probability that an account sets aside."""

_LEAST = 4
"""A key must have this part of sigma in units, and two, to leave the engine; its threshold is as much higher."""


@dataclass(frozen=True)
class PrivateKeys:
    """How the keys of some columns are found, with what."""

    by: tuple[str, ...]
    limits: Limits
    threshold: KeyThreshold
    spend: Spend

    @classmethod
    def plan(cls, by: tuple[str, ...], max_keys: int, spend: Spend, terms: Terms) -> PrivateKeys:
        """Everything about the search that is known in advance."""
        if not spend.gaussian or not terms.cap.delta:
            raise CurrencyMismatch(
                f"which keys {', '.join(map(repr, by))} holds is private. Give the public list keys=[...], or open the account with delta= and "
                "additive_delta=, a part of it set aside for keys that slip out."
            )
        failure, sigma = Fraction(terms.cap.delta // _SLICE, 10**18), sigma_for(max_keys, spend.micro**2)
        mechanism = KeyThreshold(max_keys, sigma, failure, max(2, math.floor(sigma / _LEAST)))
        return cls(by, Limits(max_keys), mechanism, spend)

    def look(self, table: Table, unit: Unit, noise: Noise) -> dict[Any, int]:
        """The shown keys, each with its noisy number of units; no more than one question may name."""
        found = table.found_sums_by_key(unit, [], self.by, self.limits, self.threshold.least)
        shown = self.threshold.release({key: units for key, (units, _) in found.items()}, noise)
        return dict(islice(shown.items(), MOST))


@dataclass(frozen=True)
class Groups:
    """The keys of a release: public, or found by ``search`` before anything else is asked."""

    grouping: Grouping
    unit: Unit
    search: PrivateKeys | None = None

    @classmethod
    def plan(cls, grouping: Grouping, spend: Spend, schema: Schema, terms: Terms) -> tuple[Groups, Spend]:
        """How a task comes by its keys, and what that leaves of its price; refuses what the schema or the account rule out."""
        grouping.check(schema)
        if not grouping.private:
            return cls(grouping, terms.unit), spend
        first, rest = spend.split(SHARE)
        return cls(grouping, terms.unit, PrivateKeys.plan(grouping.by, grouping.max_keys or 1, first, terms)), rest

    @classmethod
    def shared(cls, groups: Sequence[Groups], terms: Terms) -> Groups:
        """One search for several tasks, at what theirs would cost together."""
        first, searches = groups[0], [each.search for each in groups if each.search is not None]
        if not searches:
            return first
        spend = Spend(True, math.isqrt(sum(each.spend.micro**2 for each in searches)))
        return replace(first, search=PrivateKeys.plan(first.grouping.by, first.grouping.max_keys or 1, spend, terms))

    def limited(self, grouping: Grouping) -> Grouping:
        """Keys that several may share, with one's own limits; under keys that were found the search had them."""
        own = self.grouping
        return replace(grouping, max_keys=None if own.private else own.max_keys, rows_per_key=own.rows_per_key)

    def event(self, *events: Event) -> Event:
        """What a release is charged for: the search, if there is one, and the rest."""
        all_ = events if self.search is None else (self.search.threshold.event, *events)
        return all_[0] if len(all_) == 1 else composed(*all_)

    def run(self, table: Table, noise: Noise, ask: Callable[[Grouping], Outcome], nothing: Outcome) -> Outcome:
        """Find the keys, then ask under them; ``nothing`` is the answer where none is shown."""
        if self.search is None:
            return ask(self.grouping)
        keys = KeyList(self.search.look(table, self.unit, noise))
        outcome = ask(self.grouping.found(keys)) if keys or self.grouping.others else nothing
        found = {"max_keys": self.search.threshold.max_keys, "threshold": self.search.threshold.threshold}
        return replace(outcome, point={**outcome.point, **found})
