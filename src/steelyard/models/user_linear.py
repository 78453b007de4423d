"""Linear regression when all rows of a user are hidden: by two descents, or from one sum of the users' own statistics.

``UserSquares`` descends over clipped user gradients as logistic models do, and errs less or the same. For
``UserStatistics`` a user's products of features with each other and with the label are added up, divided by the root of
the user's rows and shortened to one; the sum over users is noised once and the normal equation solved, small eigenvalues
lifted to the size of the noise: one pass, no steps.
Law: what a user adds is a function of that user's rows alone, in exact integers (docs/proofs/user_statistics.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.errors import InvalidTask
from steelyard.models.columns import SIZE
from steelyard.models.method import Fitted
from steelyard.models.user_descents import TwoDescents
from steelyard.models.user_sums import ByUser, Floats, Ints, UserSum, check_micro
from steelyard.privacy import MICRO

if TYPE_CHECKING:
    from steelyard.models.rows import Rows
    from steelyard.noise import Noise
    from steelyard.privacy import Event

_CLIP = 1.0
_FLOOR = 2.0
_THETA_BITS, _RESIDUAL_BITS = 16, 14
_LARGEST = 4.0 * 2**_RESIDUAL_BITS


def statistics(rows: Rows) -> tuple[Floats, Floats]:
    """Each user's upper triangle of X'X followed by X'y, and its weight: one over the root of its rows.

    *Cost:* one pass for each product of two features; a number per user and product in memory.
    """
    if rows.users is None:
        raise InvalidTask("a fit per user needs to know whose row each one is.")
    by = ByUser(rows.users)
    columns = np.ascontiguousarray(rows.x[by.order].T.astype(np.int64))
    label = rows.y[by.order].astype(np.int64)
    width, people = len(columns), by.sizes.size
    found = np.zeros((people, width * (width + 3) // 2))
    if people:
        for place, (first, second) in enumerate(zip(*np.triu_indices(width), strict=True)):
            found[:, place] = np.add.reduceat(columns[first] * columns[second], by.starts[:-1])
        for place, column in enumerate(columns):
            found[:, place - width] = np.add.reduceat(column * label, by.starts[:-1])
    return found * SIZE**-2.0, 1 / np.sqrt(by.sizes.astype(float))


def solved(noisy: Floats, width: int, deviation: float) -> Floats:
    """The coefficients of a noisy normal equation: eigenvalues below the size of the noise are lifted to it."""
    matrix = np.zeros((width, width))
    matrix[np.triu_indices(width)] = noisy[:-width]
    matrix = matrix + np.triu(matrix, 1).T
    values, vectors = np.linalg.eigh(matrix)
    lifted = np.maximum(values, _FLOOR * deviation * math.sqrt(width))
    return np.asarray(vectors @ ((vectors.T @ noisy[-width:]) / lifted), dtype=float)


@dataclass(frozen=True)
class UserStatistics:
    """Linear regression per user for ``micro`` millionths of mu: one Gaussian release.

    *Privacy:* exactly mu-GDP for one user added or removed, with all its rows. *Accuracy:* users weigh by the root of
    their rows at most, so where heavy users differ from the others the fit is the others'. *Cost:* one pass for each
    product of two features.
    """

    micro: int

    def __post_init__(self) -> None:
        check_micro(self.micro)

    @property
    def event(self) -> Event:
        """One Gaussian release."""
        return self._sums.event

    def fit(self, rows: Rows, noise: Noise) -> Fitted:
        """Sum, noise, solve."""
        found, weights = statistics(rows)
        noisy = self._sums.release(found, _CLIP, noise, weights)
        deviation = _CLIP * MICRO / self.micro
        theta = solved(noisy, rows.x.shape[1], deviation)
        return Fitted(theta, {"clip": _CLIP, "noise": float(f"{deviation:.6g}")})

    @property
    def _sums(self) -> UserSum:
        return UserSum(self.micro**2)


@dataclass(frozen=True)
class Centred:
    """The rows user by user with their labels: whole numbers, as integers and as exact doubles."""

    by: ByUser
    whole: Ints
    floats: Floats
    labels: Floats
    curvature: float = 1.0

    @classmethod
    def of(cls, rows: Rows) -> Centred:
        """Sort the rows."""
        if rows.users is None:
            raise InvalidTask("a fit per user needs to know whose row each one is.")
        by = ByUser(rows.users)
        floats = rows.x[by.order]
        return cls(by, floats.astype(np.int64), floats, rows.y[by.order])

    def gradients(self, theta: Floats) -> Floats:
        """Each user's summed gradient of half the squared error; a row's residual is held within four half-ranges."""
        guessed = (self.floats @ np.rint(theta * 2.0**_THETA_BITS)) * 2.0**-_THETA_BITS
        residuals = np.rint((guessed - self.labels) * (2.0**_RESIDUAL_BITS / SIZE))
        sums = self.by.sums(np.clip(residuals, -_LARGEST, _LARGEST).astype(np.int64), self.whole)
        return np.asarray(sums * (1.0 / (SIZE << _RESIDUAL_BITS)), dtype=float)


@dataclass(frozen=True)
class UserSquares:
    """Linear regression per user for ``micro`` millionths of mu; ``public_rows`` is a row count declared by its owner.

    *Privacy:* exactly mu-GDP for one user added or removed, with all its rows; ``public_rows`` must not be computed from
    the table. *Accuracy:* ``details["warning"]`` says when a few heavy users may decide it. *Cost:* 80 passes over rows in
    memory.
    """

    micro: int
    public_rows: int | None = None

    def __post_init__(self) -> None:
        _ = self._rule

    @property
    def event(self) -> Event:
        """What is charged: it depends on ``micro`` alone."""
        return self._rule.event

    def fit(self, rows: Rows, noise: Noise) -> Fitted:
        """Sizes, pilot, main descent."""
        theta, _, details = self._rule.run(Centred.of(rows), rows.x.shape[1], noise)
        return Fitted(theta, details)

    @property
    def _rule(self) -> TwoDescents:
        return TwoDescents(self.micro, self.public_rows)
