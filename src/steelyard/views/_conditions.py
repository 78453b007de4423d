"""Conditions on a row and choices between values: comparisons, AND, IN, CASE, coalesce, greatest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import expressions as exp

from steelyard.errors import InvalidTask
from steelyard.views._days import day_of, named_day, written_day
from steelyard.views._refusals import only, refuse, shown
from steelyard.views._values import WIDE, Translator, Value, made, settle, unified


def _truth(what: str, value: Value) -> Value:
    import ibis

    if value.kind == "null":
        return Value(ibis.null("boolean"), "boolean")
    if value.kind != "boolean":
        raise InvalidTask(f"{what} needs conditions; got {value.kind}.")
    return value


def and_(to: Translator, node: Any) -> Value:
    only(node, "this", "expression")
    left, right = (_truth("AND", to.value(each)) for each in (node.this, node.expression))
    return made(left.expr & right.expr, "boolean", left, right)


def or_(to: Translator, node: Any) -> Value:
    only(node, "this", "expression")
    left, right = (_truth("OR", to.value(each)) for each in (node.this, node.expression))
    return made(left.expr | right.expr, "boolean", left, right)


def not_(to: Translator, node: Any) -> Value:
    only(node, "this")
    value = _truth("NOT", to.value(node.this))
    return made(~value.expr, "boolean", value)


ORDERS: Mapping[type, Callable[[Any, Any], Any]] = {
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
    exp.GT: lambda a, b: a > b,
    exp.GTE: lambda a, b: a >= b,
}


def compare(to: Translator, node: Any) -> Value:
    only(node, "this", "expression")
    return compared(to.value(node.this), to.value(node.expression), type(node), shown(node))


def compared(left: Value, right: Value, how: type, what: str) -> Value:
    """A comparison of two values of one kind."""
    import ibis

    left, right = _dated(left, right, how), _dated(right, left, how)
    if "null" in (left.kind, right.kind):
        return Value(ibis.null("boolean"), "boolean")
    if {left.kind, right.kind} == {"timestamp", "date"}:  # a day that is written down, against moments
        left, right = (day_of(each) if each.kind == "timestamp" else each for each in (left, right))
    if left.kind == right.kind == "integer":
        a, b = (each.expr if not _is_wide(each) else each.expr.cast(WIDE) for each in (left, right))
        if _is_wide(left) != _is_wide(right):
            a, b = a.cast(WIDE), b.cast(WIDE)
        return made(ORDERS[how](a, b), "boolean", left, right)
    if left.kind == right.kind == "decimal" and left.expr.type().copy(nullable=True) == right.expr.type().copy(
        nullable=True
    ):
        return made(ORDERS[how](left.expr, right.expr), "boolean", left, right)
    kind, (left, right) = unified([left, right], what)
    if kind == "boolean" and how not in (exp.EQ, exp.NEQ):
        raise InvalidTask(f"{what}: conditions are equal or not; neither is larger.")
    return made(ORDERS[how](left.expr, right.expr), "boolean", left, right)


def _is_wide(value: Value) -> bool:
    return bool(value.expr.type().is_decimal())


def _dated(value: Value, other: Value, how: type) -> Value:
    """A text that is written down beside a day or a moment, as the day that it names."""
    if value.constant is None or value.kind != "string" or other.kind not in ("date", "timestamp"):
        return value
    day = named_day(value.constant)
    if day is None:
        raise InvalidTask(f"{value.constant[:40]!r} is no day; write it as '2026-05-31'.")
    if other.kind == "timestamp" and how not in (exp.GTE, exp.LT, exp.GT, exp.LTE):
        raise InvalidTask("a moment equals no day; compare CAST(x AS DATE).")
    if other.kind == "timestamp" and how in (exp.GT, exp.LTE):
        refuse(
            "a moment against a day", "whether the day itself counts is easily misread", ">= and <, or CAST(x AS DATE)"
        )
    return written_day(day)


def between(to: Translator, node: Any) -> Value:
    only(node, "this", "low", "high")
    value, low, high = to.value(node.this), to.value(node.args["low"]), to.value(node.args["high"])
    if value.kind == "timestamp":
        refuse(shown(node), "whether the last day counts is easily misread", ">= and <")
    at_least = compared(value, low, exp.GTE, shown(node))
    at_most = compared(value, high, exp.LTE, shown(node))
    return made(at_least.expr & at_most.expr, "boolean", at_least, at_most)


def in_(to: Translator, node: Any) -> Value:
    if node.args.get("query") is not None or node.args.get("unnest") is not None:
        refuse(shown(node), "IN over a query reads rows of several people", "a list that is written down, or a JOIN")
    only(node, "this", "expressions")
    value = to.value(node.this)
    if not node.expressions or len(node.expressions) > 1_000:
        raise InvalidTask("IN takes a list of 1 to 1,000 values; JOIN a public table for more.")
    equal = [compared(value, to.value(each), exp.EQ, shown(node)) for each in node.expressions]
    expr = equal[0].expr
    for each in equal[1:]:
        expr = expr | each.expr
    return made(expr, "boolean", *equal)


def is_(to: Translator, node: Any) -> Value:
    only(node, "this", "expression")
    value = to.value(node.this)
    if value.kind == "other":
        raise InvalidTask(f"{shown(node)}: a column of this type cannot be read.")
    if type(node.expression) is exp.Null:
        value = value if value.column is not None and value.kind not in ("integer", "float") else settle(value)
        return made(value.expr.isnull(), "boolean", value)
    if type(node.expression) is exp.Boolean:
        held = _truth("IS", value)
        wanted = held.expr if node.expression.this else ~held.expr
        return made(wanted.fill_null(False), "boolean", held)
    return refuse(shown(node), "IS is for NULL, TRUE and FALSE", "x = y")


def case(to: Translator, node: Any) -> Value:
    import ibis

    only(node, "this", "ifs", "default")
    subject = None if node.this is None else to.value(node.this)
    conditions, results = [], []
    for branch in node.args["ifs"]:
        only(branch, "this", "true")
        asked = to.value(branch.this)
        conditions.append(
            _truth("CASE", asked) if subject is None else compared(subject, asked, exp.EQ, shown(branch.this))
        )
        results.append(to.value(branch.args["true"]))
    default = node.args.get("default")
    results.append(Value(ibis.null(), "null") if default is None else to.value(default))
    kind, results = unified(results, "CASE")
    pairs = [(each.expr, result.expr) for each, result in zip(conditions, results, strict=False)]
    return made(ibis.cases(*pairs, else_=results[-1].expr), kind, *conditions, *results, **_bounds(kind, results))


def _bounds(kind: str, values: list[Value]) -> dict[str, Any]:
    return {"low": min(v.low for v in values), "high": max(v.high for v in values)} if kind == "integer" else {}


def if_(to: Translator, node: Any) -> Value:
    only(node, "this", "true", "false")
    branch = exp.If(this=node.this, true=node.args["true"])
    return case(to, exp.Case(ifs=[branch], default=node.args.get("false")))


def coalesce(to: Translator, node: Any) -> Value:
    import ibis

    only(node, "this", "expressions")
    kind, values = unified([to.value(each) for each in (node.this, *node.expressions)], "coalesce")
    return made(ibis.coalesce(*[v.expr for v in values]), kind, *values, **_bounds(kind, values))


def nullif(to: Translator, node: Any) -> Value:
    import ibis

    only(node, "this", "expression")
    value, other = to.value(node.this), to.value(node.expression)
    same = compared(value, other, exp.EQ, shown(node))
    kind, (held,) = unified([value], "nullif")
    expr = ibis.cases((same.expr, ibis.null(held.expr.type())), else_=held.expr)
    return made(expr, kind, same, held, **_bounds(kind, [held]))


def extreme(to: Translator, node: Any) -> Value:
    import ibis

    only(node, "this", "expressions", "ignore_nulls")
    kind, values = unified([to.value(each) for each in (node.this, *node.expressions)], shown(node))
    if kind == "boolean" or len(values) < 2:
        raise InvalidTask(f"{shown(node)} takes two or more numbers, texts or days.")
    most = ibis.greatest if type(node) is exp.Greatest else ibis.least
    return made(most(*[v.expr for v in values]), kind, *values, **_bounds(kind, values))
