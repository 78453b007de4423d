"""Labels of a Parquet file, batch by batch: memory does not grow with the file.

One charge before the first row is read pays for the whole pass. The label column is replaced by the noisy one, every
other column is copied as it is (they are public where labels are what is hidden), and the result appears under its name
only when it is whole. The law: after the first row was read, no error depends on a label.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import ColumnMissing, InvalidTask, TableError

from .continuous import Nodes, read_labels
from .memo import digests
from .prior import count
from .randomizer import LabelRandomizer

BATCH = 1 << 18
FAILED = (
    "the file could not be read or written to its end; no noisy file was made and what was charged stays charged. The "
    "reason is not told, because it may depend on private labels. Check the file, memory and disk."
)


class LabelFile:
    """A Parquet file with a column of labels; opening it reads its public schema and number of rows only."""

    def __init__(self, source: str | os.PathLike[str], column: str, ids: str | None = None) -> None:
        import pyarrow
        import pyarrow.parquet

        try:
            self._file = pyarrow.parquet.ParquetFile(source, pre_buffer=False)  # a buffer would hold the whole file
        except (OSError, pyarrow.ArrowException):
            raise TableError(f"{os.fspath(source)} cannot be opened as a Parquet file.") from None
        self.column, self.ids, self.schema = column, ids, self._file.schema_arrow
        for name in (column, *([] if ids is None else [ids])):
            if name not in self.schema.names:
                raise ColumnMissing(name, self.schema.names)
        kind = self.schema.field(column).type
        types = pyarrow.types
        if not any(test(kind) for test in (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)):
            raise TableError(f"the label column {column!r} must hold numbers; it holds {kind}.")
        self.rows: int = self._file.metadata.num_rows

    def batches(self) -> Iterator[Any]:
        """Arrow record batches in the file's order."""
        return iter(self._file.iter_batches(BATCH))

    def labels(self, batch: Any) -> NDArray[np.float64]:
        """The labels of a batch as floats; nulls are NaN."""
        import pyarrow

        return read_labels(batch.column(self.column).cast(pyarrow.float64(), safe=False))

    def counts(self, nodes: Nodes, missing: float | None) -> NDArray[np.int64]:
        """How many labels are nearest to each node: private, fit for buying a prior alone."""
        with suppress(Exception):  # law 4: a damaged file must not say which label it broke at
            return sum(
                (count(nodes, self.labels(batch), missing) for batch in self.batches()),
                np.zeros(len(nodes.labels), dtype=np.int64),
            )
        raise TableError(FAILED)


def randomize_parquet(
    randomizer: LabelRandomizer,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    column: str,
    *,
    ids: str | None = None,
    key: str | None = None,
) -> int:
    """Copy a Parquet file with its labels made private; returns the number of rows.

    *Privacy:* one charge for the file; with ``ids`` one charge for all files of the collection ``key``, and each record
    is drawn once. *Cost:* flat memory without ids; twenty bytes per record with them.
    """
    file = LabelFile(source, column, ids)
    if randomizer.groups_ is not None:
        raise InvalidTask("files are randomized without groups; read the groups and labels and use transform.")
    if randomizer.applied_.missing is None:
        raise InvalidTask("a file may hold missing labels: fit the randomizer with missing= (a public value).")
    if ids is None and key is not None:
        raise InvalidTask("a key names a collection of records, which needs ids.")
    if Path(target).exists():
        raise InvalidTask(f"{os.fspath(target)} exists; noisy labels are not written over anything.")
    paid = randomizer._open_pass(key, records=ids is not None, size=file.rows)
    part = Path(f"{os.fspath(target)}.part")
    try:
        with suppress(Exception):  # law 4: what goes wrong from here on may depend on a label
            _copy(file, paid, part)
            os.replace(part, target)
            return file.rows
    finally:
        part.unlink(missing_ok=True)
    raise TableError(FAILED)


def _copy(file: LabelFile, paid: Any, part: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    place = file.schema.get_field_index(file.column)
    field = pyarrow.field(file.column, pyarrow.float64(), nullable=False)
    schema = file.schema.set(place, field).remove_metadata()  # a frame's metadata may hold statistics of the labels
    with pyarrow.parquet.ParquetWriter(part, schema) as writer:
        for batch in file.batches():
            keys = None if file.ids is None else digests(batch.column(file.ids))
            noisy = pyarrow.array(paid.noisy(file.labels(batch), keys))
            columns = [noisy if i == place else batch.column(i) for i in range(batch.num_columns)]
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))
