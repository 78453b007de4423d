"""Aggregates within one unit's rows: exact whatever the order of rows, so that nobody else's presence can move a last digit.

Sums of integers are taken in 38 digits and are null beyond int64. Doubles are added on a grid of 2^-20 (a millionth), each held
within ±2^33 first: a plain sum of doubles depends on the order in which an engine reads them, and that order on everybody's rows.
Law: an aggregate is a function of the multiset of its own group's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import expressions as exp

from steelyard.errors import InvalidTask
from steelyard.views._functions import Expressions
from steelyard.views._refusals import only, refuse, shown
from steelyard.views._scope import Scope
from steelyard.views._values import (
    WIDE,
    Value,
    as_key,
    divided,
    double,
    grouped,
    made,
    narrow,
    number,
    of_column,
    of_rows,
    settle,
    whole,
)

GRID = 2**20
_MOST = 10**37
KINDS = (exp.Sum, exp.Count, exp.Min, exp.Max, exp.Avg)


@dataclass(frozen=True)
class Reduction:
    """Raw reductions, and what is made of their results."""

    raw: Sequence[Any]
    finish: Callable[[Sequence[Any]], Value]


def is_aggregate(node: Any) -> bool:
    """Whether an expression aggregates rows, outside a window."""
    return bool(found(node))


def found(node: Any) -> list[Any]:
    """The outermost aggregates of an expression, with their FILTER; none inside a window or a sub-query."""
    if type(node) in (exp.Window, exp.Select, exp.Subquery):
        return []
    if type(node) in KINDS or (type(node) is exp.Filter and type(node.this) in KINDS):
        return [node]
    if isinstance(node, exp.AggFunc):
        return [node]
    return [each for child in node.iter_expressions() for each in found(child)]


def reduction(node: Any, to: Expressions, rows: Any, *, window: bool = False) -> Reduction:
    """The translation of one aggregate over rows."""
    import ibis

    condition = None
    if type(node) is exp.Filter:
        only(node, "this", "expression")
        only(node.expression, "this")
        condition = to.condition(node.expression.this, "FILTER")
        node = node.this
    make = {exp.Sum: _sum, exp.Count: _count, exp.Min: _end, exp.Max: _end, exp.Avg: _mean}.get(type(node))
    if make is None:
        from steelyard.views._refusals import refuse_node

        refuse_node(node)
    only(node, "this", "big_int")
    if type(node.this) is exp.Star:
        only(node.this)
        if type(node) is not exp.Count:
            raise InvalidTask(f"{shown(node)}: * is for count.")
        counted = (
            rows.count() if condition is None else ibis.cases((condition, whole(1)), else_=ibis.null("int64")).count()
        )
        return Reduction([counted], _counted)
    if node.this is None or (type(node.this) is exp.Distinct and (window or type(node) is not exp.Count)):
        refuse(shown(node), "DISTINCT is translated inside count alone, and not in a window", "count(DISTINCT x)")
    distinct = type(node.this) is exp.Distinct
    if distinct:
        only(node.this, "expressions")
        if len(node.this.expressions) != 1:
            raise InvalidTask("count(DISTINCT ...) takes one expression.")
    value = settle(to.value(node.this.expressions[0] if distinct else node.this))
    if value.kind in ("other", "null"):
        raise InvalidTask(f"{shown(node)} needs a column that can be used.")
    of_rows(value, shown(node))
    if condition is not None:
        null = ibis.null(value.expr.type())
        value = made(ibis.cases((condition, value.expr), else_=null), value.kind, value, low=value.low, high=value.high)
    if distinct:
        return Reduction([grouped(value).nunique()], _counted)
    return make(node, value)


def _counted(results: Sequence[Any]) -> Value:
    return Value(results[0].cast("int64"), "integer", low=0)


def _count(node: Any, value: Value) -> Reduction:
    return Reduction([value.expr.count()], _counted)


def _whole(node: Any, value: Value) -> tuple[Any, bool]:
    """A number as an integer of 38 digits, and whether it is on the grid."""
    import ibis

    if value.kind == "boolean":
        return value.expr.cast("int64").cast(WIDE), False
    if value.kind == "integer":
        return value.expr.cast(WIDE), False
    if value.kind not in ("float", "decimal"):
        raise InvalidTask(f"{shown(node)} adds up numbers; got {value.kind}.")
    most = double(2.0**53)
    scaled = number(value).expr * double(GRID) + double(0.5)
    held = ibis.greatest(ibis.least(scaled, most), double(-(2.0**53))).floor().cast("int64")
    known = ibis.cases((number(value).expr.isnull(), ibis.null("int64")), else_=held)
    return known.cast(WIDE), True


def _sum(node: Any, value: Value) -> Reduction:
    total, gridded = _whole(node, value)

    def finish(results: Sequence[Any]) -> Value:
        exact = Value(results[0].cast(WIDE), "integer", low=-_MOST, high=_MOST)
        if not gridded:
            return narrow(exact)
        return made(_as_double(results[0]) / double(GRID), "float", exact)

    return Reduction([total.sum()], finish)


def _as_double(total: Any) -> Any:
    return total.cast(WIDE).cast("string").cast("float64")


def _mean(node: Any, value: Value) -> Reduction:
    total, gridded = _whole(node, value)

    def finish(results: Sequence[Any]) -> Value:
        top = Value(_as_double(results[0]) / double(GRID if gridded else 1.0), "float", weight=4)
        return divided(top, Value(results[1].cast("float64"), "float"))

    return Reduction([total.sum(), total.count()], finish)


def _end(node: Any, value: Value) -> Reduction:
    if value.kind == "decimal":
        value = number(value)
    if value.kind not in ("integer", "float", "string", "date", "timestamp"):
        raise InvalidTask(f"{shown(node)} takes numbers, text, days or moments; got {value.kind}.")
    expr = grouped(value)
    raw = expr.min() if type(node) is exp.Min else expr.max()
    return Reduction([raw], lambda results: Value(results[0], value.kind, low=value.low, high=value.high))


class Aggregates:
    """The groups of a SELECT: their keys, and every aggregate that it mentions, as the columns of one table."""

    def __init__(self, scope: Scope, keys: Mapping[str, Value], nodes: Sequence[Any]) -> None:
        self._scope, self._keys = scope, dict(keys)
        to = Expressions(scope.column)
        self._made: dict[str, tuple[Reduction, list[str]]] = {}
        metrics: dict[str, Any] = {}
        for node in (each for item in nodes for each in found(item)):
            if scope.told(node) in self._made:
                continue
            one = reduction(node, to, scope.relation.expr)
            names = [f"steelyard_m{len(metrics) + i}" for i in range(len(one.raw))]
            metrics |= dict(zip(names, one.raw, strict=True))
            self._made[scope.told(node)] = one, names
        groups = {self.name(i): as_key(value) for i, value in enumerate(self._keys.values())}
        rows = scope.relation.expr
        if groups:
            self.table = rows.group_by(**groups).agg(**metrics) if metrics else rows.select(**groups).distinct()
        else:
            self.table = rows.agg(**metrics)

    def name(self, place: int) -> str:
        """What a key is called in the table of groups."""
        return f"steelyard_k{place}"

    def filtered(self, condition: Any) -> None:
        """Keep the groups for which a condition holds."""
        self.table = self.table.filter(condition)

    def value(self, node: Any) -> Value | None:
        """A key or an aggregate as a column of the groups; none for what is worked out from them."""
        if type(node) is exp.Window:
            refuse(shown(node), "a window over groups is not translated", "a window in a query around this one")
        if type(node) not in (exp.Literal, exp.Null, exp.Boolean) and not isinstance(node, exp.AggFunc | exp.Filter):
            told = self._told(node)
            if told in self._keys:
                place = list(self._keys).index(told)
                given, name = self._keys[told], self.name(place)
                if given.column is not None and given.stored is not None:
                    return of_column(self.table[name], name)
                return replace(settle(given), expr=self.table[name], column=name, settled=True, weight=1)
        if type(node) in KINDS or type(node) is exp.Filter:
            one, names = self._made[self._scope.told(node)]
            return one.finish([self.table[name] for name in names])
        return None

    def _told(self, node: Any) -> str | None:
        if any(isinstance(each, exp.AggFunc | exp.Window | exp.Select) for each in node.walk()):
            return None
        return self._scope.told(node)

    def column(self, node: Any) -> Value:
        """A column outside of aggregates, which must be a key."""
        refuse(shown(node), "it is neither grouped by nor inside an aggregate", "GROUP BY it, or min(...) of it")
