"""Models that hide all rows of a user: two descents over clipped user gradients, for any loss; or a cap on rows.

A row's gradient is a residual in whole numbers times the row's integers; a user's is their exact sum. The pilot weighs a
user's gradient by one over the root of its rows: for users who are alike its length is then the same whatever their rows,
so one clip fits all without looking. The main descent starts there and gives each row full weight, clipped as far out as
the noise allows, so that heavy users who differ are heard too. What the clips need to know is bought first, with a few
hundredths of the budget (``user_sums``). In the end a classifier is shrunk by the share of rows that could not be heard:
heavy users may differ, and where they do, a confident model serves them worse than none.
``CappedFit`` instead keeps at most so many rows of each user and fits those by a row-level method: rows are chosen by a digest
of their own content, keyed with a secret from the noise source, as good as drawn at random to whoever does not know it. One user
is then a group of at most ``cap`` rows. It treats heavy users as if they were light ones; where they differ, descents hear more.
Law: a user's gradient is a function of that user's rows and of earlier releases, in exact integers; which rows of a user are
kept depends on those rows and the secret alone (docs/proofs/user_descent.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from steelyard.accounting import grouped, steps
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.models._losses import LOGISTIC, LossFunction
from steelyard.models._rows import Fitted
from steelyard.models._user_sums import Cells, Floats, UserSum, check_micro, held, read_sizes, units_of
from steelyard.privacy import MICRO, composed

if TYPE_CHECKING:
    from steelyard.models._passes import Method, Training
    from steelyard.models._user_rows import UserRows
    from steelyard.noise import Noise
    from steelyard.privacy import Event

_STEPS = 40
_PILOT_AVERAGED, _MAIN_AVERAGED = 20, 30
# Shares of mu squared: histogram of rows, capped sums, pilot, main descent.
_SHARES = tuple(Fraction(share, 1000) for share in (40, 40, 184, 736))
_COUNTS = (1, 1, _STEPS, _STEPS)
_PILOT_CLIP, _MAIN_CLIP = 0.015, 0.025
_RADIUS = 2.0**9


@dataclass(frozen=True)
class Descent:
    """One descent of forty noisy steps: the sum it pays with, the clip, and what sums are divided by."""

    sums: UserSum
    clip: float
    size: float
    averaged: int
    rooted: bool = False

    def run(self, data: UserRows, theta: Floats, noise: Noise) -> Floats:
        """The mean of the last iterates; heavy-ball steps."""
        longest = 0.2 * theta.size / data.loss.smoothness
        rate = min(2 / data.loss.smoothness, longest)
        keep = min(0.9, 1 - rate / longest)
        speed, late = np.zeros(theta.size), []
        clip = held(self.clip)
        for drawn in self.sums.mechanism.ahead(_STEPS, theta.size, noise):
            slope = self.sums.release(data.gradients(theta, clip, self.rooted), clip, noise, drawn) / self.size
            speed = keep * speed - rate * slope
            theta = _inside(theta + speed)
            late.append(theta)
        return np.asarray(np.mean(late[-self.averaged :], axis=0), dtype=float)


def _inside(theta: Floats) -> Floats:
    """Held in a ball in which margins stay exact; released numbers, so no cost."""
    length = math.sqrt(float((theta * theta).sum()))
    return theta * (_RADIUS / length) if length > _RADIUS else theta


@dataclass(frozen=True)
class UserDescent:
    """A model per user for ``micro`` millionths of mu; ``public_rows`` is a row count declared by its owner (``Method``).

    *Privacy:* exactly mu-GDP for one user added or removed, with all its rows. ``public_rows`` must not be computed from
    the table: it sets clips, and a user's own rows would show in it. An old or rounded figure does as well.
    *Accuracy:* the loss of users who are few and heavy is not bounded by anything this can see; ``details["warning"]``
    says when that may matter. *Cost:* 82 passes over the rows, kept unit by unit in memory of a fixed size, or with Spark's workers.
    """

    micro: int
    public_rows: int | None = None
    loss: LossFunction = LOGISTIC

    def __post_init__(self) -> None:
        check_micro(self.micro, _SHARES, _COUNTS)
        rows = self.public_rows
        if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
            raise InvalidTask(f"public_rows must be a whole number of rows of at least 1; got {rows!r}.")

    @property
    def event(self) -> Event:
        """Eighty-two Gaussian releases, of which only what a grid step is worth depends on what came before."""
        cells, sums, pilot, main = self._stages
        return composed(cells.mechanism.event, sums.event, steps(pilot.event, _STEPS), steps(main.event, _STEPS))

    def fit(self, data: Training, noise: Noise) -> Fitted:
        """Sizes, pilot, main descent, and for classes a shrinking by what could not be heard."""
        rows = data.by_user(self.loss)
        cells, sums, pilot, main = self._stages
        mu, width = self.micro / MICRO, rows.width
        sizes = read_sizes(rows, cells, sums, mu, self.public_rows, noise)
        early = min(1.0, _PILOT_CLIP * mu * float(_SHARES[2]) ** 0.5 * sizes.roots / width)
        late = _MAIN_CLIP * mu * float(_SHARES[3]) ** 0.5 * sizes.middle / width
        first = Descent(pilot, early, sizes.roots, _PILOT_AVERAGED, rooted=True)
        theta = first.run(rows, np.zeros(width), noise)
        theta = Descent(main, late, sizes.middle, _MAIN_AVERAGED).run(rows, theta, noise)
        details = {**sizes.details(), "pilot_clip": float(f"{early:.6g}"), "clip": float(f"{late:.6g}")}
        details |= {} if sizes.warning is None else {"warning": sizes.warning}
        if not self.loss.doubt:
            return Fitted(theta, details)
        trust = sizes.trust(self.loss.doubt)
        return Fitted(trust * theta, {**details, "trust": float(f"{trust:.6g}")})

    @lazy
    def _stages(self) -> tuple[Cells, UserSum, UserSum, UserSum]:
        counts, *others = units_of(self.micro, _SHARES, _COUNTS)
        sums, pilot, main = (UserSum(units) for units in others)
        return Cells(counts), sums, pilot, main


@dataclass(frozen=True)
class CappedFit:
    """Fit with ``method`` on at most ``cap`` rows of each user.

    *Privacy:* ``cap`` times what the method costs for one row, by group privacy. *Accuracy:* the more alike users are,
    the smaller the best cap; with users who are all alike it is 1. *Cost:* one digest for each row of a user above the cap.
    """

    method: Method
    cap: int

    def __post_init__(self) -> None:
        check_cap(self.cap)

    @property
    def event(self) -> Event:
        """The method's, for a group of ``cap`` rows."""
        return grouped(self.method.event, self.cap)

    def fit(self, data: Training, noise: Noise) -> Fitted:
        """Keep some rows, then fit them as if each were a unit."""
        return self.method.fit(data.capped(self.cap, noise.bits(4).tobytes()), noise)


def check_cap(cap: int) -> int:
    """A cap is a whole number of rows."""
    if isinstance(cap, bool) or not isinstance(cap, int) or not 1 <= cap < 2**31:
        raise InvalidTask(f"cap must be a whole number of rows of at least 1; got {cap!r}.")
    return cap
