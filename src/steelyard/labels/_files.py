"""Labels of a Parquet or CSV file, batch by batch: memory does not grow with the file.

One charge before the first row is read pays for the whole pass. The label column is replaced by the noisy one, every
other column is copied as it is (they are public where labels are what is hidden), and the result appears under its name
only when it is whole. The law: after the first row was read, no error depends on a label.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import ColumnMissing, InvalidTask, TableError
from steelyard.interrupts import attempt
from steelyard.labels._nodes import Nodes
from steelyard.labels._prior import ALL, count
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.labels._records import Collection, Pass, beside, check_once, digests, read_groups
from steelyard.labels._row_files import CsvRows, open_rows, open_writer
from steelyard.tables import is_csv, numbers_of

FAILED = (
    "the file could not be read or written to its end; no noisy file was made and what was charged stays charged. The "
    "reason is not told, because it may depend on private labels. Check the file, memory and disk."
)


class LabelFile:
    """A Parquet or CSV file with a column of labels; opening it reads its public schema and number of rows only."""

    def __init__(
        self, source: str | os.PathLike[str], column: str, ids: str | None = None, groups: str | None = None
    ) -> None:
        import pyarrow

        self._file = open_rows(source)
        self.column, self.ids, self.group_column, self.schema = column, ids, groups, self._file.schema
        for name in (column, *(other for other in (ids, groups) if other is not None)):
            if name not in self.schema.names:
                raise ColumnMissing(name, self.schema.names)
            if self.schema.names.count(name) > 1:
                raise TableError(f"the file has several columns {name!r}; nothing was charged.")
        if column in (ids, groups):
            raise InvalidTask("the label column cannot name records or groups: labels are what is hidden.")
        kind = self.schema.field(column).type
        types = pyarrow.types
        numeric = any(test(kind) for test in (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean))
        self._spelled = isinstance(self._file, CsvRows)
        if not numeric and not self._spelled:
            raise TableError(f"the label column {column!r} must hold numbers; it holds {kind}.")
        self.rows: int = self._file.rows

    def batches(self) -> Iterator[Any]:
        """Arrow record batches in the file's order."""
        return self._file.batches()

    def known_groups(self) -> tuple[str, ...]:
        """The public groups that occur, in order; reads the group column and nothing else."""
        if self.group_column is None:
            return ALL
        return tuple(sorted({name for part in self._public(self.group_column) for name in read_groups(part.unique())}))

    def check_ids(self) -> None:
        """Refuse record ids that are none, or that come twice; reads the public column of ids and nothing else."""
        if self.ids is not None:
            found = [digests(part) for part in self._public(self.ids)]
            check_once(np.concatenate(found) if found else None)

    def _public(self, column: str) -> Iterator[Any]:
        """The parts of a public column, read before anything is charged."""
        import pyarrow

        try:
            for batch in self._file.batches([column]):
                yield batch.column(0)
        except (OSError, pyarrow.ArrowException):
            raise TableError(f"the column {column!r} cannot be read; nothing was charged.") from None

    def columns(self, batch: Any, known: tuple[str, ...]) -> NDArray[np.float64]:
        """The labels of a batch as floats, nulls as NaN; with groups, beside the numbers of theirs."""
        held = batch.column(self.column)
        values = numbers_of(held.to_pylist() if self._spelled else held)
        if self.group_column is None:
            return values
        return beside(values, read_groups(batch.column(self.group_column)) if len(values) else [], known)

    def counts(self, nodes: Nodes, missing: float | None, known: tuple[str, ...] = ALL) -> NDArray[np.int64]:
        """How many labels (of each group) are nearest to each node: private, fit for buying a prior alone."""
        total = np.zeros(len(nodes.labels) * len(known), dtype=np.int64)
        for batch in self.batches():
            total += count(nodes, self.columns(batch, known), missing, len(known))
        return total


def randomize_parquet(
    randomizer: LabelRandomizer,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    column: str,
    *,
    ids: str | None = None,
    groups: str | None = None,
    key: str | None = None,
) -> int:
    """Copy a Parquet or CSV file with its labels made private, as the kind of file that ``target`` names; returns the number of rows.

    ``groups`` names the column of public groups where the randomizer was fitted with groups.
    *Privacy:* one charge for the file; with ``ids`` one charge for all files of the collection ``key``, and each record
    is drawn once. *Cost:* flat memory without ids; twenty bytes per record with them.
    """
    file = LabelFile(source, column, ids, groups)
    if (groups is None) != (randomizer.groups_ is None):
        raise InvalidTask("a randomizer fitted with groups needs the file's column of groups, and no other does.")
    known, found = tuple(randomizer.groups_ or ALL), file.known_groups()
    beside(np.zeros(len(found)), list(found), known)  # a group that has no mechanism is told before anything is charged
    if randomizer._sampler.first.missing is None:
        raise InvalidTask("a file may hold missing labels: fit the randomizer with missing= (a public value).")
    if ids is None and key is not None:
        raise InvalidTask("a key names a collection of records, which needs ids.")
    if os.path.lexists(target):
        raise InvalidTask(f"{os.fspath(target)} exists; noisy labels are not written over anything.")
    file.check_ids()
    part = _reserved(target)
    try:
        paid = randomizer._open_pass(key, records=ids is not None, size=file.rows)
        if attempt(lambda: _copy(file, paid, part, known)) is None:
            raise TableError(FAILED)  # law 4: what went wrong may depend on a label
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _deliver(part, target)
    return file.rows


def _reserved(target: str | os.PathLike[str]) -> Path:
    """A new file beside the target, with a name nobody could plant a link under, made before anything is paid for."""
    try:
        held, name = tempfile.mkstemp(
            prefix=".steelyard-", suffix=".csv" if is_csv(target) else ".parquet", dir=Path(target).absolute().parent
        )
    except OSError as problem:
        raise InvalidTask(f"{os.fspath(target)} cannot be written ({problem.strerror}); nothing was charged.") from None
    os.close(held)
    return Path(name)


def _deliver(part: Path, target: str | os.PathLike[str]) -> None:
    """Give the whole file its name; it is paid for, so where the name cannot be had it stays, and the error says where."""
    try:
        try:
            os.link(part, target)  # unlike a move, never over a file that came meanwhile
        except FileExistsError:
            raise
        except OSError:  # no links on this file system: take the name first, then move
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.replace(part, target)
    except OSError as problem:
        raise TableError(
            f"{os.fspath(target)} could not be made ({problem.strerror}). The noisy labels are paid for and whole, in {part}."
        ) from None
    part.unlink(missing_ok=True)


def _copy(file: LabelFile, paid: Pass | Collection, part: Path, known: tuple[str, ...]) -> None:
    import pyarrow

    place = file.schema.get_field_index(file.column)
    field = pyarrow.field(file.column, pyarrow.float64(), nullable=False)
    schema = file.schema.set(place, field).remove_metadata()  # a frame's metadata may hold statistics of the labels
    with open_writer(part, schema) as writer:
        for batch in file.batches():
            keys = None if file.ids is None else digests(batch.column(file.ids))
            noisy = pyarrow.array(paid.noisy(file.columns(batch, known), keys))
            columns = [noisy if i == place else batch.column(i) for i in range(batch.num_columns)]
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))
