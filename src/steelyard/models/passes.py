"""Where a certified solver finds its rows: in memory while they fit, else behind the table, passed over each time.

Rows are kept up to a public number of bytes; a longer table is read again for each pass. Sums are certified either
way, so the choice may show in time and memory but in nothing that is promised (docs/proofs/objective.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from steelyard.lazy import lazy
from steelyard.models.classes import Classes, signs
from steelyard.models.columns import Features
from steelyard.models.newton import Floats, Memory, Passes, Point, Sums, batch_sums, exact_pull
from steelyard.models.rows import Rows, gather
from steelyard.privacy import Unit
from steelyard.tables import Table

LIMIT = 1 << 30
"""Bytes of features kept in memory; about twice as much is taken for a moment."""


def kept(table: Table, features: Features, label: Classes, limit: int | None = None) -> Rows | None:
    """All rows in memory, or None as soon as their features take more than ``limit`` bytes (``LIMIT`` by default)."""
    columns, most, taken = [*features.source, label.column], LIMIT if limit is None else limit, 0
    x, y = [np.empty((0, features.width))], [np.empty(0)]
    for batch in table.batches(columns):
        x.append(np.ascontiguousarray(features.whole(batch).T))
        y.append(label.whole(batch.column(len(columns) - 1)))
        taken += x[-1].nbytes
        if taken > most:
            return None
    return Rows(np.concatenate(x), np.concatenate(y), None)


@dataclass(frozen=True)
class Folded:
    """Signed rows behind a table, passed over where they lie."""

    table: Table
    features: Features
    label: Classes
    target: int

    def sums(self, theta: Floats) -> Sums:
        """The sums at a parameter."""
        width = self.features.width
        none = np.array([0], dtype=object)
        start = [np.zeros(width, dtype=object), np.zeros((width, width)), none, none]
        pull, hessian, count, parts = self.fold(lambda signed: batch_sums(signed, theta), start)
        return Sums(pull, hessian, int(count[0]), int(parts[0]))

    def pull(self, theta: Point, digits: int) -> tuple[list[Decimal], int]:
        """The same in decimals, carried as whole numbers of a digit near the last."""
        scale = 10 ** (digits - 10)

        def step(signed: Floats) -> list[Any]:
            with localcontext() as context:
                context.prec = 2 * digits
                whole = [int(x * scale) for x in exact_pull(signed, theta, digits)]
            return [np.array(whole, dtype=object), np.array([len(signed)], dtype=object)]

        total, count = self.fold(step, [np.zeros(self.features.width, dtype=object), np.array([0], dtype=object)])
        with localcontext() as context:
            context.prec = 2 * digits
            return [Decimal(int(x)) / scale for x in total], int(count[0])

    def fold(self, step: Any, start: list[Any]) -> list[Any]:
        """The sum over batches of what ``step`` makes of their signed rows."""
        features, label, target = self.features, self.label, self.target
        columns = [*features.source, label.column]

        def of_batch(batch: Any) -> list[Any]:
            y = label.whole(batch.column(len(columns) - 1))
            found: list[Any] = step(np.ascontiguousarray((features.whole(batch) * signs(y, target)).T))
            return found

        return self.table.fold(columns, of_batch, start)


@dataclass(frozen=True)
class Reading:
    """The rows of a fit, read once for all its classes: in memory while they fit, or where they lie."""

    table: Table
    features: Features
    label: Classes
    unit: Unit

    def rows(self, target: int) -> Rows:
        """All rows in memory and whose they are, labels as the signs of one class."""
        y = signs(self._gathered.y, target)
        return Rows(self._gathered.x * np.abs(y)[:, None], y, self._gathered.users)

    def passes(self, target: int) -> Passes:
        """Signed rows for a certified solver."""
        rows = self._kept
        return self.folded(target) if rows is None else Memory(rows.x * signs(rows.y, target)[:, None])

    def folded(self, target: int) -> Folded:
        """Signed rows where they lie."""
        return Folded(self.table, self.features, self.label, target)

    @lazy
    def _gathered(self) -> Rows:
        return gather(self.table, self.features, self.label, self.unit)

    @lazy
    def _kept(self) -> Rows | None:
        return None if self.table.engine == "pyspark" else kept(self.table, self.features, self.label)
