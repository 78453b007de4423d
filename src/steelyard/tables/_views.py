"""Tables that are views of tables: a statement is checked, translated, and asked where its first private table lies.

A view's rows are an Ibis expression over the plain columns of its sources (``steelyard.views`` checks and translates), so every
question and every guard is what it is for a stored table. Other tables of the view are shown beside the first: public ones are read
once and held, private ones are fetched for each question, only the columns that the view uses.
Law: the unit belongs to the account. A view knows for which units it keeps people apart, and is asked before anything is charged.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask, TableError, ViewRefused
from steelyard.lazy import lazy
from steelyard.privacy import Unit
from steelyard.tables._identity import _short
from steelyard.views import Checker, Relation, condition, expression, private_leaf, public_leaf, query

if TYPE_CHECKING:
    from steelyard.tables._table import Table

_CARRIED = ("boolean", "integer", "floating", "decimal", "string", "date", "timestamp")


class PublicTable:
    """A table whose every row is public: anybody may know all of it. Made by ``public``."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.name = f"steelyard_public_{secrets.token_hex(8)}"
        self._lock = threading.Lock()
        self._held: list[Any] = []

    def __repr__(self) -> str:
        return f"Public{self._table!r}"

    @property
    def identity(self) -> str:
        """Which table this is."""
        return self._table.identity

    @property
    def origin(self) -> frozenset[str]:
        """Where its rows lie."""
        return self._table._engine.origin

    @property
    def view_text(self) -> str:
        """Its text, where it is a view."""
        return self._table.view_text

    @lazy
    def base(self) -> Any:
        """Its columns as an Ibis table; those that no view can use are left out."""
        import ibis

        kinds = {name: kind for name, kind in self._table._rows.schema().items() if _is_carried(kind)}
        if not kinds:
            raise TableError("no column of the public table can be used in a view.")
        return ibis.table(kinds, name=self.name)

    def arrow(self) -> Any:
        """All its rows, read once: what a view joins is then the same for every question."""
        import pyarrow

        with self._lock:
            if not self._held:
                self._held.append(pyarrow.Table.from_batches(list(self._table.batches(self.base.columns))))
            return self._held[0]


def public(source: Any, *, name: str | None = None, **options: Any) -> PublicTable:
    """Declare a table public, for joins with private ones: a list of countries, of prices, of holidays.

    *Privacy:* none for its rows, which are read as they are. Nothing that was made from private rows is public.

    >>> public({"country": ["FR", "DE"], "region": ["west", "west"]})
    PublicTable(country: string, region: string) on duckdb
    """
    import warnings

    from steelyard.errors import UncheckedQuery
    from steelyard.tables._sources import read

    if isinstance(source, PublicTable):
        return source
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncheckedQuery)
        table = read(source, name=name, **options)
    if table.view is not None or table._awaiting is not None:
        raise InvalidTask("a view of private tables is not public.")
    return PublicTable(table)


@dataclass(frozen=True)
class Beside:
    """A table that a view shows beside its first."""

    base: Any
    fetch: Callable[[Sequence[str]], Any]


@dataclass
class View:
    """What a view is made of, and for whom it keeps people apart."""

    relation: Relation
    besides: Mapping[str, Beside]
    _told: dict[tuple[str, ...], bool] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table) -> View:
        """What a table is made of, a stored one too."""
        return (
            cls(private_leaf(table._rows, table.identity, table._engine.origin), {})
            if table.view is None
            else table.view
        )

    def finer(self, column: str, user: str, before: Relation) -> View:
        """The same, in which a column names its user's own parts (``Relation.finer``)."""
        return View(self.relation.finer(column, user, before), self.besides)

    def sampled(self, rows: Any, column: str) -> View:
        """The same with some of the rows, chosen within each unit."""
        return View(self.relation.sampled(rows, column), self.besides)

    def require(self, unit: Unit) -> None:
        """Refuse a unit that the view is not known to keep apart; of public tables, whether a key is unique is looked up."""
        self.relation.require(unit)
        if unit.column is None:
            for public_rows, columns in self.relation.unique:
                if not self._is_unique(public_rows, columns):
                    raise ViewRefused(
                        f"the public table has several rows for one {', '.join(columns)}, so that a JOIN makes several rows of one, "
                        "and the account hides single rows. JOIN by columns that tell its rows apart."
                    )

    def _is_unique(self, rows: Any, columns: tuple[str, ...]) -> bool:
        key = (str(id(rows)), *columns)
        if key not in self._told:
            self._told[key] = _has_no_double(rows, columns, self.besides)
        return self._told[key]


def _has_no_double(rows: Any, columns: Sequence[str], besides: Mapping[str, Beside]) -> bool:
    """Whether no two public rows agree in some columns; null agrees with nothing."""
    import duckdb
    import ibis

    known = rows.filter(*[rows[name].notnull() for name in columns])
    doubles = known.group_by(*columns).agg(steelyard_n=known.count())
    asked = doubles.filter(doubles.steelyard_n > 1).limit(1)
    with duckdb.connect(":memory:") as connection:
        for name, each in besides.items():
            if name.startswith("steelyard_public_"):
                connection.register(name, each.fetch(list(each.base.columns)))
        return not connection.execute(str(ibis.to_sql(asked, dialect="duckdb"))).fetchall()


def view(text: str, /, **tables: Any) -> Table:
    """A table that is a query over tables, checked to keep people apart: ``view("select ... from orders where ...", orders=...)``.

    Private tables are given as ``read`` takes or makes them, public ones as ``public(...)``.

    *Privacy:* every row is made from rows of one unit and public facts; what is not known to be is refused (docs/tables.md).
    *Cost:* nothing is read.

    >>> import numpy as np
    >>> view("select user, amount / 100 as euros from t where amount > 0", t={"user": np.array([1]), "amount": np.array([5])})
    Table(user: integer, euros: float) on duckdb
    """
    return view_of(query(text), tables)


def view_of(tree: Any, tables: Mapping[str, Any]) -> Table:
    """The table of a checked statement over tables by name."""
    from steelyard.tables._sources import read
    from steelyard.tables._table import Table

    given = {name: each if isinstance(each, Table | PublicTable) else read(each) for name, each in tables.items()}
    privates = [each for each in given.values() if isinstance(each, Table)]
    if not privates:
        raise InvalidTask("a view needs a private table: name=sy.read(...). Of public tables nothing has to be hidden.")
    first = privates[0]
    relations, besides = _placed(given, first)
    relation = Checker(relations).query(tree)
    if not relation.private:
        raise InvalidTask("the view reads public tables alone, of which nothing has to be hidden.")
    used = {name: each for name, each in besides.items() if _fields(relation.expr, each.base)}
    engine = first._engine.showing({name: _shown(first, each, relation.expr) for name, each in used.items()})
    found = Table(
        engine,
        first._base,
        relation.expr,
        stored=all(each.stored for each in privates),
        identity=_short(_in_words(tree, {name: each.identity for name, each in given.items()})),
        view_text=_in_words(tree, {name: each.view_text or each.identity for name, each in given.items()}),
        view=View(relation, used),
    )
    empty = {name: each.base.schema().to_pyarrow().empty_table() for name, each in used.items()}
    if not engine.bind(found._sql(relation.expr), found._needed(relation.expr), empty):
        raise InvalidTask(f"{first.engine} cannot answer this view; simplify it: {tree.sql(dialect='duckdb')[:200]}")
    return found


def _in_words(tree: Any, given: Mapping[str, str]) -> str:
    of = ", ".join(f"{name} = {each}" for name, each in sorted(given.items()))
    return f"the view {tree.sql(dialect='duckdb')!r} of {of}"


def _placed(given: Mapping[str, Any], first: Table) -> tuple[dict[str, Relation], dict[str, Beside]]:
    """The relations of a statement, each source under a name of its own, and what is shown beside the first."""
    relations: dict[str, Relation] = {}
    besides: dict[str, Beside] = {}
    hidden = {
        leaf for each in given.values() if not isinstance(each, PublicTable) for leaf in View.of(each).relation.leaves
    }
    for name, each in given.items():
        if isinstance(each, PublicTable):
            if hidden & each.origin:
                raise ViewRefused(f"{name!r} is called public, and its rows are those of a private table of this view.")
            besides[each.name] = Beside(each.base, lambda columns, each=each: each.arrow().select(columns))  # type: ignore[misc]
            relations[name] = public_leaf(each.base)
            continue
        if each._awaiting is not None:
            raise InvalidTask(
                f"a step of {name!r} waits for the unit; name it there: per_unit('user', ...), join_units(other, on='user')."
            )
        shown = View.of(each)
        relation = shown.relation.named()
        besides |= shown.besides
        if each._engine.token is not first._engine.token:
            relation = _moved(relation, each, first, besides)
        relations[name] = relation
    return relations, besides


def _moved(relation: Relation, table: Table, first: Table, besides: dict[str, Beside]) -> Relation:
    """A private table of another source, shown beside the first."""
    from dataclasses import replace

    import ibis

    if table._engine.dialect != first._engine.dialect:
        raise TableError(
            f"one private table lies on {first.engine} and another on {table.engine}; a view needs all of them on one. Write one down first."
        )
    if not first.local:
        if table._engine.session is not first._engine.session:  # type: ignore[attr-defined]
            raise TableError("the private tables lie in two Spark sessions; read both in one.")
        besides[table._engine.source] = Beside(table._base, lambda columns: table._engine.frame)  # type: ignore[attr-defined]
        return relation
    name = f"steelyard_beside_{secrets.token_hex(8)}"
    kinds = {column: kind for column, kind in table._base.schema().items() if _is_carried(kind)}
    base = ibis.table(kinds, name=name)
    besides[name] = Beside(base, lambda columns: _fetched(table, columns))
    if relation.expr.equals(table._base):
        return private_leaf(base, table.identity, table._engine.origin, table._base.columns)
    return replace(relation, expr=_rooted(relation.expr, table._base, base))


def _rooted(expr: Any, old: Any, new: Any) -> Any:
    """The same expression over another base of the same columns."""
    import ibis.expr.operations as ops

    def swap(node: Any, kwargs: Any) -> Any:
        if isinstance(node, ops.UnboundTable) and node == old.op():
            return new.op()
        return node.__recreate__(kwargs) if kwargs else node

    return expr.op().replace(swap).to_expr()


def _fetched(table: Table, columns: Sequence[str]) -> Any:
    import pyarrow

    return pyarrow.Table.from_batches(list(_stored(table).batches(columns)))


def _stored(table: Table) -> Table:
    """The stored table under a view."""
    from steelyard.tables._table import Table

    return Table(table._engine, table._base)


def _shown(first: Table, each: Beside, expr: Any) -> Callable[[], Any]:
    columns = _fields(expr, each.base)
    return (lambda: each.fetch(columns)) if first.local else (lambda: _on_spark(first, each.fetch(columns)))


def _on_spark(first: Table, found: Any) -> Any:
    """Public rows as a Spark data frame; a data frame is one already."""
    session = first._engine.session  # type: ignore[attr-defined]
    return found if hasattr(found, "createOrReplaceTempView") else session.createDataFrame(found)


def _fields(expr: Any, base: Any) -> list[str]:
    """The columns of a base that an expression reads, or a few more: any that it names."""
    import ibis.expr.operations as ops

    if base.op() not in set(expr.op().find(ops.UnboundTable)):
        return []
    found = {field.name for field in expr.op().find(ops.Field)}
    return [name for name in base.columns if name in found] or list(base.columns)[:1]


def _is_carried(kind: Any) -> bool:
    return any(getattr(kind, f"is_{each}")() for each in _CARRIED) and not getattr(kind, "timezone", None)


def where(table: Table, text: str) -> Table:
    """The rows for which a condition holds."""
    from sqlglot import expressions as exp

    tree = exp.Select(
        expressions=[exp.Star()], from_=exp.From(this=exp.to_table("t")), where=exp.Where(this=condition(text))
    )
    return view_of(tree, {"t": table})


def derive(table: Table, columns: Mapping[str, str]) -> Table:
    """The table with more columns; one of the same name is replaced."""
    from sqlglot import expressions as exp

    if not columns:
        raise InvalidTask("derive takes name=expression, such as revenue='quantity * price'.")
    taken = {name.casefold() for name in columns}
    kept = [name for name in private_leaf(table._rows, "").usable if name.casefold() not in taken]
    items: list[Any] = [exp.column(name, quoted=True) for name in kept]
    items += [exp.alias_(expression(text, name), name, quoted=True) for name, text in columns.items()]
    return view_of(exp.Select(expressions=items, from_=exp.From(this=exp.to_table("t"))), {"t": table})


def join(table: Table, other: Any, on: str | Sequence[str], *, left: bool) -> Table:
    """The table with the columns of another beside its own, where they agree in some columns."""
    from sqlglot import expressions as exp

    columns = [on] if isinstance(on, str) else list(on)
    if not columns or not all(isinstance(name, str) for name in columns):
        raise InvalidTask("on takes the name of a column, or several.")
    using = [exp.to_identifier(name, quoted=True) for name in columns]
    joined = exp.Join(this=exp.to_table("o"), using=using, **({"side": "LEFT"} if left else {}))
    tree = exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.to_table("t")), joins=[joined])
    return view_of(tree, {"t": table, "o": other})


def per_unit(table: Table, unit: str, columns: Mapping[str, str]) -> Table:
    """One row for each unit, with aggregates of its rows."""
    from sqlglot import expressions as exp

    if not columns:
        raise InvalidTask("per_unit takes name=aggregate, such as days='count(distinct day)'.")
    if unit.casefold() in {name.casefold() for name in columns}:
        raise InvalidTask(f"the unit's column {unit!r} comes along by itself; call the aggregate otherwise.")
    key = exp.column(unit, quoted=True)
    items = [key, *(exp.alias_(expression(text, name), name, quoted=True) for name, text in columns.items())]
    group = exp.Group(expressions=[key.copy()])
    return view_of(exp.Select(expressions=items, from_=exp.From(this=exp.to_table("t")), group=group), {"t": table})


def chosen(rows: Sequence[Mapping[str, Any]], tree: Any) -> list[int]:
    """The places of released rows for which a condition holds; it is checked as a view's is."""
    import duckdb
    import ibis
    import pyarrow
    from sqlglot import expressions as exp

    held = pyarrow.Table.from_pylist([{**row, "steelyard_i": i} for i, row in enumerate(rows)])
    base = ibis.table(ibis.Schema.from_pyarrow(held.schema), name="answer")
    asked = exp.Select(
        expressions=[exp.column("steelyard_i")], from_=exp.From(this=exp.to_table("answer")), where=exp.Where(this=tree)
    )
    found = Checker({"answer": public_leaf(base)}).query(asked).expr
    with duckdb.connect(":memory:") as connection:
        connection.register("answer", held)
        return sorted(place for (place,) in connection.execute(str(ibis.to_sql(found, dialect="duckdb"))).fetchall())
