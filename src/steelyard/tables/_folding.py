"""Adding up what a function makes of each batch of rows: the one way numbers of many columns leave a table.

A step turns an Arrow batch into a few arrays; the arrays of all batches are added. Integers are added as Python
integers, which cannot overflow and do not mind the order, so every engine and every division into batches gives the
same sum. DuckDB streams; Spark adds up each partition where it lies and sends one small text home.
Law: the caller's step must be a sum over rows of a function of each row alone (and of how many rows its unit has, where
that is asked for), and must never raise on their content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from steelyard.errors import OurBug
from steelyard.privacy import Unit
from steelyard.tables._totals import Dialect, beside, identity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = list[NDArray[Any]]

Step = Callable[[Any], Sequence[Any]]
"""From an Arrow record batch to arrays whose shapes are the same for every batch."""


UNIT = "steelyard_unit"


def widened(arrays: Sequence[Any]) -> Arrays:
    """The arrays with integers as Python integers, which never overflow."""
    import numpy as np

    given = [np.asarray(array) for array in arrays]
    return [array.astype(object) if array.dtype.kind in "biu" else array for array in given]


def added(start: Sequence[Any], parts: Iterable[Sequence[Any]]) -> Arrays:
    """The start and all parts, added array by array."""
    sums = [_Sum(array) for array in widened(start)]
    for part in parts:
        for total, each in zip(sums, part, strict=True):
            total.add(each)
    return [each.total() for each in sums]


class _Sum:
    """An array and what is added to it: small integers wait in 64 bits while no sum of them could overflow there."""

    def __init__(self, start: NDArray[Any]) -> None:
        self._sum, self._largest = start, 0
        self._waiting: NDArray[Any] | None = None

    def add(self, given: Any) -> None:
        """Add one array."""
        import numpy as np

        part = np.asarray(given)
        if part.dtype != np.int64 or not part.size:
            [part] = widened([part])
            self._sum = self._sum + part
            return
        largest = max(int(part.max()), -int(part.min()))
        if self._waiting is None or self._largest + largest >= 2**63:
            self._sum, self._waiting, self._largest = self.total(), np.zeros_like(part), 0
        self._waiting, self._largest = self._waiting + part, self._largest + largest

    def total(self) -> NDArray[Any]:
        """What it comes to, integers as Python integers."""
        return self._sum if self._waiting is None else self._sum + self._waiting.astype(object)


def on_spark(question: Any, step: Step, start: Sequence[Any]) -> Arrays:
    """The same on a Spark data frame, added up per partition by its workers."""
    zero = [array - array for array in widened(start)]

    def partition(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        text = written(added(zero, map(step, batches)))
        yield pyarrow.RecordBatch.from_pydict({"sums": pyarrow.array([text])})

    texts = question.mapInArrow(partition, "sums string").collect()
    return added(start, (read_back(row[0]) for row in texts))


def written(arrays: Sequence[NDArray[Any]]) -> str:
    """Arrays as one JSON text that loses nothing: integers in full, floats in hexadecimal."""
    return json.dumps([[list(a.shape), a.dtype == object, [_text(v) for v in a.ravel().tolist()]] for a in arrays])


def read_back(text: str) -> Arrays:
    """What ``written`` wrote."""
    return [_array(*part) for part in json.loads(text)]


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) else value.hex()


def _array(shape: list[int], whole: bool, values: list[str]) -> NDArray[Any]:
    import numpy as np

    if whole:
        return np.array([int(value) for value in values], dtype=object).reshape(shape)
    return np.array([float.fromhex(value) for value in values], dtype=np.float64).reshape(shape)


def by_unit(rows: Any, columns: Sequence[str], unit: Unit) -> Any:
    """The rows of somebody, in any order; the unit's column is there under its own name. Where a row is a unit, all rows."""
    if unit.column is None:
        return rows.select(*columns)
    named = rows.mutate(**{unit.column: identity(rows[unit.column])})
    kept = named.filter(named[unit.column].notnull())
    return kept.select(*dict.fromkeys([*columns, unit.column]))


def in_order(found: Any, unit: Unit) -> Any:
    """The same, with the rows of each unit together."""
    return found if unit.column is None else found.order_by(unit.column)


def beside_sizes(rows: Any, columns: Sequence[str], unit: Unit, engine: Dialect, *, named: bool = False) -> Any:
    """The columns of the rows of somebody, and last how many rows their unit has; then, where ``named``, the unit (``UNIT``)."""
    if unit.column is None:
        raise OurBug("a row has no other rows to be counted beside it.")
    chosen = {f"steelyard_{i}": rows[name] for i, name in enumerate(columns)}
    known = rows.select(**chosen, steelyard_unit=identity(rows[unit.column]))
    known = known.filter(known.steelyard_unit.notnull())
    sized = beside(known, ["steelyard_unit"], engine, {"steelyard_rows": known.count()})
    return sized.select(*chosen, "steelyard_rows", *([UNIT] if named else []))
