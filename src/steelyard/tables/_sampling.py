"""Keyed digests of rows: to keep some of a unit's rows or keys, and to know a snapshot again.

Each candidate gets 64 bits (a row 128) of SHA-256 over a fresh secret and its own content; the smallest are kept. So the choice
depends on what the rows say and never on where they lie, equals uniform sampling to whoever does not know the secret,
and is the same on every engine. Exactly min(limit, available) are kept. Identical rows are told apart by a number.
Law: what is kept of a unit is a function of that unit's rows and the secret alone.

A fingerprint is the same for the same rows in any order, and another for a changed row. Every row is read as text and hashed with a secret by the engine, and 120 bits of the hashes are added up in wide integers: on this
machine as the rows go by, on a cluster by the engine itself; the sum does not mind the order and needs no memory. Whoever does not hold the secret learns nothing from it;
whoever does could test a guess about the rows, so a fingerprint is compared where it is made and never released.
Law: a fingerprint leaves its process under a seal of the ledger's key or not at all (docs/proofs/accuracy_first_paths.md).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

from steelyard.errors import InvalidTask, TableError
from steelyard.tables._kinds import GROUPABLE, kind_of
from steelyard.tables._totals import WIDE, Dialect, beside, identity


@dataclass(frozen=True)
class Limits:
    """Harder bounds by key: at most ``max_keys`` keys per unit and ``rows_per_key`` rows per unit and key."""

    max_keys: int | None = None
    rows_per_key: int | None = None
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def __post_init__(self) -> None:
        for name in ("max_keys", "rows_per_key"):
            if getattr(self, name) is not None:
                check_limit(getattr(self, name), name)
        check_secret(self.secret)


def check_limit(value: int, name: str) -> int:
    """Read a public limit of at least one."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise InvalidTask(f"{name} must be an integer of at least 1; got {value!r}.")
    return value


def check_secret(secret: bytes) -> bytes:
    """Read a secret of at least 16 bytes."""
    if not isinstance(secret, bytes) or len(secret) < 16:
        raise InvalidTask("the secret must be at least 16 bytes; leave it out to draw a fresh one.")
    return secret


def key_names(rows: Any) -> list[str]:
    """The columns that hold the parts of a key: ``k``, or ``k0``, ``k1``, …"""
    return [name for name in rows.columns if name.startswith("k")]


def keep_keys(pairs: Any, limits: Limits, engine: Dialect) -> Any:
    """At most ``max_keys`` of each unit's rows ``(u, k…, …)``, one per key: a tuple of values counts once."""
    import ibis

    if limits.max_keys is None:
        return pairs
    marked = beside(pairs, ["u"], engine, {"c": pairs.count()})
    names = key_names(pairs)
    digest = digest_of(limits.secret, content(marked, ["u", *names]))
    order = marked.select(*pairs.columns, d=ibis.cases((marked.c > limits.max_keys, digest), else_=""))
    ranked = order.mutate(
        r=ibis.row_number().over(group_by=order.u, order_by=[order.d, *map(order.__getitem__, names)])
    )
    return ranked.filter(ranked.r < limits.max_keys).select(*pairs.columns)


def keep_rows_per_key(units: Any, limits: Limits, engine: Dialect) -> Any:
    """At most ``rows_per_key`` of the rows ``(u, k…, q0, …)`` of each unit and key."""
    if limits.rows_per_key is None:
        return units
    return _keep(units, ["u", *key_names(units)], limits.rows_per_key, limits.secret, engine)


def keep_rows(rows: Any, column: str, columns: Sequence[str], limit: int, secret: bytes, engine: Dialect) -> Any:
    """At most ``limit`` rows of each unit, with the given columns; rows without a unit are dropped."""
    known = rows.filter(identity(rows[column]).notnull())
    for name in columns:
        if kind_of(known[name].type()) not in GROUPABLE:
            raise TableError(f"column {name!r} cannot be compared between rows; name the columns to keep without it.")
    units = known.select(*columns, steelyard_unit=identity(known[column]))
    return _keep(units, ["steelyard_unit"], limit, secret, engine).select(*columns)


def _keep(rows: Any, group: Sequence[str], limit: int, secret: bytes, engine: Dialect) -> Any:
    """At most ``limit`` rows of each group: those of the smallest digests.

    Where a source reads alike twice, groups that are small enough are taken whole, which spares them the digests. Elsewhere a group
    could be small in one reading and large in the other, so all come from one.
    """
    if not engine.rereads:
        return _smallest(rows, group, limit, secret)
    names = list(rows.columns)
    marked = beside(rows, group, engine, {"steelyard_c": rows.count()})
    light = marked.filter(marked.steelyard_c <= limit).select(*names)
    heavy = marked.filter(marked.steelyard_c > limit).select(*names)
    return light.union(_smallest(heavy, group, limit, secret))


def _smallest(rows: Any, group: Sequence[str], limit: int, secret: bytes) -> Any:
    """The ``limit`` rows of each group whose digests are smallest.

    Rows that read alike are numbered, each group's by themselves: all have one digest as number 0, so one sort by it counts them. Whoever has ``limit``
    other numbers 0 before itself is out whatever the rest say, so that few rows are sorted again, beside those with higher numbers.
    """
    import ibis

    names = list(rows.columns)
    told = rows.mutate(steelyard_d=_long_digest(secret, content(rows, names) + "0"))
    sort = ibis.window(group_by=list(group), order_by=told.steelyard_d)
    copy = ibis.row_number().over(sort) - ibis.rank().over(sort)
    told = told.mutate(steelyard_n=copy, steelyard_p=ibis.dense_rank().over(sort))
    left = told.filter((told.steelyard_n > 0) | (told.steelyard_p < limit))
    other = _long_digest(secret, content(left, names) + left.steelyard_n.cast("string"))
    left = left.mutate(steelyard_d=ibis.cases((left.steelyard_n == 0, left.steelyard_d), else_=other))
    ranked = left.mutate(
        steelyard_r=ibis.row_number().over(group_by=list(group), order_by=[left.steelyard_d, left.steelyard_n])
    )
    return ranked.filter(ranked.steelyard_r < limit).select(*names)


def digest_of(secret: bytes, text: Any, digits: int = 16) -> Any:
    """Sixty-four bits of SHA-256, keyed with 128 bits of the secret's own: short texts then take one block."""
    import ibis

    key = hashlib.sha256(secret).hexdigest()[:32]
    return (ibis.literal(key) + text).hexdigest("sha256").left(digits)


def _long_digest(secret: bytes, text: Any) -> Any:
    """Twice as many: texts that have the same are the same."""
    return digest_of(secret, text, 32)


def _text(value: Any) -> Any:
    """A value as text with its length before it, so that no two lists of values read the same."""
    import ibis

    text = value.cast("string")
    # asked of the text: Ibis writes "is null" of a float as "null or NaN" for some engines
    return ibis.cases((text.isnull(), "-:"), else_=text.length().cast("string") + ":" + text)


def content(rows: Any, names: Sequence[str]) -> Any:
    """A row as text; no two rows read the same."""
    return reduce(add, [_text(rows[name]) for name in names])


_DIGITS = "0123456789abcdef"
_EACH, _PARTS = 15, 2
NO_ROWS = (0, [0] * _PARTS, [0] * _PARTS)
"""What ``added_digests`` makes of no rows."""


def row_digest(rows: Any, columns: Sequence[str], secret: bytes) -> Any:
    """A keyed digest of what some columns of a row say: thirty hexadecimal digits."""
    import ibis

    key = ibis.literal(hashlib.sha256(check_secret(secret)).hexdigest()[:32])
    return (key + content(rows, columns)).hexdigest("sha256").left(_EACH * _PARTS)


def fingerprint_sums(rows: Any, columns: Sequence[str], secret: bytes) -> Any:
    """The number of rows and two sums of sixty bits of each row's keyed digest, as an Ibis question."""
    digested = rows.select(d=row_digest(rows, columns, secret))
    parts = {f"s{i}": _number(digested.d, i * _EACH).cast(WIDE).sum() for i in range(_PARTS)}
    return digested.aggregate(n=digested.count(), **parts)


def added_digests(batch: Any) -> tuple[int, Any, Any]:
    """How many rows a batch has, and the upper and lower halves of the two sums, of the digests in its last column.

    A number's first digit is its lowest, so two digits are a byte and eight bytes, one after the other, a word.
    """
    import numpy as np
    import pyarrow as pa

    digests = batch.column(batch.num_columns - 1).cast(pa.binary()).cast(pa.binary(_EACH * _PARTS))
    each = _EACH * _PARTS
    letters = np.frombuffer(digests.buffers()[1], np.uint8, each * len(digests), each * digests.offset)
    digits = np.zeros((len(digests), _PARTS, _EACH + 1), np.uint8)
    digits[:, :, :_EACH] = ((letters & 15) + 9 * (letters >> 6)).reshape(-1, _PARTS, _EACH)
    words = (digits[:, :, ::2] | digits[:, :, 1::2] << 4).view("<u8")[:, :, 0]
    return len(digests), (words >> np.uint64(32)).sum(axis=0), (words & np.uint64(2**32 - 1)).sum(axis=0)


def fingerprint_numbers(rows: Any, upper: Any, lower: Any) -> list[int]:
    """The same as ``fingerprint_sums`` answers, of what was added up."""
    return [int(rows), *((int(high) << 32) + int(low) for high, low in zip(upper, lower, strict=True))]


def sealed_fingerprint(numbers: Sequence[int], secret: bytes) -> str:
    """The sums as one text that is no longer a sum of anything."""
    return hashlib.sha256(secret + repr([int(number) for number in numbers]).encode()).hexdigest()


def _number(digest: Any, start: int) -> Any:
    """Fifteen hexadecimal digits as an integer, by operations every engine has.

    Powers are written as text and converted: Spark takes a bare literal, as it takes a place, for 32 bits, and fails where a product is longer.
    """
    import ibis

    places = [ibis.literal(_DIGITS).find(digest.substr(start + i, 1)) for i in range(_EACH)]
    return reduce(add, [place * ibis.literal(str(16**i)).cast("int64") for i, place in enumerate(places)])
