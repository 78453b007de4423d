"""Odometers: what a transcript has cost so far, ex post, true at every stopping time at once.

For steps that are zCDP given the past, put v = sum of mu squared (pure steps: epsilon squared, or their larger price in
mu squared). exp(a (L - v/2) - a^2 v/2) is a supermartingale for every a > 0, so Ville's inequality holds the loss L
under one line, or under a mixture of lines, for ever with probability 1 - delta (Howard et al.; Whitehouse et al.).
Law: the tuning is fixed before the first step, and the number speaks about the whole transcript only. The fixed-time
epsilon at a stop chosen from the data is not a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from steelyard.errors import InvalidTask
from steelyard.privacy import Currency, Loss

# Each formula below has fewer than 20 float operations, each within an ulp or two.
_OUTWARD = 1 + 2.0**-44


@dataclass(frozen=True)
class LinearOdometer:
    """One line, tightest where v is near ``tuned_at``.

    >>> round(LinearOdometer(1e-6, tuned_at=0.1).epsilon(0.1), 3)
    1.712
    """

    delta: float
    tuned_at: float

    def __post_init__(self) -> None:
        _check(self.delta, self.tuned_at)

    def epsilon(self, spent: Loss | Fraction | float) -> float:
        """The ex-post epsilon after ``spent`` (a Gaussian loss, or v itself), rounded up."""
        v = _intrinsic(spent)
        slope = math.sqrt(2 * math.log(1 / self.delta) / self.tuned_at)
        return ((slope + 1) * v / 2 + math.log(1 / self.delta) / slope) * _OUTWARD


@dataclass(frozen=True)
class MixtureOdometer:
    """A half-normal mixture of lines, good over many decades of v from ``tuned_at`` on.

    >>> round(MixtureOdometer(1e-6, tuned_at=1e-4).epsilon(0.1), 3)
    1.963
    """

    delta: float
    tuned_at: float

    def __post_init__(self) -> None:
        _check(self.delta, self.tuned_at)

    def epsilon(self, spent: Loss | Fraction | float) -> float:
        """The ex-post epsilon after ``spent`` (a Gaussian loss, or v itself), rounded up."""
        v = _intrinsic(spent)
        # Any spread fixed in advance is valid; this one makes the bound nearly tightest at v = tuned_at.
        surprise = 2 * math.log(1 / self.delta)
        spread = self.tuned_at / (surprise + math.log1p(surprise))
        total = v + spread
        level = math.sqrt(total / spread) / (2 * self.delta) + 0.5
        return (v / 2 + math.sqrt(2 * total * math.log(level))) * _OUTWARD


def _check(delta: float, tuned_at: float) -> None:
    if not 1e-300 <= delta < 1:
        raise InvalidTask(f"delta must be above 0 and below 1; got {delta!r}.")
    if not 1e-30 <= tuned_at <= 1e30:
        raise InvalidTask(f"tuned_at is the v (sum of mu squared) that matters most, above zero; got {tuned_at!r}.")


def _intrinsic(spent: Loss | Fraction | float) -> float:
    if isinstance(spent, Loss):
        if spent.currency is not Currency.GAUSSIAN:
            raise InvalidTask(f"an odometer reads mu squared; got a {spent.currency} loss. Sum epsilon for pure steps.")
        if spent.delta:
            raise InvalidTask("an odometer cannot read steps that fail with a probability; their delta adds to it.")
        spent = spent.value
    if spent < 0:
        raise InvalidTask(f"what was spent cannot be negative; got {spent!r}.")
    return float(spent) * _OUTWARD
