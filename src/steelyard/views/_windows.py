"""Windows within one unit's rows: PARTITION BY a column that can be the unit, and an order that no tie leaves open.

Rows that an ORDER BY holds equal are told apart by all other columns, and rows that are equal in all of them are the same row; so
what a window gives is a function of the multiset of the partition's rows, whatever the order in which an engine reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from steelyard.errors import InvalidTask
from steelyard.views._aggregates import KINDS, reduction
from steelyard.views._functions import Expressions
from steelyard.views._refusals import only, refuse, refuse_node, shown
from steelyard.views._relation import Lineage
from steelyard.views._scope import Scope
from steelyard.views._values import Value, apart, grouped, made, of_rows, settle

if TYPE_CHECKING:
    from steelyard.views._select import Checker

_RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank)
_MOVES = (exp.Lag, exp.Lead)


class Windows:
    """The windows of one SELECT; ``kept`` are the carriers that all of them partition by."""

    def __init__(self, scope: Scope, checker: Checker) -> None:
        self._scope, self._checker = scope, checker
        self.kept: Mapping[str, Lineage] = scope.relation.carriers
        self.used = False

    def value(self, node: Any) -> Value | None:
        """The value of a window; none for other nodes, and a refusal where it mixes units."""
        if type(node) is not exp.Window:
            return None
        only(node, "this", "partition_by", "order", "over")
        self.used = True
        to = Expressions(self._scope.column)
        group = [to.value(each) for each in node.args.get("partition_by") or []]
        self.kept = self._checker.partitioned(self._scope.relation, self.kept, group, node)
        parts = [apart(each) for each in group]
        make = self._aggregate if type(node.this) in (*KINDS, exp.Filter) else self._ordered
        return make(node, to, parts)

    def _aggregate(self, node: Any, to: Expressions, parts: list[Any]) -> Value:
        if node.args.get("order") is not None:
            refuse(
                shown(node),
                "running aggregates are not translated",
                "the aggregate OVER (PARTITION BY the unit), or rank()",
            )
        one = reduction(node.this, to, self._scope.relation.expr, window=True)
        return one.finish([raw.over(group_by=parts) for raw in one.raw])

    def _ordered(self, node: Any, to: Expressions, parts: list[Any]) -> Value:
        import ibis

        if type(node.this) not in (*_RANKS, *_MOVES):
            refuse_node(node.this)
        order = self._order(node, to)
        over: Callable[..., Any] = lambda expr, by: expr.over(group_by=parts, order_by=by)  # noqa: E731
        if type(node.this) in _MOVES:
            return self._moved(node.this, to, lambda expr: over(expr, [*order, *self._rest(order)]))
        only(node.this)
        rank = {exp.RowNumber: ibis.row_number, exp.Rank: ibis.rank, exp.DenseRank: ibis.dense_rank}[type(node.this)]()
        by = [*order, *self._rest(order)] if type(node.this) is exp.RowNumber else order
        return Value((over(rank, by) + 1).cast("int64"), "integer", low=1, weight=2 + len(by))

    def _moved(self, node: Any, to: Expressions, over: Callable[[Any], Any]) -> Value:
        only(node, "this", "offset")
        value = settle(to.value(node.this))
        given = 1 if node.args.get("offset") is None else to.value(node.args["offset"]).constant
        if type(given) is not int or not 0 <= given <= 1_000 or value.kind in ("other", "null"):
            refuse(shown(node), "lag and lead go back or forth by a number that is written down", "lag(x, 1)")
        of_rows(value, shown(node))
        moved = value.expr.lag(given) if type(node) is exp.Lag else value.expr.lead(given)
        return made(over(moved), value.kind, value, low=value.low, high=value.high)

    def _order(self, node: Any, to: Expressions) -> list[Any]:
        import ibis

        clause = node.args.get("order")
        if clause is None:
            refuse(
                shown(node), "without ORDER BY it takes rows as they come", "OVER (PARTITION BY the unit ORDER BY ...)"
            )
        only(clause, "expressions")
        found = []
        for each in clause.expressions:
            only(each, "this", "desc", "nulls_first")
            value = to.value(each.this)
            if value.kind in ("other", "null", "boolean"):
                raise InvalidTask(f"{shown(each)} cannot be ordered by.")
            of_rows(value, shown(each))
            turn = ibis.desc if each.args.get("desc") else ibis.asc
            found.append(turn(grouped(value), nulls_first=bool(each.args.get("nulls_first"))))
        return found

    def _rest(self, order: list[Any]) -> list[Any]:
        """Every other column of the rows, to tell equal places apart. (Ibis takes the last of two directions of one column.)"""
        import ibis

        scope = self._scope
        taken = [key.op().arg for key in order]
        values = [apart(scope.named_own(own)) for own in scope.relation.usable]
        return [ibis.asc(each, nulls_first=False) for each in values if each.op() not in taken]
