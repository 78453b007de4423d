"""From what a person types to an account's exact terms, and what differs between two of them."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction

from steelyard.errors import InvalidTask, UnitMismatch, WeakPromise
from steelyard.privacy import ATTO, Currency, Loss, Number, Terms, Unit, decimal_text, positive, probability

LARGEST = 2**63 - 1
_WEAK_EPSILON, _WEAK_DELTA = 50, Fraction(1, 100)


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


def read_terms(unit: Unit | None, asked: CapGiven) -> Terms:
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


def share_terms(above: Terms, parent: str, unit: Unit | None, asked: CapGiven) -> Terms:
    """The terms of an account below another: the same unit, currency and reading of a task's epsilon; a cap of its own.

    Its delta is what its parent leaves for the filter, and whatever part of what is set aside is given to it.
    """
    _check_share(above, parent, unit, asked)
    if above.currency is Currency.PURE:
        assert asked.epsilon is not None
        terms = Terms(above.unit, Loss.pure(asked.epsilon), Loss.pure(asked.epsilon).value, parent=parent)
    else:
        given = asked.additive_delta
        aside = 0 if given is None else math.floor(probability(given, "additive_delta") * ATTO)
        terms = _gaussian_share(above, asked, parent, aside)
    if not terms.cap <= above.cap:
        raise InvalidTask(
            f"the share, {terms.cap}, is more than {parent!r} was opened with, {above.cap}; all of it is the most."
        )
    return terms


def _check_share(above: Terms, parent: str, unit: Unit | None, asked: CapGiven) -> None:
    if unit is not None and unit != above.unit:
        raise UnitMismatch(
            f"account {parent!r} hides {above.unit}; an account below it hides the same, and not {unit}."
        )
    if above.currency is Currency.NATS:
        raise InvalidTask(f"{parent!r} counts in nats, which belong to the holdout as a whole; they are not divided.")
    given = [name for name in ("epsilon", "mu", "nats") if getattr(asked, name) is not None]
    fits = ("epsilon",) if above.currency is Currency.PURE or not above.filter_delta else ("epsilon", "mu")
    fits = ("mu",) if above.currency is Currency.GAUSSIAN and not above.filter_delta else fits
    if len(given) != 1 or given[0] not in fits:
        raise InvalidTask(
            f"an account below {parent!r} has one cap: give {' or '.join(fits)}; got {' and '.join(given) or 'none'}."
        )
    if asked.delta is not None or (asked.additive_delta is not None and above.currency is Currency.PURE):
        raise InvalidTask(
            f"the delta of an account below {parent!r} follows from that account; leave delta out (additive_delta= is its part of what is set aside)."
        )


def _gaussian_share(above: Terms, asked: CapGiven, parent: str, aside: int) -> Terms:
    whole = above.filter_delta + Fraction(aside, ATTO)
    if asked.mu is not None:
        return Terms(above.unit, replace(Loss.mu(asked.mu), delta=aside), None, whole, parent)
    assert asked.epsilon is not None
    from steelyard.accounting import mu_cap

    wanted = positive(asked.epsilon, "epsilon")
    return Terms(above.unit, replace(mu_cap(wanted, above.filter_delta), delta=aside), wanted, whole, parent)


def warn_if_weak(terms: Terms, level: int) -> None:
    """Say of a promise that hardly protects anybody what it means; such an account is for trying things out."""
    weak = []
    if terms.epsilon is not None and terms.epsilon > _WEAK_EPSILON:
        weak.append(
            f"epsilon {decimal_text(terms.epsilon, 6)} lets an answer be e^{decimal_text(terms.epsilon, 6)} times as likely with somebody as without"
        )
    if terms.delta > _WEAK_DELTA:
        weak.append(f"delta {decimal_text(terms.delta, 6)} allows a release that publishes {decimal_text(100 * terms.delta, 4)} in a hundred people outright; "
                    "usual is far less than one divided by the number of people")  # fmt: skip
    if weak:
        warnings.warn(
            f"this account promises next to nothing: {'; '.join(weak)}. It was opened all the same.",
            WeakPromise,
            stacklevel=level,
        )


def check_size(loss: Loss, what: str) -> None:
    """Refuse an amount that a 64-bit integer cannot hold exactly."""
    if max(loss.amount, loss.delta) > LARGEST:
        raise InvalidTask(f"{what}, {loss}, is larger than the ledger can count (2^63 - 1 of its smallest unit).")


def differences(asked: Terms, found: Terms) -> list[str]:
    """What was asked for and is not what the ledger says, in words. A cap that was solved for is not compared."""
    pairs = [("unit", str(asked.unit), str(found.unit)), ("currency", str(asked.currency), str(found.currency))]
    pairs.append(("parent", asked.parent or "none", found.parent or "none"))
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
