"""The chain: every entry carries a keyed hash (HMAC-SHA256) of itself and of the entry before it.

What is chained is everything that decides what may be spent and what was said: the ledger's own creation (with the
fingerprint of its schema), the opening of each account with its cap and its parent, each charge with who asked what of which table,
each raise, the digest of each stored answer, and every act of an administrator. Without the key nobody can edit, drop, add or
reorder entries and mend the hashes.
Times are kept for openings, charges and acts only: the time of an answer would tell how long private data took.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from steelyard.privacy import canonical

GENESIS = "0" * 64
OF = " of "
"""Between the digest of a request and the identity of its table."""


class Entry(NamedTuple):
    """One line of the ledger; unused fields are empty or 0. ``kind`` is ledger, upgrade, account, charge, raise, answer, note, freeze, unfreeze or close.

    ``name`` is the idempotency key of a charge and ``request`` the SHA-256 of its request and the
    identity of the table it is asked of; ``amount`` and ``delta``
    are the account's cap, the charge's cost or the raised level; ``charge`` is the sequence of the charge that a
    raise or an answer belongs to; ``digest`` is the SHA-256 of the stored answer; ``person`` is who asked or acted, as it was told to
    us; ``asked`` what a charge is for, as JSON: the task with its columns, and the text of the view. In a note ``name`` is what was done.
    """

    sequence: int
    kind: str
    account: str = ""
    name: str = ""
    request: str = ""
    amount: int = 0
    delta: int = 0
    charge: int = 0
    step: int = 0
    digest: str = ""
    detail: str = ""
    at: str = ""
    person: str = ""
    asked: str = ""
    mac: str = ""

    @property
    def table(self) -> str:
        """The public identity of the table that a charge is for."""
        return self.request.partition(OF)[2]

    @property
    def task(self) -> Any:
        """The request that a charge is for, read back from JSON; None where it was not kept."""
        return self._asked.get("task")

    @property
    def view(self) -> str:
        """The text of the view that a charge is for, where it is for one."""
        return str(self._asked.get("view", ""))

    @property
    def _asked(self) -> dict[str, Any]:
        asked: dict[str, Any] = json.loads(self.asked) if self.asked else {}
        return asked

    @classmethod
    def read(cls, row: Sequence[Any]) -> Entry:
        """An entry from a row in the order of COLUMNS."""
        return cls._make(row)

    def authentic(self, key: bytes, before: str) -> bool:
        """Whether this is the entry that was written after ``before``."""
        try:
            return hmac.compare_digest(tie(key, before, self[:-1]), self.mac)
        except (TypeError, ValueError):  # a value that is not even JSON was put into the row
            return False


COLUMNS = Entry._fields
BLANK = {name: Entry._field_defaults[name] for name in COLUMNS[2:-1]}
"""What an entry says where nothing else is given, in the order of its columns between its kind and its mac."""

_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _prepared() -> Callable[[Any], str]:
    """The encoder, made once: as Python has it, it is made anew for every text. What it writes is the same, or it is not used."""
    texts, sample = (
        json.encoder.encode_basestring_ascii,
        ['\u20ac"\\\x1f\x7f\U0001f4a7', -(2**63), 0, None, True, 0.5, []],
    )
    try:
        parts = json.encoder.c_make_encoder(None, _ENCODER.default, texts, None, ":", ",", False, False, False)  # type: ignore[attr-defined]
        if "".join(parts(sample, 0)) == _ENCODER.encode(sample):
            return lambda content: "".join(parts(content, 0))
    except TypeError:
        pass
    return _ENCODER.encode


_encode = _prepared()


@lru_cache(maxsize=16)
def _keyed(key: bytes) -> tuple[Any, Any]:
    """The two hashes of HMAC-SHA256 (RFC 2104) after the key, so that an entry takes copies of them and not the key again."""
    padded = (key if len(key) <= 64 else hashlib.sha256(key).digest()).ljust(64, b"\0")
    return hashlib.sha256(padded.translate(_INNER)), hashlib.sha256(padded.translate(_OUTER))


_INNER, _OUTER = (bytes(byte ^ mask for byte in range(256)) for mask in (0x36, 0x5C))


def tie(key: bytes, before: str, content: Sequence[Any]) -> str:
    """The keyed hash (HMAC-SHA256) of an entry's content and of the hash before it.

    Who asked what is left out where both are empty: such an entry reads as one of the first format, which had neither.
    """
    if content[-1] == "" == content[-2]:
        content = content[:-2]
    return keyed_hash(key, _encode([before, *content]).encode())


def keyed_hash(key: bytes, data: bytes) -> str:
    """HMAC-SHA256, in hexadecimal digits."""
    begun, around = _keyed(key)
    inner, outer = begun.copy(), around.copy()
    inner.update(data)
    outer.update(inner.digest())
    digest: str = outer.hexdigest()
    return digest


@dataclass
class Identity:
    """Which ledger this is: its random name, once known, and the key of its chain."""

    key: bytes
    name: str = ""


@dataclass(frozen=True)
class Position:
    """How far a chain has come: how many entries, the head there, and whose ledger it is."""

    sequence: int
    head: str
    ledger: str

    def seal(self, key: bytes) -> str:
        """The keyed seal of this position."""
        return keyed_hash(key, canonical(["anchor", self.sequence, self.head, self.ledger]))

    def missed(self, sequence: int, head: str, ledger: str) -> Iterator[str]:
        """What is wrong with a chain of this length and ledger, and this head here, that should have passed through here."""
        if self.sequence > sequence:
            yield f"the ledger ends at entry {sequence}, but entry {self.sequence} was seen: an older copy was put back"
        elif self.sequence and (self.head != head or self.ledger != ledger):
            yield f"entry {self.sequence} is not the one that was seen: another history was put in its place"
