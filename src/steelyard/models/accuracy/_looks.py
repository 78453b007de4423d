"""How sharply to look at a model's loss, and for how long: more and more sharply, as long as it may still pass.

A look is a sum of losses with noise. Looks at one model are averaged by what they cost; what each may cost is fixed before
the first of them, so that the averages have a known joint law, however early the looks end. Before a search gives up
because its budget cannot pay for the next step, it looks once more, with all that is left.
Law: a model that is looked at has one failure probability, which covers all looks it could have had; what is left of it
when the looks end early is not handed on; a look that stands alone has one of its own (docs/proofs/accuracy_first_paths.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

from steelyard.lazy import lazy
from steelyard.models.accuracy._family import CHECK, SCANT, TRAIN, WHOLE, Step, Told
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._losses import Looking, LossLook, Seen, looked
from steelyard.models.accuracy._quantiles import joint_quantile, normal_quantile
from steelyard.privacy import MICRO

SHARES, RESERVE = tuple(0.18 * 0.8**k for k in range(40)), 0.1
"""The share of the failure probability that the k-th turn of a question has, a model's looks; and what is kept for a look alone."""

ENOUGH = 5.0
"""By how many deviations of a last look a model should be expected to be below the target."""

LEAST, FIRST, FINER, MOST = 0.15, 0.4, 1.25, 1.5
"""Of the path's mu: the first look, from and to; each next average; the last."""

PATIENCE = 16
"""A path that has cost so many times what it had at its last look, or at first, is looked at in any case."""

_NEAR = 0.05  # the first look need not tell a loss from the target that is nearer to it than this part of the target
_ROOM = 0.8  # the part of the target that a model's loss should have fallen to
_DOUBT = 2.0  # how many standard deviations the looks so far may have been too high
_HOPE = 0.5  # how many standard deviations of luck a model is given
_FREE = 4  # looks at a model are as sharp as if the path had cost so many times what looks may cost for nothing


@dataclass(frozen=True)
class Series:
    """Looks at one model of a path that has cost ``paid``; ``tried`` are those that failed, as (cost, answer).

    The sum passes at or below ``limit``; one replaced row or user moves it by ``moves``; ``failure`` is the probability
    that the model passes with a sum above the limit. ``once`` makes one look, as sharp as the path, and no more.
    """

    moves: int
    limit: float
    paid: int
    tried: Sequence[tuple[int, int]]
    failure: float
    once: bool = False

    def next(self) -> tuple[int, float] | None:
        """What the next look costs and the answer at or below which it passes; or None, when this model has had its turn."""
        count, costs = len(self.tried), self._costs
        if count >= len(costs) or [cost for cost, _ in self.tried] != costs[:count]:
            return None  # looks that were planned otherwise have no known joint law with these
        if not self._hopeful():
            return None
        cost, most = costs[count], self.most[count]
        return cost, most + sum(c / cost * (most - answer) for c, answer in self.tried)

    @lazy
    def most(self) -> list[float]:
        """What each average may be at most: neighbouring ones are correlated as their costs say."""
        sums, spreads = list(accumulate(self._costs)), self._spreads
        both = zip(sums, sums[1:], spreads, spreads[1:], strict=False)
        ratios = (before * old / (after * new) for before, after, old, new in both)
        quantile = joint_quantile(self.failure, *ratios)
        return [self.limit - quantile * spread - 2 for spread in spreads]

    def again_at(self) -> float:
        """What a path should have cost before its next model is looked at, after this one failed.

        A loss falls no faster than the square of the noise; and a model should have a little room below the target.
        """
        spent, seen = _heard(self.tried)
        return self.paid * (seen - _sigma(self.moves, spent)) / (_ROOM * self.limit)

    @lazy
    def _costs(self) -> list[int]:
        """What the looks at this model cost, known before the first: their averages' mu rises step by step."""
        root = max(1, math.isqrt(self.paid))
        enough = 2.5 * self.moves * MICRO / (_NEAR * max(self.limit, 1.0)) / root
        first = min(max(enough, LEAST), FIRST)
        shares = [1.0] if self.once else [first * FINER**k for k in range(int(math.log(MOST / first, FINER)) + 1)]
        roots = list(accumulate((math.ceil(share * root) for share in shares), lambda a, b: max(a + 1, b)))
        return [after**2 - before**2 for before, after in zip([0, *roots], roots, strict=False)]

    @lazy
    def _spreads(self) -> list[float]:
        """The deviation of each average."""
        squares = accumulate((cost * _sigma(self.moves, cost)) ** 2 for cost in self._costs)
        return [math.sqrt(square) / total for square, total in zip(squares, accumulate(self._costs), strict=True)]

    def _hopeful(self) -> bool:
        """Whether the sharpest average may yet pass, with some luck; before the first, if the model lost nothing."""
        if not self.tried:
            return self.most[-1] > 0
        seen, now, last = _heard(self.tried)[1], self._spreads[len(self.tried) - 1], self._spreads[-1]
        return seen <= self.most[-1] + _HOPE * math.sqrt(max(now**2 - last**2, 0.0))


def _sigma(moves: int, cost: int) -> float:
    """The deviation of a look at this price, at most: that of a step is rounded up by less than 1 part in 10^7 (gradual_sum.md)."""
    return moves * MICRO / math.sqrt(cost) * (1 + 1e-7)


def _heard(looks: Sequence[tuple[int, float]]) -> tuple[int, float]:
    """What looks, as (cost, answer), have cost in all, and their average by cost; of none nothing."""
    spent = sum(cost for cost, _ in looks)
    return spent, sum(cost * answer for cost, answer in looks) / spent if spent else 0.0


def turn(looks: Sequence[Seen], level: int | None = None) -> int:
    """The place of a series of looks, at the model of this level, among all turns: each has a share of its own.

    A look that stands alone is a turn too; without a level, the next turn's.
    """
    turns = list(dict.fromkeys((look.level, index if look.alone else None) for index, look in enumerate(looks)))
    return turns.index((level, None)) if level is not None and (level, None) in turns else len(turns)


def share_of_turn(looks: Sequence[Seen], level: int | None = None) -> float:
    """The share of the failure probability that the looks at the model of this level have; without one, a look that stands alone.

    That has half of what all later turns would, which then have the other half, and the reserve, once. Zero when nothing is left.
    """
    place, alone = turn(looks, level), level is None
    first = next((i for i, look in enumerate(looks) if look.level == level and not look.alone), len(looks))
    before = sum(look.alone for look in looks[:first])
    given = sum(SHARES[place:]) / 2 if alone else sum(SHARES[place : place + 1])
    return given * 0.5**before + (RESERVE if alone and not before else 0.0)


def last_look(
    moves: int, limit: float, tried: Sequence[tuple[int, int]], cost: int, failure: float
) -> tuple[int, float] | None:
    """One look for all that is left, outside any series, before a search gives up: its cost and where it passes.

    None where it could not pass: too noisy for any sum of losses, or for the one that earlier looks told.
    """
    if cost < 1:
        return None
    most = limit - normal_quantile(failure) * _sigma(moves, cost) - 2
    spent, told = _heard(tried)
    off = _sigma(moves, spent) if spent else 0.0
    return (cost, most) if most > 0 and told - off <= most else None


class Looks(Looking):
    """A target for a loss: a model is looked at more and more sharply while it may pass.

    It is not looked at where the released statistics rule it out, or where the last model was too far off. ``failure`` is
    shared by all looks of the goal; ``dearer`` says that of two parts the dearer one is paid for.
    """

    def __init__(self, goal: Goal, family: Any, failure: float, dearer: bool = False) -> None:
        super().__init__(goal, family)
        self._failure, self._dearer, self._bases = failure, dearer, [0]
        self._parts = {TRAIN: 0, CHECK: 0}

    def learn(self, told: Told) -> None:
        """Take a stored step into account, whoever bought it: each costs its own part."""
        if self._dearer:
            self._parts[str(told.facts["part"])] += told.cost
        super().learn(told)

    def _free(self) -> int:
        """What a look may cost without raising what is paid, by the steps so far: a restart finds what the search had found."""
        return max(self._parts[TRAIN] - self._parts[CHECK], 0)

    def measured(self, told: Told) -> None:
        """What looks at a model may cost is fixed when its level is there, before the first of them."""
        super().measured(told)
        if self.family.levels == len(self._bases):
            self._bases.append(max(self.family.paid, _FREE * self._free()))

    def look(self) -> Step | None:
        """The next look at the present model, while it has its turn."""
        share = share_of_turn(self.seen, self.family.levels)
        if not self.family.levels or not share:
            return None
        ask, none, tried = self._candidate()
        if not tried and self._wait():
            return None
        base, failure = self._bases[self.family.levels], self._failure * share
        series = Series(ask.moves, none, base, tried, failure, self.goal.every)
        if not tried and self._patient() and self._vain(series):
            return None
        worth = series.next()
        return None if worth is None else looked(ask, worth[0], worth[1] - none, self.family.levels)

    def training(self, left: int) -> int:
        """What looks have cost beyond the levels is free for a level where the dearer part is paid for."""
        return left + max(self._parts[CHECK] - self._parts[TRAIN], 0)

    def scarce(self, left: int) -> bool:
        """Whether the next model could not be looked at as sharply as its path, and a last look is better made before it."""
        ahead = self.family.ahead() if self._plans and not self.goal.every else []
        rest = left - (ahead[0] - self.family.paid) if ahead else left
        if not ahead or rest >= ahead[0]:
            return False
        now = self._ease(self.family.paid, left)[0]
        return now > 0 and self._ease(ahead[0], rest)[0] < min(now, ENOUGH)

    def share(self, left: int) -> Fraction:
        """What makes a last look likeliest to pass, where that is known; then all that no look could use."""
        return self._sharper(left) or super().share(left)

    @property
    def _plans(self) -> bool:
        return not self._sharpened and not self._dearer and bool(self.family.levels)

    def _sharper(self, left: int) -> Fraction:
        """How much of what is left had better go into a level before the last look, if one is expected to pass; or none."""
        ease, share = self._ease(self.family.paid, left) if self._plans else (0.0, Fraction(0))
        return share if ease > 0 else Fraction(0)

    def _ease(self, paid: int, left: int) -> tuple[float, Fraction]:
        """By how many deviations of a look a model is expected to be below the target, if so much is paid for levels and left for both.

        At best, and the share of what is left that goes into a level then. Looks so far tell how good the best model is.
        """
        ask, none, _ = self._candidate()
        best = self._best(ask, none)[0]

        def ease(share: Fraction) -> float:
            return (none - best - self._above(paid + int(share * left))) / _sigma(ask.moves, int((1 - share) * left))

        return max((ease(Fraction(k, 8)), Fraction(k, 8)) for k in range(8)) if left >= 8 else (-math.inf, Fraction(0))

    def _best(self, ask: LossLook, none: int) -> tuple[float, float]:
        """What the best model loses, about, as all looks so far tell it, and its deviation; nothing is known without a look."""
        heard = [(look.cost, look.answer + none - self._above(self.family.spent_at(look.level))) for look in self.seen]
        paid, loss = _heard(heard)
        return max(loss, 0.0), _sigma(ask.moves, paid) if paid else math.inf

    def _vain(self, series: Series) -> bool:
        """Whether even the best model, as looks so far tell it, would fail the sharpest look that this one can have."""
        best, spread = self._best(*self._candidate()[:2])
        return best - _DOUBT * spread > series.most[-1]

    def _above(self, paid: int) -> float:
        """What all units lose above the best model, about, where levels cost so much."""
        return float(self.family.checked * self.family.excess(paid) * WHOLE)

    def final(self, left: int) -> Step | None:
        """One more look at the present model, with what is left and what is free."""
        share = share_of_turn(self.seen)
        if not self.family.levels or not share or (self.family.secret and SCANT * left < self.family.paid):
            return None
        if self._sharper(left):
            return None
        ask, none, tried = self._candidate()
        worth = last_look(ask.moves, none, tried, left + self._free(), self._failure * share)
        return None if worth is None else looked(ask, worth[0], worth[1] - none, self.family.levels, alone=True)

    def over(self) -> bool:
        """Nothing is certified without a look, and each model that is looked at uses up a turn."""
        return turn(self.seen) >= len(SHARES)

    def _candidate(self) -> tuple[LossLook, int, list[tuple[int, int]]]:
        """The present model, the sum that it may lose, and its looks so far: as sums of losses, for about so many units."""
        return self._model_of([look for look in self.seen if look.level == self.family.levels and not look.alone])

    def _model_of(self, looks: Sequence[Seen]) -> tuple[LossLook, int, list[tuple[int, int]]]:
        """The same of the model that these looks were at."""
        family = self.family
        ask: LossLook = family.again(looks[-1].model, looks[-1].reach) if looks else family.candidate()
        none = round(float(family.checked) * ask.allowed)
        return ask, none, [(look.cost, look.answer + none) for look in looks]

    def _wait(self) -> bool:
        """Whether a sharper model is better looked at than this one: it is ruled out, or the last one was too far off."""
        if self.goal.every or not self.family.ahead():
            return False
        return self._soon() or (self._patient() and self.family.hopeless())

    def _patient(self) -> bool:
        """Whether a sharper model may be waited for: there are levels ahead, and the last look was not too long ago."""
        since = self.family.spent_at(self.seen[-1].level if self.seen else 1)
        return not self.goal.every and bool(self.family.ahead()) and self.family.paid < PATIENCE * since

    def _soon(self) -> bool:
        """Whether the last model that was looked at was so far off that the present one cannot be good enough yet.

        Looks that cost nothing are made in any case.
        """
        if not self.seen or self._free():
            return False
        level = self.seen[-1].level
        ask, none, tried = self._model_of([look for look in self.seen if look.level == level])
        series = Series(ask.moves, none, self.family.spent_at(level), tried, self._failure)
        return bool(self.family.paid < series.again_at())

    def told_loss(self) -> float | None:
        """What the looks at the last model say of its loss, where the number of units is public."""
        if self.family.secret:
            return None
        looks = [look for look in self.seen if look.level == self.seen[-1].level]
        _, average = _heard([(look.cost, look.answer) for look in looks])
        ask = self.family.again(looks[-1].model, looks[-1].reach)
        return float((average / self.family.checked + ask.allowed) / WHOLE / self.family.unit)
