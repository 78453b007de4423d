"""Classifiers drawn again and again, each time less noisily, until one certainly has the loss asked for.

Every level is an objective perturbation of its own (Gaussian, or pure with spherical noise), so their average by precision
is a model too, about as good as one draw at the price of all. A model of length r has a log loss between log(1 + e^-r) and
log(1 + e^r) on every row, a range of exactly r: that is how far a replaced row or user moves the sum of losses.
Law: the model that is looked at is the one that is handed out, on the grid on which its losses were added up; rows live
inside one call (docs/proofs/logistic_target.md, pure_paths.md, disjoint_check.md).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from steelyard.accounting import LEAST, MOST
from steelyard.errors import InvalidTask
from steelyard.mechanisms import Objective, UserObjective
from steelyard.models._columns import Features
from steelyard.models._model import Model
from steelyard.models._objective import REACH, ObjectiveFit, pure_objective
from steelyard.models._rows import Classes
from steelyard.models.accuracy._crowd import Counts, Crowd
from steelyard.models.accuracy._designs import Array
from steelyard.models.accuracy._family import Family, Judge, Step, Told
from steelyard.models.accuracy._goal import Found, Goal, share_of
from steelyard.models.accuracy._looks import Looks
from steelyard.models.accuracy._losses import GRID, MARGIN, LoggedLoss, margin_cap
from steelyard.models.accuracy._one_shot import Drawn, LogisticTask
from steelyard.models.accuracy._search import ModelSearch
from steelyard.models.accuracy._split import Split
from steelyard.models.accuracy._transcript import Transcript
from steelyard.models.accuracy._watch import PATIENCE, SHARPER, Watched
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Currency, Neighbours

LONGEST = 32.0
RATIO, LADDER, LEVELS, START = 1.3, 40, 24, 0.5
_LEAST = 200  # millionths of epsilon
_PURE_LEVELS, _PURE_RATIO = 16, 2


@dataclass(frozen=True)
class LogisticSearch(ModelSearch):
    """A search for classifiers of two classes, by their mean log loss.

    A row whose label is no declared class, or missing, counts as undecided: it has loss log 2 under every model.
    """

    features: Features
    label: str
    classes: Sequence[Any]
    penalty: Fraction
    split: Split | None = None

    def __post_init__(self) -> None:
        values = self.target.values
        if len(values) != 2:
            raise InvalidTask("a loss is certified for two classes.")
        object.__setattr__(self, "classes", values)

    @property
    def target(self) -> Classes:
        """The label, as rows are read."""
        return Classes(self.label, self.classes)

    def told(self, goal: Goal, found: Found) -> tuple[str, Model | None]:
        """The question in words, and the model that was found, if one was."""
        question = f"the mean log loss on {goal.where}"
        if goal.kind == "excess":
            question = "the penalized mean log loss above the best possible"
        if found.model is None:
            return question, None if found.release is None else Model.from_json(found.release.value)
        second, weights = tuple(self.classes)[1], found.model.tolist()
        return question, Model("logistic", self.features, self.label, weights, positive=second, margin=found.margin)

    def null(self, goal: Goal) -> tuple[Array, float]:
        """The model that predicts one half: it loses log 2 on every row, the best not less than nothing."""
        return np.zeros(self.features.width), math.log(2)

    def judge(self, goal: Goal, transcript: Transcript) -> Judge:
        """The currency chooses the draw and the judge, the unit the weights, the split the rows."""
        terms = transcript.desk.terms
        if goal.kind == "excess":
            fields = self.features, self.label, self.classes, goal.amount, goal.confidence, self.penalty
            return Drawn(goal, LogisticTask(*fields), terms)
        crowd = Crowd(terms.unit, self.split)
        if terms.currency is Currency.PURE:
            return Watched(goal, PureDraws(goal, self.features.width, self.penalty, crowd), transcript)
        family = GaussianDraws(goal, self.features.width, self.penalty, crowd)
        return Looks(goal, family, goal.failure * share_of(transcript.rank(goal)), transcript.dearer)


def steepness(width: int) -> Fraction:
    """The least ridge for a sigma of one: enough for the proof's price, and for noise to move a weight little."""
    return max(Fraction(1), Fraction(math.isqrt(width) + 1, REACH))


class LogisticFamily(Family):
    """What both currencies share: the average of all draws by precision, on the grid."""

    def __init__(self, goal: Goal, width: int, penalty: Fraction, crowd: Crowd) -> None:
        super().__init__()
        self.goal, self.width, self.penalty, self.crowd = goal, width, penalty, crowd
        self._drawn: list[tuple[int, Array]] = []

    def learn(self, told: Told) -> None:
        """Take a stored draw into account."""
        grain = Fraction(str(told.facts["grain"]))
        self._drawn.append((self.precision(told), np.array([float(int(k) * grain) for k in told.values])))
        self.rise(told.cost)

    @abstractmethod
    def precision(self, told: Told) -> int:
        """How much a draw counts in the average."""

    def candidate(self) -> LoggedLoss:
        """The average of the draws, shortened into the ball that holds the best model, on the grid."""
        whole = sum(weight for weight, _ in self._drawn)
        average = sum((weight * model for weight, model in self._drawn), np.zeros(self.width)) / whole
        ball = min(math.sqrt(2 * math.log(2) / float(self.penalty)), LONGEST)
        steps = np.trunc(average * min(1.0, ball / (float(np.linalg.norm(average)) + 1e-300)) * 2**GRID)
        return self.again(tuple(int(k) for k in steps), margin_cap(self.goal.amount))

    def again(self, model: tuple[int, ...], reach: int) -> LoggedLoss:
        """A model that was looked at before."""
        return LoggedLoss(model, self.goal.amount, reach, self.crowd.neighbours, self.secret)

    def weights(self, steps: Sequence[int]) -> Array:
        """Steps of 2^-20."""
        return np.array(steps, dtype=np.float64) / 2.0**GRID

    def clips(self, reach: int) -> dict[str, float]:
        """Log-odds keep to a margin."""
        return {"margin": reach / 2**MARGIN}

    def draw(self, fit: ObjectiveFit, **facts: int) -> Step:
        """One perturbed objective as a level."""
        grain = fit.mechanism.step

        def compute(rows: Any, noise: Noise) -> list[int]:
            return [round(Fraction(float(x)) / grain) for x in fit.solve(rows.memory, noise)]

        return Step("level", fit.event, compute, {"grain": str(grain), **facts})


class GaussianDraws(LogisticFamily):
    """Objective perturbations on a Gaussian account; where the number of units is secret it is counted first."""

    def __init__(self, goal: Goal, width: int, penalty: Fraction, crowd: Crowd) -> None:
        super().__init__(goal, width, penalty, crowd)
        self.secret = crowd.split is not None
        self._counts = Counts(crowd, 1.0)

    def size(self) -> Step | None:
        """A first count of the training units, where their number is secret, sharpened until it is good enough."""
        return self._counts.step()

    @property
    def n(self) -> float:
        """About how many units train."""
        return self._counts.n

    @property
    def checked(self) -> float:  # type: ignore[override]
        """About how many units are looked at."""
        return self.crowd.checking(self.n)

    @property
    def _moves(self) -> int:
        """How many units added or removed make one of the account's moves to a neighbour."""
        return 2 if self.crowd.neighbours is Neighbours.REPLACE else 1

    def level(self, cost: int) -> Step:
        """A fresh objective perturbation, after which all have cost about this much."""
        shift = min(max(math.isqrt(cost - self.paid) // self._moves, LEAST), MOST)
        ridge = max(self.penalty * round(self.n), steepness(self.width) * Fraction(MICRO, shift))
        kind = UserObjective if self.crowd.unit.kind == "users" else Objective
        return self.draw(ObjectiveFit(kind(self.width, shift, ridge, max(1, shift // 16))))

    def ahead(self) -> list[int]:
        """What the levels may yet have cost in all, from one whose excess is likely twice the target."""
        ladder = [round((self._moves * LEAST * RATIO**k) ** 2) for k in range(LADDER)]
        coarse = [cost for cost in ladder if self._excess(cost) <= START * self.goal.amount]
        return [cost for cost in coarse[:LEVELS] if cost > self.paid * 1.05]

    def _excess(self, paid: int) -> float:
        """The likely excess of an average that cost so much, for features that share a row's length evenly."""
        sigma, penalty = self._moves * MICRO / math.sqrt(paid), float(self.penalty)
        ridge = max(penalty, float(steepness(self.width)) * sigma / self.n)
        noise = self.width * sigma**2 / (2 * self.n**2 * (ridge + 0.1 / self.width))
        return float(noise + (ridge - penalty))

    def learn(self, told: Told) -> None:
        """Take a stored count or draw into account."""
        if told.kind == "size":
            self._counts.learn(told)
        else:
            super().learn(told)

    def precision(self, told: Told) -> int:
        """Its price, in mu squared."""
        return told.cost


class PureDraws(LogisticFamily):
    """Pure objective perturbations, each at twice the price of the one before.

    That is far better than a perturbed minimizer along a Laplace path wherever rows curve the loss more than the penalty
    does (docs/proofs/pure_paths.md). Levels are named by what the draw alone costs, in millionths of epsilon.
    """

    scale = float(MICRO)
    watches, patience, sharper = 3, float(PATIENCE), SHARPER
    _last = 0

    @property
    def _n(self) -> int:
        return self.crowd.n or 1

    def nobody(self) -> None:
        """Predicting one half loses log 2 on every row, which is known to be too much."""

    def needs(self) -> float:
        """A sixteenth of the target, for losses that differ by three at most."""
        return self._n * self.goal.amount / 48

    def ahead(self) -> list[int]:
        """Each twice the one before, from where the excess is likely half the target."""
        first = _LEAST
        while self._excess(first) > self.goal.amount / 2 and first < 10**9:
            first += first // 4
        return [micro for k in range(_PURE_LEVELS) if (micro := first * _PURE_RATIO**k) > self._last]

    def _excess(self, micro: int) -> float:
        """The likely excess of a draw, for features that share a row's length evenly."""
        scale, penalty = 2 * MICRO / micro / self._n, float(self.penalty)
        ridge = max(penalty, scale * max(1.0, self.width / REACH))
        return self.width * (self.width + 1) * scale**2 / (2 * (ridge + 0.1 / self.width)) + ridge - penalty

    def level(self, cost: int) -> Step:
        """One perturbed objective for this price where a row or user is replaced, half of it where one is added."""
        half = cost // 2
        scale = Fraction(MICRO, half - max(1, half // 64) - 1)
        ridge = max(self.penalty * self._n, scale * max(Fraction(1), Fraction(self.width, REACH)))
        return self.draw(pure_objective(self.width, half, ridge), micro=cost)

    def learn(self, told: Told) -> None:
        """Take a stored draw into account."""
        self._last = int(told.facts["micro"])
        super().learn(told)

    def precision(self, told: Told) -> int:
        """The square of its price."""
        return self._last**2
