"""Exact numbers for label mechanisms: rational bounds of e^epsilon, and labels and priors read as fractions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.privacy import exact, positive

BITS = 62  # every row of a table sums to 2**62: one random 64-bit word draws a label, in Python and elsewhere


def growth_below(epsilon: Fraction, bits: int = 128) -> Fraction:
    """The largest multiple of 2^-bits that is certainly at most e^epsilon.

    Fixed-point Taylor sum at epsilon/2^m, every operation rounded down, then m squarings rounded down.

    >>> float(growth_below(Fraction(1)))
    2.718281828459045
    """
    halvings = max(0, math.ceil(epsilon).bit_length() + 1)
    one = 1 << (bits + 64)
    x = math.floor(epsilon / 2**halvings * one)
    total = term = one
    order = 1
    while term:
        term = term * x // (one * order)
        total += term
        order += 1
    for _ in range(halvings):
        total = total * total // one
    return Fraction(total >> 64, 1 << bits)


def ratio_below(epsilon: Fraction, limit: int = 2**22) -> tuple[int, int]:
    """The best fraction n/d <= e^epsilon with n at most about ``limit``.

    >>> n, d = ratio_below(Fraction(1))
    >>> bool(n / d <= math.e and math.e - n / d < 1e-11)
    True
    """
    growth = growth_below(epsilon)
    bound = max(1, limit // math.ceil(growth))
    best = growth.limit_denominator(bound)
    if best > growth:
        # the left neighbour of the closest fraction in the Farey order: it must lie on the other side
        p, q = best.numerator, best.denominator
        d = pow(p, -1, q) if q > 1 else 0
        d += (bound - d) // q * q
        best = Fraction((p * d - 1) // q, d)
    return best.numerator, best.denominator


def read_inputs(values: Iterable[Any]) -> tuple[Fraction, ...]:
    """Labels as exact fractions, strictly rising, at least two of them."""
    inputs = tuple(_read(value, "a label") for value in values)
    if len(inputs) < 2:
        raise InvalidTask(f"a randomizer needs at least two distinct labels; got {len(inputs)}.")
    for before, after in pairwise(inputs):
        if before >= after:
            raise InvalidTask(f"labels must be strictly rising; {float(before):g} is followed by {float(after):g}.")
    return inputs


def places(labels: tuple[Fraction, ...]) -> tuple[list[int], Fraction]:
    """The labels as whole multiples of their coarsest common step from the first one on, and that step.

    >>> places((Fraction(0), Fraction(1, 2), Fraction(2)))
    ([0, 1, 4], Fraction(1, 2))
    """
    lattice = math.lcm(*(y.denominator for y in labels))
    found = [int((y - labels[0]) * lattice) for y in labels]
    shared = math.gcd(*found)
    return [place // shared for place in found], Fraction(shared, lattice)


def read_prior(values: Iterable[Any], count: int) -> tuple[int, ...]:
    """A prior as whole numbers in the exact proportions given; it need not sum to one."""
    prior = [_read(value, "a prior weight") for value in values]
    if len(prior) != count:
        raise InvalidTask(f"the prior has {len(prior)} weights for {count} labels.")
    if min(prior) < 0:
        raise InvalidTask(f"a prior weight cannot be negative; got {float(min(prior)):g}.")
    if not any(prior):
        raise InvalidTask("the prior has no mass: every weight is zero.")
    common = math.lcm(*(p.denominator for p in prior))
    whole = [int(p * common) for p in prior]
    shared = math.gcd(*whole)
    return tuple(p // shared for p in whole)


def read_epsilon(epsilon: Any) -> Fraction:
    """An epsilon a label mechanism can be built for: above zero, at most 32."""
    value = positive(epsilon, "epsilon")
    if value > 32:
        raise InvalidTask(f"epsilon {float(value):g} hides nothing; label mechanisms go up to 32.")
    if value < Fraction(1, 10**4):
        raise InvalidTask(f"epsilon {float(value):g} leaves no signal; label mechanisms start at 0.0001.")
    return value


def _read(value: Any, name: str) -> Fraction:
    return exact(value.item() if hasattr(value, "item") else value, name)
