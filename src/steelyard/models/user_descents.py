"""Two descents over clipped user gradients: the rule that logistic and linear models per user share.

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
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from steelyard.accounting.prices import composed, steps
from steelyard.errors import InvalidTask
from steelyard.models.user_auto import Cells, Sizes, read_sizes
from steelyard.models.user_sums import ByUser, Floats, Ints, UserSum, check_micro, units_of
from steelyard.privacy import MICRO

if TYPE_CHECKING:
    from steelyard.noise import Noise
    from steelyard.privacy import Event

_STEPS = 40
_PILOT_AVERAGED, _MAIN_AVERAGED = 20, 30
# Shares of mu squared: histogram of rows, capped sums, pilot, main descent.
_SHARES = tuple(Fraction(share, 1000) for share in (40, 40, 184, 736))
_COUNTS = (1, 1, _STEPS, _STEPS)
_PILOT_CLIP, _MAIN_CLIP = 0.015, 0.025
_RADIUS = 2.0**9


class Gradients(Protocol):
    """Rows user by user, and how steep a loss is for each user."""

    @property
    def by(self) -> ByUser:
        """Whose rows they are."""

    @property
    def curvature(self) -> float:
        """The largest second derivative of one row's loss along a unit vector; public."""

    def gradients(self, theta: Floats) -> Floats:
        """Each user's summed gradient, a function of that user's rows and theta alone."""


@dataclass(frozen=True)
class Descent:
    """One descent of forty noisy steps: the sum it pays with, the clip, and what sums are divided by."""

    sums: UserSum
    clip: float
    size: float
    averaged: int
    weights: Floats | None = None

    def run(self, data: Gradients, theta: Floats, noise: Noise) -> Floats:
        """The mean of the last iterates; heavy-ball steps."""
        longest = 0.2 * theta.size / data.curvature
        rate = min(2 / data.curvature, longest)
        keep = min(0.9, 1 - rate / longest)
        speed, late = np.zeros(theta.size), []
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
class TwoDescents:
    """The budget of ``micro`` millionths of mu divided among sizes, pilot and main descent."""

    micro: int
    public_rows: int | None = None

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

    def run(self, data: Gradients, width: int, noise: Noise) -> tuple[Floats, Sizes, dict[str, Any]]:
        """The coefficients, what was learnt about the users, and the released facts as plain numbers."""
        cells, sums, pilot, main = self._stages
        mu, people = self.micro / MICRO, data.by.sizes
        sizes = read_sizes(people, cells, sums, mu, self.public_rows, noise)
        early = min(1.0, _PILOT_CLIP * mu * float(_SHARES[2]) ** 0.5 * sizes.roots / width)
        late = _MAIN_CLIP * mu * float(_SHARES[3]) ** 0.5 * sizes.middle / width
        first = Descent(pilot, early, sizes.roots, _PILOT_AVERAGED, root_weights(people))
        theta = first.run(data, np.zeros(width), noise)
        theta = Descent(main, late, sizes.middle, _MAIN_AVERAGED).run(data, theta, noise)
        clips = {"pilot_clip": float(f"{early:.6g}"), "clip": float(f"{late:.6g}")}
        warned = {} if sizes.warning is None else {"warning": sizes.warning}
        return theta, sizes, {**sizes.details(), **clips, **warned}

    @property
    def _stages(self) -> tuple[Cells, UserSum, UserSum, UserSum]:
        counts, *others = units_of(self.micro, _SHARES, _COUNTS)
        sums, pilot, main = (UserSum(units) for units in others)
        return Cells(counts), sums, pilot, main
