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
from itertools import accumulate
from typing import Any

from steelyard.models.accuracy._family import CHECK, TRAIN, WHOLE, Ending, Judge, Step, Told
from steelyard.models.accuracy._goal import Goal, Stop
from steelyard.models.accuracy._losses import LossLook, Seen, looked
from steelyard.models.accuracy._quantiles import joint_quantile, normal_quantile
from steelyard.privacy import MICRO

SHARES = tuple(0.2 * 0.8**k for k in range(40))
"""The share of the failure probability that the k-th turn of a question has: a model's looks, or one look alone."""

LEAST, FIRST, FINER, MOST = 0.15, 0.4, 1.25, 1.5
"""Of the path's mu: the first look, from and to; each next average; the last."""

PATIENCE = 16
"""A path that has cost so many times what it had at its last look, or at first, is looked at in any case."""

_NEAR = 0.05  # the first look need not tell a loss from the target that is nearer to it than this part of the target
_ROOM = 0.8  # the part of the target that a model's loss should have fallen to
_HOPE = 0.5  # how many standard deviations of luck a model is given
_FREE = 4  # looks at a model are as sharp as if the path had cost so many times what looks may cost for nothing
_SCANT = 100  # less than one part in so many of what the levels have cost is nothing to look with


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
        count, costs = len(self.tried), self._costs()
        if count >= len(costs) or [cost for cost, _ in self.tried] != costs[:count]:
            return None  # looks that were planned otherwise have no known joint law with these
        spreads = self._spreads(costs)
        most = [self.limit - joint_quantile(self.failure, *_ratios(costs, spreads)) * spread - 2 for spread in spreads]
        if not self._hopeful(most[-1], spreads):
            return None
        cost = costs[count]
        return cost, most[count] + sum(c / cost * (most[count] - answer) for c, answer in self.tried)

    def again_at(self) -> float:
        """What a path should have cost before its next model is looked at, after this one failed.

        A loss falls no faster than the square of the noise; and a model should have a little room below the target.
        """
        spent = sum(cost for cost, _ in self.tried)
        seen = sum(cost * answer for cost, answer in self.tried) / spent
        return self.paid * (seen - _sigma(self.moves, spent)) / (_ROOM * self.limit)

    def _costs(self) -> list[int]:
        """What the looks at this model cost, known before the first: their averages' mu rises step by step."""
        root = max(1, math.isqrt(self.paid))
        enough = 2.5 * self.moves * MICRO / (_NEAR * max(self.limit, 1.0)) / root
        first = min(max(enough, LEAST), FIRST)
        shares = [1.0] if self.once else [first * FINER**k for k in range(int(math.log(MOST / first, FINER)) + 1)]
        roots = list(accumulate((math.ceil(share * root) for share in shares), lambda a, b: max(a + 1, b)))
        return [after**2 - before**2 for before, after in zip([0, *roots], roots, strict=False)]

    def _spreads(self, costs: Sequence[int]) -> list[float]:
        """The deviation of each average."""
        squares = accumulate((cost * _sigma(self.moves, cost)) ** 2 for cost in costs)
        return [math.sqrt(square) / total for square, total in zip(squares, accumulate(costs), strict=True)]

    def _hopeful(self, most: float, spreads: Sequence[float]) -> bool:
        """Whether the sharpest average may yet pass, with some luck; before the first, if the model lost nothing."""
        spent = sum(cost for cost, _ in self.tried)
        if not spent:
            return most > 0
        seen, now = sum(cost * answer for cost, answer in self.tried) / spent, spreads[len(self.tried) - 1]
        return seen <= most + _HOPE * math.sqrt(max(now**2 - spreads[-1] ** 2, 0.0))


def _sigma(moves: int, cost: int) -> float:
    """The deviation of a look at this price, at most: that of a step is rounded up by less than 1 part in 10^7 (gradual_sum.md)."""
    return moves * MICRO / math.sqrt(cost) * (1 + 1e-7)


def turn(looks: Sequence[Seen], level: int | None = None) -> int:
    """The place of a series of looks, at the model of this level, among all turns: each has a share of its own.

    A look that stands alone is a turn too; without a level, the next turn's.
    """
    turns = list(dict.fromkeys((look.level, index if look.alone else None) for index, look in enumerate(looks)))
    return turns.index((level, None)) if level is not None and (level, None) in turns else len(turns)


def last_look(
    moves: int, limit: float, tried: Sequence[tuple[int, int]], cost: int, failure: float
) -> tuple[int, float] | None:
    """One look for all that is left, outside any series, before a search gives up: its cost and where it passes.

    None where it could not pass: too noisy for any sum of losses, or for the one that earlier looks told.
    """
    if cost < 1:
        return None
    most = limit - normal_quantile(failure) * _sigma(moves, cost) - 2
    spent = sum(paid for paid, _ in tried)
    told = sum(paid * answer for paid, answer in tried) / spent if spent else 0.0
    off = _sigma(moves, spent) if spent else 0.0
    return (cost, most) if most > 0 and told - off <= most else None


def _ratios(costs: Sequence[int], spreads: Sequence[float]) -> tuple[float, ...]:
    """The correlation of each average with the next one."""
    sums = list(accumulate(costs))
    both = zip(sums, sums[1:], spreads, spreads[1:], strict=False)
    return tuple(before * old / (after * new) for before, after, old, new in both)


class Looks(Judge):
    """A target for a loss: a model is looked at more and more sharply while it may pass.

    It is not looked at where the released statistics rule it out, or where the last model was too far off. ``failure`` is
    shared by all looks of the goal; ``dearer`` says that of two parts the dearer one is paid for.
    """

    def __init__(self, goal: Goal, family: Any, failure: float, dearer: bool = False) -> None:
        super().__init__(goal, family)
        self._failure, self._dearer, self._bases = failure, dearer, [0]
        self._parts = {TRAIN: 0, CHECK: 0}
        self.seen: list[Seen] = []

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

    def judged(self, told: Told) -> None:
        """A model that passed has a loss of at most the target."""
        seen = Seen.of(told)
        self.seen.append(seen)
        scale = self.family.scale
        paid = None if told.paid is None else told.paid / scale
        name = f"look {len(self.seen) - 1}"
        self.history.append(Stop(name, seen.cost / scale, passed=seen.passed, loss=self._loss(), paid=paid))
        if seen.passed:
            self.verdict = self.family.passed(seen.model, seen.reach, self.goal.amount)

    def look(self) -> Step | None:
        """The next look at the present model, while it has its turn."""
        place = turn(self.seen, self.family.levels)
        if not self.family.levels or place >= len(SHARES):
            return None
        ask, none, tried = self._candidate()
        if not tried and not self.goal.every and self._wait():
            return None
        base, failure = self._bases[self.family.levels], self._failure * SHARES[place]
        worth = Series(ask.moves, none, base, tried, failure, self.goal.every).next()
        return None if worth is None else looked(ask, worth[0], worth[1] - none, self.family.levels)

    def last(self, left: int) -> Step | None:
        """One more look at the present model, with what is left and what is free."""
        place = turn(self.seen)
        if not self.family.levels or place >= len(SHARES) or (self.family.secret and _SCANT * left < self.family.paid):
            return None
        ask, none, tried = self._candidate()
        worth = last_look(ask.moves, none, tried, left + self._free(), self._failure * SHARES[place])
        return None if worth is None else looked(ask, worth[0], worth[1] - none, self.family.levels, alone=True)

    def over(self) -> bool:
        """Nothing is certified without a look, and each model that is looked at uses up a turn."""
        return turn(self.seen) >= len(SHARES)

    def guess(self) -> Ending | None:
        """The model that all levels together give."""
        if not self.family.levels:
            return None
        return Ending(self.family.weights(self.family.candidate().model), math.inf)

    def _candidate(self) -> tuple[LossLook, int, list[tuple[int, int]]]:
        """The present model, the sum that it may lose, and its looks so far: as sums of losses, for about so many units."""
        seen = [look for look in self.seen if look.level == self.family.levels and not look.alone]
        ask: LossLook = self.family.again(seen[0].model, seen[0].reach) if seen else self.family.candidate()
        none = self._allowed(ask)
        return ask, none, [(look.cost, look.answer + none) for look in seen]

    def _allowed(self, ask: LossLook) -> int:
        return round(float(self.family.checked) * ask.allowed)

    def _wait(self) -> bool:
        """Whether a sharper model is better looked at than this one: it is ruled out, or the last one was too far off."""
        if not self.family.ahead():
            return False
        since = self.family.spent_at(self.seen[-1].level if self.seen else 1)
        return self._soon() or (self.family.paid < PATIENCE * since and self.family.hopeless())

    def _soon(self) -> bool:
        """Whether the last model that was looked at was so far off that the present one cannot be good enough yet.

        Looks that cost nothing are made in any case.
        """
        if not self.seen or self._free():
            return False
        last = self.seen[-1]
        ask = self.family.again(last.model, last.reach)
        none = self._allowed(ask)
        tried = [(look.cost, look.answer + none) for look in self.seen if look.level == last.level]
        series = Series(ask.moves, none, self.family.spent_at(last.level), tried, self._failure)
        return bool(self.family.paid < series.again_at())

    def _loss(self) -> float | None:
        """What the looks at the last model say of its loss, where the number of units is public."""
        if self.family.secret:
            return None
        looks = [look for look in self.seen if look.level == self.seen[-1].level]
        average = sum(look.cost * look.answer for look in looks) / sum(look.cost for look in looks)
        ask = self.family.again(looks[-1].model, looks[-1].reach)
        return float((average / self.family.checked + ask.allowed) / WHOLE)
