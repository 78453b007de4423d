"""Linear regression per user from one sum of the users' own statistics, to compare the descents of the package with.

A user's products of features with each other and with the label are added up, divided by the root of the user's rows and
shortened to one; the sum over users is noised once and the normal equation solved, small eigenvalues lifted to the size of
the noise: one pass, no steps. ``UserDescent`` errs less or the same, so the package does not offer this.
Privacy: one release of ``UserSum``, so mu-GDP with mu = micro/10^6 for one user added or removed, whatever its rows: what a
user adds is a function of that user's rows alone, made of exact integers and shortened to the clip before users are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.errors import InvalidTask
from steelyard.models._columns import SIZE
from steelyard.models._rows import Fitted
from steelyard.models._user_sums import Floats, UserSum, check_micro, whole
from steelyard.privacy import MICRO

if TYPE_CHECKING:
    from steelyard.models._passes import Training
    from steelyard.models._rows import Rows
    from steelyard.noise import Noise
    from steelyard.privacy import Event

_CLIP = 1.0
_FLOOR = 2.0


def statistics(rows: Rows) -> tuple[Floats, Floats]:
    """Each user's upper triangle of X'X followed by X'y, and its weight: one over the root of its rows.

    *Cost:* one pass for each product of two features; a number per user and product in memory.
    """
    if rows.users is None:
        raise InvalidTask("a fit per user needs to know whose row each one is.")
    order = np.argsort(rows.users, kind="stable")
    owners = rows.users[order]
    starts = np.flatnonzero(np.r_[np.ones(min(owners.size, 1), bool), owners[1:] != owners[:-1]])
    sizes = np.diff(np.append(starts, owners.size))
    columns = np.ascontiguousarray(rows.x[order].T.astype(np.int64))
    label = rows.y[order].astype(np.int64)
    width, people = len(columns), sizes.size
    found = np.zeros((people, width * (width + 3) // 2))
    if people:
        for place, (first, second) in enumerate(zip(*np.triu_indices(width), strict=True)):
            found[:, place] = np.add.reduceat(columns[first] * columns[second], starts)
        for place, column in enumerate(columns):
            found[:, place - width] = np.add.reduceat(column * label, starts)
    return found * SIZE**-2.0, 1 / np.sqrt(sizes.astype(float))


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

    def fit(self, data: Training, noise: Noise) -> Fitted:
        """Sum, noise, solve."""
        rows = data.rows()
        found, weights = statistics(rows)
        noisy = self._sums.release(whole(found, _CLIP, weights).sum(axis=0), _CLIP, noise)
        deviation = _CLIP * MICRO / self.micro
        theta = solved(noisy, rows.x.shape[1], deviation)
        return Fitted(theta, {"clip": _CLIP, "noise": float(f"{deviation:.6g}")})

    @property
    def _sums(self) -> UserSum:
        return UserSum(self.micro**2)
