"""Parquet files, read where they lie; what their declared types make unsafe is ruled out before a row is read.

DuckDB converts some columns as it reads, and such a conversion fails by one cell: a moment counted in milliseconds that
microseconds cannot count, a number of one file in the narrower type of the next. Columns of the first kind are shown but cannot be
used; files that differ in the second way are refused. Columns that folders name (``land=fr/``) are text, since DuckDB would
type them by the values that occur.
Law: what can be read of files depends on their declared types alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.errors import TableError
from steelyard.tables._plain import SOURCE, Bind, unusable

_DIGITS = {
    "BOOLEAN": 1, "TINYINT": 3, "UTINYINT": 3, "SMALLINT": 5, "USMALLINT": 5, "INTEGER": 10, "UINTEGER": 10,
    "BIGINT": 19, "UBIGINT": 20, "HUGEINT": 39,
}  # fmt: skip
_FLOATS = ("FLOAT", "DOUBLE")
_MILLIS = re.compile("TIMESTAMP_MILLIS|MILLIS=MilliSeconds")


def bind_parquet(files: str, several: bool) -> Bind:
    """Make Parquet files visible; ``files`` is a list of their names as DuckDB takes it."""
    how = (
        f"union_by_name = {str(several).lower()}, hive_types_autocast = false, can_have_nan = true, "
        "utf8_validation = 'replace'"
    )
    source = f"read_parquet({files}, {how})"
    bodies: list[str] = []

    def bind(cursor: Any, columns: Sequence[str], once: bool) -> None:
        if not bodies:
            bodies.append(f"SELECT *{unusable(_coarse(cursor, files, source))} FROM {source}")
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS {bodies[0]}")

    bind.lasting = True  # type: ignore[attr-defined]  # a cursor sees the files for as long as it lives
    return bind


def _coarse(cursor: Any, files: str, source: str) -> list[str]:
    """The columns that count moments in milliseconds; refuses files whose types differ beyond safe conversion."""
    shown = {row[0]: row[1] for row in cursor.execute(f"DESCRIBE FROM {source}").fetchall()}
    declared = _declared(cursor, files)
    for name, kind in shown.items():
        found = {file[name.lower()][0] for file in declared if name.lower() in file}
        if not all(_converts(own, kind) for own in found):
            raise TableError(
                f"the Parquet files declare column {name!r} as {' and '.join(sorted(found))}, between which a conversion "
                "may fail by one row. Write the column alike in all files."
            )
    millis = {name for file in declared for name, (_, coarse) in file.items() if coarse}
    return [name for name, kind in shown.items() if kind.startswith("TIMESTAMP") and name.lower() in millis]


def _declared(cursor: Any, files: str) -> list[Mapping[str, tuple[str, bool]]]:
    """For each file its outermost columns: DuckDB's type, and whether moments are counted in milliseconds."""
    asked = "file_name, name, coalesce(num_children, 0), duckdb_type, concat(converted_type, logical_type)"
    rows = cursor.execute(f"SELECT {asked} FROM parquet_schema({files}) ORDER BY file_name, column_id").fetchall()
    found: dict[str, dict[str, tuple[str, bool]]] = {}
    left = 0  # inner fields still to come of the column at hand
    for file, name, children, kind, told in rows:
        if kind is None:  # the root
            found[file], left = {}, 0
        elif left:
            left += children - 1
        else:
            found[file][name.lower()] = (kind, bool(_MILLIS.search(told)))
            left = children
    return list(found.values())


def _converts(own: str, shown: str) -> bool:
    """Whether every cell of one type has its value in the other; nested types are not looked into, as none can be used."""
    if own == shown or shown == "VARCHAR" or shown.endswith("]") or shown.startswith(("STRUCT", "MAP", "UNION")):
        return True
    (digits, places), (room, finer) = _size(own), _size(shown)
    if shown in _FLOATS:
        return own in _FLOATS or digits > 0
    return 0 < digits <= room and places <= finer


def _size(kind: str) -> tuple[int, int]:
    """The digits before and after the point of an integer or decimal type; none for other types."""
    decimal = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
    if decimal is None:
        return _DIGITS.get(kind, 0), 0
    return max(1, int(decimal[1]) - int(decimal[2])), int(decimal[2])
