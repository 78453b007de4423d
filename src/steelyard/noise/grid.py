"""The public grid: where amounts become integers, so that the cost of noise is an integer too.

With sensitivity S = c 2^b steps and noise of scale 10^6 2^b steps, a release costs exactly c micro-epsilon (Laplace) or
c micro-mu (normal): no rounding is left to account for. Floats before the integers are utility only; privacy starts
with the integer norm, which is checked after rounding. The exponent b is chosen from public numbers alone.
Law: the step, the sensitivity and the scale depend on nothing private, and quantizing never raises on data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask
from steelyard.interrupts import attempt
from steelyard.privacy import MICRO

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS = 1 << 24
LIMIT = 1 << 53
# rounding moves a sum of n values by at most n/2 steps; these keep that below 1 % of the noise's standard deviation
_LAPLACE_ROOM, _NORMAL_ROOM = 36, 50


@dataclass(frozen=True)
class Grid:
    """A step width, the sensitivity in steps and the noise scale in steps."""

    step: Fraction
    sensitivity: int
    scale: Fraction

    def __post_init__(self) -> None:
        if self.step <= 0 or self.sensitivity < 1 or self.scale <= 0:
            raise InvalidTask(f"a grid needs a positive step, sensitivity and scale; got {self}.")

    @property
    def micro(self) -> int:
        """The cost of one release in micro-epsilon or micro-mu, rounded up (exact for grids made here)."""
        return -(-MICRO * self.sensitivity // self.scale)

    def amount(self, steps: int) -> Fraction:
        """A number of steps as an amount."""
        return steps * self.step


def laplace_grid(bound: Fraction, epsilon_micro: int, rows_hint: int = ROWS) -> Grid:
    """The grid on which a total bounded by ``bound`` per unit costs exactly ``epsilon_micro`` with Laplace noise.

    *Accuracy:* rounding up to ``rows_hint`` values (a public guess) shifts their sum by at most 1 % of the noise.

    >>> grid = laplace_grid(Fraction(100), 500_000)
    >>> grid.micro, grid.sensitivity / grid.scale, grid.step * grid.sensitivity
    (500000, Fraction(1, 2), Fraction(100, 1))
    """
    return _grid(bound, epsilon_micro, rows_hint * _LAPLACE_ROOM)


def normal_grid(bound: Fraction, mu_micro: int, rows_hint: int = ROWS) -> Grid:
    """The grid on which a vector of norm at most ``bound`` per unit costs exactly ``mu_micro`` with normal noise."""
    return _grid(bound, mu_micro, rows_hint * _NORMAL_ROOM)


def _grid(bound: Fraction, micro: int, room: int) -> Grid:
    if bound <= 0 or micro < 1:
        raise InvalidTask(f"a grid needs a positive bound and a cost of at least one micro; got {bound} and {micro}.")
    doublings = (max(room - 1, 0) // MICRO).bit_length()
    sensitivity = micro << doublings
    return Grid(Fraction(bound) / sensitivity, sensitivity, Fraction(MICRO << doublings))


def whole_grid(sensitivity: int, micro: int) -> Grid:
    """The grid of whole numbers, for counts: step 1, and the scale that costs exactly ``micro``.

    >>> whole_grid(1, 3).scale
    Fraction(1000000, 3)
    """
    if micro < 1:
        raise InvalidTask(f"a release costs at least one micro; got {micro}.")
    return Grid(Fraction(1), sensitivity, Fraction(MICRO * sensitivity, micro))


def sqrt_above(square: Fraction, bits: int = 62) -> Fraction:
    """A dyadic number at or just above the square root, with about ``bits`` significant bits: sigma from a variance.

    >>> sqrt_above(Fraction(9, 4)), float(sqrt_above(Fraction(2)) ** 2 - 2) > 0
    (Fraction(3, 2), True)
    """
    if square <= 0:
        raise InvalidTask(f"a variance must be above zero; got {square}.")
    n, d = square.as_integer_ratio()
    if isqrt(n) ** 2 == n and isqrt(d) ** 2 == d:
        return Fraction(isqrt(n), isqrt(d))
    shift = max(0, bits - (n.bit_length() - d.bit_length()) // 2)
    return Fraction(isqrt((n << 2 * shift) // d) + 1, 1 << shift)


def quantize(
    values: Any, step: Fraction, *, lower: int = -LIMIT, upper: int = LIMIT, missing: int = 0
) -> NDArray[np.int64]:
    """Amounts as whole steps in [lower, upper]; NaN, null, infinities and anything else that is no number: ``missing``.

    *Privacy:* total: no value raises or warns, and each row's integer depends on that row alone.

    >>> quantize([0.26, None, float("inf"), 1e300, "x"], Fraction(1, 10), upper=50).tolist()
    [3, 0, 0, 50, 0]
    """
    import numpy as np

    if not -LIMIT <= lower <= missing <= upper <= LIMIT:
        raise InvalidTask(f"steps must satisfy -2^53 <= {lower} <= {missing} <= {upper} <= 2^53.")
    amounts = _floats(values)
    finite = np.isfinite(amounts)
    with np.errstate(all="ignore"):
        steps = np.rint(np.where(finite, amounts, 0.0) / _float(step))
    steps = np.clip(np.where(np.isnan(steps), float(missing), steps), lower, upper)
    out: NDArray[np.int64] = np.where(finite, steps.astype(np.int64), missing)
    return out


def _float(step: Fraction) -> float:
    try:
        number = float(step)
    except OverflowError:
        number = 0.0
    if number <= 0:
        raise InvalidTask("the step of a grid must be a positive number that a float can hold.")
    return number


def _floats(values: Any) -> NDArray[np.float64]:
    """The values as floats, NaN where there is none; never raises on what is inside."""
    import numpy as np

    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(object), None)
    array = np.asarray(values, dtype=None if hasattr(values, "__array__") else object)
    if array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return array.astype(np.float64)
    return np.array([_one(value) for value in array.ravel().tolist()], dtype=np.float64).reshape(array.shape)


def _one(value: object) -> float:
    read = attempt(lambda: float(value))  # type: ignore[arg-type]
    return float("nan") if read is None else read[0]  # law 4: whatever its conversion does, a row is the missing value


def fit(values: Any, step: Fraction, sensitivity: int, norm: int) -> NDArray[np.int64]:
    """Each row (last axis) of amounts as integers whose L1 (``norm=1``) or L2 (``norm=2``) norm is at most S.

    Rounds to nearest; where the integer norm is then too large rounds toward zero; where a float was already too long
    shrinks every coordinate step by step. *Privacy:* one unit's row never weighs more than S, whatever it holds.
    """
    import numpy as np

    nearest = quantize(values, step)
    with np.errstate(all="ignore"):
        shares = _floats(values) / _float(step)
    inward = np.trunc(np.clip(np.where(np.isfinite(shares), shares, nearest), -LIMIT, LIMIT)).astype(np.int64)
    fits = _within(nearest, sensitivity, norm)
    return fit_norm(np.where(fits[..., None], nearest, inward), sensitivity, norm)


def fit_norm(ints: NDArray[np.int64], sensitivity: int, norm: int) -> NDArray[np.int64]:
    """Integer rows (last axis) moved toward zero, all coordinates alike, until the L1 or L2 norm is at most S.

    *Privacy:* total and exact: the check is integer arithmetic that cannot overflow.
    """
    import numpy as np

    if norm not in (1, 2) or sensitivity < 0:
        raise InvalidTask(f"the norm must be 1 or 2 and the sensitivity not negative; got {norm} and {sensitivity}.")
    out = np.array(ints, dtype=np.int64)
    if not out.size:
        return out
    too_long = ~_within(out, sensitivity, norm)
    flat = out.reshape(-1, out.shape[-1])
    for i in np.flatnonzero(too_long.ravel()).tolist():
        flat[i] = _shrunk(flat[i].tolist(), sensitivity, norm)
    return flat.reshape(out.shape)


def _within(ints: NDArray[np.int64], sensitivity: int, norm: int) -> NDArray[np.bool_]:
    """Whether each row's integer norm is at most S; Python integers wherever int64 could overflow."""
    import numpy as np

    largest = max(abs(int(ints.max(initial=0))), abs(int(ints.min(initial=0))))
    if ints.shape[-1] * largest**norm < 1 << 62:
        weights = np.abs(ints) if norm == 1 else ints * ints
        return np.asarray(weights.sum(axis=-1) <= min(sensitivity**norm, (1 << 62)))
    rows = ints.reshape(-1, ints.shape[-1]).tolist()
    return np.array([_weight(row, norm) <= sensitivity**norm for row in rows]).reshape(ints.shape[:-1])


def _weight(row: Sequence[int], norm: int) -> int:
    return sum(abs(k) ** norm for k in row)


def _shrunk(row: Sequence[int], sensitivity: int, norm: int) -> list[int]:
    """The row with the fewest equal steps toward zero that make it fit, found by bisection."""
    low, high = 0, max(map(abs, row))
    while low < high:
        middle = (low + high) // 2
        if _weight(_toward_zero(row, middle), norm) <= sensitivity**norm:
            high = middle
        else:
            low = middle + 1
    return _toward_zero(row, low)


def _toward_zero(row: Sequence[int], steps: int) -> list[int]:
    return [max(k - steps, 0) if k > 0 else min(k + steps, 0) for k in row]
