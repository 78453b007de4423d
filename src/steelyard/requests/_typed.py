"""What a person types, read as what it means: units, keys, classes, features and types of columns.

Texts are read in the kind that a column publicly has; no cell is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask
from steelyard.privacy import Unit, exact, holdout, labels, rows, users, whole_number

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


def key_typed(text: str, by: str | None, kind: str) -> Any:
    """A key in the kind of its column."""
    try:
        if kind in ("integer", "decimal"):
            return whole_number(text)
        if kind == "float":
            return float(exact(text, "a key"))
    except ValueError:
        raise InvalidTask(f"column {by!r} holds {kind} values; {text!r} is not one.") from None
    return text == "true" if kind == "boolean" else text


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
