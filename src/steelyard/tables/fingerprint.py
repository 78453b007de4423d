"""A keyed fingerprint of a snapshot: the same rows in any order give the same, a changed row another.

Every row is read as text, hashed with a secret, and 120 bits of the hashes are added up in wide integers by the engine
itself; the sum does not mind the order and needs no memory. Whoever does not hold the secret learns nothing from it;
whoever does could test a guess about the rows, so a fingerprint is compared where it is made and never released.
Law: a fingerprint leaves its process under a seal of the ledger's key or not at all (docs/proofs/accuracy_first_paths.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from steelyard.tables.sampling import check_secret
from steelyard.tables.totals import WIDE

_DIGITS = "0123456789abcdef"
_EACH = 15


def sums(rows: Any, columns: Sequence[str], secret: bytes) -> Any:
    """The number of rows and two sums of sixty bits of each row's keyed digest, as an Ibis question."""
    import ibis

    key = ibis.literal(hashlib.sha256(check_secret(secret)).hexdigest()[:32])
    digested = rows.select(d=(key + _content(rows, columns)).hexdigest("sha256"))
    parts = {f"s{i}": _number(digested.d, i * _EACH).cast(WIDE).sum() for i in range(2)}
    return digested.aggregate(n=digested.count(), **parts)


def sealed(numbers: Sequence[int], secret: bytes) -> str:
    """The sums as one text that is no longer a sum of anything."""
    return hashlib.sha256(secret + repr([int(number) for number in numbers]).encode()).hexdigest()


def _number(digest: Any, start: int) -> Any:
    """Fifteen hexadecimal digits as an integer, by operations every engine has."""
    import ibis

    places = [ibis.literal(_DIGITS).find(digest.substr(start + i, 1)).cast("int64") for i in range(_EACH)]
    return reduce(add, [place * ibis.literal(16**i, "int64") for i, place in enumerate(places)])


def _content(rows: Any, columns: Sequence[str]) -> Any:
    """A row as text, each value with its length before it, so that no two rows read the same."""
    import ibis

    texts = [rows[name].cast("string") for name in columns]
    return reduce(add, [ibis.cases((t.isnull(), "-:"), else_=t.length().cast("string") + ":" + t) for t in texts])
