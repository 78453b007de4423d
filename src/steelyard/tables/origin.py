"""Whether a source is stored rows, or a query over rows that nobody here has read.

What a unit's presence changes is proved from the table that is read. A query in front of it may mix people: a window
over everybody, a limit, a scalar sub-query copy one person's presence onto other people's rows, and then no cap holds.
So a query is a table *as given*: its releases say so, and reading it warns.
Law: deny by default. Only what is known to be stored rows counts as such.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

from steelyard.errors import UncheckedQuery

_STORED_RELATIONS = {"TABLE_RELATION", "VALUE_LIST_RELATION"}
_SPARK_ROWS = {"LocalRelation", "LogicalRDD", "CachedLocalRelation"}
_CATALOGUES = {
    "duckdb": "SELECT table_type = 'BASE TABLE' FROM information_schema.tables WHERE lower(table_name) = lower(?)",
    "sqlite": "SELECT type = 'table' FROM sqlite_master WHERE lower(name) = lower(?)",
}


def is_stored(source: Any, library: str) -> bool:
    """Whether a source is rows as they are stored: files, frames in memory, plain tables; only its plan is looked at."""
    if library == "polars":
        return not hasattr(source, "collect")
    if library in ("duckdb", "_duckdb"):
        return getattr(source, "type", None) in _STORED_RELATIONS
    if library == "ibis":
        return _ibis_stored(source)
    if library == "pyspark":
        return _spark_stored(source)
    return True


def base_table(connection: Any, name: str, catalogue: str = "duckdb") -> bool:
    """Whether every relation of this name is a table and not a view, as the catalogue says."""
    found = connection.cursor().execute(_CATALOGUES[catalogue], [name]).fetchall()
    return bool(found) and all(is_table for (is_table,) in found)


def _ibis_stored(table: Any) -> bool:
    from ibis.common.exceptions import IbisError
    from ibis.expr.operations import DatabaseTable, InMemoryTable

    source = table.op() if hasattr(table, "op") else None
    if isinstance(source, DatabaseTable):
        with suppress(IbisError):
            backend = table.get_backend()
            return backend.name in _CATALOGUES and base_table(backend.con, source.name, backend.name)
    return isinstance(source, InMemoryTable)


def _spark_stored(frame: Any) -> bool:
    if not hasattr(frame, "_jdf"):  # Spark Connect keeps the plan in Python
        return type(getattr(frame, "_plan", None)).__name__ in _SPARK_ROWS
    plan = frame._jdf.queryExecution().analyzed()
    while _simple_name(plan) == "SubqueryAlias":
        plan = plan.child()
    if _simple_name(plan) == "LogicalRelation":
        return _simple_name(plan.relation()) == "HadoopFsRelation"
    return _simple_name(plan) in _SPARK_ROWS


def _simple_name(of: Any) -> str:
    return str(of.getClass().getSimpleName())


def warn_unchecked(level: int) -> None:
    """Say once, where the table is read, what is not promised."""
    warnings.warn(
        "the source is a query, and steelyard has not checked that it keeps people apart: releases are private for the "
        "table as given. A window, a limit, a join or a sub-query over everybody's rows would void the promise "
        "(docs/pitfalls.md). Read stored rows (a file, a plain table, a frame in memory) to be without doubt.",
        UncheckedQuery,
        stacklevel=level + 1,
    )
