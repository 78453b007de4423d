"""A quantity: one total function from a row to an integer on a public grid.

floor(value / step + 1/2), computed in IEEE doubles in one fixed order of operations, clamped to ±2^53 as a double
before it becomes an integer. Null, NaN and the infinities become 0. No input whatsoever is an error, and every
engine gives the same integer, because each operation used here is correctly rounded everywhere.
Law: the integer is the only thing the rest of the library sees of a value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from steelyard.errors import InvalidTask

LIMIT = 2**53
"""The largest absolute value of a row's integer."""

LARGEST = 1.7976931348623157e308
_EXACT_DIGITS = 15  # a decimal this short is a quotient of two exact doubles, so a plain cast is correctly rounded


@dataclass(frozen=True)
class Quantity:
    """What is added up: a column on a grid of width ``step``, or (``column=None``) the number one for every row.

    >>> Quantity("amount", Fraction(1, 100)).integer(19.99)
    1999
    >>> Quantity("amount", Fraction(1)).integer(float("nan"))
    0
    """

    column: str | None = None
    step: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.column is not None and (not isinstance(self.column, str) or not self.column):
            raise InvalidTask(f"a quantity's column must be a name or None; got {self.column!r}.")
        if type(self.step) not in (int, Fraction) or self.step <= 0:
            raise InvalidTask(f"a quantity's step must be a fraction above zero; got {self.step!r}.")
        if not Fraction(1, 10**300) < self.step < 10**300:
            raise InvalidTask("a quantity's step must lie between 1e-300 and 1e300.")

    def integer(self, value: object) -> int:
        """The integer of one value: the reference that the engines must match to the last digit."""
        number = 1.0 if self.column is None else _double(value)
        if not abs(number) <= LARGEST:
            return 0
        multiply, factor = self._scale()
        scaled = (number * factor if multiply else number / factor) + 0.5
        return math.floor(max(min(scaled, float(LIMIT)), -float(LIMIT)))

    def expression(self, table: Any) -> Any:
        """The same function as an Ibis expression of type int64, never null."""
        import ibis

        if self.column is None:
            return ibis.literal(self.integer(1), "int64")
        number = as_double(table[self.column])
        multiply, factor = self._scale()
        scaled = (number * double(factor) if multiply else number / double(factor)) + double(0.5)
        clamped = ibis.greatest(ibis.least(scaled, double(float(LIMIT))), double(-float(LIMIT)))
        return ibis.cases((finite(number), clamped.floor().cast("int64")), else_=ibis.literal(0, "int64"))

    def _scale(self) -> tuple[bool, float]:
        """Whether to multiply or divide, and by which double: exact where one of the two is."""
        inverse = 1 / Fraction(self.step)
        if Fraction(float(inverse)) != inverse and Fraction(float(self.step)) == self.step:
            return False, float(self.step)
        return True, float(inverse)


def double(value: float) -> Any:
    """A double literal, written as text: engines parse text correctly rounded, but not every bare literal."""
    import ibis

    return ibis.literal(repr(value)).cast("float64")


def finite(number: Any) -> Any:
    """Whether a double is finite: null for null, and false for NaN and the infinities, however an engine orders them.

    Only a finite number less itself is zero. No bound on the column decides that, so a planner cannot know it better.
    """
    return number - number == double(0.0)


def as_double(column: Any) -> Any:
    """A numeric column as doubles, correctly rounded in every engine; long decimals go through text to be so."""
    kind = column.type()
    if kind.is_decimal() and (kind.precision is None or kind.precision > _EXACT_DIGITS):
        return column.cast("string").cast("float64")
    return column.cast("float64")


def _double(value: object) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf
