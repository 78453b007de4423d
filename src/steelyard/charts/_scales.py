"""Numbers for people and where they stand: written as a reader would say them, on scales with ticks one would choose.

What is not a finite number (``None``, NaN, infinities) is ``None`` here and is left out of pictures. Sizes beyond
1e300 count as infinite and below 1e-300 as zero, so that no later arithmetic can overflow.

Linear ticks stand at multiples of 1, 2 or 5 times a power of ten. A logarithmic scale over at most three decades
has ticks at 1, 2 and 5; over more, at whole decades. The ends of a scale are such round numbers too, unless it is
``tight``. A single value gets room on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import SupportsFloat

from steelyard.errors import InvalidTask

Number = SupportsFloat | None
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def read(value: Number) -> float | None:
    """The number as a float, or ``None`` where there is nothing to draw."""
    if value is None:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    except (TypeError, ValueError):
        raise InvalidTask(f"a chart draws numbers, and {value!r} is not one.") from None
    if abs(number) < 1e-300:
        return 0.0
    return number if abs(number) <= 1e300 else None


def columns(**given: Iterable[Number] | None) -> list[list[float | None]]:
    """Read several columns, which must be equally long; one that is not given is all ``None``."""
    lists = {name: None if values is None else [read(value) for value in values] for name, values in given.items()}
    sizes = {name: len(values) for name, values in lists.items() if values is not None}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} {name}" for name, size in sizes.items())
        raise InvalidTask(f"a chart needs columns of one length, and got {told}.")
    length = max(sizes.values(), default=0)
    return [[None] * length if values is None else values for values in lists.values()]


def short(value: float, *, kilo: float = 10_000) -> str:
    """Three digits and an SI prefix.

    >>> [short(x) for x in (0, -0.25, 1234, 1_500_000, 2.5e-6)]
    ['0', '−0.25', '1,234', '1.5M', '2.5×10⁻⁶']
    """
    size = abs(float(f"{value:.3g}"))
    if size == 0:
        return "0"
    if not 1e-3 <= size < 1e21:
        return science(value)
    prefix = int(math.log10(size) + 1e-9) // 3 if size >= kilo else 0
    scaled = value / 1000**prefix
    decimals = max(0, 2 - math.floor(math.log10(size / 1000**prefix) + 1e-9))
    return _plain(scaled, decimals, trim=True) + _PREFIXES[prefix]


def science(value: float) -> str:
    """A power of ten, with at most three digits before it."""
    digits, _, power = f"{value:.2e}".partition("e")
    digits = digits.rstrip("0").rstrip(".").replace("-", "−")
    raised = "10" + str(int(power)).translate(_RAISED)
    return {"1": raised, "−1": f"−{raised}"}.get(digits, f"{digits}×{raised}")


def with_error(value: float, error: float) -> str:
    """A value and its error, both to the error's second digit.

    >>> with_error(12345.6, 213.4), with_error(0.5123, 0.0127)
    ('12,350 ± 210', '0.512 ± 0.013')
    """
    if error <= 0 or max(abs(value), error) >= 1e12 or error < 1e-9:
        return f"{short(value)} ± {short(error)}"
    return f"{at_error(value, error)} ± {at_error(error, error)}"


def at_error(value: float, error: float) -> str:
    """A number written to the second digit of its error: what follows is noise. Without an error, to ten digits.

    >>> at_error(199973.2593249829, 209.7), at_error(5.0, 2.5), at_error(1 / 3, 0.0)
    ('199,970', '5', '0.3333333333')
    """
    if not 1e-9 <= error < 1e300:
        return f"{value:,.10g}".replace("-", "−")
    places = 1 - math.floor(math.log10(error))
    if float(value).is_integer():  # a count stays whole
        places = min(places, 0)
    return _plain(round(value, places), max(0, places))


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Labels of even ticks: the same prefix and the same decimals for all of them."""
    largest = max(map(abs, ticks), default=0.0)
    if largest and not 1e-3 <= largest < 1e21:
        return [science(tick) if tick else "0" for tick in ticks]
    prefix = int(math.log10(largest) + 1e-9) // 3 if largest >= 10_000 else 0
    step = (ticks[1] - ticks[0]) / 1000**prefix if len(ticks) > 1 else 1.0
    decimals = max(0, -math.floor(math.log10(abs(step)) + 1e-9)) if step else 0
    return [_plain(tick / 1000**prefix, decimals) + (_PREFIXES[prefix] if tick else "") for tick in ticks]


def _plain(value: float, decimals: int, *, trim: bool = False) -> str:
    words = f"{value:,.{decimals}f}"
    if trim and "." in words:
        words = words.rstrip("0").rstrip(".")
    if value == 0 or not words.strip("-0.,"):
        return words.lstrip("-") if decimals == 0 or trim else "0"
    return words.replace("-", "−")


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
