"""Which units a model is trained on and which it is checked on, and how the rows of a table come into a step's hands.

*Shared* rows train and check at once; n is public. *Disjoint*: a public function of a unit's own name puts it into one of two
parts. A user's part follows from its id, a row's from an id column or, without one, from the row's own whole numbers. The
hash is fixed and keyed by nothing, so the same id lies in the same part whatever else the table holds, in whatever
order, on every engine. Rows of nobody are left out, as everywhere.
Law: the part of a unit depends on that unit alone; adding or removing one moves no other (docs/proofs/disjoint_check.md).
Rows live inside one call and are kept by nothing that is handed out.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import CurrencyMismatch, InvalidTask, TableError, UnitMismatch
from steelyard.lazy import lazy
from steelyard.models._columns import SIZE, Features
from steelyard.models._losses import Memory
from steelyard.models._rows import Floats, Label, gather, signs
from steelyard.models.accuracy._designs import Array, Exact
from steelyard.models.accuracy._family import CHECK
from steelyard.models.accuracy._goal import public_n
from steelyard.models.accuracy._users import ROOT, exact_of, shares, weighed, weights
from steelyard.privacy import Currency, Neighbours, Terms, Unit
from steelyard.tables import Schema, Table

HALF = Fraction(1, 2)
"""The share of units that check: with any other the dearer part could be more than twice what the best split costs."""

Codes = NDArray[np.uint64]
Seal = Callable[[bytes], bytes]
_MANY = 1 << 62  # rows, more than any table has: sums are then kept in integers that hold them
_SALT = "steelyard disjoint check 1"
_START = np.uint64(int.from_bytes(hashlib.sha256(_SALT.encode()).digest()[:8], "big"))
_STEP, _FIRST, _SECOND = (np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Held(ABC):
    """Rows in a step's hands: whole numbers, and a code for whose each is where users are hidden."""

    x: Floats
    y: Floats
    owners: NDArray[np.int64] | None

    @property
    @abstractmethod
    def units(self) -> int:
        """How many rows, or users, a sum of losses is about."""

    @lazy
    def signed(self) -> Array:
        """Rows times the signs of their classes, where labels are classes; a row of no class becomes zero."""
        return np.asarray(self.x * signs(self.y, 2)[:, None])

    @property
    def memory(self) -> Memory:
        """The signed rows for a solver, those of a user weighing one together."""
        return Memory(self.signed, shares(self.owners))

    def against(self, target: int) -> Memory:
        """The same of one class against the others; of two the second is the target."""
        if target == 2 and "signed" in self.__dict__:
            return self.memory
        return Memory(np.asarray(self.x * signs(self.y, target)[:, None]), shares(self.owners))


@dataclass(frozen=True)
class SplitPart(Held):
    """One part of the units, in memory."""

    x: Floats
    y: Floats
    owners: NDArray[np.int64] | None = None

    @property
    def units(self) -> int:
        """How many rows, or users, there are: private."""
        return len(self.y) if self.owners is None else len(np.unique(self.owners))

    @lazy
    def exact(self) -> Exact:
        """The statistics, each row counting once, or each user; no branch follows from how many there are."""
        if self.owners is None:
            return replace(Exact.of_rows(self.x, self.y), n=_MANY)
        sizes = np.bincount(self.owners)[self.owners] if len(self.owners) else self.owners
        sums = weighed(np.vstack([self.x.T, self.y]), weights(sizes))
        return Exact(_MANY, SIZE * ROOT, sums[:-1, :-1], sums[:-1, -1], int(sums[-1, -1]))


class Whole(Held):
    """All rows of a table: the statistics in one streaming pass, single rows only where a step asks for them."""

    def __init__(self, table: Table, features: Features, label: Label, unit: Unit) -> None:
        self._given, self._n = (table, features, label, unit), unit.n or 1

    @property
    def units(self) -> int:
        """The n that the account declares: every mean is a total over it."""
        return self._n

    @lazy
    def exact(self) -> Exact:
        """The exact statistics."""
        return exact_of(*self._given)

    @lazy
    def _gathered(self) -> Any:
        return gather(*self._given)

    @property
    def x(self) -> Floats:  # type: ignore[override]
        """The features."""
        return np.asarray(self._gathered.x)

    @property
    def y(self) -> Floats:  # type: ignore[override]
        """The label."""
        return np.asarray(self._gathered.y)

    @property
    def owners(self) -> NDArray[np.int64] | None:  # type: ignore[override]
        """Whose each row is."""
        found: NDArray[np.int64] | None = self._gathered.users
        return found


@dataclass(frozen=True)
class Parts:
    """What training steps read, and what looks do."""

    train: Any
    check: Any


@dataclass(frozen=True)
class Split:
    """How units are told apart: by a column of ids or by what their rows say; ``share`` of them check."""

    share: Fraction = HALF
    ids: str | None = None

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse accounts that do not hide rows, other currencies, and ids that cannot be told apart."""
        unit = terms.unit
        if unit.kind not in ("rows", "users"):
            raise UnitMismatch(f"a disjoint check divides rows or users; this account hides {unit}.")
        if unit.column is not None and self.ids not in (None, unit.column):
            raise UnitMismatch(f"users are divided by their own ids; leave ids out, or give {unit.column!r}.")
        if terms.currency is not Currency.GAUSSIAN:
            raise CurrencyMismatch("a disjoint check adds Gaussian steps; open the account with a delta.")
        if unit.neighbours is Neighbours.REPLACE:
            public_n(terms)
        names = self.ids or unit.column
        if names is not None:
            schema.require_keys(names)
        if not 0 < self.share < 1:
            raise InvalidTask(f"the share of rows that check must lie between 0 and 1; got {self.share}.")

    def checks(self, codes: Codes) -> NDArray[np.bool_]:
        """Which of these hashes belong to the check part."""
        return codes < np.uint64(min(math.floor(self.share * 2**64), 2**64 - 1))

    def parts(self, table: Table, features: Features, label: Label, whose: str | None = None) -> Parts:
        """Read the table once and divide its rows; ``whose`` names users, whose rows belong together.

        Rows of nobody are then left out. *Cost:* one pass, and 8 bytes for each feature of each row.
        """
        by, columns = whose or self.ids, [*features.source, label.column]
        x, y, checks = [np.empty((0, features.width))], [np.empty(0)], [np.empty(0, dtype=np.bool_)]
        owners, seen = [np.empty(0, dtype=np.int64)], dict[str, int]()
        for batch in table.batches(columns if by is None else list(dict.fromkeys([*columns, by]))):
            x.append(np.ascontiguousarray(features.whole(batch).T))
            y.append(label.whole(batch.column(len(columns) - 1)))
            ids = Ids.read(None if by is None else batch.column(batch.schema.names.index(by)), len(y[-1]))
            codes = ids.codes if ids.named.all() else np.where(ids.named, ids.codes, of_rows(x[-1], y[-1]))
            checks.append(self.checks(codes))
            if whose is not None:
                owners.append(ids.owners(seen))
        rows = SplitPart(np.concatenate(x), np.concatenate(y), None if whose is None else np.concatenate(owners))
        return _divided(rows, np.concatenate(checks))


class TableRows:
    """The rows of one call, read inside a step that is paid for: all of them, or divided; and what binds a key to them."""

    def __init__(self, features: Features, label: Label, unit: Unit, split: Split | None = None) -> None:
        self._features, self._label, self._unit, self._split = features, label, unit, split
        self.divided, self.snapshot = split is not None, ""
        # rows that are kept apart know nothing of the best model on those that were trained on
        self.kinds: tuple[str, ...] = ("loss", "error", "unexplained", "excess") if split is None else ("loss", "error")
        self._parts: Parts | None = None

    def rows(self, table: Table, part: str, seal: Seal) -> Any:
        """The rows that a step reads."""
        if self._parts is None:
            self._parts = self._read(table, seal)
        return self._parts.check if part == CHECK else self._parts.train

    def _read(self, table: Table, seal: Seal) -> Parts:
        if self._split is None:
            whole = Whole(table, self._features, self._label, self._unit)
            return Parts(whole, whole)
        self.snapshot = self._sealed(table, seal)
        parts = self._split.parts(table, self._features, self._label, self._unit.column)
        if self._sealed(table, seal) != self.snapshot:
            raise TableError("the rows changed while they were divided")
        return parts

    def _sealed(self, table: Table, seal: Seal) -> str:
        """The fingerprint of what is read, under two seals of the key's own: noise to whoever does not hold that.

        Empty where both parts are paid for. Where the dearer one is, no row may change parts at the price of one, and nobody may have a level
        that the looks have paid for drawn from another table.
        """
        if self._split is None or self._unit.neighbours is not Neighbours.ADD_REMOVE:
            return ""
        names = [*self._features.source, self._label.column, self._split.ids, self._unit.column]
        columns = [name for name in dict.fromkeys(names) if name is not None]
        found = table.fingerprint(columns, seal(b"the secret of a fingerprint"))
        return seal(f"snapshot {found}".encode()).hex()


def _divided(rows: SplitPart, checks: NDArray[np.bool_]) -> Parts:
    owners = rows.owners
    known = np.ones(len(rows.y), dtype=np.bool_) if owners is None else owners >= 0
    train, check = (
        SplitPart(rows.x[mask], rows.y[mask], None if owners is None else owners[mask])
        for mask in (known & ~checks, known & checks)
    )
    return Parts(train, check)


@dataclass(frozen=True)
class Ids:
    """The ids of a batch: their texts, which text each row has, its hash, and whether there is one at all."""

    texts: list[str | None]
    places: NDArray[np.int64]

    @classmethod
    def read(cls, array: Any, size: int) -> Ids:
        """The ids of an Arrow array; without one, of ``size`` rows that have none. Null and NaN are none."""
        if array is None:
            return cls([None], np.zeros(size, dtype=np.int64))
        encoded = array.dictionary_encode()
        texts = [_text(value) for value in _values(encoded.dictionary)]
        places = encoded.indices.cast("int64").fill_null(len(texts)).to_numpy(zero_copy_only=False)
        return cls([*texts, None], places)

    @property
    def named(self) -> NDArray[np.bool_]:
        """Which rows have an id."""
        return np.array([text is not None for text in self.texts])[self.places]

    @property
    def codes(self) -> Codes:
        """Sixty-four bits of SHA-256 of each row's id."""
        digests = [hashlib.sha256(f"{_SALT}:{text}".encode()).digest()[:8] for text in self.texts]
        return np.array([int.from_bytes(digest, "big") for digest in digests], dtype=np.uint64)[self.places]

    def owners(self, seen: dict[str, int]) -> NDArray[np.int64]:
        """A number for each row's id, the same in every batch; -1 where there is none."""
        numbers = [-1 if text is None else seen.setdefault(text, len(seen)) for text in self.texts]
        return np.array(numbers, dtype=np.int64)[self.places]


def of_rows(x: Floats, y: Floats) -> Codes:
    """Sixty-four bits of each row's whole numbers, one after the other through the finalizer of splitmix64."""
    code = np.full(len(y), _START)
    for column in (*x.T, y):
        code = _mixed((code + _STEP) ^ column.astype(np.int64).view(np.uint64))
    return code


def _values(dictionary: Any) -> list[Any]:
    """Distinct ids as Python values; dates as their number of days, because Python's own calendar ends before Arrow's."""
    import pyarrow as pa

    if pa.types.is_date(dictionary.type):
        dictionary = dictionary.cast(pa.date32(), safe=False).cast(pa.int32())
    values: list[Any] = dictionary.to_pylist()
    return values


def _text(value: Any) -> str | None:
    """An id as text that reads the same on every engine: 1.0 as 1, -0.0 as 0, NaN as nothing."""
    if isinstance(value, float | Decimal) and value == value and math.isfinite(value) and value == int(value):
        return str(int(value))
    if isinstance(value, Decimal):
        return format(value, "f").rstrip("0")
    if value is None or value != value:
        return None
    return str(value)


def _mixed(code: Codes) -> Codes:
    code = (code ^ (code >> np.uint64(30))) * _FIRST
    code = (code ^ (code >> np.uint64(27))) * _SECOND
    return np.asarray(code ^ (code >> np.uint64(31)))
