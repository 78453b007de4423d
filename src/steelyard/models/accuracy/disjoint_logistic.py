"""Classifiers drawn on the training part of a table, and looks at their log loss on the other part.

The draws are objective perturbations, as on a path without a check part, and their average by price is the model. A
model whose margins are clipped to m loses between log(1 + e^-m) and log(1 + e^m) on every row, so an added row moves the
sum of (loss - target) by at most the larger distance of the two from the target.
Law: the model that is looked at is the one that is handed out, on the grid on which its losses were added up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from steelyard.accounting.objective import LEAST, MOST
from steelyard.desk import Desk
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, Objective, sigma_for
from steelyard.models.accuracy.certificate import Array
from steelyard.models.accuracy.disjoint import DisjointWalk, check_search
from steelyard.models.accuracy.disjoint_parts import HALF, Part, Split
from steelyard.models.accuracy.disjoint_steps import Crowd, Look, Step
from steelyard.models.accuracy.logistic_search import (
    LADDER,
    LEVELS,
    LONGEST,
    RATIO,
    START,
    Signed,
    as_weights,
    steepness,
    two_classes,
    user_level,
)
from steelyard.models.accuracy.losses import GRID, MARGIN, LogLoss, margin_cap
from steelyard.models.accuracy.measured import Integers
from steelyard.models.columns import Features
from steelyard.models.objective import ObjectiveFit
from steelyard.models.rows import Classes, Label
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Neighbours, Terms
from steelyard.tables import Schema


@dataclass(frozen=True)
class DisjointLogistic:
    """A search for a classifier with a check part; ``share`` and ``ids`` as for ``DisjointSearch``.

    A row whose label is no declared class, or missing, counts as undecided: it has loss log 2 under every model.
    """

    features: Features
    label: str
    classes: Sequence[Any]
    penalty: Fraction
    share: Fraction = HALF
    ids: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", two_classes(self.label, self.classes))

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        self.features.check(schema)
        Classes(self.label, self.classes).check(schema)
        check_search(schema, terms, self.penalty, Split(self.share, self.ids))

    def start(self, desk: Desk) -> DisjointWalk:
        """Begin, or pick up where the stored steps left off."""
        return DisjointWalk(self, desk)

    def trainer(self, target: float, crowd: Crowd) -> Logistic:
        """What is to be trained."""
        return Logistic(self.features.width, self.penalty, target, crowd)

    def labels(self) -> Label:
        """The label as the number of its class."""
        return Classes(self.label, self.classes)


@dataclass(frozen=True)
class LogisticLook(Look):
    """A look at the log loss of one model on the check part."""

    model: tuple[int, ...]
    target: float
    reach: int

    @lazy
    def _loss(self) -> LogLoss:
        return LogLoss(1, self.model, self.target, self.reach)

    @property
    def most(self) -> int:
        """No row loses more."""
        return int(self._loss.losses[0])

    @property
    def least(self) -> int:
        """No row loses less."""
        return int(self._loss.losses[-1])

    @property
    def allowed(self) -> int:
        """The target, less what the grid of the features can hide from a prediction."""
        return math.floor(self._loss.limit())

    def losses(self, part: Part) -> int:
        """The sum of the rows' losses."""
        rows = Signed.of(part.x, part.y, part.owners)
        return self._loss.value(rows.x, rows.owners)


class Logistic:
    """What is known of a search for a classifier on a training part, all of it released, and what to draw next."""

    def __init__(self, width: int, penalty: Fraction, target: float, crowd: Crowd) -> None:
        self.width, self.penalty, self.target, self.crowd = width, penalty, target, crowd
        self.paid = 0
        self._counts: list[tuple[int, int]] = []
        self._drawn: list[tuple[int, Array]] = []

    @property
    def null(self) -> float:
        """What predicting one half loses, whatever the rows."""
        return math.log(2)

    def size(self) -> Step | None:
        """A first count of the training units, where their number is secret, sharpened until it is good enough."""
        spent = sum(cost for cost, _ in self._counts)
        if self.crowd.n is not None or (self._counts and self.crowd.enough(spent, self.n, 1.0)):
            return None
        cost = 4 * self._counts[-1][0] if self._counts else self.crowd.first(1.0)
        step = Gaussian(1, sigma_for(1, cost), self.crowd.neighbours)
        return Step("train", "size", step.event, lambda part, noise: step.release([part.units], noise))

    @property
    def n(self) -> float:
        """About how many units train."""
        if self.crowd.n is not None:
            return self.crowd.training
        spent = sum(cost for cost, _ in self._counts)
        return max(sum(cost * count for cost, count in self._counts) / spent, MICRO / math.sqrt(spent), 1.0)

    @property
    def _moves(self) -> int:
        """How many units added or removed make one of the account's moves to a neighbour."""
        return 2 if self.crowd.neighbours is Neighbours.REPLACE else 1

    def level(self, cost: int) -> Step:
        """A fresh objective perturbation for about this price."""
        fit = ObjectiveFit(self._perturbed(min(max(math.isqrt(cost) // self._moves, LEAST), MOST)))
        grain = fit.mechanism.step

        def compute(part: Part, noise: Noise) -> list[int]:
            rows = Signed.of(part.x, part.y, part.owners)
            return [round(Fraction(float(x)) / grain) for x in fit.solve(rows.memory, noise)]

        return Step("train", "level", fit.event, compute, {"grain": str(grain)})

    def _perturbed(self, shift: int) -> Objective:
        """Noise for about this many millionths of mu and one unit added."""
        least = self.penalty * round(self.n)
        if self.crowd.unit.kind == "users":
            return user_level(self.width, shift, least)
        ridge = max(least, steepness(self.width) * Fraction(MICRO, shift))
        return Objective(self.width, shift, ridge, max(1, shift // 16))

    def ahead(self) -> list[int]:
        """What the levels may yet have cost in all."""
        ladder = [round((self._moves * LEAST * RATIO**k) ** 2) for k in range(LADDER)]
        coarse = [cost for cost in ladder if self._excess(cost) <= START * self.target]
        return [cost for cost in coarse[:LEVELS] if cost > self.paid * 1.05]

    def learn(self, kind: str, cost: int, values: Integers, facts: Any) -> None:
        """Take a stored count or draw into account."""
        if kind == "size":
            self._counts.append((cost, int(values[0])))
            return
        grain = Fraction(str(facts["grain"]))
        self._drawn.append((cost, np.array([float(int(k) * grain) for k in values])))
        self.paid += cost

    def candidate(self) -> LogisticLook:
        """The average of the draws by price, shortened into the ball, on the grid."""
        average = sum((cost * model for cost, model in self._drawn), np.zeros(self.width)) / max(self.paid, 1)
        ball = min(math.sqrt(2 * math.log(2) / float(self.penalty)), LONGEST)
        steps = np.trunc(average * min(1.0, ball / (float(np.linalg.norm(average)) + 1e-300)) * 2**GRID)
        return self.again(tuple(int(k) for k in steps), margin_cap(self.target))

    def again(self, model: tuple[int, ...], reach: int) -> LogisticLook:
        """A model that was looked at before."""
        return LogisticLook(model, self.target, reach)

    def hopeless(self) -> bool:
        """Draws alone say nothing of a loss."""
        return False

    def _excess(self, paid: int) -> float:
        """By how much an average that cost so much likely misses the best loss, for features of even length."""
        sigma, penalty = self._moves * MICRO / math.sqrt(paid), float(self.penalty)
        ridge = max(penalty, float(steepness(self.width)) * sigma / self.n)
        noise = self.width * sigma**2 / (2 * self.n**2 * (ridge + 0.1 / self.width))
        return float(noise + (ridge - penalty))

    def model(self, steps: tuple[int, ...]) -> Array:
        """Whole steps as the weights they stand for."""
        return as_weights(steps)

    def clips(self, reach: int) -> dict[str, Any]:
        """What log-odds are clipped to."""
        return {"margin": reach / 2**MARGIN}
