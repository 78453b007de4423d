"""What reads the rows its own way beside others: the values that most units hold, a histogram of values.

Its numbers are by key *and* value, so it shares neither the pass nor the noise of the others: it is planned as it is alone, at what a common
search for keys leaves of its price. Of its numbers those are told that stand under a key which that search showed; that is a choice among
released numbers by released keys, and free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from steelyard.bounding._amounts import Spend
from steelyard.bounding._asking import ByKey, Integers
from steelyard.bounding._grouping import Grouping, plain_key
from steelyard.bounding._private_keys import Groups
from steelyard.noise import Noise
from steelyard.plan import Error, Outcome, Plan
from steelyard.privacy import MICRO, Event, Neighbours, Terms
from steelyard.tables import Schema, Table


@dataclass(frozen=True)
class Apart:
    """A task with a plan of its own, as one of several under the same keys."""

    plan: Plan
    groups: Groups
    limits: ClassVar[ByKey] = (None, None)

    @classmethod
    def of(cls, task: Any, schema: Schema, terms: Terms) -> Apart:
        """The task at what the search for keys leaves of its price, where there is one."""
        keys = None if task.by is None else task.keys
        most = None if task.by is None or keys is not None else task.max_keys
        grouping = Grouping.read(task.by, keys, most, None)
        groups, rest = Groups.plan(grouping, Spend.read(task.epsilon, task.mu, terms), schema, terms)
        if groups.search is not None:
            twice = 2 if terms.unit.neighbours is Neighbours.REPLACE else 1  # of which a task spends half
            task = replace(task, epsilon=None, mu=Fraction(rest.micro * twice, MICRO))
        return cls(task.plan(schema, terms), groups)

    @property
    def event(self) -> Event:
        """What its own plan does."""
        return self.plan.event

    @property
    def predicted(self) -> Error | None:
        """The error of its own plan."""
        return self.plan.predicted

    @property
    def present(self) -> Callable[[Any], Any]:
        """As its own plan has it."""
        return self.plan.present

    def ready(self, table: Table, noise: Noise, grouping: Grouping) -> Apart:
        """Nothing is to be fixed."""
        return self

    def balls(self, grouping: Grouping) -> tuple[()]:
        """Nothing of the common pass."""
        return ()

    def told(self, grouping: Grouping, found: Integers, table: Table, noise: Noise) -> Outcome:
        """Its own answer, under the keys that were found for all."""
        outcome = self.plan.run(table, noise)
        if self.groups.search is None:
            return outcome
        shown, width = {_parts(plain_key(key)) for key in grouping.keys or ()}, len(grouping.by)  # type: ignore[union-attr]
        kept = [item for item in outcome.value if _parts(item[0])[:width] in shown]
        return replace(outcome, value=kept)


def _parts(key: Any) -> tuple[Any, ...]:
    return tuple(key) if isinstance(key, list | tuple) else (key,)
