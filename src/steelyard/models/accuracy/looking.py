"""How sharply to look at a model's loss, and for how long: more and more sharply, as long as it may still pass.

A look is the loss with noise. Looks at one model are averaged by what they cost; what each may cost is fixed before the
first of them, so that the averages have a known joint law, however early the looks end.
Before a search gives up because its budget cannot pay for the next step, it looks once more, with all that is left.
Law: a model that is looked at has one failure probability, which covers all looks it could have had; what is left of it
when the looks end early is not handed on; a look that stands alone has one of its own (docs/proofs/accuracy_first_paths.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from steelyard.mechanisms import sigma_for
from steelyard.models.accuracy.quantiles import joint_quantile, normal_quantile
from steelyard.privacy import MICRO

SHARES = tuple(0.2 * 0.8**k for k in range(40))
"""The share of the failure probability that the k-th turn of a question has: a model's looks, or one look alone."""

LEAST, FIRST, FINER, MOST = (
    0.15,
    0.4,
    1.25,
    1.5,
)  # of the path's mu: the first look, from and to; each next average; the last
_NEAR = 0.05  # the first look need not tell a loss from the target that is nearer to it than this part of the target
_ROOM = 0.8  # the part of the target that a model's loss should have fallen to
_HOPE = 0.5  # how many standard deviations of luck a model is given


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
        return self.paid * (seen - self._sigma(spent)) / (_ROOM * self.limit)

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
        squares = accumulate((cost * self._sigma(cost)) ** 2 for cost in costs)
        return [math.sqrt(square) / total for square, total in zip(squares, accumulate(costs), strict=True)]

    def _sigma(self, cost: int) -> float:
        return float(sigma_for(self.moves**2, cost))

    def _hopeful(self, most: float, spreads: Sequence[float]) -> bool:
        """Whether the sharpest average may yet pass, with some luck; before the first, if the model lost nothing."""
        spent = sum(cost for cost, _ in self.tried)
        if not spent:
            return most > 0
        seen, now = sum(cost * answer for cost, answer in self.tried) / spent, spreads[len(self.tried) - 1]
        return seen <= most + _HOPE * math.sqrt(max(now**2 - spreads[-1] ** 2, 0.0))


class Looked(Protocol):
    """A look that was made: after how many levels, and whether alone, with what a budget had left."""

    @property
    def level(self) -> int:
        """How many levels there were."""

    @property
    def alone(self) -> bool:
        """Whether it stands for itself, outside its model's series."""


def turn(looks: Sequence[Looked], level: int | None = None) -> int:
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
    most = limit - normal_quantile(failure) * float(sigma_for(moves**2, cost)) - 2
    spent = sum(paid for paid, _ in tried)
    told = sum(paid * answer for paid, answer in tried) / spent if spent else 0.0
    off = float(sigma_for(moves**2, spent)) if spent else 0.0
    return (cost, most) if most > 0 and told - off <= most else None


def _ratios(costs: Sequence[int], spreads: Sequence[float]) -> tuple[float, ...]:
    """The correlation of each average with the next one."""
    sums = list(accumulate(costs))
    both = zip(sums, sums[1:], spreads, spreads[1:], strict=False)
    return tuple(before * old / (after * new) for before, after, old, new in both)
