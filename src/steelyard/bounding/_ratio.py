"""``Ratio``: a sum over a sum, at one price, with an interval that holds however small the denominator is.

A unit brings its pair of totals, each measured by its own cap, and is weighed down as a whole where the pair sticks out of one ball: so its
own ratio is kept, and one noisy pair costs what one number costs. Proof: ratio.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from steelyard.bounding._amounts import Spend, check_unit, norm_of
from steelyard.bounding._asking import ByKey, Integers, Single
from steelyard.bounding._cap_choice import BoughtCounts
from steelyard.bounding._cap_rule import Bounds, Cap, CapRule
from steelyard.bounding._fieller import floats, ratio_ends, reach
from steelyard.bounding._grouping import By, Grouping, PublicKeys, keep_exact, keep_keys
from steelyard.bounding._private_keys import Groups
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.plan import Error, Outcome
from steelyard.privacy import Event, Number, Terms, composed, finite
from steelyard.tables import Bounded, Capped, Joint, Quantity, Schema, Table

_LARGEST = 1e300


@dataclass(frozen=True)
class Ratio(Single):
    """The sum of a column over the sum of another, such as clicks over views; by key, one ratio for each.

    ``cap`` and ``over_cap`` are the most that one unit's totals of either count for, in absolute value: public numbers, released profiles, or
    "auto", bought below ``upper`` and ``over_upper`` inside the same epsilon. A unit beyond them is weighed down as a whole. *Privacy:*
    one unit moves the pair of sums by at most the ball's radius in the noise's norm. *Accuracy:* ``release.low`` and ``high`` hold the
    ratio of units so weighed in 95 % of draws (*proved*); they are None where the denominator cannot be told from zero. *Cost:* exactly ``epsilon``.

    >>> Ratio("clicks", "views", epsilon=1, cap=20, over_cap=100).over
    'views'
    """

    column: str
    over: str
    epsilon: Number | None = None
    cap: Cap = "auto"
    over_cap: Cap = "auto"
    upper: Number | None = None
    over_upper: Number | None = None
    by: By | None = None
    keys: PublicKeys | None = None
    max_keys: int | None = None
    mu: Number | None = None
    others: bool = False

    def __post_init__(self) -> None:
        if self.column == self.over:
            raise InvalidTask("a ratio needs two columns; that of one to itself is one.")
        keep_keys(self)
        _ = self._rules
        keep_exact(self, "epsilon", "mu", "cap", "over_cap", "upper", "over_upper")

    def request(self, schema: Schema, terms: Terms) -> Quotient:
        """The caps, where they are bought, then one noisy pair, or one for each key; its error is known only with the denominator."""
        check_unit(schema, terms)
        for column in (self.column, self.over):
            schema.require_numeric(column)
        groups, left = Groups.plan(self._grouping, Spend.read(self.epsilon, self.mu, terms), schema, terms)
        looks: list[BoughtCounts | None] = []
        for rule in self._rules:
            bought, left = rule.parts(left)
            looks.append(rule.noise(bought, left)[0])
        mechanism = left.mechanism(left.steps)
        return Quotient((self.column, self.over), self._rules, groups, terms, tuple(looks), left, mechanism)

    @lazy
    def _rules(self) -> tuple[CapRule, CapRule]:
        given = ((self.cap, self.upper), (self.over_cap, self.over_upper))
        above, below = (CapRule.read(cap, None, most, None, rows=False, grouping=self._grouping) for cap, most in given)
        return above, below


@dataclass(frozen=True)
class Quotient:
    """A ratio before any row is read: how its two caps are found, and the noise of its pair."""

    columns: tuple[str, str]
    rules: tuple[CapRule, CapRule]
    groups: Groups
    terms: Terms
    looks: Sequence[BoughtCounts | None]
    spend: Spend
    mechanism: Laplace | Gaussian
    predicted: Error | None = None

    @property
    def event(self) -> Event:
        """The looks that buy caps, and the pair."""
        events = [*(look.mechanism.event for look in self.looks if look is not None), self.mechanism.event]
        return events[0] if len(events) == 1 else composed(*events)

    @property
    def present(self) -> Callable[[Any], Any]:
        """A number, or a dictionary by key."""
        return self.groups.grouping.present

    def ready(self, table: Table, noise: Noise, grouping: Grouping) -> BoundedPair:
        """Fix both caps, buying them where they are private."""
        own = self.groups.limited(grouping)
        bounds: list[Bounds] = []
        for rule, look, column in zip(self.rules, self.looks, self.columns, strict=True):
            fixed = rule.fixed(self.spend)
            if fixed is None:
                assert look is not None  # a cap that is not known is bought
                asked = replace(rule, grouping=own)
                fixed = asked.bought(table, self.terms, column, look, self.spend, noise, own.size)
            bounds.append(fixed)
        caps = bounds[0].upper, bounds[1].upper
        return BoundedPair(self.columns, caps, self.mechanism, self.spend.steps, (own.max_keys, own.rows_per_key))


@dataclass(frozen=True)
class BoundedPair:
    """A ratio whose caps are fixed; ``ball`` is the radius in grid steps, whatever the caps are."""

    columns: tuple[str, str]
    caps: tuple[Fraction, Fraction]
    mechanism: Laplace | Gaussian
    ball: int
    limits: ByKey

    @property
    def steps(self) -> int:
        """Grid steps to a cap: a unit that reaches both caps lies on the ball."""
        return math.isqrt(self.ball**2 // 2) if isinstance(self.mechanism, Gaussian) else self.ball // 2

    def balls(self, grouping: Grouping) -> Sequence[Bounded | Capped | Joint]:
        """Both totals, each by its own cap, in one ball."""
        pair = zip(self.columns, self.caps, strict=True)
        quantities = tuple(Quantity(column, cap / self.steps) for column, cap in pair)
        return [Joint(quantities, self.ball, norm_of(self.mechanism))]

    def told(self, grouping: Grouping, found: Integers, table: Table, noise: Noise) -> Outcome:
        """Noise the pairs, divide; a denominator below its own noise is taken to be as large as that."""
        noised = self.mechanism.release([each for key in zip(*found, strict=True) for each in key], noise)
        above, below = floats(noised[::2]), floats(noised[1::2])
        size, scale = reach(self.mechanism, 2), finite(self.caps[0] / self.caps[1])
        safe = np.where(np.abs(below) > size, below, np.where(below < 0, -size, size))
        ratio = above / safe
        with np.errstate(over="ignore"):
            half, value = _told(size * np.hypot(1.0, ratio) / np.abs(safe) * scale), _told(ratio * scale)
            ends = [_ends(low, high, scale) for low, high in zip(*ratio_ends(above, below, size), strict=True)]
        most = f"{float(self.caps[0]):g} of {self.columns[0]} or {float(self.caps[1]):g} of {self.columns[1]}"
        of = f"units weighed by the caps: one whose totals lie above {most} may count for less, as a whole"
        error = Error(max(half) / 3, max(half), each=half if grouping.by else (), ends=ends, of=of)
        point = {"cap": float(self.caps[0]), "over_cap": float(self.caps[1])}
        return Outcome(grouping.label(value), error, point)


def _told(numbers: Any) -> list[float]:
    """Numbers inside what a document can say."""
    return [float(each) for each in np.clip(numbers, -_LARGEST, _LARGEST)]


def _ends(low: float, high: float, scale: float) -> tuple[float | None, float | None]:
    """Both ends, or none where one is not finite."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return None, None
    ends = float(low) * scale, float(high) * scale
    return ends if math.isfinite(ends[0]) and math.isfinite(ends[1]) else (None, None)
