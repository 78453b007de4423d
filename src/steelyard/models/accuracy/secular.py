"""The least value of a convex quadratic inside a ball, in decimals of as many digits as are asked for.

The multiplier m of the ball solves |(A + m)^-1 R| = B. One over that length is concave and rises with m, so Newton's steps
on it from m = 0 never pass the root and come nearer each time. What is returned is a proposal: it is judged in exact
arithmetic by whoever asked (docs/proofs/sqrt_excess.md).
Law: more digits always make it better, whatever the numbers; nothing here fails.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Vector = list[Decimal]


def in_decimals(
    gram: NDArray[np.object_],
    moment: NDArray[np.object_],
    scale: int,
    penalty: Fraction,
    ball: Fraction,
    digits: int,
) -> tuple[list[Fraction], Fraction]:
    """Where w'Aw - 2R'w is about least in the ball, A = gram/scale + penalty and R = moment/scale; and the multiplier."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = digits, MAX_EMAX, MIN_EMIN
        matrix = [[Decimal(int(x)) / scale for x in row] for row in gram]
        pull, floor, radius = [Decimal(int(x)) / scale for x in moment], _decimal(penalty), _decimal(ball)
        multiplier = Decimal(0)
        for _ in range(digits):  # each about doubles the digits that are right, near the root
            point, slower = _solved(matrix, floor + multiplier, pull)
            length = _dot(point, point).sqrt()
            step = Decimal(0) if length <= radius else length * length / slower * (length - radius) / radius
            if multiplier + step == multiplier:
                break
            multiplier += step
        return [Fraction(x) for x in point], Fraction(multiplier)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / value.denominator


def _dot(one: Sequence[Decimal], other: Sequence[Decimal]) -> Decimal:
    return sum(map(operator.mul, one, other), Decimal(0))


def _solved(matrix: list[Vector], floor: Decimal, pull: Vector) -> tuple[Vector, Decimal]:
    """v with (matrix + floor) v = pull, and v'(matrix + floor)^-1 v; a pivot that digits swallowed is the floor, which none is below."""
    rows: list[Vector] = []
    pivots: Vector = []
    for i, given in enumerate(matrix):
        row: Vector = []
        for j in range(i):
            row.append(given[j] - _dot([a * p for a, p in zip(row, pivots, strict=False)], rows[j]))
            row[j] = row[j] / pivots[j]
        own = given[i] + floor - _dot([a * p for a, p in zip(row, pivots, strict=False)], row)
        rows.append(row)
        pivots.append(max(own, floor))
    point = _backward(rows, pivots, _forward(rows, pull))
    half = _forward(rows, point)
    return point, sum((x * x / p for x, p in zip(half, pivots, strict=True)), Decimal(0))


def _forward(rows: list[Vector], pull: Vector) -> Vector:
    found: Vector = []
    for row, value in zip(rows, pull, strict=True):
        found.append(value - _dot(row, found))
    return found


def _backward(rows: list[Vector], pivots: Vector, pull: Vector) -> Vector:
    found = [value / pivot for value, pivot in zip(pull, pivots, strict=True)]
    for i in range(len(rows) - 1, -1, -1):
        for j, entry in enumerate(rows[i]):
            found[j] -= entry * found[i]
    return found
