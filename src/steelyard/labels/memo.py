"""Each record is randomized once: what was drawn for an id is kept, and given again whenever the id comes back.

The draws of new ids are stored under the collection's one charge before anybody sees them, in numbered steps of which
the ledger keeps the first ever written. Two processes that race on a step both continue from the one that was kept.
The law: deliver only what the store gave back (docs/proofs/label_randomizer.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.account import Charge
from steelyard.errors import InvalidTask

STEP = 1 << 18  # new ids per stored step: five megabytes
_KEY = np.dtype("S16")
Draw = Callable[[NDArray[np.intp]], NDArray[np.int64]]


def digests(ids: Any) -> NDArray[np.bytes_]:
    """Sixteen bytes for each public record id; 7 and "7" are the same record, a missing id is none.

    Two ids with one digest would share one draw: harmless to privacy, and never seen to happen with 128 bits.
    """
    given = ids.to_pylist() if hasattr(ids, "to_pylist") else ids.to_numpy() if hasattr(ids, "to_numpy") else ids
    values = np.asarray(given, dtype=object if isinstance(given, list | tuple) else None)
    if values.ndim != 1 or values.dtype.kind not in "iuUSO":
        raise InvalidTask(f"record ids are one column of integers or texts; got {values.dtype}.")
    texts = [_text(value) for value in values.tolist()]
    raw = b"".join(hashlib.blake2b(text, digest_size=16).digest() for text in texts)
    return np.frombuffer(raw, dtype=_KEY)


def check_once(names: NDArray[np.bytes_] | None) -> None:
    """Refuse ids that come twice in one call: the second row would get the first one's noisy label.

    *Privacy:* ids are public where labels are what is hidden, so neighbours agree on what is refused here.
    """
    if names is not None and len(np.unique(names)) != len(names):
        raise InvalidTask(
            f"{len(names)} records have {len(np.unique(names))} different ids. An id names one record (a row, not a user): "
            "rows that share one would share one noisy label. Nothing was charged."
        )


def _text(value: Any) -> bytes:
    value = value.item() if isinstance(value, np.integer) else value
    if isinstance(value, bool) or not isinstance(value, int | str | bytes):
        raise InvalidTask("every record needs an id that is an integer or a text; ids are public, labels are not.")
    return value if isinstance(value, bytes) else str(value).encode()


class Memo:
    """The outputs drawn so far under one charge, by record."""

    def __init__(self, charge: Charge, code: str = "<u4") -> None:
        self._charge, self._drawn = charge, np.dtype(code)
        self._parts: list[tuple[NDArray[np.bytes_], NDArray[np.int64]]] = []
        self._next = 0
        answers = charge.answers
        while self._next in answers:
            self._keep(answers[self._next])

    def outputs(self, keys: NDArray[np.bytes_], draw: Draw) -> NDArray[np.int64]:
        """The output number of every record, drawing (and storing first) those that were never drawn."""
        found, new = self._find(keys)
        while True:
            unknown = np.flatnonzero(new)
            if not unknown.size:
                return found
            _, first = np.unique(keys[unknown], return_index=True)
            fresh = unknown[np.sort(first)][:STEP]
            payload = keys[fresh].tobytes() + draw(fresh).astype(self._drawn).tobytes()
            self._keep(self._charge.store(payload, step=self._next))
            found, new = self._find(keys)

    def _keep(self, payload: bytes) -> None:
        size = len(payload) // (_KEY.itemsize + self._drawn.itemsize)
        keys = np.frombuffer(payload, _KEY, size)
        drawn = np.frombuffer(payload, self._drawn, size, offset=size * _KEY.itemsize)
        order = np.argsort(keys, kind="stable")
        self._parts.append((keys[order], drawn[order].astype(np.int64)))
        self._next += 1

    def _find(self, keys: NDArray[np.bytes_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The output of every record, and which of them were never drawn; a step kept earlier wins."""
        found, new = np.zeros(len(keys), dtype=np.int64), np.ones(len(keys), dtype=np.bool_)
        for known, drawn in self._parts:
            place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            hit = new & (known[place] == keys)
            found[hit] = drawn[place[hit]]
            new &= ~hit
        return found, new
