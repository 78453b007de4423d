"""``RidgeSearch``: a ridge path served at a desk, each step charged before it is drawn and stored before it is used.

What a walk knows is what its key has stored: measurements, looks, and nothing else. A restart reads them back, never
redraws, and a tighter target goes on from the last measurement, so the path has always cost exactly its last level.
Law: the exact statistics live inside one call and are not kept by anything that is handed out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from steelyard.desk import Desk
from steelyard.errors import BudgetExceeded, CurrencyMismatch, InvalidTask, KeyConflict
from steelyard.lazy import lazy
from steelyard.models.accuracy import questions, schedule
from steelyard.models.accuracy.by_user import exact_of, unit_of
from steelyard.models.accuracy.certificate import Ridge
from steelyard.models.accuracy.implied import Asked, answering
from steelyard.models.accuracy.limits import left_of
from steelyard.models.accuracy.measured import Exact, Integers, norm_bound, packed, unpacked
from steelyard.models.accuracy.outcome import Found, Stop
from steelyard.models.accuracy.population import public_n
from steelyard.models.accuracy.ridge_path import MET, WHOLE, Ask, RidgePath, Seen
from steelyard.models.accuracy.steps import MEANWHILE, bought, stored
from steelyard.models.accuracy.transcript import Transcript
from steelyard.models.columns import SIZE, Features
from steelyard.models.rows import Target, gather
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Currency, Terms, Unit, canonical
from steelyard.release import Outcome, Release
from steelyard.tables import Schema, Table

Progress = Callable[[Stop], None]
LABEL, NULL = 5.0, 4.0


@dataclass(frozen=True)
class RidgeSearch:
    """Open with ``session.open(RidgeSearch(features, label, penalty), key=...)``, then ask for an accuracy.

    ``penalty`` is the lambda of the mean loss: half the mean squared error plus lambda/2 |theta|^2, with rows of length
    at most one and labels mapped to [-1, 1].
    """

    features: Features
    label: Target
    penalty: Fraction

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        check_ridge(self, schema, terms, check_terms)

    def start(self, desk: Desk) -> RidgeWalk:
        """Begin, or pick up where the stored steps left off."""
        return RidgeWalk(self, desk)


def check_ridge(search: RidgeSearch, schema: Schema, terms: Terms, account: Callable[[Terms], None]) -> None:
    """Refuse what the schema rules out, what ``account`` refuses, and penalties out of bounds."""
    search.features.check(schema)
    schema.require_numeric(search.label.column)
    account(terms)
    if not Fraction(1, 10**8) <= search.penalty <= 100:
        raise InvalidTask("the penalty of an accuracy-first ridge must lie between 1e-8 and 100.")


def check_terms(terms: Terms) -> None:
    """A mean over n rows or users needs a public n: they are replaced, on a Gaussian account."""
    public_n(terms)
    if terms.currency is not Currency.GAUSSIAN:
        raise CurrencyMismatch("a ridge path adds Gaussian steps; open the account with a delta.")


class TableRows:
    """The rows of one call: the statistics in one streaming pass, single rows only where a look asks for them."""

    def __init__(self, table: Table, features: Features, label: Target, unit: Unit) -> None:
        self._table, self._features, self._label, self._unit = table, features, label, unit

    @lazy
    def exact(self) -> Exact:
        """The exact statistics."""
        return exact_of(self._table, self._features, self._label, self._unit)

    @lazy
    def rows(self) -> tuple[NDArray[Any], ...]:
        """The whole-number rows in memory, in the path's steps, and whose they are where users are hidden."""
        gathered = gather(self._table, self._features, self._label, self._unit)
        if gathered.users is None:
            return gathered.x, gathered.y
        finer = unit_of(self._unit) // SIZE
        return finer * gathered.x, finer * gathered.y, gathered.users


class RidgeWalk:
    """A ridge path on its account: ``reach_excess`` or ``reach_loss``, as often as wanted, each tighter than the last."""

    def __init__(self, search: RidgeSearch, desk: Desk) -> None:
        self._search, self._desk = search, desk
        self.ridge = Ridge(desk.terms.unit.n or 1, search.features.width, float(search.penalty))

    def reach_excess(
        self, alpha: float, confidence: float, *, looks: int = 2, progress: Progress | None = None
    ) -> Found:
        """A model whose risk is within ``alpha`` of the best there is, with this confidence.

        *Privacy:* every step is charged before it is drawn; stopping early leaves the rest unspent.
        """
        return self._walk(Asked("excess", float(alpha), float(confidence)), looks, progress)

    def reach_loss(
        self, target: float, confidence: float, *, every: bool = False, progress: Progress | None = None
    ) -> Found:
        """A model whose mean squared error (labels in [-1, 1], predictions clipped) is at most ``target``.

        *Accuracy:* the confidence holds for all targets asked of this path together, chosen in whatever way: the looks of
        the k-th have a tenth of the failure probability of the one before.
        """
        return self._walk(Asked("loss", float(target), float(confidence), str(every)), 0, progress)

    def _walk(self, asked: Asked, looks: int, progress: Progress | None) -> Found:
        for other in answering(asked, self._steps().names()):
            told = self._again(other)
            if told is not None:
                return told
        steps = self._steps()
        path, private = self._path(asked, looks), _Private(self._search, self._desk.terms.unit)
        self._serve(path, steps, private, asked.name, progress)
        return self._found(path, asked)

    def _again(self, asked: Asked) -> Found | None:
        """What a question that had steps before was answered, for nothing and without a row; None if it did not pass."""
        steps, path = self._steps(), self._path(asked, 0)
        levels, looks = steps.levels(), steps.looks(asked.name)
        found = steps.label(path)
        if found is None or not levels:
            return None
        path.take(found)
        path.measure_as(steps.vector)
        if looks and looks[-1].passed:
            path.settle(levels, looks)
        elif asked.kind == "excess":  # its last measurement may have been certified
            path.take_up(levels[: steps.last(asked.name)], looks)
        return self._found(path, asked) if path.reason == MET else None

    def _found(self, path: RidgePath, asked: Asked) -> Found:
        alone = set(self._steps().names()) <= {asked.name}
        return Found.of(path, Transcript.of(self._desk).spent, alone=alone)

    def _steps(self) -> _Steps:
        return _Steps(self._desk, self._search)

    def _path(self, asked: Asked, looks: int) -> RidgePath:
        failure, rank = schedule.Failure(1 - asked.confidence), self._steps().rank(asked.name)
        question: questions.Excess | questions.Target
        if asked.kind == "excess":
            question = questions.Excess(asked.amount, failure, looks, rank)
        else:
            question = questions.Target(asked.amount, questions.share_of(rank) * failure.total, asked.how == "True")
        return RidgePath(
            self.ridge, unit_of(self._desk.terms.unit), question, failure, label_micro(self.ridge, question)
        )

    def _serve(self, path: RidgePath, steps: _Steps, private: _Private, name: str, progress: Progress | None) -> None:
        def serve(ask: Ask) -> None:
            try:
                path.take(steps.pay(ask, private, name))
            except BudgetExceeded as refused:
                path.refused(left_of(refused))
                return
            if progress is not None:
                progress(path.history[-1])

        label, ask = steps.label(path), path.next()
        assert ask is not None
        if label is None:
            serve(ask)
        else:
            path.take(label)
        levels, looks = steps.levels(), steps.looks(name)
        if levels:
            path.measure_as(steps.vector)
        path.take_up(levels, looks)
        while (ask := path.next()) is not None:
            serve(ask)


def label_micro(ridge: Ridge, question: Any) -> int:
    """The mu, in millionths, of the bound on the labels' size: a small part of what the plan expects to spend."""
    if isinstance(question, questions.Target):  # as sharp as it takes to compare with the target, and no sharper
        return max(100, min(20_000, round(LABEL * MICRO / (ridge.n * question.target))))
    planned = schedule.planned_mu(ridge, norm_bound(Fraction(1), ridge.penalty), question.alpha, 0.01)
    null = NULL * MICRO / (2 * ridge.n * question.alpha)  # enough to see that predicting nothing is far within alpha
    wanted: float = max(planned * MICRO / 16, null)
    return max(100, min(20_000, round(wanted)))


class _Private:
    """Reads the rows when a step is first computed, and again by nobody."""

    def __init__(self, search: RidgeSearch, unit: Unit) -> None:
        self._search, self._unit = search, unit
        self._rows: TableRows | None = None

    def of(self, table: Table) -> TableRows:
        if self._rows is None:
            self._rows = TableRows(table, self._search.features, self._search.label, self._unit)
        return self._rows


class _Steps:
    """The stored steps of one key, and how another is bought."""

    def __init__(self, desk: Desk, search: RidgeSearch) -> None:
        self._desk, self._search = desk, search
        self.vector, self._looked = 0, 0

    def asked(self, kind: str) -> list[str]:
        """The questions for which steps of a kind were bought, in order."""
        return [name for _, name in self._told(kind)]

    def _told(self, kind: str) -> list[tuple[int, str]]:
        """Where each stored step of a kind stands on the ledger, and the question that it was bought for."""
        names: list[tuple[int, str]] = []
        while (found := stored(self._desk, f"{kind} {len(names)}")) is not None:
            names.append((found.receipt.sequence, str(found.point["target"])))
        return names

    def names(self) -> list[str]:
        """The questions for which measurements or looks were bought, each once."""
        return list(dict.fromkeys([*self.asked("level"), *self.asked("look")]))

    def last(self, name: str) -> int:
        """How many measurements there were when the last one was bought for this question."""
        return max((index + 1 for index, other in enumerate(self.asked("level")) if other == name), default=0)

    def rank(self, name: str) -> int:
        """How many other questions took a share before this one: by a look, or an excess by a measurement."""
        found = [*self._told("look"), *((at, other) for at, other in self._told("level") if other.startswith("excess"))]
        names = list(dict.fromkeys(other for _, other in sorted(found)))
        return names.index(name) if name in names else len(names)

    def label(self, path: RidgePath) -> Integers | None:
        """The stored size of the labels, which keeps the price it was bought at."""
        found = stored(self._desk, "label")
        if found is None:
            return None
        path.label_micro = math.isqrt(int(found.point["cost"]))
        return unpacked(found.value)

    def levels(self) -> list[tuple[int, Integers]]:
        """The stored measurements, in order."""
        kept: list[tuple[int, Integers]] = []
        while (found := stored(self._desk, f"level {len(kept)}")) is not None:
            self.vector = int(found.point["vector"])
            kept.append((int(found.point["cost"]), unpacked(found.value)))
        return kept

    def looks(self, name: str) -> list[Seen]:
        """The stored looks for this very question, in order."""
        kept: list[Seen] = []
        while (found := stored(self._desk, f"look {self._looked}")) is not None:
            point, cost, told = found.point, int(found.point["cost"]), unpacked(found.value)
            if point["target"] == name:
                answer = int(told[0])
                passed, model = bool(answer <= point["limit"]), tuple(int(k) for k in point["model"])
                reach, alone = int(point.get("reach", WHOLE)), bool(point.get("alone", False))
                kept.append(Seen(model, int(point["level"]), cost, passed, answer, reach, alone))
            self._looked += 1
        return kept

    def pay(self, ask: Ask, private: _Private, name: str) -> Integers:
        """Charge a step, compute it, store it, and read it back; one that is refused leaves its name to the next."""
        facts = {**ask.facts, "target": name}
        step = f"look {self._looked}" if "limit" in facts else ask.name
        compute = lambda table, noise: _outcome(ask, facts, private.of(table), noise)  # noqa: E731
        release = self._desk.answer(bought(self._desk, ask.event, step), ask.event, compute)
        self._looked += "limit" in facts
        if not _same(release, ask, facts):
            raise KeyConflict(MEANWHILE)
        return unpacked(release.value)


def _same(release: Release, ask: Ask, facts: dict[str, Any]) -> bool:
    """Whether a step is the one that was asked for: one that another question took meanwhile is an answer to that one.

    A measurement may be anybody's; a look is at one model, for one question.
    """
    told = facts if "limit" in facts else {name: facts[name] for name in facts if name != "target"}
    return canonical(release.event.to_json()) == canonical(ask.event.to_json()) and all(
        release.point.get(name) == value for name, value in told.items()
    )


def _outcome(ask: Ask, facts: dict[str, Any], rows: TableRows, noise: Noise) -> Outcome:
    answer = ask.compute(rows, noise)
    return Outcome(packed(answer), None, {"step": ask.name, "cost": ask.cost, **facts})
