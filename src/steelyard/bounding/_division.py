"""What a report's plan comes to: each number's share of the price, which tolerance is the expensive one, and the release.

A ``Division`` is a ``Plan`` like that of any task: one event for all numbers, priced and charged before a row is read; then they are
computed in turn, and their answers stored as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from steelyard.accounting import epsilon_of, price
from steelyard.bounding._chances import ChanceCurve, Savings, refuse
from steelyard.noise import Noise
from steelyard.plan import Outcome, Plan
from steelyard.privacy import Currency, Loss, Terms, composed, figure
from steelyard.tables import Schema, Table

if TYPE_CHECKING:
    from steelyard.bounding._reading import ErrorReading
    from steelyard.bounding._within import Within
    from steelyard.charts import Chart

_LONG = 28  # letters of a name that a chart has room for on a telephone


@dataclass(frozen=True)
class Share:
    """What one number of a report gets: the task at its price, the chance that it is further off than its tolerance, its cap."""

    name: str
    wish: Within
    task: Any
    plan: Plan
    cost: Loss
    chance: float
    cap: float | None
    if_dropped: float = 0.0

    @classmethod
    def of(cls, reading: ErrorReading, curve: ChanceCurve, chance: float, schema: Schema, terms: Terms) -> Share:
        """The least price at this chance."""
        level, at = curve.odds.least(chance)
        if not math.isfinite(level):
            raise refuse(reading, chance)
        cap = curve.odds.caps[at]
        task = reading.priced(level, cap)
        plan: Plan = task.plan(schema, terms)
        told = getattr(task, "cap", None) if cap is None else cap
        bound = None if told is None or isinstance(told, str) else float(getattr(told, "cap", None) or told)
        return cls(reading.wish.name, reading.wish, task, plan, price(plan.event, terms), chance, bound)

    @property
    def tolerance(self) -> str:
        """The tolerance in words."""
        size, relative = self.wish.size
        unit = " rows of rank" if self.plan.predicted is not None and self.plan.predicted.unit else ""
        return f"± {self.wish.tolerance}" if relative else f"± {figure(size)}{unit}"

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        size, relative = self.wish.size
        return {
            "name": self.name, "tolerance": size, "relative": relative, "cost": self.cost.to_json(), "cap": self.cap,
            "chance": self.chance, "noise_alone": self.wish.noise_alone, "saved_if_dropped": self.if_dropped,
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class Division(Plan):
    """What a report's plan will do: each number's share of the price, and which tolerance is the expensive one.

    ``print`` it for a table, ``chart()`` it for a picture of what the money goes to. ``saved`` is the share of the price that
    twice the tolerance of the expensive number saves.
    """

    shares: Sequence[Share] = ()
    cost: Loss = field(default_factory=lambda: Loss.zero(Currency.PURE))
    saved: float = 0.0
    confidence: float = 0.95
    epsilon: float | None = None

    @classmethod
    def of(cls, parts: Sequence[Share], savings: Savings, terms: Terms, confidence: float) -> Division:
        """Put the parts together as one event."""
        found = tuple(replace(part, if_dropped=savings.dropped(at)) for at, part in enumerate(parts))
        event = composed(*(part.plan.event for part in found))
        dear = max(range(len(found)), key=lambda at: found[at].cost.amount)
        cost = price(event, terms)
        return cls(
            event, None, lambda table, noise: _in_turn(found, table, noise), lambda values: _presented(found, values),
            found, cost, savings.looser(dear), confidence, _as_epsilon(cost, terms),
        )  # fmt: skip

    @property
    def expensive(self) -> Share:
        """The number that costs most."""
        return max(self.shares, key=lambda share: share.cost.amount)

    def __str__(self) -> str:
        rows = [("number", "within", "costs", "share", "cap", "without it")]
        rows += [(each.name, each.tolerance, _costs(each.cost), f"{self._part(each):.0%}",
                  "" if each.cap is None else figure(each.cap), f"-{each.if_dropped:.0%}") for each in self.shares]  # fmt: skip
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, "", *self.told])

    def __repr__(self) -> str:
        return f"Division({len(self.shares)} numbers for {self.cost}; the expensive one is {self.expensive.name!r})"

    def _repr_html_(self) -> str:
        from steelyard.charts import Tabular, fragment

        rows = [(each.name, each.tolerance, _costs(each.cost), f"{self._part(each):.0%}", "" if each.cap is None else figure(each.cap))
                for each in self.shares]  # fmt: skip
        table = Tabular(("number", "within", f"costs, in {_unit(self.cost)}", "share", "cap"), rows)
        return fragment(
            "Plan of a report", table, self.chart(), *self.told[2:], "Nothing was spent and nothing was read."
        )

    @property
    def told(self) -> list[str]:
        """The plan in sentences."""
        dear, alone = self.expensive, [each.name for each in self.shares if each.wish.noise_alone]
        as_epsilon = "" if self.epsilon is None else f" (epsilon {self.epsilon:.4g})"
        lines = [
            f"{self.cost}{as_epsilon} for all {len(self.shares)}, predicted to be within their tolerances at "
            f"{self.confidence:.4g} together",
            f"the expensive one is {dear.name}: dropping it saves {dear.if_dropped:.0%}, twice its tolerance {self.saved:.0%}",
        ]
        return lines + ([f"noise alone, whatever the cap cuts off: {', '.join(alone)}"] if alone else [])

    def _part(self, share: Share) -> float:
        return share.cost.amount / max(sum(each.cost.amount for each in self.shares), 1)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {
            "cost": self.cost.to_json(),
            "epsilon": self.epsilon,
            "confidence": self.confidence,
            "expensive": self.expensive.name,
            "saved_if_dropped": self.expensive.if_dropped,
            "saved_if_twice_as_wide": self.saved,
            "numbers": [each.to_json() for each in self.shares],
        }

    def chart(self, title: str = "What the report's price goes to") -> Chart:
        """A bar for each number, dearest first."""
        from steelyard.charts import bars

        ordered = sorted(self.shares, key=lambda share: -share.cost.amount)
        names = [
            f"{each.name if len(each.name) <= _LONG else each.name[:_LONG] + '…'} {each.tolerance}" for each in ordered
        ]
        parts = [float(each.cost.value) for each in ordered]
        return bars(names, parts, title=title, subtitle=self.told[0], caption=self.told[1], x_title=_unit(self.cost))


def _in_turn(parts: Sequence[Share], table: Table, noise: Noise) -> Outcome:
    """Every number in its turn, each with its own noise; what one draws changes nothing about another."""
    found = [part.plan.run(table, noise) for part in parts]
    told = [
        {"name": part.name, "point": dict(each.point), "error": None if each.error is None else each.error.to_json()}
        for part, each in zip(parts, found, strict=True)
    ]
    values = [[part.name, each.value] for part, each in zip(parts, found, strict=True)]
    return Outcome(values, None, {"parts": told})


def _presented(parts: Sequence[Share], values: Sequence[Any]) -> dict[str, Any]:
    """A dictionary by name, each value as its task presents it."""
    return {name: part.plan.present(value) for part, (name, value) in zip(parts, values, strict=True)}


def _as_epsilon(cost: Loss, terms: Terms) -> float | None:
    """What a Gaussian cost means as an epsilon at the account's delta, alone; None on a pure account."""
    if terms.currency is not Currency.GAUSSIAN or not terms.filter_delta:
        return None
    return epsilon_of(math.sqrt(float(cost.value)) * (1 + 1e-12), float(terms.filter_delta))


def _costs(cost: Loss) -> str:
    return f"{float(cost.value):.4g}"


def _unit(cost: Loss) -> str:
    return "mu squared" if cost.currency is Currency.GAUSSIAN else "epsilon"
