"""Capped sums by key: each unit's vector of totals is scaled into a ball of integer radius, then added up.

A unit's total under a key is saturated at 2^50. If the unit's norm M (L1: the exact sum; L2: an integer root, checked
to be no smaller) is above the cap, each total a becomes the largest integer g with g * M <= a * cap, found by a guess
in doubles and decided by that very inequality in wide integers. Then the norm of the result is at most the cap, as a
fact about integers (docs/proofs/tables.md); a total for which no guess passes would become 0.
Law: no row outside a unit may touch that unit's scaling, and the inequality is checked on the value that is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.privacy import Unit
from steelyard.tables.quantity import Quantity, as_double, double
from steelyard.tables.sampling import Limits, keep_keys, keep_rows_per_key
from steelyard.tables.totals import WIDE, beside, identity, wide, wide_sum

SATURATION = 2**50
"""The largest cap by key, and the largest absolute total of one unit under one key."""

MOST_KEYS = 2**22
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
    rows: Any, unit: Unit, parts: Sequence[Capped], key: Any, wanted: Any, limits: Limits, engine: str
) -> Any:
    """One row per key: ``k``, the number of units under it ``n``, and the sums ``s0``, ``s1``, …"""
    quantities = {f"q{i}": part.quantity.expression(rows) for i, part in enumerate(parts)}
    chosen = rows.filter(wanted)
    if unit.column is None:
        return capped_pairs(chosen.select(k=key, **quantities), unit, parts, limits, engine)
    chosen = chosen.filter(identity(rows[unit.column]).notnull())
    units = chosen.select(u=identity(rows[unit.column]), k=key, **quantities)
    return capped_pairs(units, unit, parts, limits, engine)


def capped_pairs(units: Any, unit: Unit, parts: Sequence[Capped], limits: Limits, engine: str) -> Any:
    """The same from rows ``(u, k, q0, q1, …)`` that all have a unit (none where the row is the unit) and a key."""
    if unit.column is None:
        return _by_key(units, {f"s{i}": clamp(units[f"q{i}"], part.cap) for i, part in enumerate(parts)}, engine)
    pairs = keep_keys(_pairs(keep_rows_per_key(units, limits, engine), len(parts), engine), limits, engine)
    measured = _measured(pairs, parts, engine)
    return _by_key(measured, {f"s{i}": scaled(measured, i, part.cap) for i, part in enumerate(parts)}, engine)


def _pairs(units: Any, parts: int, engine: str) -> Any:
    """One row per unit and key with the saturated totals."""
    sums = {f"t{i}": clamp(wide_sum(units[f"q{i}"], engine), SATURATION).cast("int64") for i in range(parts)}
    return units.group_by("u", "k").agg(**sums)


def _measured(pairs: Any, parts: Sequence[Capped], engine: str) -> Any:
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


def _by_key(pairs: Any, sums: dict[str, Any], engine: str) -> Any:
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
