"""Rows user by user, passed over in blocks: each user's exact sums, whatever block its rows lie in.

A user's rows lie together but may span blocks, so the sums of the last user of a block are carried into the next. Sums are
integers: where a block ends changes none of them. On Spark each partition is passed over by itself; users do not span those.
Law: what is made of a user depends on that user's rows and on public or released numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.models._columns import RESIDUAL_BITS, SIZE, exact_scores
from steelyard.models._user_sums import Floats, Ints, whole
from steelyard.tables import HeldBlocks

if TYPE_CHECKING:
    from steelyard.models._losses import LossFunction
    from steelyard.models._rows import Label, Rows
    from steelyard.tables import UnitBlocks

Oriented = tuple[Floats, Floats | None]
"""The rows of a block as a loss reads them: whole numbers as doubles, and labels where rows do not hold them."""
Blocks = Iterator[tuple[Any, NDArray[np.bool_]]]
Terms = Callable[[Any], tuple[Floats, Floats]]
"""From a block's rows to a weight for each and the columns it multiplies, whole numbers whose sums over a block stay below 2^53."""


def by_user(blocks: Blocks, terms: Terms) -> Iterator[tuple[Ints, Ints]]:
    """For users whose rows have all been seen: the exact sum of weight times columns, and the number of rows."""
    from scipy.sparse import csr_array

    open_sum, open_size = None, 0
    for rows, first in blocks:
        weights, columns = terms(rows)
        starts = np.flatnonzero(np.concatenate([[True], first[1:], [True]]))
        picked = csr_array((weights, np.arange(first.size), starts), shape=(starts.size - 1, first.size))
        sums, sizes = np.asarray(picked @ columns).astype(np.int64), np.diff(starts)
        if open_sum is not None and not first[0]:
            sums[0] += open_sum
            sizes[0] += open_size
        elif open_sum is not None:
            yield open_sum[None, :], np.array([open_size])
        yield sums[:-1], sizes[:-1]
        open_sum, open_size = sums[-1].copy(), int(sizes[-1])
    if open_sum is not None:
        yield open_sum[None, :], np.array([open_size])


def root_weights(sizes: Ints) -> Floats:
    """One over the root of each user's own rows."""
    return np.asarray(1 / np.sqrt(sizes.astype(float)))


@dataclass(frozen=True)
class Orientation:
    """How one model's loss reads rows of whole numbers whose last column is the label; a row of no class counts for nothing."""

    loss: LossFunction
    label: Label | None
    target: int

    def __call__(self, rows: NDArray[np.int32]) -> Oriented:
        """The rows as the loss reads them."""
        x, y = rows[:, :-1].astype(float), rows[:, -1].astype(float)
        return self.loss.oriented(x, y if self.label is None else self.label.of(y, self.target))


@dataclass(frozen=True)
class Gradients:
    """A pass: each user's gradient at a parameter, shortened to the clip, as whole numbers, added up."""

    loss: LossFunction
    theta: Floats
    clip: float
    rooted: bool

    def __call__(self, blocks: Blocks) -> list[Ints]:
        """The sum over users."""
        total = np.zeros(self.theta.size, dtype=np.int64)
        for vectors, sizes in self.vectors(blocks):
            total += whole(vectors, self.clip, root_weights(sizes) if self.rooted else None).sum(axis=0, dtype=np.int64)
        return [total]

    def vectors(self, blocks: Blocks) -> Iterator[tuple[Floats, Ints]]:
        """Each user's summed gradient, the double nearest to an exact integer sum, and its number of rows."""
        for sums, sizes in by_user(blocks, self._terms):
            yield np.asarray(sums * (1.0 / (SIZE << RESIDUAL_BITS)), dtype=float), sizes

    def _terms(self, oriented: Oriented) -> tuple[Floats, Floats]:
        rows, labels = oriented
        return self.loss.residuals(exact_scores(rows, self.theta), labels).astype(float), rows


@dataclass(frozen=True)
class OfSizes:
    """A pass: what is made of the users' numbers of rows, added up."""

    made: Callable[[Ints], Ints]

    def __call__(self, blocks: Blocks) -> list[Ints]:
        """The sum over users."""
        found = [self.made(sizes) for _, sizes in by_user(blocks, _nothing)]
        return [np.sum([self.made(np.empty(0, dtype=np.int64)), *found], axis=0, dtype=np.int64)]


def _nothing(oriented: Oriented) -> tuple[Floats, Floats]:
    count = len(oriented[0])
    return np.zeros(count), np.zeros((count, 1))


@dataclass(frozen=True)
class UserRows:
    """The rows of a fit user by user, as one model's loss reads them."""

    blocks: UnitBlocks
    loss: LossFunction
    width: int

    @classmethod
    def read(
        cls, blocks: UnitBlocks, loss: LossFunction, width: int, label: Label | None = None, target: int = 0
    ) -> UserRows:
        """Blocks of features and label, as a loss reads them."""
        return cls(blocks.mapped(Orientation(loss, label, target), width + 1), loss, width)

    @classmethod
    def of(cls, rows: Rows, loss: LossFunction) -> UserRows:
        """Rows in memory, sorted."""
        if rows.users is None:
            raise InvalidTask("a fit per user needs to know whose row each one is.")
        order, width = np.argsort(rows.users, kind="stable"), rows.x.shape[1]
        owners, kept = rows.users[order], HeldBlocks(width + 1)
        first = np.concatenate([np.ones(min(owners.size, 1), bool), owners[1:] != owners[:-1]])
        kept.append(np.column_stack([rows.x, rows.y])[order], first)
        return cls.read(kept, loss, width)

    def gradients(self, theta: Floats, clip: float, rooted: bool) -> Ints:
        """The sum over users of their gradients made ``whole`` at the clip; ``rooted`` divides each by the root of its rows."""
        return self._over(Gradients(self.loss, theta, clip, rooted), self.width)

    def over_sizes(self, made: Callable[[Ints], Ints], size: int) -> Ints:
        """The sum of what is made of the users' numbers of rows (``CountedUsers``)."""
        return self._over(OfSizes(made), size)

    def _over(self, step: Gradients | OfSizes, size: int) -> Ints:
        """One pass: over the blocks in memory, or where they lie."""
        held = self._held
        [total] = step(iter(held)) if held is not None else self.blocks.fold(step, [np.zeros(size, dtype=np.int64)])
        return np.asarray(total, dtype=np.int64)

    @lazy
    def _held(self) -> list[tuple[Any, Any]] | None:
        return self.blocks.in_memory()
