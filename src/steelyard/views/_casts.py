"""Casts that give null where they cannot: only between kinds that every engine converts alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.views._days import DAY_TEXT, day_of, named_day, written_day
from steelyard.views._refusals import only, refuse, shown
from steelyard.views._values import Translator, Value, made, narrow, number, settle, whole

_WHOLE_TEXT = r"^-?[0-9]{1,18}\z"
_NUMBER_TEXT = r"^-?[0-9]{1,17}(\.[0-9]{1,17})?([eE]-?[0-9]{1,3})?\z"
_INTEGERS = {"BIGINT": 64, "INT": 32, "SMALLINT": 16, "TINYINT": 8}


def date(to: Translator, node: Any) -> Value:
    only(node, "this")
    return _cast_to(to.value(node.this), "DATE", node)


def cast(to: Translator, node: Any) -> Value:
    """A cast that gives null where it cannot: only between kinds that every engine converts alike."""
    only(node, "this", "to", "safe")
    kind, value = node.args["to"], to.value(node.this)
    if str(kind.this.name) == "DECIMAL":
        refuse(shown(node), "engines round and overflow decimals differently", "DOUBLE, or round(x, 2)")
    only(kind, "this", "nested")
    return _cast_to(value, str(kind.this.name), node)


def _cast_to(value: Value, kind: str, node: Any) -> Value:
    target = _INTEGERS.get(kind)
    if target is not None:
        return _to_integer(value, target, node)
    if kind == "DOUBLE":
        return _to_double(value, node)
    if kind in ("TEXT", "VARCHAR"):
        return _to_text(value, node)
    if kind == "DATE":
        return _to_day(value, node)
    if kind == "BOOLEAN" and value.kind == "boolean":
        return value
    if kind in ("TIMESTAMPNTZ", "TIMESTAMP") and value.kind == "timestamp":
        return value
    return refuse(
        shown(node),
        f"no cast from {value.kind} to {kind.lower()} is the same on every engine",
        "BIGINT, DOUBLE, VARCHAR or DATE",
    )


def _to_integer(value: Value, bits: int, node: Any) -> Value:
    import ibis

    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if value.kind == "boolean":
        return made(value.expr.cast("int64"), "integer", value, low=0, high=1)
    if value.kind == "string":
        read = ibis.cases((value.expr.re_search(_WHOLE_TEXT), value.expr), else_=ibis.null("string"))
        value = made(read.try_cast("int64"), "integer", value, copies=2, low=-(10**18), high=10**18)
    if value.kind != "integer":
        refuse(shown(node), f"engines round a {value.kind} differently", "floor(x), ceil(x) or round(x)")
    if low <= value.low and value.high <= high:
        return replace(value, column=None)
    if bits == 64:
        return narrow(replace(value, column=None))
    held = narrow(value)
    inside = held.expr.between(whole(low), whole(high))
    expr = ibis.cases((inside, held.expr), else_=ibis.null("int64"))
    return made(expr, "integer", held, copies=2, low=low, high=high)


def _to_double(value: Value, node: Any) -> Value:
    import ibis

    if value.kind == "string":
        read = ibis.cases((value.expr.re_search(_NUMBER_TEXT), value.expr), else_=ibis.null("string"))
        return made(read.try_cast("float64"), "float", value, copies=2, settled=False)
    if value.kind not in ("integer", "float", "decimal", "boolean"):
        refuse(shown(node), f"a {value.kind} is no number", "CAST of text or a number")
    return replace(number(value), column=None)


def _to_text(value: Value, node: Any) -> Value:
    if value.kind == "string":
        return replace(value, column=None)
    if value.kind not in ("integer", "boolean", "date"):
        refuse(
            shown(node),
            f"engines write a {value.kind} differently",
            "text of integers, days and truth values; round(x) before",
        )
    held = settle(value)
    return made(held.expr.cast("string"), "string", held)


def _to_day(value: Value, node: Any) -> Value:
    import ibis

    if value.kind == "string":
        if value.constant is not None:
            day = named_day(value.constant)
            if day is None:
                raise InvalidTask(f"{value.constant[:40]!r} is no day; write it as '2026-05-31'.")
            return written_day(day)
        fits = value.expr.re_search(DAY_TEXT) & (value.expr >= ibis.literal("0001-01-01"))
        read = ibis.cases((fits, value.expr), else_=ibis.null("string"))
        return made(read.try_cast("date"), "date", value, copies=3)
    if value.kind not in ("date", "timestamp", "moment"):
        refuse(shown(node), f"a {value.kind} is no day", "CAST of text like 2026-05-31, or of a moment")
    return replace(day_of(value), column=None)
