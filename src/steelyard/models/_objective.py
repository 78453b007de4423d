"""Fits by objective perturbation: one draw of noise, one certified solve, one covered answer.

There is no step size, no number of iterations and no clipping to choose, and with the default ridge the fit costs what
one Gaussian (or one spherical Laplace) release of the gradient would. The ridge follows from the width and the price
alone: large enough for the proof (so a little larger where mu is), and for the perturbation to move the model by no
more than about twenty.
The price is proved loss by loss: a loss names its mechanism, or has none. Paper: Chaudhuri, Monteleoni and Sarwate 2011.
Law: rows have length at most one, every coordinate is penalized, and nothing below depends on how many rows there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from steelyard.accounting import LEAST, MOST, grouped
from steelyard.errors import InvalidTask
from steelyard.mechanisms import GRID, Objective, PureObjective
from steelyard.models._losses import LOGISTIC, Floats, LossFunction, Passes
from steelyard.models._newton import Problem
from steelyard.models._rows import Fitted
from steelyard.privacy import MICRO

if TYPE_CHECKING:
    from steelyard.models._passes import Training
    from steelyard.noise import Noise
    from steelyard.privacy import Event

T = TypeVar("T", Objective, PureObjective)
REACH = 20
_FLOOR = Fraction(2, 5)
_ROUNDED = 1.001  # room for the solver's gradient and the grids, each below a ten-thousandth
_MARGINS = (Fraction(501, 500), Fraction(253, 250), Fraction(103, 100), Fraction(27, 25), Fraction(6, 5))


@dataclass(frozen=True)
class ObjectiveFit:
    """One model by objective perturbation (``Method``)."""

    mechanism: Objective | PureObjective
    loss: LossFunction = LOGISTIC

    def __post_init__(self) -> None:
        proved = tuple(kind for kind in (self.loss.objective, self.loss.pure_objective) if kind is not None)
        if not isinstance(self.mechanism, proved):
            raise InvalidTask(f"no price is proved for this mechanism on a {self.loss.name} model.")

    @property
    def event(self) -> Event:
        """What one model is charged for."""
        alone = isinstance(self.mechanism, PureObjective) or self.loss.members == 1
        return self.mechanism.event if alone else grouped(self.mechanism.event, self.loss.members)

    @property
    def ridge(self) -> Fraction:
        """The weight of |t|^2/2 beside the sum of losses."""
        return self.mechanism.ridge

    @property
    def excess(self) -> float:
        """The expected sum of losses (with ridge) above the best, but for ``excess_row`` of each row, whatever the rows.

        The perturbation adds at most E|b|^2/(2 ridge), the noise on the answer what it adds to the penalty.
        """
        ridge, width = float(self.ridge), self.mechanism.width
        return _ROUNDED * (self.mechanism.mean_square / (2 * ridge) + ridge * width * self._blur / 2)

    @property
    def excess_row(self) -> float:
        """By how much the noise on the answer may raise one row's expected loss."""
        return _ROUNDED * self.loss.smoothness * self._blur / 2

    @property
    def _blur(self) -> float:
        """The expected square of what noise and rounding of the answer add along any one direction."""
        m = self.mechanism
        cover = float(m.cover) ** 2 * (2 if isinstance(m, PureObjective) else 1)
        return (cover + m.width / 4 + 1) * float(m.step) ** 2

    def solve(self, passes: Passes, noise: Noise) -> Floats:
        """Draw, minimize, round, cover."""
        m = self.mechanism
        linear = [Fraction(x, 1 << GRID) for x in m.perturbation(noise)]
        theta = Problem(passes, m.ridge, linear, m.gradient).certified()
        steps = [round(Fraction(x) / m.step) for x in theta]
        return np.array([float(x * m.step) for x in m.release(steps, noise)])

    def fit(self, data: Training, noise: Noise) -> Fitted:
        """Fit, passing over the rows wherever they are."""
        return self.run(data.passes(self.loss), noise)

    def run(self, passes: Passes, noise: Noise) -> Fitted:
        """The same over rows as the loss reads them."""
        excess = {"expected_excess_sum": self.excess, "expected_excess_row": self.excess_row}
        return Fitted(self.solve(passes, noise), {"ridge": float(self.ridge), **excess})


def gaussian_objective(
    width: int, micro: int, ridge: Fraction | None = None, loss: LossFunction = LOGISTIC
) -> ObjectiveFit:
    """The fit that costs at most, and almost exactly, ``micro`` millionths of mu."""
    perturbed, micro = _proved(loss.objective, loss), micro // loss.members
    root = Fraction(math.isqrt(width * 10**6) + 1, 1000)
    level = max(_FLOOR, root / REACH, min(Fraction(1), Fraction(micro, 2 * MICRO)))
    for margin in _MARGINS[0 if level >= Fraction(9, 20) else 1 :]:
        shift = min(math.floor(micro / margin), MOST)
        if shift < LEAST:
            raise InvalidTask(
                f"a {loss.name} model needs mu of at least {2 * LEAST * loss.members / MICRO:g}; raise epsilon or delta."
            )
        chosen = level * Fraction(MICRO, shift) if ridge is None else ridge
        price = perturbed(width, shift, chosen, 1).price
        spare = micro**2 - price**2
        if spare >= (micro // 64) ** 2 and spare > 0:
            return ObjectiveFit(perturbed(width, shift, chosen, min(math.isqrt(spare), shift)), loss)
    raise InvalidTask("the ridge is too small for this price; raise it, or leave it out.")


def pure_objective(
    width: int, micro: int, ridge: Fraction | None = None, loss: LossFunction = LOGISTIC
) -> ObjectiveFit:
    """The fit that costs exactly ``micro`` millionths of pure epsilon."""
    perturbed, output = _proved(loss.pure_objective, loss), max(1, micro // 64)
    if micro - output < 2:
        raise InvalidTask(f"epsilon is too small for a {loss.name} model.")
    scale = Fraction(MICRO, micro - output - 1)
    chosen = scale * max(Fraction(1), Fraction(width, REACH)) if ridge is None else ridge
    return ObjectiveFit(perturbed(width, scale, chosen, output), loss)


def _proved(mechanism: type[T] | None, loss: LossFunction) -> type[T]:
    if mechanism is None:
        raise InvalidTask(f"no price is proved for perturbing the objective of a {loss.name} model.")
    return mechanism
