"""Tables in memory or behind another library's handle, shown to DuckDB through Arrow without copying where possible.

A pandas NaN is a missing value, as pandas itself means it; elsewhere NaN is NaN. A one-shot Arrow reader is read into
memory when the first question is asked. A column of objects is text, whatever it holds.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from steelyard.errors import TableError
from steelyard.tables._entries import texts_of
from steelyard.tables._kinds import check_names
from steelyard.tables._plain import SOURCE, Bind, unusable


def bind_pandas(frame: Any) -> Bind:
    """A pandas data frame; its index is not a column."""
    import pyarrow

    if not hasattr(frame, "columns"):
        raise TableError(f"a pandas {type(frame).__name__} is not a table; give a DataFrame.")
    if not all(isinstance(name, str) for name in frame.columns):
        raise TableError("the columns of a pandas DataFrame must be named by text.")
    check_names(list(frame.columns))
    loose = {name: text for name in frame.columns if (text := _loose(frame[name])) is not None}
    typed = frame.drop(columns=list(loose)) if loose else frame
    table = _typed(lambda: pyarrow.Table.from_pandas(typed, preserve_index=False))
    return _bind_object(_placed(table, loose, list(frame.columns)))


def bind_dict(arrays: Mapping[str, Any]) -> Bind:
    """A dictionary of equally long arrays or lists."""
    import pyarrow

    if not all(isinstance(name, str) for name in arrays):
        raise TableError("the columns of a dictionary must be named by text.")
    loose = {name: text for name, array in arrays.items() if (text := _loose(array)) is not None}
    typed = {name: array for name, array in arrays.items() if name not in loose}
    return _bind_object(_placed(_typed(lambda: pyarrow.table(typed)), loose, list(arrays)))


def _loose(column: Any) -> Any:
    """A column of objects or of text, as text; None where its type says what it holds.

    Categories of objects are objects too. Text that Arrow does not take (half a surrogate pair) is text all the same.
    """
    import pyarrow.compute

    dtype: Any = getattr(column, "dtype", None)
    if str(dtype) == "object":
        return _texts(column)
    if str(dtype) == "category" and str(dtype.categories.dtype) == "object":
        codes = pyarrow.array(getattr(column, "cat", column).codes)
        return _texts(dtype.categories).take(pyarrow.compute.if_else(pyarrow.compute.less(codes, 0), None, codes))
    if getattr(dtype, "kind", "") == "U" or getattr(dtype, "storage", "") == "python":
        with suppress(pyarrow.ArrowException, UnicodeError):
            return pyarrow.array(column)
        return _texts(column)
    return None


def _texts(column: Any) -> Any:
    """A column of objects as text, each entry by itself: read off the values, its type would hang on any one of them."""
    import pyarrow

    return pyarrow.array(texts_of(column), pyarrow.large_string())


def _placed(table: Any, loose: Mapping[str, Any], names: Sequence[str]) -> Any:
    """A table and its loose columns, in the order of the source."""
    import pyarrow

    held = {name: loose[name] if name in loose else table.column(name) for name in names}
    return _typed(lambda: pyarrow.table(held))


def bind_polars(frame: Any) -> Bind:
    """A Polars data frame, or a lazy one that is collected for each question, only the columns it needs."""
    if hasattr(frame, "collect_schema") and hasattr(frame, "collect"):
        empty = _typed(lambda: frame.clear().collect().to_arrow())
        return bind_stream(lambda columns: frame.select(columns).collect(engine="streaming").to_arrow(), empty)
    if not hasattr(frame, "to_arrow") or not hasattr(frame, "columns"):
        raise TableError(f"a Polars {type(frame).__name__} is not a table; give a DataFrame or a LazyFrame.")
    return _bind_object(_typed(frame.to_arrow))


def bind_arrow(source: Any) -> Bind:
    """An Arrow table, record batch, dataset, or one-shot reader."""
    import pyarrow
    import pyarrow.dataset

    if isinstance(source, pyarrow.RecordBatchReader):
        return _bind_reader(source)
    if isinstance(source, pyarrow.RecordBatch):
        source = pyarrow.Table.from_batches([source])
    if not isinstance(source, pyarrow.Table | pyarrow.dataset.Dataset):
        raise TableError(f"an Arrow {type(source).__name__} is not a table; give a Table, a Dataset or a reader.")
    return _bind_object(source)


def bind_relation(relation: Any) -> Bind:
    """A DuckDB relation: it runs on its own connection, and only the columns needed are brought over.

    They are streamed where one pass answers the question, and held in memory while it runs where two do.
    """
    if not hasattr(relation, "to_arrow_reader") or not hasattr(relation, "project"):
        raise TableError(f"a DuckDB {type(relation).__name__} is not a table; give a relation, such as con.table('t').")
    empty = relation.limit(0).to_arrow_table()

    def bind(cursor: Any, columns: Sequence[str], once: bool) -> None:
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        if not columns:
            cursor.register(SOURCE, empty)
        elif once:
            cursor.register(SOURCE, relation.project(quoted).to_arrow_reader(65_536))
        else:
            cursor.register(SOURCE, relation.project(quoted).to_arrow_table())

    return bind


def bind_stream(stream: Callable[[Sequence[str]], Any], empty: Any) -> Bind:
    """Something that can be asked for its columns, as an Arrow table; ``empty`` is one with its schema."""

    check_names(empty.schema.names)

    def bind(cursor: Any, columns: Sequence[str], once: bool) -> None:
        _show(cursor, stream(list(columns)) if columns else empty)

    return bind


def _bind_object(source: Any) -> Bind:
    """An Arrow table or dataset, of which only the columns needed are shown: DuckDB reads the first, if it needs none."""
    import pyarrow

    if isinstance(source, pyarrow.Table):
        return InMemory(source)
    return bind_stream(lambda columns: source.scanner(columns=columns), source.schema.empty_table())


class InMemory:
    """An Arrow table that is shown to DuckDB (``Bind``), and of which columns of numbers can be had without it."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._bind = bind_stream(table.select, table.schema.empty_table())

    def __call__(self, cursor: Any, columns: Sequence[str], once: bool) -> None:
        """Show the columns."""
        self._bind(cursor, columns, once)

    def numbers(self, columns: Sequence[str]) -> Any:
        """The columns as they are, where each is of a type that DuckDB hands out as it gets it; else None."""
        import pyarrow as pa

        same = (pa.float64(), pa.float32(), pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.bool_())
        found = self._table.select(list(columns))
        return found if all(kind in same for kind in found.schema.types) else None


def _show(cursor: Any, source: Any) -> None:
    """Register a source; seconds and milliseconds in a time zone become microseconds in DuckDB, and some have none."""
    schema = source.schema if hasattr(source, "schema") else source.projected_schema
    coarse = [field.name for field in schema if re.fullmatch(r"timestamp\[m?s, tz=.*\]", str(field.type))]
    cursor.register(f"{SOURCE}_given", source)
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS SELECT *{unusable(coarse)} FROM {SOURCE}_given")


def _bind_reader(reader: Any) -> Bind:
    lock = threading.Lock()
    held: list[Any] = []

    def stream(columns: Sequence[str]) -> Any:
        with lock:
            if not held:
                held.append(reader.read_all())
        return held[0].select(columns)

    return bind_stream(stream, reader.schema.empty_table())


def _typed(convert: Callable[[], Any]) -> Any:
    """Convert to Arrow; a column that has no one type is refused without a word about its values."""
    import pyarrow

    with suppress(pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        return convert()
    raise TableError("the source has no clear schema: make every column of equal length and of one plain type.")
