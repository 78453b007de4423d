"""How an amount of money, time or rows becomes an integer that noise can cover, and back.

A request ("epsilon 1, at most 100 per user") fixes, before any row is read, a public grid step, integer bounds and
the mechanism whose price is exactly what was asked. Under add/remove a user who appears brings an integer between
the bounds, so the integer sensitivity is the larger of the two, whatever the rows hold (law 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from steelyard.accounting import mu_request
from steelyard.errors import CurrencyMismatch, InvalidTask, UnitMismatch
from steelyard.mechanisms import WIDEST, Gaussian, Laplace, Staircase
from steelyard.plan import Error
from steelyard.privacy import LARGEST, MICRO, Currency, Neighbours, Number, Terms, exact, finite, positive
from steelyard.tables import Schema

Noisy = Laplace | Gaussian | Staircase

MOST = 2**22
"""The most keys that are asked for or shown at once, and the largest limit by key."""

FINENESS = 2**14
"""Grid steps per micro of noise scale: rounding 2^28 rows stays below a hundredth of the noise (docs/proofs/sum.md)."""

_MOST_STEPS = 2**50  # the largest cap by key, and well inside what one row's integer may be
_WIDEST = Fraction(10) ** 200


@dataclass(frozen=True)
class Spend:
    """A price asked for: ``micro`` of epsilon as Laplace noise, or of mu as Gaussian noise."""

    gaussian: bool
    micro: int

    @classmethod
    def read(cls, epsilon: Number | None, mu: Number | None, terms: Terms) -> Spend:
        """What a task's epsilon or mu means on an account; rounds down, and halves where neighbours replace."""
        if terms.currency is Currency.NATS:
            raise CurrencyMismatch("this account counts validity in nats; a private release needs epsilon.")
        gaussian = terms.currency is Currency.GAUSSIAN
        if mu is not None and epsilon is not None:
            raise InvalidTask("give epsilon or mu, not both: each says alone what this release may spend.")
        if mu is not None and not gaussian:
            raise CurrencyMismatch("mu is a Gaussian amount and this account is pure; give epsilon instead.")
        if mu is not None:
            micro = math.floor(positive(mu, "mu") * MICRO)
        elif epsilon is None:
            raise InvalidTask("give epsilon (how much this release may spend), for instance epsilon='0.5'.")
        elif gaussian:
            micro = mu_request(positive(epsilon, "epsilon"), terms.filter_delta)
        else:
            micro = math.floor(positive(epsilon, "epsilon") * MICRO)
        if terms.unit.neighbours is Neighbours.REPLACE:
            micro //= 2
        if micro < 1:
            raise InvalidTask("what this release may spend is below one millionth, the ledger's smallest step.")
        return cls(gaussian, micro)

    def split(self, share: Fraction) -> tuple[Spend, Spend]:
        """Two spends that add up to this one: ``share`` of epsilon, or of mu (whose squares add)."""
        first = max(1, math.floor(self.micro * share))
        rest = math.isqrt(self.micro**2 - first**2) if self.gaussian else self.micro - first
        if rest < 1:
            raise InvalidTask("what this release may spend is too little to share between choosing a cap and noise.")
        return Spend(self.gaussian, first), Spend(self.gaussian, rest)

    @property
    def law(self) -> str:
        """The name of the noise that this buys for a vector."""
        return "gaussian" if self.gaussian else "laplace"

    @property
    def level(self) -> float:
        """Epsilon, or mu."""
        return self.micro / MICRO

    @property
    def steps(self) -> int:
        """How many grid steps the larger bound of any total has: its integer sensitivity, whatever the bounds are."""
        return min(self.micro * FINENESS, _MOST_STEPS)

    def scale(self, sensitivity: int) -> Fraction:
        """The scale, or sigma, at which a vector of integers of this sensitivity costs exactly this spend."""
        return Fraction(sensitivity * MICRO, self.micro)

    def mechanism(self, sensitivity: int) -> Laplace | Gaussian:
        """Noise that costs exactly this spend on a vector of integers of this sensitivity."""
        return (Gaussian if self.gaussian else Laplace)(sensitivity, self.scale(sensitivity))


@dataclass(frozen=True)
class Amount:
    """Public bounds of one unit's total, as integers on a grid of ``step``."""

    step: Fraction
    lower: int
    upper: int

    @classmethod
    def of_values(cls, lower: Fraction, upper: Fraction, spend: Spend) -> Amount:
        """Totals between ``lower`` <= 0 and ``upper`` >= 0, on a grid far finer than the noise."""
        step = max(-lower, upper) / spend.steps
        return cls(step, -math.floor(-lower / step), math.floor(upper / step))

    @property
    def sensitivity(self) -> int:
        """The most one unit can move the integer sum when it is added or removed."""
        return max(-self.lower, self.upper)

    def back(self, noised: int) -> float:
        """A noised integer as the amount a person asked about, held inside what a float can say."""
        return finite(noised * self.step)

    def all_back(self, noised: Sequence[int]) -> list[float]:
        """The same for many: a quotient of integers is rounded as the fraction would be, and public numbers say that none is too large."""
        up, down = self.step.as_integer_ratio()
        if WIDEST * self.step >= LARGEST:
            return [self.back(each) for each in noised]
        return [each * up / down for each in noised]


def noise_error(mechanism: Noisy, step: Fraction, bias: float | None = None) -> Error:
    """The error the noise alone brings, known before anything is spent."""
    mean, within = mechanism.size
    return Error(mean * float(step), within * float(step), bias)


def check_unit(schema: Schema, terms: Terms) -> None:
    """Refuse an account that pays for other things, and a unit that the table's columns cannot name."""
    check_kind(terms)
    _ = schema.naming[terms.unit.column]


def check_kind(terms: Terms) -> None:
    """Totals protect users or rows; label and holdout accounts pay for other things."""
    if terms.unit.kind not in ("users", "rows"):
        raise UnitMismatch(f"a total protects users or rows; this account hides {terms.unit}.")


def norm_of(mechanism: Noisy) -> str:
    """The norm in which the mechanism's sensitivity is measured."""
    return "l2" if isinstance(mechanism, Gaussian) else "l1"


def bound(value: Number, name: str) -> Fraction:
    """Read a public bound: zero, or of a size that doubles hold with room for any grid and any noise."""
    number = exact(value, name)
    if number and not 1 / _WIDEST <= abs(number) <= _WIDEST:
        raise InvalidTask(f"{name} must be 0 or between 1e-200 and 1e200 in size; choose another unit of measure.")
    return number
