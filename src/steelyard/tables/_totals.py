"""From rows to integers, from a unit's integers to its total, from totals to clamped sums: all as Ibis expressions.

A quantity is one total function from a row to an integer on a public grid: floor(value / step + 1/2), computed in IEEE doubles in one fixed order of operations, clamped to ±2^53 as a double
before it becomes an integer. Null, NaN and the infinities become 0. No input whatsoever is an error, and every
engine gives the same integer, because each operation used here is correctly rounded everywhere.
Law: the integer is the only thing the rest of the library sees of a value.

A unit's integers are added in wide integers, the total is clamped, the clamped totals are added
in wide integers. No float is ever added, so neither order nor size can change an answer; the widths are chosen so
that no sum can overflow (decimal(38): 10^38 against 2^53 per row and 2^80 per unit).
Law: rows whose unit is null or NaN belong to nobody and are dropped; everything else of a unit goes into its one total.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from steelyard.errors import InvalidTask, OurBug

if TYPE_CHECKING:
    from steelyard.privacy import Unit

LIMIT = 2**53
"""The largest absolute value of a row's integer."""

_EPOCH = datetime.date(1970, 1, 1).toordinal()
LARGEST = 1.7976931348623157e308
_NARROW = 2**62
DIGEST = "steelyard_digest"
_EXACT_DIGITS = 15  # a decimal this short is a quotient of two exact doubles, so a plain cast is correctly rounded


@dataclass(frozen=True)
class Quantity:
    """What is added up: a column on a grid of width ``step``, or (``column=None``) the number one for every row.

    >>> Quantity("amount", Fraction(1, 100)).integer(19.99)
    1999
    >>> Quantity("amount", Fraction(1)).integer(float("nan"))
    0
    """

    column: str | None = None
    step: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.column is not None and (not isinstance(self.column, str) or not self.column):
            raise InvalidTask(f"a quantity's column must be a name or None; got {self.column!r}.")
        if type(self.step) not in (int, Fraction) or self.step <= 0:
            raise InvalidTask(f"a quantity's step must be a fraction above zero; got {self.step!r}.")
        if not Fraction(1, 10**300) < self.step < 10**300:
            raise InvalidTask("a quantity's step must lie between 1e-300 and 1e300.")

    def integer(self, value: object) -> int:
        """The integer of one value: the reference that the engines must match to the last digit."""
        number = 1.0 if self.column is None else _double(value)
        if not abs(number) <= LARGEST:
            return 0
        multiply, factor = self._scale()
        scaled = (number * factor if multiply else number / factor) + 0.5
        return math.floor(max(min(scaled, float(LIMIT)), -float(LIMIT)))

    def expression(self, table: Any) -> Any:
        """The same function as an Ibis expression of type int64, never null."""
        import ibis

        if self.column is None:
            return ibis.literal(self.integer(1), "int64")
        number = as_double(table[self.column])
        multiply, factor = self._scale()
        scaled = (number * double(factor) if multiply else number / double(factor)) + double(0.5)
        clamped = ibis.greatest(ibis.least(scaled, double(float(LIMIT))), double(-float(LIMIT)))
        return ibis.cases((finite(number), clamped.floor().cast("int64")), else_=ibis.literal(0, "int64"))

    def _scale(self) -> tuple[bool, float]:
        """Whether to multiply or divide, and by which double: exact where one of the two is."""
        inverse = 1 / Fraction(self.step)
        if Fraction(float(inverse)) != inverse and Fraction(float(self.step)) == self.step:
            return False, float(self.step)
        return True, float(inverse)


def double(value: float) -> Any:
    """A double literal, written as text: engines parse text correctly rounded, but not every bare literal."""
    import ibis

    return ibis.literal(repr(value)).cast("float64")


def finite(number: Any) -> Any:
    """Whether a double is finite: null for null, and false for NaN and the infinities, however an engine orders them.

    Only a finite number less itself is zero. No bound on the column decides that, so a planner cannot know it better.
    """
    return number - number == double(0.0)


def as_double(column: Any) -> Any:
    """A numeric column as doubles, correctly rounded in every engine; long decimals go through text to be so. Dates are days since 1970."""
    kind = column.type()
    if kind.is_date():
        return column.epoch_days().cast("float64")
    if kind.is_decimal() and (kind.precision is None or kind.precision > _EXACT_DIGITS):
        return column.cast("string").cast("float64")
    return column.cast("float64")


def _double(value: object) -> float:
    if value is None:
        return math.nan
    if isinstance(value, datetime.date):
        return float(value.toordinal() - _EPOCH)
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf


WIDEST = 2**80
"""The largest absolute bound or edge of a unit's total."""

WIDE = "decimal(38, 0)"


@dataclass(frozen=True)
class Dialect:
    """What questions must know of an engine: the SQL it speaks, and what it may be trusted to do by itself.

    ``widens``: sums of 64-bit integers have 128 bits. ``rereads``: a source that is read twice gives the same rows both times.
    ``local``: rows lie on this machine, so that few of them may be kept in memory. ``clocked``: what a timestamp without a zone
    says depends on no setting. Nobody asks for the name but to write SQL and to tell people.
    """

    name: str
    widens: bool
    rereads: bool
    local: bool
    clocked: bool

    def written(self, question: Any) -> str:
        """An Ibis question as SQL."""
        import ibis

        return str(ibis.to_sql(question, dialect=self.name))


DUCKDB = Dialect("duckdb", widens=True, rereads=True, local=True, clocked=True)
SPARK = Dialect("pyspark", widens=False, rereads=False, local=False, clocked=False)


class RowInteger(Protocol):
    """A total function from a row to an integer."""

    @property
    def column(self) -> str | None:
        """The column that is read, or none."""

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

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """What is clamped."""
        return (self.quantity,)


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
    missing = number.cast("string").lower().endswith("nan")  # -nan too; asked in words no planner foresees
    return ibis.cases(
        (number == double(0.0), double(0.0)), (finite(number), number), (missing, ibis.null("float64")), else_=number
    )


def wide_sum(column: Any, engine: Dialect) -> Any:
    """The exact sum of an int64 column: DuckDB widens such sums to 128 bits itself; Spark must be told to."""
    return column.sum().cast(WIDE) if engine.widens else column.cast(WIDE).sum()


def beside(rows: Any, group: Sequence[str], engine: Dialect, aggregates: dict[str, Any]) -> Any:
    """The rows with aggregates of their group beside them.

    DuckDB joins, which is faster, and reads its sources alike twice (what it cannot is held in memory). Spark might not
    (a frame that ends in an unordered limit, say), so there a window takes both from one reading.
    """
    if not engine.rereads:
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


def unit_totals(rows: Any, unit: Unit, quantities: Sequence[RowInteger], engine: Dialect) -> Any:
    """One row per unit ``u`` with its totals ``t0``, ``t1``, … as wide integers; a null ``u`` stands for nobody."""
    import ibis

    columns = {f"q{i}": quantity.expression(rows) for i, quantity in enumerate(quantities)}
    if unit.column is None:
        each = {f"t{i}": column.cast(WIDE) for i, column in enumerate(columns.values())}
        return rows.select(u=ibis.literal(True), **each)
    chosen = rows.select(u=identity(rows[unit.column]), **columns)
    sums = {f"t{i}": wide_sum(chosen[name], engine) for i, name in enumerate(columns)}
    return chosen.group_by("u").agg(**sums)


def capped(rows: Any, unit: Unit, parts: Sequence[Bounded], engine: Dialect) -> Any:
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


def tails(
    rows: Any, unit: Unit, quantity: Quantity, edges: Sequence[int], engine: Dialect, *, sizes: bool = False
) -> Any:
    """One row: the number of all units, then of units whose total (with ``sizes``, its absolute value) is at or above each inner edge."""
    units = unit_totals(rows, unit, [quantity], engine)
    known = units.filter(units.u.notnull())
    total, written = beside_edges(known.t0.abs() if sizes else known.t0, edges[1:-1])
    sized = known.select(t=total)
    inner = {f"n{i}": sized.count(where=sized.t >= written(edge)) for i, edge in enumerate(edges[1:-1])}
    return sized.agg(n=sized.count(), **inner)


def beside_edges(total: Any, edges: Sequence[int]) -> tuple[Any, Callable[[int], Any]]:
    """A wide integer that is at or above the same edges, of 64 bits where all of them are, and how an edge is written beside it.

    Looks have many edges, and most of what a look at few rows takes is reading its words.
    """
    import ibis

    if max(map(abs, edges), default=0) > _NARROW:
        return total, wide
    held = ibis.greatest(ibis.least(total, wide(_NARROW)), wide(-_NARROW - 1))  # what is below every edge stays there
    return held.cast("int64"), lambda edge: ibis.literal(edge, "int64")


def held(number: Any, bound: float) -> Any:
    """A number held within plus and minus a bound."""
    import ibis

    return ibis.greatest(ibis.least(number, double(bound)), double(-bound))


@cache
def digest() -> Any:
    """A name for SHA-256, which Ibis has no rule for everywhere; the dialect's own words take its place."""
    import ibis

    def digest(text: str) -> str:
        raise OurBug("a digest is written, not called.")

    return ibis.udf.scalar.builtin(name=DIGEST)(digest)


def factor_of(node: Any) -> float:
    """What a double is multiplied by, where that is public; else 0."""
    import ibis.expr.operations as ops

    written = node.right
    if not (isinstance(written, ops.Cast) and isinstance(written.arg, ops.Literal) and written.to.is_float64()):
        return 0.0
    number = float(written.arg.value)
    return number if isinstance(node, ops.Multiply) else (1 / number if number else math.inf)
