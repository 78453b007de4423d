"""Spark data frames that are queries: their analysed plan, written as SQL over the stored rows below it, goes through the checker.

Spark has no text for a data frame, but its analysed plan is a tree. Filters, projections and aggregations over one stored table are written as nested SELECTs, node by
node; an expression is written by Spark itself, after each of its nodes was found on a list of those that mean here what they mean there. What is not on the
lists (joins, windows, unions, functions of users) leaves the frame a table as given, as does Spark Connect, which keeps its plan elsewhere.
Law: as for every relation, the frame itself is never run: what is read is made anew from what was checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from steelyard.errors import SteelyardError
from steelyard.tables._identity import is_connect, is_frame, is_stored, simple_name
from steelyard.tables._kinds import kind_of
from steelyard.tables._table import Table
from steelyard.tables._views import view_of

_LEAF = "steelyard_leaf"
_ROWS = ("LogicalRelation", "LocalRelation")
_THROUGH = ("SubqueryAlias", "View", "Sort")
_EXPRESSIONS = frozenset({
    "AttributeReference", "Alias", "Literal", "Cast", "EqualTo", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "And", "Or", "Not",
    "IsNull", "IsNotNull", "In", "Add", "Subtract", "Multiply", "Divide", "UnaryMinus", "Abs", "CaseWhen", "If", "Coalesce", "Year", "Month", "DayOfMonth",
    "AggregateExpression", "Sum", "Count", "Min", "Max", "Average",
})  # fmt: skip
"""Catalyst's expressions that the checker translates to the same values, overflows and impossible casts excepted, which are null here."""


class Unwritten(Exception):
    """A plan that is not written as SQL."""


def checked(frame: Any) -> Table | None:
    """The view that a data frame is, over the stored rows below it; None where that cannot be had."""
    if is_connect(frame) or not is_frame(frame):
        return None
    from py4j.protocol import Py4JError  # which a client of Spark Connect alone need not have
    from sqlglot.errors import SqlglotError

    from steelyard.tables._spark import read_spark

    try:
        plan = frame._jdf.queryExecution().analyzed()
        text = _written(plan)
        leaf = read_spark(_frame_of(frame, _leaf(plan)), stored=True)
        table = view_of(_parsed(text), {_LEAF: leaf})
        kinds = {name: kind_of(kind) for name, kind in read_spark(frame, stored=False)._rows.schema().items()}
    except (SteelyardError, SqlglotError, Py4JError, Unwritten, AttributeError, TypeError):
        return None
    return table if dict(table.columns) == kinds else None


def _children(node: Any) -> list[Any]:
    found = node.children()
    return [found.apply(i) for i in range(found.size())]


def _leaf(plan: Any) -> Any:
    while simple_name(plan) not in _ROWS:
        (plan,) = _children(plan)
    return plan


def _frame_of(frame: Any, plan: Any) -> Any:
    """A data frame of the rows of one node of a plan, which must be rows as they are stored."""
    from pyspark.sql import DataFrame

    session = frame.sparkSession
    made = DataFrame(session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan), session)
    if not is_stored(made, "pyspark"):
        raise Unwritten
    return made


def _written(plan: Any) -> str:
    """A node of a plan as a SELECT."""
    kind = simple_name(plan)
    if kind in _ROWS:
        return f"SELECT {', '.join(map(_quoted, _names(plan)))} FROM {_LEAF}"
    if len(_children(plan)) != 1:
        raise Unwritten
    below = _children(plan)[0]
    if kind in _THROUGH:
        if _ids(plan) != _ids(below):
            raise Unwritten
        return _written(below)
    known = dict(zip(_ids(below), _names(below), strict=True))
    source = f"FROM ({_written(below)}) AS s"
    if kind == "Filter":
        return f"SELECT {', '.join(map(_quoted, _names(plan)))} {source} WHERE {_expression(plan.condition(), known)}"
    if kind == "Project":
        return f"SELECT {', '.join(_items(plan.projectList(), known))} {source}"
    if kind == "Aggregate" and plan.groupingExpressions().size():
        grouped = ", ".join(_expression(each, known) for each in _each(plan.groupingExpressions()))
        return f"SELECT {', '.join(_items(plan.aggregateExpressions(), known))} {source} GROUP BY {grouped}"
    raise Unwritten


def _items(found: Any, known: dict[int, str]) -> list[str]:
    """The columns of a SELECT, each with its name."""
    return [
        f"{_expression(each.child() if simple_name(each) == 'Alias' else each, known)} AS {_quoted(str(each.name()))}"
        for each in _each(found)
    ]


def _each(found: Any) -> Iterator[Any]:
    return map(found.apply, range(found.size()))


def _names(plan: Any) -> list[str]:
    """The names of a node's columns; two of one name would be confused."""
    names = [str(each.name()) for each in _each(plan.output())]
    if len({name.casefold() for name in names}) != len(names):
        raise Unwritten
    return names


def _ids(plan: Any) -> list[int]:
    return [int(each.exprId().id()) for each in _each(plan.output())]


def _expression(node: Any, known: dict[int, str]) -> str:
    """An expression as Spark writes it."""
    _check(node, known)
    return str(node.sql())


def _parsed(text: str) -> Any:
    """The tree of a statement. The columns below each SELECT have different names, so no column needs its table's; ``count(1)`` counts rows."""
    import sqlglot
    from sqlglot import expressions as exp

    tree = sqlglot.parse_one(text, dialect="spark")
    for column in tree.find_all(exp.Column):
        for part in ("table", "db", "catalog"):
            column.set(part, None)
    for count in tree.find_all(exp.Count):
        if type(count.this) is exp.Literal:
            count.set("this", exp.Star())
    return tree


def _check(node: Any, known: dict[int, str]) -> None:
    kind = simple_name(node)
    if kind not in _EXPRESSIONS:
        raise Unwritten
    if kind == "AttributeReference" and known.get(int(node.exprId().id())) != str(node.name()):
        raise Unwritten
    if kind == "AggregateExpression" and (node.isDistinct() or node.filter().isDefined()):
        raise Unwritten
    for each in _children(node):
        _check(each, known)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
