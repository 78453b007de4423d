"""Texts of a row. None may grow, except by ``||`` and ``concat``, whose result is null beyond the longest text."""

from __future__ import annotations

import string
from typing import Any

from sqlglot import expressions as exp

from steelyard.errors import InvalidTask
from steelyard.views._refusals import only, refuse, shown
from steelyard.views._values import LONGEST_TEXT, Translator, Value, made


def _text(what: str, *values: Value) -> None:
    for value in values:
        if value.kind != "string":
            raise InvalidTask(
                f"{what} needs text; got {value.kind}. Integers and days become text by CAST(x AS VARCHAR)."
            )


def letters(to: Translator, node: Any) -> Value:
    only(node, "this")
    value = to.value(node.this)
    _text(shown(node), value)
    small, large = string.ascii_lowercase, string.ascii_uppercase
    pair = (large, small) if type(node) is exp.Lower else (small, large)
    return made(value.expr.translate(*pair), "string", value)


def length(to: Translator, node: Any) -> Value:
    only(node, "this")
    value = to.value(node.this)
    _text("length", value)
    return made(value.expr.length().cast("int64"), "integer", value, low=0, high=2**31)


def substring(to: Translator, node: Any) -> Value:
    only(node, "this", "start", "length")
    start = 1 if node.args.get("start") is None else to.value(node.args["start"]).constant
    size = LONGEST_TEXT if node.args.get("length") is None else to.value(node.args["length"]).constant
    return _cut(to.value(node.this), start, size, node)


def left(to: Translator, node: Any) -> Value:
    only(node, "this", "expression")
    return _cut(to.value(node.this), 1, to.value(node.expression).constant, node)


def _cut(value: Value, start: Any, size: Any, node: Any) -> Value:
    _text(shown(node), value)
    if type(start) is not int or type(size) is not int or not 1 <= start <= 10_000 or not 0 <= size <= LONGEST_TEXT:
        refuse(
            shown(node), "a substring begins at 1 or later and has a length, both written down", "substring(x, 1, 3)"
        )
    return made(value.expr.substr(start - 1, size), "string", value)


def replaced(to: Translator, node: Any) -> Value:
    only(node, "this", "expression", "replacement")
    value, old, new = to.value(node.this), to.value(node.expression), to.value(node.args["replacement"])
    _text("replace", value, old, new)
    if not old.constant or new.constant is None or len(new.constant) > len(old.constant):
        refuse(
            shown(node),
            "what is replaced, and by what, is written down, and the text may not grow",
            "replace(x, 'ab', 'c')",
        )
    return made(value.expr.replace(old.constant, new.constant), "string", value)


def trim(to: Translator, node: Any) -> Value:
    only(node, "this")
    value = to.value(node.this)
    _text("trim", value)
    return made(value.expr.strip(), "string", value)


def joined(to: Translator, node: Any) -> Value:
    only(node, "this", "expression", "safe")
    return chained([to.value(node.this), to.value(node.expression)])


def concat(to: Translator, node: Any) -> Value:
    import ibis

    only(node, "expressions", "safe", "coalesce")
    values = [to.value(each) for each in node.expressions]
    _text("concat", *values)
    return chained([made(ibis.coalesce(v.expr, ibis.literal("")), "string", v) for v in values])


def chained(values: list[Value]) -> Value:
    """Texts one after the other; null where that is longer than any text has to be, so that no row can exhaust the memory."""
    import ibis

    _text("||", *values)
    expr = values[0].expr
    for each in values[1:]:
        expr = expr + each.expr
    held = ibis.cases((expr.length() <= ibis.literal(LONGEST_TEXT, "int32"), expr), else_=ibis.null("string"))
    return made(held, "string", *values, copies=2)


def like(to: Translator, node: Any) -> Value:
    only(node, "this", "expression", "negate")
    value, pattern = to.value(node.this), to.value(node.expression)
    _text("LIKE", value, pattern)
    if pattern.constant is None or "\\" in pattern.constant:
        refuse(shown(node), "a pattern is written down and holds no backslash", "x LIKE 'a%'")
    found = value.expr.like(pattern.constant)
    return made(~found if node.args.get("negate") else found, "boolean", value)


def has(to: Translator, node: Any) -> Value:
    only(node, "this", "expression")
    value, part = to.value(node.this), to.value(node.expression)
    _text(shown(node), value, part)
    how = {exp.StartsWith: "startswith", exp.EndsWith: "endswith", exp.Contains: "contains"}[type(node)]
    return made(getattr(value.expr, how)(part.expr), "boolean", value, part)
