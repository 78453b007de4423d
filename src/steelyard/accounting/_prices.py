"""The one place where what was done becomes what it costs on an account.

An event says what happened; its claim is pure epsilon or mu squared, exact; the account's currency and neighbour
relation then turn the claim into a loss, rounded up. One function per event name, in one table.
Law: the meaning of a name never changes and none is removed, so that an old entry is priced for ever as it was.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from steelyard.accounting._bounded import least_epsilon
from steelyard.accounting._normal import as_decimal, precise
from steelyard.accounting._objective import objective_mu
from steelyard.accounting._objective_users import user_mu
from steelyard.accounting._pure import pure_to_mu, range_to_mu
from steelyard.errors import CurrencyMismatch, NeighbourMismatch, OurBug
from steelyard.privacy import ATTO, MICRO, Currency, Event, Loss, Neighbours, Terms

_WHEN = ("_before", "_after")
"""What a disjoint step's parameters add to the name of a part."""


class _Whole:
    """An event's parameters, read as whole numbers of at least zero and refused otherwise."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    def __contains__(self, key: str) -> bool:
        return key in self._given

    def __getitem__(self, key: str) -> int:
        value = self._given[key]
        if not isinstance(value, int) or value < 0:
            raise ValueError(f"{key} is {value!r}")
        return value

    def fraction(self, key: str) -> Fraction:
        """Two of them that are one fraction."""
        return Fraction(self[f"{key}_numerator"], self[f"{key}_denominator"])


@dataclass(frozen=True)
class Pure:
    """A claim of pure epsilon, exact, for each of ``times`` steps; their squared mu adds up on a Gaussian account."""

    epsilon: Fraction
    times: int = 1


@dataclass(frozen=True)
class MuSquared:
    """A claim of mu-GDP (for every epsilon at once, never from one (epsilon, delta)); ``squared`` is exact."""

    squared: Fraction


@dataclass(frozen=True)
class Ranged:
    """A claim that the privacy loss lies in some interval of length ``epsilon``, as that of an exponential choice does."""

    epsilon: Fraction


Claim = Pure | Ranged | MuSquared


def price(event: Event, terms: Terms) -> Loss:
    """What an event costs on an account with these terms, in the account's currency, rounded up.

    *Privacy:* a pure step on a Gaussian account costs its tight mu; a Gaussian step on a pure account is refused; an
    add-remove step costs double where neighbours replace a unit; a replace step is refused where they add or remove.
    """
    if terms.currency is Currency.NATS:
        raise CurrencyMismatch(
            "this account counts nats (validity of a holdout); open a privacy account for this step."
        )
    if event.name == "composed":
        return sum((price(part, terms) for part in _alone(event)), Loss.zero(terms.currency))
    if event.name == "grouped":
        return _group_price(event, terms)
    if event.name == "disjoint":
        return _disjoint_price(event, terms)
    claim = _claim(event)
    units = _units(event.neighbours, terms.unit.neighbours)
    return _in_currency(claim, units, terms.currency, _failure(event, units, terms))


def steps(event: Event, times: int) -> Event:
    """The same Gaussian step so many times as one event, each free to depend on what the earlier ones released."""
    if event.name != "gaussian" or times < 1:
        raise OurBug("only a Gaussian step is repeated, at least once.")
    return Event("gaussian_steps", {**event.parameters, "times": times}, event.neighbours, event.status)


def grouped(event: Event, size: int) -> Event:
    """A step derived for one row, charged for a unit that brings at most ``size`` of them (group privacy).

    A group of groups is one group of their product.
    """
    if event.name == "grouped":
        (inner,) = _parts(event, {"events", "size"})
        return grouped(inner, size * _Whole(event.parameters)["size"])
    text = json.dumps([event.to_json()], sort_keys=True)
    return Event("grouped", {"size": size, "events": text}, event.neighbours, event.status)


def disjoint(event: Event, part: str, before: Mapping[str, int]) -> Event:
    """A step that reads one of two disjoint parts of the units; ``before`` says by name what each has paid (1e-12 of mu squared).

    *Privacy:* a unit that is added or removed is in one part, so all steps together cost the dearer part. The steps must
    follow each other: what is ``before`` one is ``after`` exactly one other, or nothing (docs/proofs/disjoint_check.md).
    """
    after = {**before, part: before[part] + _rise(event)}
    text = json.dumps([event.to_json()], sort_keys=True)
    counts = {name + when: paid[name] for when, paid in zip(_WHEN, (before, after), strict=True) for name in before}
    return Event("disjoint", {"events": text, **counts}, Neighbours.ADD_REMOVE, event.status)


def paid_apart(event: Event) -> tuple[dict[str, int], dict[str, int]]:
    """What the two parts of a disjoint step had paid before it, and have paid after it, by the parts' names."""
    given, (before, _) = _Whole(event.parameters), _WHEN
    names = sorted(key.removesuffix(before) for key in event.parameters if key.endswith(before))
    try:
        earlier, later = ({name: given[name + when] for name in names} for when in _WHEN)
    except (KeyError, ValueError) as fault:
        raise OurBug(f"what two parts cost is counted in whole numbers ({fault}).") from fault
    return earlier, later


def _disjoint_price(event: Event, terms: Terms) -> Loss:
    """By how much the dearer part rises, and never nothing."""
    before, after = paid_apart(event)
    (inner,) = _parts(event, {"events", *(name + when for name in before for when in _WHEN)})
    rises = sorted(after[name] - paid for name, paid in before.items())
    if rises != [0, _rise(inner)] or event.neighbours is not Neighbours.ADD_REMOVE:
        raise OurBug("a step on one of two parts raises that part by its own price, and no other.")
    claim = MuSquared(Fraction(max(1, max(after.values()) - max(before.values())), MICRO**2))
    return _in_currency(claim, _units(event.neighbours, terms.unit.neighbours), terms.currency, 0)


def _rise(inner: Event) -> int:
    """What a step costs those whom it reads, in 1e-12 of mu squared, rounded up."""
    if inner.neighbours is not Neighbours.ADD_REMOVE or "failure_atto" in inner.parameters:
        raise OurBug("disjoint parts are read by steps that never fail, derived for units that are added or removed.")
    return _in_currency(_claim(inner), 1, Currency.GAUSSIAN, 0).amount


def _group_price(event: Event, terms: Terms) -> Loss:
    """The inner step's price with as many moves to a neighbour as the group has members."""
    size, parts = event.parameters.get("size"), _parts(event, {"events", "size"})
    if not isinstance(size, int) or size < 1:
        raise OurBug("a grouped event says how many members a group has.")
    total = Loss.zero(terms.currency)
    for part in [inner for each in parts for inner in (_parts(each) if each.name == "composed" else [each])]:
        units = size * _units(part.neighbours, terms.unit.neighbours)
        total += _in_currency(_claim(part), units, terms.currency, _failure(part, units, terms))
    return total


def _parts(event: Event, known: Set[str] = frozenset({"events"})) -> list[Event]:
    if set(event.parameters) != known:
        raise OurBug("a composed event holds its parts and nothing else.")
    try:
        parts = [Event.from_json(part) for part in json.loads(str(event.parameters["events"]))]
    except (KeyError, TypeError, ValueError) as fault:
        raise OurBug(f"a composed event cannot be taken apart ({fault}).") from fault
    if not parts:
        raise OurBug("a composed event has at least one part.")
    return parts


def _alone(event: Event) -> list[Event]:
    """The parts of a composed event; none may count from what other entries paid, or that could not be followed."""
    parts = _parts(event)
    if any(part.name == "disjoint" for part in parts):
        raise OurBug("a step on one of two parts is an entry of its own.")
    return parts


def _claim(event: Event) -> Claim:
    read = _CLAIMS.get(event.name)
    if read is None:
        raise OurBug(f"no price is known for the event {event.name!r}.")
    if event.name in _ADDED and event.neighbours is not Neighbours.ADD_REMOVE:
        raise OurBug(f"the price of {event.name!r} is proved for units that are added or removed, and for no others.")
    try:
        return read(_Whole(event.parameters))
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as fault:
        raise OurBug(f"the event {event.name!r} lacks what its price needs ({fault}).") from fault


def _in_currency(claim: Claim, units: int, currency: Currency, failure: int) -> Loss:
    if isinstance(claim, MuSquared):
        if currency is not Currency.GAUSSIAN:
            raise CurrencyMismatch(
                "Gaussian noise has no finite pure epsilon; use Laplace noise here, or open the account with a delta."
            )
        return Loss(currency, math.ceil(claim.squared * units * units * MICRO * MICRO), failure)
    epsilon, gaussian = claim.epsilon * units, currency is Currency.GAUSSIAN
    if isinstance(claim, Ranged):
        return Loss(currency, range_to_mu(epsilon) ** 2 if gaussian else math.ceil(epsilon * MICRO), failure)
    each = pure_to_mu(epsilon) ** 2 if gaussian else epsilon * MICRO
    return Loss(currency, math.ceil(each * claim.times), failure)


def _units(step: Neighbours, account: Neighbours) -> int:
    """How many of the step's neighbour moves make one of the account's."""
    moves = {
        (Neighbours.ADD_REMOVE, Neighbours.REPLACE): 2,
        (Neighbours.ADD_REMOVE, Neighbours.CHANGE_LABEL): 2,
        (Neighbours.REPLACE, Neighbours.CHANGE_LABEL): 1,
    }
    count = 1 if step is account else moves.get((step, account))
    if count is None:
        raise NeighbourMismatch(
            f"this step was derived for neighbours that {step} a unit; the account's neighbours {account} one. "
            "Use a step derived for the account's relation, or an account opened for the step's."
        )
    return count


def _failure(event: Event, units: int, terms: Terms) -> int:
    failure = event.parameters.get("failure_atto", 0)
    if not isinstance(failure, int) or failure < 0 or failure > ATTO:
        raise OurBug(f"the event {event.name!r} carries a failure probability that is none.")
    if failure and units > 1:
        raise NeighbourMismatch(
            "a step that may fail with a probability has no doubled price; it must be derived for neighbours that "
            f"{terms.unit.neighbours} a unit."
        )
    if failure and not terms.cap.delta:
        raise CurrencyMismatch(
            f"this step fails with probability up to {failure / ATTO:g} and the account sets nothing aside for that; "
            "open one with additive_delta=, a part of its delta."
        )
    return failure


def _square(given: _Whole) -> int:
    if "sensitivity" in given and "sensitivity_squared" in given:
        raise ValueError("a sensitivity is given, and a square of one as well")
    return given["sensitivity"] ** 2 if "sensitivity" in given else given["sensitivity_squared"]


def _above_threshold(given: _Whole) -> Claim:
    weight = given["stops"] * (1 if given["monotone"] else 2)
    return Pure(
        given["sensitivity"] * (1 / given.fraction("threshold_scale") + weight / given.fraction("question_scale"))
    )


def _random_stop(given: _Whole) -> Claim:
    if given["order"] > 1:
        raise ValueError(f"order is {given['order']}, and only 0 and 1 are proved")
    return Pure((2 + given["order"]) * given.fraction("epsilon"))


def _bounded_noise(given: _Whole) -> Claim:
    stated = given.fraction("epsilon")
    law = given["power"], given["radius"], given["sensitivity"], given["questions"], given["failure_atto"]
    if not float(stated) >= least_epsilon(*law):
        raise ValueError(f"epsilon is {float(stated):g}, and no less than {least_epsilon(*law):g} is proved")
    return Pure(stated)


def _perturbed(given: _Whole, proved: Callable[[Fraction, int], int]) -> Claim:
    """The mu that was stated, if noise and ridge cost no more; a micro of it is spare for another machine's doubles."""
    shift, mu = given["shift_micro"], given["mu_micro"]
    least = proved(Fraction(MICRO, shift) / given.fraction("ridge"), shift) - 1
    if mu < least:
        raise ValueError(f"mu_micro is {mu}, and no less than {least} is proved")
    return MuSquared(Fraction(mu**2 + given["output_micro"] ** 2, MICRO**2))


def _objective_pure(given: _Whole) -> Claim:
    scale = given.fraction("scale")
    if given["extra_micro"] < 1:
        raise ValueError("the noise's own rounding costs a micro")
    if given.fraction("ridge") < scale:
        raise ValueError("the ridge is below the scale")
    return Pure(1 / scale + Fraction(given["extra_micro"] + given["output_micro"], MICRO))


def log_above(ratio: Fraction) -> Fraction:
    """The natural logarithm of a ratio of at least one, rounded up to a micro.

    >>> log_above(Fraction(3))
    Fraction(1098613, 1000000)
    """
    if ratio < 1:
        raise ValueError("a likelihood ratio is at least one")
    if ratio == 1:
        return Fraction(0)
    with precise(80):
        bound = as_decimal(ratio).ln() * (1 + Decimal("1e-60")) + Decimal("1e-60")
        return Fraction(math.ceil(bound * MICRO), MICRO)


_CLAIMS: dict[str, Callable[[_Whole], Claim]] = {
    "laplace": lambda given: Pure(given["sensitivity"] / given.fraction("scale")),
    "laplace_path": lambda given: Pure(given["sensitivity"] / given.fraction("scale")),
    "gaussian": lambda given: MuSquared(_square(given) / given.fraction("sigma") ** 2),
    "gaussian_steps": lambda given: MuSquared(given["times"] * _square(given) / given.fraction("sigma") ** 2),
    "gaussian_path": lambda given: MuSquared(_square(given) * given.fraction("precision")),
    "above_threshold": _above_threshold,
    "exponential": lambda given: Pure(given.fraction("epsilon")),
    "bounded_range": lambda given: Ranged(given.fraction("epsilon")),
    "bounded_noise": _bounded_noise,
    "staircase": lambda given: Pure(given.fraction("epsilon")),
    "random_stop": _random_stop,
    "stated": lambda given: Pure(given.fraction("epsilon")),
    "stated_mu": lambda given: MuSquared(Fraction(given["mu_micro"], MICRO) ** 2),
    "finite": lambda given: Pure(log_above(given.fraction("ratio"))),
    "objective": lambda given: _perturbed(given, objective_mu),
    "objective_pure": _objective_pure,
    "objective_users": lambda given: _perturbed(given, user_mu),
    "thresholdout": lambda given: Pure(2 * given["sensitivity"] / given.fraction("scale"), given["budget"]),
}

_ADDED = {"objective", "objective_pure", "objective_users"}
"""Events whose price has a proof of its own, for one relation: another one that they state is not believed."""
