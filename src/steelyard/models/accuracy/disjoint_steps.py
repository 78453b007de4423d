"""Steps on two parts of a table: what may be bought, on which part, and what the two parts have cost together.

Where neighbours add or remove a unit, that unit is in one part and the path costs the dearer part: every step carries
what both parts had cost before it and after (event "disjoint"). Where they replace one, it may change parts, and the
steps are ordinary ones whose costs add up.
Law: a step's state before it is the state after exactly one stored step, or nothing: a step whose name was taken by a
charge without an answer begins a new count at nothing (docs/proofs/disjoint_check.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from steelyard.account import Charge
from steelyard.accounting.prices import PARTS, disjoint, price
from steelyard.desk import Desk
from steelyard.errors import KeyConflict
from steelyard.mechanisms import Gaussian, sigma_for
from steelyard.models.accuracy.by_user import unit_of
from steelyard.models.accuracy.disjoint_parts import Part
from steelyard.models.accuracy.steps import TRIES, all_stored, named
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Event, Neighbours, Unit
from steelyard.release import Release

LABEL, FIRST, LAST = 5.0, 500, 20_000


@dataclass(frozen=True)
class Step:
    """One step to be paid for: the part it reads, what it is, its own event, and how it is computed."""

    part: str
    kind: str
    event: Event
    compute: Callable[[Part, Noise], Any]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Crowd:
    """The units of an account, rows or users, and how they are divided."""

    unit: Unit
    share: Fraction

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
        """The steps in the length of a row: finer where a user's rows are weighed."""
        return unit_of(self.unit)

    @property
    def training(self) -> float:
        """How many units train, where their number is public."""
        return max(1.0, float((self.n or 1) * (1 - self.share)))

    def checking(self, training: float) -> float:
        """How many units check, if so many train."""
        return max(1.0, training * float(self.share / (1 - self.share)))

    def first(self, target: float) -> int:
        """What the first count costs, in 1e-12 of mu squared."""
        if self.n is None:
            return FIRST**2
        return max(100, min(LAST, round(LABEL * MICRO / (self.training * target)))) ** 2

    def enough(self, paid: int, n: float, target: float) -> bool:
        """Whether counts at this price are sharp enough: to a fifth of the target, and no dearer than ``LAST``."""
        return paid >= LAST**2 or math.sqrt(paid) / MICRO * n * min(target, 0.5) >= LABEL * math.sqrt(2)


class Look(ABC):
    """A question about one released model: is the sum of (loss - target) over the check part at most zero?"""

    model: tuple[int, ...]
    reach: int
    """What predictions are clipped to, in whole steps."""

    @property
    @abstractmethod
    def most(self) -> int:
        """No row loses more, in whole steps; none loses less than ``least``."""

    @property
    def least(self) -> int:
        """No row loses less."""
        return 0

    @property
    @abstractmethod
    def allowed(self) -> int:
        """The target in whole steps, rounded so that a sum at or below it keeps the promise."""

    @abstractmethod
    def losses(self, part: Part) -> int:
        """The sum of the rows' losses, or of the users' mean losses, each between ``least`` and ``most``."""

    def moves(self, neighbours: Neighbours) -> int:
        """By how much a unit that is added, removed or replaced moves the sum of (loss - allowed)."""
        alone = max(self.most - self.allowed, self.allowed - self.least, 1)
        return alone if neighbours is Neighbours.ADD_REMOVE else max(alone, self.most - self.least)

    def value(self, part: Part) -> int:
        """The sum of (loss - allowed): it needs no number of units."""
        return self.losses(part) - part.units * self.allowed

    def step(self, cost: int, limit: float, neighbours: Neighbours, target: str) -> Step:
        """The look at this price: it passes at or below a limit that is known before a row is read."""
        moves = self.moves(neighbours)
        noisy = Gaussian(moves, sigma_for(moves**2, cost), neighbours)
        facts = {"model": [str(k) for k in self.model], "reach": self.reach, "limit": limit, "target": target}
        return Step("check", "look", noisy.event, lambda part, noise: noisy.release([self.value(part)], noise), facts)


@dataclass(frozen=True)
class Paid:
    """What the steps of each part have cost, in 1e-12 of mu squared; ``dearer`` says that the dearer one is paid for."""

    train: int
    check: int
    dearer: bool

    @property
    def free(self) -> int:
        """What a look may cost without raising what is paid."""
        return max(self.train - self.check, 0) if self.dearer else 0


class Purse:
    """The steps of one key on their account, in order: read back, or bought and drawn once."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._count = desk, 0
        self._before = dict.fromkeys(PARTS, 0)
        self._total = dict.fromkeys(PARTS, 0)
        self.dearer = desk.terms.unit.neighbours is Neighbours.ADD_REMOVE
        self.spent = 0

    @property
    def paid(self) -> Paid:
        """What the stored steps have cost each part."""
        return Paid(self._total["train"], self._total["check"], self.dearer)

    def read(self) -> Release | None:
        """The next stored step, if there is one; one that failed counts as none, and of two that were bought the first is told.

        All of them were paid for.
        """
        found = all_stored(self._desk, f"step {self._count}")
        self.spent += sum(other.guarantee.spent.amount for other in found[1:])
        return self._kept(found[0]) if found else None

    def buy(self, step: Step, compute: Callable[..., Any]) -> Release:
        """Charge a step, compute it, store it, and read it back; another process may have stored another one first."""
        charge, event = self._bought(step)
        return self._kept(self._desk.answer(charge, event, compute))

    def rise(self, event: Event) -> int:
        """What an ordinary step adds to its own part."""
        return price(event, self._desk.terms).amount

    def _bought(self, step: Step) -> tuple[Charge, Event]:
        for attempt in range(TRIES):
            before = self._before if attempt == 0 else dict.fromkeys(PARTS, 0)
            event = disjoint(step.event, step.part, before) if self.dearer else step.event
            try:
                return self._desk.charge(event, named(f"step {self._count}", attempt)), event
            except KeyConflict:
                if attempt == TRIES - 1:
                    raise
        raise AssertionError

    def _kept(self, release: Release) -> Release:
        self._total[str(release.point["part"])] += int(release.point["cost"])
        if self.dearer:
            self._before = {name: int(str(release.event.parameters[f"{name}_after"])) for name in PARTS}
        self.spent += release.guarantee.spent.amount
        self._count += 1
        return release
