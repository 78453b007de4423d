"""Tables of SQLite, whose cells may hold anything whatever their column declares.

Each cell is asked for its own type and becomes null where that is not the declared one; text comes as bytes and is
read with a mark in place of what is no text. Columns that declare no type are left out: to guess one would mean to look at a row.
Law: no cell can be an error, and no cell decides a type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steelyard.errors import TableError
from steelyard.tables.engine import SOURCE, Bind
from steelyard.tables.kinds import check_names, kind_of

_CELLS = {
    "integer": ("CASE typeof({0}) WHEN 'integer' THEN {0} END", "int64"),
    "boolean": ("CASE typeof({0}) WHEN 'integer' THEN {0} <> 0 END", "bool_"),
    "float": ("CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END", "float64"),
    "string": ("CASE typeof({0}) WHEN 'text' THEN CAST({0} AS BLOB) END", "string"),
    "binary": ("CASE typeof({0}) WHEN 'blob' THEN {0} END", "binary"),
}
_WRITTEN = ("CASE WHEN typeof({0}) <> 'blob' THEN CAST(CAST({0} AS TEXT) AS BLOB) END", "string")
"""How the other kinds are fetched: as text, which the private DuckDB converts, or finds to be none of the kind."""


def open_sqlite(backend: Any, table: str) -> Any:
    """A table of a SQLite file as an Ibis table, its schema what its columns declare."""
    import ibis.expr.operations as ops
    import ibis.expr.schema as sch

    declared = backend.con.execute(f"SELECT name, type FROM pragma_table_info({_text(table)})").fetchall()
    kinds = {column: kind for column, text in declared if (kind := _declared(text)) is not None}
    if not kinds:
        raise TableError(f"no column of {table!r} declares a type; declare them in SQLite before it is read.")
    schema, where = sch.Schema(kinds), ops.Namespace(database="main")
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
        asked = ", ".join(cells[name][0].format(_quoted(name)) for name in columns)
        found = backend.con.execute(f"SELECT {asked} FROM ({backend.compile(table)})").fetchall()
        parts = zip(*found, strict=True) if found else [()] * len(columns)
        arrays = [_array(part, schema.field(name).type, encoding) for name, part in zip(columns, parts, strict=True)]
        return pyarrow.table(arrays, schema=pyarrow.schema([schema.field(name) for name in columns]))

    def bind(cursor: Any, columns: Sequence[str], once: bool) -> None:
        cursor.register(f"{SOURCE}_cells", fetch(columns) if columns else schema.empty_table())
        shown = [
            f"TRY_CAST({_quoted(n)} AS {other[n]}) AS {_quoted(n)}" if n in other else _quoted(n)
            for n in columns or kinds
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


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
