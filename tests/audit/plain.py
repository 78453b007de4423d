"""A table in plain Python: the reference semantics of totals, so that thousands of replays cost seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.errors import ColumnMissing
from steelyard.privacy import Unit
from steelyard.tables import Bounded, Quantity, Schema


class PlainTable:
    """Arrow rows as dictionaries, with the questions that Sum and Count ask."""

    def __init__(self, arrow: Any) -> None:
        self.rows: list[dict[str, Any]] = arrow.to_pylist()
        self.columns: Mapping[str, str] = dict.fromkeys(arrow.column_names, "float")
        real = Schema(self.columns)
        self.numeric, self.naming = real.numeric, real.naming

    @property
    def schema(self) -> PlainTable:
        """The columns; unlike a real schema it lets a twin see the rows."""
        return self

    def require(self, *columns: str) -> None:
        for column in columns:
            if column not in self.columns:
                raise ColumnMissing(column, list(self.columns))

    def require_numeric(self, column: str) -> None:
        self.require(column)

    def require_unit(self, unit: Unit) -> None:
        if unit.column is not None:
            self.require(unit.column)

    def totals(self, unit: Unit, quantity: Quantity) -> list[int]:
        """One total per unit; rows without a unit belong to nobody."""
        if unit.column is None:
            return [quantity.integer(row.get(quantity.column or "")) for row in self.rows]
        found: dict[Any, int] = {}
        for row in self.rows:
            if (name := row[unit.column]) is not None:
                found[name] = found.get(name, 0) + quantity.integer(row.get(quantity.column or ""))
        return list(found.values())

    def capped_sum(self, unit: Unit, quantity: Quantity, lower: int, upper: int) -> int:
        return sum(max(lower, min(upper, total)) for total in self.totals(unit, quantity))

    def capped_totals(self, unit: Unit, parts: Sequence[Bounded]) -> list[int]:
        return [self.capped_sum(unit, part.quantity, part.lower, part.upper) for part in parts]

    def groups(self, unit: Unit, by: str, keys: Sequence[Any]) -> dict[Any, int]:
        """Units per key, each unit counted under its first key only (by the order of ``keys``)."""
        first: dict[Any, int] = {}
        for row in self.rows:
            if row[by] in keys and row[unit.column or ""] is not None:
                place = keys.index(row[by])
                first[row[unit.column or ""]] = min(place, first.get(row[unit.column or ""], place))
        return {key: sum(place == i for place in first.values()) for i, key in enumerate(keys)}
