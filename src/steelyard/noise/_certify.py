"""Exact binary digits of the strip probabilities, certified by integer intervals.

Both laws are cut into strips of width 2^-H. An exponential falls into strip k with probability (1 - q) q^k,
q = exp(-2^-H), and beyond the first K strips with probability q^K; a half normal is proposed in strip k with
probability proportional to r^(k^2), r = exp(-2^-(2H+1)). Every number is kept between two integers over 2^precision;
a floor is returned only when both ends agree, otherwise everything is done again with more bits.
Law: no float touches a weight.
"""

from __future__ import annotations

from collections.abc import Callable

Interval = tuple[int, int]


def exp_minus(power: int, precision: int) -> Interval:
    """Integers lo <= 2^precision * exp(-2^-power) <= hi, from the alternating series."""
    term = total = 1 << precision
    count = 0
    while term:
        count += 1
        term = (term >> power) // count
        total += -term if count % 2 else term
    # each truncated term is at most 2 below its true value, and the tail is smaller than its first term
    slack = 2 * count + 2
    return total - slack, total + slack


def _times(one: Interval, other: Interval, precision: int) -> Interval:
    return one[0] * other[0] >> precision, (one[1] * other[1] >> precision) + 1


def _agreed(attempt: Callable[[int], list[int] | None], precision: int) -> list[int]:
    while (floors := attempt(precision)) is None:
        precision += 64
    return floors


def exponential_floors(strip: int, count: int, bits: int) -> list[int]:
    """floor(2^bits p_k) for the ``count`` strips and, last, for the escape beyond them."""

    def attempt(precision: int) -> list[int] | None:
        one = 1 << precision
        step = exp_minus(strip, precision)
        rest = (one - step[1], one - step[0])
        power: Interval = (one, one)
        floors = []
        for _ in range(count):
            low, high = power[0] * rest[0], power[1] * rest[1]
            floors.append(low >> 2 * precision - bits)
            if floors[-1] != high >> 2 * precision - bits:
                return None
            power = _times(power, step, precision)
        floors.append(power[0] >> precision - bits)
        return floors if floors[-1] == power[1] >> precision - bits else None

    return _agreed(attempt, bits + 48)


def normal_floors(strip: int, bits: int) -> list[int]:
    """floor(2^bits p_k) for k = 0, 1, ... up to the last strip where it is not zero."""

    def attempt(precision: int) -> list[int] | None:
        terms = _normal_terms(strip, precision)
        low_sum = sum(low for low, _ in terms)
        high_sum = sum(high for _, high in terms) + 1  # the strips left out weigh less than one unit together
        floors = []
        for low, high in terms:
            floors.append((low << bits) // high_sum)
            if floors[-1] != (high << bits) // low_sum:
                return None
            if floors[-1] == 0:
                return floors[:-1]
        return None

    return _agreed(attempt, bits + 64)


def _normal_terms(strip: int, precision: int) -> list[Interval]:
    """r^(k^2) for every k with k^2 <= precision * 2^(2H+1); beyond it the terms are below e^-precision."""
    step = exp_minus(2 * strip + 1, precision)
    square = _times(step, step, precision)
    term: Interval = (1 << precision, 1 << precision)
    terms, k = [], 0
    while k * k <= precision << (2 * strip + 1):
        terms.append(term)
        term, step, k = _times(term, step, precision), _times(step, square, precision), k + 1
    return terms
