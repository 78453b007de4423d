"""Several integers of one row that share a ball: a unit's totals of all of them, under all keys, are scaled down together.

Sides: a row's value x between public bounds counts x - low on one side and high - x on the other, so that the two always add up to
high - low and one noisy pair gives sum and count at the price of one (Kulesza, Suresh and Wang 2024). Moments: the same for squares,
with the three products of the two distances, which add up to (high - low)^2. A unit beyond its cap is scaled down as a whole.
Law: rows whose value is missing, NaN or infinite count 0 everywhere; nothing here can fail on data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.privacy import Unit
from steelyard.tables._keyed import SATURATION, clamp, guess, into_ball, known, norm_in_row, spans, whole
from steelyard.tables._totals import LIMIT, Bounded, Dialect, Quantity, RowInteger, unit_totals, wide, wide_sum

WIDEST_SQUARED = 2**25
"""The most grid steps between bounds whose squares are taken, so that a row's products stay within 2^50."""


@dataclass(frozen=True)
class Joint:
    """Several quantities whose vector of totals, by quantity and key, has norm at most ``cap`` for every unit."""

    quantities: tuple[RowInteger, ...]
    cap: int
    norm: str = "l1"

    def __post_init__(self) -> None:
        if isinstance(self.cap, bool) or not isinstance(self.cap, int) or not 1 <= self.cap <= SATURATION:
            raise InvalidTask(f"the cap of a joint ball must be an integer from 1 to 2^50; got {self.cap!r}.")
        if self.norm not in ("l1", "l2") or not self.quantities:
            raise InvalidTask(f"a joint ball needs quantities and the norm 'l1' or 'l2'; got {self.norm!r}.")


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

        return ibis.cases((known(table, str(self.column)), self.distance(table)), else_=whole(0))

    def distance(self, table: Any) -> Any:
        """The distance of the value that stands for a missing one, too."""
        import ibis

        value = ibis.greatest(ibis.least(self.quantity.expression(table), whole(self.high)), whole(self.low))
        return value - whole(self.low) if self.above else whole(self.high) - value


@dataclass(frozen=True)
class Moment:
    """A row's squared distance above ``low`` (``power`` 2), below ``high`` (0), or twice their product (1); 0 without a value.

    The three add up to (high - low)^2 whatever the value.
    """

    quantity: Quantity
    low: int
    high: int
    power: int

    def __post_init__(self) -> None:
        if self.power not in (0, 1, 2) or self.high - self.low > WIDEST_SQUARED:
            raise InvalidTask("a moment has power 0, 1 or 2 and at most 2^25 steps between its bounds.")
        _ = self.sides

    @property
    def sides(self) -> tuple[Side, Side]:
        """Above and below."""
        return Side(self.quantity, self.low, self.high, True), Side(self.quantity, self.low, self.high, False)

    @property
    def column(self) -> str | None:
        """The column that is read."""
        return self.quantity.column

    def expression(self, table: Any) -> Any:
        """The product as an Ibis expression of type int64, never null."""
        import ibis

        above, below = (side.distance(table) for side in self.sides)
        product = (below * below, whole(2) * above * below, above * above)[self.power]
        return ibis.cases((known(table, str(self.column)), product), else_=whole(0))


def sides(quantity: Quantity, low: int, high: int, cap: int) -> Joint:
    """Both sides of a value."""
    return Joint(tuple(Side(quantity, low, high, above) for above in (True, False)), cap)


def moments(quantity: Quantity, low: int, high: int, cap: int) -> Joint:
    """All three products of a value."""
    return Joint(tuple(Moment(quantity, low, high, power) for power in (0, 1, 2)), cap)


def held(rows: Any, unit: Unit, parts: Sequence[Bounded | Joint], engine: Dialect) -> Any:
    """One row: the sums over units of clamped totals and of vectors in their balls, in the order of all quantities."""
    units = unit_totals(rows, unit, [each for part in parts for each in part.quantities], engine)
    named = units.filter(units.u.notnull())
    own = spans(parts)  # type: ignore[arg-type]  # a Bounded has quantities, and no ball
    columns: dict[str, Any] = {}
    for part, places in zip(parts, own, strict=True):
        for j in places:
            columns[f"t{j}"] = (
                _between(named[f"t{j}"], part)
                if isinstance(part, Bounded)
                else clamp(named[f"t{j}"], SATURATION).cast("int64")
            )
    totals = named.select(**columns)
    balls = [
        (i, part, places) for i, (part, places) in enumerate(zip(parts, own, strict=True)) if isinstance(part, Joint)
    ]
    sizes: dict[str, Any] = {}
    for i, part, places in balls:
        sizes[f"m{i}"], sizes[f"o{i}"] = norm_in_row([totals[f"t{j}"] for j in places], part)
    sized = totals.mutate(**sizes)
    near = {
        f"g{j}": guess(sized[f"t{j}"], sized[f"m{i}"], sized[f"o{i}"], part.cap)
        for i, part, places in balls
        for j in places
    }
    last = sized.mutate(**near)
    sums = {f"s{j}": last[f"t{j}"].sum() for j in range(own[-1].stop)}
    for i, part, places in balls:
        held = {j: into_ball(last[f"t{j}"], last[f"m{i}"], last[f"o{i}"], part.cap, last[f"g{j}"]) for j in places}
        sums |= {f"s{j}": wide_sum(total, engine) for j, total in held.items()}
    return last.agg(**sums)


def _between(total: Any, part: Bounded) -> Any:
    import ibis

    return ibis.greatest(ibis.least(total, wide(part.upper)), wide(part.lower))
