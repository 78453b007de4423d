"""What an audit tests and what it says: promises as inequalities, and one line for each check of them.

A promise holds when, for every event E and both orders of two neighbouring inputs, P(E) is at most what the promise
allows given Q(E). So a lower bound of P(E) and an upper bound of Q(E) give a lower bound of the privacy loss in the
promise's own currency, and a loss above the claimed one proves (at the bounds' confidence) that it is broken.
Epsilon and delta: P <= e^epsilon Q + delta. Gaussian mu: Phi^-1(P) <= Phi^-1(Q) + mu (Dong, Roth and Su 2022).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from steelyard.accounting import normal_quantile, price
from steelyard.errors import CurrencyMismatch
from steelyard.privacy import ATTO, Currency, Event, Loss, Terms, Unit


@dataclass(frozen=True)
class Check:
    """One question that was asked, and its answer in words."""

    name: str
    ok: bool
    text: str

    def __str__(self) -> str:
        return f"{'ok    ' if self.ok else 'BROKEN'}  {self.name}: {self.text}"


@dataclass(frozen=True)
class Verdict:
    """Everything that was asked about one subject.

    ``ok`` means that no check found a broken promise. It is not a proof: a check by sampling sees only what its
    samples can show, and a replay only the tables it tried.
    """

    subject: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """No promise was seen to break (and at least one check was made)."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def findings(self) -> tuple[str, ...]:
        """What broke, in words."""
        return tuple(f"{check.name}: {check.text}" for check in self.checks if not check.ok)

    def __str__(self) -> str:
        head = f"{self.subject}: " + ("no violation found" if self.ok else "BROKEN")
        return "\n".join([head, *(f"  {check}" for check in self.checks)])

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        checks = [{"name": c.name, "ok": c.ok, "text": c.text} for c in self.checks]
        return {"subject": self.subject, "ok": self.ok, "checks": checks}


Finding = tuple[str, str]
"""The name of a check, and what it found in words."""


class Findings:
    """What broke, by check: the first finding of each is told, and how many more there are."""

    def __init__(self, about: Mapping[str, str]) -> None:
        self._about = about
        self.found: dict[str, list[str]] = {name: [] for name in about}

    def note(self, findings: Iterable[Finding], where: str = "") -> None:
        """Keep findings, with the place they were made at."""
        for check, text in findings:
            self.found[check].append(f"{text} ({where})" if where else text)

    def check(self, name: str, measured: str = "") -> Check:
        """One line: what was found, or else what the check is about and what it measured."""
        found = self.found[name]
        more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
        return Check(name, False, found[0] + more) if found else Check(name, True, self._about[name] + measured)

    def checks(self, measured: Mapping[str, str]) -> tuple[Check, ...]:
        """A line for each check."""
        return tuple(self.check(name, measured.get(name, "")) for name in self._about)


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
        """The smallest amount that allows an event of probability ``p`` here and ``q`` next door: ln((p - delta) / q)."""
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
        """The same in mu: Phi^-1(p - delta) - Phi^-1(q)."""
        p -= self.delta
        if p <= 0 or q >= 1:
            return -math.inf
        if p >= 1 or q <= 0:
            return math.inf
        return normal_quantile(p) - normal_quantile(q)


Claim = Epsilon | Mu
"""A promise: how much it claims, and the smallest amount that allows an event's two probabilities."""


def claim_of(event: Event) -> Claim:
    """What an event promises between the neighbours it was derived for, at the price an account would pay."""
    unit = Unit("rows", None, event.neighbours, 1)
    try:
        return Epsilon(float(price(event, Terms(unit, Loss(Currency.PURE, 0), Fraction(0))).value))
    except CurrencyMismatch:
        cost = price(event, Terms(unit, Loss(Currency.GAUSSIAN, 0, ATTO), Fraction(0), Fraction(1, 2)))
        return Mu(math.sqrt(cost.value), float(cost.additive_delta))
