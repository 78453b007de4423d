"""How sharply to look at a model's loss, and for how long: more and more sharply, as long as it may still pass.

A look is the loss with noise. Looks at one model are averaged by what they cost; what each may cost is fixed before the
first of them, so that every average is the loss plus normal noise of a known size, however early the looks end.
Law: the failure probability of a look is its own, and those of all looks of a question add up to less than it has
(docs/proofs/accuracy_first_paths.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.bounding.amounts import sigma_for
from steelyard.models.first.quantiles import normal_quantile
from steelyard.privacy import MICRO

SHARES = tuple(0.08 * 0.92**k for k in range(60))
"""The share of the failure probability that the k-th look of a question has."""

LEAST, FIRST, FINER, MOST = (
    0.15,
    0.4,
    1.25,
    1.5,
)  # of the path's mu: the first look, from and to; each next average; the last
_NEAR = 0.05  # the first look need not tell a loss from the target that is nearer to it than this part of the target
_HOPE = 0.5  # how many standard deviations of luck a model is given


@dataclass(frozen=True)
class Series:
    """Looks at one model of a path that has cost ``paid``; ``tried`` are those that failed, as (cost, answer).

    The sum passes at or below ``limit``; one replaced row or user moves it by ``moves``; ``failures`` are the failure
    probabilities of this model's looks. ``once`` makes one look, as sharp as the path, and no more.
    """

    moves: int
    limit: float
    paid: int
    tried: Sequence[tuple[int, int]]
    failures: Sequence[float]
    once: bool = False

    def next(self) -> tuple[int, float] | None:
        """What the next look costs and the answer at or below which it passes; or None, when this model has had its turn."""
        count = len(self.tried)
        if count >= len(self.failures):
            return None
        costs = self._costs()
        if count >= len(costs) or not self._hopeful(costs):
            return None
        cost = costs[count]
        spread = math.sqrt(sum((c * self._sigma(c)) ** 2 for c in costs[: count + 1])) / sum(costs[: count + 1])
        most = self.limit - normal_quantile(self.failures[count]) * spread - 2
        return cost, most + sum(c / cost * (most - answer) for c, answer in self.tried)

    def _costs(self) -> list[int]:
        root = math.isqrt(self.paid)
        enough = normal_quantile(self.failures[0]) * self.moves * MICRO / (_NEAR * max(self.limit, 1.0)) / root
        first = min(max(enough, LEAST), FIRST)
        shares = [1.0] if self.once else [first * FINER**k for k in range(int(math.log(MOST / first, FINER)) + 1)]
        sums = [math.ceil(share * root) ** 2 for share in shares]
        return [after - before for before, after in zip([0, *sums], sums, strict=False)]

    def _sigma(self, cost: int) -> float:
        return float(sigma_for(self.moves**2, cost))

    def _hopeful(self, costs: Sequence[int]) -> bool:
        """Whether the sharpest average may yet pass, with some luck; before the first, if the model lost nothing."""
        spent, last = sum(cost for cost, _ in self.tried), self._sigma(sum(costs))
        bar = self.limit - normal_quantile(self.failures[len(self.tried)]) * last
        if not spent:
            return bar > 0
        seen, now = sum(cost * answer for cost, answer in self.tried) / spent, self._sigma(spent)
        return seen <= bar + _HOPE * math.sqrt(max(now**2 - last**2, 0.0))
