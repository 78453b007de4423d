"""Rows of a Parquet or CSV file in batches, and how batches are written again: for files whose label column is to be replaced.

A CSV file says no types, and guessing them would let one label decide how all are read: every column of it is text, and a label is the
number that its text spells. Batches hold a fixed number of rows, however long the labels in them are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from steelyard.errors import TableError
from steelyard.tables import is_csv

BATCH = 1 << 18


class ParquetRows:
    """A Parquet file: its schema and number of rows are in its footer."""

    def __init__(self, source: str | os.PathLike[str]) -> None:
        import pyarrow
        import pyarrow.parquet

        try:
            self._file = pyarrow.parquet.ParquetFile(source, pre_buffer=False)  # a buffer would hold the whole file
        except (OSError, pyarrow.ArrowException):
            raise TableError(f"{os.fspath(source)} cannot be opened as a Parquet file.") from None
        self.schema, self.rows = self._file.schema_arrow, int(self._file.metadata.num_rows)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Arrow record batches in the file's order."""
        return iter(self._file.iter_batches(BATCH, columns=columns))


class CsvRows:
    """A CSV file with a header; all its columns are text. Opening it counts its rows, which are public here."""

    def __init__(self, source: str | os.PathLike[str]) -> None:
        import pyarrow
        import pyarrow.csv

        self._source = os.fspath(source)
        try:
            with pyarrow.csv.open_csv(self._source, convert_options=self._texts(None)) as opened:
                names = opened.schema.names
            self.schema = pyarrow.schema([(name, pyarrow.string()) for name in names])
            self.rows = sum(batch.num_rows for batch in self._read(names[:1]))
        except (OSError, pyarrow.ArrowException):
            raise TableError(
                f"{self._source} cannot be read as a CSV file with a header and rows of one length."
            ) from None

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Arrow record batches in the file's order, each but the last of the same number of rows."""
        import pyarrow

        held: list[Any] = []
        for part in self._read(list(columns or self.schema.names)):
            held.append(part)
            while sum(batch.num_rows for batch in held) >= BATCH:
                table = pyarrow.Table.from_batches(held).combine_chunks()
                yield table.slice(0, BATCH).to_batches()[0]
                held = table.slice(BATCH).to_batches()
        if held and sum(batch.num_rows for batch in held):
            yield pyarrow.Table.from_batches(held).combine_chunks().to_batches()[0]

    def _read(self, columns: list[str]) -> Iterator[Any]:
        import pyarrow.csv

        with pyarrow.csv.open_csv(self._source, convert_options=self._texts(columns)) as opened:
            yield from opened

    def _texts(self, columns: list[str] | None) -> Any:
        import pyarrow
        import pyarrow.csv

        kinds = {name: pyarrow.string() for name in (columns or [])}
        return pyarrow.csv.ConvertOptions(column_types=kinds, include_columns=columns, strings_can_be_null=False)


def open_rows(source: str | os.PathLike[str]) -> ParquetRows | CsvRows:
    """The rows of a file, by its name: CSV, or else Parquet."""
    return CsvRows(source) if is_csv(source) else ParquetRows(source)


def open_writer(part: Path, schema: Any) -> Any:
    """Where batches are written: CSV, or else Parquet."""
    import pyarrow.csv
    import pyarrow.parquet

    if is_csv(part):
        return pyarrow.csv.CSVWriter(part, schema)
    return pyarrow.parquet.ParquetWriter(part, schema)
