"""What a person types, read as what it means: units, keys, classes, features and types of columns.

Texts are read in the kind that a column publicly has; no cell is looked at.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask
from steelyard.privacy import Unit, holdout, labels, rows, users, whole_number
from steelyard.tables import KeyList, as_written, read_keys

if TYPE_CHECKING:
    from steelyard.models import Categorical, Numeric, Plain


def unit_typed(text: str) -> Unit:
    """``users:user_id``, ``users:user_id:1000``, ``rows``, ``rows:1000``, ``labels:y`` or ``holdout:name`` as a unit.

    >>> print(unit_typed("rows:1000"))
    one row, replaced (n = 1000 is public)
    """
    kind, _, rest = text.partition(":")
    column, _, count = rest.rpartition(":")
    if kind == "users" and column and count.isdigit():
        return users(column, neighbours="replace", n=whole_number(count))
    if kind == "rows":
        if not rest:
            return rows()
        if not rest.isdigit():
            raise InvalidTask(f"--unit rows:N needs the public number of rows; got {rest!r}.")
        return rows(neighbours="replace", n=whole_number(rest))
    makers = {"users": users, "labels": labels, "holdout": holdout}
    if kind not in makers or not rest:
        raise InvalidTask(f"--unit must be users:COLUMN[:N], rows[:N], labels:COLUMN or holdout:NAME; got {text!r}.")
    return makers[kind](rest)


def by_typed(text: str | None) -> str | list[str] | None:
    """One column or several, separated by commas; a name with a comma stands in double quotes.

    >>> by_typed("country"), by_typed("country,month")
    ('country', ['country', 'month'])
    """
    names = None if text is None else _records(text, "--by")[0]
    return names if names is None or len(names) > 1 else names[0]


def keys_typed(text: str | None, by: str | list[str] | None, kinds: Mapping[str, str]) -> Any:
    """Public keys as CSV, or ``@`` and the file that holds them; each in the kind of its column.

    Of one column the keys are separated by commas. Of several, each line is a key. Double quotes hold what has a comma in it.

    >>> keys_typed('"Korea, Republic of",Germany', "country", {"country": "string"})
    ['Korea, Republic of', 'Germany']
    """
    if text is None or by is None:
        return text
    names = [by] if isinstance(by, str) else by
    keys: Any = Path(text[1:])
    if not text.startswith("@"):
        records = _records(text, "--keys")
        keys = [key for record in records for key in record] if len(names) == 1 else list(map(tuple, records))
    given = read_keys(keys, names)
    assert isinstance(given, KeyList)  # a list or a file is read as one
    columns = [
        [key_typed(each, name, kinds.get(name, "string")) if isinstance(each, str) else each for each in column]
        for name, column in zip(names, given.columns(len(names)), strict=True)
    ]
    return columns[0] if len(names) == 1 else list(zip(*columns, strict=True))


def _records(text: str, option: str) -> list[list[str]]:
    """The lines of a CSV text; one that is none, or has an empty line, is refused."""
    try:
        found = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        found = []
    if not found or not all(found):
        raise InvalidTask(
            f"{option} is read as CSV, and {text[:40]!r} is none. A key with a comma stands in double quotes."
        )
    return found


def key_typed(text: str, by: str, kind: str) -> Any:
    """A key in the kind of its column; what it does not say there is refused."""
    found = as_written(kind, text)
    if isinstance(found, str) and kind in ("integer", "decimal", "float", "boolean", "date"):
        raise InvalidTask(f"column {by!r} holds {kind} values; {text!r} is not one.")
    return found


def classes_typed(text: str, kind: str | None) -> list[Any]:
    """Classes, separated by commas, in the kind of the label's column."""
    words = text.split(",")
    if kind == "boolean":
        if not {word.lower() for word in words} <= {"true", "false"}:
            raise InvalidTask("the label holds boolean values; write --classes false,true.")
        return [word.lower() == "true" for word in words]
    if kind not in ("integer", "float", "decimal"):
        return list(words)
    try:
        return [whole_number(word) for word in words]
    except ValueError:
        raise InvalidTask(f"the label holds {kind} values; give its classes as whole numbers.") from None


def feature_typed(text: str) -> Plain | Numeric | Categorical:
    """A feature: ``name:lower:upper``, ``name=value,value`` or ``name``."""
    from steelyard.models import Categorical, Numeric, Plain

    name, equals, values = text.partition("=")
    if equals:
        return Categorical(name, values.split(","))
    if text.count(":") >= 2:
        name, lower, upper = text.rsplit(":", 2)
        return Numeric(name, lower, upper)
    return Plain(text)


def types_typed(text: str | None) -> dict[str, str]:
    """The types of columns: ``amount:float,age:integer``."""
    pairs = [part.rpartition(":") for part in text.split(",")] if text else []
    if not all(name and kind for name, _, kind in pairs):
        raise InvalidTask("--types is a list such as amount:float,age:integer.")
    return {name: kind for name, _, kind in pairs}
