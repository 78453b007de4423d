"""The loss of one released model as a sum of whole numbers, each row's a function of that row alone.

What is added up is (loss - target), so no number of units has to be known; how far one unit can move the sum is public: it
follows from the model and from the bounds of rows and labels. Where users are hidden, each brings the mean of its rows'
losses, rounded up: a whole number between the least and the largest loss of a row, so a replaced user moves the sum no
further (docs/proofs/accuracy_first_users.md).
Law: what is added up is never below what a row loses above the target, so a sum that passes is a promise kept.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, sigma_for
from steelyard.models._columns import SIZE
from steelyard.models.accuracy._designs import MODEL_BITS
from steelyard.models.accuracy._family import CHECK, LOSS_BITS, WHOLE, Judge, Look, Step, Told
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._users import added as added
from steelyard.privacy import Neighbours

GRID, MARGIN = 20, 14
"""Bits of a classifier's released weight, and of a margin."""


@dataclass(frozen=True)
class LossLook(ABC):
    """Is the sum of (loss - target) at most zero, for one released model whose predictions are clipped to ``reach``?"""

    model: tuple[int, ...]
    target: float
    reach: int = WHOLE
    neighbours: Neighbours = Neighbours.REPLACE
    apart: bool = False
    """Whether only a part of the units is looked at, which a replaced one may leave or come into."""

    @property
    @abstractmethod
    def most(self) -> int:
        """No row loses more, in whole steps of 2^-20."""

    @property
    def least(self) -> int:
        """No row loses less."""
        return 0

    @property
    @abstractmethod
    def allowed(self) -> int:
        """The target in whole steps, rounded down by what the grid can hide: a sum at or below it keeps the promise."""

    @abstractmethod
    def each(self, rows: Any) -> NDArray[np.int64]:
        """What each row loses, between ``least`` and ``most``: a function of that row alone."""

    def losses(self, rows: Any) -> int:
        """The sum of the rows' losses, or of the users' mean losses, each rounded up."""
        return int(rows.summed(self.each))

    @property
    def moves(self) -> int:
        """By how much a unit that is added, removed or replaced moves the sum of (loss - allowed)."""
        alone = max(self.most - self.allowed, self.allowed - self.least, 1)
        if self.neighbours is Neighbours.ADD_REMOVE:
            return alone
        return max(alone if self.apart else 1, self.most - self.least)

    def limit(self) -> float:
        """A sum at or below zero keeps the promise."""
        return 0.0

    def value(self, rows: Any) -> int:
        """The sum of (loss - allowed): over the units that the rows say there are."""
        units: int = rows.units
        return self.losses(rows) - units * self.allowed


@dataclass(frozen=True)
class ClippedLoss(LossLook):
    """A look at the squared error of a ridge model, labels in [-1, 1]; weights in steps of 2^-48, the reach in 2^-20."""

    @property
    def most(self) -> int:
        """An error is at most one plus the longest prediction."""
        return (WHOLE + self.longest) ** 2 >> LOSS_BITS

    @property
    def longest(self) -> int:
        """What a prediction is at most, in steps of 2^-20: the reach, or the model's length where that is less."""
        length = math.isqrt(sum(k * k for k in self.model)) >> (MODEL_BITS - LOSS_BITS)
        return min(self.reach, length + 1)

    @property
    def allowed(self) -> int:
        """The target, less what rounding can hide: an error moves by ``hidden`` at most, so the root of their mean square does too.

        (Minkowski's inequality.) A square is rounded down, by less than a step.
        """
        root: float = max(math.sqrt(self.target) - self.hidden, 0.0)
        return math.floor(root * root * WHOLE - 1)

    @property
    def hidden(self) -> float:
        """By how much an error on the grid may differ from the true one (docs/proofs/accuracy_first_paths.md)."""
        length, width = math.sqrt(sum(k * k for k in self.model)) / 2**MODEL_BITS, math.sqrt(len(self.model))
        return float((width + 2) / WHOLE + (length * width + 1) / SIZE)

    def missed(self, rows: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The labels in steps of 2^-20, and by how much clipped predictions miss them."""
        model = np.array([k >> (MODEL_BITS - LOSS_BITS) for k in self.model], dtype=np.int64)
        predicted = (rows.x.astype(np.int64) @ model) // SIZE
        y = rows.y.astype(np.int64) * (WHOLE // SIZE)
        return y, y - np.clip(predicted, -self.longest, self.longest)

    def each(self, rows: Any) -> NDArray[np.int64]:
        """The clipped squared errors."""
        _, missed = self.missed(rows)
        return np.asarray((missed * missed) >> LOSS_BITS)


@dataclass(frozen=True)
class LoggedLoss(LossLook):
    """A look at the log loss of a classifier; weights in whole steps of 2^-20, margins clipped to ``reach`` (2^-14)."""

    @property
    def length(self) -> float:
        """No margin is longer."""
        return float(math.sqrt(sum(k * k for k in self.model)) / 2**GRID)

    @lazy
    def table(self) -> NDArray[np.int64]:
        """The loss at each margin of the grid, rounded up: public, made before a row is read."""
        top = min(math.ceil(self.length * 2**MARGIN) + 1, self.reach)
        margins = np.arange(-top, top + 1) / 2**MARGIN
        return np.asarray(np.ceil(np.logaddexp(0, -margins) * WHOLE), dtype=np.int64) + 1

    @property
    def most(self) -> int:
        """No row loses more."""
        return int(self.table[0])

    @property
    def least(self) -> int:
        """No row loses less."""
        return int(self.table[-1])

    @property
    def allowed(self) -> int:
        """The target, less what the grid of the features can hide from a prediction."""
        hidden = self.length * math.sqrt(len(self.model)) / SIZE
        return math.floor((self.target - hidden) * WHOLE)

    def each(self, rows: Any) -> NDArray[np.int64]:
        """The losses, margins rounded towards more loss: whole numbers throughout."""
        margins = (rows.signed.astype(np.int64) @ np.array(self.model, dtype=np.int64)) // (SIZE << (GRID - MARGIN))
        middle = len(self.table) // 2
        return np.asarray(self.table[np.clip(margins + middle, 0, 2 * middle)])


class ErrorShare(LossLook):
    """A look at the share of rows that are put into the wrong class."""

    @property
    def most(self) -> int:
        """A wrong class is one error."""
        return WHOLE

    @property
    def allowed(self) -> int:
        """The share of errors, rounded down."""
        return math.floor(self.target * WHOLE)


@dataclass(frozen=True)
class WrongClass(ErrorShare):
    """A look at the share of rows that a classifier puts into the wrong class; weights in whole steps of 2^-20.

    A row of no class is always wrong, and so is one whose margin is so small that the grid of the features may hide its sign.
    """

    def each(self, rows: Any) -> NDArray[np.int64]:
        """The errors, in whole steps."""
        hidden = math.isqrt(sum(k * k for k in self.model) * len(self.model)) + 2
        margins = rows.signed.astype(np.int64) @ np.array(self.model, dtype=np.int64)
        return np.where(margins > hidden, 0, WHOLE)


def margin_cap(target: float) -> int:
    """Where a margin leaves a thirty-second of the target to lose, in steps of 2^-14: clipping there costs next to nothing.

    A model's length, which is what a look would cost otherwise, is often several times larger.
    """
    return math.ceil(-math.log(math.expm1(target / 32)) * (1 << MARGIN))


def gaussian_of(look: Look, cost: int, neighbours: Neighbours = Neighbours.REPLACE) -> Gaussian:
    """The noise of a look at this price."""
    return Gaussian(look.moves, sigma_for(look.moves**2, cost), neighbours)


def looked(look: Look, cost: int, limit: float, level: int, *, alone: bool = False) -> Step:
    """The look at this price: it passes at or below a limit that is known before a row is read."""
    facts = {"model": [str(k) for k in look.model], "reach": look.reach, "limit": limit, "level": level}
    return Step(
        "look",
        lambda: gaussian_of(look, cost, getattr(look, "neighbours", Neighbours.REPLACE)),
        lambda noisy, rows, noise: noisy.release([look.value(rows)], noise),
        {**facts, "alone": True} if alone else facts,
        CHECK,
    )


@dataclass(frozen=True)
class Seen:
    """A look that was made: at a model, after so many levels, for so much, and what it said."""

    model: tuple[int, ...]
    reach: int
    level: int
    cost: int
    answer: int
    passed: bool
    alone: bool = False

    @classmethod
    def of(cls, told: Told) -> Seen:
        """The look that a stored step was."""
        facts, answer = told.facts, int(told.values[0])
        model, alone = tuple(int(k) for k in facts["model"]), bool(facts.get("alone", False))
        passed = bool(answer <= facts["limit"])
        return cls(model, int(facts["reach"]), int(facts["level"]), told.cost, answer, passed, alone)


class Looking(Judge):
    """A judge who looks at models: what was seen so far, and a verdict where a look passed."""

    def __init__(self, goal: Goal, family: Any) -> None:
        super().__init__(goal, family)
        self.seen: list[Seen] = []

    def judged(self, told: Told) -> None:
        """A model that passed is as good as was asked."""
        seen = Seen.of(told)
        self.seen.append(seen)
        self.write(f"look {len(self.seen) - 1}", seen.cost, told, passed=seen.passed, loss=self.told_loss())
        if seen.passed:
            self.verdict = self.family.passed(seen.model, seen.reach, self.goal.amount)

    def told_loss(self) -> float | None:
        """What looks say of the loss of the last model, where they do."""
        return None
