"""What is public about a table: the names and kinds of its columns, and what these alone rule out.

A schema holds no row and knows no engine, so whatever is decided on it is decided before anything is read, and one written
down by hand (a paper table) serves to plan and to price as well as a table's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from steelyard.errors import ColumnMissing, InvalidTask, TableError
from steelyard.privacy import Unit
from steelyard.tables.keys import check_keys
from steelyard.tables.kinds import GROUPABLE, KINDS, NUMERIC, check_names


class Schema:
    """Each column's name and kind, such as ``"integer"`` or ``"string"``.

    >>> Schema({"user": "integer", "amount": "float"}).require_numeric("amount")
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        check_names(list(columns))
        for name, kind in columns.items():
            if kind not in KINDS:
                raise InvalidTask(f"column {name!r} is of a kind among {', '.join(KINDS)}; got {kind!r}.")
        self._kinds = dict(columns)

    def __repr__(self) -> str:
        return f"Schema({self._kinds})"

    @property
    def columns(self) -> Mapping[str, str]:
        """Each column's kind, by its name."""
        return MappingProxyType(self._kinds)

    def require(self, *columns: str) -> None:
        """Refuse a column that is not there."""
        for column in columns:
            if column not in self._kinds:
                raise ColumnMissing(column, list(self._kinds))

    def require_numeric(self, column: str) -> None:
        """Refuse a column that cannot be added up."""
        self.require(column)
        kind = self._kinds[column]
        if kind not in NUMERIC:
            raise TableError(
                f"column {column!r} holds {kind} values and cannot be added up. "
                f"Convert it to a number before it is read (a CSV file states no types: read(..., types={{{column!r}: "
                f"'float'}})); numeric kinds are {', '.join(NUMERIC)}."
            )

    def require_unit(self, unit: Unit) -> None:
        """Refuse a unit that rows of these columns cannot name."""
        if unit.kind not in ("users", "rows"):
            raise InvalidTask(f"a table cannot answer about the unit {unit}.")
        if unit.column is not None:
            self.require(unit.column)
            kind = self._kinds[unit.column]
            if kind not in GROUPABLE:
                raise TableError(f"column {unit.column!r} holds {kind} values and cannot name a unit.")

    def require_keys(self, by: str, keys: Sequence[Any] = ()) -> list[Any]:
        """Refuse a column that cannot hold keys, and keys that are not of its kind; the keys as the column holds them."""
        self.require(by)
        return check_keys(self._kinds[by], keys, by)
