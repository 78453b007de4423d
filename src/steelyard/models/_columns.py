"""Columns as features: one total function from a row to integers whose Euclidean norm is at most S, exactly.

A column is mapped by declared bounds or a declared vocabulary; the row is then shortened (``norm="clip"``) or brought
to one length (``norm="scale"``), the intercept being a constant feature inside that length. Everything is computed
per row by operations that IEEE rounds the same way wherever the row stands in a batch, so a row's integers depend on
nothing but the row. The integer norm is checked after rounding, exactly; a row that failed would count as zeros.
Law: nothing here looks at two rows together, and no value whatsoever raises (docs/proofs/sufficient_statistics.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.privacy import Number, exact, positive

if TYPE_CHECKING:
    from steelyard.tables import Schema

BITS = 18
SIZE = 1 << BITS
"""S: the longest a row of integers may be, in steps; a step is 1/S of the unit length."""
THETA_BITS = 16
RESIDUAL_BITS = 14
"""A residual is a whole number of steps of 2^-14."""

MOST_FEATURES = 2048
_HUGE, _FAR = 1e300, 1e140
_WIDEST = Fraction(10) ** 200
Floats = NDArray[np.float64]


def named(column: object, what: str = "a feature") -> None:
    """Refuse what is no name of a column."""
    if not isinstance(column, str) or not column:
        raise InvalidTask(f"{what} needs the name of a column; got {column!r}.")


def declared(lower: Number, upper: Number, what: str) -> tuple[Fraction, Fraction]:
    """Public bounds of a column or label, exact, of a size that doubles hold."""
    low, high = exact(lower, "lower"), exact(upper, "upper")
    if not low < high or max(abs(low), abs(high)) > _WIDEST or high - low < 1 / _WIDEST:
        raise InvalidTask(f"{what} needs lower < upper, both public and below 1e200 in size.")
    return low, high


@dataclass(frozen=True)
class _OneNumber:
    """What columns that make one feature share."""

    column: str

    def __post_init__(self) -> None:
        named(self.column)

    @property
    def width(self) -> int:
        """One feature."""
        return 1

    def names(self) -> list[str]:
        """What the coefficient is called."""
        return [self.column]

    def check(self, schema: Schema) -> None:
        """Refuse a column that is no number."""
        _ = schema.numeric[self.column]


@dataclass(frozen=True)
class Plain(_OneNumber):
    """A numeric column as it is; its size is bounded by the row's ``x_bound``. What is no finite number counts as 0."""

    def fill(self, out: Floats, array: Any, shrink: float) -> None:
        """Write the feature, times ``shrink``, into the rows of ``out``."""
        out[0] = numbers(array)  # widened first: NumPy's product of mixed widths goes through small buffers
        np.multiply(out, shrink, out=out)

    def slopes(self) -> list[tuple[float, float]]:
        """Feature = slope * value + offset."""
        return [(1.0, 0.0)]


@dataclass(frozen=True)
class Numeric(_OneNumber):
    """A numeric column between declared bounds, clamped and mapped to [-1, 1].

    Null, NaN, the infinities and what is no number become 0, the middle.
    """

    lower: Number
    upper: Number

    def __post_init__(self) -> None:
        super().__post_init__()
        lower, upper = declared(self.lower, self.upper, f"column {self.column!r}")
        if (upper - lower) * _WIDEST < max(abs(lower), abs(upper)):
            raise InvalidTask(f"the bounds of column {self.column!r} lie too close together for their size.")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def fill(self, out: Floats, array: Any, shrink: float) -> None:
        """Write the feature, times ``shrink``, into the rows of ``out``."""
        (slope, offset), row = self.slopes()[0], out[0]
        row[:] = numbers(array)
        np.multiply(row, slope, out=row)
        np.add(row, offset, out=row)
        row[~(np.abs(row) < np.inf)] = 0.0
        np.clip(row, -1.0, 1.0, out=row)
        np.multiply(row, shrink, out=row)

    def slopes(self) -> list[tuple[float, float]]:
        """Feature = slope * value + offset, between the bounds."""
        lower, upper = Fraction(self.lower), Fraction(self.upper)
        return [(float(2 / (upper - lower)), float(-(upper + lower) / (upper - lower)))]


@dataclass(frozen=True)
class Categorical:
    """A column over a declared vocabulary, one feature per value; anything else is all zeros.

    The vocabulary is public knowledge: which values occur is data, and reading it off the rows is not free.
    """

    column: str
    values: Sequence[str | int | bool]

    def __post_init__(self) -> None:
        named(self.column)
        values = tuple(self.values) if not isinstance(self.values, str) else ()
        if not values or len(set(values)) != len(values) or not all(isinstance(v, str | int) for v in values):
            raise InvalidTask(
                f"column {self.column!r} needs its public values, each once: texts, integers or booleans."
            )
        object.__setattr__(self, "values", values)

    @property
    def width(self) -> int:
        """One feature for each value."""
        return len(self.values)

    def names(self) -> list[str]:
        """What the coefficients are called."""
        return [f"{self.column}={value}" for value in self.values]

    def check(self, schema: Schema) -> None:
        """Refuse values that are not of the column's kind."""
        schema.require_keys(self.column, self.values)

    def fill(self, out: Floats, array: Any, shrink: float) -> None:
        """Write the features, times ``shrink``, into the rows of ``out``."""
        out[:] = 0.0
        found = matched(array, self.values)
        (there,) = np.nonzero(found >= 0)
        out[found[there], there] = shrink

    def slopes(self) -> list[tuple[float, float]]:
        """Each feature is one or zero."""
        return [(1.0, 0.0)] * self.width


Column = Plain | Numeric | Categorical


@dataclass(frozen=True)
class Features:
    """The features of a model: columns, and how long a row of them may be.

    ``norm="clip"`` shortens rows beyond ``x_bound`` and leaves the others alone, so inside the bound the model is
    linear in the columns; ``norm="scale"`` brings every row to one length, which uses the bound fully. With an
    intercept a row is (x / x_bound, 1): under "clip" its two parts get half of the squared length each, under "scale"
    they share it as they come. ``x_bound`` may be left out where every column has bounds of its own: then no row is
    ever clipped ("clip": the square root of the number of columns), or mapped columns are taken as they are ("scale": 1).

    >>> features = Features([Numeric("age", 0, 100), Categorical("sex", ["f", "m"])])
    >>> features.width, features.names()
    (4, ['age', 'sex=f', 'sex=m', 'intercept'])
    """

    columns: Sequence[Column]
    norm: str = "clip"
    x_bound: Number | None = None
    intercept: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        names = [column.column for column in self.columns if isinstance(column, Plain | Numeric | Categorical)]
        if not names or len(names) != len(self.columns) or len(set(names)) != len(names):
            raise InvalidTask("features are a list of Numeric, Categorical or Plain columns, at least one, none twice.")
        if self.norm not in ("clip", "scale"):
            raise InvalidTask(f"norm must be 'clip' or 'scale'; got {self.norm!r}.")
        if self.width > MOST_FEATURES:
            raise InvalidTask(f"at most {MOST_FEATURES} features are handled; these are {self.width}.")
        if self.x_bound is not None:
            x_bound = positive(self.x_bound, "x_bound")
            if not 1 / _WIDEST <= x_bound <= _WIDEST:
                raise InvalidTask("x_bound must lie between 1e-200 and 1e200.")
            object.__setattr__(self, "x_bound", x_bound)
        elif any(isinstance(column, Plain) for column in self.columns):
            raise InvalidTask(
                "x_bound is needed: the public largest Euclidean length of a row of features. Longer rows are shortened. "
                "It must be known beforehand or bought (PrivateScaler); the largest length in the data is private."
            )

    @lazy
    def width(self) -> int:
        """The number of features, the intercept included."""
        return sum(column.width for column in self.columns) + self.intercept

    @property
    def radius(self) -> float:
        """The length that counts as one."""
        if self.x_bound is not None:
            return float(Fraction(self.x_bound))
        return math.sqrt(len(self.columns)) if self.norm == "clip" else 1.0

    @property
    def source(self) -> list[str]:
        """The columns to be read."""
        return [column.column for column in self.columns]

    def names(self) -> list[str]:
        """What the coefficients are called, in order."""
        named = [name for column in self.columns for name in column.names()]
        return [*named, "intercept"] if self.intercept else named

    def check(self, schema: Schema) -> None:
        """Refuse, from the schema alone, columns that are not there or of the wrong kind."""
        for column in self.columns:
            column.check(schema)

    def scaled(self, batch: Any) -> Floats:
        """The features of a batch, one column per row of it, in steps: each of length at most about S."""
        z = np.empty((self.width, batch.num_rows))
        shrink, start = 1.0 / self.radius, 0
        with np.errstate(all="ignore"):
            for index, column in enumerate(self.columns):
                column.fill(z[start : start + column.width], batch.column(index), shrink)
                start += column.width
        squares = _squared(z[:start])
        factor = self._factor(squares)
        np.multiply(z[:start], factor, out=z[:start])
        if self.intercept:
            z[start] = self._reach * math.sqrt(0.5) if self.norm == "clip" else factor
        return z

    def whole(self, batch: Any, shares: Floats | None = None) -> Floats:
        """The same as whole numbers (as doubles) of norm at most S: what may be added up; ``shares`` in [0, 1] shorten rows.

        *Privacy:* the norm is checked on the integers, exactly; the integers of a row depend on that row alone.
        """
        z = self.scaled(batch)
        if shares is not None:
            np.multiply(z, shares, out=z)
        np.rint(z, out=z)
        # squares of whole doubles add up exactly below 2^53, in any order, and any sum beyond S^2 is seen to be beyond it
        long = ~(np.einsum("ij,ij->j", z, z) <= SIZE**2)
        if long.any():
            z[:, long] = 0.0
        return z

    def rows(self, batch: Any) -> NDArray[np.int64]:
        """The integers of each row, one row per row: norm at most S."""
        return np.ascontiguousarray(self.whole(batch).T).astype(np.int64)

    def linear(self, coefficients: Sequence[float]) -> tuple[list[Fraction], Fraction]:
        """Coefficients on the unit-length features as slopes on the columns, and a constant, as large as they may be.

        Exact where no row is clipped; under "scale" it is the model before rows are brought to one length.
        """
        share = math.sqrt(0.5) if self.intercept and self.norm == "clip" else 1.0
        unit = share * (self._reach / SIZE if self.norm == "clip" else 1.0)
        slopes = [pair for column in self.columns for pair in column.slopes()]
        given, long = [Fraction(float(value) * unit) for value in coefficients], Fraction(self.radius)
        pairs = [(value / long, *pair) for value, pair in zip(given, slopes, strict=False)]
        moved = sum(
            (value * Fraction(offset) for value, _, offset in pairs), given[-1] if self.intercept else Fraction(0)
        )
        return [value * Fraction(slope) for value, slope, _ in pairs], moved

    @property
    def _reach(self) -> float:
        """How long a row may be before it is rounded, so that it is not longer than S after."""
        return float(SIZE - 1 - math.ceil(math.sqrt(self.width) / 2))

    def _factor(self, squares: Floats) -> Floats:
        if self.norm == "clip":
            reach = self._reach * (math.sqrt(0.5) if self.intercept else 1.0)
            return np.asarray(reach / np.maximum(np.sqrt(squares), 1.0))
        length = np.sqrt(squares + (1.0 if self.intercept else 0.0))
        return np.asarray(np.where(length > 0, self._reach / np.maximum(length, 1e-150), 0.0))


def _squared(u: Floats) -> Floats:
    """The squared length of each row, after taking out of ``u`` what is not finite and reining in what is absurd."""
    with np.errstate(all="ignore"):
        squares = _sum_of_squares(u)
        (bad,) = np.nonzero(~(squares <= _HUGE))
        if bad.size:
            held = u[:, bad]
            u[:, bad] = np.clip(np.where(np.isfinite(held), held, 0.0), -_FAR, _FAR)
            squares[bad] = _sum_of_squares(u[:, bad])
    return squares


def _sum_of_squares(u: Floats) -> Floats:
    """Row by row of ``u``: NumPy's own sums pick their order by the shape, and then a row would depend on others."""
    total = np.zeros(u.shape[1])
    for line in u:
        total += line * line
    return total


def by_column(rows: Floats) -> Floats:
    """Rows as columns that lie together: copied a block at a time, since a whole table does not fit near the processor."""
    if rows.T.flags.c_contiguous:
        return rows.T
    columns = np.empty(rows.shape[::-1])
    for start in range(0, len(rows), 4096):
        columns[:, start : start + 4096] = rows[start : start + 4096].T
    return columns


def by_row(columns: Floats) -> NDArray[np.float32]:
    """Columns of whole numbers below 2^24 as rows in single precision, which holds them: again a block at a time."""
    rows = np.empty(columns.shape[::-1], dtype=np.float32)
    for start in range(0, len(rows), 128):
        rows[start : start + 128] = columns[:, start : start + 128].astype(np.float32).T
    return rows


def numbers(array: Any) -> NDArray[Any]:
    """A numeric column as floats; null and what is no number is NaN. Floats and whole numbers keep their width."""
    import pyarrow as pa

    if array.type in (pa.float64(), pa.float32(), pa.int64()):
        return _words(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        array = array.cast(pa.float64(), safe=False)
    elif not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        return np.full(len(array), np.nan)
    found: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return found


def _words(array: Any) -> NDArray[Any]:
    """The numbers of a column as they lie in memory, NaN for null; Arrow's own way to NumPy loads pandas first."""
    size, kind = len(array), np.dtype(array.type.to_pandas_dtype())
    valid, words = array.buffers()
    if not size:
        return np.empty(0, dtype=kind)
    found: NDArray[Any] = np.frombuffer(words, dtype=kind, count=size, offset=array.offset * kind.itemsize)
    if not array.null_count:
        return found
    first, skipped = divmod(array.offset, 8)
    # of a slice its own bits, not the whole column's
    bits = np.frombuffer(valid, dtype=np.uint8, offset=first, count=(skipped + size + 7) // 8)
    there = np.unpackbits(bits, bitorder="little")[skipped : skipped + size]
    return np.where(there, found, np.array(np.nan, dtype=np.float64 if kind.kind == "i" else kind))


def matched(array: Any, values: Sequence[Any]) -> NDArray[np.int64]:
    """The place of each entry among the values, -1 where it is none of them.

    *Privacy:* compared in the column's own type: as doubles, a whole number beside a null would match its neighbours.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    found = np.full(len(array), -1, dtype=np.int64)
    for place, value in enumerate(values):
        scalar = _held(value, array.type)
        if scalar is not None:
            found[pc.equal(array, scalar).fill_null(False).to_numpy(zero_copy_only=False)] = place
    return found


def _held(value: str | int, kind: Any) -> Any:
    """The value in a column's type; None where the type holds no such value."""
    import pyarrow as pa

    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if isinstance(value, str):
        return pa.scalar(value, kind) if text else None
    if pa.types.is_boolean(kind):
        return pa.scalar(bool(value)) if value in (0, 1) else None
    try:
        scalar = pa.scalar(Decimal(int(value)) if pa.types.is_decimal(kind) else int(value), kind) if number else None
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
    return scalar if scalar is not None and scalar.as_py() == value else None


def exact_scores(rows: Floats, theta: Floats) -> Floats:
    """The scores of rows of whole numbers, for theta rounded to 2^-16: exact, in any order, while theta is below 2^9 long.

    Products and sums are whole numbers below 2^53, so no score depends on how a library adds, nor on other rows.
    """
    return np.asarray((rows @ np.rint(theta * 2.0**THETA_BITS)) * (2.0**-THETA_BITS / SIZE))
