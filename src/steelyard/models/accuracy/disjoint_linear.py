"""Ridge models from the training part of a table, and looks at their loss on the other part.

The statistics are those of a ridge path, with the sensitivity of the account's own neighbours: an added row moves
(a xx', c xy) by at most S^2 sqrt(a^2 + c^2). How many rows there are may be secret, so a rough count is bought first and
nothing that is promised rests on it: a look adds up (loss - target), whole numbers that any row moves by a public bound.
Law: a look that passes says that the sum of (loss - target) over the check part is not above zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, sigma_for
from steelyard.models.accuracy import schedule
from steelyard.models.accuracy.certificate import Array, Noisy, Ridge
from steelyard.models.accuracy.disjoint_parts import Part
from steelyard.models.accuracy.disjoint_steps import Crowd, Look, Step
from steelyard.models.accuracy.losses import ClippedLoss
from steelyard.models.accuracy.measured import MATRIX, Design, Integers, Pool, best_weight, norm_bound
from steelyard.models.accuracy.models import as_model, in_ball
from steelyard.models.accuracy.posterior import expected_model, seen_loss
from steelyard.models.accuracy.questions import ABOVE, START, STEEP, reach_of, ruled_out
from steelyard.models.accuracy.ridge_path import WHOLE
from steelyard.models.columns import SIZE
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Neighbours

WIDEST = 128


@dataclass(frozen=True)
class OwnDesign(Design):
    """A design whose sensitivity is that of the account's neighbours."""

    neighbours: Neighbours = Neighbours.ADD_REMOVE

    @property
    def square(self) -> int:
        """The squared distance by which a row, added, removed or replaced as neighbours do, can move everything."""
        if self.neighbours is Neighbours.REPLACE:
            return Design(self.unit, self.width, self.vector).square
        return self.unit**4 * (MATRIX**2 + self.vector**2)

    def step(self, cost: int) -> Gaussian:
        """The measurement whose price is exactly ``cost``."""
        return replace(super().step(cost), neighbours=self.neighbours)

    def variance(self, cost: int) -> float:
        """The variance t of a diagonal entry after measurements that cost this much in all."""
        return float(Fraction(self.square, MATRIX**2 * self.unit**4)) / (cost / MICRO**2) * (1 + 1e-6)


def weight(norm: float, neighbours: Neighbours) -> int:
    """The weight c of the label's products that makes the residual shortest for a best model of this length."""
    if neighbours is Neighbours.REPLACE:
        return best_weight(norm)
    return max(1, min(WIDEST, round(MATRIX * math.sqrt(math.sqrt(2) / norm))))


@dataclass(frozen=True)
class LinearLook(Look):
    """A look at the squared error of one model on the check part, predictions clipped to the label's range."""

    model: tuple[int, ...]
    target: float
    reach: int = WHOLE

    @property
    def _loss(self) -> ClippedLoss:
        return ClippedLoss(1, SIZE, self.model, self.target, self.reach)

    @property
    def most(self) -> int:
        """No row loses more."""
        return self._loss.moves

    @property
    def allowed(self) -> int:
        """The target, less what rounding can hide from a row's loss."""
        return math.floor(self._loss.limit())

    def losses(self, part: Part) -> int:
        """The sum of the rows' losses."""
        return self._loss.value(part)


class Linear:
    """What is known of a ridge search on a training part, all of it released, and what to measure next."""

    def __init__(self, width: int, penalty: float, target: float, crowd: Crowd) -> None:
        self.width, self.penalty, self.target, self.crowd = width, penalty, target, crowd
        self.sizes: list[tuple[int, Sequence[int]]] = []
        self.paid = 0
        self._pool: Pool | None = None

    @property
    def null(self) -> float:
        """What predicting the middle loses at most, whatever the rows."""
        return 1.0

    def size(self) -> Step | None:
        """A first count of the training units and of their squared labels, sharpened until it is good enough."""
        if self.sizes and (self.crowd.n is not None or self._sharp):
            return None
        cost = self.crowd.first(self.target) if not self.sizes else 4 * self.sizes[-1][0]
        counted = self.crowd.n is None
        square, whole = (2 if counted else 1) * self.crowd.grain**4, self.crowd.grain**2
        step = Gaussian(None, sigma_for(square, cost), self.crowd.neighbours, square)

        def compute(part: Part, noise: Noise) -> list[int]:
            squares = part.exact.square
            return step.release([part.units * whole, squares] if counted else [squares], noise)

        return Step("train", "size", step.event, compute)

    @property
    def _sharp(self) -> bool:
        """Whether the mean of the squared labels is known to a fifth of the target, or costs too much to know."""
        return self.crowd.enough(sum(cost for cost, _ in self.sizes), self.n, self.target)

    @property
    def _means(self) -> list[float]:
        paid = sum(cost for cost, _ in self.sizes)
        totals = [sum(cost * values[i] for cost, values in self.sizes) for i in range(len(self.sizes[0][1]))]
        return [total / paid / self.crowd.grain**2 for total in totals]

    @property
    def _spread(self) -> float:
        return MICRO * math.sqrt(2 / sum(cost for cost, _ in self.sizes))

    @property
    def n(self) -> float:
        """About how many units train."""
        return self.crowd.training if self.crowd.n is not None else max(self._means[0], self._spread, 1.0)

    @lazy
    def square(self) -> float:
        """About the mean of the squared labels."""
        return min(max(self._means[-1] / self.n, 0.0), 1.0)

    @property
    def norm(self) -> float:
        """How long a model may be."""
        return norm_bound(Fraction(min(self.square + 2 * self._spread / self.n + 1e-9, 1.0)), self.penalty)

    @property
    def ridge(self) -> Ridge:
        """The question as far as it is known."""
        return Ridge(max(1, round(self.n)), self.width, self.penalty)

    @property
    def design(self) -> Design:
        """How statistics are measured; the first measurement fixes it."""
        return self._designed(weight(self.norm, self.crowd.neighbours)) if self._pool is None else self._pool.design

    def _designed(self, vector: int) -> Design:
        return OwnDesign(self.crowd.grain, self.width, vector, self.crowd.neighbours)

    @lazy
    def stops(self) -> list[int]:
        """What levels may have cost: from where a look can first pass to where a tenth of the target would be certified."""
        last = schedule.planned_mu(self.ridge, self.norm, self.target / 10, 0.05) * ABOVE
        first = min(START * 4 / (self.crowd.checking(self.n) * self.target), last)
        count = max(1, 1 + math.ceil(math.log(max(last / first, 1.0), STEEP)))
        return [max(1, round(first * MICRO * STEEP**k)) ** 2 for k in range(count)]

    def ahead(self) -> list[int]:
        """What the levels may yet have cost in all."""
        return [cost for cost in dict.fromkeys(self.stops) if cost > 1.05 * self.paid]

    def level(self, cost: int) -> Step:
        """One more measurement of the statistics."""
        design = self.design

        def compute(part: Part, noise: Noise) -> Any:
            return design.measure(part.exact, cost, noise)

        return Step("train", "level", design.step(cost).event, compute, {"vector": design.vector})

    def learn(self, kind: str, cost: int, values: Integers, facts: Any) -> None:
        """Take a stored measurement into account."""
        if kind == "size":
            self.sizes.append((cost, [int(value) for value in values]))
            self.__dict__.pop("square", None)
            return
        self._pool = self._pool or Pool(self._designed(int(facts["vector"])))
        self._pool.add(cost, values)
        self.paid += cost

    @property
    def noisy(self) -> Noisy:
        """All measurements as one."""
        assert self._pool is not None
        return self._pool.noisy(self.ridge)

    def candidate(self) -> LinearLook:
        """The model that the statistics so far give."""
        found = expected_model(self.ridge, self.noisy, self.norm)
        return self.again(in_ball(found, self.norm), reach_of(self.ridge, self.noisy, found))

    def again(self, model: tuple[int, ...], reach: int) -> LinearLook:
        """A model that was looked at before."""
        return LinearLook(model, self.target, reach)

    def hopeless(self) -> bool:
        """Whether the statistics, which flatter the model they give, put even its loss above the target."""
        model = expected_model(self.ridge, self.noisy, self.norm)
        seen, spread = seen_loss(self.ridge, self.noisy, self.square, model)
        return ruled_out(seen, spread, self._spread / self.ridge.n, self.target)

    def model(self, steps: tuple[int, ...]) -> Array:
        """Whole steps as the weights they stand for."""
        return as_model(steps)

    def clips(self, reach: int) -> dict[str, Any]:
        """What predictions are clipped to, as a part of the label's range."""
        return {"reach": reach / WHOLE}
