"""Tables inside databases: a DuckDB file attached read-only, an Ibis table, or a URL that Ibis can open.

Anything that is neither DuckDB nor Spark is brought through Arrow into the private DuckDB, only the columns needed,
so every answer comes from an engine whose arithmetic is proved and tested here. Nothing is downloaded to get there.

Cells of SQLite may hold anything, whatever their column declares. Each cell is asked for its own type and becomes null where that is not the declared one; text comes as bytes and is
read with a mark in place of what is no text. Columns that declare no type are left out: to guess one would mean to look at a row.
Law: no cell can be an error, and no cell decides a type.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from steelyard.errors import EngineMissing, TableError
from steelyard.tables._engine import InPlace
from steelyard.tables._frames import bind_stream
from steelyard.tables._identity import base_table, without_password
from steelyard.tables._kinds import check_names, kind_of, literal, quoted
from steelyard.tables._plain import SOURCE, Bind
from steelyard.tables._postgres import bind_postgres, server_of

_FILES = ("file", "http", "https", "ftp", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "hdfs", "r2", "hf")
HOW = "write it as scheme://place::table, such as duckdb:///sales.db::orders or sqlite:///sales.db::orders"


def is_database(source: str) -> bool:
    """Whether a text is the address of a database rather than of a file."""
    scheme, there, _ = source.partition("://")
    return bool(there) and ("::" in source or scheme.lower() not in _FILES)


def split_url(url: str) -> tuple[str, str, str]:
    """Scheme, the whole address, and the table's name; one without a name is refused with the names there are."""
    address, _, table = url.partition("::")
    scheme = address.partition("://")[0].lower()
    if not table:
        names = _duckdb_tables(address) if scheme == "duckdb" else sorted(_backend(scheme, address).list_tables())
        example = f"{without_password(address)}::{names[0] if names else 'table'}"
        raise TableError(f"which table? {_there_are(names)} Write it behind the address, as {example}")
    return scheme, address, table


def table_at(url: str) -> str:
    """Which table a URL is of, however its file and its schema are written; nothing secret."""
    scheme, address, table = split_url(url)
    place, name = without_password(address), table.rpartition(".")[2].casefold()
    if scheme in ("duckdb", "sqlite"):
        found = os.stat(_database(address))
        place = f"{found.st_dev} {found.st_ino}"
    return f"table {place} {name}"


def _there_are(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
    return f"The database has {shown or 'no tables'}."


def bind_duckdb_file(address: str, table: str) -> Bind:
    """A table of a DuckDB file, which is never written to."""
    path = _database(address)
    name = ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))
    attach = _attach(path)

    def bind(cursor: Any, columns: Sequence[str], once: bool) -> None:
        cursor.execute(attach)
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS SELECT * FROM {SOURCE}_file.{name}")

    return bind


def check_duckdb_table(address: str, table: str) -> None:
    """Refuse a table that a DuckDB file does not have, with those that it has; one with a schema before its name is left to DuckDB."""
    names = _duckdb_tables(address)
    if "." not in table and table.casefold() not in map(str.casefold, names):
        raise TableError(f"there is no table {table!r} in that database. {_there_are(names)}")


def _duckdb_tables(address: str) -> list[str]:
    """The tables and views of a DuckDB file, as its catalogue lists them."""
    import duckdb

    path = _database(address)
    asked = (
        f"SELECT table_name FROM information_schema.tables WHERE table_catalog = '{SOURCE}_file' ORDER BY table_name"
    )
    try:
        with duckdb.connect(":memory:") as connection:
            connection.execute(_attach(path))
            return [name for (name,) in connection.execute(asked).fetchall()]
    except duckdb.Error:
        raise TableError(f"{path!r} cannot be opened as a DuckDB database.") from None


def is_duckdb_table(address: str, table: str) -> bool:
    """Whether a name in a DuckDB file is a table and not a view, as its catalogue says."""
    import duckdb

    with suppress(duckdb.Error), duckdb.connect(":memory:") as connection:
        connection.execute(_attach(_database(address)))
        return base_table(connection, table.rpartition(".")[2])
    return False


def open_ibis(scheme: str, address: str, table: str) -> Any:
    """The Ibis table behind a URL; a file that is not there is refused rather than made."""
    backend = _backend(scheme, address)
    names = sorted(backend.list_tables())
    if table not in names:
        raise TableError(f"there is no table {table!r} in that database. {_there_are(names)}")
    return open_sqlite(backend, table) if scheme == "sqlite" else _of_known_types(backend, table)


def _of_known_types(backend: Any, table: str) -> Any:
    with suppress(AttributeError):  # Ibis has no word for some types, such as a regclass, and says so in this way
        return backend.table(table)
    raise TableError(f"{table!r} has a column of a type that Ibis does not know. Read a view without it.")


def _backend(scheme: str, address: str) -> Any:
    """The Ibis backend behind an address. What a driver says of a failure is not passed on: it may quote the password."""
    import ibis

    extra = "postgres" if scheme == "postgresql" else scheme
    if extra not in _schemes():
        raise TableError(f"no database can be opened for the scheme {scheme!r}: {HOW}.")
    if scheme == "sqlite":
        address = f"sqlite://{os.path.abspath(_database(address))}"
    problem = "none"
    try:
        return _closing(ibis.connect(address))
    except Exception as error:  # each driver has errors of its own, and nothing of the table was asked yet
        problem = type(error).__name__
        missing = isinstance(error, ImportError)
    if missing:
        raise EngineMissing(f"{scheme} tables need an Ibis backend.", install=f"pip install 'ibis-framework[{extra}]'")
    if scheme == "sqlite":
        raise TableError(f"{address.removeprefix('sqlite://')!r} cannot be opened as a SQLite database ({problem}).")
    raise TableError(
        f"no connection to {without_password(address)} ({problem}). Check that the server runs and can be reached from here, and the "
        "name of the database, the user and the password."
    )


def _closing(backend: Any) -> Any:
    """The same, whose connection to a PostgreSQL server ends with it."""
    if backend.name == "postgres":
        weakref.finalize(backend, backend.con.close)
    return backend


def _schemes() -> set[str]:
    """The kinds of database that Ibis knows, installed or not."""
    from importlib.metadata import entry_points

    return {point.name for point in entry_points(group="ibis.backends")}


def native(table: Any) -> Any:
    """The Spark data frame or DuckDB relation behind an Ibis table, or the table itself when it lives elsewhere."""
    from ibis.common.exceptions import IbisError
    from ibis.expr.operations import InMemoryTable

    if not hasattr(table, "to_pyarrow") or not hasattr(table, "schema"):
        raise TableError(f"an Ibis {type(table).__name__} is not a table; give a table expression.")
    with suppress(IbisError):
        backend = table.get_backend()
        if backend.name == "pyspark":
            return backend._session.sql(backend.compile(table))
        if backend.name == "duckdb" and not table.op().find(InMemoryTable):
            return backend.con.sql(backend.compile(table))
    return table


def bind_ibis(table: Any) -> Bind:
    """An Ibis table of any other backend, fetched for each question, only the columns needed."""
    from ibis.common.exceptions import IbisError

    with suppress(IbisError):
        name = table.get_backend().name
        if name == "sqlite":
            return bind_sqlite(_as_declared(table))
        if name == "postgres":
            return bind_postgres(table)
    empty = table.schema().to_pyarrow().empty_table()
    return bind_stream(lambda columns: table.select(*columns).to_pyarrow(), empty)


def server_behind(table: Any) -> InPlace | None:
    """Who adds up where the rows of an Ibis table lie, if anybody does."""
    from ibis.common.exceptions import IbisError

    with suppress(IbisError):
        return server_of(table) if table.get_backend().name == "postgres" else None
    return None


def _attach(path: str) -> str:
    return f"ATTACH IF NOT EXISTS {literal(path)} AS {SOURCE}_file (TYPE duckdb, READ_ONLY)"


def _database(address: str) -> str:
    """The file of an address: three slashes before it, or four when it is absolute."""
    path = address.partition("://")[2].removeprefix("/")
    for candidate in (path, "/" + path):
        if os.path.isfile(candidate):
            return candidate
    raise TableError(f"there is no database file {path!r} (seen from {os.getcwd()}). Check the path.")


_CELLS = {
    "integer": ("CASE typeof({0}) WHEN 'integer' THEN {0} END", "int64"),
    "boolean": ("CASE typeof({0}) WHEN 'integer' THEN {0} <> 0 END", "bool_"),
    "float": ("CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END", "float64"),
    "string": ("CASE typeof({0}) WHEN 'text' THEN CAST({0} AS BLOB) END", "string"),
    "binary": ("CASE typeof({0}) WHEN 'blob' THEN {0} END", "binary"),
}
_WRITTEN = ("CASE WHEN typeof({0}) <> 'blob' THEN CAST(CAST({0} AS TEXT) AS BLOB) END", "string")
"""How the other kinds are fetched: as text, which the private DuckDB converts, or finds to be none of the kind."""


def _as_declared(table: Any) -> Any:
    """A table as its columns declare it: for those that declare no type Ibis looks at a row. A query stays as it is."""
    from ibis.expr.operations import DatabaseTable

    stored = table.op()
    if not isinstance(stored, DatabaseTable):
        return table
    return open_sqlite(table.get_backend(), stored.name, stored.namespace.database or "main")


def open_sqlite(backend: Any, table: str, database: str = "main") -> Any:
    """A table of a SQLite file as an Ibis table, its schema what its columns declare."""
    import ibis.expr.operations as ops
    import ibis.expr.schema as sch

    asked = f"SELECT name, type FROM pragma_table_info({literal(table)}, {literal(database)})"
    declared = backend.con.execute(asked).fetchall()
    kinds = {column: kind for column, text in declared if (kind := _declared(text)) is not None}
    if not kinds:
        raise TableError(f"no column of {table!r} declares a type; declare them in SQLite before it is read.")
    schema, where = sch.Schema(kinds), ops.Namespace(database=database)
    return ops.DatabaseTable(name=table, schema=schema, source=backend, namespace=where).to_expr()


def bind_sqlite(table: Any) -> Bind:
    """An Ibis table or expression of a SQLite backend, fetched for each question, only the columns needed."""
    import pyarrow
    from ibis.backends.sql.datatypes import DuckDBType

    backend, kinds = table.get_backend(), dict(table.schema().items())
    check_names(list(kinds))
    cells = {name: _CELLS.get(kind_of(kind), _WRITTEN) for name, kind in kinds.items()}
    schema = pyarrow.schema([(name, getattr(pyarrow, arrow)()) for name, (_, arrow) in cells.items()])
    other = {name: DuckDBType.to_string(kind) for name, kind in kinds.items() if kind_of(kind) not in _CELLS}

    def fetch(columns: Sequence[str]) -> Any:
        [(encoding,)] = backend.con.execute("PRAGMA encoding").fetchall()
        asked = ", ".join(cells[name][0].format(quoted(name)) for name in columns)
        found = backend.con.execute(f"SELECT {asked} FROM ({backend.compile(table)})").fetchall()
        parts = zip(*found, strict=True) if found else [()] * len(columns)
        arrays = [_array(part, schema.field(name).type, encoding) for name, part in zip(columns, parts, strict=True)]
        return pyarrow.table(arrays, schema=pyarrow.schema([schema.field(name) for name in columns]))

    def bind(cursor: Any, columns: Sequence[str], once: bool) -> None:
        cursor.register(f"{SOURCE}_cells", fetch(columns) if columns else schema.empty_table())
        shown = [
            f"TRY_CAST({quoted(n)} AS {other[n]}) AS {quoted(n)}" if n in other else quoted(n) for n in columns or kinds
        ]
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS SELECT {', '.join(shown)} FROM {SOURCE}_cells")

    return bind


def _array(values: Sequence[Any], kind: Any, encoding: str) -> Any:
    import pyarrow

    if pyarrow.types.is_string(kind):
        values = [None if value is None else value.decode(encoding, "replace") for value in values]
    if pyarrow.types.is_boolean(kind):
        values = [None if value is None else bool(value) for value in values]
    return pyarrow.array(values, kind)


def _declared(text: str) -> Any:
    """The Ibis type of a declared type, or None where none is declared or known."""
    from ibis.backends.sql.datatypes import SQLiteType
    from ibis.common.exceptions import IbisError
    from sqlglot.errors import SqlglotError

    try:
        kind = SQLiteType.from_string(text) if text else None
    except (IbisError, SqlglotError, KeyError, TypeError, ValueError):
        return None
    return None if kind is None or kind_of(kind) == "other" else kind
