"""What every metric is made of: labels made ready to judge predictions, and losses as whole numbers.

Law: each row is judged by one total function of its own label and prediction; errors depend on predictions and public facts.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.holdout._classes import Read
from steelyard.holdout._links import Link
from steelyard.privacy import Number, positive

SCALE = 2**30
Integers = NDArray[np.int64]


class Judge:
    """Labels made ready for one metric.

    ``read`` gives predictions in one canonical form, or an error that depends on them and on public facts alone;
    ``total`` is the sum over all rows of one whole number in 0..scale. Where a score is a mean over tuples of rows,
    ``draws`` is how many rows its interval counts and ``scale`` the largest total by that number. Where not the mean itself is
    shown but a rising function of it, ``link`` makes that function from the chance that any interval is wrong.
    """

    def __init__(
        self,
        rows: int,
        read: Callable[[Any], Any],
        total: Callable[[Any], int],
        draws: int | None = None,
        scale: int | None = None,
        link: Callable[[Fraction], Link] | None = None,
    ) -> None:
        self.rows, self.read, self.total = rows, read, total
        self.draws, self.scale, self.link = rows if draws is None else draws, scale, link

    def content(self, read: Any) -> NDArray[Any]:
        """The canonical form as an array: what names a question."""
        return read.content if isinstance(read, Read) else read


class Metric(Protocol):
    """How a prediction is judged; frozen, and public."""

    @property
    def scale(self) -> int:
        """The largest whole number of one row."""

    @property
    def upper(self) -> Fraction:
        """What ``scale`` stands for in the metric's own unit."""

    @property
    def higher_is_better(self) -> bool:
        """Which end is good."""

    def judge(self, labels: Any) -> Judge:
        """Make labels ready."""

    def __str__(self) -> str:
        """The metric and every parameter of it."""


def summed(losses: Callable[[Any], NDArray[Any]]) -> Callable[[Any], int]:
    """The total of what each row counts."""

    def total(read: Any) -> int:
        with np.errstate(all="ignore"):  # whatever the caller's settings: an overflow or underflow could tell a label
            return int(losses(read).sum(dtype=np.int64))

    return total


def whole_shares(shares: NDArray[np.float64]) -> Integers:
    """Shares of the range as whole numbers; what is no number counts as the worst."""
    clean = np.nan_to_num(shares, nan=1.0, posinf=1.0, neginf=0.0)
    return np.rint(np.clip(clean, 0.0, 1.0) * SCALE).astype(np.int64)


def read_cut(upper: Number) -> Fraction:
    """Where a loss is cut: a positive number that a float can be divided by."""
    cut = positive(upper, "upper")
    if not 1e-300 <= cut <= 10**300:
        raise InvalidTask(f"upper must lie between 1e-300 and 1e300; got {upper!r}.")
    return cut
