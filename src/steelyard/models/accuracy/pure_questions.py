"""What is asked of ridge models on a pure account, and what public numbers say about it before a row is read.

The root of the excess, or the mean clipped loss: each is a whole number with a limit, and each says how much room a model
that should pass is expected to leave, and between which levels such a model is to be looked for. Guesses about rows decide
the price of a search alone; its privacy and its promise hold without them (docs/proofs/pure_paths.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from steelyard.models.accuracy import schedule
from steelyard.models.accuracy.by_user import unit_of
from steelyard.models.accuracy.certificate import Array, Noisy, Ridge
from steelyard.models.accuracy.excess import RootExcess
from steelyard.models.accuracy.losses import ClippedLoss
from steelyard.models.accuracy.measured import Integers, norm_bound
from steelyard.models.accuracy.models import MODEL_BITS, in_ball
from steelyard.models.accuracy.population import public_n
from steelyard.models.accuracy.posterior import expected_model
from steelyard.models.accuracy.questions import reach_of
from steelyard.models.accuracy.ridge_path import WHOLE, Look
from steelyard.models.accuracy.triangle import Triangle, best_triangle
from steelyard.models.accuracy.watch import QUESTIONS
from steelyard.models.columns import Features
from steelyard.privacy import MICRO, Terms

LIKELY = 0.25
"""How long a model is expected to be, as a share of what the best one is at most."""

STEEP = 1.15  # the least ratio of two levels
_DISTANCE = 17.5  # about the epsilon of a watch for models that leave room for one replaced row


@dataclass(frozen=True)
class Setting:
    """The public facts of a path: the question's ridge, how statistics are weighted, and the ball of the best model."""

    ridge: Ridge
    triangle: Triangle
    norm: float

    @classmethod
    def of(cls, features: Features, penalty: Fraction, terms: Terms) -> Setting:
        """All of it follows from the account's terms and what is asked."""
        norm = norm_bound(Fraction(1), float(penalty))
        busy = len(features.columns) + features.intercept  # of a column's values a row has one
        triangle = best_triangle(unit_of(terms.unit), features.width, LIKELY * norm, busy)
        return cls(Ridge(public_n(terms), features.width, float(penalty)), triangle, norm)


class Question(Protocol):
    """How a model is judged."""

    @property
    def bound(self) -> float:
        """What may be said of a model that passed."""

    @property
    def always(self) -> float:
        """What may be said of the model that predicts nothing, whatever the rows."""

    def look(self, setting: Setting, model: tuple[int, ...], reach: int) -> Look:
        """The whole number that the watch compares with its limit."""

    def guess(self, setting: Setting, noisy: Noisy) -> Array:
        """The model to try."""

    def needs(self, setting: Setting) -> float:
        """How much room a model that should pass is expected to leave, in moves of a row."""

    def excesses(self) -> tuple[float, float]:
        """The likely excess risk of the first model worth asking about, and of the last."""


@dataclass(frozen=True)
class LowLoss:
    """Is the mean squared error (labels in [-1, 1], predictions clipped) at most a public number?"""

    bound: float
    always: float = 1.0

    def look(self, setting: Setting, model: tuple[int, ...], reach: int) -> ClippedLoss:
        """The sum of clipped squared errors."""
        return ClippedLoss(setting.ridge.n, setting.triangle.unit, model, self.bound, reach)

    def guess(self, setting: Setting, noisy: Noisy) -> Array:
        """Any model may meet a target: the one to expect behind the statistics."""
        return expected_model(setting.ridge, noisy, setting.norm)

    def needs(self, setting: Setting) -> float:
        """A quarter of the target, for predictions that make a row's loss three at most."""
        return setting.ridge.n * self.bound / 12

    def excesses(self) -> tuple[float, float]:
        """Half the mean squared error."""
        return self.bound / 2, self.bound / 32


@dataclass(frozen=True)
class NearBest:
    """Is the risk within ``bound`` of the best there is?"""

    bound: float
    always: float = 0.5

    def look(self, setting: Setting, model: tuple[int, ...], reach: int) -> RootExcess:
        """The root of the excess; predictions are not clipped."""
        return RootExcess(setting.ridge, model, Fraction(setting.norm), self.bound)

    def guess(self, setting: Setting, noisy: Noisy) -> Array:
        """A penalized model that noise would move little."""
        return schedule.guess(setting.ridge, noisy, setting.norm, noisy.variance).model

    def needs(self, setting: Setting) -> float:
        """A part of the root, the larger the dearer the watch is beside the level that leaves the rest."""
        ridge, length = setting.ridge, LIKELY * setting.norm
        likely = (int(length * 2**MODEL_BITS),) + (0,) * (ridge.width - 1)
        whole = math.sqrt(self.bound) / self.look(setting, likely, WHOLE).sensitivity
        level = setting.triangle.level(ridge, length, self.bound, ridge.penalty + 0.1 / ridge.width) / MICRO
        part = 1 / (1 + math.sqrt(level / (_DISTANCE / whole)))
        return whole * min(max(part, 0.3), 0.65)

    def excesses(self) -> tuple[float, float]:
        """A root half as long leaves half of it as room."""
        return self.bound, self.bound / 16


def ladder(setting: Setting, question: Question) -> list[int]:
    """A geometric row from where a model may first pass, if features are even, to where it should, if they are not."""
    ridge, triangle, length = setting.ridge, setting.triangle, LIKELY * setting.norm
    easy, hard = question.excesses()
    first = triangle.level(ridge, length, easy, ridge.penalty + 0.5 / ridge.width)
    last = max(triangle.level(ridge, length, hard, ridge.penalty), 2 * first)
    ratio = max(STEEP, (last / first) ** (1 / (QUESTIONS - 2)))
    count = min(QUESTIONS - 1, 2 + math.ceil(math.log(last / first, ratio)))
    return list(dict.fromkeys(max(1, round(first * ratio**k)) for k in range(count)))


def suggested(setting: Setting, question: Question, released: Integers, micro: int) -> tuple[tuple[int, ...], int]:
    """The model that released statistics suggest, in steps, and what its predictions are clipped to."""
    noisy = setting.triangle.noisy(setting.ridge, released, micro)
    model = question.guess(setting, noisy)
    return in_ball(model, setting.norm), reach_of(setting.ridge, noisy, model)
