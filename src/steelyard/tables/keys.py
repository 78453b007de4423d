"""Keys to group by: which columns may be one, which values may be asked for, and how they compare.

Rows whose key is null or NaN belong to no key and are dropped. Asked keys are public, come from the caller, and must
be of the column's kind; that is checked from the schema before anything is read.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from steelyard.errors import InvalidTask, TableError
from steelyard.tables.keyed import MOST_KEYS
from steelyard.tables.quantity import double
from steelyard.tables.totals import identity

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "float": (int, float),
    "decimal": (int, Decimal),
    "date": (datetime.date,),
}


def key_column(rows: Any, by: str) -> tuple[Any, Any]:
    """The key as an expression, and the condition that a row has one."""
    column = rows[by]
    if column.type().is_integer():
        signed = not column.type().is_unsigned_integer() or column.type().nbytes < 8
        column = column.cast("int64" if signed else "decimal(38, 0)")
    key = identity(column)
    return key, key.notnull()


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
