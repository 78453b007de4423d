"""The losses a linear score can be fitted to, all that the ways of fitting need to know of one, and sums over rows.

A row's loss depends on its score x.theta and its label alone. A certified solver needs the two derivatives in doubles and,
where those cannot decide, in decimals; a descent over clipped gradients needs the first derivative as a whole number;
a choice among candidates needs the loss as one. What perturbing the objective costs is proved curvature by curvature, so
a loss names the mechanisms whose price holds for it. Whoever adds a loss adds a class here (or in ``_smooth_losses``) and its row in ``LOSSES``.
Sums over rows carry a bound on their own rounding, so that a solver can prove a gradient short.
Law: whole numbers come from tables or from single operations that IEEE rounds correctly, so that a row's whole numbers
depend on that row alone: a library's exponential may round differently at the end of an array than inside it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache
from itertools import repeat
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.mechanisms import Objective, PureObjective
from steelyard.models._columns import RESIDUAL_BITS, SIZE
from steelyard.models._smooth_losses import PoissonLoss, SmoothLoss

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Point = Floats | list[Decimal]
UNIT = 2.0**-53
SCALE = 2.0**60
_BLOCK = 64  # rows: 4 of them bound a block's rounding, that of adding 64 blocks, and that of a slope
_CHUNK = _BLOCK * 64


CEILING = 4
"""The largest loss of one row that a choice counts, in nats; a worse one counts as this much."""

COST_BITS = 16
"""The loss that a choice counts is a whole number of steps of 2^-16."""

_MARGIN_BITS = 10
_FURTHEST = 16 << _MARGIN_BITS


class LossFunction(SmoothLoss):
    """The loss of a row of length at most one, with all that methods that hide rows or users need."""

    steepness: ClassVar[float]
    """The largest first derivative by the score, either way, that a residual counts."""
    doubt: ClassVar[float] = 0.0
    """By how much a model per user is shrunk where none of the rows were heard."""
    objective: ClassVar[type[Objective] | None] = None
    """The normal perturbation of the objective whose price is proved for this loss; None where none is."""
    pure_objective: ClassVar[type[PureObjective] | None] = None
    """The same for pure epsilon."""
    members: ClassVar[int] = 1
    """As how many logistic losses one row counts where normal noise perturbs the objective."""

    @abstractmethod
    def exact_slope(self, score: Decimal, label: Decimal | None) -> Decimal:
        """The first derivative to the digits of the context."""

    @abstractmethod
    def residuals(self, scores: Floats, labels: Floats | None) -> Ints:
        """The first derivative in whole steps of 2^-14; total, and a function of each row alone."""

    @abstractmethod
    def costs(self, scores: Floats, labels: Floats | None) -> Ints:
        """The loss, held at the ceiling, in whole steps of 2^-16; total, and a function of each row alone."""

    def lowest(self, labels: Floats | None, reach: float) -> Ints:
        """The least cost that any score within ``reach`` has for these labels."""
        near = np.array([reach]) if labels is None else np.clip(labels, -reach, reach)
        return self.costs(near, labels)

    def spread(self, reach: float) -> int:
        """How far apart two costs of one row can lie whose scores are within ``reach``, whatever the row and its label.

        A label at the end of its range is the worst: costs are convex. Where the least cost is not that of a score equal to
        the label, tables read at rounded scores may add a step of the score (docs/proofs/hypotheses.md).
        """
        far, end = np.array([-reach]), None if self.classifies else np.array([1.0])
        step = 0 if self.classifies or reach >= 1 else 1 << COST_BITS - _MARGIN_BITS
        return int(self.costs(far, end)[0] - self.lowest(end, reach)[0]) + step


class LogisticLoss(LossFunction):
    """log(1 + e^-margin): the margin is the score times the label's sign, which rows are multiplied by beforehand.

    Whole numbers come from tables over margins between -16 and 16. A row whose label is zero counts for nothing.
    """

    name, classifies, flattens, smoothness, steepness, doubt = "logistic", True, True, 0.25, 1.0, 0.2
    objective, pure_objective = Objective, PureObjective

    def oriented(self, x: Floats, y: Floats) -> tuple[Floats, Floats | None]:
        return x * np.sign(y)[:, None], None

    def value(self, scores: Floats, labels: Floats | None = None) -> Floats:
        return np.asarray(np.logaddexp(0.0, -scores))

    def derivatives(self, scores: Floats, labels: Floats | None = None) -> tuple[Floats, Floats]:
        p = 0.5 * (1 - np.tanh(0.5 * scores))  # the chance of the other class
        return -p, p * (1 - p)

    def exact_slope(self, score: Decimal, label: Decimal | None = None) -> Decimal:
        return -1 / (1 + score.exp()) if score < 10**5 else Decimal(0)

    def residuals(self, scores: Floats, labels: Floats | None = None) -> Ints:
        return _slopes()[_places(scores)]

    def costs(self, scores: Floats, labels: Floats | None = None) -> Ints:
        return _values()[_places(scores)]

    def mean(self, scores: Floats) -> Floats:
        return np.asarray(0.5 * (1 + np.tanh(scores / 2)))


class SquaredLoss(LossFunction):
    """Half the squared difference between score and label; a residual counts up to four half-ranges of the label."""

    name, classifies, flattens, smoothness, steepness = "linear", False, False, 1.0, 4.0

    def oriented(self, x: Floats, y: Floats) -> tuple[Floats, Floats | None]:
        return x, y / SIZE

    def value(self, scores: Floats, labels: Floats | None) -> Floats:
        return np.asarray(_beyond(scores, labels) ** 2 / 2)

    def derivatives(self, scores: Floats, labels: Floats | None) -> tuple[Floats, Floats]:
        return _beyond(scores, labels), np.ones_like(scores)

    def exact_slope(self, score: Decimal, label: Decimal | None) -> Decimal:
        return score - (label or 0)

    def residuals(self, scores: Floats, labels: Floats | None) -> Ints:
        most = self.steepness * 2**RESIDUAL_BITS
        return np.asarray(np.clip(np.rint(_beyond(scores, labels) * 2.0**RESIDUAL_BITS), -most, most), dtype=np.int64)

    def costs(self, scores: Floats, labels: Floats | None) -> Ints:
        return np.asarray(np.rint(np.minimum(self.value(scores, labels), CEILING) * 2.0**COST_BITS), dtype=np.int64)

    def mean(self, scores: Floats) -> Floats:
        return scores


class LogCoshLoss(SquaredLoss):
    """2 log cosh(r/2), r being score less label: r^2/4 for small r and |r| for large, so that no label pulls more than one.

    It is log(1 + e^r) + log(1 + e^-r), less a constant: two logistic losses, of a row and of its opposite, and as two of them
    it counts under normal noise. Models fitted to it are linear ones.
    """

    smoothness, steepness, members = 0.5, 1.0, 2
    objective, pure_objective = Objective, PureObjective

    def value(self, scores: Floats, labels: Floats | None) -> Floats:
        beyond = np.abs(_beyond(scores, labels))
        return np.asarray(beyond + 2 * np.log1p(np.exp(-beyond)) - 2 * math.log(2))

    def derivatives(self, scores: Floats, labels: Floats | None) -> tuple[Floats, Floats]:
        slope = np.tanh(_beyond(scores, labels) / 2)
        return slope, (1 - slope) * (1 + slope) / 2

    def exact_slope(self, score: Decimal, label: Decimal | None) -> Decimal:
        beyond = score - (label or 0)
        return 1 - 2 / (1 + beyond.exp()) if abs(beyond) < 10**5 else Decimal(1).copy_sign(beyond)

    def residuals(self, scores: Floats, labels: Floats | None) -> Ints:
        return _soft_slopes()[_places(_beyond(scores, labels))]

    def costs(self, scores: Floats, labels: Floats | None) -> Ints:
        return _soft_values()[_places(_beyond(scores, labels))]


LOGISTIC, SQUARED, LOG_COSH, POISSON = LogisticLoss(), SquaredLoss(), LogCoshLoss(), PoissonLoss()
LOSSES: dict[str, SmoothLoss] = {loss.name: loss for loss in (LOGISTIC, SQUARED, POISSON)}
"""Every loss by the name its models are saved under."""


def _beyond(scores: Floats, labels: Floats | None) -> Floats:
    return scores if labels is None else np.asarray(scores - labels)


def _places(margins: Floats) -> Ints:
    """Each margin's place in the tables: one rounding."""
    whole = np.clip(np.rint(margins * 2.0**_MARGIN_BITS), -_FURTHEST, _FURTHEST)
    return np.asarray(whole + _FURTHEST, dtype=np.int64)


def _margins() -> Floats:
    """From -16 to 16 in steps of 2^-10."""
    return np.asarray(np.arange(-_FURTHEST, _FURTHEST + 1) / 2.0**_MARGIN_BITS)


@cache
def _slopes() -> Ints:
    return np.asarray(-np.rint(2.0**RESIDUAL_BITS / (1 + np.exp(_margins()))), dtype=np.int64)


@cache
def _values() -> Ints:
    return np.asarray(
        np.minimum(np.rint(LOGISTIC.value(_margins()) * 2.0**COST_BITS), CEILING << COST_BITS), dtype=np.int64
    )


@cache
def _soft_slopes() -> Ints:
    return np.asarray(np.rint(2.0**RESIDUAL_BITS * LOG_COSH.derivatives(_margins(), None)[0]), dtype=np.int64)


@cache
def _soft_values() -> Ints:
    costs = np.rint(LOG_COSH.value(_margins(), None) * 2.0**COST_BITS)
    return np.asarray(np.minimum(costs, CEILING << COST_BITS), dtype=np.int64)


@dataclass(frozen=True)
class Sums:
    """What one pass adds up: minus the gradient in steps of 2^-60 (whole numbers), the Hessian, rows and parts."""

    pull: NDArray[Any]
    hessian: Floats
    count: int
    parts: int

    def error(self, length: float, loss: LossFunction = LOGISTIC) -> float:
        """How far ``pull`` may be from the true sum, for a parameter of this length."""
        return _summed(loss, len(self.pull), self.count, self.parts, length)


def _summed(loss: LossFunction, width: int, count: int, parts: int, length: float) -> float:
    """A score errs by (width + 2) of its last digits, a slope by that times the curvature and by its own rounding."""
    each = 1.2 * loss.smoothness * (width + 2) * length + 4 * _BLOCK * loss.steepness
    return count * UNIT * each + parts * math.sqrt(width) / SCALE


def rounding(width: int, count: int, length: float, ridge: float, linear: float) -> float:
    """How short a gradient doubles can certify at best over so many rows in memory, for a parameter of this length.

    The sums' own error, that of adding the ridge and a linear term of length ``linear``, and the parameter's last digit.
    """
    own = 8 * UNIT * (count + ridge * length + linear)
    digit = UNIT * (count * LOGISTIC.smoothness + ridge) * length
    return _summed(LOGISTIC, width, count, count // _CHUNK + 1, length) + own + digit


class Passes(Protocol):
    """Rows that can be passed over, each of length at most one and as its loss reads it."""

    @property
    def loss(self) -> LossFunction:
        """The loss that is summed."""

    def sums(self, theta: Floats, curved: bool = True) -> Sums:
        """The sums at a parameter, on doubles; without ``curved`` the Hessian is left zero."""

    def pull(self, theta: Point, digits: int) -> tuple[list[Decimal], int]:
        """Minus the exact gradient, to so many digits, and the number of rows."""


@dataclass(frozen=True)
class Memory:
    """Rows in memory in steps of 1/S, as the loss reads them: for the logistic one each times its label's sign, or ``signs`` beside
    rows as they are (the same sums, bit by bit; a sign of zero is a row that counts for nothing).

    ``weights`` between 0 and 1 say how much of its loss each counts, and rows are then counted by them: what a row adds errs
    by its weight's share, and ``Sums.error`` has room for one more rounding of the slope.
    """

    rows: Floats
    weights: Floats | None = None
    loss: LossFunction = LOGISTIC
    labels: Floats | None = None
    signs: Floats | None = None

    def sums(self, theta: Floats, curved: bool = True) -> Sums:
        """The sums at a parameter; a power of two scales exactly, so rows stay in steps of 1/S."""
        width, at = self.rows.shape[1], theta / SIZE
        pull, hessian = np.zeros(width, dtype=object), np.zeros((width, width))
        starts = range(0, len(self.rows), _CHUNK)
        for start in starts:
            v, labels, weights, signs = self._part(start)
            slopes, curves = self.loss.derivatives(v @ at if signs is None else (v @ at) * signs, labels)
            if signs is not None:
                slopes, curves = slopes * signs, curves * np.abs(signs)
            if weights is not None:
                slopes, curves = slopes * weights, curves * weights
            pull = pull - np.array([int(x) for x in np.rint(_added(slopes, v) * (SCALE / SIZE))], dtype=object)
            if curved:  # it steers, and certifies nothing: single precision will do
                roots = self.rows[start : start + _CHUNK] * np.sqrt(curves).astype(np.float32)[:, None]
                hessian += roots.T @ roots
        return Sums(pull, hessian / float(SIZE) ** 2, self.count, len(starts))

    def thinned(self, every: int) -> Memory:
        """Some of the rows, evenly spread."""
        labels, weights, signs = self._beside(slice(None, None, every))
        return Memory(np.ascontiguousarray(self.rows[::every]), weights, self.loss, labels, signs)

    def _part(self, start: int) -> tuple[Floats, Floats | None, Floats | None, Floats | None]:
        """Some rows in steps of 1/S, their labels, weights and signs."""
        here = slice(start, start + _CHUNK)
        return self.rows[here].astype(np.float64, copy=False), *self._beside(here)

    def _beside(self, here: slice) -> tuple[Floats | None, Floats | None, Floats | None]:
        labels, weights, signs = (None if own is None else own[here] for own in (self.labels, self.weights, self.signs))
        return labels, weights, signs

    def pull(self, theta: Point, digits: int) -> tuple[list[Decimal], int]:
        """The same in decimals; slow, and needed only where doubles cannot certify."""
        with localcontext() as context:
            context.prec = digits
            parameter = [decimal_of(x) for x in theta]
            total = [Decimal(0)] * self.rows.shape[1]
            beside = map(_each, (self.labels, self.weights, self.signs))
            for row, label, share, sign in zip(self.rows.tolist(), *beside, strict=False):
                v = [Decimal(int(x)) / SIZE * (1 if sign is None else sign) for x in row]
                score = sum((a * b for a, b in zip(v, parameter, strict=True)), Decimal(0))
                slope = self.loss.exact_slope(score, label) * (1 if share is None else share)
                total = [t - slope * a for t, a in zip(total, v, strict=True)]
            return total, self.count

    @property
    def count(self) -> int:
        """How many rows there are, or what they weigh together, rounded up."""
        return math.ceil(self.weight)

    @property
    def weight(self) -> float:
        """The same before it is rounded; no less than it is."""
        return float(len(self.rows) if self.weights is None else self.weights.sum() * (1 + 1e-9))


def _added(slopes: Floats, rows: Floats) -> Floats:
    """The sum of slopes times rows: blocks of 64 rows each, then the blocks, so that few roundings follow one another."""
    full = len(rows) - len(rows) % _BLOCK
    blocks = slopes[:full].reshape(-1, 1, _BLOCK) @ rows[:full].reshape(-1, _BLOCK, rows.shape[1])
    return np.asarray(blocks[:, 0].sum(axis=0) + slopes[full:] @ rows[full:])


def _each(values: Floats | None) -> Iterable[Decimal | None]:
    """Exact decimals, or None for ever."""
    return repeat(None) if values is None else map(Decimal, values.tolist())


def decimal_of(value: float | Decimal) -> Decimal:
    """The exact value of a double, or the decimal itself."""
    return value if isinstance(value, Decimal) else Decimal(float(value))
