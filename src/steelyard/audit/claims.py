"""The promises an audit can test, each as one inequality between the two probabilities of one event.

A promise holds when, for every event E and both orders of two neighbouring inputs, P(E) is at most what the promise
allows given Q(E). So a lower bound of P(E) and an upper bound of Q(E) give a lower bound of the privacy loss in the
promise's own currency, and a loss above the claimed one proves (at the bounds' confidence) that it is broken.
Epsilon and delta: P <= e^epsilon Q + delta. Gaussian mu: Phi^-1(P) <= Phi^-1(Q) + mu (Dong, Roth and Su 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from steelyard.accounting import normal_quantile, price
from steelyard.errors import CurrencyMismatch
from steelyard.privacy import ATTO, Currency, Event, Loss, Terms, Unit


class Claim(Protocol):
    """A promise: how much it claims, and how much a pair of probabilities shows."""

    @property
    def value(self) -> float:
        """The claimed amount."""

    def shown(self, p: float, q: float) -> float:
        """The smallest amount that allows an event with probability ``p`` here and ``q`` next door."""


@dataclass(frozen=True)
class Epsilon:
    """(epsilon, delta)-differential privacy; delta 0 is pure.

    >>> round(Epsilon(1.0).shown(0.5, 0.1), 4)
    1.6094
    """

    value: float
    delta: float = 0.0

    def __str__(self) -> str:
        return f"epsilon {self.value:.6g}" + (f", delta {self.delta:.3g}" if self.delta else "")

    def shown(self, p: float, q: float) -> float:
        """ln((p - delta) / q)."""
        if p <= self.delta:
            return -math.inf
        return math.inf if q <= 0 else math.log((p - self.delta) / q)


@dataclass(frozen=True)
class Mu:
    """mu-Gaussian differential privacy: as hard to tell apart as N(0, 1) and N(mu, 1), but for probability ``delta``.

    >>> round(Mu(1.0).shown(0.5, 0.1586552539), 6)
    1.0
    """

    value: float
    delta: float = 0.0

    def __str__(self) -> str:
        return f"mu {self.value:.6g}" + (f", failing with {self.delta:.3g}" if self.delta else "")

    def shown(self, p: float, q: float) -> float:
        """Phi^-1(p - delta) - Phi^-1(q)."""
        p -= self.delta
        if p <= 0 or q >= 1:
            return -math.inf
        if p >= 1 or q <= 0:
            return math.inf
        return normal_quantile(p) - normal_quantile(q)


def claim_of(event: Event) -> Epsilon | Mu:
    """What an event promises between the neighbours it was derived for, at the price an account would pay."""
    unit = Unit("rows", None, event.neighbours, 1)
    try:
        return Epsilon(float(price(event, Terms(unit, Loss(Currency.PURE, 0), Fraction(0))).value))
    except CurrencyMismatch:
        cost = price(event, Terms(unit, Loss(Currency.GAUSSIAN, 0, ATTO), Fraction(0), Fraction(1, 2)))
        return Mu(math.sqrt(cost.value), float(cost.additive_delta))
