"""How far apart two releases' integers are, in the norm in which their event declares a sensitivity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from steelyard.errors import OurBug
from steelyard.privacy import Event, Neighbours

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


def distance(event: Event, left: Sequence[int], right: Sequence[int], account: Neighbours) -> Distance:
    """The distance of two equally long vectors, one account-neighbour step apart, as their event measures it.

    >>> lap = Event("laplace", {"sensitivity": 3, "scale_numerator": 1, "scale_denominator": 1})
    >>> str(distance(lap, [0, 0], [2, -2], Neighbours.ADD_REMOVE))
    'L1 distance 4 where 3 is declared'
    """
    gaps = [abs(a - b) for a, b in zip(left, right, strict=True)]
    moves = 1 if event.neighbours is account else 2
    given = event.parameters
    if event.name in ("laplace", "laplace_path", "staircase"):
        return Distance("L1", sum(gaps), int(str(given["sensitivity"])) * moves)
    if event.name in ("gaussian", "gaussian_path"):
        square = int(str(given.get("sensitivity", 0))) ** 2 or int(str(given["sensitivity_squared"]))
        return Distance("squared L2", sum(gap * gap for gap in gaps), square * moves**2)
    if event.name in ("above_threshold", "exponential", "bounded_noise"):
        return Distance("largest", max(gaps, default=0), int(str(given["sensitivity"])) * moves)
    if event.name == "finite":
        return Distance("changed inputs,", sum(gap > 0 for gap in gaps), 1)
    if event.name in ("objective", "objective_pure", "objective_users"):
        return Distance("largest", max(gaps, default=0), 1)  # the perturbed vector is zero, whatever the rows
    raise OurBug(f"the audit does not know in which norm the event {event.name!r} declares its sensitivity.")


def declared_scale(event: Event, *, question: bool = True) -> Fraction | None:
    """The width of noise that an additive event was charged for; None where the event says nothing about it."""
    names = {
        "laplace": "scale",
        "gaussian": "sigma",
        "above_threshold": "question_scale" if question else "threshold_scale",
    }
    name, given = names.get(event.name), event.parameters
    if event.name == "staircase":
        return Fraction(int(str(given["epsilon_denominator"])), int(str(given["epsilon_numerator"])))
    if name is None:
        return None
    return Fraction(int(str(given[f"{name}_numerator"])), int(str(given[f"{name}_denominator"])))
