"""From what a person types to an account's exact terms, and what differs between two of them."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from steelyard.errors import InvalidTask
from steelyard.privacy import ATTO, Currency, Loss, Number, Terms, Unit, decimal_text, positive, probability

LARGEST = 2**63 - 1


def read_terms(
    unit: Unit,
    epsilon: Number | None,
    delta: Number | None,
    mu: Number | None,
    additive_delta: Number | None,
    nats: Number | None,
) -> Terms:
    """The terms asked for: pure (epsilon), Gaussian (epsilon and delta, or mu), or validity (nats)."""
    if not isinstance(unit, Unit):
        raise InvalidTask(f"unit must say whose presence is hidden, such as users('user_id') or rows(); got {unit!r}.")
    _check_combination(unit, epsilon, delta, mu, additive_delta, nats)
    if nats is not None:
        return _within(Terms(unit, Loss.nats(nats)))
    if delta is None:
        return _within(_without_delta(unit, epsilon, mu))
    return _within(_gaussian(unit, epsilon, delta, mu, additive_delta))


def _check_combination(
    unit: Unit,
    epsilon: Number | None,
    delta: Number | None,
    mu: Number | None,
    additive_delta: Number | None,
    nats: Number | None,
) -> None:
    given = [name for name, value in (("epsilon", epsilon), ("mu", mu), ("nats", nats)) if value is not None]
    if len(given) != 1:
        got = " and ".join(given) or "none of them"
        raise InvalidTask(f"an account has one cap: give epsilon (with or without delta), or mu, or nats; got {got}.")
    if (nats is not None) != (unit.kind == "holdout"):
        raise InvalidTask(f"nats go with unit=holdout(name), and nothing else does; got {given[0]} with {unit}.")
    if nats is not None and (delta is not None or additive_delta is not None):
        raise InvalidTask("an account in nats has no delta.")
    if additive_delta is not None and delta is None:
        raise InvalidTask("additive_delta is the part of delta that is set aside; give delta too.")


def _without_delta(unit: Unit, epsilon: Number | None, mu: Number | None) -> Terms:
    if epsilon is None:
        assert mu is not None
        return Terms(unit, Loss.mu(mu))
    cap = Loss.pure(epsilon)
    return Terms(unit, cap, cap.value)


def _gaussian(
    unit: Unit, epsilon: Number | None, delta: Number, mu: Number | None, additive_delta: Number | None
) -> Terms:
    whole = probability(delta, "delta")
    if whole == 0:
        raise InvalidTask("delta must be above zero; leave it out for an account in pure epsilon.")
    aside = 0 if additive_delta is None else math.floor(probability(additive_delta, "additive_delta") * ATTO)
    rest = whole - Fraction(aside, ATTO)
    if rest <= 0:
        raise InvalidTask(
            "additive_delta is a part of delta and must be below it; something must be left for the rest."
        )
    if mu is not None:
        return Terms(unit, replace(Loss.mu(mu), delta=aside), None, whole)
    assert epsilon is not None
    from steelyard.accounting.gaussian import mu_cap

    wanted = positive(epsilon, "epsilon")
    return Terms(unit, replace(mu_cap(wanted, rest), delta=aside), wanted, whole)


def _within(terms: Terms) -> Terms:
    check_size(terms.cap, "the cap")
    return terms


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
