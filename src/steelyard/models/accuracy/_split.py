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
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import CurrencyMismatch, InvalidTask, TableError, UnitMismatch
from steelyard.lazy import lazy
from steelyard.models._columns import Features
from steelyard.models._losses import Passes
from steelyard.models._rows import Floats, Label
from steelyard.models.accuracy._designs import Exact
from steelyard.models.accuracy._family import CHECK
from steelyard.models.accuracy._goal import public_n
from steelyard.models.accuracy._held import BESIDE, Chosen, Each, Passed, SplitPart
from steelyard.models.accuracy._users import WEIGHT, exact_of
from steelyard.privacy import Currency, Neighbours, Terms, Unit
from steelyard.tables import Schema, Table, UnitBlocks

HALF = Fraction(1, 2)
"""The share of units that check: with any other the dearer part could be more than twice what the best split costs."""

Codes = NDArray[np.uint64]
Seal = Callable[[bytes], bytes]
_SALT = "steelyard disjoint check 1"
_START = np.uint64(int.from_bytes(hashlib.sha256(_SALT.encode()).digest()[:8], "big"))
_STEP, _FIRST, _SECOND = (np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Whole:
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
    def _rows(self) -> SplitPart | Passed:
        return KeptRows.read(*self._given).rows(None)

    def summed(self, each: Each) -> int:
        """The sum of a whole number for each row, or of the users' means, each rounded up."""
        return self._rows.summed(each)

    def against(self, target: int) -> Passes:
        """The rows for a solver, of one class against the others."""
        return self._rows.against(target)


@dataclass(frozen=True)
class Numbering:
    """A batch as kept rows; ``place`` is that of the ids, ``size`` that of how many rows a unit has."""

    features: Features
    label: Label
    split: Split | None
    place: int | None
    size: int | None

    def __call__(self, batch: Any) -> NDArray[np.int32]:
        """A row each; total."""
        x = np.ascontiguousarray(self.features.whole(batch).T)
        y, sizes = self.label.whole(batch.column(len(self.features.source))), np.ones(len(x), dtype=np.int64)
        if self.size is not None:
            counted = batch.column(self.size).to_numpy(zero_copy_only=False)
            sizes = np.clip(counted, 1, WEIGHT + 1).astype(np.int64)  # of more rows none weighs anything
        if self.split is not None:
            ids = Ids.read(None if self.place is None else batch.column(self.place), len(y))
            codes = ids.codes if ids.named.all() else np.where(ids.named, ids.codes, of_rows(x, y))
            sizes = np.where(self.split.checks(codes), -sizes, sizes)
        return np.column_stack([x, y, sizes]).astype(np.int32)


@dataclass(frozen=True)
class KeptRows:
    """The rows of a table, read once and kept: on this machine in memory of a fixed size, then in a file without a name; on Spark with its workers."""

    blocks: UnitBlocks
    width: int
    users: bool
    few: list[tuple[Any, Any]] | None
    """All of them, where they fit into memory."""
    fingerprint: str = ""
    """What these very rows said, where that was asked for."""

    @classmethod
    def read(
        cls,
        table: Table,
        features: Features,
        label: Label,
        unit: Unit,
        split: Split | None = None,
        secret: bytes | None = None,
    ) -> KeptRows:
        """Read them; a user's rows come together, and rows of nobody are then left out. *Cost:* one pass, and one sort where users are hidden.

        With a ``secret`` they are fingerprinted as they are kept; where a row is a unit and lies on this machine.
        """
        by = unit.column or (None if split is None else split.ids)
        columns = list(dict.fromkeys([*features.source, label.column, *([] if by is None else [by])]))
        users = unit.column is not None
        size, place = len(columns) if users else None, None if by is None else columns.index(by)
        numbering = Numbering(features, label, split, place, size)
        wide, found = features.width + BESIDE, ""
        if secret is None:
            blocks = table.blocks_by_unit(columns, unit, numbering, wide, sized=users)
        else:
            blocks, found = table.bound_blocks(columns, numbering, wide, secret)
        return cls(blocks, features.width, users, blocks.mapped(np.asarray, wide).in_memory(), found)

    def rows(self, checks: bool | None) -> SplitPart | Passed:
        """All rows, or those of a part: in memory where they are few."""
        chosen, few = Chosen(checks, self.users), self.few
        return Passed(self.blocks, self.width, chosen) if few is None else chosen.together(few, self.width)


@dataclass(frozen=True)
class Parts:
    """What training steps read, and what looks do."""

    train: Any
    check: Any
    fingerprint: str = ""


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

    def parts(self, table: Table, features: Features, label: Label, unit: Unit, secret: bytes | None = None) -> Parts:
        """Read the table once and divide its rows; a user's belong together, and rows of nobody are then left out.

        *Cost:* one pass, in memory of a fixed size.
        """
        kept = KeptRows.read(table, features, label, unit, self, secret)
        return Parts(kept.rows(False), kept.rows(True), kept.fingerprint)


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
        if self._bound and table.local and self._unit.column is None:
            parts = self._split.parts(table, self._features, self._label, self._unit, _secret(seal))
            self.snapshot = _snapshot(parts.fingerprint, seal)
            return parts
        self.snapshot = self._sealed(table, seal)
        parts = self._split.parts(table, self._features, self._label, self._unit)
        if not table.local:
            parts.train.units  # noqa: B018 - rows that stay with workers are divided by the first pass over them
        self._same(table, seal)
        return parts

    def settle(self, table: Table, seal: Seal) -> None:
        """After a step: rows that stay with workers are read again where a worker was lost, and must be the same then."""
        if self._split is not None and not table.local:
            self._same(table, seal)

    def _same(self, table: Table, seal: Seal) -> None:
        if self._sealed(table, seal) != self.snapshot:
            raise TableError("the rows changed while they were divided")

    def _sealed(self, table: Table, seal: Seal) -> str:
        """The fingerprint of what is read, under two seals; empty where nothing is bound."""
        if not self._bound or self._split is None:
            return ""
        names = [*self._features.source, self._label.column, self._split.ids, self._unit.column]
        columns = [name for name in dict.fromkeys(names) if name is not None]
        return _snapshot(table.fingerprint(columns, _secret(seal)), seal)

    @property
    def _bound(self) -> bool:
        """Whether a path belongs to its rows: not where both parts are paid for.

        Where the dearer one is, no row may change parts at the price of one, and nobody may have a level that the looks have paid for drawn
        from another table.
        """
        return self._split is not None and self._unit.neighbours is Neighbours.ADD_REMOVE


def _secret(seal: Seal) -> bytes:
    return seal(b"the secret of a fingerprint")


def _snapshot(fingerprint: str, seal: Seal) -> str:
    """A fingerprint under two seals of the key's own: noise to whoever does not hold that."""
    return seal(f"snapshot {fingerprint}".encode()).hex()


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
