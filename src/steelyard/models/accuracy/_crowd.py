"""The units of an account, and how many of them there are: public, or counted roughly before anything else.

Law: counts decide what a search costs; nothing that is promised rests on them alone (docs/proofs/disjoint_check.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steelyard.mechanisms import Gaussian, sigma_for
from steelyard.models._columns import SIZE
from steelyard.models.accuracy._family import Step, Told
from steelyard.models.accuracy._users import ROOT
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Neighbours, Unit

if TYPE_CHECKING:
    from steelyard.models.accuracy._split import Split

_LABEL, _FIRST_COUNT, _LAST_COUNT = 5.0, 500, 20_000  # how sharp counts are: millionths of mu


@dataclass(frozen=True)
class Crowd:
    """The units of an account, rows or users: how neighbours differ in them, how many there are, and how they are divided."""

    unit: Unit
    split: Split | None = None

    @property
    def n(self) -> int | None:
        """How many units there are, if that is public."""
        return self.unit.n

    @property
    def neighbours(self) -> Neighbours:
        """How neighbours differ."""
        return self.unit.neighbours

    @property
    def grain(self) -> int:
        """The steps in the length of a row: S, times the root of W where a user's rows are weighed."""
        return SIZE if self.unit.column is None else SIZE * ROOT

    @property
    def training(self) -> float:
        """How many units train, where their number is public."""
        return max(1.0, float((self.n or 1) * (1 if self.split is None else 1 - self.split.share)))

    def checking(self, training: float) -> float:
        """How many units check, if so many train."""
        if self.split is None:
            return training
        return max(1.0, training * float(self.split.share / (1 - self.split.share)))


class Counts:
    """Rough counts that are bought before anything else, each sharper than the one before, until they are good enough.

    The first counts the units that train, where their number is secret, times ``whole``; others may follow. ``target`` is what
    they serve to compare with. Nothing that is promised rests on them alone.
    """

    def __init__(self, crowd: Crowd, target: float, whole: int = 1) -> None:
        self.crowd, self._target, self._whole = crowd, target, whole
        self.told: list[tuple[int, Sequence[int]]] = []

    @property
    def secret(self) -> bool:
        """Whether the number of units has to be counted."""
        return self.crowd.n is None

    def step(self, others: Callable[[Any], list[int]] | None = None, first: int | None = None) -> Step | None:
        """The next count, of units where they are secret and of ``others``; None where nothing more has to be known.

        ``first`` is what it costs first, in 1e-12 of mu squared, where the target does not say so.
        """
        if not (self.secret or others) or (self.told and (not self.secret or self._enough())):
            return None
        cost = 4 * self.told[-1][0] if self.told else self._first() if first is None else first
        square, neighbours = (self.secret + (others is not None)) * self._whole**2, self.crowd.neighbours

        def compute(noisy: Gaussian, rows: Any, noise: Noise) -> list[int]:
            units = [rows.units * self._whole] if self.secret else []
            return noisy.release([*units, *(others(rows) if others else [])], noise)

        return Step("size", lambda: Gaussian(None, sigma_for(square, cost), neighbours, square), compute)

    def learn(self, told: Told) -> None:
        """Take a stored count into account."""
        self.told.append((told.cost, [int(value) for value in told.values]))

    def mean(self, index: int) -> float:
        """The average of one of the numbers, in units."""
        return sum(cost * values[index] for cost, values in self.told) / self._paid / self._whole

    @property
    def spread(self) -> float:
        """The deviation of a count."""
        return MICRO * math.sqrt(len(self.told[-1][1]) / self._paid)

    @property
    def n(self) -> float:
        """About how many units train."""
        return max(self.mean(0), self.spread, 1.0) if self.secret else self.crowd.training

    @property
    def _paid(self) -> int:
        return sum(cost for cost, _ in self.told)

    def _first(self) -> int:
        if self.secret:
            return _FIRST_COUNT**2
        return max(100, min(_LAST_COUNT, round(_LABEL * MICRO / (self.crowd.training * self._target)))) ** 2

    def _enough(self) -> bool:
        """Whether counts are sharp enough: to a fifth of the target, and no dearer than they may be."""
        sharp = math.sqrt(self._paid) / MICRO * self.n * min(self._target, 0.5) >= _LABEL * math.sqrt(2)
        return self._paid >= _LAST_COUNT**2 or sharp
