"""Exact coins and geometric variables with exponential probabilities, from uniform integers alone.

P[heads] = exp(-r) for rational r <= 1: toss coins of probability r/1, r/2, r/3, ... until one fails; the number tossed
is odd with probability exactly exp(-r) (Canonne, Kamath and Steinke 2020, after von Neumann and Forsythe).
Law: no float anywhere, so every probability the proofs speak of is the one that is drawn.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.noise import Noise


def exp_coin(exponent: Fraction, noise: Noise) -> bool:
    """True with probability exactly exp(-exponent), for an exponent of at least zero."""
    whole, rest = divmod(exponent, 1)
    for _ in range(whole):
        if not _small_exp_coin(Fraction(1), noise):
            return False
    return _small_exp_coin(rest, noise)


def _small_exp_coin(exponent: Fraction, noise: Noise) -> bool:
    tosses = 1
    while noise.below(exponent.denominator * tosses) < exponent.numerator:
        tosses += 1
    return tosses % 2 == 1


def geometric(scale: Fraction, noise: Noise) -> int:
    """k >= 0 with probability exactly proportional to exp(-k/scale)."""
    length = scale.numerator
    while True:
        start = noise.below(length)
        if exp_coin(Fraction(start, length), noise):
            break
    laps = 0
    while _small_exp_coin(Fraction(1), noise):
        laps += 1
    return (start + length * laps) // scale.denominator


def two_sided(scale: Fraction, noise: Noise) -> int:
    """An integer x with probability exactly proportional to exp(-|x|/scale)."""
    while True:
        size = geometric(scale, noise)
        negative = noise.below(2) == 1
        if size or not negative:
            return -size if negative else size
