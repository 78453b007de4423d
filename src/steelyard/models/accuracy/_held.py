"""Rows in the hands of a step that is paid for: in memory while they are few, else passed over in blocks where they lie.

A kept row is its features, its label, and how many rows its unit has, below zero where the unit checks. The rows of a user lie
together but may span blocks, so the sum of the last user's losses is carried into the next block. Sums of losses and products are
integers, so where a block ends changes none of them; a draw's solver is certified either way.
Law: what is made of a unit depends on that unit's rows and on public or released numbers alone, wherever they lie
(docs/proofs/disjoint_check.md, accuracy_first_users.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.lazy import lazy
from steelyard.models._columns import SIZE
from steelyard.models._losses import LOGISTIC, LossFunction, Memory, Passes
from steelyard.models._passes import Folded
from steelyard.models._rows import Floats, signs
from steelyard.models.accuracy._designs import Array, Exact
from steelyard.models.accuracy._users import ROOT, WEIGHT, added, shares, weighed, weights, weights_of

if TYPE_CHECKING:
    from steelyard.tables import UnitBlocks

Each = Callable[[Any], NDArray[np.int64]]
"""From rows in memory to a whole number for each, a function of that row alone."""

BESIDE = 2
"""The columns of a kept row beside its features."""

_MANY = 1 << 62  # rows, more than any table has: sums are then kept in integers that hold them


@dataclass(frozen=True)
class SplitPart:
    """One part of the units, in memory: whole numbers, and a code for whose each row is where users are hidden."""

    x: Floats
    y: Floats
    owners: NDArray[np.int64] | None = None

    @property
    def units(self) -> int:
        """How many rows, or users, there are: private."""
        return len(self.y) if self.owners is None else len(np.unique(self.owners))

    def summed(self, each: Each) -> int:
        """The sum of a whole number for each row, or of the users' means, each rounded up."""
        return added(each(self), self.owners)

    @lazy
    def exact(self) -> Exact:
        """The statistics, each row counting once, or each user; no branch follows from how many there are."""
        return Exact.of(self.products(weights_of(self.owners)), _MANY, SIZE if self.owners is None else SIZE * ROOT)

    def products(self, weight: NDArray[np.int64] | None = None) -> NDArray[np.object_]:
        """The products of features and, last, the label with each other, each row's times its weight."""
        return weighed(np.vstack([self.x.T, self.y]), weight)

    @lazy
    def signed(self) -> Array:
        """Rows times the signs of their classes, where labels are classes; a row of no class becomes zero."""
        return np.asarray(self.x * signs(self.y, 2)[:, None])

    def against(self, target: int) -> Passes:
        """The rows for a solver, of one class against the others (of two the second is the target), a user's weighing one together."""
        if target == 2 and "signed" in self.__dict__:
            return Memory(self.signed, shares(self.owners))
        return Memory(np.asarray(self.x * signs(self.y, target)[:, None]), shares(self.owners))


@dataclass(frozen=True)
class Chosen:
    """Which kept rows are read: all (``None``), those that check, or those that train; whether a row is a unit."""

    checks: bool | None
    users: bool

    def __call__(self, blocks: Iterator[Any]) -> Iterator[tuple[SplitPart, NDArray[np.int64], NDArray[np.bool_]]]:
        """Block by block: the rows, how many their units have, and which are the first of a unit."""
        for block, first in blocks:
            if self.checks is not None:
                mine = (block[:, -1] < 0) == self.checks
                block, first = block[mine], first[mine]
            if len(block):
                part = SplitPart(block[:, :-BESIDE].astype(np.float64), block[:, -BESIDE].astype(np.float64))
                yield part, np.abs(block[:, -1].astype(np.int64)), first

    def together(self, kept: list[tuple[Any, Any]], width: int) -> SplitPart:
        """All of them in memory."""
        found = list(self(iter(kept)))
        x = np.concatenate([np.empty((0, width)), *(part.x for part, _, _ in found)])
        y = np.concatenate([np.empty(0), *(part.y for part, _, _ in found)])
        if not self.users:
            return SplitPart(x, y)
        firsts = np.concatenate([np.empty(0, dtype=np.bool_), *(first for _, _, first in found)])
        return SplitPart(x, y, np.cumsum(firsts, dtype=np.int64) - 1)


@dataclass(frozen=True)
class Passed:
    """One part of the units, or all, passed over in blocks where they lie."""

    blocks: UnitBlocks
    width: int
    chosen: Chosen

    @lazy
    def units(self) -> int:
        """How many rows, or users, there are: private."""
        chosen = self.chosen

        def count(blocks: Iterator[Any]) -> list[Any]:
            return [_one(sum(int(np.count_nonzero(first)) for _, _, first in chosen(blocks)))]

        return int(self.blocks.fold(count, [_one(0)])[0][0])

    def summed(self, each: Each) -> int:
        """The sum of a whole number for each row, or of the users' means, each rounded up."""
        chosen = self.chosen

        def of_blocks(blocks: Iterator[Any]) -> list[Any]:
            found = ((each(part), first) for part, _, first in chosen(blocks))
            return [_one(means(found) if chosen.users else sum(int(lost.sum()) for lost, _ in found))]

        return int(self.blocks.fold(of_blocks, [_one(0)])[0][0])

    @lazy
    def exact(self) -> Exact:
        """The statistics, each row counting once, or each user; no branch follows from how many there are."""
        chosen, size = self.chosen, self.width + 1

        def products(blocks: Iterator[Any]) -> list[Any]:
            total = np.zeros((size, size), dtype=object)
            for part, sizes, _ in chosen(blocks):
                total = total + part.products(weights(sizes) if chosen.users else None)
            return [total]

        [sums] = self.blocks.fold(products, [np.zeros((size, size), dtype=object)])
        return Exact.of(sums, _MANY, SIZE * ROOT if chosen.users else SIZE)

    def against(self, target: int) -> Passes:
        """The rows for a solver, of one class against the others, a user's weighing one together."""
        return Folded(_Against(self, target), LOGISTIC)


@dataclass(frozen=True)
class _Against:
    """Rows times the signs of one class against the others (``Foldable``)."""

    rows: Passed
    target: int

    @property
    def width(self) -> int:
        return self.rows.width

    def fold(self, loss: LossFunction, step: Any, start: list[Any]) -> list[Any]:
        chosen, target, zero = self.rows.chosen, self.target, [array - array for array in start]

        def of_blocks(blocks: Iterator[Any]) -> list[Any]:
            total = zero
            for part, sizes, _ in chosen(blocks):
                share = weights(sizes) / WEIGHT if chosen.users else None
                found = step(part.x * signs(part.y, target)[:, None], None, share)
                total = [first + more for first, more in zip(total, found, strict=True)]
            return total

        return self.rows.blocks.fold(of_blocks, start)


def means(found: Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]) -> int:
    """The users' means, each rounded up, added up: from each row's number and whether it is the first of its user."""
    total, mine, rows = 0, 0, 0
    for lost, first in found:
        starts = np.flatnonzero(np.concatenate([[True], first[1:]]))
        sums, sizes = np.add.reduceat(lost, starts), np.diff(starts, append=len(lost))
        if first[0]:
            total, mine, rows = total + _mean(mine, rows), 0, 0
        sums[0] += mine
        sizes[0] += rows
        total += int((-(-sums[:-1] // sizes[:-1])).sum())
        mine, rows = int(sums[-1]), int(sizes[-1])
    return total + _mean(mine, rows)


def _mean(total: int, rows: int) -> int:
    return -(-total // rows) if rows else 0


def _one(value: int) -> NDArray[np.object_]:
    return np.array([value], dtype=object)
