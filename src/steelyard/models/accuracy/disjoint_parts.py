"""Which units a model is trained on and which it is checked on: a public function of a unit's own name.

A user's part follows from its id, a row's from an id column or, without one, from the row's own whole numbers. The
hash is fixed and keyed by nothing, so the same id lies in the same part whatever else the table holds, in whatever
order, on every engine. Rows of nobody are left out, as everywhere.
Law: the part of a unit depends on that unit alone; adding or removing one moves no other (docs/proofs/disjoint_check.md).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.lazy import lazy
from steelyard.models.accuracy.by_user import ROOT, weighed, weights
from steelyard.models.accuracy.measured import Exact
from steelyard.models.columns import SIZE, Features
from steelyard.models.rows import Floats, Label
from steelyard.tables import Table

HALF = Fraction(1, 2)
"""The share of units that check: with any other the dearer part could be more than twice what the best split costs."""

Codes = NDArray[np.uint64]
_MANY = 1 << 62  # rows, more than any table has: sums are then kept in integers that hold them
_SALT = "steelyard disjoint check 1"
_START = np.uint64(int.from_bytes(hashlib.sha256(_SALT.encode()).digest()[:8], "big"))
_STEP, _FIRST, _SECOND = (np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass(frozen=True)
class Part:
    """One part of the units: rows as whole numbers, and a code for whose each is where users are hidden."""

    x: Floats
    y: Floats
    owners: NDArray[np.int64] | None = None

    @property
    def units(self) -> int:
        """How many rows, or users, there are: private."""
        return len(self.y) if self.owners is None else len(np.unique(self.owners))

    @property
    def rows(self) -> tuple[NDArray[Any], ...]:
        """What a look at single losses reads."""
        return (self.x, self.y) if self.owners is None else (self.x, self.y, self.owners)

    @lazy
    def exact(self) -> Exact:
        """The statistics, each row counting once, or each user; no branch follows from how many there are."""
        if self.owners is None:
            return replace(Exact.of_rows(self.x, self.y), n=_MANY)
        sizes = np.bincount(self.owners)[self.owners] if len(self.owners) else self.owners
        sums = weighed(np.vstack([self.x.T, self.y]), weights(sizes))
        return Exact(_MANY, SIZE * ROOT, sums[:-1, :-1], sums[:-1, -1], int(sums[-1, -1]))


@dataclass(frozen=True)
class Parts:
    """Both parts of a table, in memory; the model is trained on one and looked at on the other."""

    train: Part
    check: Part


@dataclass(frozen=True)
class Split:
    """How units are told apart: by a column of ids or by what their rows say; ``share`` of them check.

    ``users`` says that the ids name users, whose rows belong together; rows of nobody are then left out.
    """

    share: Fraction = HALF
    ids: str | None = None
    users: bool = False

    def checks(self, codes: Codes) -> NDArray[np.bool_]:
        """Which of these hashes belong to the check part."""
        return codes < np.uint64(min(math.floor(self.share * 2**64), 2**64 - 1))

    def parts(self, table: Table, features: Features, label: Label) -> Parts:
        """Read the table once and divide its rows.

        *Cost:* one pass, and 8 bytes for each feature of each row.
        """
        x, y, checks = [np.empty((0, features.width))], [np.empty(0)], [np.empty(0, dtype=np.bool_)]
        owners, seen = [np.empty(0, dtype=np.int64)], dict[str, int]()
        columns = [*features.source, label.column]
        for batch in table.batches(columns if self.ids is None else list(dict.fromkeys([*columns, self.ids]))):
            x.append(np.ascontiguousarray(features.whole(batch).T))
            y.append(label.whole(batch.column(len(columns) - 1)))
            ids = Ids.read(None if self.ids is None else batch.column(batch.schema.names.index(self.ids)), len(y[-1]))
            codes = ids.codes if ids.named.all() else np.where(ids.named, ids.codes, of_rows(x[-1], y[-1]))
            checks.append(self.checks(codes))
            if self.users:
                owners.append(ids.owners(seen))
        rows = Part(np.concatenate(x), np.concatenate(y), np.concatenate(owners) if self.users else None)
        return _divided(rows, np.concatenate(checks))


def _divided(rows: Part, checks: NDArray[np.bool_]) -> Parts:
    owners = rows.owners
    known = np.ones(len(rows.y), dtype=np.bool_) if owners is None else owners >= 0
    train, check = (
        Part(rows.x[mask], rows.y[mask], None if owners is None else owners[mask])
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
