"""What a way of fitting is, and where it finds its rows: in memory while they fit, else behind the table.

A method is a frozen dataclass of public facts, so that what it costs is known before any row is read and cannot depend on
one; whatever it hands back has been noised. It takes the rows as it needs them: all in memory, or passed over where they
lie. Rows are kept in memory up to a public number of bytes; a longer table goes to a file once, or stays with Spark's workers, and
is passed over there. Sums are certified either way, so the choice may show in time and memory but in nothing that is promised
(docs/proofs/objective.md).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.lazy import lazy
from steelyard.models._columns import by_row
from steelyard.models._losses import Memory, Passes, Point, Sums
from steelyard.models._rows import BLOCK, Fitted, Floats, Label, Products, Rows, Weights, gather, heard
from steelyard.models._user_rows import UserRows
from steelyard.privacy import rows

if TYPE_CHECKING:
    from steelyard.models._columns import Features
    from steelyard.models._losses import LossFunction
    from steelyard.noise import Noise
    from steelyard.privacy import Event, Unit
    from steelyard.tables import Table, UnitBlocks

LIMIT = 1 << 28
"""Bytes of features kept in memory; about twice as much is taken for a moment."""
_NEAR = 1 << 13  # rows
_PARTS = 1 << 30  # of a row: blocks are counted by what their rows weigh, which is often much less than one


class Training(Protocol):
    """The rows of one model, wherever they are."""

    def rows(self) -> Rows:
        """All of them in memory, and whose they are."""

    def public_rows(self) -> Rows:
        """All of them in memory, features as they are whatever the label says: for accounts that hide labels alone."""

    def by_user(self, loss: LossFunction) -> UserRows:
        """The rows user by user, wherever they are."""

    def heard(self, loss: LossFunction) -> int:
        """How many rows count under a loss."""

    def capped(self, cap: int, secret: bytes) -> Training:
        """At most ``cap`` rows of each user, chosen by a keyed digest of what they hold; each is then a unit of its own."""

    def passes(self, loss: LossFunction) -> Passes:
        """The rows as a certified solver passes over them."""

    def fold(self, loss: LossFunction, step: Any, start: list[Any], *, whole: bool = False) -> list[Any]:
        """``start`` plus the sum of what ``step`` makes of rows and labels, as their loss reads them.

        Where it makes ``whole`` numbers, rows may be cut anywhere and lie in memory in any way.
        """

    def products(self) -> tuple[Any, Any]:
        """X'X and X'y as Python integers."""


class Method(Protocol):
    """A private way to fit one model."""

    @property
    def event(self) -> Event:
        """What the fit is charged for; known before any row is read."""

    def fit(self, data: Training, noise: Noise) -> Fitted:
        """Fit; must never fail, or be seen to differ, because of what the rows hold."""


def kept(
    table: Table, features: Features, label: Label, limit: int | None = None, weights: Weights | None = None
) -> Rows | None:
    """All rows in memory, or None as soon as their features take more than ``limit`` bytes (``LIMIT`` by default)."""
    columns, most = beside(features, label, weights), LIMIT if limit is None else limit
    x, y, w, taken = [np.empty((0, features.width), dtype=np.float32)], [np.empty(0)], [np.empty(0)], 0
    for batch in table.batches(columns, BLOCK):
        x.append(by_row(features.whole(batch)))
        y.append(label.whole(batch.column(len(features.columns))))
        if weights is not None:
            w.append(weights.shares(batch.column(len(columns) - 1)))
        taken += x[-1].nbytes
        if taken > most:
            return None
    return Rows(np.concatenate(x), np.concatenate(y), None, None if weights is None else np.concatenate(w))


def beside(features: Features, label: Label, weights: Weights | None) -> list[str]:
    """The columns that are read: features, the label, and the weight if there is one."""
    return [*features.source, label.column, *([] if weights is None else [weights.column])]


@dataclass(frozen=True)
class Reading:
    """The rows of a fit, read once for all its models: in memory while they fit, or where they lie."""

    table: Table
    features: Features
    label: Label
    unit: Unit
    weights: Weights | None = None
    sample_of: Unit | None = None  # whose rows were chosen from before; every one is now a unit

    def of(self, target: int) -> OneReading:
        """The rows of one model."""
        return OneReading(self, target)

    @lazy
    def gathered(self) -> Rows:
        """All rows, and whose they are."""
        return gather(self.table, self.features, self.label, self.unit)

    @lazy
    def by_unit(self) -> UnitBlocks:
        """All rows, unit by unit: features, then the label."""
        return self._blocks(self.unit)

    @lazy
    def stored(self) -> UnitBlocks:
        """All rows, of whomever, in any order; a sample is asked for by those it was drawn within, since it is refused to others."""
        return self._blocks(self.sample_of or rows())

    def capped(self, cap: int, secret: bytes) -> Reading:
        """The rows that the table's engine chooses, at most ``cap`` of each unit."""
        columns = list(dict.fromkeys([*self.features.source, self.label.column]))
        chosen = self.table.keep_rows(self.unit, cap, secret, columns)
        return Reading(chosen, self.features, self.label, rows(), sample_of=self.unit)

    def _blocks(self, unit: Unit) -> UnitBlocks:
        columns, width = [*self.features.source, self.label.column], self.features.width + 1
        return self.table.blocks_by_unit(columns, unit, Numbered(self.features, self.label), width)

    @lazy
    def whole(self) -> Rows:
        """All rows, of whomever."""
        found = kept(self.table, self.features, self.label, sys.maxsize)
        assert found is not None
        return found

    @lazy
    def kept(self) -> Rows | None:
        """All rows, where they fit in memory."""
        return kept(self.table, self.features, self.label, weights=self.weights) if self.table.local else None


@dataclass(frozen=True)
class Numbered:
    """A batch of rows as whole numbers: the features, and last the label."""

    features: Features
    label: Label

    def __call__(self, batch: Any) -> NDArray[np.int32]:
        """A row each; total."""
        label = self.label.whole(batch.column(len(self.features.source)))
        return np.column_stack([self.features.whole(batch).T, label]).astype(np.int32)


@dataclass(frozen=True)
class OneReading:
    """The same with the labels of one model (``Training``)."""

    all: Reading
    target: int

    @property
    def width(self) -> int:
        """The number of features."""
        return self.all.features.width

    def rows(self) -> Rows:
        """All rows in memory and whose they are."""
        found = self.all.gathered
        y = self.all.label.of(found.y, self.target)
        x = found.x if y is found.y else found.x * np.abs(y)[:, None]  # a row of no class counts for nothing
        return Rows(x, y, found.users)

    def public_rows(self) -> Rows:
        """All rows in memory, features as they are whatever the label says."""
        found = self.all.whole
        return Rows(found.x, self.all.label.of(found.y, self.target), None)

    def by_user(self, loss: LossFunction) -> UserRows:
        """The rows user by user, sorted once for all models."""
        return UserRows.read(self.all.by_unit, loss, self.all.features.width, self.all.label, self.target)

    def heard(self, loss: LossFunction) -> int:
        """How many rows count, counted where they lie."""
        label, target = self.all.label, self.target

        def of_blocks(blocks: Any) -> list[Any]:
            return [np.array([sum(heard(label.of(block[:, -1].astype(float), target), loss) for block, _ in blocks)])]

        return int(self.all.stored.fold(of_blocks, [np.zeros(1, dtype=object)])[0][0])

    def capped(self, cap: int, secret: bytes) -> OneReading:
        """Some rows of each unit, chosen where they lie."""
        return self.all.capped(cap, secret).of(self.target)

    def passes(self, loss: LossFunction) -> Passes:
        """The rows for a certified solver."""
        found = self.all.kept
        if found is None:
            return Folded(self, loss)
        return Rows(found.x, self.all.label.of(found.y, self.target), None, found.weights).passes(loss)

    def fold(self, loss: LossFunction, step: Any, start: list[Any], *, whole: bool = False) -> list[Any]:
        """The sum over blocks of rows, which stay where they are kept; rows that count by weights are read again."""
        return self._weighed(loss, step, start) if self.all.weights else self._stored(loss, step, start, whole)

    def _stored(self, loss: LossFunction, step: Any, start: list[Any], whole: bool) -> list[Any]:
        label, target, zero = self.all.label, self.target, [array - array for array in start]

        def of_blocks(blocks: Any) -> list[Any]:
            total = zero
            for x, y in _columnwise(blocks) if whole else _as_kept(blocks):
                found = step(*loss.oriented(x, label.of(y, target)))
                total = [first + more for first, more in zip(total, found, strict=True)]
            return total

        return self.all.stored.fold(of_blocks, start)

    def _weighed(self, loss: LossFunction, step: Any, start: list[Any]) -> list[Any]:
        features, label, target, weights = self.all.features, self.all.label, self.target, self.all.weights
        columns, place = beside(features, label, weights), len(features.columns)

        def of_batch(batch: Any) -> list[Any]:
            y = label.of(label.whole(batch.column(place)), target)
            more = () if weights is None else (weights.shares(batch.column(place + 1)),)
            found: list[Any] = step(*loss.oriented(np.ascontiguousarray(features.whole(batch).T), y), *more)
            return found

        return self.all.table.fold(columns, of_batch, start)

    def products(self) -> tuple[Any, Any]:
        """The sums of products, added up where the rows lie."""
        step = Products(self.all.features, self.all.label, self.all.weights)
        columns = beside(self.all.features, self.all.label, self.all.weights)
        gram, moment = self.all.table.fold(columns, step, step.start, BLOCK)
        return gram, moment


def _as_kept(blocks: Any) -> Iterator[tuple[Floats, Floats]]:
    """Features and labels as doubles, row after row."""
    for block, _ in blocks:
        yield block[:, :-1].astype(float), block[:, -1].astype(float)


def _columnwise(blocks: Any) -> Iterator[tuple[Floats, Floats]]:
    """The same column after column, and few enough for a processor's own memory: several times as fast."""
    for block, _ in blocks:
        for start in range(0, len(block), _NEAR):
            near = block[start : start + _NEAR].astype(float, order="F")
            yield near[:, :-1], near[:, -1]


class Foldable(Protocol):
    """Rows that are added up where they lie."""

    @property
    def width(self) -> int:
        """The number of features."""

    def fold(self, loss: LossFunction, step: Any, start: list[Any]) -> list[Any]:
        """``start`` plus the sum of what ``step`` makes of rows, labels and weights, as their loss reads them."""


@dataclass(frozen=True)
class Folded:
    """Rows behind a table, passed over where they lie (``Passes``)."""

    data: Foldable
    loss: LossFunction

    def sums(self, theta: Floats, curved: bool = True) -> Sums:
        """The sums at a parameter."""
        width, none, loss = self.data.width, np.array([0], dtype=object), self.loss

        def step(rows: Floats, labels: Floats | None, weights: Floats | None = None) -> list[Any]:
            memory = Memory(rows, weights, loss, labels)  # goes to where the rows lie: it holds no table
            found, weight = memory.sums(theta, curved), math.ceil(memory.weight * _PARTS)
            return [found.pull, found.hessian, *(np.array([n], dtype=object) for n in (weight, found.parts))]

        start = [np.zeros(width, dtype=object), np.zeros((width, width)), none, none]
        pull, hessian, count, parts = self.data.fold(loss, step, start)
        return Sums(pull, hessian, -(-int(count[0]) // _PARTS), int(parts[0]))

    def pull(self, theta: Point, digits: int) -> tuple[list[Decimal], int]:
        """The same in decimals, carried as whole numbers of a digit near the last."""
        scale, loss = 10 ** (digits - 10), self.loss

        def step(rows: Floats, labels: Floats | None, weights: Floats | None = None) -> list[Any]:
            with localcontext() as context:
                context.prec = 2 * digits
                exact, count = Memory(rows, weights, loss, labels).pull(theta, digits)
                whole = [int(x * scale) for x in exact]
            return [np.array(whole, dtype=object), np.array([count], dtype=object)]

        start = [np.zeros(self.data.width, dtype=object), np.array([0], dtype=object)]
        total, rows = self.data.fold(loss, step, start)
        with localcontext() as context:
            context.prec = 2 * digits
            return [Decimal(int(x)) / scale for x in total], int(rows[0])
