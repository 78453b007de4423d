"""Rows and labels as whole numbers on the public grid, and what is added up of them exactly.

The features are whole numbers of norm at most S (``columns.SIZE``), the label a whole number made by its own total
function; doubles hold both exactly. Bounds and classes of a label are public (law 6). Products add up exactly as doubles as
long as a partial sum stays below 2^53: 2^17 rows at a time, then Python integers. Rows of nobody are left out.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.models._columns import SIZE, Features, declared, matched, named, numbers
from steelyard.models._losses import Memory
from steelyard.models._user_rows import UserRows

if TYPE_CHECKING:
    from steelyard.models._losses import LossFunction
    from steelyard.privacy import Number, Unit
    from steelyard.tables import Schema, Table

Floats = NDArray[np.float64]
EXACT_ROWS = 2**53 // SIZE**2
"""How many rows' products may be added as doubles without any rounding."""

BLOCK = 16_384
"""How many rows a fold reads at a time: products of so many stay in the processor's memory."""

_NUMBERS = ("integer", "float", "decimal")


class Label(Protocol):
    """A column as whole numbers between -S and S; total, row by row."""

    @property
    def column(self) -> str:
        """The label's column."""

    @property
    def targets(self) -> list[int]:
        """One number for each model that is fitted to this label."""

    def check(self, schema: Schema) -> None:
        """Refuse, from the schema alone, a column that is not there or of the wrong kind."""

    def whole(self, array: Any) -> Floats:
        """The whole number of each entry of an Arrow array."""

    def of(self, y: Floats, target: int) -> Floats:
        """Those whole numbers as one model's labels."""


@dataclass(frozen=True)
class Target:
    """A numeric label between declared bounds: clamped, centred, S steps from the middle to either bound.

    Null, NaN, the infinities and what is no number become 0, the middle.
    """

    column: str
    lower: Number
    upper: Number

    def __post_init__(self) -> None:
        named(self.column, "the label")
        lower, upper = declared(self.lower, self.upper, f"the label {self.column!r}")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def targets(self) -> list[int]:
        """One model."""
        return [0]

    @property
    def middle(self) -> float:
        """What a whole number of 0 means."""
        return float((Fraction(self.lower) + Fraction(self.upper)) / 2)

    @property
    def half(self) -> float:
        """What a whole number of S means, beyond the middle."""
        return float((Fraction(self.upper) - Fraction(self.lower)) / 2)

    def check(self, schema: Schema) -> None:
        """Refuse a column that is no number."""
        _ = schema.numeric[self.column]

    def whole(self, array: Any) -> Floats:
        """The whole number of each entry."""
        with np.errstate(all="ignore"):
            y: Floats = np.subtract(numbers(array), self.middle, dtype=np.float64)
            y *= SIZE / self.half
            y[~(np.abs(y) < np.inf)] = 0.0
        return np.rint(np.clip(y, -SIZE, SIZE))

    def of(self, y: Floats, target: int) -> Floats:
        """The one model's labels."""
        return y


@dataclass(frozen=True)
class Classes:
    """A label's column and its declared classes: the place of each entry's class counted from 1, 0 for none.

    A label that is none of them, or missing, makes its row count for nothing.
    """

    column: str
    values: Sequence[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        named(self.column, "the label")
        if len(self.values) < 2 or len(set(self.values)) != len(self.values):
            raise InvalidTask("classes are the label's public values, at least two, each once.")
        if not all(isinstance(value, str | int) for value in self.values):
            raise InvalidTask("classes are texts, whole numbers or booleans.")

    @property
    def targets(self) -> list[int]:
        """The classes that get a model: the second of two, or each of more."""
        return [2] if len(self.values) == 2 else list(range(1, len(self.values) + 1))

    def check(self, schema: Schema) -> None:
        """Refuse, from the schema alone, a column that is not there, and classes that cannot occur in one of its kind."""
        schema.require(self.column)
        kind = schema.columns[self.column]
        for value in self.values:
            text, truth = isinstance(value, str), kind == "boolean" and value in (0, 1)
            if kind != "string" if text else not (truth or kind in _NUMBERS):
                raise InvalidTask(
                    f"column {self.column!r} holds {kind} values, and the class {value!r} is none: no row could ever be of that "
                    "class. Declare the classes as the column holds them; nothing was charged."
                )

    def whole(self, array: Any) -> Floats:
        """The place of each entry's class; what is no declared class is 0."""
        return np.asarray(matched(array, self.values) + 1, dtype=np.float64)

    def of(self, y: Floats, target: int) -> Floats:
        """The signs of one class's model."""
        return signs(y, target)


@dataclass(frozen=True)
class Weights:
    """How much each row counts, between 0 and a declared bound, as a share of it; what is no number counts for nothing."""

    column: str
    upper: Number = 1

    def __post_init__(self) -> None:
        named(self.column, "the weight")
        object.__setattr__(self, "upper", declared(0, self.upper, "the weight")[1])

    def shares(self, array: Any) -> Floats:
        """Each entry of an Arrow array as a number in [0, 1]: one rounding, of that entry alone."""
        with np.errstate(all="ignore"):
            given = np.asarray(numbers(array), dtype=np.float64)
            found = np.clip(given / float(Fraction(self.upper)), 0.0, 1.0)
        return np.where(np.abs(given) < np.inf, found, 0.0)


def signs(y: Floats, target: int) -> Floats:
    """One where the class is the target, minus one where it is another, zero where it is none."""
    return np.where(y == 0, 0.0, np.where(y == target, 1.0, -1.0))


@dataclass(frozen=True)
class Fitted:
    """A private model: ``coefficients`` on features of length at most one (in steps of the grid, divided by S), for a
    label in [-1, 1]; ``details`` are public or released facts, plain JSON.
    """

    coefficients: Floats
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """Rows in memory: ``x`` (n, d) and ``y`` whole numbers, ``users`` codes from 0 (equal ones lie together), weights in [0, 1]."""

    x: Floats
    y: Floats
    users: NDArray[np.int64] | None
    weights: Floats | None = None

    def rows(self) -> Rows:
        """The same."""
        return self

    def public_rows(self) -> Rows:
        """The same."""
        return self

    def by_user(self, loss: LossFunction) -> UserRows:
        """The rows user by user."""
        return UserRows.of(self, loss)

    def heard(self, loss: LossFunction) -> int:
        """How many rows count."""
        return heard(self.y, loss)

    def capped(self, cap: int, secret: bytes) -> Rows:
        """At most ``cap`` rows of each user."""
        return kept(self, cap, secret)

    def passes(self, loss: LossFunction) -> Memory:
        """The rows as a certified solver passes over them."""
        if loss.classifies:
            return Memory(self.x, self.weights, loss, None, np.sign(self.y))
        x, labels = loss.oriented(self.x, self.y)
        return Memory(x, self.weights, loss, labels)

    def fold(self, loss: LossFunction, step: Any, start: list[Any], *, whole: bool = False) -> list[Any]:
        """What ``step`` makes of all rows, as their loss reads them."""
        found: list[Any] = step(*loss.oriented(self.x, self.y))
        return [first + more for first, more in zip(start, found, strict=True)]

    def products(self) -> tuple[Any, Any]:
        """X'X and X'y as Python integers."""
        gram, moment = products(self.x.T, self.y)
        return gram, moment


def heard(y: Floats, loss: LossFunction) -> int:
    """How many rows count under a loss: a classifier does not hear those of no class."""
    return int(np.count_nonzero(y)) if loss.classifies else len(y)


def kept(rows: Rows, cap: int, secret: bytes) -> Rows:
    """At most ``cap`` rows of each user: those with the smallest keyed digests of their content."""
    if rows.users is None:
        raise InvalidTask("a cap per user needs to know whose row each one is.")
    order = np.argsort(rows.users, kind="stable")
    owners = rows.users[order]
    people = np.split(order, np.flatnonzero(owners[1:] != owners[:-1]) + 1)
    places = [mine if mine.size <= cap else mine[_smallest(rows.x[mine], rows.y[mine], cap, secret)] for mine in people]
    chosen = np.concatenate([np.empty(0, dtype=np.int64), *places])
    return Rows(rows.x[chosen], rows.y[chosen], None)


def _smallest(x: Floats, y: Floats, cap: int, secret: bytes) -> Any:
    """Which rows of one user to keep; identical rows are numbered, so that each has a digest of its own."""
    seen: Counter[bytes] = Counter()
    digests = []
    for content in map(bytes, np.column_stack([x, y]).astype(np.int64)):
        number = seen[content].to_bytes(8, "little")
        seen[content] += 1
        digests.append(hashlib.blake2b(content + number, key=secret[:64], digest_size=16).digest())
    return sorted(range(len(digests)), key=digests.__getitem__)[:cap]


def products(x: Floats, y: Floats) -> list[Any]:
    """The sums over rows (columns of ``x``) of xx' and x*y as Python integers."""
    sums: list[Any] = [0, 0]
    for start in range(0, max(len(y), 1), EXACT_ROWS):
        found = _few_products(x[:, start : start + EXACT_ROWS], y[start : start + EXACT_ROWS])
        sums = [total + each.astype(object) for total, each in zip(sums, found, strict=True)]
    return sums


def _few_products(x: Floats, y: Floats) -> list[Any]:
    """The same of at most ``EXACT_ROWS`` rows, in 64 bits."""
    return [(x @ x.T).astype(np.int64), (x @ y).astype(np.int64)]


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

    if not any(map(len, owners)):
        return np.empty(0, dtype=np.int64)
    encoded = pa.chunked_array(owners).dictionary_encode()
    return np.concatenate([chunk.indices.to_numpy(zero_copy_only=False).astype(np.int64) for chunk in encoded.chunks])


@dataclass(frozen=True)
class Products:
    """The step of a fold: X'X and X'y of a batch, exact."""

    features: Features
    label: Label
    weights: Weights | None = None

    @property
    def start(self) -> list[Any]:
        """Zeros of the right shapes."""
        width = self.features.width
        return [np.zeros((width, width), dtype=np.int64), np.zeros(width, dtype=np.int64)]

    def __call__(self, batch: Any) -> list[Any]:
        """The sums over the batch's rows; a weight is what a row and its label are multiplied by the root of."""
        y, roots = self.label.whole(batch.column(len(self.features.columns))), None
        if self.weights is not None:
            roots = np.sqrt(self.weights.shares(batch.column(len(self.features.columns) + 1)))
            y = np.rint(y * roots)
        return (_few_products if len(y) <= EXACT_ROWS else products)(self.features.whole(batch, roots), y)
