"""The two questions, never confused: near the unknown best risk, or at most a public loss.

Excess risk is about the penalized half squared error on labels in [-1, 1]; it is answered by the free certificate or
by a look at the root of the excess. A target is about the plain squared error with predictions clipped to the label's
range; it is answered by a look at the mean loss itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from steelyard.models.first import schedule
from steelyard.models.first.certificate import Array, certify
from steelyard.models.first.excess import RootExcess
from steelyard.models.first.models import MODEL_BITS, Private, in_ball
from steelyard.models.first.quantiles import normal_quantile
from steelyard.models.first.ridge_path import RidgePath
from steelyard.privacy import MICRO

LOSS_BITS = 20
LOOKS = 0.95
SHARES = (0.35, 0.25, 0.15, 0.1, 0.1, 0.05)
_ROOM, _FIRST = 4, 2  # the first look comes when noise costs about a quarter of the target, and is half as exact


def share_of(rank: int) -> float:
    """The share of the failure probability for the looks of the target of this rank; with the label's they make one."""
    return LOOKS * 0.9 * 0.1**rank


@dataclass(frozen=True)
class Excess:
    """Is the risk within ``alpha`` of the best there is?"""

    alpha: float
    failure: schedule.Failure
    looks: int = 2

    def levels(self, path: RidgePath) -> list[schedule.Level]:
        """Below the planned level, looks only; around it, free certificates."""
        return schedule.levels(path.ridge, path.norm, self.alpha, self.failure)

    def null(self, square: float) -> float:
        """Predicting nothing is off by half the mean of y squared at most."""
        return square / 2

    def certificate(self, path: RidgePath, stop: schedule.Level) -> tuple[Array, float] | None:
        """The free certificate, where the stop has a failure probability for it."""
        if not stop.failure:
            return None
        found = certify(path.ridge, path.noisy, path.norm, stop.failure)
        return found.model, found.excess

    def certified(self, bound: float) -> bool:
        """Whether the bound is small enough."""
        return bound <= self.alpha

    def look(self, path: RidgePath) -> tuple[RootExcess, float, float] | None:
        """A look at the root of the excess, when ending here is expected to be cheapest."""
        noisy, failure = path.noisy, self.failure.check(path.looked)
        here = schedule.guess(path.ridge, noisy, path.norm, noisy.variance)
        ask = RootExcess(path.ridge, in_ball(here.model, path.norm), Fraction(path.norm), self.alpha)
        now = schedule.look_cost(ask.sensitivity, math.sqrt(self.alpha), math.sqrt(here.excess), failure)
        spent, later = math.sqrt(path.spent) / MICRO, []
        for stop in path.ahead[: schedule.AHEAD]:
            mu = stop.micro / MICRO
            if mu**2 - spent**2 > now**2:
                break
            there = schedule.guess(path.ridge, noisy, path.norm, path.design.variance(stop.micro**2))
            cost = schedule.look_cost(ask.sensitivity, math.sqrt(self.alpha), math.sqrt(there.excess), failure)
            later.append((mu, 0.0 if stop.failure >= 0.3 * self.failure.free else cost))
        return (ask, now, failure) if schedule.look_now(now, spent, later) else None

    def learn(self, path: RidgePath, ask: RootExcess, answer: int) -> None:
        """Nothing is kept of a look that failed."""

    def passed(self, path: RidgePath) -> float:
        """A model that passed is within alpha."""
        return self.alpha


@dataclass(frozen=True)
class ClippedLoss:
    """A look at the mean squared error of one model, predictions clipped to the label's range."""

    n: int
    unit: int
    model: tuple[int, ...]
    target: float
    guess: float = 0.0

    @property
    def moves(self) -> int:
        """A squared error lies between 0 and 4; replacing a row moves the sum by that range."""
        return 4 << LOSS_BITS

    def limit(self) -> float:
        """The target as a sum of losses, less what rounding can hide: of the model, both predictions and the square."""
        hidden = 1 + 4 * (math.sqrt(len(self.model)) + 2)
        return float(self.n * (self.target * 2**LOSS_BITS - hidden))

    def value(self, private: Private) -> int:
        """The sum of clipped squared errors: whole numbers throughout, each row's a function of that row alone."""
        x, y = private.rows
        bits = 2**LOSS_BITS
        model = np.array([k >> (MODEL_BITS - LOSS_BITS) for k in self.model], dtype=np.int64)
        predicted = (x.astype(np.int64) @ model) // self.unit
        missed = y.astype(np.int64) * bits // self.unit - np.clip(predicted, -bits, bits)
        return int(((missed * missed) >> LOSS_BITS).sum())


@dataclass(frozen=True)
class Target:
    """Is the mean squared error (labels in [-1, 1], predictions clipped) at most a public number?

    ``every`` looks after each measurement; otherwise a look is paid for when the released statistics say it will pass.
    """

    target: float
    failure: float
    every: bool = False
    looks: int = len(SHARES)

    def levels(self, path: RidgePath) -> list[schedule.Level]:
        """A geometric row of stops around where a certificate of a tenth of the target would pass."""
        around = schedule.planned_mu(path.ridge, path.norm, self.target / 10, 0.05)
        ratio = schedule.RATIO**2 if self.every else schedule.RATIO
        stops = [max(1, round(around * MICRO * ratio**k)) for k in range(-20, 9)]
        return [schedule.Level(micro) for micro in dict.fromkeys(stops)]

    def null(self, square: float) -> float:
        """Predicting the middle misses by the mean of y squared."""
        return square

    def certificate(self, path: RidgePath, stop: schedule.Level) -> tuple[Array, float] | None:
        """Nothing is certified without a look."""
        return None

    def certified(self, bound: float) -> bool:
        """Whether the bound, which only the model that predicts nothing has, is small enough."""
        return bound <= self.target

    def look(self, path: RidgePath) -> tuple[ClippedLoss, float, float] | None:
        """A look at the loss, after every measurement or when it is expected to end the search most cheaply."""
        noisy, failure = path.noisy, self.failure * SHARES[path.looked]
        here = schedule.guess(path.ridge, noisy, path.norm, noisy.variance)
        ask = ClippedLoss(path.ridge.n, path.unit, in_ball(here.model, path.norm), self.target, here.excess)
        sensitivity = 4 / path.ridge.n
        first = sensitivity * (normal_quantile(failure) + 1) * (_ROOM if path.looked else _FIRST) / self.target
        if self.every:
            return ask, first, failure
        if not path.lessons:
            return (ask, first, failure) if 2 * _ROOM * here.excess <= self.target else None
        if noisy.variance <= path.lessons[-1][2] / _ROOM or not path.ahead:
            return ask, first, failure  # whatever was learnt may have been wrong: so much sharper is worth a look
        best = min(loss - 2 * excess for excess, loss, _ in path.lessons)
        now = schedule.look_cost(sensitivity, self.target, best + 2 * here.excess, failure)
        spent, later = math.sqrt(path.spent) / MICRO, []
        for stop in path.ahead[: schedule.AHEAD]:
            there = schedule.guess(path.ridge, noisy, path.norm, path.design.variance(stop.micro**2))
            cost = schedule.look_cost(sensitivity, self.target, best + 2 * there.excess, failure)
            later.append((stop.micro / MICRO, cost))
        return (ask, now, failure) if schedule.look_now(now, spent, later) else None

    def learn(self, path: RidgePath, ask: ClippedLoss, answer: int) -> None:
        """A look that failed still tells the loss, and so what the best loss is likely to be."""
        path.lessons.append((ask.guess, answer / 2**LOSS_BITS / path.ridge.n, path.noisy.variance))

    def passed(self, path: RidgePath) -> float:
        """A model that passed has a loss of at most the target."""
        return self.target
