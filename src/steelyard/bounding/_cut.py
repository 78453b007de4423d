"""What chosen bounds are believed to cut off, said beside the noise: an amount, an interval for the truth, and a blind spot.

All of it is worked out from the noisy histogram that chose the bounds (docs/proofs/cap.md). The lower end trusts no
model: nothing may have been cut off. The upper end is calibrated on trends that break (``_tails``). What no look at this
price could have noticed is proved: with k users more or fewer, any test of the look gives itself away at most
e^(k epsilon) times as often, so a test with 5 % of false alarms finds k <= ln(10)/epsilon users in at most half of draws;
for Gaussian noise k <= 1.645/mu.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.bounding._laws import Floats, mean_error
from steelyard.bounding._tails import Behind, Estimate, middle, offset_ends, offsets
from steelyard.plan import Error
from steelyard.privacy import figure

if TYPE_CHECKING:
    from steelyard.bounding._cap_choice import NoisyHistogram

_CONFIDENCES = ("0.5", "0.8", "0.9", "0.95", "0.99")
_BELOW = (0.5, 0.4, 0.3, 0.2)
"""Shares of the chance of a miss that the lower end may have: the shortest interval is told, the upper end being far where tails are heavy."""

_HELD = "totals held at upper, which some reach or pass: raise upper to count what lies above it"
_FALSE_ALARMS, _MISSED = 0.05, 0.5
_NORMAL_95 = 1.6448536269514722


@dataclass(frozen=True)
class Added:
    """The noise of a total: of how large a bound, at which level and of which law; ``scalar`` for one number cut at one end alone."""

    bound: float
    level: float
    law: str
    scalar: bool


@dataclass(frozen=True)
class Cut:
    """What is believed of chosen bounds; ``offsets`` are by confidence, ``correction`` what is to be added to one number for the least error."""

    amount: Estimate
    offsets: Mapping[str, tuple[float, float]]
    blind_spot: str = ""
    at_least: bool = False
    correction: float | None = None

    @classmethod
    def of(cls, seen: NoisyHistogram, lower: Fraction, upper: Fraction, step: Fraction, noise: Added) -> Cut:
        """What totals below ``lower`` and above ``upper`` add up to, behind this histogram."""
        lost, usual = (_lost(sides, lower, upper, step) for sides in (seen.broken, seen.ending))
        ends = {name: _ends(lost, noise, float(name), two=seen.signed) for name in _CONFIDENCES}
        room = float(seen.grid.upper * step - upper)
        full = any(float(np.mean(side.users[:, -1] > 0)) >= 0.5 for side in seen.broken)
        more = correction(seen, float(upper / step), noise) * float(step) if noise.scalar and not seen.signed else None
        return cls(Estimate.between(usual, lost, 0.95), ends, blind_spot(seen, room), full, more)

    @property
    def told(self) -> dict[str, Any]:
        """What an error says of it, beside the noise."""
        amount = self.amount
        return {
            "bias": abs(amount.value), "bias_low": amount.low, "bias_high": amount.high, "offsets": self.offsets,
            "blind_spot": self.blind_spot, "at_least": self.at_least, "correction": self.correction,
            **({"of": _HELD} if self.at_least else {}),
        }  # fmt: skip

    def onto(self, error: Error) -> Error:
        """The same noise with what was cut off beside it."""
        return replace(error, **self.told)

    def beside(self, error: Error) -> Error:
        """The same for noise of another size: the two intervals are added up, which is on the safe side."""
        ends = (min(self.amount.low, 0.0) - error.interval, max(self.amount.high, 0.0) + error.interval)
        return replace(self.onto(error), offsets={f"{error.confidence:g}": ends}, correction=None)


def _lost(sides: Sequence[Behind], lower: Fraction, upper: Fraction, step: Fraction) -> Floats:
    """What is cut off above, less what is cut off below, for every equally likely set of users."""
    ends = (upper, -lower)[: len(sides)]
    first, *rest = (side.cut(np.array([float(end / step)]))[:, 0] for side, end in zip(sides, ends, strict=True))
    return np.asarray(float(step) * (first - sum(rest)))


def correction(seen: NoisyHistogram, cap: float, noise: Added) -> float:
    """What is to be added to a capped total for the least mean error, in grid steps (docs/proofs/cap.md).

    Of every plausible set of users the error is taken over that of its own best cap, as it is when the cap is chosen.
    *Privacy:* post-processing of the histogram. *Accuracy:* measured (bench/bounding_accuracy.py), not guaranteed.
    """
    (side,), caps = seen.broken, np.array(seen.grid.caps, dtype=float)
    best = mean_error(side.cut(caps), caps, noise.level, noise.law).min(axis=1)
    lost = side.cut(np.array([cap]))[:, 0]
    return max(middle(lost, cap, noise.level, noise.law, 1 / np.maximum(best, np.finfo(float).tiny)), 0.0)


def blind_spot(seen: NoisyHistogram, room: float) -> str:
    """How many users above the cap a look may miss, and what each could add; empty where it is none."""
    gaussian = seen.law == "gaussian"
    missed = math.floor((_NORMAL_95 if gaussian else math.log(_MISSED / _FALSE_ALARMS)) / seen.level)
    if missed < 1 or room <= 0:
        return ""
    users = "1 user" if missed == 1 else f"{missed:,} users"
    price = f"at {'mu' if gaussian else 'epsilon'} {seen.level:.3g}"
    return f"up to {users} above the cap would not have been noticed {price}; each could add up to {figure(room)}"


def _ends(lost: Floats, noise: Added, confidence: float, *, two: bool) -> tuple[float, float]:
    """How far below and above the released value the truth lies; by key what was cut may be any one's."""
    nothing = np.zeros_like(lost)
    if two or not noise.scalar:
        _, half = offsets(nothing, noise.bound, noise.level, noise.law, confidence)
        low, high = offsets(lost, noise.bound, noise.level, noise.law, confidence)
        return (min(low, -half), max(high, half)) if noise.scalar else (-max(high, half), max(high, half))
    below = (1 - confidence) * np.array(_BELOW)
    above = 1 - confidence - below
    lows, _ = offset_ends(nothing, noise.bound, noise.level, noise.law, below, above)
    _, least = offset_ends(nothing, noise.bound, noise.level, noise.law, below, above)
    _, highs = offset_ends(lost, noise.bound, noise.level, noise.law, below, above)
    highs = np.maximum(highs, least)
    at = int((highs - lows).argmin())
    return float(lows[at]), float(highs[at])
