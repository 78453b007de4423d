"""Every user counts once: a user's rows share one weight, in whole numbers, so that sums over users stay exact.

Each of a user's k rows has the weight floor(W/k) out of W = 2^20. A user's weighted statistics are then a point between
those of its rows and of an empty row, so a replaced user moves a sum no further than a replaced row would. W is a square:
statistics in steps of (S 2^10)^2 look like those of rows whose length is S 2^10.
Law: a weight depends on the number of the user's own rows alone, and a user's weights add up to W at most
(docs/proofs/accuracy_first_users.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.models._columns import SIZE, Features
from steelyard.models._rows import Label, products
from steelyard.privacy import Unit
from steelyard.tables import Table

if TYPE_CHECKING:
    from steelyard.models.accuracy._designs import Exact

ROOT = 2**10
WEIGHT = ROOT**2
"""W: what all rows of a user may weigh together."""

_BLOCK = 2**53 // (ROOT * SIZE**2)  # so many products of rows and half weights add up exactly as doubles
_LARGE = 2**20  # entries of products kept at a time


def weights(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """What each row weighs, given how many rows its user has; beyond W rows it is nothing."""
    return np.asarray(WEIGHT // np.maximum(sizes, 1), dtype=np.int64)


def weights_of(owners: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    """What each row weighs, from codes of users that count from 0; None where rows are hidden."""
    if owners is None:
        return None
    return weights(np.bincount(owners)[owners] if len(owners) else owners)


def shares(owners: NDArray[np.int64] | None) -> NDArray[np.float64] | None:
    """The same as a share of the user's one."""
    weight = weights_of(owners)
    return None if weight is None else np.asarray(weight / WEIGHT, dtype=np.float64)


def added(losses: NDArray[np.int64], owners: NDArray[Any] | None = None) -> int:
    """The sum of the rows' losses; or of the users' mean losses, each rounded up, in whatever order the rows come."""
    if owners is None or not len(losses):
        return int(losses.sum())
    order = np.argsort(owners, kind="stable")
    first = np.flatnonzero(np.diff(owners[order], prepend=owners[order[0]] - 1))
    sizes = np.diff(first, append=len(owners))
    return int((-(-np.add.reduceat(losses[order], first) // sizes)).sum())


def exact_of(table: Table, features: Features, label: Label, unit: Unit) -> Exact:
    """The exact statistics of a table in one streaming pass: of rows, or of users who count once each; n is public and not counted."""
    from steelyard.models.accuracy._designs import Exact

    n, step, columns = unit.n or 1, _Weighed(features, label, unit.column is not None), [*features.source, label.column]
    if not step.users:
        sums, _ = table.fold(columns, step, step.start)
        return Exact(n, SIZE, sums[:-1, :-1], sums[:-1, -1], int(sums[-1, -1]))
    sums, weight = table.fold(columns, step, step.start, sizes_of=unit)
    return as_exact(n, sums, int(weight[0]))


def as_exact(n: int, sums: NDArray[np.object_], weight: int) -> Exact:
    """Weighted products of features and, last, the label, as statistics of n users whose weights add up to ``weight``.

    Weight that users lack counts as a label of full size in the sum of squares, which is then no less than n times the
    mean of users' means.
    """
    from steelyard.models.accuracy._designs import Exact

    found = Exact.of(sums, n, SIZE * ROOT)
    return replace(found, square=found.square + (n * WEIGHT - weight) * SIZE**2)


@dataclass(frozen=True)
class _Weighed:
    """The step of a fold: products of features and label with each other, of users weighted, and the weights' own sum."""

    features: Features
    label: Label
    users: bool

    @property
    def start(self) -> list[Any]:
        width = self.features.width + 1
        return [np.zeros((width, width), dtype=object), np.zeros(1, dtype=object)]

    def __call__(self, batch: Any) -> list[Any]:
        place = len(self.features.columns)
        z = np.vstack([self.features.whole(batch), self.label.whole(batch.column(place))])
        if not self.users:
            return [weighed(z), np.zeros(1, dtype=object)]
        weight = weights(batch.column(place + 1).to_numpy(zero_copy_only=False).astype(np.int64))
        return [weighed(z, weight), np.array([int(weight.sum())], dtype=object)]


def weighed(z: NDArray[np.float64], weight: NDArray[np.int64] | None = None) -> NDArray[np.object_]:
    """The sum of weight (one, where it is left out) times zz' over columns z of whole numbers up to S, exactly; weights are at most W."""
    if weight is None:
        return np.asarray(products(z, z[-1])[0])
    high, low = np.divmod(weight, ROOT)
    found: NDArray[np.object_] = np.zeros((len(z), len(z)), dtype=object)
    for start in range(0, z.shape[1], 512 * _BLOCK):  # 512 blocks of at most 2^53 fit in 64 bits
        part = slice(start, start + 512 * _BLOCK)
        found = found + ROOT * _blocks(z[:, part], high[part]).astype(object)
        if low[part].any():
            found = found + _blocks(z[:, part], low[part]).astype(object)
    return found


def _blocks(z: NDArray[np.float64], half: NDArray[np.int64]) -> NDArray[np.int64]:
    width, at_once = len(z), max(1, _LARGE // len(z) ** 2) * _BLOCK
    total = np.zeros((width, width), dtype=np.int64)
    for start in range(0, z.shape[1], at_once):
        part, share = z[:, start : start + at_once], half[start : start + at_once]
        spare = -part.shape[1] % _BLOCK
        padded = np.pad(part, ((0, 0), (0, spare))).reshape(width, -1, _BLOCK).transpose(1, 0, 2)
        shares = np.pad(share, (0, spare)).astype(np.float64).reshape(-1, 1, _BLOCK)
        total += (np.matmul(padded * shares, padded.transpose(0, 2, 1))).astype(np.int64).sum(axis=0)
    return total
