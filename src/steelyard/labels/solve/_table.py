"""Columns at fixed outputs, from float weights to a table of integers that is exactly private and exactly unbiased.

Where a loss bends at known outputs, outputs must not move, so rounding is paid for otherwise: a sliver of the mass is kept
back and given to a few columns of its own. Row by row, a low and a high output take what is missing of mass and
mean up to a remainder, and outputs 0, 1, B, B^2, ... lattice steps from the middle write that remainder in base B. Every
equation is one between integers. docs/proofs/labels_noise_loss.md, section 4, has the argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from steelyard.labels._mechanism import BITS, Column, places, ratio_below

Floats = NDArray[np.float64]
SLIVERS = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5)  # shares of the mass that may be kept back, the least that serves is
_MOST_DIGITS = 40


@dataclass(frozen=True)
class Pieces:
    """Two-valued columns: ``share[j, i]`` of the way from one to e^epsilon for label i, times ``weight[j]``.

    ``output[j]`` is the number of the output; a share between 0 and 1 is that of a label left out of the programme.
    """

    output: NDArray[np.int64]
    share: Floats
    weight: Floats


def settled(
    pieces: Pieces, inputs: tuple[Fraction, ...], outputs: tuple[Fraction, ...], epsilon: Fraction
) -> tuple[Column, ...] | None:
    """The exact table: ratios at most n/d <= e^epsilon, rows of sum 2**62, means equal to the labels; None if none."""
    for sliver in SLIVERS:
        found = _Books(pieces, inputs, outputs, epsilon, sliver).table()
        if found is not None:
            return found
    return None


class _Books:
    """The weights of every output for every label, and what each label still lacks, as whole numbers."""

    def __init__(
        self,
        pieces: Pieces,
        inputs: tuple[Fraction, ...],
        outputs: tuple[Fraction, ...],
        epsilon: Fraction,
        sliver: float,
    ) -> None:
        self.inputs, self.high, self.low = inputs, *ratio_below(epsilon)
        self.outputs, self.count = outputs, len(inputs)
        steps, self.step = places(tuple(sorted({*inputs, *outputs})))
        of = dict(zip(sorted({*inputs, *outputs}), steps, strict=True))
        middle = min(outputs, key=lambda z: abs(2 * z - inputs[0] - inputs[-1]))
        self.place = [of[z] - of[middle] for z in outputs]
        self.label = [of[y] - of[middle] for y in inputs]
        self.middle, self.kept = middle, round(sliver * (1 << BITS))
        width = self.label[-1] - self.label[0]
        # as far as the default range, whose ends are then used; farther out would cost more
        far = 2 * self.low * width // (self.high - self.low) + width // 2 + width // 500 + 1
        self.first = max(self.place[0], self.label[0] - far)
        self.last = min(self.place[-1], self.label[-1] + far)
        self.weights: dict[int, list[int]] = {}
        self._fill(pieces, 1 - sliver)

    def _fill(self, pieces: Pieces, mass: float) -> None:
        """Round the columns; equal ones at one output are added up."""
        row = self.high / self.low - 1
        scale = mass * (1 << BITS) / self.low / float((pieces.weight * (1 + row * pieces.share[:, 0])).sum())
        for at, share, weight in zip(pieces.output, pieces.share, pieces.weight, strict=True):
            whole = round(float(weight) * scale)
            if whole > 0:
                more = (self.high - self.low) * whole
                self._add(self.place[at], [self.low * whole + _part(more, s) for s in share.tolist()])

    def _add(self, place: int, weights: list[int]) -> None:
        held = self.weights.get(place)
        self.weights[place] = weights if held is None else [a + b for a, b in zip(held, weights, strict=True)]

    def table(self) -> tuple[Column, ...] | None:
        """The columns, once every row's mass and mean are exact; None if some ratio would be too large."""
        first, last = self.first, self.last
        digits = self._digits(last - first)
        if not digits or not first <= digits[-1] <= last:
            return None
        each = int(self.kept * self._spare()) // (len(digits) + 1)
        spare: dict[int, list[int]] = {place: [] for place in {first, last, 0, *digits}}
        totals = [0] * self.count, [0] * self.count
        for place, weights in self.weights.items():
            for i, weight in enumerate(weights):
                totals[0][i] += weight
                totals[1][i] += weight * place
        for i, label in enumerate(self.label):
            mass = (1 << BITS) - totals[0][i] - each * (len(digits) + 1)
            pull = (label << BITS) - totals[1][i] - each * sum(digits)
            top = round(Fraction(pull - mass * first, last - first))
            rest = pull - top * last - (mass - top) * first
            held = dict.fromkeys(spare, 0)
            for place, weight in ((first, mass - top), (last, top), (0, each)):
                held[place] += weight
            for digit in reversed(digits):
                n = round(Fraction(rest, digit))
                rest -= n * digit
                held[digit] += each + n
                held[0] -= n
            for place, weight in held.items():
                spare[place].append(weight)
        return self._columns(spare)

    def _digits(self, width: int) -> list[int]:
        """The places 1, B, B^2, ... on the longer side, B so small that no spare column is tilted by more than e^epsilon."""
        steepest = (self.high - self.low) / (self.high + self.low)
        side = 1 if self.last >= -self.first else -1
        for count in range(1, _MOST_DIGITS):
            base = _root(width, count) + 1
            if (count + 1) ** 2 * base < steepest * self.kept * self._spare():
                return [side * base**n for n in range(count)]
        return []

    def _spare(self) -> float:
        """The share of what is kept back that may lie in the middle: it pushes the rest out towards both ends."""
        width, needed = self.label[-1] - self.label[0], self.low / (self.high - self.low)
        beyond = min(self.label[0] - self.first, self.last - self.label[-1]) / width - needed
        return min(1 / 32, beyond / (2 + 4 * needed))

    def _columns(self, spare: dict[int, list[int]]) -> tuple[Column, ...] | None:
        for place, weights in spare.items():
            if min(weights) <= 0 or max(weights) * self.low > min(weights) * self.high:
                return None
            self._add(place, weights)
        return tuple(
            Column.of(self.middle + place * self.step, weights) for place, weights in sorted(self.weights.items())
        )


def _part(whole: int, share: float) -> int:
    """A share between 0 and 1 of a whole number, exact at both ends."""
    return 0 if share <= 0 else whole if share >= 1 else min(whole, round(whole * Fraction(share)))


def _root(number: int, order: int) -> int:
    """The largest integer whose power is at most the number."""
    low, high = 0, 1 << (number.bit_length() // order + 1)
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**order <= number else (low, middle)
    return low
