"""Broken twins: tasks and mechanisms that look right and are not, each for one reason an audit must find.

``Honest`` is the sound task they are copied from. Every twin changes as little as its fault needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from audit.plain import PlainTable
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.plan import Outcome, Plan
from steelyard.privacy import Event, Terms
from steelyard.tables import Quantity


@dataclass(frozen=True)
class Honest:
    """The sum of whole amounts, each user's total clamped to [lower, upper]."""

    lower: int = -3
    upper: int = 10

    def mechanism(self, table: PlainTable) -> Laplace:
        return Laplace(max(-self.lower, self.upper), Fraction(20))

    def plan(self, schema: PlainTable, terms: Terms) -> Plan:
        schema.require("amount")
        return Plan(self.event(schema), None, lambda table, noise: self.run(table, noise, terms))  # type: ignore[arg-type]

    def event(self, schema: PlainTable) -> Event:
        return self.mechanism(schema).event

    def total(self, table: PlainTable, terms: Terms) -> list[int]:
        return [table.capped_sum(terms.unit, Quantity("amount"), self.lower, self.upper)]

    def run(self, table: PlainTable, noise: Noise, terms: Terms) -> Outcome:
        released = self.mechanism(table).release(self.total(table, terms), noise)
        return Outcome(released[0], None, {"upper": self.upper})


class OffByOneCap(Honest):
    """Clamps to one more than it declares."""

    def total(self, table: PlainTable, terms: Terms) -> list[int]:
        return [table.capped_sum(terms.unit, Quantity("amount"), self.lower, self.upper + 1)]


class NaNPath(Honest):
    """Clamps with comparisons that NaN passes, then fails or not by the data."""

    def total(self, table: PlainTable, terms: Terms) -> list[int]:
        values = [row["amount"] for row in table.rows if row["amount"] is not None]
        return [int(sum(v if not (v > 10 or v < -3) else 10 * (v > 0) for v in values))]


class NaNIsHuge(Honest):
    """Turns NaN into the largest integer after the clamp."""

    def total(self, table: PlainTable, terms: Terms) -> list[int]:
        bad = any(isinstance(row["amount"], float) and math.isnan(row["amount"]) for row in table.rows)
        return [super().total(table, terms)[0] + (2**63 - 1) * bad]


class IgnoresUpper(Honest):
    """Declares the distance of the lower bound alone."""

    def mechanism(self, table: PlainTable) -> Laplace:
        return Laplace(-self.lower, Fraction(20))


class CapAfterNoise(Honest):
    """Adds noise for a capped total to an uncapped one, and clamps what comes out."""

    def total(self, table: PlainTable, terms: Terms) -> list[int]:
        return [sum(table.totals(terms.unit, Quantity("amount")))]


class CapLearnt(Honest):
    """Takes the largest total in the table for the bound."""

    def mechanism(self, table: PlainTable) -> Laplace:
        whole = [Quantity("amount").integer(row["amount"]) for row in table.rows]
        return Laplace(max(1, min(100, max(whole, default=1))), Fraction(20))


class DropsEmptyGroups(Honest):
    """Counts users by key, but only for keys that occur."""

    def run(self, table: PlainTable, noise: Noise, terms: Terms) -> Outcome:
        counts = {key: n for key, n in table.groups(terms.unit, "land", ["FR", "DE"]).items() if n}
        released = self.mechanism(table).release(list(counts.values()), noise)
        return Outcome([[key, value] for key, value in zip(counts, released, strict=True)], None)


class EventFromData(Honest):
    """Prices by how many rows there are."""

    def event(self, schema: PlainTable) -> Event:
        return Laplace(10, Fraction(20 + len(schema.rows))).event


class ErrorFromData(Honest):
    """Fails, politely, with the number of rows."""

    def run(self, table: PlainTable, noise: Noise, terms: Terms) -> Outcome:
        if len(table.rows) < 3:
            raise ValueError(f"need at least 3 rows, got {len(table.rows)}")
        return super().run(table, noise, terms)


class PointFromData(Honest):
    """Tells the number of rows beside a value that is noised well."""

    def run(self, table: PlainTable, noise: Noise, terms: Terms) -> Outcome:
        return Outcome(super().run(table, noise, terms).value, None, {"rows": len(table.rows)})


class OrderMatters(Honest):
    """Keeps the first rows it meets."""

    def total(self, table: PlainTable, terms: Terms) -> list[int]:
        first = {row["who"]: row for row in reversed(table.rows) if row["who"] is not None}
        whole = [Quantity("amount").integer(row["amount"]) for row in first.values()]
        return [sum(max(self.lower, min(self.upper, value)) for value in whole)]


class OwnNoise(Honest):
    """Draws noise of its own beside the mechanism's."""

    def run(self, table: PlainTable, noise: Noise, terms: Terms) -> Outcome:
        return Outcome(self.total(table, terms)[0] + noise.laplace(Fraction(20), 1)[0], None)


class NoNoise(Honest):
    """Lets the true total out."""

    def run(self, table: PlainTable, noise: Noise, terms: Terms) -> Outcome:
        return Outcome(self.total(table, terms)[0], None)


class Twice(Honest):
    """Releases twice and pays once."""

    def run(self, table: PlainTable, noise: Noise, terms: Terms) -> Outcome:
        first = super().run(table, noise, terms).value
        return Outcome([first, super().run(table, noise, terms).value], None)


class SecretDice(Honest):
    """Drops users by a coin that does not come from the noise source."""

    def total(self, table: PlainTable, terms: Terms) -> list[int]:
        import secrets

        return [super().total(table, terms)[0] + secrets.randbelow(10**6)]


@dataclass(frozen=True)
class NarrowLaplace(Laplace):
    """Noise two per cent narrower than the price says."""

    narrower: Fraction = Fraction(98, 100)

    def release(self, values: Sequence[int], noise: Noise) -> list[int]:
        return Laplace(self.sensitivity, self.scale * self.narrower).release(values, noise)


@dataclass(frozen=True)
class NarrowGaussian(Gaussian):
    """Noise narrower than the price says."""

    narrower: Fraction = Fraction(95, 100)

    def release(self, values: Sequence[int], noise: Noise) -> list[int]:
        return Gaussian(self.sensitivity, self.sigma * self.narrower).release(values, noise)


TASKS: dict[type[Honest], str] = {
    OffByOneCap: "distance",
    NaNPath: "errors",
    NaNIsHuge: "distance",
    IgnoresUpper: "distance",
    CapAfterNoise: "distance",
    CapLearnt: "event",
    DropsEmptyGroups: "transcript",
    EventFromData: "event",
    ErrorFromData: "errors",
    PointFromData: "transcript",
    OrderMatters: "order",
    OwnNoise: "noise",
    NoNoise: "noise",
    Twice: "price",
    SecretDice: "randomness",
}
"""Each twin and the check that must name its fault."""
