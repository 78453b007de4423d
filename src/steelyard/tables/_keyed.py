"""Capped sums by key: each unit's vector of totals is scaled into a ball of integer radius, then added up.

A unit's total under a key is saturated at 2^50. If the unit's norm M (L1: the exact sum; L2: an integer root, checked
to be no smaller) is above the cap, each total a becomes the largest integer g with g * M <= a * cap, found by a guess
in doubles and decided by that very inequality in wide integers. Then the norm of the result is at most the cap, as a
fact about integers (docs/proofs/tables.md); a total for which no guess passes would become 0.
Law: no row outside a unit may touch that unit's scaling, and the inequality is checked on the value that is added.

Keys: rows whose key is null or NaN belong to no key and are dropped. Asked keys are public, come from the caller, and must
be of the column's kind; that is checked from the schema before anything is read.

The same ball holds a unit's rows as a short vector. Bins: each row stands in one bin of a public grid. Sides: a row's value x between public bounds counts x - low on one
side and high - x on the other, so that the two always add up to high - low and one noisy pair gives sum and count at
the price of one (Kulesza, Suresh and Wang 2024). A unit beyond its cap is scaled down as a whole, not cut off.
Law: rows whose value is missing, NaN or infinite are in no bin and on no side; nothing here can fail on data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.privacy import Unit
from steelyard.tables._kinds import MOST_KEYS
from steelyard.tables._sampling import Limits, keep_keys, keep_rows_per_key
from steelyard.tables._totals import (
    LIMIT,
    WIDE,
    Dialect,
    Quantity,
    as_double,
    beside,
    check_edges,
    double,
    finite,
    identity,
    unit_totals,
    wide,
    wide_sum,
)

SATURATION = 2**50
"""The largest cap by key, and the largest absolute total of one unit under one key."""

_SMALL = "decimal(16, 0)"  # holds SATURATION + 1
NORM = "decimal(22, 0)"  # holds MOST_KEYS * SATURATION; a product of the two types fits 38 digits
_ROOT = "decimal(19, 0)"  # holds the root of MOST_KEYS * SATURATION^2; its square fits 38 digits
# Products are taken of 19 digits or more: DuckDB keeps a product of two shorter decimals within 18.


@dataclass(frozen=True)
class Capped:
    """A quantity whose vector of totals by key has norm at most ``cap`` for every unit."""

    quantity: Quantity
    cap: int
    norm: str = "l1"

    def __post_init__(self) -> None:
        if isinstance(self.cap, bool) or not isinstance(self.cap, int) or not 0 <= self.cap <= SATURATION:
            raise InvalidTask(f"a cap by key must be an integer from 0 to 2^50; got {self.cap!r}.")
        if self.norm not in ("l1", "l2"):
            raise InvalidTask(f"the norm must be 'l1' or 'l2'; got {self.norm!r}.")


def capped_by_key(
    rows: Any, unit: Unit, parts: Sequence[Capped], key: Any, wanted: Any, limits: Limits, engine: Dialect
) -> Any:
    """One row per key: ``k``, the number of units under it ``n``, and the sums ``s0``, ``s1``, …"""
    quantities = {f"q{i}": part.quantity.expression(rows) for i, part in enumerate(parts)}
    chosen = rows.filter(wanted)
    if unit.column is None:
        return capped_pairs(chosen.select(k=key, **quantities), unit, parts, limits, engine)
    chosen = chosen.filter(identity(rows[unit.column]).notnull())
    units = chosen.select(u=identity(rows[unit.column]), k=key, **quantities)
    return capped_pairs(units, unit, parts, limits, engine)


def capped_pairs(units: Any, unit: Unit, parts: Sequence[Capped], limits: Limits, engine: Dialect) -> Any:
    """The same from rows ``(u, k, q0, q1, …)`` that all have a unit (none where the row is the unit) and a key."""
    if unit.column is None:
        return _by_key(units, {f"s{i}": clamp(units[f"q{i}"], part.cap) for i, part in enumerate(parts)}, engine)
    pairs = keep_keys(_pairs(keep_rows_per_key(units, limits, engine), len(parts), engine), limits, engine)
    measured = _measured(pairs, parts, engine)
    return _by_key(measured, {f"s{i}": scaled(measured, i, part.cap) for i, part in enumerate(parts)}, engine)


def _pairs(units: Any, parts: int, engine: Dialect) -> Any:
    """One row per unit and key with the saturated totals."""
    sums = {f"t{i}": clamp(wide_sum(units[f"q{i}"], engine), SATURATION).cast("int64") for i in range(parts)}
    return units.group_by("u", "k").agg(**sums)


def _measured(pairs: Any, parts: Sequence[Capped], engine: Dialect) -> Any:
    """The pairs with their unit's norms ``m0``, ``m1``, … as integers, and ``o`` where the unit is above some cap."""
    import ibis

    sizes = {f"n{i}": _size(pairs[f"t{i}"], part.norm) for i, part in enumerate(parts)}
    units = beside(pairs, ["u"], engine, sizes)
    above = [units[f"n{i}"] > wide(part.cap if part.norm == "l1" else part.cap**2) for i, part in enumerate(parts)]
    norms = {
        f"m{i}": units[f"n{i}"].cast(NORM) if part.norm == "l1" else _root(units[f"n{i}"]).cast(NORM)
        for i, part in enumerate(parts)
    }
    over = ibis.cases((ibis.or_(*above), ibis.literal(True)), else_=ibis.null("boolean"))
    return units.select(*pairs.columns, o=over, **norms)


def _size(total: Any, norm: str) -> Any:
    if norm == "l1":
        return total.abs().cast(WIDE).sum()
    side = total.cast(_ROOT)
    return (side * side).cast(WIDE).sum()


def _root(square: Any) -> Any:
    """An integer whose square is at least ``square``, checked exactly; the least one up to 2^50."""
    import ibis

    guess = as_double(square).sqrt().floor().cast("int64")
    roots = [(guess + more).cast(_ROOT) for more in (0, 1, 2, 1024)]
    return ibis.cases(*[(root * root >= square, root) for root in roots], else_=ibis.null(_ROOT))


def scaled(joined: Any, i: int, cap: int) -> Any:
    """The part's total, scaled toward zero where its unit is above the cap."""
    import ibis

    total, norm = joined[f"t{i}"], joined[f"m{i}"]
    size = total.abs()
    # A unit above another part's cap may have norm 0 here; no branch, taken or not, may divide by zero.
    divisor = ibis.greatest(as_double(norm), double(1.0))
    guess = (size.cast("float64") * double(float(cap)) / divisor).floor().cast("int64")
    budget = size.cast(_ROOT) * ibis.literal(Decimal(cap), _ROOT)
    tries = [guess + more for more in (1, 0, -1)]
    fitting = ibis.cases(*[(each.cast(_SMALL) * norm <= budget, each) for each in tries], else_=_zero())
    floor = ibis.greatest(fitting, _zero())
    signed = ibis.cases((total < _zero(), -floor), else_=floor)
    return ibis.cases((joined.o.isnull(), total), (norm <= wide(cap), total), else_=signed)


def _by_key(pairs: Any, sums: dict[str, Any], engine: Dialect) -> Any:
    added = pairs.select(k=pairs.k, **sums)
    return added.group_by("k").agg(n=added.count(), **{name: wide_sum(added[name], engine) for name in sums})


def clamp(total: Any, bound: int) -> Any:
    """A total held inside [-bound, bound]."""
    import ibis

    lower, upper = (wide(-bound), wide(bound)) if total.type().is_decimal() else (whole(-bound), whole(bound))
    return ibis.greatest(ibis.least(total, upper), lower)


def whole(value: int) -> Any:
    """An int64 literal."""
    import ibis

    return ibis.literal(value, "int64")


def _zero() -> Any:
    return whole(0)


def key_column(rows: Any, by: str) -> tuple[Any, Any]:
    """The key as an expression, and the condition that a row has one."""
    column = rows[by]
    if column.type().is_integer():
        signed = not column.type().is_unsigned_integer() or column.type().nbytes < 8
        column = column.cast("int64" if signed else "decimal(38, 0)")
    key = identity(column)
    return key, key.notnull()


def is_wanted(key: Any, keys: Sequence[Any]) -> Any:
    """The condition that a row's key is one of the asked keys: true or false, never null.

    The column is never converted: keys that it cannot hold are dropped, and the others written in its own type. As no
    plain comparison of a column it is not handed to Spark's reader of files, which would skip rows by their statistics.
    """
    kind = key.type()
    if kind.is_floating():
        keys = [double(each) for each in keys]
    elif kind.is_integer():
        keys = [each for each in keys if -(2**63) <= each < 2**63]
    elif kind.is_decimal():
        keys = [_exact(Decimal(each), kind) for each in keys if _holds(kind, Decimal(each))]
    return key.isin(list(keys)).fill_null(False) if keys else key.isnull()


def _holds(kind: Any, number: Decimal) -> bool:
    """Whether a decimal type has this very number among its values."""
    digits = "".join(map(str, number.as_tuple().digits))
    last = int(number.as_tuple().exponent) + len(digits) - len(digits.rstrip("0"))  # the place of the last digit
    return not number or (last >= -kind.scale and number.adjusted() < kind.precision - kind.scale)


def _exact(number: Decimal, kind: Any) -> Any:
    import ibis

    return ibis.literal(f"{number:f}" if number else "0").cast(kind)


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
    rows: Any, unit: Unit, sides: tuple[Side, Side], place: Any, wanted: Any, cap: int, engine: Dialect
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


def sides_in_ball(rows: Any, unit: Unit, sides: tuple[Side, Side], cap: int, engine: Dialect) -> Any:
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
