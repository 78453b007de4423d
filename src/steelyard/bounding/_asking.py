"""How an aggregate is asked, alone or with others: the keys are found once, bounds are fixed, the rows are read, each answer is noised.

An ``Aggregate`` is all that is known of one before a row is read. Under keys it becomes ``Prepared``: what it wants of the one pass over
the rows that all share (``balls``; nothing, where it must read them its own way), and what it makes of the answer. So every aggregate
finds keys alike, and several share one search and one pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from steelyard.bounding._grouping import Grouping
from steelyard.bounding._private_keys import Groups
from steelyard.lazy import lazy
from steelyard.noise import Noise
from steelyard.plan import Error, Outcome, Plan
from steelyard.privacy import Event, Terms, Unit
from steelyard.tables import Bounded, Capped, Joint, Limits

if TYPE_CHECKING:
    from steelyard.tables import Schema, Table

Integers = Sequence[Sequence[int]]
"""For each quantity that was asked for, one integer per key, or one."""

ByKey = tuple[int | None, int | None]


class Prepared(Protocol):
    """An aggregate whose keys, bounds and cap are fixed; those with the same limits share a pass."""

    @property
    def limits(self) -> ByKey:
        """The most keys of one unit that count, and the most of its rows under one key."""

    def balls(self, grouping: Grouping) -> Sequence[Bounded | Capped | Joint]:
        """What it wants of the pass over the rows."""

    def told(self, grouping: Grouping, found: Integers, table: Table, noise: Noise) -> Outcome:
        """What the integers mean, noised; whoever asked for none reads the table."""


class Aggregate(Protocol):
    """An aggregate before any row is read; ``event`` is everything that will be noised once the keys are known."""

    @property
    def groups(self) -> Groups:
        """How its keys are found."""

    @property
    def event(self) -> Event:
        """What it costs, without the search for keys."""

    @property
    def predicted(self) -> Error | None:
        """The error to expect, where it is known in advance."""

    @property
    def present(self) -> Callable[[Any], Any]:
        """How a person wants its value."""

    def ready(self, table: Table, noise: Noise, grouping: Grouping) -> Prepared:
        """Fix bounds and cap under these keys, buying them where they are private."""


class Single(ABC):
    """What every task of one aggregate shares."""

    @abstractmethod
    def request(self, schema: Schema, terms: Terms) -> Aggregate:
        """Everything that is known before a row is read; refuses what the schema or the account rule out."""

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """What will be done, and the error to expect where it is known; refuses what the schema or the account rule out."""
        return plan_alone(self.request(schema, terms))

    @lazy
    def _grouping(self) -> Grouping:
        return Grouping.of(self)


class OwnPass:
    """An aggregate that reads the rows its own way: nothing is fixed before, and it wants nothing of the common pass."""

    groups: Groups
    limits: ClassVar[ByKey] = (None, None)

    @property
    def present(self) -> Callable[[Any], Any]:
        """A number, or a dictionary by key."""
        return self.groups.grouping.present

    def ready(self, table: Table, noise: Noise, grouping: Grouping) -> Self:
        """Nothing is to be fixed."""
        return self

    def balls(self, grouping: Grouping) -> Sequence[Bounded | Capped | Joint]:
        """Nothing of the common pass."""
        return ()


def plan_alone(asked: Aggregate) -> Plan:
    """The plan of one aggregate."""
    unit = asked.groups.unit

    def ask(table: Table, noise: Noise, grouping: Grouping) -> Outcome:
        (outcome,) = answers_of([asked.ready(table, noise, grouping)], grouping, unit, table, noise)
        return outcome

    return Plan(
        asked.groups.event(asked.event),
        asked.predicted,
        lambda table, noise: asked.groups.run(
            table, noise, lambda grouping: ask(table, noise, grouping), Outcome([], asked.predicted)
        ),
        asked.present,
    )


def plan_together(all_: Sequence[Aggregate], terms: Terms) -> Plan:
    """The plan of several under the same keys: one search, paid for by all; each tells its own error."""
    groups = Groups.shared([each.groups for each in all_], terms)

    def ask(table: Table, noise: Noise, grouping: Grouping) -> Outcome:
        seen = _looked(all_, grouping, groups.unit, table)
        ready = [each.ready(seen, noise, grouping) for each in all_]
        parts = answers_of(ready, grouping, groups.unit, table, noise)
        told = [{**part.point, "error": part.error.to_json() if part.error else None} for part in parts]
        return Outcome([part.value for part in parts], None, {"parts": told})

    errors = [each.predicted.to_json() if each.predicted else None for each in all_]
    nothing = Outcome([[] for _ in all_], None, {"parts": [{"error": error} for error in errors]})
    return Plan(
        groups.event(*(each.event for each in all_)),
        None,
        lambda table, noise: groups.run(table, noise, lambda grouping: ask(table, noise, grouping), nothing),
        lambda values: [each.present(value) for each, value in zip(all_, values, strict=True)],
    )


class _Seen:
    """A table some of whose norms were counted in one pass; each is handed out to whoever asks for it, and the rest is asked of the table."""

    def __init__(self, table: Table, found: dict[Any, list[int]]) -> None:
        self._table, self._found = table, found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def norms_histogram(
        self, unit: Unit, part: Capped, edges: Sequence[int], by: Any, keys: Any, limits: Limits
    ) -> list[int]:
        """As the table's."""
        counts = self._found.get((part, tuple(edges), limits.max_keys, limits.rows_per_key))
        return self._table.norms_histogram(unit, part, edges, by, keys, limits) if counts is None else counts


def _looked(all_: Sequence[Aggregate], grouping: Grouping, unit: Unit, table: Table) -> Table:
    """The table with the looks of all that buy a cap by key, in one pass for each limits; they are public facts, and asked anyway."""
    asked: dict[ByKey, dict[Any, None]] = {}
    for limits, look in filter(None, (each.looking(grouping) for each in all_ if hasattr(each, "looking"))):
        asked.setdefault(limits, {})[look] = None
    found: dict[Any, list[int]] = {}
    for by_key, looks in asked.items():
        if len(looks) > 1:
            counts = table.norms_histograms(unit, list(looks), grouping.by, grouping.public, Limits(*by_key))
            found |= {(*look, *by_key): count for look, count in zip(looks, counts, strict=True)}
    seen: Any = _Seen(table, found)
    return seen if found else table


def answers_of(ready: Sequence[Prepared], grouping: Grouping, unit: Unit, table: Table, noise: Noise) -> list[Outcome]:
    """The rows are read once for all that can share it, then each answer is noised in its turn."""
    wanted, shared = [each.balls(grouping) for each in ready], dict[ByKey, list[Any]]()
    for each, balls in zip(ready, wanted, strict=True):
        if balls:
            shared.setdefault(each.limits, []).extend(balls)
    found: dict[ByKey, Iterator[Sequence[int]]] = {}
    for limits, balls in shared.items():
        if grouping.public is None:
            found[limits] = zip(table.capped_totals(unit, balls), strict=True)
        else:
            found[limits] = iter(table.sums_by_key(unit, balls, grouping.by, grouping.public, Limits(*limits)))
    outcomes = []
    for each, balls in zip(ready, wanted, strict=True):
        own: list[Sequence[int]] = []
        for ball in balls:
            own += islice(found[each.limits], len(ball.quantities))
        outcomes.append(each.told(grouping, own, table, noise))
    return outcomes
