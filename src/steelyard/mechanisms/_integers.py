"""Integers that can neither overflow nor fail: the shared shape of what goes into and comes out of noise.

Clamping to a public interval before the noise moves no two values further apart, so it keeps every sensitivity;
clamping after the noise is post-processing. Either way nothing depends on the data but the value itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from operator import add

from steelyard.errors import InvalidTask, OurBug

WIDEST = 2**127
"""No integer with noise is further from zero."""


def saturate(value: int) -> int:
    """The value, held inside [-2^127, 2^127]."""
    return max(-WIDEST, min(WIDEST, int(value)))


def noisy(values: Sequence[int], draw: Callable[[], Sequence[int]]) -> list[int]:
    """Value plus noise, entry by entry, held inside the limit."""
    draws = draw()
    if len(values) != len(draws):
        raise OurBug("every integer takes one draw of noise.")
    noised = list(map(add, map(int, values), map(int, draws)))
    if noised and max(max(noised), -min(noised)) <= WIDEST:
        return noised
    return [saturate(each) for each in noised]


def check_sensitivity(sensitivity: int | None, name: str = "sensitivity") -> None:
    """Refuse a public parameter that is not a whole number of at least one."""
    if not isinstance(sensitivity, int) or isinstance(sensitivity, bool) or sensitivity < 1:
        raise InvalidTask(f"{name} must be a whole number of at least 1; got {sensitivity!r}.")


def check_scale(scale: Fraction, name: str = "scale") -> None:
    """Refuse a public parameter that is not an exact fraction above zero."""
    if not isinstance(scale, Fraction) or scale <= 0:
        raise InvalidTask(f"{name} must be an exact Fraction above zero; got {scale!r}.")
