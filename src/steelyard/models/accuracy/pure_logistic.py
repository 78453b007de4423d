"""``PureLogistic``: classifiers on a pure account, drawn again at twice the price until a watch says one will do.

Every level is a pure objective perturbation of its own, because that is far better than a perturbed minimizer wherever
rows curve the loss more than the penalty does; so prices of levels add up, and their average is a model too.
Law: the model that is asked about is the one that is handed out, on the grid on which its losses were added up; rows
live inside one call (docs/proofs/pure_paths.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from steelyard.accounting.prices import price
from steelyard.desk import Desk
from steelyard.errors import CurrencyMismatch, InvalidTask
from steelyard.models.accuracy.by_user import shares
from steelyard.models.accuracy.certificate import Array
from steelyard.models.accuracy.logistic_search import LONGEST, LogisticSearch, Signed, as_weights
from steelyard.models.accuracy.losses import GRID, MARGIN, LogLoss, margin_cap
from steelyard.models.accuracy.outcome import Found, Stop
from steelyard.models.accuracy.population import public_n
from steelyard.models.accuracy.ridge_path import NULL
from steelyard.models.accuracy.steps import bought, stored
from steelyard.models.accuracy.transcript import Transcript
from steelyard.models.accuracy.watch import PATIENCE, SHARPER, Watch, room
from steelyard.models.accuracy.watched import Candidate, Walk
from steelyard.models.columns import Features
from steelyard.models.losses import Memory
from steelyard.models.objective import REACH, ObjectiveFit, pure_objective
from steelyard.models.rows import Classes
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Currency, Terms
from steelyard.release import Outcome, Release
from steelyard.tables import Schema, Table

Progress = Callable[[Stop], None]
LEVELS, RATIO = 16, 2
_LEAST = 200  # millionths of epsilon


@dataclass(frozen=True)
class PureLogistic:
    """Open with ``session.open(PureLogistic(features, label, classes, penalty), key=...)`` on a pure account.

    Then ask for a loss. Rows of no declared class count as they do in ``LogisticSearch``.
    """

    features: Features
    label: str
    classes: Sequence[Any]
    penalty: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", self.search.classes)

    @property
    def search(self) -> LogisticSearch:
        """The same question on a Gaussian account."""
        return LogisticSearch(self.features, self.label, self.classes, self.penalty)

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        self.features.check(schema)
        Classes(self.label, self.classes).check(schema)
        public_n(terms)
        if terms.currency is not Currency.PURE:
            raise CurrencyMismatch("a watch over pure draws needs a pure account; on this one use LogisticSearch.")
        if not Fraction(1, 10**8) <= self.penalty <= 100:
            raise InvalidTask("the penalty of an accuracy-first model must lie between 1e-8 and 100.")

    def start(self, desk: Desk) -> PureLogisticWalk:
        """Begin, or pick up where the stored steps left off."""
        return PureLogisticWalk(self, desk)


class PureLogisticWalk:
    """Classifiers on their pure account: ``reach_loss``, as often as wanted, each time with a watch of its own."""

    def __init__(self, search: PureLogistic, desk: Desk) -> None:
        self._search, self._desk = search, desk

    def reach_loss(self, target: float, confidence: float, *, progress: Progress | None = None) -> Found:
        """A model whose mean log loss on these rows is at most ``target``.

        *Cost:* watches, charged in full, and the draws up to the stop; nothing where predicting one half will do.
        """
        if target >= math.log(2):
            spent = Transcript.of(self._desk).spent
            return Found(np.zeros(self._search.features.width), math.log(2), NULL, (), spent)
        course = LogisticCourse(self._search, target, self._desk)
        return Walk(self._desk, course, f"loss {float(target)!r} {float(confidence)!r}", progress).found(confidence)


class Draws:
    """Levels with a price of their own each."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.releases: list[Release] = []

    def kept(self) -> list[Release]:
        """The stored draws, in order."""
        while (found := stored(self._desk, f"level {len(self.releases)}")) is not None:
            self.releases.append(found)
        return self.releases

    def cost(self, index: int) -> int:
        """What draws cost up to this one."""
        return sum(int(release.point["cost"]) for release in self.releases[: index + 1])

    def take(self, fit: ObjectiveFit, micro: int, solve: Callable[[Table, Noise], list[int]]) -> Release:
        """Charge a draw, compute it, store it, and read it back."""
        facts = {"micro": micro, "cost": price(fit.event, self._desk.terms).amount, "step": str(fit.mechanism.step)}
        charge = bought(self._desk, fit.event, f"level {len(self.releases)}")
        compute = lambda table, noise: Outcome([str(k) for k in solve(table, noise)], None, facts)  # noqa: E731
        release = self._desk.answer(charge, fit.event, compute)
        self.releases.append(release)
        return release


class LogisticCourse:
    """A target for a classifier's loss along its draws; what it reads of the rows ends with the call that made it."""

    def __init__(self, search: PureLogistic, target: float, desk: Desk) -> None:
        self._search, self._desk, self.bound = search, desk, target
        self.path, self._n = Draws(desk), public_n(desk.terms)
        self._width = search.features.width
        self._signed: Signed | None = None

    watches, patience = 3, PATIENCE

    def watch(self, failure: float, bought: int) -> Watch:
        """As sharp as a sixteenth of the target, for losses that differ by three at most; then four times as sharp."""
        return Watch.of(self._n * self.bound / (48 * SHARPER**bought), failure)

    def levels(self) -> list[int]:
        """Each twice the one before, from where the excess is likely half the target."""
        first = _LEAST
        while self._excess(first) > self.bound / 2 and first < 10**9:
            first += first // 4
        return [first * RATIO**k for k in range(LEVELS)]

    def _excess(self, micro: int) -> float:
        """The likely excess of a draw, for features that share a row's length evenly."""
        scale = 2 * MICRO / micro / self._n
        ridge = max(float(self._search.penalty), scale * max(1.0, self._width / REACH))
        noise = self._width * (self._width + 1) * scale**2 / (2 * (ridge + 0.1 / self._width))
        return noise + ridge - float(self._search.penalty)

    def null(self) -> None:
        """Predicting one half loses log 2 on every row, which is known to be too much."""

    def take(self, micro: int) -> Release:
        """One perturbed objective for this price where a row or user is replaced, half of it where one is added."""
        half = micro // 2
        scale = Fraction(MICRO, half - max(1, half // 64) - 1)
        ridge = max(self._search.penalty * self._n, scale * max(Fraction(1), Fraction(self._width, REACH)))
        fit = pure_objective(self._width, half, ridge)

        def solve(table: Table, noise: Noise) -> list[int]:
            signed = self._read(table)
            found = fit.solve(Memory(signed.x, shares(signed.owners)), noise)
            return [round(Fraction(float(x)) / fit.mechanism.step) for x in found]

        return self.path.take(fit, micro, solve)

    def candidate(self) -> Candidate:
        """The average of all draws by squared price, shortened into the ball, on the grid."""
        drawn = [(int(r.point["micro"]) ** 2, _weights(r)) for r in self.path.releases]
        average = sum((w * theta for w, theta in drawn), np.zeros(self._width)) / sum(w for w, _ in drawn)
        ball = min(math.sqrt(2 * math.log(2) / float(self._search.penalty)), LONGEST)
        shorter = min(1.0, ball / (float(np.linalg.norm(average)) + 1e-300))
        steps, cap = tuple(int(k) for k in np.trunc(average * shorter * 2**GRID)), margin_cap(self.bound)
        look = LogLoss(self._n, steps, self.bound, cap)
        return Candidate(steps, cap, lambda table: room(look, self._value(look, table)))

    def model(self, steps: Sequence[int]) -> Array:
        """Steps of 2^-20."""
        return as_weights(tuple(steps))

    def clipped(self, reach: int) -> dict[str, float]:
        """Log-odds keep to a margin."""
        return {"margin": reach / 2**MARGIN}

    def _value(self, look: LogLoss, table: Table) -> int:
        signed = self._read(table)
        return look.value(signed.x, signed.owners)

    def _read(self, table: Table) -> Signed:
        """The rows of this call, read when a step first needs them."""
        if self._signed is None:
            self._signed = self._search.search.signed(table, self._desk.terms)
        return self._signed


def _weights(release: Release) -> Array:
    step = Fraction(release.point["step"])
    return np.array([float(int(k) * step) for k in release.value])
