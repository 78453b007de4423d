"""``PureRidge``: ridge models on a pure account, sharpened along a Laplace path under a watch.

The statistics are exact integers, released again and again with less noise at the price of the last release; each model
they give is asked about once: the watch compares the root of its excess, or its clipped loss, with a limit.
Ligett, Neel, Roth, Waggoner and Wu (2017) is the idea; the noise is exact, the sensitivities are proved anew.
Law: the exact statistics and rows live inside one call and are kept by nothing that is handed out
(docs/proofs/pure_paths.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from steelyard.desk import Desk
from steelyard.errors import CurrencyMismatch, InvalidTask
from steelyard.models.columns import Features
from steelyard.models.first import schedule
from steelyard.models.first.by_user import unit_of
from steelyard.models.first.certificate import Array, Ridge
from steelyard.models.first.excess import RootExcess
from steelyard.models.first.losses import ClippedLoss
from steelyard.models.first.measured import Integers, norm_bound, packed, unpacked
from steelyard.models.first.models import MODEL_BITS, as_model, in_ball
from steelyard.models.first.outcome import Found, Stop
from steelyard.models.first.population import check_population, public_n
from steelyard.models.first.questions import reach_of
from steelyard.models.first.ridge_path import NULL, WHOLE, Look
from steelyard.models.first.ridge_search import TableRows
from steelyard.models.first.rising import Rising
from steelyard.models.first.triangle import Triangle, best_triangle
from steelyard.models.first.watch import QUESTIONS, SHARPER, Watch, room
from steelyard.models.first.watched import Candidate, Walk
from steelyard.models.rows import Target
from steelyard.privacy import MICRO, Currency, Neighbours, Terms
from steelyard.release import Outcome, Release
from steelyard.tables import Table

Progress = Callable[[Stop], None]
LIKELY = 0.25
"""How long a model is expected to be, as a share of what the best one is at most."""

STEEP = 1.15  # the least ratio of two levels
_DISTANCE = 17.5  # about the epsilon of a watch for models that leave room for one replaced row


@dataclass(frozen=True)
class PureRidge:
    """Open with ``session.open(PureRidge(features, label, penalty), key=...)`` on a pure account, then name an accuracy.

    ``penalty`` is the lambda of the mean loss, as for ``RidgeSearch``.
    """

    features: Features
    label: Target
    penalty: Fraction

    def check(self, table: Table, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        self.features.check(table)
        table.require_numeric(self.label.column)
        public_n(terms)
        if terms.currency is not Currency.PURE:
            raise CurrencyMismatch("a Laplace path rises on a pure account only; on this one use RidgeSearch.")
        check_population(table, terms)
        if not Fraction(1, 10**8) <= self.penalty <= 100:
            raise InvalidTask("the penalty of an accuracy-first ridge must lie between 1e-8 and 100.")

    def start(self, desk: Desk) -> PureWalk:
        """Begin, or pick up where the stored steps left off."""
        return PureWalk(self, desk)


class PureWalk:
    """A ridge path on its pure account: ``reach_excess`` or ``reach_loss``, as often as wanted, each under its own watch."""

    def __init__(self, search: PureRidge, desk: Desk) -> None:
        self._search, self._desk = search, desk
        self.setting = Setting.of(search, desk.terms)

    def reach_excess(self, alpha: float, confidence: float, *, progress: Progress | None = None) -> Found:
        """A model whose risk is within ``alpha`` of the best there is, with this confidence.

        *Cost:* one watch, charged in full, and the path's level at the stop; the confidence holds for all questions
        asked of this path together.
        """
        return self._walk(NearBest(alpha), f"excess {alpha!r} {confidence!r}", confidence, progress)

    def reach_loss(self, target: float, confidence: float, *, progress: Progress | None = None) -> Found:
        """A model whose mean squared error (labels in [-1, 1], predictions clipped) is at most ``target``."""
        return self._walk(LowLoss(target), f"loss {target!r} {confidence!r}", confidence, progress)

    def _walk(self, question: Question, name: str, confidence: float, progress: Progress | None) -> Found:
        search, terms = self._search, self._desk.terms
        if question.bound >= question.always:
            return Found(np.zeros(search.features.width), question.bound, NULL, (), 0)
        columns = [*search.features.source, search.label.column, *([terms.unit.column] if terms.unit.column else [])]
        sensitivity = self.setting.triangle.sensitivity
        rising = Rising(self._desk, sensitivity, columns, _released, "path", Neighbours.REPLACE)
        course = RidgeCourse(self.setting, question, search, terms, rising)
        return Walk(self._desk, course, name, progress).found(confidence)


def _released(release: Release) -> list[int]:
    return [int(value) for value in unpacked(release.value)]


@dataclass(frozen=True)
class Setting:
    """The public facts of a path: the question's ridge, how statistics are weighted, and the ball of the best model."""

    ridge: Ridge
    triangle: Triangle
    norm: float

    @classmethod
    def of(cls, search: PureRidge, terms: Terms) -> Setting:
        """All of it follows from the account's terms and the search."""
        features, norm = search.features, norm_bound(Fraction(1), float(search.penalty))
        busy = len(features.columns) + features.intercept  # of a column's values a row has one
        triangle = best_triangle(unit_of(terms.unit), features.width, LIKELY * norm, busy)
        return cls(Ridge(public_n(terms), features.width, float(search.penalty)), triangle, norm)


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


def suggested(setting: Setting, released: Integers, micro: int) -> tuple[tuple[int, ...], int]:
    """The best of a few models that released statistics give, in steps, and what its predictions are clipped to."""
    noisy = setting.triangle.noisy(setting.ridge, released, micro)
    model = schedule.guess(setting.ridge, noisy, setting.norm, noisy.variance).model
    return in_ball(model, setting.norm), reach_of(setting.ridge, noisy, model)


class RidgeCourse:
    """A ridge question along its path; what it reads of the rows ends with the call that made it."""

    def __init__(self, setting: Setting, question: Question, search: PureRidge, terms: Terms, rising: Rising) -> None:
        self._setting, self._question, self._search, self._terms = setting, question, search, terms
        self.path, self.bound = rising, question.bound
        self._rows: TableRows | None = None
        self._held: tuple[str, list[int]] | None = None

    @property
    def watches(self) -> int:
        """A target may lie closer to the best loss than was expected; an excess comes down to any room."""
        return 3 if isinstance(self._question, LowLoss) else 1

    def watch(self, failure: float, bought: int) -> Watch:
        """As sharp as the room that the question expects, and four times as sharp each time."""
        return Watch.of(self._question.needs(self._setting) / SHARPER**bought, failure)

    def levels(self) -> list[int]:
        """Those of the question."""
        return ladder(self._setting, self._question)

    def null(self) -> Candidate:
        """The model that predicts nothing."""
        return self._asked((0,) * self._setting.ridge.width, WHOLE)

    def take(self, micro: int) -> Release:
        """Raise the entry and refine."""
        return self.path.take(micro, self.read, self._told)

    def candidate(self) -> Candidate:
        """The best of a few models that the last release gives."""
        release = self.path.releases[-1]
        return self._asked(*suggested(self._setting, unpacked(release.value), int(release.point["micro"])))

    def model(self, steps: Sequence[int]) -> Array:
        """Steps of 2^-48."""
        return np.asarray(as_model(tuple(steps)))

    def read(self, table: Table) -> tuple[str, list[int]]:
        """The seal and the weighted statistics: read once, so that all levels of a call refine the same integers."""
        if self._held is None:
            seal = self.path.seal(table)
            self._held = seal, self._setting.triangle.values(self._read(table).exact)
        return self._held

    def clipped(self, reach: int) -> dict[str, float]:
        """Predictions keep to a reach in the label's unit."""
        return {"reach": reach / WHOLE}

    def _told(self, noised: list[int], facts: dict[str, Any]) -> Outcome:
        return Outcome(packed(noised), None, {"vector": self._setting.triangle.vector, **facts})

    def _asked(self, steps: tuple[int, ...], reach: int) -> Candidate:
        look = self._question.look(self._setting, steps, reach)
        return Candidate(steps, look.reach, lambda table: room(look, look.value(self._read(table))))

    def _read(self, table: Table) -> TableRows:
        """The rows of this call, read when a step first needs them."""
        if self._rows is None:
            self._rows = TableRows(table, self._search.features, self._search.label, self._terms.unit)
        return self._rows
