"""Choosing among finitely many public models by their loss, exactly: the exponential mechanism.

Each row's loss under each candidate is a whole number of steps, counted from the least that any candidate's length allows and
never above a public spread, so a row added can only raise costs and the monotone weight applies: pure epsilon with nothing
approximated and no sampling chain to trust. Candidates are known beforehand (a published model and its variants), or they
are the points of a grid over a ball of coefficients; such a grid grows with the power of the width, so only narrow models
have one. Papers: McSherry and Talwar 2007; Amin, Kulesza, Muñoz Medina and Vassilvitskii 2019, whose algorithm this is.
Law: losses are whole numbers that depend on their row alone (docs/proofs/hypotheses.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Exponential
from steelyard.models._columns import THETA_BITS, exact_scores
from steelyard.models._losses import COST_BITS, LOGISTIC, LossFunction
from steelyard.models._rows import Fitted
from steelyard.privacy import MICRO

if TYPE_CHECKING:
    from steelyard.models._columns import Floats
    from steelyard.models._passes import Training
    from steelyard.noise import Noise
    from steelyard.privacy import Event

_CHUNK = 1 << 16
MOST = 4096
WIDEST = 5
"""The most features whose ball a grid of so many points can fill."""

LONGEST = 512


@dataclass(frozen=True)
class Hypotheses:
    """The choice of one of ``candidates`` (coefficients on features of length one) for ``micro`` of pure epsilon."""

    candidates: Sequence[Sequence[float]]
    micro: int
    loss: LossFunction = LOGISTIC

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", read_candidates(self.candidates))
        if self.micro < 1:
            raise InvalidTask("a choice costs at least one micro-epsilon.")

    @lazy
    def reach(self) -> float:
        """The furthest any candidate's score of a row can lie from zero, rounded up."""
        whole = np.rint(np.array(self.candidates) * 2.0**THETA_BITS)
        return math.sqrt(float((whole * whole).sum(axis=1).max())) * 2.0**-THETA_BITS * (1 + 2.0**-40)

    @lazy
    def mechanism(self) -> Exponential:
        """The draw: one row moves every cost up, by at most the spread of its losses."""
        return Exponential(Fraction(self.micro, MICRO), max(1, self.loss.spread(self.reach)), monotone=True)

    @property
    def event(self) -> Event:
        """What the choice is charged for."""
        return self.mechanism.event

    @property
    def excess(self) -> float:
        """The expected sum of losses above the best candidate's: at most log N over the weight, whatever the rows."""
        return math.log(len(self.candidates)) / (float(self.mechanism.weight) * 2.0**COST_BITS)

    def costs(self, x: Floats, labels: Floats | None = None) -> list[NDArray[Any]]:
        """Each candidate's sum of losses over rows, in whole steps above the least; rows of nothing but zeros count alike."""
        candidates, total = np.array(self.candidates).T, np.zeros(len(self.candidates), dtype=object)
        rows = min(_CHUNK, max(1, (_CHUNK << 6) // len(self.candidates)))
        for begin in range(0, len(x), rows):
            own = None if labels is None else labels[begin : begin + rows, None]
            scores = exact_scores(x[begin : begin + rows], candidates)
            above = self.loss.costs(scores, own) - self.loss.lowest(own, self.reach)
            total = total + above.sum(axis=0).astype(object)
        return [total]

    def choose(self, costs: Sequence[int], noise: Noise) -> Fitted:
        """The candidate drawn for these costs."""
        chosen, many = self.mechanism.choose([int(cost) for cost in costs], noise), len(self.candidates)
        details = {"chosen": chosen, "candidates": many, "expected_excess_sum": self.excess}
        return Fitted(np.array(self.candidates[chosen]), details)

    def fit(self, data: Training, noise: Noise) -> Fitted:
        """Add up every candidate's losses, the rows staying where they lie, and draw."""
        (costs,) = data.fold(self.loss, self.costs, [np.zeros(len(self.candidates), dtype=object)])
        return self.choose(costs.tolist(), noise)


@dataclass(frozen=True)
class BallChoice(Hypotheses):
    """The same among the points of a grid over the ball of this radius: ``step`` apart along each coefficient."""

    step: float = 0.0

    @classmethod
    def over(cls, width: int, radius: float, micro: int, loss: LossFunction) -> BallChoice:
        """As fine a grid as ``MOST`` points allow."""
        points, squared = _lattice(width)
        step = radius / math.sqrt(squared)
        return cls((points * step).tolist(), micro, loss, step)

    @property
    def coarseness(self) -> float:
        """How much higher the best grid point's mean loss may be than that of the ball's best, whatever the rows.

        A point of the ball, its coefficients cut toward zero to the grid, moves by less than a step along each, and a row of
        length one and a loss of slope one change by no more; candidates are read to a 2^-16th.
        """
        return self.loss.steepness * (self.step + 2.0**-THETA_BITS) * math.sqrt(len(self.candidates[0]))

    def choose(self, costs: Sequence[int], noise: Noise) -> Fitted:
        """The grid point drawn for these costs."""
        fitted = super().choose(costs, noise)
        return Fitted(fitted.coefficients, {**fitted.details, "grid_step": self.step, "grid_excess": self.coarseness})


def read_candidates(given: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """Candidates as rows of finite coefficients, all of one length."""
    try:
        held = tuple(tuple(float(x) for x in each) for each in given)
    except (TypeError, ValueError, OverflowError):
        held = ()
    if not 1 <= len(held) <= MOST or len({len(each) for each in held}) != 1 or not np.isfinite(held).all():
        raise InvalidTask(f"candidates are 1 to {MOST} rows of finite coefficients, all of one length.")
    if max(math.hypot(*each) for each in held) > LONGEST:
        raise InvalidTask(f"a candidate's coefficients have length at most {LONGEST}.")
    return held


def check_ball(width: int, radius: Fraction) -> None:
    """Refuse a ball that no grid of so many points fills, or that is too long or too short."""
    if width > WIDEST:
        raise InvalidTask(
            f"a choice over a ball is offered for at most {WIDEST} features, the intercept included; these are {width}, and a "
            f"grid of {MOST} points would be too coarse. Use method='objective', or give candidates."
        )
    if not Fraction(1, 1000) <= radius <= LONGEST:
        raise InvalidTask(
            f"the radius of a ball of coefficients lies between 0.001 and {LONGEST}; got {float(radius):g}."
        )


@cache
def _lattice(width: int) -> tuple[NDArray[np.int64], int]:
    """The whole-number points of the largest ball that holds at most ``MOST`` of them, and its squared radius."""
    side = math.floor(MOST ** (1 / width)) + 1
    axes = [np.arange(-side, side + 1)] * width if width > 1 else [np.arange(-MOST, MOST + 1)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, width)
    lengths = (points * points).sum(axis=1)
    inside = lengths < np.sort(lengths)[MOST]
    return points[inside], int(lengths[inside].max())
