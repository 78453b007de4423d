"""Values of a row in forms that cannot fail: exact integers with known bounds, IEEE doubles, text, days, moments, truth.

An integer is an int64, or wider (38 digits) while it is being worked out; its public bounds are tracked, so that nothing can
overflow and a result beyond int64 is null. A double may become infinite or NaN on the way, which no engine treats as an
error; where it leaves, such a value is null. Kinds are never converted into each other unless that is total and the same everywhere.
Law: no operation here can raise, whatever the row holds, in whichever order an engine evaluates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from steelyard.errors import InvalidTask

INT_LOW, INT_HIGH = -(2**63), 2**63 - 1
WIDE = "decimal(38, 0)"
_FACTOR = "decimal(19, 0)"  # holds an int64; a product of two fits 38 digits
_MOST = 10**38 - 1
_EXACT_DIGITS = 15
MOST_WEIGHT = 3_000
LONGEST_TEXT = 65_536


@dataclass(frozen=True)
class Value:
    """One column or expression: its Ibis form and what is known of it.

    ``column``: the name of the column that this is, unchanged. ``stored``: that column itself, where int64 cannot hold all its integers.
    ``constant``: the literal that it is. ``settled``: a double that is finite or null. ``weight``: how large its SQL is, with what it repeats.
    """

    expr: Any
    kind: str
    column: str | None = None
    low: int = INT_LOW
    high: int = INT_HIGH
    constant: Any = None
    settled: bool = True
    weight: int = 1
    stored: Any = None


class Translator(Protocol):
    """Gives the value of a syntax node, or refuses it."""

    def value(self, node: Any) -> Value:
        """The value of a node."""


def made(expr: Any, kind: str, *parts: Value, copies: int = 1, **known: Any) -> Value:
    """A value that was worked out from others, each of which its SQL repeats ``copies`` times."""
    weight = 1 + copies * sum(part.weight for part in parts)
    if weight > MOST_WEIGHT:
        raise InvalidTask("the expression is too long once it is written out; divide it into fewer steps.")
    return Value(expr, kind, weight=weight, **known)


def double(number: float) -> Any:
    """A double literal, written as text, which every engine reads correctly rounded."""
    import ibis

    return ibis.literal(repr(float(number))).cast("float64")


def whole(number: int) -> Any:
    """An int64 literal; Spark would take a bare one for 32 bits, and the least of all cannot be written with its sign."""
    import ibis

    return ibis.literal(str(number)).cast("int64")


def wide(number: int) -> Any:
    """A literal of 38 digits."""
    import ibis

    return ibis.literal(str(number)).cast(WIDE)


def of_column(column: Any, name: str, weight: int = 1) -> Value:
    """The value of a column of a plain type."""
    kind = column.type()
    if kind.is_boolean():
        return Value(column, "boolean", name, weight=weight)
    if kind.is_integer():
        if kind.is_unsigned_integer() and kind.nbytes == 8:
            return Value(column.cast(WIDE), "integer", name, 0, 2**64 - 1, weight=weight, stored=column)
        bits = 8 * kind.nbytes
        low, high = (0, 2**bits - 1) if kind.is_unsigned_integer() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return Value(column.cast("int64"), "integer", name, low, high, weight=weight)
    if kind.is_floating():
        return Value(column.cast("float64"), "float", name, settled=False, weight=weight)
    for each in ("decimal", "string", "date", "uuid", "binary"):
        if getattr(kind, f"is_{each}")():
            return Value(column, each, name, weight=weight)
    if kind.is_timestamp():
        return Value(column, "timestamp" if kind.timezone is None else "moment", name, weight=weight)
    return Value(column, "other", name, weight=weight)


def literal(number: int) -> Value:
    """An integer that is written down."""
    if not INT_LOW <= number <= INT_HIGH:
        raise InvalidTask(f"the number {number} has more than 64 bits.")
    return Value(whole(number), "integer", low=number, high=number, constant=number)


def narrow(value: Value) -> Value:
    """An integer as int64; one beyond is null. The cast is of a clamped value, so that no branch can overflow."""
    import ibis

    if value.low >= INT_LOW and value.high <= INT_HIGH:
        return replace(value, expr=value.expr.cast("int64"))
    held = ibis.greatest(ibis.least(value.expr, wide(INT_HIGH)), wide(INT_LOW)).cast("int64")
    fits = value.expr.between(wide(INT_LOW), wide(INT_HIGH))
    return made(ibis.cases((fits, held), else_=ibis.null("int64")), "integer", value, copies=2)


def number(value: Value) -> Value:
    """A number as a double, correctly rounded; it may be infinite or NaN."""
    if value.kind == "float":
        return value
    if value.kind == "decimal":
        kind = value.expr.type()
        through_text = kind.precision is None or kind.precision > _EXACT_DIGITS
        expr = value.expr.cast("string").cast("float64") if through_text else value.expr.cast("float64")
        return made(expr, "float", value)
    if value.kind == "boolean":
        value = made(value.expr.cast("int64"), "integer", value, low=0, high=1)
    if value.kind != "integer":
        raise InvalidTask(f"a {value.kind} is no number; compare it, or cast text: CAST(x AS DOUBLE).")
    held = narrow(value)
    return made(held.expr.cast("float64"), "float", held)


def finite(value: Value) -> Value:
    """A double that is finite or null; only a finite number less itself is zero."""
    import ibis

    if value.settled:
        return value
    guard = value.expr - value.expr == double(0.0)
    return made(ibis.cases((guard, value.expr), else_=ibis.null("float64")), "float", value, copies=3)


def settle(value: Value) -> Value:
    """A value in the form in which it may leave an expression."""
    if value.kind == "integer":
        return narrow(value)
    return finite(value) if value.kind == "float" else value


def grouped(value: Value) -> Any:
    """A value to group, compare or count by: no -0.0 beside 0.0, no NaN."""
    return finite(value).expr + double(0.0) if value.kind == "float" else settle(value).expr


def as_key(value: Value) -> Any:
    """A value to group by or to tell rows apart: as ``grouped``, but a column of integers beyond int64 is itself."""
    return value.stored if value.column is not None and value.stored is not None else grouped(value)


def is_kept(value: Value) -> bool:
    """Whether ``as_key`` keeps every stored value: it takes infinite numbers, and integers beyond int64 that were worked out, for missing."""
    fits = value.kind != "integer" or INT_LOW <= value.low <= value.high <= INT_HIGH
    return value.kind != "float" and (fits or (value.column is not None and value.stored is not None))


def apart(value: Value) -> Any:
    """A value that tells units and rows apart as stored ones are: infinite numbers and integers of 64 bits without a sign stay themselves."""
    return value.expr + double(0.0) if value.kind == "float" else value.expr


def added(left: Value, right: Value, *, minus: bool = False) -> Value:
    """The sum or difference of two numbers."""
    if left.kind == right.kind == "integer":
        low = left.low - right.high if minus else left.low + right.low
        high = left.high - right.low if minus else left.high + right.high
        if max(-low, high) > _MOST:
            return added(narrow(left), narrow(right), minus=minus)
        a, b = left.expr.cast(WIDE), right.expr.cast(WIDE)
        return made((a - b if minus else a + b).cast(WIDE), "integer", left, right, low=low, high=high)
    a, b = number(left), number(right)
    return made(a.expr - b.expr if minus else a.expr + b.expr, "float", a, b, settled=False)


def multiplied(left: Value, right: Value) -> Value:
    """The product of two numbers."""
    if left.kind == right.kind == "integer":
        a, b = narrow(left), narrow(right)
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        product = (a.expr.cast(_FACTOR) * b.expr.cast(_FACTOR)).cast(WIDE)
        return made(product, "integer", a, b, low=min(ends), high=max(ends))
    a, b = number(left), number(right)
    return made(a.expr * b.expr, "float", a, b, settled=False)


def divided(left: Value, right: Value) -> Value:
    """The quotient of two numbers as a double; by zero it is null."""
    a, b = number(left), number(right)
    return made(a.expr / b.expr.nullif(double(0.0)), "float", a, b, settled=False)


def rounded_down(value: Value) -> Value:
    """The floor as an integer; null where that has more than 53 bits."""
    import ibis

    if value.kind == "integer":
        return value
    given = number(value)
    most = double(2.0**53)
    held = ibis.greatest(ibis.least(given.expr, most), double(-(2.0**53))).floor().cast("int64")
    inside = (given.expr - given.expr == double(0.0)) & (given.expr <= most) & (given.expr >= double(-(2.0**53)))
    expr = ibis.cases((inside, held), else_=ibis.null("int64"))
    return made(expr, "integer", given, copies=5, low=-(2**53), high=2**53)


def negated(value: Value) -> Value:
    """The number with its sign changed."""
    return added(literal(0), value, minus=True)


def unified(values: Sequence[Value], what: str) -> tuple[str, list[Value]]:
    """Values of one kind, settled; integers beside doubles become doubles, and a bare null takes the kind of the others."""
    import ibis

    kinds = {value.kind for value in values if value.kind != "null"}
    if not kinds:
        raise InvalidTask(f"{what} holds nothing but nulls.")
    if kinds <= {"integer", "float", "decimal"} and kinds != {"integer"}:
        values = [value if value.kind == "null" else number(value) for value in values]
        kinds = {"float"}
    if len(kinds) > 1:
        raise InvalidTask(f"{what} mixes {' and '.join(sorted(kinds))}; cast one of them.")
    kind = kinds.pop()
    if kind in ("other", "moment", "uuid", "binary"):
        raise InvalidTask(f"{what} cannot work on {kind} values; such columns pass through unchanged only.")
    dtype = {"integer": "int64", "float": "float64"}.get(kind, kind)
    null = ibis.null(dtype)
    return kind, [replace(v, expr=null, kind=kind) if v.kind == "null" else settle(v) for v in values]


def of_rows(value: Value, what: str) -> Value:
    """A value that depends on its row, as aggregates and windows need it."""
    import ibis.expr.types as ir

    if isinstance(value.expr, ir.Scalar):
        raise InvalidTask(f"{what} is the same for every row; name a column in it.")
    return value
