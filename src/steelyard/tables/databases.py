"""Tables inside databases: a DuckDB file attached read-only, an Ibis table, or a URL that Ibis can open.

Anything that is neither DuckDB nor Spark is brought through Arrow into the private DuckDB, only the columns needed,
so every answer comes from an engine whose arithmetic is proved and tested here. Nothing is downloaded to get there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from steelyard.errors import EngineMissing, TableError
from steelyard.tables.engine import SOURCE, Bind
from steelyard.tables.frames import bind_stream
from steelyard.tables.origin import base_table
from steelyard.tables.sqlite import bind_sqlite, open_sqlite

HOW = "write it as scheme://place::table, such as duckdb:///sales.db::orders or sqlite:///sales.db::orders"


def split_url(url: str) -> tuple[str, str, str]:
    """Scheme, the whole address, and the table's name."""
    address, _, table = url.partition("::")
    if not table:
        raise TableError(f"a database address needs a table name: {HOW}.")
    return address.partition("://")[0], address, table


def bind_duckdb_file(address: str, table: str) -> Bind:
    """A table of a DuckDB file, which is never written to."""
    path = _database(address)
    name = ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))
    attach = _attach(path)

    def bind(cursor: Any, columns: Sequence[str], once: bool) -> None:
        cursor.execute(attach)
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS SELECT * FROM {SOURCE}_file.{name}")

    return bind


def is_duckdb_table(address: str, table: str) -> bool:
    """Whether a name in a DuckDB file is a table and not a view, as its catalogue says."""
    import duckdb

    with suppress(duckdb.Error), duckdb.connect(":memory:") as connection:
        connection.execute(_attach(_database(address)))
        return base_table(connection, table.rpartition(".")[2])
    return False


def open_ibis(scheme: str, address: str, table: str) -> Any:
    """The Ibis table behind a URL; a file that is not there is refused rather than made."""
    import ibis
    from ibis.common.exceptions import IbisError

    if scheme == "sqlite":
        address = f"sqlite://{os.path.abspath(_database(address))}"
    missing = False
    try:
        backend = ibis.connect(address)
    except ImportError:
        missing = True
    except (IbisError, ValueError, OSError):
        raise TableError(f"no database can be opened for the scheme {scheme!r}: {HOW}.") from None
    if missing:
        raise EngineMissing(f"{scheme} tables need an Ibis backend.", install=f"pip install 'ibis-framework[{scheme}]'")
    if table not in backend.list_tables():
        raise TableError(f"there is no table {table!r} in that database.")
    return open_sqlite(backend, table) if scheme == "sqlite" else backend.table(table)


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
        if table.get_backend().name == "sqlite":
            return bind_sqlite(table)
    empty = table.schema().to_pyarrow().empty_table()
    return bind_stream(lambda columns: table.select(*columns).to_pyarrow(), empty)


def _attach(path: str) -> str:
    return "ATTACH IF NOT EXISTS '" + path.replace("'", "''") + f"' AS {SOURCE}_file (TYPE duckdb, READ_ONLY)"


def _database(address: str) -> str:
    """The file of an address: three slashes before it, or four when it is absolute."""
    path = address.partition("://")[2].removeprefix("/")
    for candidate in (path, "/" + path):
        if os.path.isfile(candidate):
            return candidate
    raise TableError(f"there is no database file {path!r} (seen from {os.getcwd()}). Check the path.")
