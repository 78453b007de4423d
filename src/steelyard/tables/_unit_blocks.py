"""Rows kept, unit by unit, for a method that passes over them many times, in memory of a fixed size.

A batch of rows becomes whole numbers of 32 bits once; what is kept are blocks of them in which each unit's rows lie together.
They stay in memory while they are few; then they go to a file that has no name any more and is gone with the process. Spark
keeps them on its workers' disks, divided by unit, and a pass runs there.
Law: a pass is a sum over units of a function of each unit's rows alone; where a block ends must show in nothing.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from steelyard.errors import TableError
from steelyard.interrupts import attempt
from steelyard.tables._folding import Step, added, read_back, widened, written
from steelyard.tables._quiet_spark import quiet_spark

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Block = tuple[NDArray[np.int32], NDArray[np.bool_]]
    """Rows of whole numbers, and which of them are the first of a unit."""

Convert = Callable[[Any], Any]
"""From an Arrow batch to a matrix of whole numbers, a row each; total."""
Pass = Callable[[Iterator[Any]], Sequence[Any]]
"""From all blocks of some units, in order, to arrays that are added up."""

Made = Callable[[Any], Any]
"""From a block's rows to what a pass needs of them, row by row."""

MEMORY = 1 << 27
"""Bytes of rows kept in memory before they go to a file."""
ROWS = 1 << 15
"""Rows of a block."""


class UnitBlocks(Protocol):
    """Rows of whole numbers, unit by unit; ``aside`` is what was added up while these very rows were kept, if it was asked for."""

    aside: list[Any]

    def mapped(self, made: Made, width: int) -> UnitBlocks:
        """The same with what is made of each block's rows, ``width`` doubles a row, in place of them."""
        ...

    def in_memory(self) -> list[tuple[Any, Any]] | None:
        """All blocks, where they are few enough to be held; else a pass is made by ``fold``."""
        ...

    def fold(self, step: Pass, start: Sequence[Any]) -> list[Any]:
        """The start plus what a pass makes of all units."""
        ...


class HeldBlocks:
    """Blocks on this machine, written once: in memory up to ``MEMORY``, then all in an unnamed file."""

    def __init__(self, width: int, most: int | None = None) -> None:
        self._width, self._most = width + 1, MEMORY if most is None else most
        self._file = tempfile.SpooledTemporaryFile(max_size=max(1, self._most))  # noqa: SIM115 - closed with the blocks
        weakref.finalize(self, self._file.close)
        self._rows, self.aside = 0, list[Any]()

    def append(self, matrix: Any, first: Any) -> None:
        """Keep a batch of rows, after those that are there."""
        import numpy as np

        rows = np.empty((len(matrix), self._width), dtype=np.int32)
        rows[:, :-1], rows[:, -1] = matrix, first
        self._file.write(rows.data)
        self._rows += len(matrix)

    def __iter__(self) -> Iterator[Block]:
        import numpy as np

        for start in range(0, self._rows, ROWS):
            count = min(ROWS, self._rows - start)
            self._file.seek(4 * self._width * start)
            held = np.frombuffer(self._file.read(4 * self._width * count), dtype=np.int32).reshape(count, self._width)
            yield held[:, :-1], held[:, -1] != 0

    def mapped(self, made: Made, width: int) -> UnitBlocks:
        """Made anew in each pass, or once where that is little."""
        if 8 * width * self._rows > self._most:
            return MappedBlocks(self, made)
        return KeptBlocks((made(rows), first) for rows, first in self)

    def in_memory(self) -> None:
        """They are not."""

    def fold(self, step: Pass, start: Sequence[Any]) -> list[Any]:
        """One pass over everything."""
        return added(start, [step(iter(self))])


class KeptBlocks:
    """What was made of blocks, in memory."""

    def __init__(self, blocks: Iterable[tuple[Any, Any]]) -> None:
        self._blocks, self.aside = list(blocks), list[Any]()

    def mapped(self, made: Made, width: int) -> UnitBlocks:
        """One after the other."""
        return KeptBlocks((made(rows), first) for rows, first in self._blocks)

    def in_memory(self) -> list[tuple[Any, Any]]:
        """All of them."""
        return self._blocks

    def fold(self, step: Pass, start: Sequence[Any]) -> list[Any]:
        """One pass over everything."""
        return added(start, [step(iter(self._blocks))])


class MappedBlocks:
    """Blocks of whose rows something is made anew in each pass."""

    def __init__(self, blocks: UnitBlocks, made: Made) -> None:
        self._blocks, self._made, self.aside = blocks, made, blocks.aside

    def mapped(self, made: Made, width: int) -> UnitBlocks:
        """One after the other."""
        return MappedBlocks(self, made)

    def in_memory(self) -> None:
        """They are not."""

    def fold(self, step: Pass, start: Sequence[Any]) -> list[Any]:
        """One pass, wherever the rows lie."""
        made = self._made
        return self._blocks.fold(lambda blocks: step((made(rows), first) for rows, first in blocks), start)


def held(
    batches: Iterator[Any], convert: Convert, width: int, whose: str | None, aside: Step | None = None
) -> HeldBlocks:
    """Batches in which each unit's rows lie together, as blocks; ``whose`` is the unit's column, None where a row is a unit."""
    kept, last = HeldBlocks(width), None
    for batch in batches:
        if batch.num_rows:
            if aside is not None:
                kept.aside = added(kept.aside, [aside(batch)]) if kept.aside else widened(aside(batch))
            first: Any = True
            if whose is not None:
                first, last = beginnings(batch.column(batch.schema.names.index(whose)), last)
            kept.append(convert(batch), first)
    return kept


def beginnings(owners: Any, last: Any) -> tuple[Any, Any]:
    """Which rows are the first of a unit, given the unit of the row before them; and the unit of the last."""
    import numpy as np

    codes = owners.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    first = np.concatenate([[last is None or owners[0].as_py() != last[0]], codes[1:] != codes[:-1]])
    return first, (owners[len(owners) - 1].as_py(),)


class SparkBlocks:
    """Blocks on Spark's workers: the rows of a unit are in one partition, one after another.

    What is kept may be lost and is then made anew, of a frame that need not read the same twice; and a Connect server, which analyses
    a query anew, may not find what it keeps. So every pass tells a mark of the rows that it saw, and fails at others than the first saw.
    """

    def __init__(self, question: Any, whose: str | None, convert: Convert) -> None:
        self.aside = list[Any]()
        self._mark: int | None = None
        place = None if whose is None else question.columns.index(whose)
        ordered = question if whose is None else question.repartition(question[whose]).sortWithinPartitions(whose)
        self._frame = ordered.mapInArrow(lambda batches: _packed(batches, convert, place), "block binary, width int")
        self._frame = self._frame.persist(_disk_only())

    def mapped(self, made: Made, width: int) -> UnitBlocks:
        """Made anew in each pass, where the rows lie."""
        return MappedBlocks(self, made)

    def in_memory(self) -> None:
        """They are not."""

    def fold(self, step: Pass, start: Sequence[Any]) -> list[Any]:
        """One pass over each partition, where it lies."""
        zero = [array - array for array in widened(start)]

        def partition(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow

            seen = MarkedBlocks(_unpacked(batches))
            text = written(added(zero, [step(seen)]))
            marks = pyarrow.array([str(seen.mark())])
            yield pyarrow.RecordBatch.from_pydict({"sums": pyarrow.array([text]), "mark": marks})

        with quiet_spark():
            found = self._frame.mapInArrow(partition, "sums string, mark string").collect()
        mark = sum(int(row[1]) for row in found) % _MARKS
        if self._mark not in (None, mark):
            raise TableError("the rows changed while they were kept")
        self._mark = mark
        return added(start, (read_back(row[0]) for row in found))

    def __del__(self) -> None:
        attempt(self._let_go)

    def _let_go(self) -> None:
        with quiet_spark():  # a wire may print the plan
            self._frame.unpersist()


_MARKS = 1 << 64


class MarkedBlocks:
    """Blocks as they are passed over, and a mark of their rows, whatever the order of these and wherever a block ends."""

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks, self._sum = blocks, 0

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        rows, first = next(self._blocks)
        self._sum += _mark_of(rows)
        return rows, first

    def mark(self) -> int:
        """The mark of all rows, those included that nobody asked for."""
        for _ in self:
            pass
        return self._sum % _MARKS


def _mark_of(rows: Any) -> int:
    """The sum of a digest of each row, modulo 2^64; equal columns count as different ones, and a row of zeros counts too."""
    import numpy as np

    weights = np.arange(1, 2 * rows.shape[1] + 1, 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    weights = (weights ^ (weights >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    digest = rows.astype(np.uint64) @ (weights | np.uint64(1)) + np.uint64(0x94D049BB133111EB)
    digest = (digest ^ (digest >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    digest = (digest ^ (digest >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((digest ^ (digest >> np.uint64(31))).sum(dtype=np.uint64))


def _disk_only() -> Any:
    from pyspark import StorageLevel

    return StorageLevel.DISK_ONLY


def _packed(batches: Iterator[Any], convert: Convert, whose: int | None) -> Iterator[Any]:
    import numpy as np
    import pyarrow

    last, first = None, np.ones(1, dtype=bool)
    for whole in batches:
        for start in range(0, whole.num_rows, ROWS):
            batch = whole.slice(start, ROWS)
            if whose is not None:
                first, last = beginnings(batch.column(whose), last)
            begins = np.broadcast_to(first, batch.num_rows)
            rows = np.ascontiguousarray(np.column_stack([convert(batch), begins]), dtype=np.int32)
            block = pyarrow.array([rows.tobytes()], pyarrow.binary())
            width = pyarrow.array([rows.shape[1]], pyarrow.int32())
            yield pyarrow.RecordBatch.from_pydict({"block": block, "width": width})


def _unpacked(batches: Iterator[Any]) -> Iterator[Block]:
    import numpy as np

    for batch in batches:
        for block, width in zip(batch.column(0), batch.column(1), strict=True):
            rows = np.frombuffer(block.as_buffer(), dtype=np.int32).reshape(-1, width.as_py())
            yield rows[:, :-1], rows[:, -1] != 0
