"""A finite mechanism: a public matrix of integer weights, one row per secret input.

Input i gives output j with probability weight[i][j] / total[i], drawn exactly from one uniform integer; the largest
ratio between two rows is a fraction known exactly, and epsilon is its logarithm, rounded up to a micro.
Law: what is checked is the very table that is drawn from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING

from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms._observe import show
from steelyard.privacy import Event, Neighbours

if TYPE_CHECKING:
    from steelyard.noise import Noise


@dataclass(frozen=True)
class Finite:
    """Draws an output for each input index from the rows of a matrix of whole weights.

    >>> Finite(((3, 1), (1, 3))).ratio
    Fraction(3, 1)
    """

    weights: tuple[tuple[int, ...], ...]
    neighbours: Neighbours = Neighbours.CHANGE_LABEL

    def __post_init__(self) -> None:
        if not self.weights or len({len(row) for row in self.weights}) != 1 or not self.weights[0]:
            raise InvalidTask("a finite mechanism needs rows of one equal length, and at least one output.")
        if any(not isinstance(w, int) or isinstance(w, bool) or w < 0 for row in self.weights for w in row):
            raise InvalidTask("the weights of a finite mechanism are whole numbers of at least 0.")
        if any(len({row[j] > 0 for row in self.weights}) > 1 for j in range(len(self.weights[0]))):
            raise InvalidTask("an output possible for one input and impossible for another would give the input away.")
        if not any(self.weights[0]):
            raise InvalidTask("every row of a finite mechanism needs a positive weight.")
        if self.neighbours is Neighbours.ADD_REMOVE:
            raise InvalidTask("one output per unit shows how many units there are; use replace or change-label.")

    @lazy
    def ratio(self) -> Fraction:
        """The exact largest ratio between two rows' probabilities of one output."""
        totals = [sum(row) for row in self.weights]
        return max(_spread(column, totals) for column in zip(*self.weights, strict=True))

    @lazy
    def event(self) -> Event:
        """What one output per unit is charged for."""
        return Event.of("finite", self.neighbours, ratio=self.ratio)

    def release(self, inputs: Sequence[int], noise: Noise) -> list[int]:
        """One output index per input index; an index off the table counts as the nearest row.

        *Privacy:* pure epsilon = log of the ratio, for a unit that owns one of the inputs.
        """
        show(self.event, inputs, noise)
        return [self._draw(max(0, min(len(self.weights) - 1, int(index))), noise) for index in inputs]

    def _draw(self, row: int, noise: Noise) -> int:
        ends = self._ends[row]
        return bisect_right(ends, noise.below(ends[-1]))

    @lazy
    def _ends(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(accumulate(row)) for row in self.weights)


def _spread(column: Sequence[int], totals: Sequence[int]) -> Fraction:
    shares = [Fraction(weight, total) for weight, total in zip(column, totals, strict=True)]
    smallest = min(shares)
    return max(shares) / smallest if smallest else Fraction(1)
