"""The piecewise and the hybrid mechanism as exact tables: a window of likely outputs that slides with the label.

Outputs lie on an even public grid beyond the range of labels. A label gives the outputs of its window the weight high,
all others low, and the window moves in proportion to the label; all windows are equally long, so all rows sum to the
same integer and the mean is linear in the label, exactly. Piecewise and hybrid (piecewise or two-point, at random) are
of Wang et al., "Collecting and analyzing multidimensional data with local differential privacy" (2019). The law: the
ratio high/low is rounded towards more privacy, and the step of the grid is the fraction that makes the bias zero.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from steelyard.errors import InvalidTask

from .classic import two_point_columns
from .exact import BITS, growth_below, places, read_epsilon, read_inputs
from .mechanism import Column, FiniteMechanism

FINE = 256  # at least so many outputs between the window of the least label and that of the largest
MOST = 4096  # steps of the labels' lattice
SIMPLE = Fraction(61, 100)  # up to this epsilon the hybrid is the two-point mechanism


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
        weights = [high if first <= i < past else low for i in range(len(labels))]
        columns.append(Column.of(middle + width * (j - Fraction(span + length - 1, 2)), weights))
    rest = total - length * high - span * low
    return (*columns, *([Column(middle, (0,), (rest,))] if rest else []))
