"""The exponential mechanism: picks one of finitely many public candidates, preferring small integer costs.

Candidate i is drawn with probability exactly proportional to exp(-w cost_i), with w = epsilon/(2 sensitivity), or
epsilon/sensitivity when one unit moves all costs the same way (McSherry and Talwar 2007). Sampling: pick uniformly,
keep with probability exp(-w (cost_i - smallest cost)), else pick again; the smallest cost cancels from the law.
Law: exact rational weights, so the ratio bound is the textbook one with nothing added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from steelyard.errors import OurBug
from steelyard.mechanisms._coins import exp_coin
from steelyard.mechanisms._integers import check_scale, check_sensitivity, saturate
from steelyard.mechanisms._observe import show
from steelyard.privacy import Event, Neighbours

if TYPE_CHECKING:
    from steelyard.noise import Noise


@dataclass(frozen=True)
class Exponential:
    """Chooses a candidate by its integer cost; ``sensitivity`` bounds how far one unit moves any one cost.

    ``monotone``: one added unit moves no cost up, or no cost down; the same epsilon then buys twice the weight.
    """

    epsilon: Fraction
    sensitivity: int
    monotone: bool = False
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        check_scale(self.epsilon, "epsilon")
        check_sensitivity(self.sensitivity)
        if self.monotone and self.neighbours is not Neighbours.ADD_REMOVE:
            raise OurBug("costs move one way only when a unit is added or removed, not when it is replaced.")

    @property
    def weight(self) -> Fraction:
        """The exact exponent per unit of cost."""
        return self.epsilon / (self.sensitivity * (1 if self.monotone else 2))

    @property
    def event(self) -> Event:
        """What a choice is charged for: a loss within a range of epsilon (docs/proofs/bounded_range.md)."""
        epsilon, monotone = self.epsilon, int(self.monotone)
        return Event.of(
            "bounded_range", self.neighbours, epsilon=epsilon, sensitivity=self.sensitivity, monotone=monotone
        )

    def choose(self, costs: Sequence[int], noise: Noise) -> int:
        """The index of the chosen candidate.

        *Privacy:* pure epsilon, and a loss within a range of epsilon. *Cost:* at most as many rounds as candidates, on average.
        """
        if len(costs) == 0:
            raise OurBug("the exponential mechanism needs at least one candidate.")
        show(self.event, costs, noise)
        held = [saturate(cost) for cost in costs]
        smallest = min(held)
        while True:
            index = noise.below(len(held))
            if exp_coin(self.weight * (held[index] - smallest), noise):
                return index
