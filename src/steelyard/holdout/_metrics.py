"""Scores that are means over examples, as exact integers: each row counts a whole number from 0 to ``scale``.

The interval of a mean holds for bounded independent rows, and one label moves the score by at most one row's share. AUC and
balanced accuracy are means over tuples with a row of each class: their interval is that of as many independent rows as the
rarest class has (docs/proofs/tuples.md). F1, R2 and the root of a squared error are rising functions of a mean (``_ratios``).
An unclipped loss has no bound at all: one log-loss value with five decimals gives away a dozen labels. Law: each row is judged by one total function of its own
label and prediction, whatever the other rows hold; errors depend on the predictions and on public facts, never on a
label.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.holdout._classes import (
    ClassLabels,
    Packed,
    Read,
    class_array,
    declared,
    differing,
    need_classes,
    numbers,
    one_per_row,
    probabilities,
    settled_classes,
    settled_numbers,
    two_classes,
)
from steelyard.holdout._judge import SCALE, Integers, read_cut, summed, whole_shares
from steelyard.holdout._judge import Judge as Judge
from steelyard.holdout._judge import Metric as Metric
from steelyard.holdout._ratios import F1Score, R2Score, RootSquaredError
from steelyard.holdout._rows import known_by, loss_of, one_by_one, quietly
from steelyard.privacy import Number


@dataclass(frozen=True)
class Accuracy:
    """The share of rows whose class is predicted (``error=True``: is not predicted).

    ``classes`` declares the classes: a prediction outside them is refused, and with two of them predictions may be
    packed. Without them such a prediction counts as wrong, because an error would tell which classes occur among the
    labels.
    """

    classes: tuple[Any, ...] | None = None
    error: bool = False
    scale: int = field(default=1, init=False)
    upper: Fraction = field(default=Fraction(1), init=False)

    @property
    def higher_is_better(self) -> bool:
        """Accuracy is, error is not."""
        return not self.error

    def judge(self, labels: Any) -> Judge:
        """Make labels ready."""
        held, error = ClassLabels(labels, self.classes), self.error

        def total(read: Read) -> int:
            if isinstance(read.compared, Packed) and held.packed is not None:
                wrong = differing(read.compared, held.packed)
            else:
                wrong = held.rows - int(np.count_nonzero(read.compared == held.codes))
            return wrong if error else held.rows - wrong

        return Judge(held.rows, held.read, total)

    def __str__(self) -> str:
        return ("error" if self.error else "accuracy") + declared(self.classes)


@dataclass(frozen=True)
class Cost:
    """The mean cost of predicting class j where class i is right: ``matrix[i][j]`` >= 0; the largest is ``upper``."""

    matrix: tuple[tuple[Number, ...], ...]
    classes: tuple[Any, ...]
    scale: int = field(default=SCALE, init=False)
    higher_is_better: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        cells = [cell for row in self._exact() for cell in row]
        square = len(self.matrix) == len(self.classes) and all(len(row) == len(self.classes) for row in self.matrix)
        if not square or not cells or min(cells) < 0 or max(cells) <= 0:
            raise InvalidTask("a cost matrix is square, one row and column per class, with costs >= 0, some above 0.")

    def _exact(self) -> list[list[Fraction]]:
        return [[Fraction(str(cell)) for cell in row] for row in self.matrix]

    @property
    def upper(self) -> Fraction:
        """The largest cost."""
        return max(cell for row in self._exact() for cell in row)

    def judge(self, labels: Any) -> Judge:
        """Make labels ready."""
        scaled = [[round(cell / self.upper * self.scale) for cell in row] for row in self._exact()]
        held = ClassLabels(labels, self.classes, sort=False)
        return Judge(held.rows, held.read_codes, summed(lambda read: np.array(scaled)[held.codes, read]))

    def __str__(self) -> str:
        return f"cost {self.matrix}{declared(self.classes)}"


@dataclass(frozen=True)
class Brier:
    """The mean squared difference between the probability of the second class, in sorted order, and what happened."""

    classes: tuple[Any, ...] | None = None
    scale: int = field(default=SCALE, init=False)
    upper: Fraction = field(default=Fraction(1), init=False)
    higher_is_better: bool = field(default=False, init=False)

    def judge(self, labels: Any) -> Judge:
        """Make labels ready."""
        held = two_classes(labels, self.classes, "brier")
        truth = held.codes.astype(np.float64)
        return Judge(held.rows, probabilities(held.rows, None), summed(lambda p: whole_shares((p - truth) ** 2)))

    def __str__(self) -> str:
        return f"brier{declared(self.classes)}"


@dataclass(frozen=True)
class AUC:
    """The chance that a row of the second class, in sorted order, has a higher score than one of the first; ties count half.

    Predictions are scores: finite numbers, of any size. *Accuracy:* the interval is that of as many rows as the rarer class
    has; it is for the population alone, and needs rows that are drawn alike. How many rows each class has becomes public.
    """

    classes: tuple[Any, ...] | None = None
    scale: int = field(default=2, init=False)
    upper: Fraction = field(default=Fraction(1), init=False)
    higher_is_better: bool = field(default=True, init=False)
    predicts: ClassVar[str] = "scores"

    def judge(self, labels: Any) -> Judge:
        """Make labels ready."""
        held = two_classes(labels, self.classes, "auc")
        second = held.codes == 1
        counts = (int(np.count_nonzero(~second)), int(np.count_nonzero(second)))
        few, many = _of_each(counts)

        def total(scores: NDArray[np.float64]) -> int:
            below, above = np.sort(scores[~second]), scores[second]
            wins = np.searchsorted(below, above, "left").sum(dtype=np.int64)
            return int(
                wins + np.searchsorted(below, above, "right").sum(dtype=np.int64)
            )  # each tie is in one of the two

        return Judge(held.rows, one_per_row(held.rows), total, few, 2 * many)

    def __str__(self) -> str:
        return f"auc{declared(self.classes)}"


@dataclass(frozen=True)
class BalancedAccuracy:
    """The mean over classes of the share of their rows that is predicted; ``classes`` must be declared.

    *Accuracy:* the interval is that of as many rows as the rarest class has; it is for the population alone, and needs rows that are
    drawn alike. How many rows each class has becomes public.
    """

    classes: tuple[Any, ...] | None = None
    scale: int = field(default=2, init=False)
    upper: Fraction = field(default=Fraction(1), init=False)
    higher_is_better: bool = field(default=True, init=False)

    def judge(self, labels: Any) -> Judge:
        """Make labels ready."""
        held = ClassLabels(labels, need_classes(self.classes, "balanced accuracy"))
        counts = [int(count) for count in np.bincount(held.codes, minlength=len(held.classes))]
        few, _ = _of_each(counts)
        together = math.lcm(*counts)

        def total(codes: NDArray[np.int32]) -> int:
            right = np.bincount(held.codes[codes == held.codes], minlength=len(counts))
            return sum(int(hits) * (together // count) for hits, count in zip(right, counts, strict=True))

        return Judge(held.rows, held.read_codes, total, few, len(counts) * together // few)

    def __str__(self) -> str:
        return f"balanced accuracy{declared(self.classes)}"


def _of_each(counts: Sequence[int]) -> tuple[int, int]:
    """The least and the largest number of rows that a class has; refused where one has none."""
    if min(counts) == 0:
        raise InvalidTask("a score over tuples with a row of each class needs labels of every declared class.")
    return min(counts), max(counts)


@dataclass(frozen=True)
class LogLoss:
    """The mean of -ln of the probability given to the right class, each row cut at ``upper``.

    ``classes`` must be declared, here or to the holdout. Two: the probability of the second. More: a matrix with one
    column per class, in sorted order.
    """

    upper: Fraction
    classes: tuple[Any, ...] | None = None
    scale: int = field(default=SCALE, init=False)
    higher_is_better: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "upper", read_cut(self.upper))

    def judge(self, labels: Any) -> Judge:
        """Make labels ready."""
        held = ClassLabels(labels, need_classes(self.classes, "log loss"))
        columns = None if len(held.classes) == 2 else len(held.classes)
        places, upper = np.arange(held.rows), float(self.upper)

        def losses(read: NDArray[np.float64]) -> Integers:
            right = np.where(held.codes == 1, read, 1 - read) if columns is None else read[places, held.codes]
            return whole_shares(-np.log(right) / upper)

        return Judge(held.rows, probabilities(held.rows, columns), summed(losses))

    def __str__(self) -> str:
        return f"log loss cut at {self.upper}{declared(self.classes)}"


@dataclass(frozen=True)
class AbsoluteError:
    """The mean absolute difference, each row cut at ``upper``."""

    upper: Fraction
    scale: int = field(default=SCALE, init=False)
    higher_is_better: bool = field(default=False, init=False)
    power = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "upper", read_cut(self.upper))

    def judge(self, labels: Any) -> Judge:
        """Make labels ready."""
        truth, upper, power = numbers(labels, "labels"), float(self.upper), self.power
        read = one_per_row(len(truth))

        def losses(predicted: NDArray[np.float64]) -> Integers:
            return whole_shares(np.abs(predicted - truth) ** power / upper)

        return Judge(len(truth), read, summed(losses))

    def __str__(self) -> str:
        return f"{type(self).__name__} cut at {self.upper}"


@dataclass(frozen=True)
class SquaredError(AbsoluteError):
    """The mean squared difference, each row's square cut at ``upper``."""

    power = 2


@dataclass(frozen=True)
class PerExample:
    """The mean of your own ``function(label, prediction)``, called for each row by itself and cut to [0, ``upper``].

    It gets each label as the list or column holds it, and an item of the array where labels are an array; it must be a
    function of the two, remembering nothing. A holdout is bound to the function's ``version``, if you give one, else to
    its compiled code, which another Python compiles differently; neither sees what the function reads from elsewhere.
    *Accuracy:* a row for which the function fails or gives no number counts ``upper``: an error could tell a label.
    """

    function: Callable[[Any, Any], float]
    upper: Fraction
    scale: int = field(default=SCALE, init=False)
    higher_is_better: bool = False
    version: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "upper", read_cut(self.upper))

    def known_by(self) -> str:
        """What a holdout is bound to beside the metric's text: the version, else a digest of the compiled code."""
        return f"version {self.version}" if self.version is not None else known_by(self.function)

    def judge(self, labels: Any) -> Judge:
        """Make labels ready."""
        held, upper = one_by_one(labels), float(self.upper)
        if held.ndim < 1 or len(held) == 0:
            raise InvalidTask("the holdout has no labels.")

        def losses(read: NDArray[Any]) -> Integers:
            with quietly():
                return whole_shares(
                    np.array([loss_of(self.function, a, b) for a, b in zip(held, read, strict=True)]) / upper
                )

        return Judge(len(held), one_per_row(len(held), exactly=False), summed(losses))

    def __str__(self) -> str:
        return f"{self.function.__qualname__} cut at {self.upper}"


NAMED: dict[str, Metric] = {
    "accuracy": Accuracy(), "error": Accuracy(error=True), "brier": Brier(), "auc": AUC(), "balanced_accuracy": BalancedAccuracy(),
    "f1": F1Score(),
}  # fmt: skip
_ALSO = {
    "balanced accuracy": "balanced_accuracy",
    "roc_auc": "auc",
    "roc_auc_score": "auc",
    "balanced_accuracy_score": "balanced_accuracy",
    "f1_score": "f1",
}
FOR_POPULATION = (AUC, BalancedAccuracy, F1Score, R2Score)
"""Scores whose truth is the population's alone: they compare rows with each other."""

_CUT = {
    "log_loss": "LogLoss(upper=3)", "neg_log_loss": "LogLoss(upper=3)", "absolute_error": "AbsoluteError(upper=...)",
    "mean_absolute_error": "AbsoluteError(upper=...)", "mae": "AbsoluteError(upper=...)", "mse": "SquaredError(upper=...)",
    "squared_error": "SquaredError(upper=...)", "mean_squared_error": "SquaredError(upper=...)",
    "rmse": "RootSquaredError(upper=...)", "root_mean_squared_error": "RootSquaredError(upper=...)",
    "r2": "R2Score(low=..., high=...)", "r2_score": "R2Score(low=..., high=...)",
}  # fmt: skip
_NO_MEANS = (
    "average_precision", "f1_macro", "f1_micro", "precision", "recall", "matthews_corrcoef", "mcc", "kappa", "ndcg", "spearman", "pearson",
)  # fmt: skip


def find_metric(metric: str | Metric, classes: Sequence[Any] | None = None) -> Metric:
    """The metric of this name, or the metric itself, of these classes; what cannot be certified is refused.

    >>> str(find_metric("accuracy"))
    'accuracy'
    """
    if isinstance(metric, str):
        metric = _named(metric)
    elif not hasattr(metric, "judge"):
        raise InvalidTask(f"a metric is a name or an object such as LogLoss(upper=3); got {type(metric).__name__}.")
    if classes is None:
        return metric
    return _declare(metric, tuple(each.item() if isinstance(each, np.generic) else each for each in classes))


def _declare(metric: Any, classes: tuple[Any, ...]) -> Metric:
    if not hasattr(metric, "classes"):
        raise InvalidTask(f"classes= is for scores of classes; {metric} compares numbers.")
    if metric.classes not in (None, classes):
        raise InvalidTask(f"the metric's own classes are {list(metric.classes)}; classes= says {list(classes)}.")
    return cast(Metric, replace(metric, classes=classes))


def refuse_fractions(labels: Any, metric: Any) -> None:
    """Labels with fractions are amounts, which predictions hardly ever equal: a share of those that do says nothing."""
    if not isinstance(metric, Accuracy) or metric.classes is not None:
        return
    given = class_array(labels, "labels")
    if given.dtype.kind == "f" and bool(np.any(np.isfinite(given) & (given != np.rint(given)))):
        raise InvalidTask(
            f"the labels are numbers with fractions, and {metric} counts predictions that equal them: score them as numbers, such as "
            "metric=SquaredError(upper=...), or say with classes=[...] that these numbers are classes. Nothing was opened."
        )


def settled(labels: Any, metric: Any, mode: str) -> Any:
    """Labels for a mode that hides them: one that does not fit becomes a fixed public value and no error."""
    if isinstance(metric, Accuracy | Cost | Brier | LogLoss):
        if metric.classes is None:
            raise InvalidTask(
                f"mode {mode!r} hides labels, and which of them occur would show in what it refuses: declare what they "
                "may be, such as classes=[0, 1] (--classes 0,1)."
            )
        return settled_classes(labels, metric.classes)
    if isinstance(metric, AbsoluteError):
        return settled_numbers(labels)
    if isinstance(metric, PerExample):
        return labels  # judged row by row, and a row that fits nothing counts upper
    if isinstance(metric, (*FOR_POPULATION, RootSquaredError)):
        raise InvalidTask(
            f"mode {mode!r} hides labels, and one label moves {metric} by more than a row's share. Use mode='certified', 'ladder' or "
            "'rounds', or accuracy."
        )
    raise InvalidTask(
        f"mode {mode!r} hides labels, and nobody has shown that {metric} judges each of them by itself: say it as "
        "PerExample(function, upper=...)."
    )


def _named(metric: str) -> Metric:
    metric = _ALSO.get(metric, metric)
    if metric in NAMED:
        return NAMED[metric]
    if metric in _CUT:
        raise InvalidTask(
            f"{metric!r} has no bound, and one row without a bound can give the labels away: say where to cut it, with "
            f"metric=steelyard.holdout.{_CUT[metric]}."
        )
    if metric.lower() in _NO_MEANS:
        raise InvalidTask(
            f"{metric!r} is no mean over examples: one label can move it by more than 1/n, and the interval of a mean "
            f"does not hold for it. Use {_listed(NAMED)}, LogLoss, Cost, AbsoluteError, SquaredError, RootSquaredError, R2Score or PerExample."
        )
    raise InvalidTask(f"there is no metric {metric!r}; the named ones are {_listed(NAMED)}.")


def _listed(names: Sequence[str] | dict[str, Metric]) -> str:
    return ", ".join(repr(name) for name in names)
