"""A plan for a whole report: numbers with tolerances in, the least epsilon and its division out, and then one release.

Everything is worked out from profiles that were released before and from public facts, so a plan costs nothing until it is
released. The release is one charge for all numbers, at a price that is fixed before a row is read; they are computed in turn
and stored as one answer (docs/proofs/report.md). The class is called ``ReportPlan`` because a ``Plan`` (``steelyard.session``) is
what any one task will do; people type ``sy.Plan``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from steelyard.bounding._cap_choice import ContributionProfile
from steelyard.bounding._chances import ChanceCurve, Savings, refuse, shares
from steelyard.bounding._division import Division, Share
from steelyard.bounding._grouping import read_by
from steelyard.bounding._reading import ErrorReading
from steelyard.bounding._within import Wanted, Within
from steelyard.errors import InvalidTask
from steelyard.privacy import Currency, Number, Terms, exact
from steelyard.tables import Schema

_MOST = 200
Entry = Within | tuple[Wanted, Number]


@dataclass(frozen=True, repr=False)
class ReportPlan:
    """Numbers of a report, each with its tolerance; ``sy.Plan`` for those who type it.

    ``numbers`` is a dictionary from a name to ``(task, tolerance)``, or to a ``Within`` where more is to be said; or a list of
    them. Tasks have no price of their own. ``profile`` is one released profile, or several: what they tell of caps is used for
    every number of the same column. All tolerances together hold with ``confidence``.
    *Privacy, cost:* the sum of the parts, fixed beforehand as one charge. *Accuracy:* calibrated where a profile tells what a
    cap cuts off, proved where nothing is cut off; ``session.plan(plan)`` is the ``Division`` with what each number costs.

    >>> from steelyard.bounding import Count, CountUsers
    >>> plan = ReportPlan({"people": (CountUsers(), 50), "visits": Within(Count(cap=20), 900, noise_alone=True)})
    >>> [each.name for each in plan.numbers]
    ['people', 'visits']
    """

    numbers: Sequence[Entry] | Mapping[str, Entry]
    profile: Sequence[ContributionProfile] | ContributionProfile | None = ()
    confidence: Number = Fraction(95, 100)

    def __post_init__(self) -> None:
        given: Any = self.numbers
        pairs = list(given.items()) if isinstance(given, Mapping) else [(None, each) for each in _listed(given)]
        if not 0 < len(pairs) <= _MOST:
            raise InvalidTask(f"a plan has 1 to {_MOST} numbers; got {len(pairs)}.")
        object.__setattr__(self, "numbers", _named([_wish(name, each) for name, each in pairs]))
        looks: Any = self.profile
        looks = () if looks is None else (looks,) if isinstance(looks, ContributionProfile) else tuple(_listed(looks))
        if not all(isinstance(each, ContributionProfile) for each in looks):
            raise InvalidTask("profile is a released profile (release.value of a Profile), or a list of them.")
        object.__setattr__(self, "profile", looks)
        object.__setattr__(self, "confidence", exact(self.confidence, "confidence"))
        if not Fraction(1, 2) <= Fraction(self.confidence) < 1:
            raise InvalidTask(f"confidence must be at least 0.5 and below 1; got {float(self.confidence):g}.")

    def __repr__(self) -> str:
        names = [each.name for each in self.wishes]
        return f"Plan({len(names)} numbers: {', '.join(names[:5])}{', …' if len(names) > 5 else ''}); session.plan(it) is what it would cost"

    @property
    def wishes(self) -> Sequence[Within]:
        """The numbers, each under its name."""
        return cast(Sequence[Within], self.numbers)

    @property
    def profiles(self) -> Sequence[ContributionProfile]:
        """The profiles, as a list."""
        return cast(Sequence[ContributionProfile], self.profile)

    def plan(self, schema: Schema, terms: Terms) -> Division:
        """The least price and its division; refuses a tolerance that no price meets, and what is not known."""
        chance, squared = float(1 - Fraction(self.confidence)), terms.currency is Currency.GAUSSIAN
        readings = [ErrorReading.of(each, self.profiles, schema, terms) for each in self.wishes]
        curves = [ChanceCurve.of(each.odds(), chance) for each in readings]
        for reading, curve in zip(readings, curves, strict=True):
            if not math.isfinite(curve.levels[0]):
                raise refuse(reading, chance / len(readings))
        given = shares(curves, chance, squared=squared)
        if given is None:
            scarce = min(range(len(curves)), key=lambda at: int(sum(map(math.isfinite, curves[at].levels))))
            raise refuse(readings[scarce], chance / len(readings))
        parts = [
            Share.of(reading, curve, share, schema, terms)
            for reading, curve, share in zip(readings, curves, given, strict=True)
        ]
        return Division.of(parts, Savings(readings, curves, chance, squared), terms, float(self.confidence))


def _listed(given: Any) -> list[Any]:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InvalidTask("a plan takes a dictionary of names and (task, tolerance), or a list of (task, tolerance).")
    return list(given)


def _wish(name: Any, given: Any) -> Within:
    """One entry as a person writes it."""
    if isinstance(given, tuple | list):
        if len(given) != 2:
            raise InvalidTask(
                "a number is wanted as (task, tolerance); more is said with Within(task, tolerance, ...)."
            )
        given = Within(given[0], given[1])
    if not isinstance(given, Within):
        raise InvalidTask("a number is wanted as (task, tolerance): how far from the truth it may be.")
    return given if name is None else replace(given, name=name)


def _named(wishes: Sequence[Within]) -> tuple[Within, ...]:
    """Every number under a name of its own."""
    found: list[Within] = []
    for wish in wishes:
        task, taken = wish.task, {each.name for each in found}
        said = (("of", getattr(task, "column", None)), ("by", getattr(task, "by", None)))
        name = wish.name or " ".join(
            [type(task).__name__, *(f"{word} {', '.join(read_by(names))}" for word, names in said if names)]
        )
        if wish.name and wish.name in taken:
            raise InvalidTask(f"two numbers are called {wish.name!r}; give each its own name.")
        tries = (name if at == 1 else f"{name} {at}" for at in range(1, _MOST + 2))
        found.append(replace(wish, name=next(each for each in tries if each not in taken)))
    return tuple(found)
