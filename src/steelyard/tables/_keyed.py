"""Capped sums by key: each unit's vector of totals is scaled into a ball of integer radius, then added up.

A unit's total under a key is saturated at 2^50. If the unit's norm M (L1: the exact sum; L2: an integer root, checked
to be no smaller) is above the cap, each total a becomes the largest integer g with g * M <= a * cap, found by a guess
in doubles and decided by that very inequality in wide integers. Then the norm of the result is at most the cap, as a
fact about integers (docs/proofs/tables.md); a total for which no guess passes would become 0.
Law: no row outside a unit may touch that unit's scaling, and the inequality is checked on the value that is added.

Keys: a key is a value of one column or a tuple over several. Rows of whose key a part is null or NaN belong to no key and are
dropped. Asked keys are public and must be of their columns' kinds; that is checked from the schema before anything is read. They
are a small table that rows are joined with, and what is grouped by is a key's place in it.

The same ball holds a unit's rows as a short vector. Bins: each row stands in one bin of a public grid. Joint: several integers of a
row share one ball (``_joint``). A unit beyond its cap is scaled down as a whole, not cut off.
Law: rows whose value is missing, NaN or infinite are in no bin; nothing here can fail on data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from itertools import accumulate, pairwise
from operator import add
from typing import TYPE_CHECKING, Any, Protocol

from steelyard.errors import InvalidTask
from steelyard.privacy import Unit
from steelyard.tables._kinds import MOST_KEYS
from steelyard.tables._sampling import Limits, keep_keys, keep_rows_per_key, key_names
from steelyard.tables._totals import (
    LIMIT,
    WIDE,
    Dialect,
    Quantity,
    RowInteger,
    as_double,
    beside,
    beside_edges,
    check_edges,
    double,
    finite,
    identity,
    wide,
    wide_sum,
)

if TYPE_CHECKING:
    from steelyard.tables._keys import KeyFrame

SATURATION = 2**50
"""The largest cap by key, and the largest absolute total of one unit under one key."""

_SMALL = "decimal(16, 0)"  # holds SATURATION + 1
NORM = "decimal(22, 0)"  # holds MOST_KEYS * SATURATION; a product of the two types fits 38 digits
_ROOT = "decimal(19, 0)"  # holds the root of MOST_KEYS * SATURATION^2; its square fits 38 digits
# Products are taken of 19 digits or more: DuckDB keeps a product of two shorter decimals within 18.


Look = tuple["Capped", Sequence[int]]
"""Totals whose norms are counted, and the public edges that they are counted between."""


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

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """What shares the ball."""
        return (self.quantity,)


class Ball(Protocol):
    """Integers of a row whose totals by key lie, together, in one ball for every unit: ``Capped`` or ``Joint``."""

    @property
    def quantities(self) -> Sequence[RowInteger]:
        """What shares the ball."""

    @property
    def cap(self) -> int:
        """The radius."""

    @property
    def norm(self) -> str:
        """The norm."""


def spans(parts: Sequence[Ball]) -> list[range]:
    """Which of all integers, counted through, are whose."""
    ends = [0, *accumulate(len(part.quantities) for part in parts)]
    return [range(start, end) for start, end in pairwise(ends)]


def by_place(
    rows: Any,
    by: Sequence[str],
    keys: KeyFrame,
    columns: Mapping[str, Any],
    where: Sequence[Any],
    others: int | None = None,
) -> Any:
    """The columns of the rows whose key is asked for, and ``k``, the key's place in the public list.

    Keys are different, so a row has at most one place. Both sides of the comparison have one type, and nothing is converted.
    With ``others``, that is the place of every other row, also of one whose key is missing.
    """
    parts = {f"steelyard_k{i}": key_column(rows, name) for i, name in enumerate(by)}
    conditions = [*([part.notnull() for part in parts.values()] if others is None else []), *where]
    chosen, wanted = (rows.filter(*conditions) if conditions else rows).select(**columns, **parts), keys.expression
    # a left join: DuckDB, which may not push conditions down here, takes an inner one for a product of all pairs
    joined = chosen.left_join(wanted, [chosen[part] == wanted[part] for part in parts])
    placed = joined.select(*(chosen[name] for name in columns), wanted.steelyard_place)
    # a table of its own: were it part of a longer join, the rows would be read once for each of its sides
    owner = ["u"] if "u" in columns else []
    if others is None:
        found = placed.filter(placed.steelyard_place.notnull())
    else:
        found = placed.mutate(steelyard_place=placed.steelyard_place.fill_null(whole(others)))
    return found.select(*owner, k=found.steelyard_place, **{n: found[n] for n in columns if n != "u"})


def by_value(rows: Any, by: Sequence[str], columns: Mapping[str, Any], where: Sequence[Any]) -> Any:
    """The columns of the rows that have a key, and its parts ``k0``, ``k1``, …"""
    parts = {f"k{i}": key_column(rows, name) for i, name in enumerate(by)}
    return rows.filter(*(part.notnull() for part in parts.values()), *where).select(**columns, **parts)


def somebody(rows: Any, unit: Unit) -> tuple[dict[str, Any], list[Any]]:
    """The unit ``u`` of a row, where it is not the row itself, and the condition that there is one."""
    if unit.column is None:
        return {}, []
    owner = identity(rows[unit.column])
    return {"u": owner}, [owner.notnull()]


def norm_tails(units: Any, unit: Unit, looks: Sequence[Look], limits: Limits, engine: Dialect) -> Any:
    """One row of rows ``(u, k…, q0, q1, …)``: how many units have any, then, look by look, how many have a norm at or above each inner edge."""
    if unit.column is None:
        own = {f"n{i}": _size_of(clamp(units[f"q{i}"], SATURATION), part.norm) for i, (part, _) in enumerate(looks)}
        sizes = units.select(**own)
    else:
        sizes = _sizes(keep_rows_per_key(units, limits, engine), [part for part, _ in looks], limits, engine)
    inner = [[edge if part.norm == "l1" else edge**2 for edge in edges[1:-1]] for part, edges in looks]
    narrow = [beside_edges(sizes[f"n{i}"], edges) for i, edges in enumerate(inner)]
    held = sizes.select(**{f"n{i}": size for i, (size, _) in enumerate(narrow)})
    counts = [
        held.count(where=held[f"n{i}"] >= written(edge))
        for i, (edges, (_, written)) in enumerate(zip(inner, narrow, strict=True))
        for edge in edges
    ]
    return held.agg(n=held.count(), **{f"n{i}": count for i, count in enumerate(counts)})


def _sizes(kept: Any, parts: Sequence[Capped], limits: Limits, engine: Dialect) -> Any:
    """One row for each unit with its norms ``n0``, ``n1``, …; of counts alone they are numbers of rows, and no pair is needed."""
    same = constants(parts)
    if limits.max_keys is None and None not in same and all(part.norm == "l1" for part in parts):
        own = {f"n{i}": _exact(kept, i, value, engine) for i, value in enumerate(same)}
        return kept.group_by("u").agg(**own)
    pairs = keep_keys(_pairs(kept, same, engine), limits, engine)
    return pairs.group_by("u").agg(
        **{f"n{i}": _size(pairs[f"t{i}"], part.norm, engine) for i, part in enumerate(parts)}
    )


def capped_pairs(units: Any, unit: Unit, parts: Sequence[Ball], limits: Limits, engine: Dialect) -> Any:
    """One row per key of rows ``(u, k…, q0, q1, …)``: its ``k…``, the number of units under it ``n``, and the sums ``s0``, ``s1``, …

    All rows have a unit (none where the row is the unit) and a key. A part of several quantities has as many sums.
    """
    if unit.column is None:
        return _by_key(units, _held_rows(units, parts), engine)
    pairs = keep_keys(_pairs(keep_rows_per_key(units, limits, engine), constants(parts), engine), limits, engine)
    return _by_key(*_scaled_sums(_measured(pairs, parts, engine) if parts else pairs, parts), engine)


def _scaled_sums(measured: Any, parts: Sequence[Ball]) -> tuple[Any, dict[str, Any]]:
    own = [(i, part.cap, j) for i, (part, places) in enumerate(zip(parts, spans(parts), strict=True)) for j in places]
    if not own:
        return measured, {}
    guessed = measured.mutate(
        **{f"g{j}": guess(measured[f"t{j}"], measured[f"m{i}"], measured.o.notnull(), cap) for i, cap, j in own}
    )
    return guessed, {f"s{j}": scaled(guessed, j, i, cap) for i, cap, j in own}


def _held_rows(units: Any, parts: Sequence[Ball]) -> dict[str, Any]:
    """What each row adds where it is the unit itself: one integer is clamped, several are scaled into their ball."""
    sums: dict[str, Any] = {}
    for part, own in zip(parts, spans(parts), strict=True):
        if len(own) == 1:
            sums[f"s{own[0]}"] = clamp(units[f"q{own[0]}"], part.cap)
        else:
            totals = [clamp(units[f"q{j}"], SATURATION) for j in own]
            norm, above = norm_in_row(totals, part)
            sums |= {
                f"s{j}": into_ball(total, norm, above, part.cap, guess(total, norm, above, part.cap))
                for j, total in zip(own, totals, strict=True)
            }
    return sums


def norm_in_row(totals: Sequence[Any], part: Ball) -> tuple[Any, Any]:
    """The norm of several saturated totals that stand in one row, and whether it is above the cap."""
    size = reduce(add, [_size_of(total, part.norm) for total in totals]).cast(WIDE)
    above = size > wide(part.cap if part.norm == "l1" else part.cap**2)
    return (size if part.norm == "l1" else _root(size)).cast(NORM), above


def capped_sums(units: Any, unit: Unit, parts: Sequence[Ball], limits: Limits, engine: Dialect) -> Any:
    """The same sums without ``n``. A unit whose integers add up, without their signs, to no more than any cap is within every norm.

    Where a source reads alike twice, all rows go straight to their keys; only the rows of other units are added up pair by pair as well,
    and what scaling takes from a pair is taken from its key.
    """
    if unit.column is None or limits.max_keys or limits.rows_per_key or not engine.rereads:
        return capped_pairs(units, unit, parts, limits, engine)
    names, same, marked = key_names(units), constants(parts), _marked(units, parts, engine)
    every = marked.group_by(*names).agg(**{f"s{i}": _exact(marked, i, value, engine) for i, value in enumerate(same)})
    beyond = _pairs(marked.filter(marked.o.notnull()), same, engine, exact=True)
    heavy, held = _scaled_sums(_measured(beyond, parts, engine), parts)
    less = heavy.select(*names, **{name: value.cast(WIDE) - heavy[f"d{name[1:]}"] for name, value in held.items()})
    both = every.union(less)
    return both.group_by(*names).agg(**{name: both[name].sum().cast(WIDE) for name in held})


def constants(parts: Sequence[Ball]) -> list[int | None]:
    """Of each integer the one value that every row has, where it is a count; the engine then counts rows and adds nothing up."""
    every = [each for part in parts for each in part.quantities]
    return [each.integer(1) if isinstance(each, Quantity) and each.column is None else None for each in every]


def _marked(units: Any, parts: Sequence[Ball], engine: Dialect) -> Any:
    """The rows, and ``o`` where their unit may be above some cap."""
    import ibis

    same = constants(parts)
    sizes = {
        f"a{i}": reduce(add, [_exact(units, j, same[j], engine, size=True) for j in own])
        for i, own in enumerate(spans(parts))
    }
    owners = units.group_by("u").agg(**sizes)
    above = owners.filter(ibis.or_(*[owners[f"a{i}"] > wide(part.cap) for i, part in enumerate(parts)]))
    found = above.select("u", o=ibis.literal(True))
    return units.left_join(found, ["u"]).select(*[units[name] for name in units.columns], found.o)


def _pairs(units: Any, same: Sequence[int | None], engine: Dialect, *, exact: bool = False) -> Any:
    """One row per unit and key with the saturated totals; with ``exact`` also the totals ``d0``, ``d1``, … as they are."""
    sums = {f"t{i}": _saturated(units, i, value, engine) for i, value in enumerate(same)}
    if exact:
        sums |= {f"d{i}": _exact(units, i, value, engine) for i, value in enumerate(same)}
    grouped = units.group_by("u", *key_names(units))
    return grouped.agg(**sums) if sums else units.select("u", *key_names(units)).distinct()


def _exact(rows: Any, i: int, constant: int | None, engine: Dialect, *, size: bool = False) -> Any:
    """The sum of an integer, with ``size`` of its absolute values, as a wide integer."""
    import ibis

    if constant is not None:  # no constant is below zero; 19 digits hold any number of rows
        return (rows.count().cast(_ROOT) * ibis.literal(Decimal(constant), _ROOT)).cast(WIDE)
    return wide_sum(rows[f"q{i}"].abs() if size else rows[f"q{i}"], engine)


def _saturated(rows: Any, i: int, constant: int | None, engine: Dialect) -> Any:
    """The sum of an integer within ``SATURATION``, as int64; of a constant so few rows are counted that the product fits."""
    import ibis

    if constant is None:
        return saturated_sum(rows[f"q{i}"], engine)
    enough = ibis.least(rows.count(), whole(SATURATION // max(constant, 1) + 1))
    return ibis.least(enough * whole(constant), whole(SATURATION))


def _measured(pairs: Any, parts: Sequence[Ball], engine: Dialect) -> Any:
    """The pairs with their unit's norms ``m0``, ``m1``, … as integers, and ``o`` where the unit is above some cap."""
    import ibis

    sizes = {
        f"n{i}": reduce(add, [_size(pairs[f"t{j}"], part.norm, engine) for j in own])
        for i, (part, own) in enumerate(zip(parts, spans(parts), strict=True))
    }
    units = beside(pairs, ["u"], engine, sizes)
    above = [units[f"n{i}"] > wide(part.cap if part.norm == "l1" else part.cap**2) for i, part in enumerate(parts)]
    norms = {
        f"m{i}": units[f"n{i}"].cast(NORM) if part.norm == "l1" else _root(units[f"n{i}"]).cast(NORM)
        for i, part in enumerate(parts)
    }
    over = ibis.cases((ibis.or_(*above), ibis.literal(True)), else_=ibis.null("boolean"))
    return units.select(*pairs.columns, o=over, **norms)


def _size(total: Any, norm: str, engine: Dialect) -> Any:
    """A unit's norm, or the square of it, as a wide integer."""
    return wide_sum(total.abs(), engine) if norm == "l1" else _size_of(total, norm).sum()


def _size_of(total: Any, norm: str) -> Any:
    """What a total adds to its unit's norm, or to the square of it."""
    if norm == "l1":
        return total.abs().cast(WIDE)
    side = total.cast(_ROOT)
    return (side * side).cast(WIDE)


def _root(square: Any) -> Any:
    """An integer whose square is at least ``square``, checked exactly; the least one up to 2^50."""
    import ibis

    guess = as_double(square).sqrt().floor().cast("int64")
    roots = [(guess + more).cast(_ROOT) for more in (0, 1, 2, 1024)]
    return ibis.cases(*[(root * root >= square, root) for root in roots], else_=ibis.null(_ROOT))


def scaled(joined: Any, total: int, part: int, cap: int) -> Any:
    """A total of a part, scaled toward zero where its unit is above the cap."""
    return into_ball(joined[f"t{total}"], joined[f"m{part}"], joined.o.notnull(), cap, joined[f"g{total}"])


def guess(total: Any, norm: Any, above: Any, cap: int) -> Any:
    """About how large a total becomes that is scaled; a column of its own where it can be, since most of a small question's time goes into its words."""
    import ibis

    # A unit above another part's cap may have norm 0 here; no branch, taken or not, may divide by zero.
    divisor = ibis.greatest(as_double(norm), double(1.0))
    near = (total.abs().cast("float64") * double(float(cap)) / divisor).floor().cast("int64")
    return ibis.cases((above, near), else_=_zero())


def into_ball(total: Any, norm: Any, above: Any, cap: int, near: Any) -> Any:
    """The largest integer g with g norm <= total cap, by a guess ``near`` it, where the norm is above the cap, else the total as it is."""
    import ibis

    size = total.abs()
    budget = size.cast(_ROOT) * ibis.literal(Decimal(cap), _ROOT)
    tries = [near + more for more in (1, 0, -1)]
    fitting = ibis.cases(*[(each.cast(_SMALL) * norm <= budget, each) for each in tries], else_=_zero())
    floor = ibis.greatest(fitting, _zero())
    signed = floor * ibis.cases((total < _zero(), whole(-1)), else_=whole(1))  # so that the SQL has it once
    return ibis.cases((~above, total), (norm <= wide(cap), total), else_=signed)


def _by_key(pairs: Any, sums: dict[str, Any], engine: Dialect) -> Any:
    names = key_names(pairs)
    added = pairs.select(*names, **sums)
    return added.group_by(*names).agg(n=added.count(), **{name: wide_sum(added[name], engine) for name in sums})


def clamp(total: Any, bound: int) -> Any:
    """A total held inside [-bound, bound]."""
    import ibis

    lower, upper = (wide(-bound), wide(bound)) if total.type().is_decimal() else (whole(-bound), whole(bound))
    return ibis.greatest(ibis.least(total, upper), lower)


def saturated_sum(column: Any, engine: Dialect) -> Any:
    """The sum of an int64 column within ``SATURATION``, as int64: what an engine widened by itself is cut before it becomes a decimal."""
    import ibis.expr.datatypes as dt

    if not engine.widens:
        return clamp(wide_sum(column, engine), SATURATION).cast("int64")
    # Ibis takes the sum for an int64, and would leave out a cast to the very same type
    return clamp(column.sum(), SATURATION).cast(dt.Int64(nullable=False))


def whole(value: int) -> Any:
    """An int64 literal."""
    import ibis

    return ibis.literal(value, "int64")


def _zero() -> Any:
    return whole(0)


def key_column(rows: Any, by: str) -> Any:
    """A part of the key as an expression; null where a row has none."""
    column = rows[by]
    if column.type().is_integer():
        signed = not column.type().is_unsigned_integer() or column.type().nbytes < 8
        column = column.cast("int64" if signed else "decimal(38, 0)")
    return identity(column)


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
