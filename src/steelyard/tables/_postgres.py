"""Tables of a PostgreSQL server, fetched so that no cell can be an error.

The server writes each cell as text, by fixed settings, and the private DuckDB reads it as the declared type, or finds it to be none
and takes it for missing: a driver that makes Python objects of them fails at a date of infinity or a numeric NaN, and then one row decides
whether a release comes. Only the columns needed are fetched, in batches, into a table that DuckDB puts on disk where it is
long. A numeric without bounds is a double, correctly rounded. The server's own settings and the caller's session are left as they were.
Types whose text may be far longer than their cell (jsonb, arrays, composites) are shown and cannot be used, and a text of more than 128 KiB is missing: the server ends a
question whose row takes a gigabyte.
Law: no cell can be an error, and no cell decides a type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from steelyard.errors import TableError
from steelyard.tables._in_place import SETTINGS, PostgresServer, lock_of, sound_server
from steelyard.tables._kinds import check_names, kind_of, quoted
from steelyard.tables._plain import AFTER_LAST_DAY, FIRST_DAY, SOURCE, Bind
from steelyard.tables._postgres_sql import cells

_BATCH = 1 << 11
_LONGEST = 1 << 17
"""Bytes of a text that is read: 1,600 columns of them, each byte escaped, are less than what the server can send of one row, and a batch less than Arrow holds."""
_DIGITS = 38
_READ_AS_DECLARED = ("boolean", "integer", "float", "decimal", "date", "timestamp", "uuid")
_WRITTEN_SHORT = ("string", "interval", "time", "inet", "macaddr", "binary")
_BASES = {
    16: "BOOLEAN", 18: "VARCHAR", 19: "VARCHAR", 20: "BIGINT", 21: "SMALLINT", 23: "INTEGER", 25: "VARCHAR", 650: "VARCHAR", 700: "FLOAT", 701: "DOUBLE",
    1042: "VARCHAR", 1043: "VARCHAR", 1082: "DATE", 1114: "TIMESTAMP", 1184: "TIMESTAMP WITH TIME ZONE", 1700: "DOUBLE", 2950: "UUID",
}  # fmt: skip
"""How types are read that Ibis does not know, such as domains: by the number of the type below them."""
_MONEY, _BYTES = 790, 17
_UNUSABLE = "STRUCT(v VARCHAR)"


def server_of(table: Any) -> PostgresServer | None:
    """The server of a stored table, where it can answer in place; a query as given is fetched."""
    from ibis.expr.operations import DatabaseTable

    stored, connection = table.op(), table.get_backend().con
    if not isinstance(stored, DatabaseTable):
        return None
    _, types, kinds = _described(table)
    place = ".".join(map(quoted, [part for part in (stored.namespace.database, stored.name) if part]))
    asked = (
        "SELECT n.nspname, c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE c.oid = pg_catalog.to_regclass(%s)"
    )
    found = connection.execute(asked, [place]).fetchall()
    return sound_server(connection, ".".join(map(quoted, found[0])), cells(kinds, types, _LONGEST)) if found else None


def _described(table: Any) -> tuple[str, dict[str, int], dict[str, str]]:
    """A table's text, the numbers of its columns' types, and the DuckDB types that they are read as; no row is read."""
    backend, declared = table.get_backend(), table.schema()
    check_names(list(declared))
    _check_encoding(backend.con)
    wrapped = {
        name for name, kind in declared.items() if kind.is_json() or kind.is_geospatial()
    }  # by Ibis, in functions
    plain = [name for name in declared if name not in wrapped]
    if not plain:
        raise TableError("the table has no column that can be used: only JSON or shapes.")
    asked = backend.compile(table.select(*plain) if wrapped else table)
    types = dict.fromkeys(declared, 0) | _types(backend.con, asked)
    return asked, types, {name: _declared(kind, types[name]) for name, kind in declared.items()}


def bind_postgres(table: Any) -> Bind:
    """An Ibis table or expression of a PostgreSQL backend, fetched for each question, only the columns needed."""
    import pyarrow

    backend = table.get_backend()
    asked, types, kinds = _described(table)
    lock = lock_of(backend.con)

    def bind(cursor: Any, columns: Sequence[str], once: bool) -> None:
        names = list(columns or kinds)
        schema = pyarrow.schema([(name, pyarrow.string()) for name in names])
        cells = ", ".join(_written(name, kinds[name], types[name]) for name in names)
        with lock:
            question = f"COPY (SELECT {cells} FROM ({asked}) AS {SOURCE}) TO STDOUT"
            batches = _fetched(backend.con, question, schema) if columns else iter(())
            cursor.register(f"{SOURCE}_cells", pyarrow.RecordBatchReader.from_batches(schema, batches))
            shown = ", ".join(f"TRY_CAST({quoted(name)} AS {kinds[name]}) AS {quoted(name)}" for name in names)
            cursor.execute(f"CREATE OR REPLACE TEMP TABLE {SOURCE} AS SELECT {shown} FROM {SOURCE}_cells")
            cursor.unregister(f"{SOURCE}_cells")

    return bind


def _types(connection: Any, asked: str) -> dict[str, int]:
    """The number of each column's type, or of that below a domain; no row is read."""
    problem = "none"
    try:
        with connection.transaction(), connection.cursor() as cursor:
            found = cursor.execute(f"SELECT * FROM ({asked}) AS {SOURCE} LIMIT 0").description or ()
            return {column.name: column.type_code for column in found}
    except connection.Error as error:
        problem = type(error).__name__
    raise TableError(
        f"the server does not show the table ({problem}). Check that this user may read all of its columns."
    )


def _written(name: str, kind: str, type_: int) -> str:
    """A cell as text; days and moments outside the years 1 to 9999 are missing already there, since their text is read differently."""
    column = quoted(name)
    text = f"CAST({column} AS pg_catalog.text)"
    if kind == _UNUSABLE:
        return "CAST(NULL AS pg_catalog.text)"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return f"CASE WHEN {column} >= '{FIRST_DAY}' AND {column} < '{AFTER_LAST_DAY}' THEN {text} END"
    if kind == "VARCHAR":
        size = f"2 * pg_catalog.octet_length({column})" if type_ == _BYTES else f"pg_catalog.octet_length({text})"
        return f"CASE WHEN {size} <= {_LONGEST} THEN {text} END"
    return f"CAST(CAST({column} AS pg_catalog.numeric) AS pg_catalog.text)" if type_ == _MONEY else text


def _fetched(connection: Any, question: str, schema: Any) -> Iterator[Any]:
    """What a server copies out, as batches of text."""
    import pyarrow

    with connection.transaction(force_rollback=True), connection.cursor() as cursor:
        for setting in SETTINGS:
            cursor.execute(setting)
        with cursor.copy(question) as copied:
            rows = copied.rows()
            while held := list(islice(rows, _BATCH)):
                columns = [pyarrow.array(values, pyarrow.string()) for values in zip(*held, strict=True)]
                yield pyarrow.RecordBatch.from_arrays(columns, schema=schema)


def _declared(kind: Any, type_: int) -> str:
    """The DuckDB type that a column's text is read as, told by the declared type alone."""
    from ibis.backends.sql.datatypes import DuckDBType

    if kind_of(kind) not in _READ_AS_DECLARED:
        if not type_:
            return _UNUSABLE
        short = any(getattr(kind, f"is_{name}")() for name in _WRITTEN_SHORT)
        return "VARCHAR" if short else _BASES.get(type_, _UNUSABLE)
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
