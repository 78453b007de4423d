"""Opening a table: what a person has, turned lazily into something an engine can read.

Kinds of source are told apart by the module their type comes from, so no library is imported to find out that it
was not needed. Only schemas are looked at here. A missing file, an unknown kind or a source without a schema is a
``TableError`` that says what to do; a table without rows is a table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from steelyard.errors import TableError
from steelyard.tables import _plain as plain
from steelyard.tables._databases import (
    bind_duckdb_file,
    bind_ibis,
    check_duckdb_table,
    is_database,
    is_duckdb_table,
    native,
    open_ibis,
    server_behind,
    split_url,
    table_at,
)
from steelyard.tables._engine import DuckEngine, InPlace
from steelyard.tables._files import bind_files, expand
from steelyard.tables._frames import bind_arrow, bind_dict, bind_pandas, bind_polars, bind_relation
from steelyard.tables._identity import identify, in_words, is_stored, warn_unchecked
from steelyard.tables._kinds import schema_of
from steelyard.tables._plain import PLAIN, Bind
from steelyard.tables._relations import checked
from steelyard.tables._table import Table

LEAST_MEMORY = 100_000_000
"""Less than this and DuckDB cannot work at all on some tables."""

_FRAMES: dict[str, Callable[[Any], Bind]] = {
    "ibis": bind_ibis,
    "pandas": bind_pandas,
    "polars": bind_polars,
    "pyarrow": bind_arrow,
    "duckdb": bind_relation,
    "_duckdb": bind_relation,
}


def read(
    source: Any, *, name: str | None = None, memory: int | None = None, in_place: bool = True, **options: Any
) -> Table:
    """Open a table lazily: a path, glob or list of paths, a URL, a data frame, Arrow, a DuckDB relation, Spark, Ibis.

    Files take ``format="parquet"`` or ``"csv"`` where the name does not tell, and CSV ``types={"column": "float"}``, ``delimiter=";"`` and, where no
    line names its columns, ``names=["user", "amount"]``.
    A database is ``scheme://place::table``.
    ``memory`` is how many bytes DuckDB works in before it goes to disk (600 million where it is not given); where a question cannot be
    answered so, it is asked again with all there is. Spark has settings of its own.
    ``in_place=False`` fetches the columns of a PostgreSQL table where the server would add them up itself; the integers are the same.
    ``name`` says which table this is; a request's key is bound to it, or else to the path, address or query as it is written, or
    to the schema of what has neither.

    *Privacy:* a query (a relation, an expression, a lazy frame, a view) is a table as given: nobody checks that it keeps
    people apart. Reading it warns, and its releases say so.

    *Cost:* reads the schema only.

    >>> import numpy as np
    >>> read({"user": np.array([1, 1, 2]), "amount": np.array([0.5, 2.0, 1.0])})
    Table(user: integer, amount: float) on duckdb
    """
    if isinstance(source, Table):
        return source if name is None else source.called(identify(source, name, options))
    identity = identify(source, name, options)
    table = _opened(source, options, in_place=in_place)
    if memory is not None:
        _work_in(table, memory)
    table._engine.origin |= _origin(source)
    table._engine.held = source  # so that no other object gets its number
    if not table.stored:
        warn_unchecked(level=2)
    return table.called(identity or in_words(_kind(source), table.columns))


def _work_in(table: Table, memory: int) -> None:
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < LEAST_MEMORY:
        raise TableError(f"memory is a whole number of bytes, at least {LEAST_MEMORY:,}; got {memory!r}.")
    if not isinstance(table._engine, DuckEngine):
        raise TableError("memory is for tables that DuckDB reads; Spark has settings of its own.")
    table._engine.work_in(memory)


def _origin(source: Any) -> frozenset[str]:
    """The files that rows lie in, however they are called, and the tables of a database; of what lies in memory, the object."""
    if hasattr(source, "sql_query"):
        return frozenset({f"relation {source.sql_query()}"})  # each call makes another object of one table
    if isinstance(source, str) and is_database(source):
        return frozenset({table_at(source)})
    paths = _paths(source) or []
    if not paths:
        return frozenset({f"object {id(source)}"})
    far = {f"address {path}" for path in paths if "://" in str(path)}
    files = [file for path in paths if "://" not in str(path) for file in expand(str(path))]
    return frozenset({*far, *(f"file {found.st_dev} {found.st_ino}" for found in map(os.stat, files))})


def _kind(source: Any) -> str:
    return "dict" if isinstance(source, Mapping) else type(source).__module__.partition(".")[0].removeprefix("_")


def _opened(source: Any, options: Mapping[str, Any], *, in_place: bool) -> Table:
    library = type(source).__module__.partition(".")[0]
    if isinstance(source, str) and is_database(source):
        scheme, address, table = split_url(source)
        if options:
            raise TableError(f"the options {', '.join(sorted(options))} apply to files only.")
        if scheme == "duckdb":
            check_duckdb_table(address, table)
            bind = bind_duckdb_file(address, table)
            return _through_duckdb(bind, plain.BY_BYTES, stored=is_duckdb_table(address, table))
        source, library = open_ibis(scheme, address, table), "ibis"
    stored = is_stored(source, library)
    if not stored and library in ("duckdb", "_duckdb", "ibis") and not options:
        found = checked(source, library, lambda bind, text: _through_duckdb(bind, text, stored=True))
        if found is not None:
            return found
    if library == "ibis":
        source = native(source)
        library = type(source).__module__.partition(".")[0]
    if library == "pyspark":
        return (None if stored else _checked_spark(source)) or _through_spark(source, stored=stored)
    text = plain.REPAIRED if _paths(source) is None else plain.AS_IT_IS
    server = server_behind(source) if in_place and stored and library == "ibis" else None
    return _through_duckdb(_bind(source, library, options), text, stored=stored, server=server)


def _checked_spark(frame: Any) -> Table | None:
    from steelyard.tables._spark import load_dialect
    from steelyard.tables._spark_plans import checked

    load_dialect()
    return checked(frame)


def _through_spark(frame: Any, *, stored: bool) -> Table:
    from steelyard.tables._spark import read_spark

    table = read_spark(frame, stored=stored)
    table.prepare()
    return table


def _through_duckdb(bind: Bind, text: str, *, stored: bool, server: InPlace | None = None) -> Table:
    import ibis

    engine = DuckEngine(bind, text)
    engine.server = server
    described = engine.describe()
    if not described:
        raise TableError("no schema can be read from the source. Check that it is whole and of the format it claims.")
    table = Table(engine, ibis.table(schema_of(described), name=PLAIN), stored=stored)
    table.prepare()
    return table


def _paths(source: Any) -> list[str | os.PathLike[str]] | None:
    if isinstance(source, str | os.PathLike):
        return [source]
    if isinstance(source, Sequence) and source and all(isinstance(path, str | os.PathLike) for path in source):
        return list(source)
    return None


def _bind(source: Any, library: str, options: Mapping[str, Any]) -> Bind:
    paths = _paths(source)
    if paths is not None:
        return bind_files(paths, options)
    if options:
        raise TableError(f"the options {', '.join(sorted(options))} apply to files only.")
    if isinstance(source, Mapping):
        return bind_dict(source)
    frame = _FRAMES.get(library)
    if frame is None:
        raise TableError(
            f"a {type(source).__name__} is not a table. Give a Parquet or CSV path, a pandas, Polars or Spark "
            "data frame, an Arrow table, a DuckDB relation, an Ibis table, or a dictionary of arrays."
        )
    return frame(source)
