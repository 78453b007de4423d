"""Objective perturbation for logistic loss: noise that enters the objective, and noise that covers the solver.

The minimizer of sum log(1 + exp(-v.t)) + ridge/2 |t|^2 + b.t, rows |v| <= 1, is private when b is normal (or, for pure
epsilon, spherical Laplace) noise. b is drawn on a grid, so the exact minimizer is only within ``reach`` of what a
certified solver returns; noise on the rounded answer covers twice that distance, at a price that is part of the event.
Law: a solver must return a point whose true gradient is at most ``gradient`` long, whatever the rows
(docs/proofs/objective.md, docs/proofs/objective_pure.md, docs/proofs/objective_users.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, ClassVar

from steelyard.accounting import objective_mu, user_mu
from steelyard.errors import InvalidTask
from steelyard.mechanisms._integers import check_scale, check_sensitivity, noisy
from steelyard.mechanisms._observe import show
from steelyard.mechanisms._sphere import EXTRA_MICRO, error, spherical
from steelyard.privacy import MICRO, Event

if TYPE_CHECKING:
    from steelyard.noise import Noise

GRID = 40
"""The perturbation is drawn in steps of 2^-40."""

_FINE = 1024
_SHIFT = 17


def _below(amount: Fraction) -> Fraction:
    """The largest power of two that is at most the amount."""
    bits = amount.numerator.bit_length() - amount.denominator.bit_length()
    power = Fraction(1 << bits) if bits >= 0 else Fraction(1, 1 << -bits)
    while power > amount:
        power /= 2
    return power


@dataclass(frozen=True)
class Objective:
    """Normal noise of sigma = 1e6/shift in the objective, and normal noise on the answer for ``output`` micro-mu.

    *Privacy:* mu-GDP with mu^2 = price^2 + output^2 for one row added or removed.

    >>> mechanism = Objective(3, 100_000, Fraction(5), 2_000)
    >>> 100_000 <= mechanism.price <= 100_300
    True
    """

    width: int
    shift: int
    ridge: Fraction
    output: int
    called: ClassVar[str] = "objective"  # the event

    def __post_init__(self) -> None:
        for name in ("width", "shift", "output"):
            check_sensitivity(getattr(self, name), name)
        check_scale(self.ridge, "ridge")

    @property
    def sigma(self) -> Fraction:
        """The standard deviation of the perturbation, for rows of length one."""
        return Fraction(MICRO, self.shift)

    @property
    def mean_square(self) -> float:
        """The expected squared length of the perturbation."""
        return self.width * float(self.sigma) ** 2

    @property
    def price(self) -> int:
        """Micro-mu of the perturbation alone."""
        return objective_mu(self.sigma / self.ridge, self.shift)

    @property
    def gradient(self) -> Fraction:
        """How long the true gradient at the solver's answer may be."""
        return _below(self.sigma) / (1 << _SHIFT)

    @property
    def reach(self) -> Fraction:
        """How far the solver's answer may be from the minimizer that the proof is about."""
        rounding = Fraction(isqrt(self.width) + 1, 2 ** (GRID + 1))
        return (self.gradient + rounding) / self.ridge

    @property
    def step(self) -> Fraction:
        """The grid of the answer."""
        return 2 * self.reach / _FINE

    @property
    def sensitivity(self) -> int:
        """Steps between two answers to one perturbation: twice the reach, and both roundings."""
        return _FINE + isqrt(self.width) + 1

    @property
    def cover(self) -> Fraction:
        """Sigma of the noise on the answer, in steps."""
        return Fraction(self.sensitivity * MICRO, self.output)

    @property
    def event(self) -> Event:
        """What a fit is charged for."""
        width, shift, ridge, output = self.width, self.shift, self.ridge, self.output
        return Event.of(
            self.called, width=width, shift_micro=shift, ridge=ridge, mu_micro=self.price, output_micro=output
        )

    def perturbation(self, noise: Noise) -> list[int]:
        """The linear term b, in steps of 2^-GRID."""
        show(self.event, [0] * self.width, noise)
        return noise.normal(self.sigma * 2**GRID, self.width)

    def release(self, answer: list[int], noise: Noise) -> list[int]:
        """The solver's answer, in steps, with the noise that covers it."""
        return noisy(answer, lambda: noise.normal(self.cover, self.width))


@dataclass(frozen=True)
class UserObjective(Objective):
    """The same for users whose rows weigh one together: mu^2 = price^2 + output^2 for one user added or removed.

    >>> 100_000 < UserObjective(3, 100_000, Fraction(20), 2_000).price < 104_200
    True
    """

    called = "objective_users"

    @property
    def price(self) -> int:
        """Micro-mu of the perturbation alone."""
        return user_mu(self.sigma / self.ridge, self.shift)


@dataclass(frozen=True)
class PureObjective:
    """Spherical noise of this scale in the objective, and Laplace noise on the answer for ``output`` micro-epsilon.

    *Privacy:* pure epsilon = 1/scale + output + one micro, for one row added or removed; needs ridge >= scale.
    """

    width: int
    scale: Fraction
    ridge: Fraction
    output: int

    def __post_init__(self) -> None:
        for name in ("width", "output"):
            check_sensitivity(getattr(self, name), name)
        check_scale(self.scale)
        check_scale(self.ridge, "ridge")
        if self.ridge < self.scale:
            raise InvalidTask(f"the ridge must be at least the noise's scale, {float(self.scale):g}.")

    @property
    def mean_square(self) -> float:
        """The expected squared length of the perturbation."""
        return self.width * (self.width + 1) * float(self.scale) ** 2

    @property
    def gradient(self) -> Fraction:
        """How long the true gradient at the solver's answer may be."""
        return _below(self.scale) / (1 << _SHIFT)

    @property
    def reach(self) -> Fraction:
        """How far the solver's answer may be from the minimizer that the proof is about."""
        return (self.gradient + Fraction(error(self.width), 2**GRID)) / self.ridge

    @property
    def step(self) -> Fraction:
        """The grid of the answer."""
        return 2 * self.reach / _FINE

    @property
    def sensitivity(self) -> int:
        """Steps between two answers to one perturbation, as a sum over entries: root of width times the length."""
        return (_FINE + isqrt(self.width) + 1) * (isqrt(self.width - 1) + 1)

    @property
    def cover(self) -> Fraction:
        """The scale of the noise on the answer, in steps."""
        return Fraction(self.sensitivity * MICRO, self.output)

    @property
    def event(self) -> Event:
        """What a fit is charged for."""
        width, scale, ridge = self.width, self.scale, self.ridge
        return Event.of(
            "objective_pure", width=width, scale=scale, ridge=ridge, extra_micro=EXTRA_MICRO, output_micro=self.output
        )

    def perturbation(self, noise: Noise) -> list[int]:
        """The linear term b, in steps of 2^-GRID."""
        show(self.event, [0] * self.width, noise)
        return spherical(self.scale * 2**GRID, self.width, noise)

    def release(self, answer: list[int], noise: Noise) -> list[int]:
        """The solver's answer, in steps, with the noise that covers it."""
        return noisy(answer, lambda: noise.laplace(self.cover, self.width))
