"""Looks at the loss of one released model: a sum of whole numbers, each row's a function of that row alone.

How far one replaced row can move the sum is public: it follows from the model and from the bounds of rows and labels.
Where users are hidden, each brings the mean of its rows' losses, rounded up: a whole number between the least and the
largest loss of a row, so a replaced user moves the sum no further (docs/proofs/accuracy_first_users.md).
Law: what is added up is never below what a row loses, so a sum that passes is a promise kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.lazy import lazy
from steelyard.models.accuracy.certificate import Array
from steelyard.models.accuracy.models import MODEL_BITS, Private
from steelyard.models.columns import SIZE

LOSS_BITS = 20
GRID, MARGIN, LOSS = 20, 14, 20
"""Bits of a released weight, of a margin and of a loss."""


def added(losses: NDArray[np.int64], owners: NDArray[Any] | None = None) -> int:
    """The sum of the rows' losses; or of the users' mean losses, each rounded up, in whatever order the rows come."""
    if owners is None or not len(losses):
        return int(losses.sum())
    order = np.argsort(owners, kind="stable")
    first = np.flatnonzero(np.diff(owners[order], prepend=owners[order[0]] - 1))
    sizes = np.diff(first, append=len(owners))
    return int((-(-np.add.reduceat(losses[order], first) // sizes)).sum())


@dataclass(frozen=True)
class ClippedLoss:
    """A look at the mean squared error of one model, predictions clipped to ``reach`` (in steps of 2^-20, at most one)."""

    n: int
    unit: int
    model: tuple[int, ...]
    target: float
    reach: int = 1 << LOSS_BITS

    @property
    def moves(self) -> int:
        """An error is at most one plus the longest prediction; replacing a row moves the sum by at most its square."""
        return ((1 << LOSS_BITS) + self.longest) ** 2 >> LOSS_BITS

    @property
    def longest(self) -> int:
        """What a prediction is at most, in steps of 2^-20: the reach, or the model's length where that is less."""
        length = math.isqrt(sum(k * k for k in self.model)) >> (MODEL_BITS - LOSS_BITS)
        return min(self.reach, length + 1)

    def limit(self) -> float:
        """The target as a sum of losses, less what rounding can hide: of the model, both predictions and the square.

        And less what the grid of features and labels can hide from a prediction: an error is at most two.
        """
        length, width = math.sqrt(sum(k * k for k in self.model)) / 2**MODEL_BITS, math.sqrt(len(self.model))
        hidden = 1 + 4 * (width + 2) + 4 * (length * width + 1) / SIZE * 2**LOSS_BITS
        return float(self.n * (self.target * 2**LOSS_BITS - hidden))

    def value(self, private: Private) -> int:
        """The sum of clipped squared errors, or of users' means: each row's a function of that row alone."""
        x, y, *owners = private.rows
        bits = 2**LOSS_BITS
        model = np.array([k >> (MODEL_BITS - LOSS_BITS) for k in self.model], dtype=np.int64)
        predicted = (x.astype(np.int64) @ model) // self.unit
        missed = y.astype(np.int64) * bits // self.unit - np.clip(predicted, -self.longest, self.longest)
        return added((missed * missed) >> LOSS_BITS, *owners)


@dataclass(frozen=True)
class LogLoss:
    """A look at the mean log loss of one released model, its weights in whole steps of 2^-20.

    Margins are clipped to ``cap`` (in steps of 2^-14), where one is given.
    """

    n: int
    model: tuple[int, ...]
    target: float
    cap: int | None = None

    @property
    def length(self) -> float:
        """No margin is longer."""
        return float(math.sqrt(sum(k * k for k in self.model)) / 2**GRID)

    @lazy
    def losses(self) -> NDArray[np.int64]:
        """The loss at each margin of the grid, rounded up: public, made before a row is read."""
        top = math.ceil(self.length * 2**MARGIN) + 1
        top = top if self.cap is None else min(top, self.cap)
        margins = np.arange(-top, top + 1) / 2**MARGIN
        return np.asarray(np.ceil(np.logaddexp(0, -margins) * 2**LOSS), dtype=np.int64) + 1

    @property
    def moves(self) -> int:
        """The range of the losses."""
        return int(self.losses[0] - self.losses[-1])

    def limit(self) -> float:
        """The target as a sum, less what the grid of the features can hide from a prediction."""
        hidden = self.length * math.sqrt(len(self.model)) / SIZE
        return float(self.n * (self.target - hidden) * 2**LOSS)

    def value(self, signed: Array, owners: NDArray[Any] | None = None) -> int:
        """The sum of losses, or of users' means, margins rounded towards more loss: whole numbers throughout."""
        margins = (signed.astype(np.int64) @ np.array(self.model, dtype=np.int64)) // (SIZE << (GRID - MARGIN))
        middle = len(self.losses) // 2
        return added(self.losses[np.clip(margins + middle, 0, 2 * middle)], owners)


def margin_cap(target: float) -> int:
    """Where a margin leaves a thirty-second of the target to lose, in steps of 2^-14: clipping there costs next to nothing.

    A model's length, which is what a look would cost otherwise, is often several times larger.
    """
    return math.ceil(-math.log(math.expm1(target / 32)) * (1 << MARGIN))
