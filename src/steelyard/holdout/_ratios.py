"""F1, R2 and the root of the mean squared error: rising functions of a mean, with the interval of that mean.

F1 is a function of the share of true positives among the rows that are positive or called so; R2 of the squared error, with an
interval for the variance that was made when the holdout was opened. What is told of the labels then (how many are positive, how
they vary) is rounded to a grid of few values, each of which costs its nats. Proof: docs/proofs/ratios.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.holdout._classes import declared, numbers, one_per_row, two_classes
from steelyard.holdout._intervals import kl_chernoff
from steelyard.holdout._judge import SCALE, Integers, Judge, read_cut, summed, whole_shares
from steelyard.holdout._links import F1Link, Link, R2Link, RootLink
from steelyard.privacy import Number, exact

_RATIO = Fraction(7, 8)
_FINE, _LEAST = Fraction(63, 64), Fraction(1, 2**20)
_NOTHING = Fraction(1, 10**30)


def grid_below(value: Fraction, most: Fraction, ratio: Fraction, least: Fraction) -> tuple[Fraction, Fraction, int]:
    """The cell of a falling grid that holds a value: its lower and upper end, and how many cells there are.

    >>> grid_below(Fraction(3), Fraction(8), Fraction(1, 2), Fraction(1))
    (Fraction(2, 1), Fraction(4, 1), 3)
    """
    ends = [most]
    while ends[-1] > least:
        ends.append(Fraction(round(ends[-1] * ratio * 2**40), 2**40))
    upper = next((k for k in range(len(ends) - 1) if ends[k + 1] <= value), None)
    if upper is None:
        raise InvalidTask(
            "too few labels are positive, or they vary too little within their bounds, to certify such a score."
        )
    return ends[upper + 1], ends[upper], len(ends) - 1


@dataclass(frozen=True)
class RootSquaredError:
    """The root of the mean squared error (RMSE), each row's error cut at ``upper``."""

    upper: Fraction
    scale: int = field(default=SCALE, init=False)
    higher_is_better: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "upper", read_cut(self.upper))

    def judge(self, labels: Any) -> Judge:
        """Make labels ready."""
        truth, upper = numbers(labels, "labels"), float(self.upper)

        def losses(predicted: NDArray[np.float64]) -> Integers:
            return whole_shares((np.abs(predicted - truth) / upper) ** 2)

        return Judge(len(truth), one_per_row(len(truth)), summed(losses), link=lambda _: RootLink())

    def __str__(self) -> str:
        return f"rmse cut at {self.upper}"


@dataclass(frozen=True)
class F1Score:
    """F1 of the second class, in sorted order: 2 TP / (2 TP + FP + FN).

    *Accuracy:* the interval is that of about as many rows as are positive; it is for the population alone, and needs rows that are drawn
    alike. About how many rows are positive (to an eighth) becomes public, and is paid for in nats.
    """

    classes: tuple[Any, ...] | None = None
    scale: int = field(default=SCALE, init=False)
    upper: Fraction = field(default=Fraction(1), init=False)
    higher_is_better: bool = field(default=True, init=False)

    def judge(self, labels: Any) -> Judge:
        """Make labels ready."""
        held = two_classes(labels, self.classes, "f1")
        positive = held.codes == 1
        count, rows = int(np.count_nonzero(positive)), held.rows
        draws, _, cells = grid_below(Fraction(count), Fraction(rows), _RATIO, Fraction(1, 2))
        draws = Fraction(max(1, math.floor(draws)))
        whole = int(draws) * SCALE

        def total(codes: NDArray[np.int32]) -> int:
            called = codes == 1
            both = int(np.count_nonzero(called & positive))
            return both * whole // (int(np.count_nonzero(called)) + count - both)

        return Judge(rows, held.read_codes, total, int(draws), SCALE, lambda _: F1Link(math.log(cells)))

    def __str__(self) -> str:
        return f"f1{declared(self.classes)}"


@dataclass(frozen=True)
class R2Score:
    """R2 = 1 - E(y - prediction)^2 / Var(y), at least 0; labels and predictions are moved into [``low``, ``high``] first.

    *Accuracy:* the interval is for the population alone and needs rows that are drawn alike; it allows for the variance, too, which
    was estimated once. About how much labels vary (to a 64th) becomes public, and is paid for in nats.
    """

    low: Number
    high: Number
    scale: int = field(default=SCALE, init=False)
    upper: Fraction = field(default=Fraction(1), init=False)
    higher_is_better: bool = field(default=True, init=False)
    predicts: ClassVar[str] = "numbers"

    def __post_init__(self) -> None:
        low, high = exact(self.low, "low"), exact(self.high, "high")
        if not low < high or max(abs(low), abs(high)) > 10**150:
            raise InvalidTask(f"r2 needs public bounds of the label, low < high; got {self.low!r} and {self.high!r}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def judge(self, labels: Any) -> Judge:
        """Make labels ready."""
        truth = self._shares(numbers(labels, "labels"))
        rows = len(truth)

        def goods(predicted: NDArray[np.float64]) -> Integers:
            return np.asarray(SCALE - whole_shares((self._shares(predicted) - truth) ** 2))

        return Judge(rows, one_per_row(rows), summed(goods), link=_variance(truth))

    def _shares(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values as shares of the range between the bounds."""
        with np.errstate(all="ignore"):
            return np.clip((values - float(self.low)) / float(Fraction(self.high) - Fraction(self.low)), 0.0, 1.0)

    def __str__(self) -> str:
        return f"r2 between {self.low} and {self.high}"


def _variance(shares: NDArray[np.float64]) -> Any:
    """What makes the link of labels that vary so, given the chance that any interval is wrong.

    Half of that chance goes to the interval of the variance, whose unbiased estimate is a mean over pairs of rows.
    """
    whole = np.rint(shares * 2**20).astype(np.int64)
    rows, total = len(whole), int(whole.sum())
    squares = sum(int(part @ part) for part in np.array_split(whole, 1 + rows // 2**11))
    pairs = Fraction(2 * (rows * squares - total * total), max(1, rows * (rows - 1)) << 40)  # of (y - y')^2, in 0..1
    low, high, cells = grid_below(min(pairs, Fraction(1)), Fraction(1), _FINE, _LEAST)

    def link(beta: Fraction) -> Link:
        level, draws = math.log(beta / 2), max(1, rows // 2)
        ends = kl_chernoff(float(low), draws, level)[0], kl_chernoff(float(high), draws, level)[1]
        slack = Fraction(1, 2**18)  # labels were rounded to a millionth of the range
        least, most = (Fraction(ends[0]) - slack) / 2, (Fraction(ends[1]) + slack) / 2
        extra = math.log(cells) + math.log(2)
        return R2Link(
            extra, (low + high) / 4, max(least, _NOTHING), min(most, Fraction(1, 4))
        )  # none varies more than a coin

    return link
