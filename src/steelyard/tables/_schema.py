"""What is public about a table: the names and kinds of its columns, and what these alone rule out.

A schema holds no row and knows no engine, so whatever is decided on it is decided before anything is read, and one written
down by hand (a paper table) serves to plan and to price as well as a table's own.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Callable, Mapping, Sequence
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


def _decimal(text: str) -> int | Decimal:
    return Decimal(text) if "." in text else int(text)


_NUMBER = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?")
_READ: dict[str, Callable[[str], Any]] = {"integer": int, "float": float, "decimal": _decimal}
_WIDEST = 10**37


class _Fit(dict[Any, str]):
    """The columns that are fit for something, with their kinds; to ask for any other is refused in words."""

    def __init__(self, kinds: Mapping[Any, str], fit: Sequence[str], refuse: Callable[[str], Exception]) -> None:
        super().__init__({name: kind for name, kind in kinds.items() if kind in fit})
        self._refuse = refuse

    def __missing__(self, name: str) -> str:
        raise self._refuse(name)


class Schema:
    """Each column's name and kind, such as ``"integer"`` or ``"string"``.

    ``numeric`` are the columns that can be added up, ``naming`` those that can name a unit (None, where every row is one), each
    with its kind: whoever asks there for another column is told why not.

    >>> Schema({"user": "integer", "amount": "float"}).numeric["amount"]
    'float'
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        check_names(list(columns))
        for name, kind in columns.items():
            if kind not in KINDS:
                raise InvalidTask(f"column {name!r} is of a kind among {', '.join(KINDS)}; got {kind!r}.")
        self._kinds = dict(columns)
        self.numeric: Mapping[str, str] = _Fit(columns, NUMERIC, self._not_numeric)
        self.naming: Mapping[str | None, str] = _Fit({**columns, None: "row"}, (*GROUPABLE, "row"), self._not_naming)

    def __repr__(self) -> str:
        told = ", ".join(f"{name!r}: {kind!r}" for name, kind in list(self._kinds.items())[:20])
        more = len(self._kinds) - 20
        return f"Schema({{{told}{f', … {more} more' if more > 0 else ''}}})"

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
        _ = self.numeric[column]

    def _not_numeric(self, column: str) -> TableError:
        self.require(column)
        return TableError(
            f"column {column!r} holds {self._kinds[column]} values and cannot be added up. "
            f"Convert it to a number before it is read (a CSV file states no types: read(..., types={{{column!r}: "
            f"'float'}})); numeric kinds are {', '.join(NUMERIC)}."
        )

    def require_ordered(self, column: str) -> None:
        """Refuse a column that cannot be laid between edges: numbers and dates can."""
        self.require(column)
        if self._kinds[column] != "date":
            self.require_numeric(column)

    def require_unit(self, unit: Unit) -> None:
        """Refuse a unit that rows of these columns cannot name."""
        if unit.kind not in ("users", "rows"):
            raise InvalidTask(f"a table cannot answer about the unit {unit}.")
        _ = self.naming[unit.column]

    def _not_naming(self, column: str) -> TableError:
        self.require(column)
        return TableError(f"column {column!r} holds {self._kinds[column]} values and cannot name a unit.")

    def require_keys(self, by: str, keys: Sequence[Any] = ()) -> list[Any]:
        """Refuse a column that cannot hold keys, and keys that are not of its kind; the keys as the column holds them."""
        self.require(by)
        return check_keys(self._kinds[by], keys, by)

    def fit_keys(self, by: Sequence[str], keys: Sequence[Any]) -> list[list[Any]]:
        """Keys column by column, as the columns hold them; what does not fit, and a key that stands twice, is refused.

        A key may be written as text: a date as ``2025-01-31``, a number in digits.
        """
        self.require(*by)
        if isinstance(keys, str | bytes):
            raise InvalidTask("keys must be a sequence of keys, not one text.")
        kinds = tuple((name, self._kinds[name]) for name in by)
        kept = getattr(keys, "fitted", None)
        if kept is not None and kept[0] == kinds:
            return list(kept[1])
        given = [keys] if len(by) == 1 else list(zip(*keys, strict=True)) or [()] * len(by)
        columns = [_fit(kind, values, name) for (name, kind), values in zip(kinds, given, strict=True)]
        if len(set(columns[0] if len(columns) == 1 else zip(*columns, strict=True))) != len(columns[0]):
            raise InvalidTask("the same key is given twice.")
        if hasattr(keys, "fitted"):
            keys.fitted = kinds, columns
        return columns


def _fit(kind: str, values: Sequence[Any], by: str) -> list[Any]:
    """The values of one column; of those that occur often, each is looked at once."""
    check_keys(kind, (), by)
    types = {*map(type, values)}
    if kind == "string" and types == {str} and _is_text("".join(values)):
        return list(values)
    if kind == "integer" and types == {int} and min(values) > -_WIDEST and max(values) < _WIDEST:
        return list(values)
    told = list(zip(map(type, values), values, strict=True))  # True is no 1
    fitting = {pair: _check_key(kind, as_written(kind, pair[1]), by) for pair in dict.fromkeys(told)}
    return [fitting[pair] for pair in told]


def _is_text(value: str) -> bool:
    """Whether a text can be written: half a surrogate pair is none."""
    return value.encode(errors="replace").decode() == value


def as_written(kind: str, key: Any) -> Any:
    """A text as what it says in the kind of its column; anything else, and a text that says nothing of it, as it is."""
    if not isinstance(key, str) or kind == "string":
        return key
    try:
        if kind == "date":
            return datetime.date.fromisoformat(key) if len(key) == 10 else key
        if kind == "boolean":
            return {"true": True, "false": False}.get(key, key)
        return _READ[kind](key) if _NUMBER.fullmatch(key) else key
    except ValueError:
        return key


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
        fits = fits and Decimal(key).is_finite() and abs(key) < _WIDEST
    elif kind == "float":
        fits = fits and abs(key) <= sys.float_info.max
    elif kind == "string":
        fits = fits and _is_text(key)
    if not fits:
        raise InvalidTask(f"column {by!r} holds {kind} values; {key!r} is not one.")
    return float(key) + 0.0 if kind == "float" else key
