"""``CountDistinct``: how many different values a column has, each unit counting for at most ``cap`` of them.

Which of a unit's values count is decided by a keyed digest of its own values, so one more unit adds at most ``cap`` and takes nothing away. A
value that many hold is counted through any of them: even a small cap sees most values. With "auto" the cap is chosen privately among powers of
two, each weighed by how far one unit moves its count (the generalized exponential mechanism of Raskhodnikova and Smith 2016, for counts
of distinct values Knop and Steinke 2023). Proof: count_distinct.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from steelyard.bounding._amounts import Spend, check_unit, noise_error
from steelyard.bounding._asking import Integers, OwnPass, Single
from steelyard.bounding._grouping import By, Grouping, PublicKeys, keep_exact, keep_keys
from steelyard.bounding._private_keys import Groups
from steelyard.bounding._ranks import level_epsilon
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Exponential, Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.plan import Error, Outcome
from steelyard.privacy import MICRO, Event, Number, Terms, composed
from steelyard.tables import Schema, Table

_CAPS = tuple(2**power for power in range(11))
_BALL = 2**30
_FINE = 2**20
_SHARE = {"laplace": Fraction(1, 2), "gaussian": Fraction(7, 10)}
_SAFE = 4
"""How many times the usual slip of a choice a larger cap must be worth, so that none is taken by chance."""

_MOST = 2**20


@dataclass(frozen=True)
class CountDistinct(Single):
    """The number of different values of a column; by key, of different values under each.

    ``cap`` is the most values (by key: pairs of key and value) that one unit counts for: a number, or "auto", chosen privately inside the same
    epsilon. *Privacy:* one unit moves the counts of all keys together by at most ``cap``. *Accuracy:* values that only units with more than
    ``cap`` values hold may be missing, none is counted that is not there: ``release.low`` is *proved*, and so is ``high`` where the row is the unit;
    elsewhere ``high`` is None. *Cost:* exactly ``epsilon`` with a number, else that or a few micro below. Rows without a value count for none.

    >>> CountDistinct("product", epsilon="0.5", cap=10).cap
    10
    """

    column: str
    epsilon: Number | None = None
    cap: int | str = "auto"
    by: By | None = None
    keys: PublicKeys | None = None
    max_keys: int | None = None
    mu: Number | None = None
    others: bool = False

    def __post_init__(self) -> None:
        if self.cap != "auto" and (
            isinstance(self.cap, bool | str) or not isinstance(self.cap, int) or not 1 <= self.cap <= _MOST
        ):
            raise InvalidTask(
                f"cap must be a whole number of values, from 1 to {_MOST:,}, or 'auto'; got {self.cap!r}."
            )
        keep_keys(self)
        keep_exact(self, "epsilon", "mu")

    def request(self, schema: Schema, terms: Terms) -> CountedValues:
        """The choice of the cap, where it is private, and one noisy number, or one for each key."""
        check_unit(schema, terms)
        schema.require_keys(self.column)
        grouping = Grouping.of(self)
        groups, left = Groups.plan(grouping, Spend.read(self.epsilon, self.mu, terms), schema, terms)
        cap = 1 if terms.unit.kind == "rows" else self.cap
        if not isinstance(cap, str):
            return CountedValues(self.column, groups, cap, None, left.mechanism(cap), terms.unit.kind == "rows")
        first, left = left.split(_SHARE[left.law])
        micro = level_epsilon(first, 1)
        if micro < 1:
            raise InvalidTask("what this release may spend is too little to choose a cap; give cap= as a number.")
        choice = ValuesCap(Exponential(Fraction(micro, MICRO), _FINE), grouping.size, Fraction(left.micro, MICRO))
        return CountedValues(self.column, groups, None, choice, left.mechanism(_BALL))


@dataclass(frozen=True)
class ValuesCap:
    """Chooses among caps by how many values each counts, less what its noise costs, for so many keys at this level."""

    mechanism: Exponential
    keys: int
    level: Fraction

    @property
    def weight(self) -> Fraction:
        """What one more value in the cap must bring: its noise on every key, and what makes the choice a safe one."""
        safe = _SAFE * math.ceil(math.log(len(_CAPS)) * MICRO)
        return self.keys / self.level + Fraction(safe, MICRO) / self.mechanism.epsilon

    def costs(self, totals: Sequence[int]) -> list[int]:
        """How far each cap falls behind the best, measured by how far one unit moves the two: moves by one, in ``_FINE`` steps."""
        lost = [self.weight * cap - total for cap, total in zip(_CAPS, totals, strict=True)]
        pairs = list(zip(lost, _CAPS, strict=True))
        return [max(math.floor((mine - other) * _FINE / (cap + than)) for other, than in pairs) for mine, cap in pairs]


@dataclass(frozen=True)
class CountedValues(OwnPass):
    """Different values before any row is read, and as they are asked for; ``cap`` is None where it is chosen, ``whole`` where nothing is left out."""

    column: str
    groups: Groups
    cap: int | None
    choice: ValuesCap | None
    mechanism: Laplace | Gaussian
    whole: bool = False

    @property
    def event(self) -> Event:
        """The choice, where there is one, and one noisy vector."""
        if self.choice is None:
            return self.mechanism.event
        return composed(self.choice.mechanism.event, self.mechanism.event)

    @lazy
    def predicted(self) -> Error | None:
        """The error to expect, where the cap is known."""
        return None if self.cap is None else self._error(self.cap, 1)

    def told(self, grouping: Grouping, found: Integers, table: Table, noise: Noise) -> Outcome:
        """Count for every cap, choose one, noise its counts; they are rounded to whole numbers after the noise."""
        caps = _CAPS if self.cap is None else (self.cap,)
        counts = table.distinct_values(self.groups.unit, self.column, caps, grouping.by or None, grouping.public or ())
        at = 0
        if self.choice is not None:
            at = self.choice.mechanism.choose(self.choice.costs([sum(each) for each in counts]), noise)
        cap = caps[at]
        steps = 1 if self.cap is not None else _BALL // cap
        noised = self.mechanism.release([count * steps for count in counts[at]], noise)
        values = [round(Fraction(each, steps)) for each in noised]
        error = self._error(cap, steps)
        if not self.whole:
            ends = [(value - math.ceil(error.interval + 0.5), None) for value in values]
            error = Error(error.noise, error.interval, ends=ends, blind_spot=error.blind_spot)
        return Outcome(grouping.label(values), error, {"cap": cap})

    def _error(self, cap: int, steps: int) -> Error:
        alone = noise_error(self.mechanism, Fraction(1, steps), 0.0 if self.whole else None)
        if self.whole:
            return alone
        lost = f"values that only units with more than {cap} values hold may be missing"
        return Error(alone.noise, alone.interval, blind_spot=lost)
