"""What is public about a table: the names and kinds of its columns, and what these alone rule out.

A schema holds no row and knows no engine, so whatever is decided on it is decided before anything is read, and one written
down by hand (a paper table) serves to plan and to price as well as a table's own.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from steelyard.errors import ColumnMissing, InvalidTask, TableError
from steelyard.privacy import Unit
from steelyard.tables._kinds import GROUPABLE, KINDS, MOST_KEYS, NUMERIC, check_names

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "float": (int, float),
    "decimal": (int, Decimal),
    "date": (datetime.date,),
}


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


def check_keys(kind: str, keys: Sequence[Any], by: str) -> list[Any]:
    """Public keys of the column's kind, none twice; refuses a kind that cannot be a key."""
    if kind not in _TYPES:
        raise TableError(f"column {by!r} holds {kind} values and cannot be a key; use one of {', '.join(_TYPES)}.")
    if isinstance(keys, str | bytes):
        raise InvalidTask("keys must be a sequence of keys, not one text.")
    checked = [_check_key(kind, key, by) for key in keys]
    if len(set(checked)) != len(checked):
        raise InvalidTask("the same key is given twice.")
    if len(checked) > MOST_KEYS:
        raise InvalidTask(f"at most {MOST_KEYS} keys can be asked for at once; got {len(checked)}.")
    return checked


def _check_key(kind: str, key: Any, by: str) -> Any:
    fits = isinstance(key, _TYPES[kind]) and (kind == "boolean" or not isinstance(key, bool))
    if kind == "date":
        fits = fits and not isinstance(key, datetime.datetime)
    elif kind in ("integer", "decimal"):
        fits = fits and Decimal(key).is_finite() and abs(key) < 10**37
    elif kind == "float":
        fits = fits and math.isfinite(key)
    elif kind == "string":
        fits = fits and key.encode(errors="replace").decode() == key  # half a surrogate pair is no text
    if not fits:
        raise InvalidTask(f"column {by!r} holds {kind} values; {key!r} is not one.")
    return float(key) + 0.0 if kind == "float" else key
