"""Labels of any value as whole numbers: clipped to the public range, put on a fine public grid, rounded by a fair coin.

Between two nodes lie 2**24 equal steps. A label is put on the nearest step by one total function, and a 24-bit integer
coin sends it to the node above with probability (steps above the node below)/2**24, exactly; so the node is right on
average for the label on the grid. Integer labels on integer nodes need no coin and no rounding at all.
The law: what a label becomes depends on that label, on public numbers and on its own coin alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.labels._mechanism import read_inputs
from steelyard.lazy import lazy
from steelyard.privacy import exact

Floats = NDArray[np.float64]
COIN = 24  # bits; the other 8 of a coin's 32-bit word are not used
MOST = 2049  # nodes; the table that is sampled has at most twice as many columns
_FAR, _TINY = 1e100, 2.0**-1000
_SMALL = 512  # up to this width integer bounds mean integer labels


@dataclass(frozen=True)
class Nodes:
    """The public labels a mechanism knows, rising; every label is rounded to one of its two neighbours.

    >>> nodes = Nodes.of(0, 3)
    >>> nodes.places(np.array([1.0, 2.5, 99.0, -1.0]))[0].tolist()
    [1, 2, 3, 0]
    """

    labels: tuple[Fraction, ...]

    @classmethod
    def of(cls, lower: Any, upper: Any, nodes: int | Sequence[Any] | None = None) -> Nodes:
        """Nodes over [lower, upper]: as many as told, those told, or by default integers (else 257 equal steps)."""
        low, high = exact(_plain(lower), "lower"), exact(_plain(upper), "upper")
        if low >= high:
            raise InvalidTask(f"lower must be below upper; got {lower!r} and {upper!r}.")
        if nodes is None:
            whole = low.denominator == high.denominator == 1 and high - low <= _SMALL
            nodes = int(high - low) + 1 if whole else 257
        if isinstance(nodes, int | np.integer):
            if not 2 <= nodes <= MOST:
                raise InvalidTask(f"nodes must be between 2 and {MOST}, or their list; got {nodes}.")
            return cls(tuple(low + (high - low) * i / (int(nodes) - 1) for i in range(int(nodes))))._checked()
        labels = read_inputs(nodes)
        if (labels[0], labels[-1]) != (low, high) or len(labels) > MOST:
            raise InvalidTask(f"the nodes must start at lower and end at upper, and be at most {MOST}.")
        return cls(labels)._checked()

    def _checked(self) -> Nodes:
        if not self.told_apart:
            raise InvalidTask(
                "the nodes lie too close together, or too far out, for floating-point labels to tell them apart: take a "
                "public number off all labels, or use fewer nodes."
            )
        return self

    @property
    def lower(self) -> Fraction:
        """The least label; anything below counts as this."""
        return self.labels[0]

    @property
    def upper(self) -> Fraction:
        """The largest label; anything above counts as this."""
        return self.labels[-1]

    @lazy
    def even(self) -> bool:
        """Whether all nodes are equally far apart."""
        step = self.labels[1] - self.labels[0]
        return all(y == self.lower + i * step for i, y in enumerate(self.labels))

    @lazy
    def floats(self) -> Floats:
        """The nodes as floats."""
        return np.array([float(y) for y in self.labels])

    @lazy
    def told_apart(self) -> bool:
        """Whether every node is a float of its own and is put on itself, exactly; else a label would not be itself."""
        try:
            floats, scale = self.floats, self.scale
        except OverflowError:
            return False
        with np.errstate(all="ignore"):
            gaps = np.diff(floats)
            sized = np.max(np.abs(floats)) <= _FAR and floats[-1] - floats[0] >= 1 / _FAR  # squares of them are floats
            normal = np.all((floats == 0) | (np.abs(floats) >= _TINY))  # a browser works them out from the fractions
            if not (sized and normal and np.all(gaps > 0) and np.all(np.isfinite(gaps)) and 0 < scale < math.inf):
                return False
            below, steps = self.places(floats)
        return bool(np.all(below == np.arange(len(floats))) and not np.any(steps))

    @lazy
    def scale(self) -> float:
        """Steps of the fine grid per unit of label, where the nodes are even."""
        return float(Fraction((len(self.labels) - 1) << COIN) / (self.upper - self.lower))

    def read_missing(self, missing: Any) -> float:
        """The declared value of labels that are no number, which must lie in the range."""
        value = exact(_plain(missing), "missing")
        if not self.lower <= value <= self.upper:
            raise InvalidTask(f"missing must be a label between lower and upper; got {missing!r}.")
        return float(value)

    def places(self, y: Floats, missing: float | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each label the node at or below it and the steps above that node; total: nothing here can fail."""
        stand_in = float(self.lower) if missing is None else missing
        inside = np.clip(np.where(np.isfinite(y), y, stand_in), self.floats[0], self.floats[-1])
        if self.even:
            steps = np.rint((inside - self.floats[0]) * self.scale).astype(np.int64)
            np.minimum(steps, (len(self.labels) - 1) << COIN, out=steps)
            return steps >> COIN, steps & ((1 << COIN) - 1)
        below = np.clip(np.searchsorted(self.floats, inside, side="right") - 1, 0, len(self.labels) - 2)
        share = (inside - self.floats[below]) / np.diff(self.floats)[below]
        steps = (below.astype(np.int64) << COIN) + np.rint(share * (1 << COIN)).astype(np.int64)
        return steps >> COIN, steps & ((1 << COIN) - 1)

    def round(self, y: Floats, coins: NDArray[np.uint32], missing: float | None = None) -> NDArray[np.int64]:
        """The node each label is rounded to by its 32-bit coin."""
        below, steps = self.places(y, missing)
        return below + ((coins >> np.uint32(32 - COIN)).astype(np.int64) < steps)

    def nearest(self, y: Floats, missing: float | None = None) -> NDArray[np.int64]:
        """The nearest node of each label, without a coin: the bin of a histogram."""
        below, steps = self.places(y, missing)
        return below + (steps >= 1 << (COIN - 1))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
