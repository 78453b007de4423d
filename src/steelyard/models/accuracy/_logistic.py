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
from steelyard.models._model import Model, OneVsRest
from steelyard.models._objective import REACH, ObjectiveFit, pure_objective
from steelyard.models._rows import Classes
from steelyard.models.accuracy._crowd import Counts, Crowd
from steelyard.models.accuracy._designs import Array
from steelyard.models.accuracy._family import Family, Judge, Step, Told
from steelyard.models.accuracy._goal import TWO_CLASSES, Found, Goal, share_of
from steelyard.models.accuracy._looks import Looks
from steelyard.models.accuracy._losses import GRID, MARGIN, LoggedLoss, LossLook, WrongClass, margin_cap
from steelyard.models.accuracy._model_search import ModelSearch
from steelyard.models.accuracy._one_shot import Drawn, LogisticTask
from steelyard.models.accuracy._split import Split
from steelyard.models.accuracy._transcript import Transcript
from steelyard.models.accuracy._watch import Watched
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Currency, Event, Neighbours, composed

LONGEST = 32.0

RATIO, LADDER, LEVELS, START = 1.3, 40, 24, 0.5
_LEAST = 200  # millionths of epsilon
_PURE_LEVELS, _PURE_RATIO = 16, 2
_FLAT = Fraction(2, 5)
_MARGINS = (1.006, 1.013, 1.03, 1.1)  # what a last draw may cost, against the noise in its objective alone


@dataclass(frozen=True)
class LogisticSearch(ModelSearch):
    """A search for classifiers, by their mean log loss or by the share of right classes.

    A row whose label is no declared class, or missing, counts as undecided: it has the loss log K of K classes alike under every model.
    """

    features: Features
    label: str
    classes: Sequence[Any]
    penalty: Fraction
    split: Split | None = None

    def __post_init__(self) -> None:
        values = self.target.values
        if len(values) > 2 and self.split is not None:
            raise InvalidTask(TWO_CLASSES)
        object.__setattr__(self, "classes", values)

    @property
    def target(self) -> Classes:
        """The label, as rows are read."""
        return Classes(self.label, self.classes)

    def told(self, goal: Goal, found: Found) -> tuple[str, Model | OneVsRest | None]:
        """The question in words, and the model that was found, if one was."""
        question = f"the {'accuracy' if goal.kind == 'error' else 'mean log loss'} on {goal.where}"
        if goal.kind == "excess":
            question = "the penalized mean log loss above the best possible"
        if found.model is None:
            return question, None if found.release is None else Model.from_json(found.release.value)
        weights = found.model.reshape(-1, self.features.width).tolist()
        targets = [self.classes[target - 1] for target in self.target.targets]
        other = self.classes[0] if len(targets) == 1 else None
        models = tuple(
            Model("logistic", self.features, self.label, line, positive=value, negative=other, margin=found.margin)
            for line, value in zip(weights, targets, strict=True)
        )
        return question, models[0] if len(models) == 1 else OneVsRest(models)

    def asked(self, goal: Goal) -> Goal:
        """The goal as it is."""
        if goal.rooted or goal.kind == "unexplained":
            raise InvalidTask(
                "target_rmse and target_r2 are for a linear model; a classifier takes target_accuracy or target_loss."
            )
        return goal

    def null(self, goal: Goal) -> tuple[Array, float] | None:
        """The model that gives all classes alike: of two it loses log 2 on every row, the best not less than nothing; which class it errs on is private."""
        width = self.features.width * len(self.target.targets)
        return None if goal.kind == "error" else (np.zeros(width), math.log(len(self.classes)))

    def judge(self, goal: Goal, transcript: Transcript) -> Judge:
        """The currency chooses the draw and the judge, the unit the weights, the split the rows."""
        terms = transcript.desk.terms
        pure, given = terms.currency is Currency.PURE, (goal, self.features.width, Crowd(terms.unit, self.split))
        if len(self.classes) > 2:
            from steelyard.models.accuracy._many import ManyDraws

            if pure or goal.kind == "excess":
                raise InvalidTask(TWO_CLASSES)
            family: LogisticFamily = ManyDraws(*given, len(self.classes))
        else:
            family = PureDraws(*given) if pure else GaussianDraws(*given)
        if goal.kind == "excess":
            fields = self.features, self.label, self.classes, goal.amount, goal.confidence, self.penalty
            return Drawn(goal, family, LogisticTask(*fields), terms)
        if pure:
            return Watched(goal, family, transcript)
        return Looks(goal, family, goal.failure * share_of(transcript.rank(goal)), transcript.dearer)


def steepness(width: int, least: Fraction = _FLAT) -> Fraction:
    """The ridge for a sigma of one: enough for a price that is hardly above the noise's own, and for noise to move a weight little."""
    return max(least, Fraction(math.isqrt(width) + 1, REACH))


class LogisticFamily(Family):
    """What both currencies share: the average of all draws by precision, on the grid."""

    models = 1
    """How many are drawn at a level: one that tells two classes apart, or one for each of more."""

    longest = LONGEST
    """No model that is looked at is longer."""

    def __init__(self, goal: Goal, width: int, crowd: Crowd) -> None:
        super().__init__()
        self.goal, self.width, self.crowd = goal, width, crowd
        self._drawn: list[tuple[int, Array]] = []

    def learn(self, told: Told) -> None:
        """Take a stored draw into account."""
        grain = Fraction(str(told.facts["grain"]))
        self._drawn.append((self.precision(told), np.array([float(int(k) * grain) for k in told.values])))
        self.rise(told.cost)

    @abstractmethod
    def precision(self, told: Told) -> int:
        """How much a draw counts in the average."""

    def candidate(self) -> LossLook:
        """The average of the draws, each model no longer than it may be, on the grid."""
        whole = sum(weight for weight, _ in self._drawn)
        average = sum((weight * model for weight, model in self._drawn), np.zeros(self.models * self.width)) / whole
        lines = average.reshape(self.models, self.width)
        lines = lines * np.minimum(1.0, self.longest / (np.linalg.norm(lines, axis=1, keepdims=True) + 1e-300))
        steps = tuple(int(k) for k in np.trunc(lines * 2**GRID).reshape(-1))
        return self.again(steps, margin_cap(self.goal.amount))

    def again(self, model: tuple[int, ...], reach: int) -> LossLook:
        """A model that was looked at before."""
        look = WrongClass if self.goal.kind == "error" else LoggedLoss
        return look(model, self.goal.amount, reach, self.crowd.neighbours, self.secret)

    def weights(self, steps: Sequence[int]) -> Array:
        """Steps of 2^-20."""
        return np.array(steps, dtype=np.float64) / 2.0**GRID

    def clips(self, reach: int) -> dict[str, float]:
        """Log-odds keep to a margin."""
        return {"margin": reach / 2**MARGIN}

    def draw(self, fit: ObjectiveFit, **facts: int) -> Step:
        """One perturbed objective, or one for each class, as a level."""
        return Step(
            "level",
            lambda: ObjectiveDraw(fit, self.models),
            ObjectiveDraw.made,
            {"grain": str(fit.mechanism.step), **facts},
        )


@dataclass(frozen=True)
class ObjectiveDraw:
    """One perturbed objective that tells two classes apart, or one for each of ``models`` classes against the rest."""

    fit: ObjectiveFit
    models: int

    @property
    def event(self) -> Event:
        """All are charged at once."""
        return self.fit.event if self.models == 1 else composed(*[self.fit.event] * self.models)

    def made(self, rows: Any, noise: Noise) -> list[int]:
        """The weights of all, in steps of the noise's grain."""
        grain, targets = self.fit.mechanism.step, [2] if self.models == 1 else list(range(1, self.models + 1))
        found = [self.fit.solve(rows.against(target), noise) for target in targets]
        return [round(Fraction(float(x)) / grain) for weights in found for x in weights]


class GaussianDraws(LogisticFamily):
    """Objective perturbations on a Gaussian account; where the number of units is secret it is counted first."""

    def __init__(self, goal: Goal, width: int, crowd: Crowd) -> None:
        super().__init__(goal, width, crowd)
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
        shift = math.isqrt((cost - self.paid) // self.models) // self._moves
        return self.draw(ObjectiveFit(self._made(min(max(shift, LEAST), MOST))))

    def rest(self, left: int) -> Step | None:
        """The dearest perturbation that costs no more than this."""
        if self.secret and not self._counts.told:
            return None
        most = math.isqrt(left // self.models) // self._moves
        for margin in _MARGINS:
            shift = min(math.floor(most / margin), MOST)
            made = self._made(shift) if shift >= LEAST else None
            if made is not None and made.price**2 + made.output**2 <= most**2:
                return self.draw(ObjectiveFit(made))
        return None

    def _made(self, shift: int) -> Objective:
        """More ridge where noise is small, and for users: there less has its price (docs/proofs/objective.md, objective_users.md)."""
        users = self.crowd.unit.kind == "users"
        least = Fraction(1) if users else max(_FLAT, min(Fraction(1), Fraction(shift, 2 * MICRO)))
        ridge = steepness(self.width, least) * Fraction(MICRO, shift)
        return (UserObjective if users else Objective)(self.width, shift, ridge, max(1, shift // 16))

    def ahead(self) -> list[int]:
        """What the levels may yet have cost in all, from one whose excess is likely twice the target."""
        ladder = [round((self._moves * LEAST * RATIO**k) ** 2) for k in range(LADDER)]
        coarse = [cost for cost in ladder if self.excess(cost) <= START * self.goal.amount]
        return [cost for cost in coarse[:LEVELS] if cost > self.paid * 1.05]

    def excess(self, paid: int) -> float:
        """The likely excess of an average that cost so much, for features that share a row's length evenly."""
        sigma = self._moves * MICRO / math.sqrt(paid)
        ridge = float(steepness(self.width)) * sigma / self.n
        return float(self.width * sigma**2 / (2 * self.n**2 * (ridge + 0.1 / self.width)) + ridge)

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

    scale, least = float(MICRO), _LEAST
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
        while self.excess(first) > self.goal.amount / 2 and first < 10**9:
            first += first // 4
        return [micro for k in range(_PURE_LEVELS) if (micro := first * _PURE_RATIO**k) > self._last]

    def excess(self, micro: int) -> float:
        """The likely excess of a draw, for features that share a row's length evenly."""
        scale = 2 * MICRO / micro / self._n
        ridge = scale * max(1.0, self.width / REACH)
        return self.width * (self.width + 1) * scale**2 / (2 * (ridge + 0.1 / self.width)) + ridge

    def level(self, cost: int) -> Step:
        """One perturbed objective for this price where a row or user is replaced, half of it where one is added."""
        return self.draw(pure_objective(self.width, cost // 2), micro=cost)

    def rest(self, left: int) -> Step | None:
        """A draw for all of it."""
        return self.level(left)

    def learn(self, told: Told) -> None:
        """Take a stored draw into account."""
        self._last = int(told.facts["micro"])
        super().learn(told)

    def precision(self, told: Told) -> int:
        """The square of its price."""
        return self._last**2
