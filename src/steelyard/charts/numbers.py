"""Numbers for people: read anything that floats, write what a reader can say aloud.

What is not a finite number (``None``, NaN, infinities) is ``None`` here and is left out of pictures. Sizes beyond
1e300 count as infinite and below 1e-300 as zero, so that no later arithmetic can overflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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
    places = 1 - math.floor(math.log10(error))
    return f"{_plain(round(value, places), max(0, places))} ± {_plain(round(error, places), max(0, places))}"


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
