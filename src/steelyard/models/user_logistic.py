"""Logistic regression when all rows of a user are hidden: two descents over clipped user gradients.

The pilot weighs a user's gradient by one over the root of its rows: for users who are alike its length is then the same
whatever their rows, so one clip fits all without looking. The main descent starts there and gives each row full weight,
clipped as far out as the noise allows, so that heavy users who differ are heard too. What the clips need to know is
bought first, with a few hundredths of the budget (``user_auto``), and so is how far the model may be trusted.
Law: a user's gradient is a function of that user's rows and of earlier releases, in exact integers (docs/proofs/user_descent.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.accounting.prices import composed, steps
from steelyard.errors import InvalidTask
from steelyard.models.columns import SIZE
from steelyard.models.method import Fitted
from steelyard.models.user_auto import Cells, Sizes, read_sizes
from steelyard.models.user_sums import ByUser, Floats, Ints, UserSum, check_micro, units_of
from steelyard.privacy import MICRO

if TYPE_CHECKING:
    from steelyard.models.rows import Rows
    from steelyard.noise import Noise
    from steelyard.privacy import Event

_STEPS = 40
_PILOT_AVERAGED, _MAIN_AVERAGED = 20, 30
# Shares of mu squared: histogram of rows, capped sums, pilot, main descent.
_SHARES = tuple(Fraction(share, 1000) for share in (40, 40, 184, 736))
_COUNTS = (1, 1, _STEPS, _STEPS)
_PILOT_CLIP, _MAIN_CLIP = 0.015, 0.025
_RADIUS = 2.0**9
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

    @classmethod
    def of(cls, rows: Rows) -> Signed:
        """Sort and sign the rows; a label above zero is the positive class."""
        if rows.users is None:
            raise InvalidTask("a fit per user needs to know whose row each one is.")
        by = ByUser(rows.users)
        signed = rows.x[by.order] * np.where(rows.y[by.order] > 0, 1.0, -1.0)[:, None]
        return cls(by, signed.astype(np.int64), signed)

    def places(self, theta: Floats) -> Ints:
        """Each row's margin as a place in a table; exact up to the one rounding, since sums stay below 2^53."""
        whole = np.rint(theta * 2.0**_THETA_BITS)
        margins = (self.floats @ whole) * (2.0 ** (_MARGIN_BITS - _THETA_BITS) / SIZE)
        return np.asarray(np.clip(np.rint(margins), -_FURTHEST, _FURTHEST) + _FURTHEST, dtype=np.int64)

    def gradients(self, theta: Floats) -> Floats:
        """Each user's summed gradient: the double nearest to an exact integer sum."""
        sums = self.by.sums(residuals()[self.places(theta)], self.whole)
        return np.asarray(sums * (-1.0 / (SIZE << _RESIDUAL_BITS)), dtype=float)


@dataclass(frozen=True)
class Descent:
    """One descent of ``_STEPS`` noisy steps: the sum it pays with, the clip, and what sums are divided by."""

    sums: UserSum
    clip: float
    size: float
    averaged: int
    weights: Floats | None = None

    def run(self, data: Signed, theta: Floats, noise: Noise) -> Floats:
        """The mean of the last iterates; heavy-ball steps."""
        width = theta.size
        rate = min(8.0, 0.8 * width)
        keep = min(0.9, max(0.0, 1 - rate / (0.8 * width)))
        speed, late = np.zeros(width), []
        for _ in range(_STEPS):
            slope = self.sums.release(data.gradients(theta), self.clip, noise, self.weights) / self.size
            speed = keep * speed - rate * slope
            theta = _inside(theta + speed)
            late.append(theta)
        return np.asarray(np.mean(late[-self.averaged :], axis=0), dtype=float)


def root_weights(sizes: Ints) -> Floats:
    """One over the root of each user's own rows."""
    return np.asarray(1 / np.sqrt(sizes.astype(float)))


def _inside(theta: Floats) -> Floats:
    """Held in a ball in which margins stay exact; released numbers, so no cost."""
    length = math.sqrt(float((theta * theta).sum()))
    return theta * (_RADIUS / length) if length > _RADIUS else theta


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
        check_micro(self.micro, _SHARES, _COUNTS)
        if self.public_rows is not None and (not isinstance(self.public_rows, int) or self.public_rows < 1):
            raise InvalidTask(f"public_rows must be a whole number of rows of at least 1; got {self.public_rows!r}.")

    @property
    def event(self) -> Event:
        """Eighty-two Gaussian releases, of which only what a grid step is worth depends on what came before."""
        cells, sums, pilot, main = self._stages
        return composed(cells.mechanism.event, sums.event, steps(pilot.event, _STEPS), steps(main.event, _STEPS))

    def fit(self, rows: Rows, noise: Noise) -> Fitted:
        """Sizes, pilot, main descent, and a shrinking by what could not be heard."""
        cells, sums, pilot, main = self._stages
        data = Signed.of(rows)
        mu = self.micro / MICRO
        sizes = read_sizes(data.by.sizes, cells, sums, mu, self.public_rows, noise)
        width = rows.x.shape[1]
        early = min(1.0, _PILOT_CLIP * mu * float(_SHARES[2]) ** 0.5 * sizes.roots / width)
        late = _MAIN_CLIP * mu * float(_SHARES[3]) ** 0.5 * sizes.middle / width
        theta = Descent(pilot, early, sizes.roots, _PILOT_AVERAGED, root_weights(data.by.sizes)).run(
            data, np.zeros(width), noise
        )
        theta = Descent(main, late, sizes.middle, _MAIN_AVERAGED).run(data, theta, noise)
        return Fitted(sizes.trust * theta, self._details(sizes, early, late))

    @property
    def _stages(self) -> tuple[Cells, UserSum, UserSum, UserSum]:
        counts, *others = units_of(self.micro, _SHARES, _COUNTS)
        sums, pilot, main = (UserSum(units) for units in others)
        return Cells(counts), sums, pilot, main

    @staticmethod
    def _details(sizes: Sizes, early: float, late: float) -> dict[str, Any]:
        clips = {"pilot_clip": early, "clip": late, "trust": sizes.trust}
        found = {**sizes.details(), **{name: float(f"{value:.6g}") for name, value in clips.items()}}
        return found if sizes.warning is None else {**found, "warning": sizes.warning}
