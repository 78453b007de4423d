"""Mechanisms without bias that need no prior: two outputs, a window of likely outputs, and the hybrid of the two.

All are exact tables. Piecewise has its outputs on an even public grid beyond the range of labels: a label gives the
outputs of its window the weight high, all others low, and the window moves in proportion to the label; all windows are
equally long, so all rows sum to the same integer and the mean is linear in the label, exactly. Two-point is of Duchi,
Jordan and Wainwright (2013); piecewise and hybrid (piecewise or two-point, at random) of Wang et al., "Collecting and
analyzing multidimensional data with local differential privacy" (2019). The law: ratios are rounded towards more
privacy, and steps are the fractions that make the bias zero.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.labels._mechanism import (
    BITS,
    Column,
    FiniteMechanism,
    check_range,
    growth_below,
    places,
    read_epsilon,
    read_inputs,
)

FINE = 256  # at least so many outputs between the window of the least label and that of the largest
MOST = 4096  # steps of the labels' lattice
SIMPLE = Fraction(61, 100)  # up to this epsilon the hybrid is the two-point mechanism


def two_point(inputs: Iterable[Any], epsilon: Any) -> FiniteMechanism:
    """Two outputs far apart, the upper one the likelier the larger the label: unbiased, needs no prior.

    *Accuracy:* variance c^2 - t^2 on labels scaled to t in [-1, 1], c = (E + 1)/(E - 1); exactly unbiased. Labels
    must lie on a lattice (a common step) that is not absurdly fine.
    """
    labels, level = read_inputs(inputs), read_epsilon(epsilon)
    return FiniteMechanism(labels, level, two_point_columns(labels, level, 1 << BITS), unbiased=True)


def two_point_columns(labels: tuple[Fraction, ...], epsilon: Fraction, total: int) -> tuple[Column, Column]:
    """The two outputs with rows of sum ``total``, an even number (an odd one would cost half a weight of ratio)."""
    where, _ = places(labels)
    growth = growth_below(epsilon)
    rise = math.floor(total * (growth - 1) / (growth + 1) / where[-1]) // 2 * 2
    if rise * where[-1] < total * (growth - 1) / (growth + 1) * (1 - Fraction(1, 2**16)):
        raise InvalidTask("the labels share no common step coarse enough for whole weights; round them first.")
    lowest = (total - rise * where[-1]) // 2
    upper = [lowest + rise * place for place in where]
    step = (labels[-1] - labels[0]) / (rise * where[-1])
    return (
        Column.of(labels[0] - lowest * step, [total - weight for weight in upper]),
        Column.of(labels[0] + (total - lowest) * step, upper),
    )


def piecewise(inputs: Iterable[Any], epsilon: Any) -> FiniteMechanism:
    """Outputs near the label are e^epsilon times likelier than the others; unbiased, needs no prior.

    *Privacy:* pure epsilon, exact in integers. *Accuracy:* no bias; the variance of the continuous mechanism up to the
    grid (``piecewise_variance``), best for labels in the middle of the range. Labels must share a common step.

    >>> made = piecewise(range(11), 3)
    >>> made.verify().passed, max(abs(b) for b in made.bias())
    (True, Fraction(0, 1))
    """
    labels, level = read_inputs(inputs), read_epsilon(epsilon)
    return FiniteMechanism(labels, level, window_columns(labels, level, 1 << BITS), unbiased=True)


def hybrid(inputs: Iterable[Any], epsilon: Any) -> FiniteMechanism:
    """Piecewise with chance 1 - e^(-epsilon/2), else two-point; two-point alone up to epsilon 0.61.

    *Privacy:* pure epsilon: which of the two is used does not depend on the label. *Accuracy:* no bias; the worst
    variance is never above that of the better of the two.
    """
    labels, level = read_inputs(inputs), read_epsilon(epsilon)
    whole = 1 << BITS
    part = round(whole * -math.expm1(-float(level) / 2)) // 2 * 2 if level > SIMPLE else 0
    wide = window_columns(labels, level, part) if part else ()
    return FiniteMechanism(labels, level, (*wide, *two_point_columns(labels, level, whole - part)), unbiased=True)


def window_columns(labels: tuple[Fraction, ...], epsilon: Fraction, total: int) -> tuple[Column, ...]:
    """The piecewise mechanism with rows of sum ``total``: high in the label's window, low elsewhere.

    With N steps of labels and q outputs per step the window holds L of N q + L outputs, L = N q e^(-epsilon/2).
    """
    where, step = places(labels)
    if where[-1] > MOST:
        raise InvalidTask(f"the labels share no common step coarse enough (at most {MOST} steps); round them first.")
    finer = -(-FINE // where[-1])
    span = where[-1] * finer
    length = max(1, round(span * math.exp(-float(epsilon) / 2)))
    growth = growth_below(epsilon)
    low = math.floor(total / (span + length * growth))
    high = math.floor(low * growth)
    width = total * step / ((high - low) * length * finer)
    middle = (labels[0] + labels[-1]) / 2
    starts = [place * finer for place in where]
    columns = []
    for j in range(span + length):
        first, past = bisect_left(starts, j - length + 1), bisect_left(starts, j + 1)
        output = middle + width * (j - Fraction(span + length - 1, 2))
        columns.append(Column.peak(output, first, past, len(labels), low, high))
    rest = total - length * high - span * low
    return (*columns, *([Column(middle, (0,), (rest,))] if rest else []))


def two_point_variance(label: float, lower: float, upper: float, epsilon: float) -> float:
    """The variance of the two-point mechanism at one label: c^2 - t^2 in half widths."""
    half, t = _scaled(label, lower, upper, epsilon)
    return half**2 * ((1 / math.tanh(epsilon / 2)) ** 2 - t * t)


def piecewise_variance(label: float, lower: float, upper: float, epsilon: float) -> float:
    """The variance of the piecewise mechanism at one label: t^2/(h - 1) + (h + 3)/(3 (h - 1)^2), h = e^(epsilon/2)."""
    half, t = _scaled(label, lower, upper, epsilon)
    over = math.expm1(epsilon / 2)
    return half**2 * (t * t / over + (over + 4) / (3 * over**2))


def _scaled(label: float, lower: float, upper: float, epsilon: float) -> tuple[float, float]:
    check_range(upper - lower, epsilon)
    if not lower <= label <= upper:
        raise InvalidTask(f"the label {label:g} lies outside [{lower:g}, {upper:g}].")
    half = (upper - lower) / 2
    return half, (label - lower) / half - 1
