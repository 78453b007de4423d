"""Kinds of columns, and DuckDB's types as Ibis types.

A kind is one public word per column. Types Ibis cannot name keep their column in the schema under the kind "other",
so that it can be seen but not used. Neither can times of day: one beyond the day, as files can hold it, is an error to DuckDB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steelyard.errors import TableError

NUMERIC = ("integer", "float", "decimal", "boolean")
GROUPABLE = (*NUMERIC, "string", "date", "timestamp", "uuid", "binary")
KINDS = (*GROUPABLE, "time", "other")
MOST_KEYS = 2**22
"""The most keys that one question may name."""

_NAMES = ("boolean", "integer", "floating", "decimal", "string", "date", "timestamp", "time", "uuid", "binary")


def kind_of(dtype: Any) -> str:
    """The public word for an Ibis type."""
    for name in _NAMES:
        if getattr(dtype, f"is_{name}")():
            return "float" if name == "floating" else name
    return "other"


def schema_of(described: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """DuckDB's description of a source as Ibis types."""
    from ibis.backends.sql.datatypes import DuckDBType

    check_names([name for name, _ in described])
    return {name: _ibis_type(DuckDBType, text) for name, text in described}


def _ibis_type(mapper: Any, text: str) -> Any:
    import ibis.expr.datatypes as dt
    from ibis.common.exceptions import IbisError
    from sqlglot.errors import SqlglotError

    try:
        return mapper.from_string(text)
    except (IbisError, SqlglotError, KeyError, TypeError, ValueError):
        return dt.unknown


def check_names(names: Sequence[str]) -> None:
    """Refuse a schema without columns, or with names that an engine would confuse."""
    if not names:
        raise TableError("the source has no columns. Give a table with a schema; it may have no rows.")
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other is not name:
            raise TableError(f"columns {other!r} and {name!r} differ at most in letter case; rename one of them.")


def quoted(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """A text as SQL."""
    return "'" + value.replace("'", "''") + "'"
