"""From what a person types to an account's exact terms, and what differs between two of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from steelyard.errors import InvalidTask
from steelyard.privacy import ATTO, Currency, Loss, Number, Terms, Unit, decimal_text, positive, probability

LARGEST = 2**63 - 1


@dataclass(frozen=True)
class CapGiven:
    """What a person typed for a cap; None where nothing was."""

    epsilon: Number | None = None
    delta: Number | None = None
    mu: Number | None = None
    additive_delta: Number | None = None
    nats: Number | None = None

    def check(self, unit: Unit) -> None:
        """Refuse what does not go together."""
        given = [name for name in ("epsilon", "mu", "nats") if getattr(self, name) is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none of them"
            raise InvalidTask(
                f"an account has one cap: give epsilon (with or without delta), or mu, or nats; got {got}."
            )
        if (self.nats is not None) != (unit.kind == "holdout"):
            raise InvalidTask(f"nats go with unit=holdout(name), and nothing else does; got {given[0]} with {unit}.")
        if self.nats is not None and (self.delta is not None or self.additive_delta is not None):
            raise InvalidTask("an account in nats has no delta.")
        if self.additive_delta is not None and self.delta is None:
            raise InvalidTask("additive_delta is the part of delta that is set aside; give delta too.")


def read_terms(unit: Unit, asked: CapGiven) -> Terms:
    """The terms asked for: pure (epsilon), Gaussian (epsilon and delta, or mu), or validity (nats)."""
    if not isinstance(unit, Unit):
        raise InvalidTask(f"unit must say whose presence is hidden, such as users('user_id') or rows(); got {unit!r}.")
    asked.check(unit)
    if asked.nats is not None:
        terms = Terms(unit, Loss.nats(asked.nats))
    elif asked.delta is not None:
        terms = _gaussian(unit, asked, probability(asked.delta, "delta"))
    elif asked.mu is not None:
        terms = Terms(unit, Loss.mu(asked.mu))
    else:
        assert asked.epsilon is not None
        cap = Loss.pure(asked.epsilon)
        terms = Terms(unit, cap, cap.value)
    check_size(terms.cap, "the cap")
    return terms


def _gaussian(unit: Unit, asked: CapGiven, whole: Fraction) -> Terms:
    if whole == 0:
        raise InvalidTask("delta must be above zero; leave it out for an account in pure epsilon.")
    given = asked.additive_delta
    aside = 0 if given is None else math.floor(probability(given, "additive_delta") * ATTO)
    rest = whole - Fraction(aside, ATTO)
    if rest <= 0:
        raise InvalidTask(
            "additive_delta is a part of delta and must be below it; something must be left for the rest."
        )
    if asked.mu is not None:
        return Terms(unit, replace(Loss.mu(asked.mu), delta=aside), None, whole)
    assert asked.epsilon is not None
    from steelyard.accounting import mu_cap

    wanted = positive(asked.epsilon, "epsilon")
    return Terms(unit, replace(mu_cap(wanted, rest), delta=aside), wanted, whole)


def check_size(loss: Loss, what: str) -> None:
    """Refuse an amount that a 64-bit integer cannot hold exactly."""
    if max(loss.amount, loss.delta) > LARGEST:
        raise InvalidTask(f"{what}, {loss}, is larger than the ledger can count (2^63 - 1 of its smallest unit).")


def differences(asked: Terms, found: Terms) -> list[str]:
    """What was asked for and is not what the ledger says, in words. A cap that was solved for is not compared."""
    pairs = [("unit", str(asked.unit), str(found.unit)), ("currency", str(asked.currency), str(found.currency))]
    if asked.currency is found.currency:
        solved = asked.currency is Currency.GAUSSIAN and asked.epsilon is not None and found.epsilon is not None
        if not solved:
            pairs.append(("cap", str(replace(asked.cap, delta=0)), str(replace(found.cap, delta=0))))
        pairs.append(("epsilon", _text(asked.epsilon), _text(found.epsilon)))
        pairs.append(("delta", _text(asked.delta), _text(found.delta)))
        pairs.append(("additive_delta", _text(asked.cap.additive_delta), _text(found.cap.additive_delta)))
    return [f"{name} is {there} there and {here} here" for name, here, there in pairs if here != there]


def _text(value: Fraction | None) -> str:
    return "not given" if value is None else decimal_text(value, 30)
