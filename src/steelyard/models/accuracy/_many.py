"""More than two classes: a perturbed objective for each against the rest as one level, and looks at what they say together.

A row's class is the one of the largest score; its chances are those of each class by itself, brought to a sum of one. Scores keep to a
margin m, so with K classes a row loses between log(1 + (K-1)e^-m) and log(1 + (K-1)e^m); an error is one or nothing.
Law: what is added up is never below what a row loses with the model that is handed out, and lies in that range whatever the row
(docs/proofs/many_classes.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.lazy import lazy
from steelyard.models._columns import SIZE
from steelyard.models.accuracy._crowd import Crowd
from steelyard.models.accuracy._designs import Array
from steelyard.models.accuracy._family import WHOLE
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._logistic import GaussianDraws
from steelyard.models.accuracy._losses import GRID, MARGIN, ErrorShare, LossLook

LONGEST = 16.0
"""No class's weights are longer: up to there a double tells chances apart whose scores differ by what the grid can hide."""

_APART = 1 << 14  # 2^-24: chances of scores up to 16 that differ by so much differ by 60 times the rounding of a double
_FINE = 4  # a sum of chances is told in steps of 2^-16


@dataclass(frozen=True)
class ManyLook(LossLook):
    """A look at models of ``classes`` classes, one after the other in ``model``: whole steps of 2^-20."""

    classes: int = 2

    @property
    def lines(self) -> NDArray[np.int64]:
        """One line of weights for each class."""
        return np.array(self.model, dtype=np.int64).reshape(self.classes, -1)

    @property
    def longest(self) -> int:
        """The square of the longest line, in squared steps."""
        width = len(self.model) // self.classes
        lines = (self.model[k : k + width] for k in range(0, len(self.model), width))
        return max(sum(k * k for k in line) for line in lines)

    def scores(self, rows: Any) -> NDArray[np.int64]:
        """The exact scores, one column for each class, in steps of 2^-20/S."""
        return np.asarray(rows.x.astype(np.int64) @ self.lines.T)


@dataclass(frozen=True)
class WrongAmong(ErrorShare, ManyLook):
    """The share of rows that are put into the wrong class; one of no class is wrong, and one whose class leads by no more than the grid can hide."""

    @property
    def hidden(self) -> int:
        """How far the grid of the features may move one score against another, the weights of two classes being two lengths apart at most;
        and what a double needs to tell their chances apart.
        """
        return 2 * math.isqrt(self.longest * (len(self.model) // self.classes)) + _APART

    def each(self, rows: Any) -> NDArray[np.int64]:
        """The errors, in whole steps."""
        own, others = _own(self.scores(rows), rows.y)
        right = (rows.y > 0) & (own > others.max(axis=1) + self.hidden)
        return np.where(right, 0, WHOLE)


@dataclass(frozen=True)
class LoggedAmong(ManyLook):
    """The log loss of the chances together, scores clipped to ``reach`` (2^-14); a row of no class loses log K."""

    @property
    def top(self) -> int:
        """The largest score in steps of 2^-14."""
        return min((math.isqrt(self.longest) >> (GRID - MARGIN)) + 2, self.reach)

    @lazy
    def _tables(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Minus the logarithm of a chance, the chance, and the logarithm of a sum of them, all rounded up; public, made before a row is read."""
        margins = np.arange(-self.top, self.top + 1) / 2**MARGIN
        alone = np.ceil(np.logaddexp(0, -margins) * WHOLE) + 1
        chance = np.minimum(np.ceil(WHOLE / (1 + np.exp(-margins))) + 1, WHOLE)
        sums = np.maximum(np.arange(((self.classes * WHOLE) >> _FINE) + 2), 1) / (WHOLE >> _FINE)
        return alone.astype(np.int64), chance.astype(np.int64), (np.ceil(np.log(sums) * WHOLE) + 1).astype(np.int64)

    @property
    def most(self) -> int:
        """Its own score at the bottom, all others at the top."""
        m = self.top / 2.0**MARGIN
        return math.ceil((math.log(self.classes - 1) + m + math.log1p(math.exp(-m) / (self.classes - 1))) * WHOLE) + 2

    @property
    def least(self) -> int:
        """Its own score at the top, all others at the bottom."""
        return math.floor(math.log1p((self.classes - 1) * math.exp(-self.top / 2.0**MARGIN)) * WHOLE) - 1

    @property
    def allowed(self) -> int:
        """The target, less what the grid of the features can hide: a loss moves by its own score's move and one more at most."""
        width = len(self.model) // self.classes
        hidden = 2 * math.sqrt(self.longest * width) / 2.0**GRID / SIZE
        return math.floor((self.target - hidden) * WHOLE)

    def rounded(self, own: NDArray[np.int64], others: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """In steps of 2^-14 its own score rounded down, all others up: towards more loss."""
        step = SIZE << (GRID - MARGIN)
        return own // step, others // step + 1

    def each(self, rows: Any) -> NDArray[np.int64]:
        """The losses, each brought into the range that it has."""
        alone, chance, logarithm = self._tables
        own, others = self.rounded(*_own(self.scores(rows), rows.y))
        own, others = (np.clip(part, -self.top, self.top) + self.top for part in (own, others))
        together = ((chance[own] + chance[others].sum(axis=1)) >> _FINE) + 1
        lost = alone[own] + logarithm[np.minimum(together, len(logarithm) - 1)]
        nobody = math.ceil(math.log(self.classes) * WHOLE)
        return np.clip(np.where(rows.y > 0, lost, nobody), self.least, self.most)


def _own(scores: NDArray[np.int64], y: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The score of each row's own class and those of the others; a row of no class counts as one of the first."""
    count, width = scores.shape
    own = np.maximum(y.astype(np.int64) - 1, 0)
    others = np.arange(width - 1) + (np.arange(width - 1) >= own[:, None])
    lines = np.arange(count)
    return scores[lines, own], scores[lines[:, None], others]


class ManyDraws(GaussianDraws):
    """Perturbed objectives on a Gaussian account, one for each class against the rest at an equal part of a level's price."""

    longest = LONGEST

    def __init__(self, goal: Goal, width: int, crowd: Crowd, classes: int) -> None:
        super().__init__(goal, width, crowd)
        self.models = classes

    def excess(self, paid: int) -> float:
        """That of a class at its part of the price, for each of them: a guess."""
        return self.models * super().excess(max(1, paid // self.models))

    def again(self, model: tuple[int, ...], reach: int) -> LossLook:
        """A model that was looked at before."""
        look = WrongAmong if self.goal.kind == "error" else LoggedAmong
        return look(model, self.goal.amount, reach, self.crowd.neighbours, self.secret, self.models)

    def clips(self, reach: int) -> dict[str, float]:
        """Scores keep to a margin where chances are asked for; where classes are, it would only make them alike."""
        return {} if self.goal.kind == "error" else super().clips(reach)
