"""A unit's rows as a short vector of integers inside a ball: bins of a value, or its two distances from its bounds.

Bins: each row stands in one bin of a public grid. Sides: a row's value x between public bounds counts x - low on one
side and high - x on the other, so that the two always add up to high - low and one noisy pair gives sum and count at
the price of one (Kulesza, Suresh and Wang 2024). A unit beyond its cap is scaled down as a whole, not cut off.
Law: rows whose value is missing, NaN or infinite are in no bin and on no side; nothing here can fail on data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.privacy import Unit
from steelyard.tables.keyed import MOST_KEYS, NORM, SATURATION, Capped, capped_pairs, clamp, scaled, whole
from steelyard.tables.keys import is_wanted
from steelyard.tables.quantity import LIMIT, Quantity, as_double, finite
from steelyard.tables.sampling import Limits
from steelyard.tables.totals import check_edges, identity, unit_totals, wide, wide_sum


def known(rows: Any, column: str) -> Any:
    """The condition that a value is there and finite."""
    return finite(as_double(rows[column])).fill_null(False)


@dataclass(frozen=True)
class Bins:
    """Half-open bins [edge, next edge) of a quantity; what lies outside goes to the end bins."""

    quantity: Quantity
    edges: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.quantity.column is None:
            raise InvalidTask("bins are of a column.")
        check_edges(self.edges)
        if len(self.edges) > MOST_KEYS or max(abs(self.edges[0]), abs(self.edges[-1])) > 2**62:
            raise InvalidTask(f"bins need at most {MOST_KEYS} edges, each at most 2^62 in absolute value.")

    def expression(self, table: Any) -> Any:
        """The index of a row's bin, by division where the edges are evenly spaced."""
        import ibis

        value, inner = self.quantity.expression(table), self.edges[1:-1]
        width = self.edges[1] - self.edges[0]
        narrow = self.edges[-1] - self.edges[0] <= LIMIT  # so that the engines' quotient of doubles has the right floor
        if inner and narrow and all(edge == self.edges[0] + i * width for i, edge in enumerate(self.edges)):
            inside = ibis.greatest(ibis.least(value, whole(self.edges[-1] - 1)), whole(self.edges[0]))
            return ((inside - whole(self.edges[0])) // whole(width)).cast("int64")
        steps = [(value < whole(edge), whole(index)) for index, edge in enumerate(inner)]
        return ibis.cases(*steps, else_=whole(len(inner))) if steps else whole(0)


@dataclass(frozen=True)
class Side:
    """How far a row's value, clamped to [low, high], is above ``low`` or below ``high``; 0 where there is no value."""

    quantity: Quantity
    low: int
    high: int
    above: bool

    def __post_init__(self) -> None:
        if self.quantity.column is None or not -LIMIT <= self.low < self.high <= LIMIT:
            raise InvalidTask("a side needs a column and low below high, both within the grid.")

    @property
    def column(self) -> str | None:
        """The column that is read."""
        return self.quantity.column

    def expression(self, table: Any) -> Any:
        """The distance as an Ibis expression of type int64, never null."""
        import ibis

        value = ibis.greatest(ibis.least(self.quantity.expression(table), whole(self.high)), whole(self.low))
        distance = value - whole(self.low) if self.above else whole(self.high) - value
        return ibis.cases((known(table, str(self.column)), distance), else_=whole(0))


def position(key: Any, keys: Sequence[Any]) -> Any:
    """The place of a row's key in the public list, for rows whose key is in it."""
    import ibis

    return ibis.cases(*[(is_wanted(key, [each]), whole(place)) for place, each in enumerate(keys)], else_=whole(0))


def sides_by_key(
    rows: Any, unit: Unit, sides: tuple[Side, Side], place: Any, wanted: Any, cap: int, engine: str
) -> Any:
    """One row per key and side: ``k`` = 2 place + side, and the sum ``s0``.

    Every row stands twice, once on each side, so that the norm in which a unit is scaled is that of its whole vector.
    """
    named = [] if unit.column is None else [identity(rows[unit.column]).notnull()]
    who = {} if unit.column is None else {"u": identity(rows[unit.column])}
    both = [
        rows.filter(wanted, *named).select(**who, k=place * whole(2) + whole(i), q0=side.expression(rows))
        for i, side in enumerate(sides)
    ]
    expanded = both[0].union(both[1])
    return capped_pairs(expanded, unit, [Capped(sides[0].quantity, cap)], Limits(), engine)


def sides_in_ball(rows: Any, unit: Unit, sides: tuple[Side, Side], cap: int, engine: str) -> Any:
    """One row: both sides added up over units, each unit's pair scaled into the L1 ball of radius ``cap``."""
    import ibis

    units = unit_totals(rows, unit, sides, engine)
    named = units.filter(units.u.notnull())
    pair = {f"t{i}": clamp(named[f"t{i}"], SATURATION).cast("int64") for i in range(2)}
    held = named.select(**pair)
    norm = (held.t0 + held.t1).cast(NORM)
    over = ibis.cases((norm > wide(cap), ibis.literal(True)), else_=ibis.null("boolean"))
    joined = held.select("t0", "t1", m0=norm, m1=norm, o=over)
    return joined.agg(**{f"s{i}": wide_sum(scaled(joined, i, cap), engine) for i in range(2)})
