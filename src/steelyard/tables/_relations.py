"""Queries that come from DuckDB or Ibis: checked by their text, where it and the tables below it can be had.

A relation tells the statement it stands for. If every table that it names is a plain table of its own connection, and the checker takes the statement,
then the view is made anew from those tables and the relation itself is never run: what is read is what was checked. Otherwise it stays
a table as given. A view whose columns are not of the kinds that the query itself has is not taken either, so that nothing changes but the promise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from steelyard.errors import SteelyardError
from steelyard.tables import _plain as plain
from steelyard.tables._frames import bind_relation
from steelyard.tables._kinds import kind_of, literal, quoted, schema_of
from steelyard.tables._table import Table
from steelyard.tables._views import view_of
from steelyard.views import query

_PROBE = "steelyard_probe"
Open = Callable[[Any, str], Table]


def checked(source: Any, library: str, through: Open) -> Table | None:
    """The view that a query is, over the stored tables below it; None where that cannot be had."""
    import duckdb
    from ibis.common.exceptions import IbisError
    from sqlglot.errors import SqlglotError

    try:
        found = _of_ibis(source) if library == "ibis" else _of_duckdb(source)
        if found is None:
            return None
        text, kinds, leaf = found
        tree = query(text)
        table = view_of(tree, {name: through(bind_relation(leaf(name)), plain.REPAIRED) for name in _names(tree)})
    except (SteelyardError, duckdb.Error, IbisError, SqlglotError):
        return None
    return table if dict(table.columns) == kinds else None


def _names(tree: Any) -> set[str]:
    from sqlglot import expressions as exp

    inner = {each.alias.casefold() for each in tree.find_all(exp.CTE)}
    return {each.name for each in tree.find_all(exp.Table) if each.name.casefold() not in inner}


def _of_duckdb(relation: Any) -> tuple[str, Mapping[str, str], Callable[[str], Any]] | None:
    """The text of a relation, its kinds, and how to open a plain table of its connection."""
    if not hasattr(relation, "sql_query") or not hasattr(relation, "query"):
        return None

    def leaf(name: str) -> Any:
        return _plain_table(lambda sql: relation.query(_PROBE, sql), name)

    kinds = schema_of(list(zip(relation.columns, map(str, relation.types), strict=True)))
    return str(relation.sql_query()), {name: kind_of(kind) for name, kind in kinds.items()}, leaf


def _of_ibis(table: Any) -> tuple[str, Mapping[str, str], Callable[[str], Any]] | None:
    """The same of an Ibis expression over DuckDB."""
    import ibis
    from ibis.expr.operations import InMemoryTable

    if not hasattr(table, "op") or not hasattr(table, "schema") or table.op().find(InMemoryTable):
        return None
    backend = table.get_backend()
    if backend.name != "duckdb":
        return None
    kinds = {name: kind_of(kind) for name, kind in table.schema().items()}
    return str(ibis.to_sql(table, dialect="duckdb")), kinds, lambda name: _plain_table(backend.con.sql, name)


def _plain_table(ask: Callable[[str], Any], name: str) -> Any:
    """A plain table of a connection; anything else of that name is no such thing."""
    from steelyard.errors import TableError

    kinds = f"SELECT table_type FROM information_schema.tables WHERE lower(table_name) = lower({literal(name)})"
    told = ask(kinds).fetchall()
    if not told or any(kind != "BASE TABLE" for (kind,) in told) or len(told) > 1:
        raise TableError(f"{name!r} is no plain table.")
    return ask(f"SELECT * FROM {quoted(name)}")
