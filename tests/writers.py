"""One Arrow table in every guise that ``read`` takes: each writer of Parquet, each database, each frame, and a file that lies.

Every entry of ``SOURCES`` puts the rows somewhere (in a folder, where it needs one) and gives what to pass to ``read``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

Writer = Callable[[pa.Table, Path], Any]


def by_pyarrow(table: pa.Table, folder: Path, **options: Any) -> Path:
    pq.write_table(table, folder / "arrow.parquet", **{"row_group_size": 50, **options})
    return folder / "arrow.parquet"


def by_polars(table: pa.Table, folder: Path) -> Path:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(folder / "polars.parquet", row_group_size=50, statistics="full")
    return folder / "polars.parquet"


def by_pandas(table: pa.Table, folder: Path) -> Path:
    table.to_pandas(types_mapper=pd.ArrowDtype).to_parquet(folder / "pandas.parquet", row_group_size=50)
    return folder / "pandas.parquet"


def by_duckdb(table: pa.Table, folder: Path) -> Path:
    with duckdb.connect() as connection:
        connection.register("source", table)
        connection.execute(f"COPY (FROM source) TO '{folder}/duck.parquet' (FORMAT parquet, ROW_GROUP_SIZE 50)")
    return folder / "duck.parquet"


def lazily(table: pa.Table, folder: Path) -> Any:
    return pl.scan_parquet(by_polars(table, folder))


def dataset(table: pa.Table, folder: Path) -> Any:
    return pyarrow.dataset.dataset(by_pyarrow(table, folder))


def relation(table: pa.Table, folder: Path) -> Any:
    return duckdb.connect().sql(f"SELECT * FROM '{by_pyarrow(table, folder)}'")


def duckdb_table(table: pa.Table, folder: Path) -> str:
    with duckdb.connect(str(folder / "t.db")) as connection:
        connection.register("source", table)
        connection.execute("CREATE TABLE t AS FROM source")
    return f"duckdb:///{folder}/t.db::t"


def duckdb_view(table: pa.Table, folder: Path) -> str:
    with duckdb.connect(str(folder / "v.db")) as connection:
        connection.execute(f"CREATE VIEW v AS SELECT * FROM read_parquet('{by_pyarrow(table, folder)}')")
    return f"duckdb:///{folder}/v.db::v"


def collated(table: pa.Table, folder: Path) -> str:
    """The same with texts whose letters count alike, large or small."""
    with duckdb.connect(str(folder / "c.db")) as connection:
        connection.register("source", table)
        described = connection.execute("DESCRIBE source").fetchall()
        columns = [f'"{row[0]}" {row[1]}{" COLLATE NOCASE" if row[1] == "VARCHAR" else ""}' for row in described]
        connection.execute(f"CREATE TABLE t ({', '.join(columns)})")
        connection.execute("INSERT INTO t FROM source")
    return f"duckdb:///{folder}/c.db::t"


def sqlite(table: pa.Table, folder: Path) -> str:
    """SQLite has no NaN (it is null there); decimals and dates are text there, and what is no date is just a text."""
    columns = ", ".join(f'"{field.name}" {_declared(field.type)}' for field in table.schema)
    held = list(zip(*(_cells(column) for column in table.columns), strict=True))
    with closing(sqlite3.connect(folder / "q.db")) as connection:
        connection.execute(f"CREATE TABLE t ({columns})")
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * table.num_columns)})", held)
        connection.commit()
    return f"sqlite:///{folder}/q.db::t"


def _declared(kind: Any) -> str:
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return {"int64": "INTEGER", "double": "REAL", "float": "REAL", "date32[day]": "DATE"}.get(
        str(kind), "TEXT COLLATE NOCASE"
    )


def _cells(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_date32(column.type):
        return [_day(value) for value in column.cast(pa.int32()).to_pylist()]
    values = column.to_pylist()
    return [None if value is None else str(value) for value in values] if pa.types.is_decimal(column.type) else values


def _day(value: int | None) -> str | None:
    fits = value is not None and -719_162 <= value <= 2_932_896
    return str(date(1970, 1, 1) + timedelta(days=value or 0)) if fits else None if value is None else f"day {value}"


def lying(table: pa.Table, folder: Path) -> Path:
    """The rows under the statistics of others: a file of rows that are all alike, exchanged in place. Holds no nulls."""
    path = by_pyarrow(_alike(table), folder, use_dictionary=False, compression="NONE")
    content, about = bytearray(path.read_bytes()), pq.read_metadata(path)
    for group in range(about.num_row_groups):
        rows = table.slice(50 * group, about.row_group(group).num_rows)
        for i, column in enumerate(rows.columns):
            chunk, body = about.row_group(group).column(i), _plainly(column)
            end = chunk.data_page_offset + chunk.total_compressed_size
            content[end - len(body) : end] = body
    (folder / "lying.parquet").write_bytes(content)
    return folder / "lying.parquet"


def _alike(table: pa.Table) -> pa.Table:
    """As many rows, each the same, but for texts, which are as long as they were."""
    columns: dict[str, list[Any]] = {}
    for field in table.schema:
        if pa.types.is_string(field.type):
            columns[field.name] = ["z" * len(text.encode()) for text in table[field.name].to_pylist()]
        else:
            columns[field.name] = [Decimal(7) if pa.types.is_decimal(field.type) else 7] * len(table)
    return pa.table(columns, schema=table.schema)


def _plainly(column: pa.ChunkedArray) -> bytes:
    """Values as Parquet's plain encoding writes them."""
    if pa.types.is_string(column.type):
        texts = [text.encode() for text in column.to_pylist()]
        return b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    if pa.types.is_decimal(column.type):
        wholes = [int(value.scaleb(column.type.scale)) for value in column.to_pylist()]
        return b"".join(whole.to_bytes(16, "big", signed=True) for whole in wholes)
    return bytes(column.to_numpy().tobytes())


SOURCES: dict[str, Writer] = {
    "an Arrow table": lambda table, folder: table,
    "Parquet by pyarrow": by_pyarrow,
    "Parquet by polars": by_polars,
    "Parquet by pandas": by_pandas,
    "Parquet by DuckDB": by_duckdb,
    "an Arrow dataset": dataset,
    "a lazy frame": lazily,
    "a polars frame": lambda table, folder: pl.from_arrow(table),
    "a pandas frame": lambda table, folder: table.to_pandas(types_mapper=pd.ArrowDtype),
    "a DuckDB relation": relation,
    "a table in a DuckDB file": duckdb_table,
    "a collated table in a DuckDB file": collated,
    "a view in a DuckDB file": duckdb_view,
    "a table in a SQLite file": sqlite,
}
