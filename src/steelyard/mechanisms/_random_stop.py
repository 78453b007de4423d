"""Random stopping: how often a private step is repeated before only the best result is shown.

If each of K independent runs of an epsilon-DP step gives a result and a score, and K is drawn without looking at the rows, the best
result alone is (2 + order) epsilon-DP however large K is: order 0 for the logarithmic law of K, order 1 for the geometric one
(Liu and Talwar 2019; Papernot and Steinke 2022; docs/proofs/random_stop.md). Law: K is drawn exactly, from public facts and coins.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from steelyard.errors import InvalidTask
from steelyard.mechanisms._integers import check_scale
from steelyard.privacy import Event, Neighbours

if TYPE_CHECKING:
    from steelyard.noise import Noise

ORDERS = {"logarithmic": 0, "geometric": 1}
"""What the law of K adds to twice the price of one run."""


@dataclass(frozen=True)
class RandomStop:
    """Runs of an ``epsilon``-DP step: after each one more with probability 1 - ``stop``; ``law`` "geometric" or "logarithmic".

    The logarithmic law costs less and stops after one run more often: P[K = k] is proportional to (1 - stop)^k / k.
    """

    epsilon: Fraction
    stop: Fraction
    law: str = "geometric"
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        check_scale(self.epsilon, "epsilon")
        if not 0 < self.stop < 1:
            raise InvalidTask("stop is the chance, above 0 and below 1, that no further run is made.")
        if self.law not in ORDERS:
            raise InvalidTask(f"the number of runs is {' or '.join(ORDERS)}; got {self.law!r}.")

    @property
    def event(self) -> Event:
        """What all runs together are charged for, before the first."""
        return Event.of("random_stop", self.neighbours, epsilon=self.epsilon, order=ORDERS[self.law])

    def runs(self, noise: Noise) -> int:
        """How many runs are made: at least one; reads no row."""
        while True:
            count = 1
            while noise.below(self.stop.denominator) >= self.stop.numerator:
                count += 1
            if ORDERS[self.law] == 1 or noise.below(count) == 0:
                return count
