"""Logistic regression when all rows of a user are hidden: two descents over clipped user gradients.

A row's gradient is a residual, read from a table of integers, times the row's integers; a user's is their exact sum. The
rest is ``user_descents``. In the end the model is shrunk by what could not be heard: heavy users who differ cannot be seen
at this level of privacy, and where they do, a confident model serves them worse than none.
Law: a user's integers do not depend on who else is there, nor on the order of rows (docs/proofs/user_descent.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from steelyard.errors import InvalidTask
from steelyard.models.columns import SIZE
from steelyard.models.method import Fitted
from steelyard.models.user_descents import TwoDescents
from steelyard.models.user_sums import ByUser, Floats, Ints

if TYPE_CHECKING:
    from steelyard.models.passes import Reading
    from steelyard.models.rows import Rows
    from steelyard.noise import Noise
    from steelyard.privacy import Event

_MARGIN_BITS, _RESIDUAL_BITS, _THETA_BITS = 10, 14, 16
_FURTHEST = 16 << _MARGIN_BITS


@cache
def residuals() -> Ints:
    """One over one plus e^margin in steps of 2^-14, for margins from -16 to 16 in steps of 2^-10.

    A table, because a library's exponential may round differently at the end of an array than inside it, and then a
    user's integers would depend on who else is there.
    """
    margins = np.arange(-_FURTHEST, _FURTHEST + 1) / 2.0**_MARGIN_BITS
    return np.rint(2.0**_RESIDUAL_BITS / (1 + np.exp(margins))).astype(np.int64)


@dataclass(frozen=True)
class Signed:
    """The rows user by user, each multiplied by its label's sign: whole numbers, as integers and as exact doubles."""

    by: ByUser
    whole: Ints
    floats: Floats
    curvature: float = 0.25

    @classmethod
    def of(cls, rows: Rows) -> Signed:
        """Sort and sign the rows; a label above zero is the positive class, a label of zero counts for nothing."""
        if rows.users is None:
            raise InvalidTask("a fit per user needs to know whose row each one is.")
        by = ByUser(rows.users)
        signed = rows.x[by.order] * np.sign(rows.y[by.order])[:, None]
        return cls(by, signed.astype(np.int64), signed)

    def gradients(self, theta: Floats) -> Floats:
        """Each user's summed gradient: the double nearest to an exact integer sum."""
        sums = self.by.sums(residuals()[self._places(theta)], self.whole)
        return np.asarray(sums * (-1.0 / (SIZE << _RESIDUAL_BITS)), dtype=float)

    def _places(self, theta: Floats) -> Ints:
        """Each row's margin as a place in the table; exact up to the one rounding, since sums stay below 2^53."""
        whole = np.rint(theta * 2.0**_THETA_BITS)
        margins = (self.floats @ whole) * (2.0 ** (_MARGIN_BITS - _THETA_BITS) / SIZE)
        return np.asarray(np.clip(np.rint(margins), -_FURTHEST, _FURTHEST) + _FURTHEST, dtype=np.int64)


@dataclass(frozen=True)
class UserDescent:
    """Logistic regression per user for ``micro`` millionths of mu; ``public_rows`` is a row count declared by its owner.

    *Privacy:* exactly mu-GDP for one user added or removed, with all its rows. ``public_rows`` must not be computed from
    the table: it sets clips, and a user's own rows would show in it. An old or rounded figure does as well.
    *Accuracy:* the loss of users who are few and heavy is not bounded by anything this can see; ``details["warning"]``
    says when that may matter. *Cost:* 80 passes over rows in memory.
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
        """Sizes, pilot, main descent, and a shrinking by what could not be heard."""
        theta, sizes, details = self._rule.run(Signed.of(rows), rows.x.shape[1], noise)
        return Fitted(sizes.trust * theta, {**details, "trust": float(f"{sizes.trust:.6g}")})

    def learn(self, data: Reading, target: int, noise: Noise) -> Fitted:
        """Fit one class in memory."""
        return self.fit(data.rows(target), noise)

    @property
    def _rule(self) -> TwoDescents:
        return TwoDescents(self.micro, self.public_rows)
