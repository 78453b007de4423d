"""Accuracy-first ridge searches on rows in memory, without a ledger: the same steps and prices, any noise, an optional cap."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.accounting._prices import price
from steelyard.errors import BudgetExceeded
from steelyard.models.accuracy._crowd import Crowd
from steelyard.models.accuracy._designs import Exact
from steelyard.models.accuracy._family import Step, Told
from steelyard.models.accuracy._goal import Goal, share_of
from steelyard.models.accuracy._looks import Looks
from steelyard.models.accuracy._losses import added
from steelyard.models.accuracy._ridge import GaussianRidge
from steelyard.models.accuracy._schedule import Failure, NearBest
from steelyard.models.accuracy._search import run
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Currency, Loss, Terms, rows

Array = NDArray[np.float64]


@dataclass
class InMemory:
    """Whole-number rows as steps read them: features and labels, and whose each row is where users are hidden."""

    rows: tuple[Any, ...]

    @property
    def x(self) -> Array:
        """The features."""
        return np.asarray(self.rows[0])

    @property
    def y(self) -> Array:
        """The labels."""
        return np.asarray(self.rows[1])

    @property
    def owners(self) -> Any:
        """Whose each row is."""
        return self.rows[2] if len(self.rows) > 2 else None

    @property
    def units(self) -> int:
        """How many rows, or users, there are."""
        return len(self.y) if self.owners is None else len(np.unique(self.owners))

    def summed(self, each: Any) -> int:
        """The sum of a whole number for each row, or of the users' means."""
        return added(each(self), self.owners)

    @property
    def signed(self) -> Array:
        """Rows times the signs of their labels."""
        return np.asarray(self.x * np.sign(self.y)[:, None])

    @property
    def exact(self) -> Exact:
        """The statistics of the rows."""
        return Exact.of_rows(self.x, self.y)


class OffLedger:
    """What a search takes for its transcript: it computes each step at once and adds up the prices."""

    def __init__(self, held: Any, n: int, noise: Noise, cap: float = math.inf) -> None:
        self._held, self._noise, self._cap, self.spent = held, noise, cap, 0
        self._terms = Terms(rows(neighbours="replace", n=n), Loss.mu(1000))
        self.alter: Callable[[Step, Any], Any] = lambda step, answer: answer

    @property
    def left(self) -> int:
        """What is left of the cap."""
        return int(min(self._cap, 1e30)) - self.spent

    def buy(self, step: Step, goal: Goal) -> Told:
        """Pay for a step and compute it, or say what is left."""
        cost = price(step.event, self._terms).amount
        if self.spent + cost > self._cap:
            left = Loss(Currency.GAUSSIAN, int(self._cap) - self.spent)
            raise BudgetExceeded("too dear", wanted=Loss(Currency.GAUSSIAN, cost), remaining=left)
        self.spent += cost
        answer = self.alter(step, step.compute(self._held, self._noise))
        return Told(step.kind, cost, answer, {**step.facts, "goal": goal.name})


def ridge_judge(goal: Goal, n: int, width: int, penalty: float, rank: int = 0) -> Any:
    """Who decides about a ridge goal on n rows of a Gaussian account; so many questions were asked before."""
    failure = Failure(goal.failure * share_of(rank))
    family = GaussianRidge(goal, width, penalty, Crowd(rows(neighbours="replace", n=n)), failure)
    if goal.kind == "excess":
        return NearBest(goal, family, failure, 0 if goal.check == "certificate" else 2)
    return Looks(goal, family, failure.looks)


@dataclass
class Ended:
    """Where a search came to: what it spent (mu squared), its model, how many looks it made, why, and the judge."""

    spent: float
    model: Array
    looks: int
    reason: str
    reach: float
    judge: Any


def search(held: Any, goal: Goal, n: int, width: int, penalty: float, noise: Noise, cap: float = math.inf) -> Ended:
    """One ridge search."""
    judge, steps = ridge_judge(goal, n, width, penalty), OffLedger(held, n, noise, cap)
    return ended(judge, steps)


def ended(judge: Any, steps: OffLedger) -> Ended:
    """A search to its end."""
    reason, _ = run(judge, steps, None)  # type: ignore[arg-type]
    end = judge.verdict or judge.guess()
    model = np.zeros(1) if end is None or end.model is None else end.model
    reach = 1.0 if end is None else float(end.clips.get("reach", 1.0))
    return Ended(steps.spent / MICRO**2, model, len(judge.seen), reason, reach, judge)
