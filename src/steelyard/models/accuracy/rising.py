"""One entry whose level rises: a Laplace path on a pure account, bound to the integers it began with.

Every release refines the last one and needs the very same integers, so each is stored beside a digest of them, under a
seal of the ledger's own key. They are compared in the hands of a step that is already paid for; where they differ the
step fails like any other, and its path is over (docs/proofs/accuracy_first_paths.md).
Law: raise the entry, then read, then compare, then draw; nothing is read, and nothing told, before the level has risen.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from steelyard.account import Charge
from steelyard.accounting.prices import price
from steelyard.desk import Desk
from steelyard.errors import TableError
from steelyard.mechanisms.gradual import LaplacePath
from steelyard.models.accuracy.steps import bought, stored
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Event, Neighbours
from steelyard.release import Outcome, Release
from steelyard.tables import Table

Read = Callable[[Table], Sequence[int]]
"""What a draw reads: the integers that the rows give."""

Tell = Callable[[list[int], dict[str, Any]], Outcome]
"""How released integers become an outcome, with the facts that must be stored beside them."""


class Rising:
    """The stored releases of one path, in order, and how it is sharpened; levels are millionths of epsilon.

    ``measured`` finds the released integers in a release; ``step`` names the entry under the desk's key.
    """

    def __init__(
        self,
        desk: Desk,
        sensitivity: int,
        measured: Callable[[Release], Sequence[int]],
        step: str = "",
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
    ) -> None:
        self._desk, self._sensitivity, self._measured = desk, sensitivity, measured
        self._step, self._neighbours = step, neighbours
        self.releases: list[Release] = []
        self._charge: Charge | None = None

    def kept(self) -> list[Release]:
        """The stored releases, read back once; a step that failed ended the path and took nothing from those before."""
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

    def take(self, micro: int, read: Read, tell: Tell) -> Release:
        """Raise the entry to this level (or buy it), draw, store, and read back; a path that failed costs nothing more."""
        path = self._path(micro)
        if self._charge is None:
            self._charge = bought(self._desk, path.event, self._step)
        elif len(self.releases) not in self._charge.answers:
            self._charge.raise_to(price(path.event, self._desk.terms), path.event)
        compute = lambda table, noise: self._draw(path, micro, read(table), noise, tell)  # noqa: E731
        release = self._desk.answer(self._charge, path.event, compute, step=len(self.releases))
        self.releases.append(release)
        return release

    def _path(self, micro: int) -> LaplacePath:
        levels = [micro] if not self.releases else [int(self.releases[-1].point["micro"]), micro]
        scales = tuple(Fraction(self._sensitivity * MICRO, level) for level in levels)
        return LaplacePath(self._sensitivity, scales, self._neighbours)

    def _draw(self, path: LaplacePath, micro: int, values: Sequence[int], noise: Noise, tell: Tell) -> Outcome:
        whole = self._desk.seal(f"integers {[int(value) for value in values]}".encode()).hex()
        if self.releases and not hmac.compare_digest(whole, str(self.releases[0].point.get("integers", ""))):
            raise TableError("the rows changed under a Laplace path")  # told to nobody: the step fails like any other
        if self.releases:
            noised = path.refine(values, self._measured(self.releases[-1]), 1, noise)
        else:
            noised = path.release(values, noise)
        return tell(noised, {"micro": micro, "integers": whole})


def read_back(desk: Desk, charge: Charge, event: Event) -> list[Release]:
    """Every stored answer of an entry, in the order of its steps, up to the first that failed."""
    found: list[Release] = []
    with suppress(TableError):  # a stored failure
        for step in sorted(charge.answers):
            found.append(desk.answer(charge, event, _unreachable, step=step))
    return found


def _unreachable(table: Table, noise: Noise) -> Outcome:
    raise TableError("a stored answer is read, not computed")
