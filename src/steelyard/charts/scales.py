"""From numbers to places: linear and logarithmic scales with ticks a person would have chosen.

Linear ticks stand at multiples of 1, 2 or 5 times a power of ten. A logarithmic scale over at most three decades
has ticks at 1, 2 and 5; over more, at whole decades. The ends of a scale are such round numbers too, unless it is
``tight``. A single value gets room on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.charts.numbers import short, tick_labels

_LOG = 1e-9  # a logarithm this close below a whole number is that number


@dataclass(frozen=True)
class Scale:
    """Places ``low`` at ``start`` and ``high`` at ``end``."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value; on a logarithmic scale zero and less lie one decade outside."""
        if self.log:
            value = value if value > 0 else self.low / 10
            share = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    @property
    def labels(self) -> list[str]:
        """One label for each tick."""
        return [short(tick, kilo=1000) for tick in self.ticks] if self.log else tick_labels(self.ticks)


def scale(values: Iterable[float], start: float, end: float, *, log: bool = False, target: int = 6,
          tight: bool = False) -> Scale:  # fmt: skip
    """A scale with round ends around the values; ``tight`` keeps little more room than the values need."""
    numbers = list(values)
    if log:
        numbers = [number for number in numbers if number > 0]
        return _log(min(numbers, default=1.0), max(numbers, default=10.0), start, end)
    return _linear(min(numbers, default=0.0), max(numbers, default=1.0), start, end, target, tight)


def _linear(low: float, high: float, start: float, end: float, target: int, tight: bool) -> Scale:
    largest = max(abs(low), abs(high))
    if high - low <= 1e-9 * largest or high == low:
        low, high = low - (largest / 2 or 1.0), high + (largest / 2 or 1.0)
    step = round_step((high - low) / target)
    first, last = math.floor(low / step + _LOG), math.ceil(high / step - _LOG)
    ticks = tuple(float(f"{k * step:.12g}") for k in range(first, last + 1))
    room = 0.03 * (high - low) if tight else ticks[-1] - ticks[0]
    first_end, last_end = max(ticks[0], low - room), min(ticks[-1], high + room)
    inside = tuple(tick for tick in ticks if first_end <= tick <= last_end)
    return Scale(first_end, last_end, start, end, inside)


def round_step(least: float) -> float:
    """The smallest 1, 2 or 5 times a power of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= least * (1 - _LOG))


def _log(low: float, high: float, start: float, end: float) -> Scale:
    if high <= low * (1 + _LOG):
        low, high = low / 2, high * 2
    low, high = 1 / round_step(1 / low), round_step(high)
    if math.log10(high) - math.log10(low) > 4:
        low, high = 10.0 ** math.floor(math.log10(low) + _LOG), 10.0 ** math.ceil(math.log10(high) - _LOG)
    low = float(f"{low:.6g}")
    first, last = math.floor(math.log10(low) + _LOG), math.ceil(math.log10(high) - _LOG)
    decades = math.log10(high) - math.log10(low)
    factors, stride = ((1, 2, 5), 1) if decades <= 3 + _LOG else ((1,), math.ceil(decades / 8))
    ticks = [float(f"{f}e{power}") for power in range(first, last + 1, stride) for f in factors]
    inside = tuple(tick for tick in ticks if low * (1 - _LOG) <= tick <= high * (1 + _LOG))
    return Scale(low, high, start, end, inside, log=True)
