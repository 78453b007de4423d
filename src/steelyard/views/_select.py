"""The checker: one pass over one syntax tree that checks each clause and translates it; what has no rule is refused.

The rule: every row of a view is made from rows of one unit and public facts only, and the unit stays with it.
A clause that keeps it for some columns as the unit, drops the others from the relation's carriers; where none is left and single
rows are not kept either, the clause is refused at once.
Law: deny by default. The exact type of a node decides, every argument without a rule must be empty, and the tree is never handed on as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import expressions as exp

from steelyard.errors import InvalidTask
from steelyard.views._aggregates import Aggregates, is_aggregate
from steelyard.views._conditions import compared
from steelyard.views._functions import Expressions
from steelyard.views._refusals import only, refuse, refuse_node, shown
from steelyard.views._relation import Lineage, Relation, agreed
from steelyard.views._scope import Scope, Source
from steelyard.views._values import Value, as_key, grouped, is_kept, settle
from steelyard.views._windows import Windows

_DEEPEST = 40


class Checker:
    """Checks and translates statements over named relations."""

    def __init__(self, tables: Mapping[str, Relation]) -> None:
        self._tables = {name.casefold(): relation for name, relation in tables.items()}
        self._depth = 0

    def query(self, node: Any) -> Relation:
        """The relation of a query, a sub-query or a union."""
        from ibis.common.exceptions import IbisError

        self._depth = 0
        try:
            return self._query(node, {})
        except (IbisError, RecursionError):
            raise InvalidTask(f"the statement cannot be translated: {shown(node)}.") from None

    def _query(self, node: Any, named: Mapping[str, Relation]) -> Relation:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InvalidTask("the statement is nested too deeply.")
        make = {
            exp.Select: self._select,
            exp.Union: self._union,
            exp.Subquery: self._subquery,
        }.get(type(node))
        if make is None:
            refuse_node(node)
        made = make(node, named)
        self._depth -= 1
        if made.private and not made.carriers and not made.single:
            refuse(shown(node), f"no row is known to be of one unit. {' '.join(made.notes)}", "keep the unit's column")
        return made

    def _subquery(self, node: Any, named: Mapping[str, Relation]) -> Relation:
        only(node, "this", "alias")
        return self._query(node.this, named)

    def _with(self, node: Any, named: Mapping[str, Relation]) -> Mapping[str, Relation]:
        clause = node.args.get("with_")
        if clause is None:
            return named
        only(clause, "expressions")
        found = dict(named)
        for each in clause.expressions:
            only(each, "this", "alias")
            only(each.args["alias"], "this")
            found[each.alias.casefold()] = self._query(each.this, found)
        return found

    def _union(self, node: Any, named: Mapping[str, Relation]) -> Relation:
        only(node, "with_", "this", "expression", "distinct", "order")
        named = self._with(node, named)
        left, right = self._query(node.this, named), self._query(node.expression, named)
        both = self._stacked(left, right, node)
        return self._distinct(both) if node.args.get("distinct") else both

    def _stacked(self, left: Relation, right: Relation, node: Any) -> Relation:
        """UNION ALL: column by column, in their order."""
        if left.private != right.private:
            refuse("UNION", "rows of a public table belong to nobody", "a JOIN with the public table")
        if len(left.columns) != len(right.columns):
            raise InvalidTask("UNION needs the same number of columns on both sides.")
        parts = [self._aligned(each) for each in (left, right)]
        if (
            parts[0].schema()
            != (renamed := parts[1].rename(dict(zip(left.columns, right.columns, strict=True)))).schema()
        ):
            raise InvalidTask("UNION needs columns of the same kinds on both sides, in the same order.")
        carriers: dict[str, Lineage] = {}
        for mine, other in zip(left.columns, right.columns, strict=True):
            if mine in left.carriers and other in right.carriers:
                both = agreed(left.carriers[mine], right.carriers[other])
                carriers |= {} if both is None else {mine: both}
        again = left.leaves & right.leaves
        notes = ("UNION ALL of a table with itself makes two rows of one.",) if again else ()
        return Relation(
            parts[0].union(renamed),
            left.private,
            carriers,
            single=left.single and right.single and not again,
            whole=False,
            leaves=left.leaves | right.leaves,
            schemas=left.schemas | right.schemas,
            meant=left.meant | right.meant,
            unique=left.unique + right.unique,
            notes=left.notes + right.notes + notes,
            weights=dict.fromkeys(left.columns, 1),
        )

    def _aligned(self, relation: Relation) -> Any:
        scope = Scope([Source("", relation)])
        columns = {}
        for name in relation.columns:
            value = scope.named(name)
            if value.kind == "other":
                raise InvalidTask(f"column {name!r} cannot be used; name the columns without it.")
            columns[name] = grouped(value)
        return relation.expr.select(**columns)

    def _select(self, node: Any, named: Mapping[str, Relation]) -> Relation:
        only(node, "with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "order")
        named = self._with(node, named)
        if node.args.get("from_") is None:
            raise InvalidTask("a view needs FROM: the tables it is made of.")
        scope = self._from(node, named)
        if node.args.get("where") is not None:
            only(node.args["where"], "this")
            condition = Expressions(scope.column).condition(node.args["where"].this, "WHERE")
            scope = scope.over(scope.relation.filtered(condition))
        made = self._items(node, scope)
        if node.args.get("distinct") is not None:
            only(node.args["distinct"])
            made = self._distinct(made)
        return made

    def _items(self, node: Any, scope: Scope) -> Relation:
        having = node.args.get("having")
        aggregated = node.args.get("group") is not None or having is not None
        if aggregated or any(is_aggregate(each) for each in node.expressions):
            return self._grouped(node, scope)
        if scope.alone and len(node.expressions) == 1 and _is_plain_star(node.expressions[0]):
            return scope.relation
        windows = Windows(scope, self)
        to = Expressions(scope.column, windows.value)
        values = self._named(node, scope, to)
        relation = scope.relation
        if windows.used:
            relation = replace(
                relation,
                single=False,
                notes=(*relation.notes, "A window reads several rows, and keeps apart what all windows partition by."),
            )
        return self._projected(relation, values, windows.kept)

    def partitioned(
        self, relation: Relation, kept: Mapping[str, Lineage], group: Sequence[Value], node: Any
    ) -> Mapping[str, Lineage]:
        """The carriers that a window partitions by."""
        names = {each.column for each in group}
        found = {name: lineage for name, lineage in kept.items() if name in names}
        if relation.private and not found:
            refuse(shown(node), "the window reads rows of several units", "OVER (PARTITION BY the unit)")
        return found

    def _named(self, node: Any, scope: Scope, to: Expressions) -> dict[str, Value]:
        """The columns of a SELECT by name."""
        found: dict[str, Value] = {}
        for each in node.expressions:
            items = scope.expanded(each) if scope.is_star(each) else {_name(each): to.value(_bare(each))}
            for name, value in items.items():
                if name.casefold() in {other.casefold() for other in found}:
                    raise InvalidTask(f"two columns of the view are called {name!r}; name one of them with AS.")
                found[name] = value
        return found

    def _projected(self, relation: Relation, values: Mapping[str, Value], kept: Mapping[str, Lineage]) -> Relation:
        """The columns that are asked for; what came through unchanged still carries the unit."""
        carriers = {name: kept[v.column] for name, v in values.items() if v.column is not None and v.column in kept}
        columns = {name: self._output(relation, name, value) for name, value in values.items()}
        weights = {name: value.weight for name, value in values.items()}
        expr = relation.expr.select(**columns)
        return replace(relation, expr=expr, carriers=carriers, weights=weights)

    def _output(self, relation: Relation, name: str, value: Value) -> Any:
        if value.kind == "null":
            raise InvalidTask(f"the column {name!r} holds nothing but nulls.")
        if value.kind == "other":
            raise InvalidTask(f"column {name!r} is of a type that cannot be used.")
        if value.column is not None:
            return relation.expr[value.column]
        return settle(value).expr

    def _distinct(self, relation: Relation) -> Relation:
        if relation.private and not relation.carriers:
            refuse(
                "DISTINCT",
                "it merges rows of several units, since no column of it is the unit",
                "DISTINCT with the unit among the columns",
            )
        scope = Scope([Source("", relation)])
        columns = {name: as_key(scope.named(name)) for name in relation.columns}
        notes = ("DISTINCT merges rows, unless the unit is among its columns.",)
        return replace(
            relation,
            expr=relation.expr.select(**columns).distinct(),
            single=False,
            whole=relation.whole and all(is_kept(scope.named(name)) for name in relation.carriers),
            notes=relation.notes + notes,
        )

    def _grouped(self, node: Any, scope: Scope) -> Relation:
        """GROUP BY: each group is of one unit where the unit is among its columns."""
        clause, having = node.args.get("group"), node.args.get("having")
        if clause is not None:
            only(clause, "expressions")
        if any(scope.is_star(each) for each in node.expressions):
            refuse("SELECT * with GROUP BY", "a group has no single row", "the grouped columns and aggregates by name")
        keys = [self._key(each, node, scope) for each in (clause.expressions if clause is not None else [])]
        values = {scope.told(key): Expressions(scope.column).value(key) for key in keys}
        kept = self.grouped_by(scope.relation, list(values.values()), node)
        asked = [*map(_bare, node.expressions), *([] if having is None else [having.this])]
        groups = Aggregates(scope, values, asked)
        to = Expressions(groups.column, groups.value)
        if having is not None:
            only(having, "this")
            groups.filtered(to.condition(having.this, "HAVING"))
        relation = replace(
            scope.relation,
            expr=groups.table,
            carriers={groups.name(i): lineage for i, lineage in kept.items()},
            single=False,
            whole=scope.relation.whole and having is None and all(map(is_kept, values.values())),
            notes=(*scope.relation.notes, "GROUP BY makes one row of several, unless the unit is among its columns."),
            weights={},
        )
        items = [(_name(each), to.value(_bare(each))) for each in node.expressions]
        if len({name.casefold() for name, _ in items}) < len(items):
            raise InvalidTask("two columns of the view have one name; name one of them with AS.")
        return self._projected(relation, dict(items), relation.carriers)

    def grouped_by(self, relation: Relation, keys: Sequence[Value], node: Any) -> dict[int, Lineage]:
        """The places among the keys at which a unit stands."""
        found = {
            i: relation.carriers[key.column]
            for i, key in enumerate(keys)
            if key.column in relation.carriers and key.column
        }
        if relation.private and not found:
            refuse(
                "GROUP BY" if node.args.get("group") is not None else shown(node.expressions[0]),
                "it mixes rows of several units, since the unit is not among the grouped columns",
                "GROUP BY the unit, or ask for the answer itself: sy.Sum(..., by=...), sy.Count(...)",
            )
        return found

    def _key(self, node: Any, select: Any, scope: Scope) -> Any:
        """A grouped expression: itself, the place of a column in the SELECT, or its name there."""
        if type(node) is exp.Literal and not node.is_string:
            place = int(node.this) if str(node.this).isdigit() else 0
            if not 1 <= place <= len(select.expressions):
                raise InvalidTask(f"GROUP BY {node.this}: there is no such column in the SELECT.")
            return _bare(select.expressions[place - 1])
        if type(node) is exp.Column and not node.args.get("table") and not scope.has(node.name):
            for each in select.expressions:
                if type(each) is exp.Alias and each.alias.casefold() == node.name.casefold():
                    return each.this
        return node

    def _from(self, node: Any, named: Mapping[str, Relation]) -> Scope:
        only(node.args["from_"], "this")
        used = _used(node)
        first = self._source(node.args["from_"].this, named)
        joins = node.args.get("joins") or []
        if not joins:
            return Scope([first])
        scope = Scope([first]).renamed(0, used)
        for place, join in enumerate(joins, 1):
            scope = self._joined(scope, join, place, used, named)
        return scope

    def _source(self, node: Any, named: Mapping[str, Relation]) -> Source:
        if type(node) is exp.Subquery:
            if node.args.get("alias") is not None:
                only(node.args["alias"], "this")
            return Source(node.alias, self._query(node, named))
        if type(node) is not exp.Table or type(node.this) is not exp.Identifier:
            refuse_node(node if type(node) is not exp.Table else node.this)
        only(node, "this", "alias")
        if node.args.get("alias") is not None:
            only(node.args["alias"], "this")
        name = node.name.casefold()
        relation = named.get(name) or self._tables.get(name)
        if relation is None:
            known = ", ".join(sorted({*named, *self._tables}))
            raise InvalidTask(f"there is no table {node.name!r} in this view; it has {known}. Give it by name.")
        return Source(node.alias or node.name, relation)

    def _joined(
        self, scope: Scope, join: Any, place: int, used: set[str] | None, named: Mapping[str, Relation]
    ) -> Scope:
        only(join, "this", "on", "using", "side", "kind")
        other = Scope([self._source(join.this, named)]).renamed(place, used)
        side, kind = str(join.side).upper(), str(join.kind).upper()
        if kind not in ("", "INNER", "CROSS", "OUTER") or side not in ("", "LEFT", "RIGHT"):
            refuse(
                f"{side} {kind} JOIN".strip(),
                "rows without a match on the private side belong to nobody",
                "JOIN or LEFT JOIN",
            )
        if side == "RIGHT":
            return self._matched(other, scope, join, outer=True, swapped=True)
        return self._matched(scope, other, join, outer=side == "LEFT", swapped=False)

    def _matched(self, left: Scope, right: Scope, join: Any, *, outer: bool, swapped: bool) -> Scope:
        """A join that keeps rows of ``left`` where it is outer."""
        both = left.beside(right, [each.name for each in join.args.get("using") or []], swapped=swapped)
        pairs = both.pairs
        conditions = [compared(a, b, exp.EQ, f"USING ({name})").expr for name, a, b in pairs]
        equal = [(a, b) for _, a, b in pairs]
        for each in _conjuncts(join.args.get("on")):
            found = both.sides(each, left, right)
            equal += [] if found is None else [found]
            to = Expressions(both.column)
            conditions.append(to.condition(each, "ON") if found is None else compared(*found, exp.EQ, shown(each)).expr)
        same = [(a, b) for a, b in equal if a.expr.type().copy(nullable=True) == b.expr.type().copy(nullable=True)]
        relation = self._joined_relation(left.relation, right.relation, same, outer)
        how = "left" if outer else ("inner" if conditions else "cross")
        if outer and not conditions:
            raise InvalidTask("a LEFT JOIN needs ON or USING.")
        one, two = left.relation.expr, right.relation.expr
        rows = one.join(two, conditions, how=how) if conditions else one.cross_join(two)
        return both.over(replace(relation, expr=rows.select(*one.columns, *two.columns)))

    def _joined_relation(
        self, left: Relation, right: Relation, equal: Sequence[tuple[Value, Value]], outer: bool
    ) -> Relation:
        """What a join leaves of what was known."""
        if left.private and right.private:
            return self._joined_units(left, right, equal, outer)
        if outer and right.private:
            refuse(
                "LEFT JOIN",
                "a public row without a match belongs to nobody, and tells that there is none",
                "the private table on the left",
            )
        private, public = (left, right) if left.private or not right.private else (right, left)
        columns = tuple(sorted({str(v.column) for pair in equal for v in pair if v.column in public.columns}))
        note = "A JOIN with a public table makes several rows of one where several rows of it match."
        return replace(
            private,
            single=private.single and bool(columns),
            whole=private.whole and outer,
            unique=(*private.unique, *public.unique, (public.expr, columns)),
            notes=(*private.notes, note),
            weights={**left.weights, **right.weights},
        )

    def _joined_units(
        self, left: Relation, right: Relation, equal: Sequence[tuple[Value, Value]], outer: bool
    ) -> Relation:
        carriers: dict[str, Lineage] = {}
        for a, b in equal:
            first, second = left.carriers.get(str(a.column)), right.carriers.get(str(b.column))
            both = None if first is None or second is None else agreed(first, second)
            if both is not None:
                carriers |= {str(a.column): both} | ({} if outer else {str(b.column): both})
        if not carriers:
            refuse(
                "JOIN of two private tables",
                "it puts rows of several units into one",
                "JOIN ... USING (the unit), both columns of one type",
            )
        notes = ("A JOIN of private tables keeps apart only the column that it joins by.",)
        return Relation(
            left.expr,
            True,
            carriers,
            single=False,
            whole=False,
            leaves=left.leaves | right.leaves,
            schemas=left.schemas | right.schemas,
            meant=left.meant | right.meant,
            notes=left.notes + right.notes + notes,
            weights={**left.weights, **right.weights},
        )


def _bare(node: Any) -> Any:
    if type(node) is exp.Alias:
        only(node, "this", "alias")
        return node.this
    return node


def _name(node: Any) -> str:
    if type(node) is exp.Alias:
        return str(node.alias)
    if type(node) is exp.Column:
        return str(node.name)
    return shown(node)


def _is_plain_star(node: Any) -> bool:
    if type(node) is exp.Star:
        only(node)
        return True
    return False


def _conjuncts(node: Any) -> list[Any]:
    if node is None:
        return []
    if type(node) is exp.Paren:
        return _conjuncts(node.this)
    return [*_conjuncts(node.this), *_conjuncts(node.expression)] if type(node) is exp.And else [node]


def _used(node: Any) -> set[str] | None:
    """The names of columns that a SELECT mentions anywhere; none where it asks for all."""
    if any(type(each) is exp.Star or type(getattr(each, "this", None)) is exp.Star for each in node.expressions):
        return None
    names = {column.name.casefold() for column in node.find_all(exp.Column)}
    return names | {
        each.name.casefold() for join in node.args.get("joins") or [] for each in join.args.get("using") or []
    }
