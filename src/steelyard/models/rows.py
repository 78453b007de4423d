"""Rows in memory, for methods that pass over them many times: integers on the public grid, and whose they are.

The features are whole numbers of norm at most S (``columns.SIZE``), the label a whole number made by its own total
function; doubles hold both exactly. Rows of nobody are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.models.columns import SIZE, Features
from steelyard.models.values import numbers
from steelyard.privacy import Number, Unit, exact
from steelyard.tables import Table

Floats = NDArray[np.float64]


class Label(Protocol):
    """A column as whole numbers between -S and S; total, row by row."""

    @property
    def column(self) -> str:
        """The label's column."""

    def whole(self, array: Any) -> Floats:
        """The whole number of each entry of an Arrow array."""


@dataclass(frozen=True)
class Target:
    """A numeric label between declared bounds: clamped, centred, S steps from the middle to either bound.

    Null, NaN, the infinities and what is no number become 0, the middle.
    """

    column: str
    lower: Number
    upper: Number

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise InvalidTask(f"the label needs the name of a column; got {self.column!r}.")
        lower, upper = exact(self.lower, "lower"), exact(self.upper, "upper")
        widest = Fraction(10) ** 200
        if not lower < upper or max(abs(lower), abs(upper)) > widest or upper - lower < 1 / widest:
            raise InvalidTask(f"the label {self.column!r} needs lower < upper, both public and below 1e200 in size.")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def middle(self) -> float:
        """What a whole number of 0 means."""
        return float((Fraction(self.lower) + Fraction(self.upper)) / 2)

    @property
    def half(self) -> float:
        """What a whole number of S means, beyond the middle."""
        return float((Fraction(self.upper) - Fraction(self.lower)) / 2)

    def whole(self, array: Any) -> Floats:
        """The whole number of each entry."""
        with np.errstate(all="ignore"):
            y: Floats = np.subtract(numbers(array), self.middle, dtype=np.float64)
            y *= SIZE / self.half
            y[~(np.abs(y) < np.inf)] = 0.0
        return np.rint(np.clip(y, -SIZE, SIZE))


@dataclass(frozen=True)
class Rows:
    """The rows of a fit: ``x`` (n, d) and ``y`` whole numbers, ``users`` codes from 0 (equal ones lie together)."""

    x: Floats
    y: Floats
    users: NDArray[np.int64] | None
    step: Fraction = Fraction(1, SIZE)


def gather(table: Table, features: Features, label: Label, unit: Unit) -> Rows:
    """All rows in memory, as whole numbers.

    *Cost:* one pass, and 8 bytes for each feature of each row.
    """
    columns = [*features.source, label.column]
    whose = unit.column
    batches = list(table.batches(columns) if whose is None else table.batches_by_unit(columns, unit))
    x = [np.ascontiguousarray(features.whole(batch).T) for batch in batches]
    y = [label.whole(batch.column(len(columns) - 1)) for batch in batches]
    codes = None if whose is None else _codes([batch.column(batch.schema.names.index(whose)) for batch in batches])
    return Rows(np.concatenate([np.empty((0, features.width)), *x]), np.concatenate([np.empty(0), *y]), codes)


def _codes(owners: list[Any]) -> NDArray[np.int64]:
    import pyarrow as pa

    if not owners:
        return np.empty(0, dtype=np.int64)
    encoded = pa.chunked_array(owners).dictionary_encode()
    return np.concatenate([chunk.indices.to_numpy(zero_copy_only=False).astype(np.int64) for chunk in encoded.chunks])
