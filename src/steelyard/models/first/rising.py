"""One entry whose level rises: a Laplace path on a pure account, bound to the rows it began with.

Every release refines the last one and needs the very same integers, so the first is stored beside a fingerprint of the
columns that are read, under a seal of the ledger's own key; whoever takes the path up, in this process or another,
compares before anything is charged (docs/proofs/accuracy_first_paths.md).
Law: raise the entry, then draw; refine the stored release; other rows are refused before the level rises.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from steelyard.accounting.prices import price
from steelyard.desk import Desk
from steelyard.errors import TableError
from steelyard.ledger import Charge
from steelyard.mechanisms.gradual import LaplacePath
from steelyard.models.first.steps import bought, stored
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Event, Neighbours
from steelyard.release import Outcome, Release
from steelyard.tables import Table

OTHERS = (
    "the rows are not, or no longer, those that this path began with, so it cannot be sharpened; nothing more was "
    "charged and the stored answers stay valid. For the rows as they are now use a new key."
)
Read = Callable[[Table], tuple[str, Sequence[int]]]
"""What a draw reads: the sealed fingerprint of the rows, and the integers that they give."""

Tell = Callable[[list[int], dict[str, Any]], Outcome]
"""How released integers become an outcome, with the facts that must be stored beside them."""


class Rising:
    """The stored releases of one path, in order, and how it is sharpened; levels are millionths of epsilon.

    ``columns`` are those that are read (none: all); ``measured`` finds the released integers in a release; ``step``
    names the entry under the desk's key.
    """

    def __init__(
        self,
        desk: Desk,
        sensitivity: int,
        columns: Sequence[str],
        measured: Callable[[Release], Sequence[int]],
        step: str = "",
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
    ) -> None:
        self._desk, self._sensitivity, self._columns = desk, sensitivity, list(columns)
        self._measured, self._step, self._neighbours = measured, step, neighbours
        self.releases: list[Release] = []
        self._charge: Charge | None = None

    def kept(self) -> list[Release]:
        """The stored releases, read back once."""
        if self._charge is None and (first := stored(self._desk, self._step)) is not None:
            self._charge = bought(self._desk, first.event, self._step)
            self.releases = read_back(self._desk, self._charge, first.event)
        return self.releases

    @property
    def spent(self) -> int:
        """The level of the entry."""
        return 0 if self._charge is None else self._charge.level.amount

    def cost(self, index: int) -> int:
        """What the path has cost with this release: those before it are included."""
        return int(self.releases[index].point["micro"])

    def seal(self, table: Table) -> str:
        """The fingerprint of what is read, sealed: noise to whoever does not hold the ledger's key."""
        return sealed(self._desk, table, self._columns)

    def compare(self) -> None:
        """Refuse other rows than those the path began with; nothing is charged."""
        if self.releases and not self._desk.compare(lambda table: self._same(self.seal(table))):
            raise TableError(OTHERS)

    def take(self, micro: int, read: Read, tell: Tell) -> Release:
        """Raise the entry to this level (or buy it), draw, store, and read back; ``compare`` first."""
        path = self._path(micro)
        if self._charge is None:
            self._charge = bought(self._desk, path.event, self._step)
        else:
            self._charge.raise_to(price(path.event, self._desk.terms))
        compute = lambda table, noise: self._draw(path, micro, read(table), noise, tell)  # noqa: E731
        release = self._desk.answer(self._charge, path.event, compute, step=len(self.releases))
        self.releases.append(release)
        return release

    def _path(self, micro: int) -> LaplacePath:
        levels = [micro] if not self.releases else [int(self.releases[-1].point["micro"]), micro]
        scales = tuple(Fraction(self._sensitivity * MICRO, level) for level in levels)
        return LaplacePath(self._sensitivity, scales, self._neighbours)

    def _same(self, seal: str, what: str = "snapshot") -> bool:
        return hmac.compare_digest(seal, str(self.releases[0].point.get(what, "")))

    def _draw(
        self, path: LaplacePath, micro: int, held: tuple[str, Sequence[int]], noise: Noise, tell: Tell
    ) -> Outcome:
        seal, values = held
        whole = self._desk.seal(f"integers {[int(value) for value in values]}".encode()).hex()
        if self.releases and not (self._same(seal) and self._same(whole, "integers")):
            raise TableError("the rows changed under a Laplace path")  # told to nobody: the step fails like any other
        if self.releases:
            noised = path.refine(values, self._measured(self.releases[-1]), 1, noise)
        else:
            noised = path.release(values, noise)
        return tell(noised, {"micro": micro, "snapshot": seal, "integers": whole})


def sealed(desk: Desk, table: Table, columns: Sequence[str]) -> str:
    """The fingerprint of these columns (none: all) under two seals of the desk's own key."""
    found = table.fingerprint(list(columns) or list(table.columns), desk.seal(b"the secret of a fingerprint"))
    return desk.seal(f"snapshot {found}".encode()).hex()


def read_back(desk: Desk, charge: Charge, event: Event) -> list[Release]:
    """Every stored answer of an entry, in the order of its steps."""
    return [desk.answer(charge, event, _unreachable, step=step) for step in sorted(charge.answers)]


def _unreachable(table: Table, noise: Noise) -> Outcome:
    raise TableError("a stored answer is read, not computed")
