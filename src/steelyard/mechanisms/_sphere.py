"""Noise with density proportional to exp(-|b|/scale) in d dimensions, on a grid, as near to the ideal as one asks.

The length of such a vector is a sum of d exponentials and its direction is uniform. Each exponential's floor is a
geometric number, read off one exact discrete Laplace draw; the direction is that of a rounded normal vector hundreds of
bits wide. So the drawn integers lie within ``error(d)`` steps of an ideal vector, always, not just probably, and
the ideal vector's density is the stated one up to a factor within 1 +- 2^-190, which ``EXTRA_MICRO`` pays for.
Law: what is computed from these integers must be covered for that distance (docs/proofs/spherical.md).
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING

from steelyard.errors import InvalidTask
from steelyard.mechanisms._integers import check_scale

if TYPE_CHECKING:
    from steelyard.noise import Noise

EXTRA_MICRO = 1
"""What the uneven direction may cost, in micro-epsilon: far more than it does."""

_WIDE, _LEAST = 400, 200


def error(size: int) -> int:
    """By how many steps, at most, the drawn vector is off the ideal one, in Euclidean length."""
    return 2 * size + 2


def spherical(scale: Fraction, size: int, noise: Noise) -> list[int]:
    """A vector of ``size`` integers near b, where b has density proportional to exp(-|b|/scale) up to 1 +- 2^-190.

    *Privacy:* see ``error``. *Cost:* about 20 microseconds for each entry.
    """
    check_scale(scale)
    if size < 1:
        raise InvalidTask(f"a vector has at least one entry; got {size}.")
    length = sum(x if x >= 0 else -x - 1 for x in noise.laplace(scale, size))
    bits = length.bit_length()
    while True:
        direction = noise.normal(Fraction(1 << (_WIDE + bits)), size)
        norm = isqrt(sum(x * x for x in direction))
        if norm >> (_LEAST + bits):
            return [length * x // norm for x in direction]
