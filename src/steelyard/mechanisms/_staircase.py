"""Staircase noise on one integer: the least noise that pure epsilon allows for a single number.

The weight of x falls by exp(-epsilon) at |x| = first, first + S, first + 2S, ..., and is level between; moving by at
most the sensitivity S crosses one step at most, so the ratio is at most exp(epsilon) (Geng and Viswanath 2014). Its
mean size is 1 / (2 sinh(epsilon / 2)) sensitivities against 1 / epsilon for Laplace noise: 4 % less at epsilon 1,
30 % less at 3. Law: one number only; a vector of staircases does not compose in L1 as Laplace noise does.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from steelyard.errors import InvalidTask, OurBug
from steelyard.lazy import lazy
from steelyard.mechanisms._integers import check_scale, check_sensitivity, noisy
from steelyard.mechanisms._observe import show
from steelyard.privacy import Event, Neighbours

if TYPE_CHECKING:
    from steelyard.noise import Noise


NARROWEST = 2**15
"""The lowest step is at least this part of a sensitivity, so a draw takes some ten thousand tries at most, on average."""


@dataclass(frozen=True)
class Staircase:
    """Adds staircase noise to one integer; ``first`` is the half width of the lowest step.

    >>> Staircase.least(1000, Fraction(2)).first
    269
    """

    sensitivity: int
    first: int
    epsilon: Fraction
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        check_sensitivity(self.sensitivity)
        check_sensitivity(self.first, "first")
        check_scale(self.epsilon, "epsilon")
        if 2 * self.first - 1 > self.sensitivity:
            raise InvalidTask("the lowest step may not be wider than the others.")

    @classmethod
    def least(cls, sensitivity: int, epsilon: Fraction) -> Staircase:
        """The staircase with the smallest mean size, or where that is less than a step in ``NARROWEST``, with one of those.

        Any ``first`` is as private. A draw waits for a place on the lowest step, so beyond epsilon 20 it would hardly end.
        """
        share = 1 / (1 + math.exp(min(float(epsilon), 1000.0) / 2))
        first = min(max(1, round(sensitivity * share), sensitivity // NARROWEST), (sensitivity + 1) // 2)
        return cls(sensitivity, first, epsilon)

    @lazy
    def size(self) -> tuple[float, float]:
        """The mean size of the noise, and the half width that holds it in 95 of 100 draws."""
        return self.mean_size(), self.within(0.95)

    @lazy
    def event(self) -> Event:
        """What a release is charged for."""
        return Event.of(
            "staircase", self.neighbours, sensitivity=self.sensitivity, first=self.first, epsilon=self.epsilon
        )

    def mean_size(self) -> float:
        """The expected absolute noise."""
        share, fall = self.first / self.sensitivity, math.exp(-float(self.epsilon))
        mass = 2 * (share + fall / (1 - fall))
        # the step k = 1, 2, ... lies between share + k - 1 and share + k sensitivities
        steps = fall / (1 - fall) * (2 * share - 1) + 2 * fall / (1 - fall) ** 2
        return self.sensitivity * (share * share + steps) / mass

    def within(self, confidence: float) -> float:
        """The half width that holds the noise with this probability."""
        share, fall = self.first / self.sensitivity, math.exp(-float(self.epsilon))
        whole = share + fall / (1 - fall)
        left = confidence * whole - share
        if left <= 0:
            return self.sensitivity * confidence * whole
        # the steps 1..k hold fall (1 - fall^k) / (1 - fall) of the mass on one side
        rest = max(1 - left * (1 - fall) / fall, sys.float_info.min) if fall > 0 else 1.0
        steps = math.floor(math.log(rest) / -float(self.epsilon))
        last = fall ** (steps + 1)
        over = left - fall * (1 - fall**steps) / (1 - fall)
        return self.sensitivity * (share + steps + (min(max(over / last, 0.0), 1.0) if last > 0 else 0.0))

    def release(self, values: Sequence[int], noise: Noise) -> list[int]:
        """The one integer with noise.

        *Privacy:* pure epsilon for one integer that a unit moves by at most the sensitivity.
        """
        if len(values) != 1:
            raise OurBug("staircase noise covers one number.")
        show(self.event, values, noise)
        return noisy(values, lambda: [self.draw(noise)])

    def draw(self, noise: Noise) -> int:
        """P[x] proportional to exp(-epsilon step(x)): a step by a Laplace draw, then a uniform place on it."""
        while True:
            level = noise.laplace(1 / self.epsilon, 1)[0]
            if level:
                size = self.first + (abs(level) - 1) * self.sensitivity + noise.below(self.sensitivity)
                return size if level > 0 else -size
            if noise.below(self.sensitivity) < 2 * self.first - 1:
                return noise.below(2 * self.first - 1) - self.first + 1


def draws_for(size: int, sensitivity: int, first: int) -> tuple[int, list[int]]:
    """The Laplace level and the uniform integers that make the noise ``size``: the inverse of a draw."""
    if abs(size) < first:
        return 0, [0, size + first - 1]
    level, place = divmod(abs(size) - first, sensitivity)
    return (level + 1 if size > 0 else -level - 1), [place]
