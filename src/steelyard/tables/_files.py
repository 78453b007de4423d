"""Parquet and CSV files, read where they lie.

Parquet is streamed with only the columns a question needs. CSV is read as text, and a column whose type is stated is
converted by a cast that gives null where it cannot, so no cell can be an error. Names come from the header line alone, or are given:
no type is guessed, because a guess looks at rows and one person's cell would change the schema for everybody. A first line that
holds a number or a day is taken for somebody's row, whose cells no message may show, and is refused.
"""

from __future__ import annotations

import csv
import glob
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from steelyard.errors import ColumnMissing, InvalidTask, TableError
from steelyard.tables._kinds import literal, quoted
from steelyard.tables._parquet import bind_parquet
from steelyard.tables._plain import SOURCE, Bind

_FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}
_SCANNED = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv"}
_CSV_TYPES = {"integer": "BIGINT", "float": "DOUBLE", "boolean": "BOOLEAN", "string": "VARCHAR"}
_OPTIONS = ("format", "types", "delimiter", "names", "header")
_DATUM = re.compile(
    r"\s*[+-]?(\d[\d.,:/ T-]*|\.\d+)([eE][+-]?\d+)?(%|Z)?\s*|[^@\s]+@[^@\s]+\.[^@\s]+"
)  # a number, a day, an address
_HEADER = 1 << 20  # no header line is longer
_ELSEWHERE = {
    **dict.fromkeys(
        (".xlsx", ".xls", ".xlsm", ".ods"),
        "an Excel workbook: read it with pandas.read_excel(path) and give the frame, or save its sheet as CSV",
    ),
    **dict.fromkeys(
        (".json", ".jsonl", ".ndjson"),
        "JSON, which states no columns: read it with pandas.read_json(path) and give the frame, or save it as Parquet",
    ),
    **dict.fromkeys(
        (".feather", ".arrow", ".ipc"),
        "an Arrow file: read it with pyarrow.feather.read_table(path) and give the table",
    ),
    **dict.fromkeys(
        (".db", ".sqlite", ".sqlite3", ".duckdb"), "a database: write sqlite:///path::table or duckdb:///path::table"
    ),
    **dict.fromkeys(
        (".sas7bdat", ".dta", ".sav", ".orc", ".avro"),
        "of a kind that is not read here: read it with pandas and give the frame",
    ),
}
"""What to do with files that are neither Parquet nor CSV, by how their names end."""
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def is_csv(source: object) -> bool:
    """Whether a path or a glob names CSV files, by its name."""
    return isinstance(source, str | os.PathLike) and _FORMATS.get(Path(_plain_name(os.fspath(source))).suffix) == "csv"


def bind_files(paths: Sequence[str | os.PathLike[str]], options: Mapping[str, Any]) -> Bind:
    """Make files visible; they must exist and all have one format."""
    unknown = set(options) - set(_OPTIONS)
    if unknown:
        raise TableError(f"unknown options {', '.join(sorted(unknown))}; files take {', '.join(_OPTIONS)}.")
    found = [file for path in paths for file in expand(os.fspath(path))]
    chosen = options.get("format") or _format(found)
    if chosen == "csv":
        body = _csv(found, options)
    elif chosen == "parquet" and not any(options.get(name) for name in _OPTIONS[1:]):
        return bind_parquet(_list(found), len(found) > 1)
    elif chosen == "parquet":
        raise TableError(f"a Parquet file declares its own types; {', '.join(_OPTIONS[1:])} are for CSV.")
    else:
        raise TableError(f"the format must be 'parquet' or 'csv'; got {chosen!r}.")

    def bind(cursor: Any, columns: Sequence[str], once: bool) -> None:
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS {body}")

    return bind


def _delimiter(path: str, options: Mapping[str, Any]) -> str:
    """What stands between the cells of a CSV file: as it is told, or as its name tells; the header line says when that cannot be."""
    given = options.get("delimiter")
    if given is not None:
        if not isinstance(given, str) or len(given) != 1 or given in '"\r\n':
            raise TableError(f"delimiter must be one character, such as ';'; got {given!r:.40}.")
        return given
    usual = "\t" if _plain_name(path).endswith(".tsv") else ","
    names = [] if options.get("names") is not None else _header(path, usual)
    if len(names) == 1:
        for mark, called in _OTHER_DELIMITERS.items():
            if mark != usual and mark in names[0]:
                _check_header(names[0].split(mark), options)
                raise TableError(
                    f"the header line {names[0]!r:.80} holds {called} and no {'comma' if usual == ',' else 'tab'}. Say delimiter={mark!r} "
                    f"(--delimiter {mark!r}), or delimiter={usual!r} if it is one name."
                )
    return usual


def _check_header(names: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse, without a word of it, a first line that reads like a row."""
    if not options.get("header") and any(map(_DATUM.fullmatch, names)):
        raise TableError(
            "the first line of the CSV file holds a number, a day or an address where names should stand. If it is a row, give the names: "
            "names=['user', 'amount', ...] (--names user,amount,...). If they are names, say header=True (--header)."
        )


def _names(paths: Sequence[str], delimiter: str, options: Mapping[str, Any]) -> list[str]:
    """The names of the columns: as given, for files without a header line, or from the one that all files have."""
    given = options.get("names")
    if given is not None:
        if isinstance(given, str) or not given or not all(isinstance(name, str) and name for name in given):
            raise TableError("names is a list of names, one for each column of a CSV file without a header line.")
        if options.get("header"):
            raise TableError("header=True says that the first line names the columns; leave names out, or it.")
        return list(given)
    names = _header(paths[0], delimiter)
    _check_header(names, options)
    if any(_header(path, delimiter) != names for path in paths[1:]):
        raise TableError("the CSV files do not have one header line; read those of one kind at a time.")
    return names


def scan(source: str) -> Any:
    """The rows of Parquet or CSV files in their order, as an Arrow dataset: for whoever holds the rows, never for an analyst.

    A glob's files come in the order of their names. The types of a CSV file's columns are guessed.
    """
    import pyarrow
    from pyarrow import dataset

    files = [source] if os.path.isfile(source) else sorted(filter(os.path.isfile, glob.glob(source, recursive=True)))
    kinds = {_SCANNED.get(Path(file).suffix.lower()) for file in files}
    if not files or len(kinds) != 1 or None in kinds:
        raise TableError(f"no Parquet or CSV file can be read at {source!r}; several must be of one kind.")
    try:
        return dataset.dataset(files, format=kinds.pop())
    except (OSError, pyarrow.ArrowInvalid):
        raise TableError(f"{source!r} cannot be read as a table.") from None


def read_column(path: str, column: str | None, *, as_written: bool = False, beside: str | None = None) -> Any:
    """One column of a CSV, Parquet or .npy file, as an array; errors name the file and never a row.

    Without a name it is the file's only column, ``beside`` another that is known.
    ``as_written``: as it stands in the file, a column whose type hangs on no row. (A CSV file has no types: all is bytes.)
    """
    import numpy as np

    kind = Path(path).suffix.lower()
    if kind not in (*_SCANNED, ".npy"):
        raise InvalidTask(f"{path} must be a .csv, .parquet or .npy file.")
    if kind == ".npy" and beside is not None:
        raise InvalidTask(f"{path} is one array and has no column {beside!r}.")
    try:
        if kind == ".npy":
            return np.load(path, allow_pickle=False)
        table = _whole_csv(path, as_written) if kind == ".csv" else _whole_parquet(path)
    except FileNotFoundError:
        raise InvalidTask(f"there is no file {path}.") from None
    except (EOFError, OSError, ValueError) as problem:
        raise InvalidTask(f"{path} cannot be read as {kind} ({type(problem).__name__}).") from None
    names = [name for name in table.column_names if column is not None or name != beside]
    if column is None and len(names) != 1:
        raise InvalidTask(f"{path} has {len(names)} columns; say which one: {', '.join(names[:20])}.")
    if column is not None and column not in names:
        raise InvalidTask(f"{path} has no column {column!r}; it has {', '.join(names[:20])}.")
    found = table.column(column or names[0])
    return found if as_written else found.to_numpy()


def _whole_parquet(path: str) -> Any:
    from pyarrow import parquet

    return parquet.read_table(path)


def _whole_csv(path: str, as_written: bool) -> Any:
    from pyarrow import csv as arrow_csv

    parse = arrow_csv.ParseOptions(ignore_empty_lines=False)
    names = arrow_csv.open_csv(path, parse_options=parse).schema.names if as_written else []
    kinds = arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, "binary"))
    return arrow_csv.read_csv(path, parse_options=parse, convert_options=kinds)


def expand(path: str) -> list[str]:
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
    formats = {_FORMATS.get(Path(_plain_name(path)).suffix) for path in paths}
    for path in paths:
        advice = _ELSEWHERE.get(Path(_plain_name(path)).suffix)
        if advice is not None:
            raise TableError(f"{os.path.basename(path)!r} is {advice}.")
    if len(formats) != 1 or None in formats:
        raise TableError(
            "cannot tell the format from the file names; say format='parquet' or format='csv' (--format csv)."
        )
    return str(formats.pop())


def _plain_name(path: str) -> str:
    return path.lower().removesuffix(".gz").removesuffix(".zst")


def _csv(paths: Sequence[str], options: Mapping[str, Any]) -> str:
    delimiter, types = _delimiter(paths[0], options), options.get("types") or {}
    names, given = _names(paths, delimiter, options), options.get("names") is not None
    for name, kind in types.items():
        if name not in names:
            raise ColumnMissing(name, names)
        if kind not in _CSV_TYPES:
            raise TableError(f"the type of column {name!r} must be one of {', '.join(_CSV_TYPES)}; got {kind!r}.")
    columns = ", ".join(_cell(name, types.get(name, "string"), first=name == names[0]) for name in names)
    texts = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    dialect = f"""header = {"false" if given else "true"}, delim = {literal(delimiter)}, quote = '"', escape = '"', null_padding = false"""
    # no row is an error: one that does not fit the header is skipped. Threads that begin in the middle of a file would take
    # a line within quotes for a row, and drop what other people have up to the next of them
    how = f"ignore_errors = true, strict_mode = false, auto_detect = false, parallel = false, columns = {{{texts}}}"
    return f"SELECT {columns} FROM read_csv({_list(paths)}, {dialect}, {how})"


def _cell(name: str, kind: str, *, first: bool) -> str:
    """A column as its stated type. The trim keeps the cast out of DuckDB's reader, which drops rows that do not fit.

    A row that ends in a carriage return too many leaves a line end in front of the next person's first cell.
    """
    column = quoted(name)
    text = f"ltrim({column}, chr(13) || chr(10))" if first else column
    return f"{text} AS {column}" if kind == "string" else f"TRY_CAST(trim({text}) AS {_CSV_TYPES[kind]}) AS {column}"


def _header(path: str, delimiter: str) -> list[str]:
    """The names in a file's first line; no other line is looked at."""
    import pyarrow

    names: list[str] = []
    with suppress(OSError, UnicodeDecodeError, csv.Error, StopIteration, pyarrow.ArrowInvalid):
        with pyarrow.input_stream(path, compression="detect") as stream:
            start = stream.read(_HEADER)
        line = start.replace(b"\r", b"\n").partition(b"\n")[0]
        if len(line) < _HEADER:
            names = next(csv.reader([line.decode("utf-8-sig")], delimiter=delimiter, strict=True))
    if not names or not all(names):
        raise TableError(
            "the CSV file has no columns. It needs a header line that names each, even when it has no rows."
        )
    return names


def _list(paths: Sequence[str]) -> str:
    """The files as DuckDB takes them; it would look for patterns in their names once more."""
    return "[" + ", ".join(literal(re.sub(r"[*?\[]", r"[\g<0>]", path)) for path in paths) + "]"
