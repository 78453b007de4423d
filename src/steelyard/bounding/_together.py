"""``Together``: several aggregates under the same keys, at one price that is known beforehand.

The keys are found once, paid for by all; sums, counts, means, variances and ratios come from one pass over the rows. What is by value within a
key (``TopK``, a ``Histogram`` of values) reads them once more (``Apart``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, get_args

from steelyard.bounding._amounts import Spend
from steelyard.bounding._asking import Aggregate, Integers, OwnPass, plan_together
from steelyard.bounding._distinct import CountDistinct
from steelyard.bounding._grouping import Grouping, plain_key
from steelyard.bounding._means import Mean, Std, Variance
from steelyard.bounding._private_keys import Groups
from steelyard.bounding._quantiles import Median, Quantile
from steelyard.bounding._ratio import Ratio
from steelyard.bounding._top import TopK
from steelyard.bounding._totals import Count, CountUsers, Sum
from steelyard.bounding._values import Histogram
from steelyard.errors import InvalidTask
from steelyard.noise import Noise
from steelyard.plan import Error, Outcome, Plan
from steelyard.privacy import MICRO, Event, Neighbours, Terms
from steelyard.tables import Schema, Table

Part = Sum | Count | CountUsers | CountDistinct | Ratio | Mean | Variance | Std | Median | Quantile | Histogram | TopK


@dataclass(frozen=True)
class Together:
    """A list of aggregates with the same ``by`` and ``keys``; the value is the list of their values.

    Where keys are found, one search, paid for by all, serves all. *Privacy, cost:* the sum of the parts, known before a row is read.
    *Accuracy:* each part's error is in ``release.point["parts"]``.

    >>> task = Together([Sum("amount", epsilon="0.5", cap=100), Mean("amount", epsilon="0.1", upper=10, cap=10)])
    >>> len(task.tasks)
    2
    """

    tasks: Sequence[Part]

    def __post_init__(self) -> None:
        tasks = tuple(self.tasks)
        if not tasks or not all(isinstance(task, Part) for task in tasks):
            kinds = ", ".join(kind.__name__ for kind in get_args(Part))
            raise InvalidTask(f"Together takes a list of {kinds}.")
        first = tasks[0]
        if any(_under(task) != _under(first) for task in tasks):
            raise InvalidTask("what is asked together needs the same by, keys and others.")
        if first.by is not None and first.keys is None and any(task.max_keys != first.max_keys for task in tasks):
            raise InvalidTask("what is asked together shares one search for keys, so it needs the same max_keys.")
        if any(isinstance(task, Histogram) and task.others and not task.edges for task in tasks):
            raise InvalidTask("a Histogram of values with others= is asked alone: its rest is not that of the keys.")
        object.__setattr__(self, "tasks", tasks)

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """All parts, at their full price; each tells its own error, there is none for a list."""
        return plan_together([_asked(task, schema, terms) for task in self.tasks], terms)


def _under(task: Any) -> tuple[Any, ...]:
    """The keys that a part stands under; those of a ``TopK`` without ``by`` are its candidates."""
    return (None, None, False) if task.by is None else (task.by, task.keys, getattr(task, "others", False))


def _asked(task: Any, schema: Schema, terms: Terms) -> Aggregate:
    if isinstance(task, TopK) or (isinstance(task, Histogram) and not task.edges):
        return Apart.of(task, schema, terms)
    asked: Aggregate = task.request(schema, terms)
    return asked


@dataclass(frozen=True)
class Apart(OwnPass):
    """A task with a plan of its own, as one of several under the same keys: the values that most units hold, a histogram of values.

    Its numbers are by key *and* value, so it shares neither the pass nor the noise of the others: it is planned as it is alone, at what a
    common search for keys leaves of its price. Of its numbers those are told that stand under a key which that search showed; that is a
    choice among released numbers by released keys, and free.
    """

    plan: Plan
    groups: Groups

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
