"""Private computations that are done elsewhere, on our ledger; and our events, for others' accountants.

A training run of another library is entered before it begins, with the guarantee it states: that guarantee is somebody's word, and the
release says so. If it holds, so does the account's promise (docs/proofs/stated.md). The other way round, ``dp_event`` says what we did as an
event of Google's dp-accounting.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from steelyard.account import Account, check_account
from steelyard.accounting import price
from steelyard.desk import Desk, NoTable
from steelyard.errors import EngineMissing, InvalidTask
from steelyard.noise import ExactNoise
from steelyard.plan import Outcome
from steelyard.privacy import (
    ATTO,
    MICRO,
    Currency,
    Event,
    Loss,
    Neighbours,
    Number,
    Status,
    Terms,
    exact,
    labels,
    positive,
    rows,
)
from steelyard.release import Release
from steelyard.session import named


def enter(
    account: Account,
    what: str,
    *,
    epsilon: Number | None = None,
    delta: Number = 0,
    mu: Number | None = None,
    neighbours: Neighbours | str | None = None,
    key: str | None = None,
) -> Release:
    """Charge an account for a private computation that is done elsewhere, before it is done: a training run, say.

    ``what`` says in public words what will be done. Its guarantee is your word, for the account's unit (``neighbours`` where it was
    derived for another relation): ``mu`` if it is mu-GDP, for every epsilon at once, else one (``epsilon``, ``delta``).
    *Privacy:* if the guarantee holds, so does the account's. A delta is charged whole to what the account sets aside, beside the price of
    its epsilon; a mu needs a Gaussian account. *Cost:* that price; the same ``key`` again is free.

    >>> from steelyard.ledger import open_account
    >>> paying = open_account(":memory:", "training", unit=rows(), epsilon=3, delta="1e-5")
    >>> print(enter(paying, "a network, noisy gradients, sigma 4, 3 epochs", mu="0.25").guarantee.spent)
    mu 0.25
    """
    check_account(account)
    if not isinstance(what, str) or not 0 < len(what) <= 1000:
        raise InvalidTask("what says in public words what is done elsewhere, in 1 to 1000 characters.")
    event = stated(epsilon, delta, mu, account.terms.unit.neighbours if neighbours is None else neighbours)
    request = {"type": "enter", "what": what, "event": event.to_json()}
    desk = Desk(NoTable(f"outside: {what}"), ExactNoise(), account, named(key), request)
    return desk.answer(desk.charge(event), event, lambda _, __: Outcome(what, None))


def stated(epsilon: Number | None, delta: Number, mu: Number | None, neighbours: Neighbours | str) -> Event:
    """A guarantee that somebody states, rounded up: a mu, or one (epsilon, delta)."""
    if (epsilon is None) == (mu is None):
        raise InvalidTask("say what is promised: mu, or epsilon (and delta), and not both.")
    if str(neighbours) not in list(Neighbours):
        raise InvalidTask(f"neighbours must be one of {', '.join(Neighbours)}; got {neighbours!r}.")
    relation, failure = Neighbours(str(neighbours)), exact(delta, "delta")
    if mu is not None:
        if failure:
            raise InvalidTask("a mu holds for every delta: leave delta out.")
        micro = math.ceil(positive(mu, "mu") * MICRO)
        return Event("stated_mu", {"mu_micro": micro}, relation, Status.OUTSIDE)
    if not 0 <= failure < 1:
        raise InvalidTask(f"delta is a probability below 1; got {delta!r}.")
    amount = positive(epsilon or 0, "epsilon")
    lost = {"failure_atto": math.ceil(failure * ATTO)} if failure else {}
    return replace(Event.of("stated", relation, epsilon=amount, **lost), status=Status.OUTSIDE)


def dp_event(event: Event) -> Any:
    """What was done, as an event of dp-accounting: for its neighbours, at least as telling as the step was.

    Gaussian noise is itself, and so is discrete Laplace noise of a small sensitivity; of a large one it becomes Laplace noise of a sensitivity
    that is one more, since whole numbers tell more than a continuum does (docs/proofs/stated.md). Anything else becomes the Gaussian step of its price, which it is a garbling of.
    Steps that fail with a probability have no such event.

    >>> from steelyard.mechanisms import Gaussian
    >>> print(dp_event(Gaussian(3, Fraction(6)).event))
    GaussianDpEvent(noise_multiplier=2.0)
    """
    try:
        import dp_accounting as others
    except ImportError:
        raise EngineMissing("dp-accounting is not installed.", install="pip install dp-accounting") from None
    if event.name == "composed":
        parts = [Event.from_json(part) for part in json.loads(str(event.parameters["events"]))]
        return others.ComposedDpEvent([dp_event(part) for part in parts])
    if event.name == "disjoint":  # what it cost beside other steps says nothing of what it tells
        (inner,) = json.loads(str(event.parameters["events"]))
        return dp_event(Event.from_json(inner))
    if event.parameters.get("failure_atto"):
        raise InvalidTask("this step fails with a probability, and dp-accounting has no event for that.")
    cost = price(event, _ALIKE[event.neighbours]).amount  # and a refusal, where it lacks what it would cost
    sensitivity = int(str(event.parameters.get("sensitivity", 0)))
    if event.name == "laplace":
        return _laplace(others, event.fraction("scale"), sensitivity)
    if event.name == "gaussian" and sensitivity:
        return others.GaussianDpEvent(_below(event.fraction("sigma") / sensitivity))
    mu = math.isqrt(cost - 1) + 1
    return others.GaussianDpEvent(_below(Fraction(MICRO, mu)))


def _laplace(others: Any, scale: Fraction, sensitivity: int) -> Any:
    """Discrete Laplace noise, itself where the other accountant can add up so many outcomes."""
    if sensitivity <= _OUTCOMES:
        return others.dp_event.DiscreteLaplaceDpEvent(-_below(-1 / scale), sensitivity)
    return others.LaplaceDpEvent(_below(scale / (sensitivity + 1)))


def _below(exact_: Fraction) -> float:
    """The number as a float that is no larger."""
    found = float(exact_)
    return found if Fraction(found) <= exact_ else math.nextafter(found, -math.inf)


_OUTCOMES = 1000
_CAP = Loss(Currency.GAUSSIAN, 10**30)
_ALIKE = {
    unit.neighbours: Terms(unit, _CAP, Fraction(1), Fraction(1, 2))
    for unit in (rows(), rows(neighbours="replace", n=2), labels("label"))
}
