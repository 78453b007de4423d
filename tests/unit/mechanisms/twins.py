"""Sparse-vector mechanisms that were published and are broken, with one that is not, as things one can run.

After Lyu, Su and Li (2017), algorithms 1 and 3 to 6, with discrete Laplace noise and sensitivity 1. Each samples in
batches, knows the exact probability of a row of answers, and carries the pair of neighbours that gives it away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BELOW, ABOVE, STOPPED = -(10**9), -(10**9) + 1, -(10**9) + 2
REACH = 36


@dataclass(frozen=True)
class SparseVector:
    """A claim of ``epsilon``; a question scale of 0 means no noise, ``stops`` of None no end, ``value`` shows it."""

    name: str
    epsilon: float
    threshold_scale: float
    question_scale: float
    stops: int | None
    value: bool
    first: tuple[int, ...]
    second: tuple[int, ...]
    telling: tuple[int, ...]
    sound: bool = False

    def sample(self, values: Sequence[int], size: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """``size`` rows of answers at threshold 0: BELOW, ABOVE (or the noisy value), STOPPED."""
        threshold = two_sided(self.threshold_scale, (size, 1), generator)
        asked = np.asarray(values, dtype=np.int64) + two_sided(self.question_scale, (size, len(values)), generator)
        above = asked >= threshold
        answers = np.where(above, asked if self.value else ABOVE, BELOW)
        if self.stops is not None:
            before: NDArray[np.int64] = np.cumsum(above, axis=1) - above
            answers = np.where(before >= self.stops, STOPPED, answers)
        return answers

    def probability(self, values: Sequence[int], answers: Sequence[int]) -> float:
        """The exact probability of a row of answers, by summing over the threshold's noise."""
        width = math.ceil(REACH * self.threshold_scale)
        return math.fsum(
            pmf(r, self.threshold_scale) * math.prod(self._given(r, values, answers)) for r in range(-width, width + 1)
        )

    def _given(self, threshold: int, values: Sequence[int], answers: Sequence[int]) -> list[float]:
        terms, above = [], 0
        for value, answer in zip(values, answers, strict=True):
            if (self.stops is not None and above >= self.stops) or answer == STOPPED:
                terms.append(float((self.stops is not None and above >= self.stops) and answer == STOPPED))
            elif answer == BELOW:
                terms.append(1 - tail(threshold - value, self.question_scale))
            else:
                above += 1
                shown = pmf(answer - value, self.question_scale) * (answer >= threshold)
                terms.append(shown if self.value else tail(threshold - value, self.question_scale))
        return terms


def two_sided(scale: float, shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.int64]:
    """Discrete Laplace draws as the difference of two geometric ones; all zero at scale 0."""
    if scale == 0:
        return np.zeros(shape, dtype=np.int64)
    success = -math.expm1(-1 / scale)
    return (generator.geometric(success, shape) - generator.geometric(success, shape)).astype(np.int64)


def pmf(x: int, scale: float) -> float:
    """The probability of x under discrete Laplace noise."""
    return float(x == 0) if scale == 0 else math.tanh(1 / (2 * scale)) * math.exp(-abs(x) / scale)


def tail(x: int, scale: float) -> float:
    """The probability of x or more under discrete Laplace noise."""
    if scale == 0:
        return float(x <= 0)
    ratio = math.exp(-1 / scale)
    return ratio**x / (1 + ratio) if x > 0 else 1 - ratio ** (1 - x) / (1 + ratio)


def row(below: int, *above: int) -> tuple[int, ...]:
    return (BELOW,) * below + above


# Half of epsilon (a quarter in algorithm 4) is meant for the threshold, the rest for the questions.
SOUND = SparseVector("algorithm 1", 1.0, 2, 8, 2, False, (0,) * 6, (1, 1, 1, 1, -1, -1), row(4, ABOVE, ABOVE), True)
SHOWS_VALUE = SparseVector("algorithm 3", 1.0, 2, 2, 1, True, (0,) * 5 + (1,), (1,) * 5 + (0,), row(5, 0))
FORGETS_STOPS = SparseVector("algorithm 4", 1.0, 4, 4 / 3, 3, False, (0,) * 5, (1, 1, -1, -1, -1), row(2, *[ABOVE] * 3))
NO_NOISE = SparseVector("algorithm 5", 1.0, 2, 0, None, False, (0, 1), (1, 0), row(1, ABOVE))
NO_END = SparseVector("algorithm 6", 1.0, 2, 2, None, False, (0,) * 6, (1,) * 3 + (-1,) * 3, row(3, *[ABOVE] * 3))
BROKEN = (SHOWS_VALUE, FORGETS_STOPS, NO_NOISE, NO_END)
