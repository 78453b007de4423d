"""Which table a request is about, and whether it is stored rows or a query over rows that nobody here has read.

A table's public identity, to which a request's key is bound, is the name given to ``read``, or else the path, glob or address as it was written, the text of a query where its library
tells it, and for whatever has neither (a frame in memory, a lazy frame, a Spark data frame) the kind of source and its schema.
Law: nothing in it depends on rows. Not the files that a glob finds, nor their sizes, times or contents: the same file with
other rows is the same table, and asking again under the same key is a retry.

What a unit's presence changes is proved from the table that is read. A query in front of it may mix people: a window
over everybody, a limit, a scalar sub-query copy one person's presence onto other people's rows, and then no cap holds.
So a query is a table *as given*: its releases say so, and reading it warns.
Law: deny by default. Only what is known to be stored rows counts as such.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from steelyard.errors import InvalidTask, UncheckedQuery

_SHOWN = 240
_PASSWORD = re.compile(r"(://[^/@:]*):[^@]*@|([?&](?:password|pwd)=)[^&:]*", re.IGNORECASE)
_IN_QUERY = re.compile(r"(://[^\s'/@:]*:)[^\s'@]*(?=@)|(\b(?:password|pwd)=)[^\s'&;]+", re.IGNORECASE)
_MADE_UP = re.compile(
    r'"?\b(?:__duckdb_source_\w+|(?:unnamed_relation|df|arrow_object)_[0-9a-f]{16}|'
    r'ibis_\w*memtable_\w+|ibis_\w+_[a-z2-7]{26})\b"?'
)
_BARE = re.compile(r"SELECT \* FROM _(?: AS _)?")
_VALUES = re.compile(r"\bVALUES\s*\(", re.IGNORECASE)  # rows, written into the text
_TEXT = r"'(?:[^']|'')*'"
_GUESSED = re.compile(rf", \w+ := (?:{_TEXT}|\{{(?:{_TEXT}|[^'}}])*\}}|\[(?:{_TEXT}|[^'\]])*\]|[^,)]*)")
"""How a relation reads its file, in DuckDB's words; most of it was found by looking at rows."""


def identify(source: Any, name: str | None, options: Mapping[str, Any]) -> str:
    """The identity of a source as it was given, without its schema; empty where the schema has to stand for it.

    >>> identify("sales/*.parquet", None, {}), identify("postgres://ann:secret@db/shop::orders", None, {})
    ("'sales/*.parquet'", "'postgres://ann:***@db/shop::orders'")
    """
    if name is not None:
        if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
            raise InvalidTask("name must be text of 1 to 200 printable characters.")
        return f"the table named {name!r}"
    if isinstance(source, str | os.PathLike):
        return _short(_path(source) + _written(options))
    if _paths(source):
        return _short(", ".join(map(_path, source)) + _written(options))
    text = _query(source)
    return _short(f"the query {text!r}") if text else ""


def _paths(source: Any) -> bool:
    return isinstance(source, Sequence) and bool(source) and all(isinstance(p, str | os.PathLike) for p in source)


def in_words(kind: str, columns: Mapping[str, str]) -> str:
    """What stands for a source that has no address: its kind and its schema."""
    return _short(f"a {kind} table of " + ", ".join(f"{name!r}: {kind}" for name, kind in columns.items()))


def _path(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    return repr(without_password(text) if "://" in text else text)


def without_password(address: str) -> str:
    """An address with its password blotted out.

    >>> without_password("postgres://ann:secret@db/shop?password=again")
    'postgres://ann:***@db/shop?password=***'
    """
    return _PASSWORD.sub(lambda m: f"{m[1]}:***@" if m[1] else f"{m[2]}***", address)


def _written(options: Mapping[str, Any]) -> str:
    plain = {
        name: dict(sorted(value.items())) if isinstance(value, Mapping) else value for name, value in options.items()
    }
    return "".join(f", {name}={value!r}" for name, value in sorted(plain.items()))


def _query(source: Any) -> str:
    """The text of a query, without the names that a library makes up for what it holds in memory; empty where it holds rows."""
    library = type(source).__module__.partition(".")[0]
    text = ""
    with suppress(Exception):  # a source that has no text has its schema; nothing here reads rows
        if library in ("duckdb", "_duckdb"):
            text = str(source.sql_query())
        elif library == "ibis":
            import ibis

            text = str(ibis.to_sql(source))
    told = " ".join(_MADE_UP.sub("_", _GUESSED.sub("", text)).split())
    told = _IN_QUERY.sub(lambda m: f"{m[1] or m[2]}***", told)
    return "" if _BARE.fullmatch(told) or _VALUES.search(told) else told


def _short(text: str) -> str:
    """A long identity by its beginning and its digest."""
    if len(text) <= _SHOWN:
        return text
    return f"{text[: _SHOWN - 80]}… (sha256 {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()})"


_STORED_RELATIONS = {"TABLE_RELATION", "VALUE_LIST_RELATION"}
# An RDD is none of these: any function of rows may stand before it.
SPARK_ROWS = {"LocalRelation", "CachedLocalRelation"}
_FILES = {"parquet", "orc", "csv", "json"}
_CATALOGUES = {
    "duckdb": "SELECT table_type = 'BASE TABLE' FROM information_schema.tables WHERE lower(table_name) = lower(?)",
    "sqlite": "SELECT type = 'table' FROM sqlite_master WHERE lower(name) = lower(?)",
    "postgres": "SELECT relkind IN ('r', 'p') AND NOT relrowsecurity AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_attribute WHERE attrelid = c.oid AND attgenerated = 'v') "
    "AND NOT EXISTS (WITH RECURSIVE below(oid) AS (SELECT c.oid UNION SELECT inhrelid FROM pg_catalog.pg_inherits JOIN below ON inhparent = below.oid) "
    "SELECT 1 FROM below JOIN pg_catalog.pg_class AS part ON part.oid = below.oid WHERE part.relkind NOT IN ('r', 'p')) "
    "FROM pg_catalog.pg_class AS c WHERE relname = %s AND relkind IN ('r', 'p', 'v', 'm', 'f')",
}
"""In PostgreSQL a column that is worked out as it is read is a query too, and so is a part that lies elsewhere."""


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
    if is_connect(frame):
        # files under other names are a query: which of their columns folders name could not be told any more
        return type(description(frame)).__name__ in SPARK_ROWS or _describes_files(frame._plan)
    if not is_frame(frame):
        return False
    plan = frame._jdf.queryExecution().analyzed()
    while simple_name(plan) == "SubqueryAlias":
        plan = plan.child()
    if simple_name(plan) == "LogicalRelation":
        return simple_name(plan.relation()) == "HadoopFsRelation"
    return simple_name(plan) in SPARK_ROWS


def is_frame(source: Any) -> bool:
    """Whether one of Spark's objects is a data frame; a column says of every name that it has it."""
    return hasattr(type(source), "createOrReplaceTempView")


def is_connect(frame: Any) -> bool:
    """Whether an object is a data frame of Spark Connect, which keeps its plan in Python."""
    return type(frame).__module__ == "pyspark.sql.connect.dataframe"


def description(frame: Any) -> Any:
    """The plan of such a frame, under new names of its columns: ``createDataFrame`` gives names in a step of its own."""
    plan = frame._plan
    while type(plan).__name__ == "ToDF":
        plan = plan._child
    return plan


def _describes_files(plan: Any) -> bool:
    """Whether such a plan is plain files of a format that Spark itself reads."""
    return (
        type(plan).__name__ == "DataSource" and plan._format in _FILES and not (plan._predicates or plan._is_streaming)
    )


def simple_name(of: Any) -> str:
    """The name of the class of one of Spark's own objects."""
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
