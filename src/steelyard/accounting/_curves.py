"""Pessimistic privacy-loss curves: one step of a known law taken very many times, its errors bounded and charged.

A curve is a law of the loss L = ln P/Q on the grid ``step`` x integers plus a chance of infinity. A loss between two
grid points is split into both so that P and Q keep their mass (connect the dots, Doroshenko et al. 2022): merging the
two gives the truth back, so the split can only promise less. The many steps are one Fourier transform, raised to their
number. Where a delta of 1e-7 or more is wanted, its absolute accuracy is enough: whatever the float arithmetic, the finite
window or a rare large loss could hide counts as infinite loss (docs/proofs/curves.md, docs/proofs/bounded_noise.md).
Law: every approximation adds mass at infinity or moves mass towards larger loss. Never a filter: a curve composes steps
fixed in advance; what an account charges is pure epsilon or mu squared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Complexes = NDArray[np.complex128]

_ULP, _ROUND = 2.0**-52, 2.0**-53
_TAIL = 1e-22
_HEAD, _FALL, _FOOT = 12.0, 2.0, 8.0
_SMALL = (1.0, 2.0, 3.0, 5.0)
_RATES, _STEEPEST = (2, 3, 4, 5, 6, 8, 10), 10
# Up to so many steps: grid points per deviation of one step, and the largest single loss kept, in total deviations.
# Both only fall, so that more steps are never accounted more finely than fewer. What cos^2 noise has beyond is about
# 0.2 / (jump^3 sqrt(steps)): some 2e-8 at the start of a line, and nothing where no single loss is that large.
_MESHES = ((100, 12, 300.0), (4_000, 12, 100.0), (40_000, 8, 60.0), (400_000, 5, 40.0))
_COARSEST = (3, 30.0)


@dataclass(frozen=True)
class Curve:
    """Masses at losses (lowest + i) * step, and the mass at infinity; one direction of one pair of neighbours."""

    step: Fraction
    lowest: int
    masses: Floats
    infinite: float

    def delta(self, epsilon: float) -> float:
        """An upper bound on the delta at this epsilon."""
        losses = (self.lowest + np.arange(len(self.masses))) * float(self.step)
        losses += 4 * _ULP * np.abs(losses)
        gain = -np.expm1(np.minimum(epsilon - losses, 0.0))
        bound = self.infinite + float(np.dot(gain, self.masses))
        return min(1.0, bound * _outward(len(self.masses) + 64) + _TAIL)

    def epsilon(self, delta: float) -> float:
        """An epsilon that is surely enough for this delta; infinite when none is."""
        if self.delta(math.inf) > delta:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, float(max(1, self.lowest + len(self.masses)) * self.step)
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high


def _outward(operations: int) -> float:
    return 1 + 4 * operations * _ULP


def repeated(losses: Floats, masses: Floats, infinite: float, times: int) -> Curve:
    """The curve of ``times`` independent steps, each with these losses and masses and a mass at infinite loss.

    *Cost:* milliseconds for tens of thousands of steps; memory grows with the square root of the steps.
    """
    fine, jump = next(((fine, jump) for most, fine, jump in _MESHES if times <= most), _COARSEST)
    deviation = math.sqrt(max(float((losses * losses * masses).sum()), 1e-300))
    total = deviation * math.sqrt(times)
    step = Fraction(deviation / fine)
    width = float(step)
    far = losses > jump * total
    infinite += float(masses[far].sum())
    lowest, law = _grid(np.maximum(losses[~far], -_FALL * total), masses[~far], width)
    reach = (lowest + len(law)) * width  # no single loss that was kept is larger
    size = 1 << math.ceil(math.log2(((_HEAD + _FOOT) * total + max(reach, 0.0)) / width + 4))
    powered, error = _power(law, size, times)
    hidden = _beyond((lowest + np.arange(len(law), dtype=np.float64)) * width, law, times, total)
    # Entry 0 stands for the loss times * lowest * step; the window starts where hardly any mass is left.
    start = math.floor(-_FOOT * total / width)
    window = np.roll(powered, -((start - times * lowest) % len(powered)))
    return Curve(step, start, window, min(1.0, (times * infinite + error + hidden) * (1 + 1e-9)))


def _grid(losses: Floats, masses: Floats, width: float) -> tuple[int, Floats]:
    """Each loss split onto its two grid neighbours so that both laws keep their mass, float errors upwards."""
    floors = np.floor(losses / width)
    # A place one too low or high is repaired by the share, held in [0, 1] and raised.
    into = losses - floors * width + 8 * _ROUND * (np.abs(losses) + width)
    share = np.clip(np.expm1(-into) * ((1 + 1e-13) / math.expm1(-width)), 0.0, 1.0)
    lowest = int(floors.min())
    places = (floors - lowest).astype(np.int64)
    length = int(places.max()) + 2
    upper = masses * share
    law = np.bincount(places, weights=masses - upper, minlength=length)
    law[1:] += np.bincount(places, weights=upper, minlength=length)[:-1]
    return lowest, np.asarray(law * (1 + 8 * len(losses) * _ROUND), dtype=np.float64)


def _power(law: Floats, size: int, times: int) -> tuple[Floats, float]:
    """The ``times``-fold circular convolution and a bound on the sum of its absolute errors.

    Each output of a transform of length 2^m is off by at most 16 m 2^-53 times the sum of its absolute inputs. What that
    becomes in a power falls with the size of the transform there, so few frequencies count.
    """
    transform = np.fft.rfft(law, size)
    answer = np.fft.irfft(_raised(transform, times), size)
    relative = 16 * math.log2(size) * _ROUND
    off = relative * float(law.sum()) * (1 + 1e-9)
    largest = np.abs(transform) * (1 + 4 * _ROUND) + 2 * off
    before = np.exp((times - 1) * np.log(largest))
    wrong = times * (off + 8 * _ROUND * largest) * before
    # Every frequency but the ends stands for two.
    error = math.sqrt(2 * float(np.square(wrong).sum())) + 2 * relative * float((before * largest + wrong).sum())
    return np.maximum(answer, 0.0), error * (1 + 1e-6) + size * 1e-300


def _raised(values: Complexes, times: int) -> Complexes:
    """Powers by repeated squaring: each product errs by less than 3 units, and there are times - 1 of them, one in another."""
    answer = values.copy()
    for digit in bin(times)[3:]:
        answer *= answer
        if digit == "1":
            answer *= values
    return answer


def _beyond(losses: Floats, law: Floats, times: int, total: float) -> float:
    """A bound on the chance that the sum leaves the window at its top.

    Either two steps lose more than ``small``, or at most one does and is below the cut: then the others, all small,
    must add up to the head of the window, which Chernoff's inequality bounds, whichever step is the larger one.
    """
    ends = [int(np.searchsorted(losses, small * total, side="right")) for small in _SMALL]
    larger = [times * float(law[end:].sum()) for end in ends]
    tilt, weighted, found = np.exp(losses[: ends[-1]] / total), law[: ends[-1]], 1.0
    spare = 1 + (len(law) + 128) * _ROUND  # for the products and the sums below, all of positive terms
    for rate in range(1, _STEEPEST + 1):
        weighted = weighted * tilt
        if rate in _RATES:
            for end, once in zip(ends, larger, strict=True):
                growth = times * max(math.log(float(weighted[:end].sum()) * spare), 0.0)
                found = min(found, (1 + once) * math.exp(min(growth - rate * _HEAD, 0.0)) + once**2 / 2)
    return found
