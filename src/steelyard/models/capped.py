"""A row-level method made user-level by keeping at most so many rows of each user.

The rows kept are chosen by a digest of their own content, keyed with a secret from the noise source: as good as drawn at
random to whoever does not know the secret, and a function of the user's rows alone, in any order. One user is then a
group of at most ``cap`` rows, so a method that costs mu (or epsilon) for one row costs ``cap`` times that for a user.
Capping treats heavy users as if they were light ones; where they differ, ``UserDescent`` hears more of them.
Law: what is kept of a user depends on that user's rows and the secret alone (docs/proofs/user_descent.md).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.accounting.prices import grouped
from steelyard.errors import InvalidTask
from steelyard.models.rows import Floats, Rows
from steelyard.models.user_sums import ByUser, Ints

if TYPE_CHECKING:
    from steelyard.models.passes import Method, Training
    from steelyard.models.rows import Fitted
    from steelyard.noise import Noise
    from steelyard.privacy import Event


@dataclass(frozen=True)
class CappedFit:
    """Fit with ``method`` on at most ``cap`` rows of each user.

    *Privacy:* ``cap`` times what the method costs for one row, by group privacy. *Accuracy:* the more alike users are,
    the smaller the best cap; with users who are all alike it is 1. *Cost:* one digest for each row of a user above the cap.
    """

    method: Method
    cap: int

    def __post_init__(self) -> None:
        check_cap(self.cap)

    @property
    def event(self) -> Event:
        """The method's, for a group of ``cap`` rows."""
        return grouped(self.method.event, self.cap)

    def fit(self, data: Training, noise: Noise) -> Fitted:
        """Keep some rows, then fit them as if each were a unit."""
        return self.method.fit(kept(data.rows(), self.cap, noise.bits(4).tobytes()), noise)


def check_cap(cap: int) -> int:
    """A cap is a whole number of rows."""
    if isinstance(cap, bool) or not isinstance(cap, int) or not 1 <= cap < 2**31:
        raise InvalidTask(f"cap must be a whole number of rows of at least 1; got {cap!r}.")
    return cap


def kept(rows: Rows, cap: int, secret: bytes) -> Rows:
    """At most ``cap`` rows of each user: those with the smallest keyed digests of their content."""
    if rows.users is None:
        raise InvalidTask("a cap per user needs to know whose row each one is.")
    by = ByUser(rows.users)
    places: list[Ints] = []
    for start, size in zip(by.starts[:-1].tolist(), by.sizes.tolist(), strict=True):
        mine = by.order[start : start + size]
        places.append(mine if size <= cap else mine[_smallest(rows.x[mine], rows.y[mine], cap, secret)])
    chosen = np.concatenate([np.empty(0, dtype=np.int64), *places])
    return Rows(rows.x[chosen], rows.y[chosen], None, rows.step)


def _smallest(x: Floats, y: Floats, cap: int, secret: bytes) -> Any:
    """Which rows of one user to keep; identical rows are numbered, so that each has a digest of its own."""
    seen: Counter[bytes] = Counter()
    digests = []
    for content in map(bytes, np.column_stack([x, y]).astype(np.int64)):
        number = seen[content].to_bytes(8, "little")
        seen[content] += 1
        digests.append(hashlib.blake2b(content + number, key=secret[:64], digest_size=16).digest())
    return sorted(range(len(digests)), key=digests.__getitem__)[:cap]
