"""The two questions, never confused: near the unknown best risk, or at most a public loss.

Excess risk is about the penalized half squared error on labels in [-1, 1]; it is answered by the free certificate or
by a look at the root of the excess. A target is about the plain squared error with predictions clipped to the label's
range; it is answered by a look at the mean loss itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from steelyard.models.first import schedule
from steelyard.models.first.certificate import Array, certify
from steelyard.models.first.excess import RootExcess
from steelyard.models.first.losses import LOSS_BITS, ClippedLoss
from steelyard.models.first.models import in_ball
from steelyard.models.first.quantiles import normal_quantile
from steelyard.models.first.ridge_path import Lesson, RidgePath
from steelyard.privacy import MICRO

LOOKS = 0.95
SHARES = tuple(0.4 * 0.6**k for k in range(12))
UNSURE, HOPE, COST = 0.25, 0.5, 1.4  # an excess is of half the loss, and guessed on the high side: 1.4 of it, not 2
STEEP, BELOW, ABOVE = 1.25, 22, 6
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
    blind: bool = False

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


def _likely(path: RidgePath, here: schedule.Guess, target: float) -> float:
    """The best loss there is, as the target, the statistics and the looks so far tell it, and some of how unsure that is."""
    noisy, n, w = path.noisy, path.ridge.n, here.likely
    seen = path.typical_square + (w @ noisy.matrix @ w - path.ridge.floor * w @ w - 2 * w @ noisy.vector) / n
    square = float(w @ w)
    spread = math.hypot(
        MICRO / path.label_micro, math.sqrt(noisy.variance * (square**2 + 4 * square / noisy.weight))
    ) / n  # fmt: skip
    hope = (HOPE * target, HOPE * target / 2)  # whoever names a target thinks that it can be met with room to spare
    told = [hope, (float(seen), spread), *((lesson.best, lesson.spread) for lesson in path.lessons)]
    weight = sum(spread**-2 for _, spread in told)
    return max(sum(best * spread**-2 for best, spread in told) / weight, 0.0) + UNSURE / math.sqrt(weight)


@dataclass(frozen=True)
class Target:
    """Is the mean squared error (labels in [-1, 1], predictions clipped) at most a public number?

    ``every`` looks after each measurement; otherwise a look is paid for when the released statistics say it will pass.
    """

    target: float
    failure: float
    every: bool = False
    looks: int = len(SHARES)
    blind: bool = True

    def levels(self, path: RidgePath) -> list[schedule.Level]:
        """A geometric row of stops around where a certificate of a tenth of the target would pass."""
        around = schedule.planned_mu(path.ridge, path.norm, self.target / 10, 0.05)
        ratio = STEEP**2 if self.every else STEEP
        stops = [max(1, round(around * MICRO * ratio**k)) for k in range(-BELOW, ABOVE)]
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
        sensitivity = ask.moves / 2**LOSS_BITS / path.ridge.n
        blind = sensitivity * (normal_quantile(failure) + 1) * (_ROOM if path.looked else _FIRST) / self.target
        if self.every or (path.lessons and noisy.variance <= path.lessons[-1].variance / _ROOM) or not path.ahead:
            return replace(ask, mu=blind), blind, failure  # what was learnt may have been wrong: worth a look
        best = _likely(path, here, self.target)
        now = schedule.look_cost(sensitivity, self.target, best + COST * here.excess, failure)
        spent, later = math.sqrt(path.spent) / MICRO, []
        for stop in path.ahead[: schedule.AHEAD]:
            there = schedule.guess(path.ridge, noisy, path.norm, path.design.variance(stop.micro**2))
            cost = schedule.look_cost(sensitivity, self.target, best + COST * there.excess, failure)
            later.append((stop.micro / MICRO, cost))
        return (replace(ask, mu=now), now, failure) if schedule.look_now(now, spent, later) else None

    def learn(self, path: RidgePath, ask: ClippedLoss, answer: int) -> None:
        """A look that failed still tells the loss, and so what the best loss is likely to be."""
        loss, spread = answer / 2**LOSS_BITS / path.ridge.n, ask.moves / 2**LOSS_BITS / path.ridge.n / ask.mu
        path.lessons.append(Lesson(loss - 2 * ask.guess, spread, path.noisy.variance))

    def passed(self, path: RidgePath) -> float:
        """A model that passed has a loss of at most the target."""
        return self.target
