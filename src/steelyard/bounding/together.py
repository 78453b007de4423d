"""``Together``: several totals over the same keys in one pass over the rows.

Each total keeps its own bounds, its own noise and its own price; they only share the reading. The price of the whole is
the sum of the prices, as if they had been asked one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.accounting.prices import composed
from steelyard.bounding.request import Request
from steelyard.bounding.totals import Count, Sum
from steelyard.errors import InvalidTask
from steelyard.noise import Noise
from steelyard.privacy import Terms
from steelyard.release import Outcome
from steelyard.session import Plan
from steelyard.tables import Schema, Table


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
        present = requests[0].grouping.present
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
    totals = grouping.totals(table, unit, ready)
    parts = [each.finish(grouping.keys, found, noise) for each, found in zip(ready, totals, strict=True)]
    told = [{**part.point, "error": part.error.to_json() if part.error else None} for part in parts]
    return Outcome([part.value for part in parts], None, {"parts": told})
