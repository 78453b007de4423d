"""Noise that makes the released numbers, not the noise, the same on two tables; and how far apart the integers under it are.

On the first table it draws from a seed and writes down what came out of each mechanism. On the second it sees the
integers that are about to be noised (the audit's window) and draws exactly what leads to the same released numbers.
So both runs have one transcript, and whatever may lawfully depend only on the transcript (the next step's event, the
outcome, an error) must be the same; whatever differs has leaked around the noise. Distances are measured in the norm in
which an event declares its sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from steelyard.errors import OurBug
from steelyard.mechanisms import Staircase
from steelyard.mechanisms._observe import Observed
from steelyard.mechanisms._staircase import draws_for
from steelyard.noise import TestNoise
from steelyard.privacy import Event, Neighbours, Unit
from steelyard.tables import Capped, Limits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STEERABLE = frozenset({"laplace", "gaussian", "above_threshold", "staircase"})
"""Events whose noise is added to the observed integers, so that a replay can lead both runs to the same numbers."""

INWARD = frozenset({"above_threshold", "objective", "objective_pure", "objective_users"})
"""Events of mechanisms that draw more noise than hides observed integers: on thresholds, inside an objective."""


@dataclass(frozen=True)
class Distance:
    """A measured distance against the declared one (squares where only the square is whole)."""

    norm: str
    measured: int
    allowed: int

    @property
    def share(self) -> float:
        """Measured over allowed; above one the declared sensitivity is wrong."""
        ratio = self.measured / self.allowed if self.allowed else math.inf
        return math.sqrt(ratio) if self.norm == "squared L2" else ratio

    @property
    def broken(self) -> bool:
        """Further apart than declared (compared as integers)."""
        return self.measured > self.allowed

    def __str__(self) -> str:
        return f"{self.norm} distance {self.measured} where {self.allowed} is declared"


def distance(event: Event, left: Sequence[int], right: Sequence[int], account: Neighbours, group: int = 1) -> Distance:
    """The distance of two equally long vectors, one account-neighbour step apart, as their event measures it.

    ``group`` is how many of the event's own units the account was told to count as one of its own.

    >>> lap = Event("laplace", {"sensitivity": 3, "scale_numerator": 1, "scale_denominator": 1})
    >>> str(distance(lap, [0, 0], [2, -2], Neighbours.ADD_REMOVE))
    'L1 distance 4 where 3 is declared'
    """
    gaps = [abs(a - b) for a, b in zip(left, right, strict=True)]
    moves = group if event.neighbours is account else 2 * group
    given = event.parameters
    if event.name in ("laplace", "laplace_path", "staircase"):
        return Distance("L1", sum(gaps), int(str(given["sensitivity"])) * moves)
    if event.name in ("gaussian", "gaussian_path"):
        square = int(str(given.get("sensitivity", 0))) ** 2 or int(str(given["sensitivity_squared"]))
        return Distance("squared L2", sum(gap * gap for gap in gaps), square * moves**2)
    if event.name in ("above_threshold", "exponential", "bounded_range", "bounded_noise"):
        return Distance("largest", max(gaps, default=0), int(str(given["sensitivity"])) * moves)
    if event.name == "finite":
        return Distance("changed inputs,", sum(gap > 0 for gap in gaps), 1)
    if event.name in ("objective", "objective_pure", "objective_users"):
        return Distance("largest", max(gaps, default=0), 1)  # the perturbed vector is zero, whatever the rows
    raise OurBug(f"the audit does not know in which norm the event {event.name!r} declares its sensitivity.")


def declared_scale(event: Event) -> Fraction | None:
    """The width of noise that an additive event was charged for; None where the event says nothing about it."""
    names = {"laplace": "scale", "gaussian": "sigma", "above_threshold": "question_scale"}
    if event.name == "staircase":
        return 1 / event.fraction("epsilon")
    return event.fraction(names[event.name]) if event.name in names else None


@dataclass(frozen=True)
class Draw:
    """One call for additive noise: which law, how wide, and for which observed release (None: for none)."""

    law: str
    scale: Fraction
    size: int
    release: int | None


@dataclass
class SteeredNoise:
    """Seeded noise, or (given ``script``) noise that leads to the scripted numbers. Protects nobody."""

    window: list[Observed]
    seed: int | str
    script: list[list[int]] | None = None
    draws: list[Draw] = field(default_factory=list)
    written: list[list[int]] = field(default_factory=list)
    name: str = "steered: no guarantee"
    secure: bool = False

    def __post_init__(self) -> None:
        self._source = TestNoise(self.seed)
        self._served = 0
        self._forced: list[int] = []

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        """Laplace noise, steered where it hides observed integers."""
        return self._draw("laplace", scale, size)

    def normal(self, sigma: Fraction, size: int) -> list[int]:
        """Normal noise, steered where it hides observed integers."""
        return self._draw("gaussian", sigma, size)

    def laplace_array(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """The same as an array."""
        import numpy as np

        return np.array(self._draw("laplace", scale, size), dtype=np.int64)

    def normal_array(self, sigma: Fraction, size: int) -> NDArray[np.int64]:
        """The same as an array."""
        import numpy as np

        return np.array(self._draw("gaussian", sigma, size), dtype=np.int64)

    def below(self, bound: int) -> int:
        """A uniform integer: the same one on both tables, unless a staircase is being steered."""
        return self._forced.pop(0) if self._forced else self._source.below(bound)

    def bits(self, size: int) -> NDArray[np.uint64]:
        """Uniform words: the same ones on both tables."""
        return self._source.bits(size)

    def _draw(self, law: str, scale: Fraction, size: int) -> list[int]:
        fresh = self._source.laplace(scale, size) if law == "laplace" else self._source.normal(scale, size)
        hides = len(self.window) > self._served and len(self.window[-1].values) == size
        self.draws.append(Draw(law, Fraction(scale), size, len(self.window) - 1 if hides else None))
        if not hides:
            return fresh
        self._served = len(self.window)
        seen = self.window[-1]
        if seen.event.name == "staircase":
            return [self._climb(seen, scale)]
        return self._towards(seen.values, fresh)

    def _towards(self, values: Sequence[int], fresh: Sequence[int]) -> list[int]:
        """The noise that leads to the scripted numbers, or the fresh noise where nothing is scripted."""
        target = [value + noise for value, noise in zip(values, fresh, strict=True)]
        place = len(self.written)
        if self.script is not None and place < len(self.script) and len(self.script[place]) == len(values):
            target = self.script[place]
        self.written.append(target)
        return [goal - value for goal, value in zip(target, values, strict=True)]

    def _climb(self, seen: Observed, scale: Fraction) -> int:
        """The level of a staircase's noise; the uniform draws that follow are forced to match."""
        width, first = int(str(seen.event.parameters["sensitivity"])), int(str(seen.event.parameters["first"]))
        fresh = [Staircase(width, first, 1 / scale).draw(self._source)]
        level, self._forced = draws_for(self._towards(seen.values, fresh)[0], width, first)
        return level


class SameSecret:
    """A table whose keyed choices (which keys or rows of a unit are kept) are the same on two neighbouring tables.

    The secret behind them is the one piece of randomness that does not come from the noise; here the seed fixes it.
    """

    def __init__(self, table: Any, seed: int | str) -> None:
        self._table = table
        self._secret = sha256(f"steelyard replay {seed!r}".encode()).digest()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def sums_by_key(
        self,
        unit: Unit,
        parts: Sequence[Capped],
        by: str | Sequence[str],
        keys: Sequence[Any],
        limits: Limits | None = None,
    ) -> list[list[int]]:
        """As the table's own, with the fixed secret."""
        fixed = replace(limits or Limits(), secret=self._secret)
        answer: list[list[int]] = self._table.sums_by_key(unit, parts, by, keys, fixed)
        return answer

    def distinct_values(
        self, unit: Unit, column: str, caps: Sequence[int], by: Any = None, keys: Sequence[Any] = (),
        limits: Limits | None = None,
    ) -> list[list[int]]:  # fmt: skip
        """As the table's own, with the fixed secret."""
        fixed = replace(limits or Limits(), secret=self._secret)
        answer: list[list[int]] = self._table.distinct_values(unit, column, caps, by, keys, fixed)
        return answer

    def norms_histogram(
        self, unit: Unit, part: Capped, edges: Sequence[int], by: Any, keys: Sequence[Any] | None, limits: Limits
    ) -> list[int]:
        """As the table's own, with the fixed secret."""
        fixed = replace(limits, secret=self._secret)
        answer: list[int] = self._table.norms_histogram(unit, part, edges, by, keys, fixed)
        return answer

    def found_sums_by_key(
        self, unit: Unit, parts: Sequence[Capped], by: str | Sequence[str], limits: Limits, least: int = 1
    ) -> Any:
        """As the table's own, with the fixed secret."""
        return self._table.found_sums_by_key(unit, parts, by, replace(limits, secret=self._secret), least)

    def keep_rows(
        self, unit: Unit, rows: int, secret: bytes | None = None, columns: Sequence[str] | None = None
    ) -> SameSecret:
        """As the table's own, with the fixed secret unless one was given."""
        kept = SameSecret(self._table.keep_rows(unit, rows, secret or self._secret, columns), "")
        kept._secret = self._secret
        return kept
