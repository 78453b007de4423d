"""What a way of fitting is, and where it finds its rows: in memory while they fit, else behind the table.

A method is a frozen dataclass of public facts, so that what it costs is known before any row is read and cannot depend on
one; whatever it hands back has been noised. It takes the rows as it needs them: all in memory, or passed over where they
lie. Rows are kept up to a public number of bytes; a longer table is read again for each pass. Sums are certified either
way, so the choice may show in time and memory but in nothing that is promised (docs/proofs/objective.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from steelyard.lazy import lazy
from steelyard.models._losses import Memory, Passes, Point, Sums
from steelyard.models._rows import BLOCK, Fitted, Floats, Label, Products, Rows, gather

if TYPE_CHECKING:
    from steelyard.models._columns import Features
    from steelyard.models._losses import LossFunction
    from steelyard.noise import Noise
    from steelyard.privacy import Event, Unit
    from steelyard.tables import Table

LIMIT = 1 << 30
"""Bytes of features kept in memory; about twice as much is taken for a moment."""


class Training(Protocol):
    """The rows of one model, wherever they are."""

    def rows(self) -> Rows:
        """All of them in memory, and whose they are."""

    def passes(self, loss: LossFunction) -> Passes:
        """The rows as a certified solver passes over them."""

    def fold(self, loss: LossFunction, step: Any, start: list[Any]) -> list[Any]:
        """``start`` plus the sum of what ``step`` makes of rows and labels, as their loss reads them."""

    def products(self) -> tuple[Any, Any]:
        """X'X and X'y as Python integers."""


class Method(Protocol):
    """A private way to fit one model."""

    @property
    def event(self) -> Event:
        """What the fit is charged for; known before any row is read."""

    def fit(self, data: Training, noise: Noise) -> Fitted:
        """Fit; must never fail, or be seen to differ, because of what the rows hold."""


def kept(table: Table, features: Features, label: Label, limit: int | None = None) -> Rows | None:
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
class Reading:
    """The rows of a fit, read once for all its models: in memory while they fit, or where they lie."""

    table: Table
    features: Features
    label: Label
    unit: Unit

    def of(self, target: int) -> OneReading:
        """The rows of one model."""
        return OneReading(self, target)

    @lazy
    def gathered(self) -> Rows:
        """All rows, and whose they are."""
        return gather(self.table, self.features, self.label, self.unit)

    @lazy
    def kept(self) -> Rows | None:
        """All rows, where they fit in memory."""
        return kept(self.table, self.features, self.label) if self.table.local else None


@dataclass(frozen=True)
class OneReading:
    """The same with the labels of one model (``Training``)."""

    all: Reading
    target: int

    def rows(self) -> Rows:
        """All rows in memory and whose they are."""
        found = self.all.gathered
        y = self.all.label.of(found.y, self.target)
        x = found.x if y is found.y else found.x * np.abs(y)[:, None]  # a row of no class counts for nothing
        return Rows(x, y, found.users)

    def passes(self, loss: LossFunction) -> Passes:
        """The rows for a certified solver."""
        rows = self.all.kept
        if rows is None:
            return Folded(self, loss)
        return Rows(rows.x, self.all.label.of(rows.y, self.target), None).passes(loss)

    def fold(self, loss: LossFunction, step: Any, start: list[Any]) -> list[Any]:
        """The sum over batches, the rows staying where they lie."""
        features, label, target = self.all.features, self.all.label, self.target
        columns = [*features.source, label.column]

        def of_batch(batch: Any) -> list[Any]:
            y = label.of(label.whole(batch.column(len(columns) - 1)), target)
            found: list[Any] = step(*loss.oriented(np.ascontiguousarray(features.whole(batch).T), y))
            return found

        return self.all.table.fold(columns, of_batch, start)

    def products(self) -> tuple[Any, Any]:
        """The sums of products, added up where the rows lie."""
        step = Products(self.all.features, self.all.label)
        gram, moment = self.all.table.fold([*self.all.features.source, self.all.label.column], step, step.start, BLOCK)
        return gram, moment


@dataclass(frozen=True)
class Folded:
    """Rows behind a table, passed over where they lie (``Passes``)."""

    data: OneReading
    loss: LossFunction

    def sums(self, theta: Floats) -> Sums:
        """The sums at a parameter."""
        width, none, loss = self._width, np.array([0], dtype=object), self.loss

        def step(rows: Floats, labels: Floats | None) -> list[Any]:  # goes to where the rows lie: it holds no table
            found = Memory(rows, None, loss, labels).sums(theta)
            return [found.pull, found.hessian, *(np.array([n], dtype=object) for n in (found.count, found.parts))]

        start = [np.zeros(width, dtype=object), np.zeros((width, width)), none, none]
        pull, hessian, count, parts = self.data.fold(loss, step, start)
        return Sums(pull, hessian, int(count[0]), int(parts[0]))

    def pull(self, theta: Point, digits: int) -> tuple[list[Decimal], int]:
        """The same in decimals, carried as whole numbers of a digit near the last."""
        scale, loss = 10 ** (digits - 10), self.loss

        def step(rows: Floats, labels: Floats | None) -> list[Any]:
            with localcontext() as context:
                context.prec = 2 * digits
                exact, count = Memory(rows, None, loss, labels).pull(theta, digits)
                whole = [int(x * scale) for x in exact]
            return [np.array(whole, dtype=object), np.array([count], dtype=object)]

        start = [np.zeros(self._width, dtype=object), np.array([0], dtype=object)]
        total, rows = self.data.fold(loss, step, start)
        with localcontext() as context:
            context.prec = 2 * digits
            return [Decimal(int(x)) / scale for x in total], int(rows[0])

    @property
    def _width(self) -> int:
        return self.data.all.features.width
