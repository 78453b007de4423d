"""The two questions, never confused: near the unknown best risk, or at most a public loss.

Excess risk is about the penalized half squared error on labels in [-1, 1]; it is answered by the free certificate or
by a look at the root of the excess. A target is about the plain squared error with predictions clipped to the label's
range; it is answered by a look at the mean loss itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from steelyard.models.accuracy import schedule
from steelyard.models.accuracy.certificate import Array, Noisy, Ridge, certify
from steelyard.models.accuracy.excess import RootExcess
from steelyard.models.accuracy.looking import SHARES, Series, last_look, turn
from steelyard.models.accuracy.losses import ClippedLoss
from steelyard.models.accuracy.models import in_ball
from steelyard.models.accuracy.posterior import expected_model, seen_loss
from steelyard.models.accuracy.ridge_path import WHOLE, RidgePath, Seen, Worth
from steelyard.privacy import MICRO

LOOKS = 0.95
START, STEEP, ABOVE = (
    3,
    1.3,
    4,
)  # the first stop, against what a look costs whose noise is the target; their ratio; the last
_WIDE = 2.0
PATIENCE = 16  # a path that has cost so many times what it had at its last look, or at first, is looked at in any case
_SURE, _SURE_ONCE = 1.0, 3.0  # standard deviations of room: for what every level averages out, for what is bought once


def share_of(rank: int) -> float:
    """The share of the failure probability for the looks of the target of this rank; with the label's they make one."""
    return LOOKS * 0.9 * 0.1**rank


@dataclass(frozen=True)
class Excess:
    """Is the risk within ``alpha`` of the best there is? ``rank`` is that of the question: its looks have a tenth each time."""

    alpha: float
    failure: schedule.Failure
    looks: int = 2
    rank: int = 0
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

    def look(self, path: RidgePath) -> Worth | None:
        """A look at the root of the excess, when ending here is expected to be cheapest."""
        if path.looked >= self.looks:
            return None
        noisy, failure = path.noisy, self.failure.check(path.looked, self.rank)
        here = schedule.guess(path.ridge, noisy, path.norm, noisy.variance)
        ask = self._root(path, here.model)
        now = schedule.look_cost(ask.sensitivity, math.sqrt(self.alpha), math.sqrt(here.excess), failure)
        spent, later = math.sqrt(path.spent) / MICRO, []
        for index, stop in enumerate(path.ahead):
            mu = stop.micro / MICRO
            if mu**2 - spent**2 > now**2:
                break
            if stop.failure >= 0.2 * self.failure.free or self._passes(path, stop):
                later.append((mu, 0.0))  # here the free certificate is expected to pass
                break
            if index < schedule.AHEAD:
                there = schedule.guess(path.ridge, noisy, path.norm, path.design.variance(stop.micro**2))
                cost = schedule.look_cost(ask.sensitivity, math.sqrt(self.alpha), math.sqrt(there.excess), failure)
                later.append((mu, cost))
        if not schedule.look_now(now, spent, later):
            return None
        return Worth.once(ask, math.ceil(now * MICRO) ** 2, failure)

    def last(self, path: RidgePath) -> Worth | None:
        """A look at the root of the excess that is as sharp as the budget allows, where one may yet be made."""
        if path.looked >= self.looks or not path.left:
            return None
        found = replace(
            Worth.once(self._root(path, self.guess(path)), path.left, self.failure.check(path.looked, self.rank)),
            alone=True,
        )
        return found if found.limit > 0 else None

    def _root(self, path: RidgePath, model: Array) -> RootExcess:
        return RootExcess(path.ridge, in_ball(model, path.norm), Fraction(path.norm), self.alpha)

    def _passes(self, path: RidgePath, stop: schedule.Level) -> bool:
        """Whether the free certificate would pass at this stop, were the statistics as they are and only less noisy."""
        sharper = replace(path.noisy, variance=path.design.variance(stop.micro**2))
        return certify(path.ridge, sharper, path.norm, stop.failure).excess <= self.alpha

    def over(self, path: RidgePath) -> bool:
        """Free certificates go on when the looks are used up."""
        return False

    def guess(self, path: RidgePath) -> Array:
        """A penalized model that noise would move little."""
        return schedule.guess(path.ridge, path.noisy, path.norm, path.noisy.variance).model

    def told(self, path: RidgePath, looks: Sequence[Seen]) -> float | None:
        """A look at the excess tells no loss."""
        return None

    def passed(self, path: RidgePath) -> float:
        """A model that passed is within alpha."""
        return self.alpha


def ruled_out(seen: float, spread: float, label: float, target: float) -> bool:
    """Whether a loss that statistics tell, with this spread, lies above the target.

    The mean of the squared labels is bought once, with a deviation of ``label``: a high draw would rule out every model of
    the path, however sharp, so it is given more room than the noise that each level averages out.
    """
    return seen - math.hypot(_SURE * spread, _SURE_ONCE * label) > target


def reach_of(ridge: Ridge, noisy: Noisy, model: Array) -> int:
    """Twice the size of a typical prediction, as the released statistics tell it: clipping there makes a look cheaper."""
    square = float(model @ noisy.matrix @ model - ridge.floor * model @ model) / ridge.n
    return min(max(math.ceil(_WIDE * math.sqrt(max(square, 0.0)) * WHOLE), WHOLE // 10), WHOLE)


@dataclass(frozen=True)
class Target:
    """Is the mean squared error (labels in [-1, 1], predictions clipped) at most a public number?

    ``every`` looks once after each measurement; otherwise a model is looked at more and more sharply while it may pass,
    and not at all where the released statistics rule it out. ``looks`` is how many models may be looked at.
    """

    target: float
    failure: float
    every: bool = False
    looks: int = len(SHARES)
    blind: bool = True

    def levels(self, path: RidgePath) -> list[schedule.Level]:
        """A geometric row of stops: from where a look can first pass to where a tenth of the target would be certified."""
        last = schedule.planned_mu(path.ridge, path.norm, self.target / 10, 0.05) * ABOVE
        first = min(START * 4 / (path.ridge.n * self.target), last)
        ratio = STEEP**2 if self.every else STEEP
        count = 1 + math.ceil(math.log(last / first, ratio))
        return [
            schedule.Level(micro)
            for micro in dict.fromkeys(max(1, round(first * MICRO * ratio**k)) for k in range(count))
        ]

    def null(self, square: float) -> float:
        """Predicting the middle misses by the mean of y squared."""
        return square

    def certificate(self, path: RidgePath, stop: schedule.Level) -> tuple[Array, float] | None:
        """Nothing is certified without a look."""
        return None

    def certified(self, bound: float) -> bool:
        """Whether the bound, which only the model that predicts nothing has, is small enough."""
        return bound <= self.target

    def look(self, path: RidgePath) -> Worth | None:
        """The next look at the present model, while it has its turn."""
        tried, place = self._tried(path), turn(path.seen, len(path.measured))
        if place >= self.looks:
            return None
        if not tried and not self.every and path.ahead and (self._soon(path) or self._hopeless(path)):
            return None
        ask = self._candidate(path, tried)
        found = self._series(ask, path.spent, tried, place).next()
        return None if found is None else Worth(ask, *found)

    def last(self, path: RidgePath) -> Worth | None:
        """One more look at the present model, as sharp as the budget allows."""
        tried, place = self._tried(path), turn(path.seen)
        if place >= self.looks:
            return None
        ask, costs = self._candidate(path, tried), [(look.cost, look.answer) for look in tried]
        found = last_look(ask.moves, ask.limit(), costs, path.left or 0, self.failure * SHARES[place])
        return None if found is None else Worth(ask, *found, alone=True)

    def _tried(self, path: RidgePath) -> list[Seen]:
        """The looks of the present model's series."""
        return [look for look in path.seen if look.level == len(path.measured) and not look.alone]

    def _candidate(self, path: RidgePath, tried: Sequence[Seen]) -> ClippedLoss:
        """The model that was looked at; else the one to expect, clipped where its predictions end."""
        if tried:
            return ClippedLoss(path.ridge.n, path.unit, tried[0].model, self.target, tried[0].reach)
        here = self.guess(path)
        model, reach = in_ball(here, path.norm), reach_of(path.ridge, path.noisy, here)
        return ClippedLoss(path.ridge.n, path.unit, model, self.target, reach)

    def _hopeless(self, path: RidgePath) -> bool:
        """Whether the released statistics, which flatter the model they give, put even its loss above the target.

        Not for long: they rest on labels that were measured once.
        """
        since = path.seen[-1].level if path.seen else 1
        if path.spent >= PATIENCE * sum(cost for cost, _ in path.measured[:since]):
            return False
        seen, spread = seen_loss(path.ridge, path.noisy, path.typical_square, self.guess(path))
        return ruled_out(seen, spread, MICRO / path.label_micro / path.ridge.n, self.target)

    def _series(self, ask: ClippedLoss, paid: int, tried: Sequence[Seen], before: int) -> Series:
        costs = [(look.cost, look.answer) for look in tried]
        return Series(ask.moves, ask.limit(), paid, costs, self.failure * SHARES[before], self.every)

    def _soon(self, path: RidgePath) -> bool:
        """Whether the last model that was looked at was so far off that the present one cannot be good enough yet."""
        if not path.seen:
            return False
        last = path.seen[-1]
        ask = ClippedLoss(path.ridge.n, path.unit, last.model, self.target, last.reach)
        paid = sum(cost for cost, _ in path.measured[: last.level])
        return path.spent < self._series(ask, paid, [s for s in path.seen if s.level == last.level], 0).again_at()

    def over(self, path: RidgePath) -> bool:
        """Nothing is certified without a look, and each model that is looked at uses up one."""
        return turn(path.seen) >= self.looks

    def guess(self, path: RidgePath) -> Array:
        """Any model may meet a target: the one to expect behind the statistics."""
        return expected_model(path.ridge, path.noisy, path.norm)

    def told(self, path: RidgePath, looks: Sequence[Seen]) -> float | None:
        """The average by price, as a mean loss."""
        total = sum(look.cost * look.answer for look in looks) / sum(look.cost for look in looks)
        return total / WHOLE / path.ridge.n

    def passed(self, path: RidgePath) -> float:
        """A model that passed has a loss of at most the target."""
        return self.target
