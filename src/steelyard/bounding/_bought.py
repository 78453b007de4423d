"""What an aggregate of values must know beside its own noise: bounds of values and a cap on rows, said or bought."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from steelyard.bounding._amounts import Spend, bound, check_unit
from steelyard.bounding._cap_choice import BoughtCounts
from steelyard.bounding._grouping import Grouping
from steelyard.bounding._private_keys import Groups
from steelyard.bounding._value_bounds import ValueBounds
from steelyard.errors import InvalidTask
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.plan import Error, Outcome
from steelyard.privacy import Event, Number, Terms, Unit, composed
from steelyard.tables import Bins, Bounded, Capped, Joint, Schema

if TYPE_CHECKING:
    from steelyard.bounding._asking import ByKey, Integers
    from steelyard.bounding._row_caps import FixedRows, RowRule
    from steelyard.tables import Table

_MOST_RATIO = 2**40


def check_range(lower: Number, upper: Number) -> tuple[Any, Any]:
    """Public bounds of one value."""
    low, high = bound(lower, "lower"), bound(upper, "upper")
    if low >= high:
        raise InvalidTask(f"upper ({upper!r}) must be above lower ({lower!r}).")
    if (high - low) * _MOST_RATIO < max(abs(low), abs(high)):
        raise InvalidTask("lower and upper lie too close together for their size; subtract a public number first.")
    return low, high


def facts(task: Any, schema: Schema, terms: Terms, *, dates: bool = False) -> tuple[Groups, Spend]:
    """The keys of a task and what they leave of its price; refuses what the schema or the account rule out."""
    check_unit(schema, terms)
    (schema.require_ordered if dates else schema.require_numeric)(task.column)
    return Groups.plan(Grouping.of(task), Spend.read(task.epsilon, task.mu, terms), schema, terms)


class ValueAnswer(Protocol):
    """What is asked of the rows, and made of them, once bounds and a cap are known."""

    def balls(self, bounds: ValueBounds, rows: FixedRows) -> Sequence[Bounded | Capped | Joint]:
        """What it wants of a pass over the rows; nothing, where it reads them its own way."""

    def told(self, known: ReadyValues, grouping: Grouping, found: Integers, table: Table, noise: Noise) -> Outcome:
        """Noise, and what it means."""


@dataclass(frozen=True)
class ReadyValues:
    """An aggregate of values whose bounds and cap are known."""

    answer: ValueAnswer
    bounds: ValueBounds
    rows: FixedRows
    limits: ByKey

    @property
    def of(self) -> str:
        """What the answer and its interval are of: not the rows as they are, but as bounds and cap leave them."""
        lower, upper, cap = float(self.bounds.lower or 0), float(self.bounds.upper or 0), float(self.rows.cap)
        return f"values moved to between {lower:.6g} and {upper:.6g}, units with more than {cap:g} rows weighed down to that"

    def balls(self, grouping: Grouping) -> Sequence[Bounded | Capped | Joint]:
        """What it wants of the pass over the rows."""
        return self.answer.balls(self.bounds, self.rows)

    def told(self, grouping: Grouping, found: Integers, table: Table, noise: Noise) -> Outcome:
        """The answer under these keys."""
        return self.answer.told(self, grouping, found, table, noise)


@dataclass(frozen=True)
class Bought:
    """An aggregate of values before any row is read; ``own`` are the events of its answer, ``predicted`` its error where it is known."""

    groups: Groups
    bounds: ValueBounds
    values: Laplace | Gaussian | None
    rule: RowRule
    look: BoughtCounts | None
    spend: Spend
    fixed: FixedRows | None
    answer: ValueAnswer
    own: Sequence[Event]
    predicted: Error | None
    present: Callable[[Any], Any]

    @property
    def event(self) -> Event:
        """What is bought first, bounds then a cap, and the answer."""
        looks = [each.event for each in (self.values, None if self.look is None else self.look.mechanism) if each]
        events = [*looks, *self.own]
        return events[0] if len(events) == 1 else composed(*events)

    def ready(self, table: Table, noise: Noise, grouping: Grouping) -> ReadyValues:
        """Buy what is not known, under these keys."""
        own = self.groups.limited(grouping)
        bounds = self.bounds
        if self.values is not None:
            bounds = bounds.bought(table, self.rule.terms.unit, self.rule.column, self.values, noise)
        rows = self.fixed
        if rows is None:
            assert self.look is not None  # a cap that is not known is bought
            rows = replace(self.rule, grouping=own).bought(table, self.look, self.spend, noise)
        return ReadyValues(self.answer, bounds, rows, (own.max_keys, own.rows_per_key))


def counts_of(grouping: Grouping, table: Table, unit: Unit, part: Capped, bins: Bins) -> list[list[int]]:
    """The bounded integers by bin, one list, or one for each key."""
    if grouping.public is None:
        return [table.sums_by_bin(unit, part, bins)]
    return table.sums_by_key_and_bin(unit, part, bins, grouping.by, grouping.public)
