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
from typing import Any

import numpy as np

from steelyard.desk import Desk
from steelyard.errors import CurrencyMismatch
from steelyard.models.accuracy.certificate import Array
from steelyard.models.accuracy.measured import packed, unpacked
from steelyard.models.accuracy.models import as_model
from steelyard.models.accuracy.outcome import Found, Stop
from steelyard.models.accuracy.population import public_n
from steelyard.models.accuracy.pure_questions import LowLoss, NearBest, Question, Setting, ladder, suggested
from steelyard.models.accuracy.ridge_path import NULL, WHOLE
from steelyard.models.accuracy.ridge_search import RidgeSearch, TableRows, check_ridge
from steelyard.models.accuracy.rising import Rising
from steelyard.models.accuracy.transcript import Transcript
from steelyard.models.accuracy.watch import PATIENCE, SHARPER, Watch, room
from steelyard.models.accuracy.watched import Candidate, Walk
from steelyard.models.columns import Features
from steelyard.models.rows import Target
from steelyard.privacy import Currency, Neighbours, Terms
from steelyard.release import Outcome, Release
from steelyard.tables import Schema, Table

Progress = Callable[[Stop], None]


@dataclass(frozen=True)
class PureRidge:
    """Open with ``session.open(PureRidge(features, label, penalty), key=...)`` on a pure account, then name an accuracy.

    ``penalty`` is the lambda of the mean loss, as for ``RidgeSearch``.
    """

    features: Features
    label: Target
    penalty: Fraction

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        check_ridge(RidgeSearch(self.features, self.label, self.penalty), schema, terms, check_pure)

    def start(self, desk: Desk) -> PureWalk:
        """Begin, or pick up where the stored steps left off."""
        return PureWalk(self, desk)


def check_pure(terms: Terms) -> None:
    """A mean over n rows or users needs a public n: they are replaced, on a pure account."""
    public_n(terms)
    if terms.currency is not Currency.PURE:
        raise CurrencyMismatch("a Laplace path rises on a pure account only; on this one use RidgeSearch.")


class PureWalk:
    """A ridge path on its pure account: ``reach_excess`` or ``reach_loss``, as often as wanted, each under its own watch."""

    def __init__(self, search: PureRidge, desk: Desk) -> None:
        self._search, self._desk = search, desk
        self.setting = Setting.of(search.features, search.penalty, desk.terms)

    def reach_excess(self, alpha: float, confidence: float, *, progress: Progress | None = None) -> Found:
        """A model whose risk is within ``alpha`` of the best there is, with this confidence.

        *Cost:* one watch, charged in full, and the path's level at the stop; the confidence holds for all questions
        asked of this path together.
        """
        return self._walk(NearBest(alpha), f"excess {float(alpha)!r} {float(confidence)!r}", confidence, progress)

    def reach_loss(self, target: float, confidence: float, *, progress: Progress | None = None) -> Found:
        """A model whose mean squared error (labels in [-1, 1], predictions clipped) is at most ``target``."""
        return self._walk(LowLoss(target), f"loss {float(target)!r} {float(confidence)!r}", confidence, progress)

    def _walk(self, question: Question, name: str, confidence: float, progress: Progress | None) -> Found:
        if question.bound >= question.always:
            return Found(
                np.zeros(self._search.features.width), question.bound, NULL, (), Transcript.of(self._desk).spent
            )
        rising = Rising(self._desk, self.setting.triangle.sensitivity, _released, "path", Neighbours.REPLACE)
        course = RidgeCourse(self.setting, question, self._search, self._desk.terms, rising)
        return Walk(self._desk, course, name, progress).found(confidence)


def _released(release: Release) -> list[int]:
    return [int(value) for value in unpacked(release.value)]


class RidgeCourse:
    """A ridge question along its path; what it reads of the rows ends with the call that made it."""

    def __init__(self, setting: Setting, question: Question, search: PureRidge, terms: Terms, rising: Rising) -> None:
        self._setting, self._question, self._search, self._terms = setting, question, search, terms
        self.path, self.bound = rising, question.bound
        self._rows: TableRows | None = None
        self._held: list[int] | None = None

    watches = 3

    @property
    def patience(self) -> float:
        """A target may lie closer to the best loss than was expected; an excess comes down to any room by its last level."""
        return PATIENCE if isinstance(self._question, LowLoss) else math.inf

    def watch(self, failure: float, bought: int) -> Watch:
        """As sharp as the room that the question expects, then four times as sharp each time: twice, for an excess.

        The last levels leave an excess more room than was expected, so a watch that refused them had much noise itself.
        """
        sharper = SHARPER if isinstance(self._question, LowLoss) else 2
        return Watch.of(self._question.needs(self._setting) / sharper**bought, failure)

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
        """The model that the last release suggests."""
        release = self.path.releases[-1]
        released, micro = unpacked(release.value), int(release.point["micro"])
        return self._asked(*suggested(self._setting, self._question, released, micro))

    def model(self, steps: Sequence[int]) -> Array:
        """Steps of 2^-48."""
        return np.asarray(as_model(tuple(steps)))

    def read(self, table: Table) -> list[int]:
        """The weighted statistics: read once, so that all levels of a call refine the same integers."""
        if self._held is None:
            self._held = self._setting.triangle.values(self._read(table).exact)
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
