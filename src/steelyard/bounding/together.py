"""``Together``: several totals over the same keys in one pass over the rows.

Each total keeps its own bounds, its own noise and its own price; they only share the reading. The price of the whole is
the sum of the prices, as if they had been asked one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.accounting.prices import composed
from steelyard.bounding.totals import Count, Sum
from steelyard.errors import InvalidTask
from steelyard.noise import Noise
from steelyard.privacy import Event, Terms
from steelyard.release import Error, Outcome
from steelyard.tables import Table


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

    def check(self, table: Table, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        for task in self.tasks:
            task.check(table, terms)

    def event(self, table: Table, terms: Terms) -> Event:
        """All parts, at their full price."""
        return composed(*(task.event(table, terms) for task in self.tasks))

    def predict(self, terms: Terms) -> Error | None:
        """Each part predicts its own error; there is none for a list."""
        return None

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Fix all bounds, read once, noise each."""
        requests = [task.request(terms) for task in self.tasks]
        grouping = requests[0].grouping
        ready = [request.ready(table, noise) for request in requests]
        totals = grouping.totals(table, terms.unit, ready)
        parts = [each.finish(grouping.keys, found, noise) for each, found in zip(ready, totals, strict=True)]
        told = [{**part.point, "error": part.error.to_json() if part.error else None} for part in parts]
        return Outcome([part.value for part in parts], None, {"parts": told})

    def present(self, value: Any) -> Any:
        """One value per part, each as its own task presents it."""
        return [task.present(each) for task, each in zip(self.tasks, value, strict=True)]
