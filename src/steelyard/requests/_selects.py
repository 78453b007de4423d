"""From the outermost SELECT of a statement to tasks: which aggregate is which, of which column of the view below, and what acts on released numbers.

Law: deny by default; what has no task is refused with what could be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import expressions as exp

from steelyard.bounding import Count, CountDistinct, CountUsers, Mean, Median, Quantile, Ratio, Std, Sum, Variance
from steelyard.errors import InvalidTask

if TYPE_CHECKING:
    from steelyard.plan import Task

COULD = (
    "sum(x), count(*), count(x), count(distinct x), count(distinct the unit), avg(x), median(x), quantile(x, 0.9), variance(x), stddev(x) "
    "and sum(x) / sum(y) can be asked for, grouped by columns of the row"
)
LIMITS = ("cap", "upper", "lower", "over_cap", "over_upper")
"""Options of single aggregates."""

KEYED = ("keys", "max_keys", "others")
"""Options of all of them."""

_OF_VALUES: dict[type, type[Any]] = {
    exp.Avg: Mean, exp.Median: Median, exp.Variance: Variance, exp.VariancePop: Variance,
    exp.Stddev: Std, exp.StddevSamp: Std, exp.StddevPop: Std, exp.Quantile: Quantile, exp.PercentileCont: Quantile,
}  # fmt: skip
_TAKEN: dict[type, tuple[str, ...]] = {
    Sum: ("cap", "upper", "lower"), Count: ("cap", "upper"), CountUsers: (), CountDistinct: ("cap",), Ratio: ("cap", "upper", "over_cap", "over_upper"),
    **dict.fromkeys((Mean, Median, Variance, Std, Quantile), ("cap", "upper", "lower")),
}  # fmt: skip


class Wanted(NamedTuple):
    """An aggregate: its task, the columns of the view that it reads, and what its text says besides."""

    task: type[Any]
    columns: tuple[str, ...] = ()
    said: Mapping[str, Any] = MappingProxyType({})

    def priced(self, by: Any, price: Mapping[str, Any], options: Mapping[str, Any]) -> Task:
        """The task at a price, with those of the options that it takes."""
        keyed = {} if by is None else {"by": by, **{name: options[name] for name in KEYED if name in options}}
        if self.task in _OF_VALUES.values() and keyed.get("keys") is not None:
            keyed.pop("max_keys", None)  # a limit on totals under public keys
        limits = {name: options[name] for name in _TAKEN[self.task] if name in options}
        cap = limits.get("cap")
        if self.task not in (Sum, Count, Ratio) and isinstance(cap, str) and cap.isdigit():
            limits["cap"] = int(cap)  # of rows or values; typed on a command line
        task: Task = self.task(*self.columns, **self.said, **price, **keyed, **limits)
        return task


def aggregates(node: Any) -> bool:
    """Whether an expression aggregates rows."""
    return any(isinstance(each, exp.AggFunc) for each in node.walk())


def name_of(node: Any, place: int) -> str:
    """What a column of the answer is called."""
    if type(node) is exp.Alias:
        return str(node.alias)
    if type(node) is exp.Column and type(node.this) is exp.Identifier:
        return str(node.name)
    return str(node.sql(dialect="duckdb")).lower()


def check_groups(tree: Any, keys: Mapping[str, Any]) -> None:
    """Every grouped column is shown, and every column that is shown is grouped by."""
    group = tree.args.get("group")
    given = [] if group is None else group.expressions
    if group is not None and group.args.get("all") is True:
        return
    if group is not None and any(value for name, value in group.args.items() if name != "expressions"):
        raise InvalidTask("GROUP BY takes columns and expressions; no rollup, cube or sets.")
    found = set()
    for each in given:
        place = int(each.this) - 1 if type(each) is exp.Literal and str(each.this).isdigit() else None
        texts = {name for i, (name, node) in enumerate(keys.items()) if node == each or _is(each, name)}
        if place is not None and 0 <= place < len(tree.expressions):
            texts = {name_of(tree.expressions[place], place)} & set(keys)
        if not texts:
            raise InvalidTask(f"GROUP BY {each.sql(dialect='duckdb')}: write it among the columns of the answer, too.")
        found |= texts
    left = set(keys) - found
    if left:
        raise InvalidTask(f"{', '.join(sorted(left))}: rows are private. GROUP BY it, or aggregate it: {COULD}.")


def _is(node: Any, name: str) -> bool:
    return type(node) is exp.Column and not node.args.get("table") and node.name.casefold() == name.casefold()


def part(name: str, node: Any, made: dict[str, Any], unit: str | None) -> Wanted:
    """Which task an aggregate is, and of which columns of the view; ``made`` gets them."""
    condition = None
    if type(node) is exp.Filter:
        node, condition = node.this, node.expression.this
    found = _counted(name, node, condition, made, unit) or _ratio(name, node, condition, made)
    if found is None and type(node) in (exp.Sum, *_OF_VALUES) and type(node.this) is not exp.Distinct:
        value = node.this if condition is None else exp.Case(ifs=[exp.If(this=condition, true=node.this)])
        rank = node.args.get("quantile") or node.args.get("expression")
        said = {} if rank is None else {"quantile": _rank(rank)}
        found = Wanted(_OF_VALUES.get(type(node), Sum), (_column(name, value, made),), said)
    if found is None and type(node) in (exp.Min, exp.Max):
        rank = "0.01" if type(node) is exp.Min else "0.99"
        raise InvalidTask(
            f"{node.sql(dialect='duckdb')} cannot be asked for: it is one person's value. quantile(x, {rank}) can be, and says what it is."
        )
    if found is None:
        raise InvalidTask(
            f"{node.sql(dialect='duckdb')} cannot be asked for: {COULD}. Write the aggregates among the columns and work others out from "
            "the released numbers, which is free."
        )
    return found


def _counted(name: str, node: Any, condition: Any, made: dict[str, Any], unit: str | None) -> Wanted | None:
    if type(node) is not exp.Count or node.expressions:
        return None  # of several columns
    inner = node.this
    if type(inner) is exp.Star and condition is None:
        return Wanted(Count)
    if inner is not None and type(inner) is not exp.Distinct and not inner.find(exp.AggFunc, exp.Window):
        known = None if type(inner) is exp.Star else exp.Not(this=exp.Is(this=inner, expression=exp.Null()))
        holds = exp.and_(*(each for each in (condition, known) if each is not None))
        one, none = exp.Literal.number(1), exp.Literal.number(0)
        return Wanted(Sum, (_column(name, exp.Case(ifs=[exp.If(this=holds, true=one)], default=none), made),))
    if type(inner) is exp.Distinct and len(inner.expressions) == 1:
        value = inner.expressions[0]
        if condition is None and unit is not None and _is(value, unit):
            return Wanted(CountUsers)
        value = value if condition is None else exp.Case(ifs=[exp.If(this=condition, true=value)])
        return Wanted(CountDistinct, (_column(name, value, made),))
    return None


def _ratio(name: str, node: Any, condition: Any, made: dict[str, Any]) -> Wanted | None:
    """A sum over another."""
    if type(node) is not exp.Div or condition is not None:
        return None
    sides = [node.this, node.expression]
    if any(type(each) is not exp.Sum or type(each.this) is exp.Distinct for each in sides):
        return None
    over, under = (_column(f"{name}_{i}", each.this, made) for i, each in enumerate(sides))
    return None if over == under else Wanted(Ratio, (over, under))


def _rank(node: Any) -> Fraction:
    text = str(node.this) if type(node) is exp.Literal and not node.is_string else ""
    try:
        return Fraction(text)
    except ValueError:
        raise InvalidTask("a quantile is asked for with a number that is written down: quantile(x, 0.9).") from None


def _column(name: str, node: Any, made: dict[str, Any]) -> str:
    found = str(node.name) if type(node) is exp.Column and type(node.this) is exp.Identifier else name
    while found in made and made[found] != node:
        found += "_"
    made[found] = node
    return found


def below(tree: Any, made: Mapping[str, Any]) -> Any:
    """The view under the aggregation."""
    kept = {name: tree.args.get(name) for name in ("with_", "from_", "joins", "where")}
    items = [exp.alias_(node.copy(), name, quoted=True) for name, node in made.items()]
    rest = {name: value for name, value in tree.args.items() if value and name not in (*kept, "expressions", "group", "having", "order", "limit", "offset")}  # fmt: skip
    return exp.Select(expressions=items, **{name: value for name, value in kept.items() if value}, **rest)


def tables_of(tree: Any, table: Any, tables: Mapping[str, Any]) -> dict[str, Any]:
    """The session's table under the one name that is neither a public table's nor a sub-query's."""
    inner = {each.alias.casefold() for each in tree.find_all(exp.CTE)}
    known = {name.casefold() for name in tables} | inner
    names = {each.name for each in tree.find_all(exp.Table) if each.name.casefold() not in known}
    if len({name.casefold() for name in names}) != 1:
        raise InvalidTask(
            f"the statement reads {', '.join(sorted(names)) or 'no table'}: a session has one private table; give public ones by name, as sy.public(...)."
        )
    return {**tables, names.pop(): table}


class Outer:
    """HAVING, ORDER BY, LIMIT and OFFSET, in the words of the answer's columns."""

    def __init__(self, tree: Any, items: Mapping[str, Any]) -> None:
        self._tree, self._items = tree, items

    def having(self) -> Any:
        clause = self._tree.args.get("having")
        return None if clause is None else self._released(clause.this)

    def order(self) -> tuple[tuple[str, bool], ...]:
        clause = self._tree.args.get("order")
        return (
            ()
            if clause is None
            else tuple((self._ordered(each), bool(each.args.get("desc"))) for each in clause.expressions)
        )

    def number(self, name: str) -> int | None:
        clause = self._tree.args.get(name)
        if clause is None:
            return None
        if type(clause.expression) is not exp.Literal or not str(clause.expression.this).isdigit():
            raise InvalidTask(f"{name.upper()} takes a whole number.")
        return int(clause.expression.this)

    def _ordered(self, each: Any) -> str:
        node, names = each.this, list(self._items)
        if each.args.get("nulls_first"):
            raise InvalidTask("NULLS FIRST: the row for everything else stands last.")
        if type(node) is exp.Literal and str(node.this).isdigit() and 1 <= int(node.this) <= len(names):
            return names[int(node.this) - 1]
        found = self._released(node)
        if type(found) is not exp.Column or found.name not in self._items:
            raise InvalidTask(
                f"ORDER BY {node.sql(dialect='duckdb')}: order by a column of the answer, or by its place."
            )
        return str(found.name)

    def _released(self, node: Any) -> Any:
        """An expression over released numbers: an aggregate in it must be a column of the answer."""

        def plain(each: Any) -> Any:
            for name, item in self._items.items():
                if each == item or _is(each, name):
                    return exp.column(name, quoted=True)
            if isinstance(each, exp.AggFunc):
                raise InvalidTask(
                    f"{each.sql(dialect='duckdb')} is not released: write it among the columns of the answer, too."
                )
            return each

        return node.copy().transform(plain)
