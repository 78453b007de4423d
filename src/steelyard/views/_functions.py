"""From a syntax tree to values: each allowed node has one translation, and what has none is refused.

The translation is what runs; the text that a person wrote never reaches an engine. Each function is total and has the same value on every engine
(``tests/conformance/test_views.py``), or it is not here.
Law: a node's exact type decides, and every argument that its translation does not know must be empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import expressions as exp

from steelyard.errors import InvalidTask
from steelyard.views import _casts as casts
from steelyard.views import _conditions as conditions
from steelyard.views import _days as days
from steelyard.views import _numbers as numbers
from steelyard.views import _texts as texts
from steelyard.views import _written as written
from steelyard.views._refusals import only, refuse_node, shown
from steelyard.views._values import Value


class Expressions:
    """Translates the expressions of one clause; ``column`` gives the value of a column, ``special`` what a clause adds."""

    def __init__(
        self, column: Callable[[Any], Value], special: Callable[[Any], Value | None] = lambda node: None
    ) -> None:
        self._column, self._special = column, special

    def value(self, node: Any) -> Value:
        """The value of a node, or a refusal."""
        found = self._special(node)
        if found is not None:
            return found
        make = _TRANSLATIONS.get(type(node))
        if make is None:
            refuse_node(node)
        return make(self, node)

    def condition(self, node: Any, clause: str) -> Any:
        """A condition, true or false and never null; no plain comparison of a column, which a reader of files might use to skip rows."""
        found = self.value(node)
        if found.kind != "boolean":
            raise InvalidTask(f"{clause} needs a condition; {shown(node)} is {found.kind}.")
        return found.expr.fill_null(False)

    def column(self, node: Any) -> Value:
        only(node, "this", "table")
        return self._column(node)


def _parenthesis(to: Expressions, node: Any) -> Value:
    only(node, "this")
    return to.value(node.this)


_TRANSLATIONS: dict[type, Callable[[Expressions, Any], Value]] = {
    exp.Column: Expressions.column,
    exp.Paren: _parenthesis,
    exp.Literal: written.written,
    exp.Boolean: written.boolean,
    exp.Null: written.null,
    exp.Add: numbers.add,
    exp.Sub: numbers.subtract,
    exp.Mul: numbers.multiply,
    exp.Div: numbers.divide,
    exp.Mod: numbers.modulo,
    exp.Neg: numbers.negate,
    exp.And: conditions.and_,
    exp.Or: conditions.or_,
    exp.Not: conditions.not_,
    **dict.fromkeys(conditions.ORDERS, conditions.compare),
    exp.Between: conditions.between,
    exp.In: conditions.in_,
    exp.Is: conditions.is_,
    exp.Case: conditions.case,
    exp.If: conditions.if_,
    exp.Coalesce: conditions.coalesce,
    exp.Nullif: conditions.nullif,
    exp.Greatest: conditions.extreme,
    exp.Least: conditions.extreme,
    exp.Abs: numbers.absolute,
    exp.Floor: numbers.floor,
    exp.Ceil: numbers.ceil,
    exp.Round: numbers.rounded,
    exp.Sqrt: numbers.sqrt,
    exp.Lower: texts.letters,
    exp.Upper: texts.letters,
    exp.Length: texts.length,
    exp.Substring: texts.substring,
    exp.Left: texts.left,
    exp.Replace: texts.replaced,
    exp.Trim: texts.trim,
    exp.DPipe: texts.joined,
    exp.Concat: texts.concat,
    exp.Like: texts.like,
    exp.StartsWith: texts.has,
    exp.EndsWith: texts.has,
    exp.Contains: texts.has,
    exp.TimestampTrunc: days.truncated,
    exp.DateTrunc: days.truncated,
    **dict.fromkeys((exp.Year, exp.Month, exp.Day, exp.Quarter, exp.Hour, exp.Minute, exp.Second), days.part),
    exp.DayOfWeekIso: days.part,
    exp.Extract: days.part,
    exp.TimeToStr: days.formatted,
    exp.DateDiff: days.date_diff,
    exp.Date: casts.date,
    exp.Cast: casts.cast,
    exp.TryCast: casts.cast,
}
"""Every node that an expression may hold, by its exact type."""
