"""PrivateScaler: ranges of columns bought as private quantiles, so that features have bounds without guessing them.

StandardScaler and MinMaxScaler read means and extremes off the rows, which is not free. Here each column's low and high
quantile are chosen by the exponential mechanism on ranks between declared outer bounds, on a grid that is fine near
zero and coarse far out (even steps of arcsinh), and the columns are mapped to [-1, 1] by them. Each column is one
charge; together they cost no more than epsilon. Proof: docs/proofs/scaler.md.
Law: what ``transform`` does to a row depends on the released ranges and that row alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.account import Account
from steelyard.bounding import Quantile, Spend, bound
from steelyard.errors import EngineMissing, InvalidTask
from steelyard.models._estimator import Payment, PrivateEstimator, features_of
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Loss, Number, Terms, positive
from steelyard.release import Release

try:
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None

STEPS = 4000
"""How many steps the grid has between the outer bounds."""

Floats = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class PrivateScaler(PrivateEstimator, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Maps every column to [-1, 1] by a private range of its values; what lies outside is moved to the nearest end.

    ``bounds`` are the public outer bounds that no value worth telling apart exceeds: one pair for all columns, or one
    for each; generous ones cost little. ``resolution`` is the smallest difference worth telling apart near zero (a
    millionth of the outer bounds by default). With users, ``cap`` is the most rows one user may count for. *Privacy:*
    epsilon in all, in equal shares per column, charged to ``account`` (give the same one to the model: both are added
    up there) or to one in memory. *Accuracy:* rows of the result are no longer than ``x_bound_``. A column that varies by
    less than about a hundredth of its values wants bounds of its own, near its values: between (900, 1100) the grid's
    steps are small. With generous bounds and few rows the range is too wide: the column is then small, not wrong.

    >>> X = np.random.default_rng(0).normal(size=(2000, 2)) * [1, 100]
    >>> scaler = PrivateScaler(epsilon=4, bounds=(-10_000, 10_000)).fit(X)
    >>> bool(np.abs(scaler.transform(X)).max() == 1) and scaler.x_bound_ == 2**0.5
    True
    """

    epsilon: Number = 1.0
    quantiles: Sequence[Number] = (0.01, 0.99)
    account: Account | None = None
    _: KW_ONLY
    bounds: Any = (-1_000_000, 1_000_000)
    resolution: Number | None = None
    cap: int | None = None
    delta: Number | None = None
    noise: Noise | None = None

    def fit(self, X: Any, y: Any = None, users: Any = None) -> PrivateScaler:
        """Buy the range of every column; ``y`` is not looked at."""
        values = features_of(self, X, reset=True)
        payment = Payment.read(self.account, self.epsilon, self.delta, users)
        grids = [_Grid(*pair, self.resolution) for pair in _pairs(self.bounds, values.shape[1])]
        share = share_of(self.epsilon, payment.account.terms, len(grids))
        tasks = [
            grid.task(column, self.quantiles, self.cap, share)
            for grid, column in zip(grids, payment.features(len(grids), 1, "clip", False).source, strict=True)
        ]
        with np.errstate(all="ignore"):
            placed = np.column_stack([grid.place(column) for grid, column in zip(grids, values.T, strict=True)])
        session = payment.session(self.noise, placed, np.zeros(len(placed)), users)
        for task in tasks:
            session.quote(task)  # whatever is wrong with any column is said before the first is paid for
        self.releases_: list[Release] = [session.release(task) for task in tasks]
        ranges = [grid.back(*release.value) for grid, release in zip(grids, self.releases_, strict=True)]
        self.low_, self.high_ = (np.array(side) for side in zip(*ranges, strict=True))
        self.account_, self.note_, self.x_bound_ = payment.account, payment.note, math.sqrt(len(grids))
        first = self.releases_[0].guarantee
        spent = sum((release.guarantee.spent for release in self.releases_), Loss.zero(first.spent.currency))
        self.guarantee_ = replace(first, spent=spent)
        return self

    def transform(self, X: Any) -> Floats:
        """Every column between -1 and 1; a missing value stays missing."""
        check_is_fitted(self, "low_")
        values = features_of(self, X, reset=False)
        middle, half = self.low_ / 2 + self.high_ / 2, self.high_ / 2 - self.low_ / 2
        with np.errstate(all="ignore"):
            return np.asarray(np.clip((values - middle) / half, -1.0, 1.0))


class _Grid:
    """The public grid of one column: even steps of arcsinh(value / resolution) between the outer bounds."""

    def __init__(self, lower: Number, upper: Number, resolution: Number | None) -> None:
        low, high = bound(lower, "bounds"), bound(upper, "bounds")
        if not low < high:
            raise InvalidTask(f"bounds must be public outer bounds with lower < upper; got ({lower}, {upper}).")
        finest = (high - low) / 10**6 if resolution is None else positive(resolution, "resolution")
        if not (high - low) / 10**12 <= finest < high - low:
            raise InvalidTask(
                "resolution must be below the width of the bounds, and not below a million-millionth of it."
            )
        self.unit = float(finest)
        ends = [math.asinh(float(side) / self.unit) for side in (low, high)]
        # the ends rounded outward to short decimals, so that the request reads the same on every machine
        self.low, self.high = (Fraction(math.floor(ends[0] * 1000), 1000), Fraction(math.ceil(ends[1] * 1000), 1000))

    def task(self, column: str, quantiles: Sequence[Number], cap: int | None, share: dict[str, Any]) -> Quantile:
        """The purchase of one column's range."""
        if not hasattr(quantiles, "__len__") or len(quantiles) != 2:
            raise InvalidTask(f"quantiles must be a low and a high one, such as (0.01, 0.99); got {quantiles!r}.")
        resolution = (self.high - self.low) / STEPS
        both = tuple(quantiles)
        return Quantile(
            column, quantile=both, lower=self.low, upper=self.high, cap=cap, resolution=resolution, interval=False, **share
        )  # fmt: skip

    def place(self, values: Floats) -> Floats:
        """Values on the grid's own scale."""
        return np.arcsinh(values / self.unit)

    def back(self, low: float, high: float) -> tuple[float, float]:
        """A released range as values, at least one resolution wide."""
        ends = sorted(math.sinh(side) * self.unit for side in (low, high))
        short = max(self.unit - (ends[1] - ends[0]), 0.0)
        return ends[0] - short / 2, ends[1] + short / 2


def share_of(epsilon: Number, terms: Terms, columns: int) -> dict[str, Any]:
    """What one of several equal purchases may spend, so that all of them together cost no more than epsilon."""
    plain = replace(terms, unit=replace(terms.unit, neighbours=type(terms.unit.neighbours)("add-remove"), n=None))
    whole = Spend.read(epsilon, None, plain)
    each = math.isqrt(whole.micro**2 // columns) if whole.gaussian else whole.micro // columns
    if each < 1:
        raise InvalidTask(f"epsilon is too little to share between {columns} columns.")
    return {"mu" if whole.gaussian else "epsilon": Fraction(each, MICRO)}


def _pairs(bounds: Any, columns: int) -> list[tuple[Number, Number]]:
    try:
        given = list(bounds)
        pairs = (
            [tuple(each) for each in given] if any(hasattr(e, "__len__") for e in given) else [tuple(given)] * columns
        )
    except TypeError:
        pairs = []
    if len(pairs) != columns or any(len(pair) != 2 for pair in pairs):
        raise InvalidTask(f"bounds must be one (lower, upper) for all columns, or one for each of the {columns}.")
    return [(low, high) for low, high in pairs]
