"""Which column a name means: the sources of a FROM clause, their columns under names of their own, and what USING merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import expressions as exp

from steelyard.errors import ColumnMissing, InvalidTask
from steelyard.views._refusals import only, shown
from steelyard.views._relation import Relation
from steelyard.views._values import Value, of_column


@dataclass(frozen=True)
class Source:
    """A relation under the name that a statement gives it."""

    alias: str
    relation: Relation


@dataclass(frozen=True)
class _Entry:
    alias: str
    names: Mapping[str, str]  # as the statement writes a column, and as the relation does
    expr: Any


@dataclass(frozen=True, init=False)
class Scope:
    """What the columns of a clause are."""

    relation: Relation
    entries: tuple[_Entry, ...]
    merged: Mapping[str, str] = field(default_factory=dict)
    pairs: tuple[tuple[str, Value, Value], ...] = ()

    def __init__(self, sources: Sequence[Source]) -> None:
        (source,) = sources
        names = {name: name for name in source.relation.columns}
        object.__setattr__(self, "relation", source.relation)
        object.__setattr__(self, "entries", (_Entry(source.alias, names, source.relation.expr),))
        object.__setattr__(self, "merged", {})
        object.__setattr__(self, "pairs", ())

    @property
    def alone(self) -> bool:
        """Whether there is one source, whose columns have their own names."""
        return len(self.entries) == 1 and all(a == b for a, b in self.entries[0].names.items())

    def _with(self, **changes: Any) -> Scope:
        made = object.__new__(Scope)
        for name in ("relation", "entries", "merged", "pairs"):
            object.__setattr__(made, name, changes.get(name, getattr(self, name)))
        return made

    def over(self, relation: Relation) -> Scope:
        """The same names over other rows of the same columns."""
        return self._with(relation=relation, entries=tuple(replace(e, expr=relation.expr) for e in self.entries))

    def renamed(self, place: int, used: set[str] | None) -> Scope:
        """The columns that are used, under names that no other source has; those that cannot be used are left out."""
        (entry,), relation = self.entries, self.relation
        wanted = [name for name in relation.usable if used is None or name.casefold() in used] or relation.usable[:1]
        if not wanted:
            raise InvalidTask(f"no column of {entry.alias!r} can be used.")
        names = {name: f"steelyard_{place}_{i}" for i, name in enumerate(wanted)}
        expr = relation.expr.select(**{new: relation.expr[old] for old, new in names.items()})
        carriers = {names[old]: lineage for old, lineage in relation.carriers.items() if old in names}
        weights = {names[old]: weight for old, weight in relation.weights.items() if old in names}
        made = replace(relation, expr=expr, carriers=carriers, weights=weights)
        return self._with(relation=made, entries=(_Entry(entry.alias, names, expr),))

    def beside(self, other: Scope, using: Sequence[str], *, swapped: bool) -> Scope:
        """Both scopes' names; ``pairs`` are the columns that USING holds equal, and the merged name is the kept side's."""
        entries = other.entries + self.entries if swapped else self.entries + other.entries
        aliases = [entry.alias.casefold() for entry in entries if entry.alias]
        if len(set(aliases)) < len(aliases):
            raise InvalidTask("two tables of the view have one name; name one of them with AS.")
        merged, pairs = {**self.merged, **other.merged}, []
        for name in using:
            mine, theirs = self._find(name, None), other._find(name, None)
            merged[name.casefold()] = str(mine.column)
            pairs.append((name, mine, theirs))
        return self._with(entries=entries, merged=merged, pairs=tuple(pairs))

    def has(self, name: str) -> bool:
        """Whether some source has a column of this name."""
        return any(name.casefold() in map(str.casefold, entry.names) for entry in self.entries)

    def named(self, name: str) -> Value:
        """The value of a column by its name."""
        return self._find(name, None)

    def named_own(self, own: str) -> Value:
        """The value of a column by the relation's own name."""
        return of_column(self.relation.expr[own], own, self.relation.weights.get(own, 1))

    def column(self, node: Any) -> Value:
        """The value of a column as a statement names it."""
        if type(node.this) is not exp.Identifier:
            raise InvalidTask(f"{shown(node)} is no single column.")
        return self._find(node.name, node.args["table"].name if node.args.get("table") is not None else None)

    def _find(self, name: str, table: str | None) -> Value:
        entries = [e for e in self.entries if table is None or e.alias.casefold() == table.casefold()]
        if table is not None and not entries:
            raise InvalidTask(f"there is no table {table!r} in this clause.")
        if table is None and name.casefold() in self.merged:
            wanted = self.merged[name.casefold()]
            return next(self._value(e, own) for e in self.entries for own in e.names.values() if own == wanted)
        found = [(e, own) for e in entries for outer, own in e.names.items() if outer.casefold() == name.casefold()]
        if not found:
            raise ColumnMissing(name, [outer for e in entries for outer in e.names])
        if len(found) > 1:
            raise InvalidTask(f"{name!r} is a column of several tables; write the table before it.")
        return self._value(*found[0])

    def _value(self, entry: _Entry, own: str) -> Value:
        return of_column(entry.expr[own], own, self.relation.weights.get(own, 1))

    def is_star(self, node: Any) -> bool:
        """Whether an item stands for all columns."""
        return type(node) is exp.Star or (type(node) is exp.Column and type(node.this) is exp.Star)

    def expanded(self, node: Any) -> dict[str, Value]:
        """All usable columns of a star, by name; a column that USING merged comes once."""
        only(node if type(node) is exp.Star else node.this)
        table = None if type(node) is exp.Star else node.args["table"].name
        found: dict[str, Value] = {}
        for entry in self.entries:
            if table is not None and entry.alias.casefold() != table.casefold():
                continue
            for outer in entry.names:
                value = self._find(outer, table)
                if value.kind == "other" or (outer in found and outer.casefold() in self.merged):
                    continue
                if outer in found:
                    raise InvalidTask(f"* holds two columns {outer!r}; name the columns.")
                found[outer] = value
        if not found:
            raise InvalidTask(f"{shown(node)} stands for no column that can be used.")
        return found

    def sides(self, node: Any, left: Scope, right: Scope) -> tuple[Value, Value] | None:
        """The two columns that a condition holds equal, the left scope's first; none where it is another condition."""
        if type(node) is not exp.EQ or type(node.this) is not exp.Column or type(node.expression) is not exp.Column:
            return None
        a, b = self.column(node.this), self.column(node.expression)
        if a.column in left.relation.columns and b.column in right.relation.columns:
            return a, b
        return (b, a) if b.column in left.relation.columns and a.column in right.relation.columns else None

    def told(self, node: Any) -> str:
        """An expression in words that are the same however its columns are written."""

        def plain(each: Any) -> Any:
            if type(each) is exp.Column and type(each.this) is exp.Identifier:
                return exp.column(str(self.column(each).column), quoted=True)
            return each

        while type(node) is exp.Paren:  # others stay: (a + b) * c is not a + b * c
            node = node.this
        return str(node.copy().transform(plain).sql(dialect="duckdb"))
