"""Parquet and CSV files, read where they lie.

Parquet is streamed with only the columns a question needs. CSV is read as text and each column converted by a cast
that gives null where it cannot, so no cell can be an error. Column types are the schema, hence public: give ``types``
where the first rows may mislead, or where there are none.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from steelyard.errors import ColumnMissing, TableError
from steelyard.tables.engine import SOURCE, Bind

_FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}
_CSV_TYPES = {"integer": "BIGINT", "float": "DOUBLE", "boolean": "BOOLEAN", "string": "VARCHAR"}
_CSV_SNIFF = "auto_type_candidates = ['BOOLEAN', 'BIGINT', 'DOUBLE', 'VARCHAR']"


def bind_files(paths: Sequence[str | os.PathLike[str]], options: Mapping[str, Any]) -> Bind:
    """Make files visible; they must exist and all have one format."""
    unknown = set(options) - {"format", "types", "delimiter"}
    if unknown:
        raise TableError(f"unknown options {', '.join(sorted(unknown))}; files take format, types and delimiter.")
    found = [file for path in paths for file in _expand(os.fspath(path))]
    chosen = options.get("format") or _format(found)
    types = options.get("types") or {}
    if chosen == "csv":
        body = _csv(found, types, options.get("delimiter") or ("\t" if ".tsv" in found[0] else ","))
    elif chosen == "parquet" and not (types or "delimiter" in options):
        body = f"SELECT * FROM read_parquet({_list(found)}, union_by_name = {str(len(found) > 1).lower()})"
    elif chosen == "parquet":
        raise TableError("a Parquet file declares its own types; types and delimiter are for CSV.")
    else:
        raise TableError(f"the format must be 'parquet' or 'csv'; got {chosen!r}.")

    def bind(cursor: Any, columns: Sequence[str], once: bool) -> None:
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS {body}")

    return bind


def _expand(path: str) -> list[str]:
    """The files a path, a folder or a glob names, in a fixed order."""
    if "://" in path:
        raise TableError(
            f"{path!r} is a remote address. Copy the files to this machine, "
            "or pass an Arrow dataset or a DuckDB relation."
        )
    where = os.path.expanduser(path)
    if os.path.isdir(where):
        found = sorted(map(str, Path(where).rglob("*.parquet")))
        if not found:
            raise TableError(f"the folder {path!r} holds no .parquet files; name the files, or give a glob.")
        return found
    found = [where] if os.path.isfile(where) else sorted(filter(os.path.isfile, glob.glob(where, recursive=True)))
    if not found:
        raise TableError(f"there is no file {path!r} (seen from {os.getcwd()}). Check the path or the glob.")
    return found


def _format(paths: Sequence[str]) -> str:
    formats = {_FORMATS.get(Path(path.removesuffix(".gz").removesuffix(".zst")).suffix.lower()) for path in paths}
    if len(formats) != 1 or None in formats:
        raise TableError("cannot tell the format from the file names; say format='parquet' or format='csv'.")
    return str(formats.pop())


def _csv(paths: Sequence[str], types: Mapping[str, str], delimiter: str) -> str:
    sniffed = _sniff(paths, delimiter)
    for name, kind in types.items():
        if name not in sniffed:
            raise ColumnMissing(name, list(sniffed))
        if kind not in _CSV_TYPES:
            raise TableError(f"the type of column {name!r} must be one of {', '.join(_CSV_TYPES)}; got {kind!r}.")
        sniffed[name] = _CSV_TYPES[kind]
    casts = ", ".join(f"TRY_CAST({_quoted(name)} AS {kind}) AS {_quoted(name)}" for name, kind in sniffed.items())
    texts = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in sniffed)
    how = f"auto_detect = false, columns = {{{texts}}}"
    return f"SELECT {casts} FROM {_reader(paths, delimiter, how)}"


def _reader(paths: Sequence[str], delimiter: str, how: str) -> str:
    """One fixed dialect, and no row that is an error: rows that do not fit the header are skipped."""
    dialect = f"""header = true, delim = {_text(delimiter)}, quote = '"', escape = '"'"""
    return (
        f"read_csv({_list(paths)}, {dialect}, null_padding = false, ignore_errors = true, strict_mode = false, {how})"
    )


def _sniff(paths: Sequence[str], delimiter: str) -> dict[str, str]:
    """Names from the header, types from the first rows."""
    import duckdb

    described: list[tuple[Any, ...]] = []
    if any(os.path.getsize(path) for path in paths):
        with duckdb.connect(":memory:") as connection, suppress(duckdb.Error):
            described = connection.execute(f"DESCRIBE FROM {_reader(paths, delimiter, _CSV_SNIFF)}").fetchall()
    if not described:
        raise TableError("the CSV file has no columns. It needs a header line, even when it has no rows.")
    return {row[0]: row[1] for row in described}


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _list(paths: Sequence[str]) -> str:
    return "[" + ", ".join(map(_text, paths)) + "]"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
