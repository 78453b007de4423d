"""Numbers of a row: arithmetic and rounding."""

from __future__ import annotations

from typing import Any

from sqlglot import expressions as exp

from steelyard.errors import InvalidTask
from steelyard.views._days import days_between, days_later
from steelyard.views._refusals import only, refuse, shown
from steelyard.views._values import (
    WIDE,
    Translator,
    Value,
    added,
    divided,
    double,
    literal,
    made,
    multiplied,
    narrow,
    negated,
    number,
    rounded_down,
    whole,
)


def _numeric(what: str, *values: Value) -> None:
    for value in values:
        if value.kind not in ("integer", "float", "decimal", "null"):
            raise InvalidTask(f"{what} needs numbers; got {value.kind}. Text becomes a number by CAST(x AS DOUBLE).")


def add(to: Translator, node: Any) -> Value:
    return _plus_minus(to, node, minus=False)


def subtract(to: Translator, node: Any) -> Value:
    return _plus_minus(to, node, minus=True)


def _plus_minus(to: Translator, node: Any, *, minus: bool) -> Value:
    only(node, "this", "expression")
    left = to.value(node.this)
    if type(node.expression) is exp.Interval:
        return days_later(left, node.expression, minus=minus)
    right = to.value(node.expression)
    if minus and left.kind == right.kind == "date":
        return days_between(left, right)
    if "null" in (left.kind, right.kind):
        return _no_number()
    _numeric("+ or -", left, right)
    return added(left, right, minus=minus)


def _no_number() -> Value:
    import ibis

    return Value(ibis.null("float64"), "float")


def multiply(to: Translator, node: Any) -> Value:
    only(node, "this", "expression")
    left, right = to.value(node.this), to.value(node.expression)
    if "null" in (left.kind, right.kind):
        return _no_number()
    _numeric("*", left, right)
    return multiplied(left, right)


def divide(to: Translator, node: Any) -> Value:
    only(node, "this", "expression", "safe")
    left, right = to.value(node.this), to.value(node.expression)
    if "null" in (left.kind, right.kind):
        return _no_number()
    _numeric("/", left, right)
    return divided(left, right)


def modulo(to: Translator, node: Any) -> Value:
    only(node, "this", "expression")
    left, by = to.value(node.this), to.value(node.expression)
    if left.kind != "integer" or type(by.constant) is not int or not 2 <= by.constant < 2**31:
        refuse(shown(node), "% is translated for an integer and a number from 2 on that is written down", "x % 10")
    held = narrow(left)
    most = by.constant - 1
    return made(held.expr % by.expr, "integer", held, by, low=-most, high=most)


def negate(to: Translator, node: Any) -> Value:
    only(node, "this")
    value = to.value(node.this)
    _numeric("-", value)
    if value.constant is not None and value.kind == "integer":
        return literal(-value.constant)
    return _no_number() if value.kind == "null" else negated(value)


def absolute(to: Translator, node: Any) -> Value:
    only(node, "this")
    value = to.value(node.this)
    _numeric("abs", value)
    if value.kind == "integer":
        most = max(-value.low, value.high)
        return made(value.expr.cast(WIDE).abs(), "integer", value, low=0, high=most)
    given = number(value)
    return made(given.expr.abs(), "float", given, settled=given.settled)


def floor(to: Translator, node: Any) -> Value:
    only(node, "this")
    value = to.value(node.this)
    _numeric("floor", value)
    return rounded_down(value)


def ceil(to: Translator, node: Any) -> Value:
    only(node, "this")
    value = to.value(node.this)
    _numeric("ceil", value)
    return value if value.kind == "integer" else negated(rounded_down(negated(number(value))))


def rounded(to: Translator, node: Any) -> Value:
    only(node, "this", "decimals")
    value, places = to.value(node.this), 0
    _numeric("round", value)
    if node.args.get("decimals") is not None:
        given = to.value(node.args["decimals"]).constant
        if type(given) is not int or not 0 <= given <= 9:
            refuse(shown(node), "round takes 0 to 9 decimals, written down", "round(x, 2)")
        places = given
    if value.kind == "integer":
        return value
    power = Value(double(10.0**places), "float")
    scaled = number(value) if places == 0 else multiplied(number(value), power)
    nearest = _nearest(scaled)
    return nearest if places == 0 else divided(nearest, power)


def _nearest(value: Value) -> Value:
    """The nearest integer, halves away from zero."""
    import ibis

    size = made(value.expr.abs() + double(0.5), "float", value, settled=False)
    away = rounded_down(size)
    expr = ibis.cases((value.expr < double(0.0), whole(0) - away.expr), else_=away.expr)
    return made(expr, "integer", value, away, copies=2, low=-(2**53), high=2**53)


def sqrt(to: Translator, node: Any) -> Value:
    import ibis

    only(node, "this")
    value = to.value(node.this)
    _numeric("sqrt", value)
    given = number(value)
    real = ibis.cases((given.expr >= double(0.0), given.expr), else_=ibis.null("float64"))
    return made(real.sqrt(), "float", given, copies=2, settled=False)
