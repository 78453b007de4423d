"""A path is bound to the rows it began with: a sealed digest of what is read is stored with its steps and compared.

Looks at one model are averaged and later targets go on from earlier measurements, so a promise about "these rows" needs
all of them to be the same. What is digested is what is read anyway, so a comparison costs no further pass, and what was
compared is what the next step is computed from (docs/proofs/accuracy_first_paths.md).
Law: compare before a step is charged; a digest leaves its process under a seal of the ledger's key or not at all.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from steelyard.desk import Desk
from steelyard.errors import TableError
from steelyard.models.first.measured import Exact
from steelyard.models.first.rising import OTHERS
from steelyard.release import Release
from steelyard.tables import Table

Read = Callable[[Table], str]
"""The sealed digest of what a call reads of a table, which it reads but once."""

_BLOCK = 2**16
_LANES = 2


class Snapshot:
    """The rows that the stored steps of a path were computed from, as far as those steps tell.

    ``what`` names the digest among the facts of a step. Steps of older versions, which tell none, bind nothing.
    """

    def __init__(self, desk: Desk, what: str = "snapshot") -> None:
        self._desk, self._what = desk, what
        self._known, self._compared = "", False

    def learn(self, release: Release) -> None:
        """Take note of a stored step; the first that tells a digest binds the path."""
        self._known = self._known or str(release.point.get(self._what, ""))

    def compare(self, read: Read) -> None:
        """Refuse other rows than those the path began with; nothing is charged. Once a call, which reads but once."""
        if self._known and not self._compared:
            if not self._desk.compare(lambda table: hmac.compare_digest(read(table), self._known)):
                raise TableError(OTHERS)
            self._compared = True

    def taken(self, release: Release, read: Read) -> None:
        """Refuse to go on from a step that another process took on other rows."""
        self.learn(release)
        self.compare(read)
        theirs = str(release.point.get(self._what, self._known))
        if not hmac.compare_digest(theirs, self._known):
            raise TableError(OTHERS)


def of_statistics(desk: Desk, exact: Exact) -> str:
    """The sealed digest of exact statistics."""
    whole = [exact.n, exact.unit, exact.gram.tolist(), exact.moment.tolist(), exact.square]
    return desk.seal(f"statistics {whole}".encode()).hex()


def of_rows(desk: Desk, columns: list[NDArray[np.float64]], owners: NDArray[np.int64] | None = None) -> str:
    """The sealed digest of whole-number rows, whatever their order, and of who shares which where users are hidden.

    A row is a sum of its entries times secret random words, mixed; the rows of a user are added up and mixed again.
    """
    width = sum(1 if part.ndim == 1 else part.shape[1] for part in columns)
    words = np.frombuffer(
        b"".join(desk.seal(f"word {k} of a digest".encode())[:8] for k in range(_LANES * width)), dtype="<u8"
    ).reshape(width, _LANES)
    count = len(columns[0])
    each = np.concatenate(
        [np.zeros((0, _LANES), dtype=np.uint64)]
        + [_hashed([part[start : start + _BLOCK] for part in columns], words) for start in range(0, count, _BLOCK)]
    )
    if owners is not None and count:
        starts = np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))  # equal ones lie together
        each = _mixed(np.add.reduceat(each, starts, axis=0))
    total = [int(value) for value in each.sum(axis=0, dtype=np.uint64)]
    return desk.seal(f"rows {count} {len(each)} {total}".encode()).hex()


def _hashed(parts: list[NDArray[np.float64]], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    whole = np.column_stack(parts).astype(np.int64).view(np.uint64)
    return _mixed(np.asarray(whole @ words, dtype=np.uint64))


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A one-to-one scrambling of 64-bit words, so that sums of rows tell more than sums of entries."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))
