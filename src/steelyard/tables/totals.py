"""Per-unit totals, clamped and added up, as Ibis expressions.

Rows become integers, a unit's integers are added in wide integers, the total is clamped, the clamped totals are added
in wide integers. No float is ever added, so neither order nor size can change an answer; the widths are chosen so
that no sum can overflow (decimal(38): 10^38 against 2^53 per row and 2^80 per unit).
Law: rows whose unit is null or NaN belong to nobody and are dropped; everything else of a unit goes into its one total.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, Protocol

from steelyard.errors import InvalidTask
from steelyard.privacy import Unit
from steelyard.tables.quantity import Quantity, double, finite

WIDEST = 2**80
"""The largest absolute bound or edge of a unit's total."""

WIDE = "decimal(38, 0)"


class RowInteger(Protocol):
    """A total function from a row to an integer."""

    def expression(self, table: Any) -> Any:
        """As an Ibis expression of type int64, never null."""


@dataclass(frozen=True)
class Bounded:
    """A quantity whose total per unit is clamped to [lower, upper]."""

    quantity: Quantity
    lower: int
    upper: int

    def __post_init__(self) -> None:
        whole(self.lower, "lower")
        whole(self.upper, "upper")
        if self.lower > self.upper:
            raise InvalidTask(f"lower must not be above upper; got {self.lower} and {self.upper}.")


def whole(value: int, name: str) -> int:
    """Read a public integer that fits the wide sums."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > WIDEST:
        raise InvalidTask(f"{name} must be an integer of at most 2^80 in absolute value; got {value!r}.")
    return value


def check_edges(edges: Sequence[int]) -> list[int]:
    """Read public bin edges: at least two integers, strictly ascending."""
    checked = [whole(edge, "an edge") for edge in edges]
    if len(checked) < 2 or any(left >= right for left, right in pairwise(checked)):
        raise InvalidTask("edges must be at least two integers in strictly ascending order.")
    return checked


def wide(value: int) -> Any:
    """A wide integer literal."""
    import ibis

    return ibis.literal(Decimal(value), WIDE)


def identity(column: Any) -> Any:
    """A column to group by: -0.0 is 0.0, and NaN is missing, as null is."""
    import ibis

    if not column.type().is_floating():
        return column
    number = column.cast("float64")
    missing = number.cast("string").lower() == "nan"  # asked of infinities and NaN alone, in words no planner foresees
    return ibis.cases(
        (number == double(0.0), double(0.0)), (finite(number), number), (missing, ibis.null("float64")), else_=number
    )


def wide_sum(column: Any, engine: str) -> Any:
    """The exact sum of an int64 column: DuckDB widens such sums to 128 bits itself; Spark must be told to."""
    return column.sum().cast(WIDE) if engine == "duckdb" else column.cast(WIDE).sum()


def beside(rows: Any, group: Sequence[str], engine: str, aggregates: dict[str, Any]) -> Any:
    """The rows with aggregates of their group beside them.

    DuckDB joins, which is faster, and reads its sources alike twice (what it cannot is held in memory). Spark might not
    (a frame that ends in an unordered limit, say), so there a window takes both from one reading.
    """
    if engine != "duckdb":
        return rows.mutate(**{name: value.over(group_by=list(group)) for name, value in aggregates.items()})
    found = rows.group_by(*group).agg(**aggregates)
    return rows.left_join(found, list(group)).select(
        *[rows[name] for name in rows.columns], *map(found.__getitem__, aggregates)
    )


def unit_count(rows: Any, unit: Unit) -> Any:
    """One row: the number of units."""
    if unit.column is None:
        return rows.agg(n=rows.count())
    units = rows.select(u=identity(rows[unit.column])).distinct()
    return units.agg(n=units.count(where=units.u.notnull()))


def unit_totals(rows: Any, unit: Unit, quantities: Sequence[RowInteger], engine: str) -> Any:
    """One row per unit ``u`` with its totals ``t0``, ``t1``, … as wide integers; a null ``u`` stands for nobody."""
    import ibis

    columns = {f"q{i}": quantity.expression(rows) for i, quantity in enumerate(quantities)}
    if unit.column is None:
        each = {f"t{i}": column.cast(WIDE) for i, column in enumerate(columns.values())}
        return rows.select(u=ibis.literal(True), **each)
    chosen = rows.select(u=identity(rows[unit.column]), **columns)
    sums = {f"t{i}": wide_sum(chosen[name], engine) for i, name in enumerate(columns)}
    return chosen.group_by("u").agg(**sums)


def capped(rows: Any, unit: Unit, parts: Sequence[Bounded], engine: str) -> Any:
    """One row: the sums over units of the clamped totals.

    Rows of nobody are dropped here, after grouping, which is the same sum and spares every row one test.
    """
    import ibis

    units = unit_totals(rows, unit, [part.quantity for part in parts], engine)
    sums = {}
    for i, part in enumerate(parts):
        clamped = ibis.greatest(ibis.least(units[f"t{i}"], wide(part.upper)), wide(part.lower))
        sums[f"s{i}"] = clamped.sum(where=units.u.notnull())
    return units.agg(**sums)


def tails(rows: Any, unit: Unit, quantity: Quantity, edges: Sequence[int], engine: str) -> Any:
    """One row: the number of all units, then of units at or above each inner edge."""
    units = unit_totals(rows, unit, [quantity], engine)
    known = units.u.notnull()
    inner = {f"n{i}": units.count(where=known & (units.t0 >= wide(edge))) for i, edge in enumerate(edges[1:-1])}
    return units.agg(n=units.count(where=known), **inner)
