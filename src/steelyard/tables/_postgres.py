"""Tables of a PostgreSQL server, fetched so that no cell can be an error.

The server writes each cell as text, by fixed settings, and the private DuckDB reads it as the declared type, or finds it to be none
and takes it for missing: a driver that makes Python objects of them fails at a date of infinity or a numeric NaN, and then one row decides
whether a release comes. Only the columns needed are fetched, in batches, into a table that DuckDB puts on disk where it is
long. A numeric without bounds is a double, correctly rounded. The server's own settings and the caller's session are left as they were.
Law: no cell can be an error, and no cell decides a type.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from steelyard.errors import TableError
from steelyard.tables._kinds import check_names, kind_of
from steelyard.tables._plain import AFTER_LAST_DAY, FIRST_DAY, SOURCE, Bind

_BATCH = 1 << 16
_DIGITS = 38
_SETTINGS = (
    "SET LOCAL datestyle = 'ISO, YMD'",
    "SET LOCAL timezone = 'UTC'",
    "SET LOCAL extra_float_digits = 3",
    "SET LOCAL client_encoding = 'UTF8'",
)
_READ_AS_DECLARED = ("boolean", "integer", "float", "decimal", "date", "timestamp", "uuid")


def bind_postgres(table: Any) -> Bind:
    """An Ibis table or expression of a PostgreSQL backend, fetched for each question, only the columns needed."""
    import pyarrow

    backend, kinds = table.get_backend(), {name: _declared(kind) for name, kind in table.schema().items()}
    check_names(list(kinds))
    _check_encoding(backend.con)
    asked, lock = backend.compile(table), threading.Lock()

    def bind(cursor: Any, columns: Sequence[str], once: bool) -> None:
        names = list(columns or kinds)
        schema = pyarrow.schema([(name, pyarrow.string()) for name in names])
        cells = ", ".join(_written(name, kinds[name]) for name in names)
        with lock:
            question = f"COPY (SELECT {cells} FROM ({asked}) AS {SOURCE}) TO STDOUT"
            batches = _fetched(backend.con, question, schema) if columns else iter(())
            cursor.register(f"{SOURCE}_cells", pyarrow.RecordBatchReader.from_batches(schema, batches))
            shown = ", ".join(f"TRY_CAST({_quoted(name)} AS {kinds[name]}) AS {_quoted(name)}" for name in names)
            cursor.execute(f"CREATE OR REPLACE TEMP TABLE {SOURCE} AS SELECT {shown} FROM {SOURCE}_cells")
            cursor.unregister(f"{SOURCE}_cells")

    return bind


def _written(name: str, kind: str) -> str:
    """A cell as text; days and moments outside the years 1 to 9999 are missing already there, since their text is read differently."""
    column = _quoted(name)
    text = f"CAST({column} AS text)"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return f"CASE WHEN {column} >= '{FIRST_DAY}' AND {column} < '{AFTER_LAST_DAY}' THEN {text} END"
    return text


def _fetched(connection: Any, question: str, schema: Any) -> Iterator[Any]:
    """What a server copies out, as batches of text."""
    import pyarrow

    with connection.transaction(), connection.cursor() as cursor:
        for setting in _SETTINGS:
            cursor.execute(setting)
        with cursor.copy(question) as copied:
            rows = copied.rows()
            while held := list(islice(rows, _BATCH)):
                columns = [pyarrow.array(values, pyarrow.string()) for values in zip(*held, strict=True)]
                yield pyarrow.RecordBatch.from_arrays(columns, schema=schema)


def _declared(kind: Any) -> str:
    """The DuckDB type that a column's text is read as."""
    from ibis.backends.sql.datatypes import DuckDBType

    if kind_of(kind) not in _READ_AS_DECLARED:
        return "VARCHAR"
    if kind.is_decimal() and not _fits(kind.precision, kind.scale):
        return "DOUBLE"
    return str(DuckDBType.to_string(kind))


def _fits(digits: int | None, places: int | None) -> bool:
    return digits is not None and places is not None and 0 <= places <= digits <= _DIGITS


def _check_encoding(connection: Any) -> None:
    """Text of other encodings may hold bytes that cannot be converted, and one cell would decide a failure."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise TableError(f"the database keeps its text as {encoding}; only those that keep it as UTF8 are read.")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
