"""The cap on one user's total for data one may look at: exact error, the bound of Amin et al. (2019), and the best cap of each.

Capping at T loses B(T), the sum of what exceeds T, and needs noise T X. The expected error E|T X - B(T)| is convex
in T for every symmetric noise (docs/proofs/bounding_theory.md), so its minimum is found without a grid. Amin,
Kulesza, Muñoz Medina and Vassilvitskii (ICML 2019) minimise the upper bound T E|X| + B(T) instead, whose best
cap is the ceil(E|X|)-th largest total: for Laplace noise the ceil(1/epsilon)-th.
What must not change: these functions read totals in the clear, so what they return about private data is private.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from steelyard.bounding._laws import Floats, check_law, mean_error, mean_noise
from steelyard.errors import InvalidTask
from steelyard.privacy import figure

if TYPE_CHECKING:
    from steelyard.charts import Chart

_GOLDEN = (math.sqrt(5) - 1) / 2
_OCTAVES = 5
_PER_OCTAVE = 6


@dataclass(frozen=True)
class OperatingPoint:
    """One operating point: a cap, what capping loses, what the noise adds, the expected error of both, and where that lies."""

    cap: float
    bias: float
    noise: float
    error: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Tradeoff:
    """Candidate caps with predicted bias, noise and total error; ``chosen`` is the index of the best one.

    Where the bias is modelled, the error lies between ``low`` and ``high`` at 95 %; where it is known they are empty. Of a release by
    ``keys`` everything is a mean over them.

    >>> curve = tradeoff([1, 2, 3, 50], epsilon=1)
    >>> from steelyard.documents import decode
    >>> decode(Tradeoff, curve.to_json(), "curve") == curve
    True
    """

    caps: tuple[float, ...]
    bias: tuple[float, ...]
    noise: tuple[float, ...]
    error: tuple[float, ...]
    chosen: int
    epsilon: float
    law: str = "laplace"
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    keys: int = 1

    @property
    def best(self) -> OperatingPoint:
        """The chosen operating point."""
        at = self.chosen
        low, high = ((self.low or self.error)[at], (self.high or self.error)[at])
        return OperatingPoint(self.caps[at], self.bias[at], self.noise[at], self.error[at], low, high)

    def __repr__(self) -> str:
        best = self.best
        told = f"best cap {figure(best.cap)}: noise {figure(best.noise)}, bias {figure(best.bias)}, error {figure(best.error)}"
        return f"Tradeoff({len(self.caps)} caps; {told})"

    def _repr_html_(self) -> str:
        from steelyard.charts import Tabular, fragment

        best = self.best
        names = ("cap", "noise", "bias", "error", *(("low", "high") if self.low else ()))
        table = Tabular(names, [[figure(getattr(best, name)) for name in names]])
        sure = (
            "The error lies between low and high at 95 %, calibrated."
            if self.low
            else "Worked out from totals in the clear."
        )
        return fragment("Trade-off between noise and bias", table, self.chart(), sure)

    def times(self, size: float) -> Tradeoff:
        """The same curve in another unit of amount, ``size`` of which make one of this."""
        lines = (self.caps, self.bias, self.noise, self.error, self.low, self.high)
        caps, bias, noise, error, low, high = (tuple(size * v for v in line) for line in lines)
        return replace(self, caps=caps, bias=bias, noise=noise, error=error, low=low, high=high)

    def chart(self, subtitle: str = "") -> Chart:
        """The U-curve with the chosen point marked; caps far below it are left out."""
        from steelyard.charts import tradeoff as draw

        shown = [i for i, cap in enumerate(self.caps) if cap >= self.best.cap / 2**_OCTAVES]
        lines = ([line[i] for i in shown] for line in (self.caps, self.noise, self.bias, self.error))
        band = [[line[i] for i in shown] for line in (self.low, self.high)] if self.low else None
        return draw(*lines, subtitle=subtitle, chosen=self.best.cap, band=band)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``decode`` of ``documents`` reads it back."""
        data = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in data.items()}


@dataclass(frozen=True)
class _Sorted:
    """Totals in order with their running sums, so that the loss at any cap takes one binary search."""

    totals: Floats
    sums: Floats

    @classmethod
    def read(cls, totals: ArrayLike) -> _Sorted:
        values = np.sort(np.asarray(totals, dtype=float).ravel())
        if values.size and not (values[0] >= 0 and math.isfinite(values[-1])):
            raise InvalidTask("totals must be finite and not negative; cap the two signs of signed totals apart.")
        return cls(values, np.concatenate([[0.0], np.cumsum(values)]))

    def loss(self, caps: ArrayLike) -> Floats:
        cap = np.asarray(caps, dtype=float)
        if np.any(cap < 0) or not np.all(np.isfinite(cap)):
            raise InvalidTask(f"a cap must be finite and not negative; got {caps!r}.")
        below = np.searchsorted(self.totals, cap, side="right")
        over = self.sums[-1] - self.sums[below] - (self.totals.size - below) * cap
        return np.asarray(np.maximum(over, 0.0))


def capped_sum(totals: ArrayLike, cap: float) -> float:
    """The sum of min(x, cap): adding or removing one user moves it by at most ``cap``."""
    return float(np.minimum(np.asarray(totals, dtype=float), cap).sum())


def capping_bias(totals: ArrayLike, caps: ArrayLike) -> Floats:
    """B(T), the sum of max(0, x - T), for each cap T."""
    return _Sorted.read(totals).loss(caps)


def expected_error(totals: ArrayLike, cap: float, epsilon: float, noise: str = "laplace") -> float:
    """The exact mean absolute error of the capped, noised sum; for Laplace noise B + b e^(-B/b) with b = T/epsilon.

    *Accuracy:* holds when the cap was not chosen from the same noise. For Gaussian noise ``epsilon`` is mu.

    >>> round(expected_error([1, 2, 3, 50], cap=3, epsilon=1), 4)
    47.0
    """
    return float(mean_error(_Sorted.read(totals).loss(cap), cap, epsilon, noise))


def error_bound(totals: ArrayLike, cap: float, epsilon: float, noise: str = "laplace") -> float:
    """The upper bound of Amin et al., T E|X| + B(T); the exact error is never above it and never below half of it."""
    return cap * mean_noise(epsilon, noise) + float(_Sorted.read(totals).loss(cap))


def bound_cap(totals: ArrayLike, epsilon: float, noise: str = "laplace") -> float:
    """The cap that minimises the bound of Amin et al.: the ceil(E|X|)-th largest total, 0 when there are fewer users.

    >>> bound_cap([1, 2, 3, 50], epsilon=0.5)
    3.0
    """
    ordered, rank = _Sorted.read(totals).totals, math.ceil(mean_noise(epsilon, noise))
    return float(ordered[-rank]) if rank <= ordered.size else 0.0


def optimal_cap(totals: ArrayLike, epsilon: float, noise: str = "laplace") -> float:
    """The cap with the smallest exact expected error; 0 only when every total is 0.

    *Cost:* one sort and one pass; the error is convex, so the best total brackets the best cap. It lies a little
    below the largest total even at high epsilon, because the first loss of capping hides in the noise.

    >>> round(optimal_cap([7.0] * 1000, epsilon=1), 3)
    7.0
    """
    check_law(epsilon, noise)
    return _best(_Sorted.read(totals), epsilon, noise)


def tradeoff(
    totals: ArrayLike, epsilon: float, noise: str = "laplace", caps: Sequence[float] | None = None
) -> Tradeoff:
    """The whole curve of bias against noise, by default for caps up to five octaves either side of the best one.

    *Privacy:* none; for totals one may look at. A ``Profile`` gives the same curve for private ones.
    """
    check_law(epsilon, noise)
    data = _Sorted.read(totals)
    if caps is None:
        steps = 2.0 ** (np.arange(-_OCTAVES * _PER_OCTAVE, _OCTAVES * _PER_OCTAVE + 1) / _PER_OCTAVE)
        grid = np.unique(_best(data, epsilon, noise) * steps)
    else:
        grid = np.unique(np.asarray(caps, dtype=float))
    if not grid.size:
        raise InvalidTask("a trade-off needs at least one cap.")
    bias = data.loss(grid)
    error = mean_error(bias, grid, epsilon, noise)
    noises = grid * mean_noise(epsilon, noise)
    return curve(grid, bias, noises, error, int(error.argmin()), float(epsilon), noise)


def curve(
    caps: Floats, bias: Floats, noise: Floats, error: Floats, chosen: int, level: float, law: str,
    band: tuple[Floats, Floats] | None = None,
) -> Tradeoff:  # fmt: skip
    """A trade-off from arrays, as plain numbers."""
    lines = [tuple(float(v) for v in line) for line in (caps, bias, noise, error, *(band or ()))]
    low, high = (lines[4], lines[5]) if band else ((), ())
    return Tradeoff(lines[0], lines[1], lines[2], lines[3], chosen, level, law, low, high)


def _best(data: _Sorted, epsilon: float, noise: str) -> float:
    candidates = np.unique(np.concatenate([[0.0], data.totals]))
    errors = mean_error(data.loss(candidates), candidates, epsilon, noise)
    at = int(errors.argmin())
    low, high = candidates[max(at - 1, 0)], candidates[min(at + 1, candidates.size - 1)]
    inside = _golden(data, float(low), float(high), epsilon, noise)
    value = float(mean_error(data.loss(inside), inside, epsilon, noise))
    return inside if value < errors[at] else float(candidates[at])


def _golden(data: _Sorted, low: float, high: float, epsilon: float, noise: str) -> float:
    for _ in range(80):
        pair = np.array([high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)])
        left, right = mean_error(data.loss(pair), pair, epsilon, noise)
        low, high = (low, float(pair[1])) if left <= right else (float(pair[0]), high)
    return (low + high) / 2
