"""What logistic objective perturbation costs: the smallest mu we can prove, for every epsilon at once.

Add one row to a ridge-regularized logistic sum perturbed by N(0, sigma^2): everything but one coordinate w is ancillary,
and the two laws of w are w ~ N(0, 1) and w + s c(w) ~ N(0, 1), where logit c rises at a rate between 0 and ``slope``.
The worst such c is found by a backward programme over (w, logit c) whose every rounding errs upward, so the answer is
an upper bound. With lambda s = 0.4 R^2 it is within 1 % of s = R/sigma, the price of one Gaussian release, for s <= 0.3;
with lambda s = R^2 within 0.3 % for s <= 4.
Law: never below the exact worst case; the derivation, with each bound used here, is docs/proofs/objective.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask
from steelyard.privacy import MICRO

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

STEEPEST = Fraction(4)
"""The largest slope, sigma over ridge, for which a price is worked out where rows are hidden."""
LEAST = 100
"""The least shift s, in micro, for which the programme's doubles are accurate enough."""
MOST = 4 * MICRO
"""The largest shift s, in micro, for which they are."""

_COARSE, _FINE, _APART = 0.04, 0.02, 0.055  # steps in w, and between epsilons in units of s
_LOW, _HIGH = 9.0, 6.0
_FLATTEST = 1.0  # the price is within 0.03 % there, and flatter ones would only take longer
_TINY = 1e-13  # far above the rounding of a few thousand doubles of size one
_HUGE = 16.0  # no mu beyond this is of use
_CLOSE, _HELD = 1.0005, 0.4  # a finer grid gains nothing below this, and leaves about so much of what is above it
_PEAK = 1 / (6 * math.sqrt(3))  # the largest |second derivative| of the logistic function
_BEHIND, _ANY = (1.0, 2.5), (1 / 3, 5 / 8)  # what mixing pure moves adds, for all of the rest and for any mixture


def objective_mu(slope: Fraction, shift: int) -> int:
    """Micro-mu of objective perturbation whose Gaussian part alone would cost ``shift`` micro: s = R/sigma.

    ``slope`` is at least R sigma/lambda. *Privacy:* an upper bound for add/remove neighbours, both directions, every
    epsilon >= 0; the last micro is spare, so that another machine's doubles find no more. *Cost:* some tenths of a second
    the first time.

    >>> 100_000 <= objective_mu(Fraction(2), 100_000) <= 100_300
    True
    """
    if not 0 < slope <= STEEPEST:
        raise InvalidTask(f"the ridge is too small: R sigma / lambda must be at most {STEEPEST}; got {float(slope):g}.")
    if not LEAST <= shift <= MOST:
        raise InvalidTask(f"objective perturbation is priced for R/sigma from {LEAST / MICRO:g} to {MOST / MICRO:g}.")
    # a wider slope and a larger shift only enlarge the set of adversaries, so rounding both up is safe
    k, s = math.nextafter(max(float(slope), _FLATTEST), math.inf), math.nextafter(shift / MICRO, math.inf)
    return math.ceil(_proved(k, s) * MICRO * (1 + 1e-12)) + 1


@lru_cache(maxsize=8192)
def _proved(slope: float, shift: float) -> float:
    """The smallest mu whose normal curve lies above a bound at every epsilon, and above the chords between them.

    Every row of a programme is a bound for its own epsilon, so a fine grid need only be laid where a coarse one decides.
    """
    import numpy as np

    epsilon = np.linspace(0, slope * shift + shift * shift / 2, math.ceil((slope + shift / 2) / _APART) + 1)
    each = _Programme(slope, shift, epsilon, _COARSE).mus()
    fine = np.zeros(len(each), dtype=bool)
    while not fine[each.argmax()] and each.max() > shift * _CLOSE:
        level = each[fine].max() if fine.any() else shift + (min(each.max(), 2 * shift) - shift) * _HELD
        chosen = ~fine & (each >= level)
        each[chosen] = np.minimum(each[chosen], _Programme(slope, shift, epsilon[chosen], _FINE).mus())
        fine |= chosen
    return _above_chords(epsilon, float(each.max()))


def _above_chords(epsilon: Floats, mu: float) -> float:
    """A mu whose curve covers the chords between neighbouring points of this one's (delta is convex in e^epsilon)."""
    import numpy as np

    step, extra = math.expm1(epsilon[1] - epsilon[0]), math.inf
    if mu < _HUGE:
        near, far = epsilon[:-1] / mu + mu / 2, epsilon[1:] / mu + 0.51 * mu
        extra = step * step / (8 * mu) * float(np.exp((far * far - near * near) / 2).max())
    if extra > 0.02 * mu or math.isinf(extra):
        raise InvalidTask("no useful price is proved for so little ridge; raise it.")
    return mu + extra


def _density(x: Any) -> Any:
    import numpy as np

    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _delta(epsilon: Any, mu: Any) -> Any:
    import numpy as np
    from scipy.special import ndtr

    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-epsilon / mu - mu / 2)


def near_one(slope: float, shift: float) -> float:
    """How far from 1 the weight c may be at the first exit for the proof on paper to cover it (lemma 3 of the note)."""
    x = 0.5
    while True:
        c = 1 - x
        width, lift = x * (slope + shift * x / 2) / c, slope + (shift / 2 + x * slope) / c
        far = (slope + shift / 2) / c
        if width * lift * math.exp(shift * x * lift + far * (width + shift * x)) <= 0.999:
            return x
        x *= 0.97


@dataclass(frozen=True)
class _Tails:
    """Bounds on the normal density's size and variation over (-inf, t]."""

    size: float
    first: float
    second: float
    steepest: float

    @classmethod
    def below(cls, t: float) -> _Tails:
        top, one = 1 / math.sqrt(2 * math.pi), math.exp(-0.5) / math.sqrt(2 * math.pi)
        if t > -math.sqrt(3):
            return cls(top, 2 * top, 4 * one, one)
        p = math.exp(-t * t / 2) * top
        return cls(p, p, -t * p, -t * p)


def curvature(shift: float, t: float, c: Floats) -> Floats:
    """K: no strategy's gain bends down in logit c faster than this, from weight c on and with w + s c <= t.

    Half of how much the second derivative of Phi(w + s c) varies along a path, and half of what it is at its start.
    """
    import numpy as np

    tails, low, high = _Tails.below(t), 0.5 - math.sqrt(3) / 6, 0.5 + math.sqrt(3) / 6
    p = c * (1 - c)
    bend = p * (1 - 2 * c)
    most_bend, most_p = np.where(c < high, _PEAK, np.abs(bend)), np.where(c < 0.5, 0.25, p)
    turned = np.where(c < low, 4 * _PEAK - bend, np.where(c < high, bend + 2 * _PEAK, np.abs(bend)))
    squares = np.where(c < 0.5, 0.125 - p * p, p * p)
    across = shift * most_bend * tails.first + shift**2 * most_p**2 * tails.second
    along = shift * turned * tails.size + shift**2 * squares * tails.steepest
    start = shift * most_bend * tails.size + shift**2 * most_p**2 * tails.steepest
    return np.asarray((across + along + start) / 2)


class _Programme:
    """The backward programme for one (slope, shift): rows are values of epsilon, columns nodes or cells of logit c."""

    def __init__(self, slope: float, shift: float, epsilon: Floats, step: float) -> None:
        import numpy as np
        from scipy.special import expit

        k, s, self.step = slope, shift, step
        self.slope, self.shift = slope, shift
        self.left = -1.5 * s - math.sqrt(k * k + 20)  # so that what is given away left of it is below e^-10 of mu
        self.w = self.left + step * np.arange(math.ceil((k - self.left) / step) + 1)
        self.near = near_one(k, s)
        top = math.log((1 - self.near) / self.near) + _HIGH
        nodes = math.ceil((top + _LOW) / (k * step))
        self.c = expit(top - k * step * np.arange(nodes, -1, -1.0))
        self.a, self.b = self.c[:-1], self.c[1:]
        pa, pb = self.a * (1 - self.a), self.b * (1 - self.b)
        self.p = np.where((self.a <= 0.5) & (self.b >= 0.5), 0.25, np.maximum(pa, pb))
        self.turn = np.maximum(np.abs(1 - 2 * self.a), np.abs(1 - 2 * self.b))
        self.epsilon = epsilon[:, None]
        self.e = np.exp(self.epsilon)
        ratio = self.epsilon[:, 0] / s
        self.last = np.where(ratio <= k, k - 2 * np.sqrt(k * ratio), -ratio)[:, None]  # beyond it nothing can be gained
        bends = np.array([curvature(s, t + s, self.a) for t in self.last[:, 0]])
        self.defect = bends * (k * step) ** 2 / 2
        with np.errstate(divide="ignore"):
            ends = [-self.epsilon / (s * c) - s * c / 2 for c in (self.a, self.b)]
        self.exit = np.minimum(*ends)

    def mus(self) -> Floats:
        """For each epsilon, the smallest mu whose normal curve lies above the bound there."""
        import numpy as np
        from scipy.special import ndtr

        sizes = np.maximum(1.0, self.e * ndtr(self.last + self.step))[:, 0]  # the largest doubles that are added up
        need = self._needs() * (1 + 1e-9) + _TINY * sizes
        epsilon = self.epsilon[:, 0]
        low, high = np.full(len(need), self.shift), np.full(len(need), 16 * self.shift)
        for _ in range(60):
            middle = (low + high) / 2
            enough = _delta(epsilon, middle) >= need
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.asarray(np.where(_delta(epsilon, high) >= need, high, np.inf))

    def _needs(self) -> Floats:
        """For each epsilon, an upper bound of the worst delta."""
        import numpy as np
        from scipy.special import ndtr

        rows, cells = len(self.e), len(self.a)
        value, cell = np.zeros((rows, cells + 1)), np.zeros((rows, cells))
        bottom, top, worst = np.zeros((rows, 1)), np.zeros((rows, 1)), np.full(rows, -np.inf)
        for w, v in zip(self.w[-2::-1].tolist(), self.w[:0:-1].tolist(), strict=True):
            step = _Step(self, w, v)
            fresh = step.values(value, cell)
            inside = step.inside(cell, top)
            bottom = step.bottom(cell, bottom)
            worst = np.maximum(worst, step.worst(inside, bottom))
            top = step.top(top)
            value = np.concatenate([fresh, top], axis=1)
            cell = np.where(
                step.live, np.minimum(inside, np.maximum(value[:, :-1], value[:, 1:]) + self.defect / 4), 0.0
            )
        lost = ndtr(self.left + self.shift) - ndtr(self.left)
        return np.asarray(lost + np.maximum(worst, _delta(self.epsilon[:, 0], self.shift)))


class _Step:
    """One step of the programme, from w to v = w + h: bounds over the boxes [w, v] x one cell of logit c."""

    def __init__(self, programme: _Programme, w: float, v: float) -> None:
        import numpy as np
        from scipy.special import ndtr

        self.of, self.w, self.v = programme, w, v
        s, k, a, b, p, e = programme.shift, programme.slope, programme.a, programme.b, programme.p, programme.e
        self.at_w, self.at_v = float(ndtr(w)), float(ndtr(v))
        self.mass = self.at_v - self.at_w
        self.live = w <= programme.last
        self.peak = float(_density(0.0) if w < 0 < v else max(_density(w), _density(v)))
        high = np.exp(np.maximum(-s * w * a, -s * w * b) - (s * a) ** 2 / 2)
        self.low = np.exp(np.minimum(-s * v * a, -s * v * b) - (s * b) ** 2 / 2)
        self.high = high * (1 + s * k * p)
        self.gain = self.mass * np.maximum(self.high - e, 0.0)
        reach, dense = max(abs(w), abs(v)), self.peak * high
        size = self.peak * np.maximum(self.high - e, e - self.low)
        self.across = reach * size + s * b * self.peak * self.high
        self.along = k * dense * s * p * ((reach + s) * (1 + s * k * p) + k * programme.turn)
        lift = math.exp(s * (1 - float(programme.c[-1])) * max(k + v + s, 0.0))
        self.top_high = lift * math.exp(-s * w - s * s / 2) - e
        self.top_low = math.exp(-s * v - s * s / 2) - e
        self.top_whole = lift * (ndtr(v + s) - ndtr(w + s)) - e * self.mass

    def values(self, value: Floats, cell: Floats) -> Floats:
        """Bounds at the nodes at w: the best of four pure moves, and what mixing them could add."""
        import numpy as np
        from scipy.special import ndtr

        of = self.of
        start = ndtr(self.w + of.shift * of.a) - of.e * self.at_w
        end = ndtr(self.v + of.shift * of.c) - of.e * self.at_v
        stay, rise = value[:, :-1], value[:, 1:]
        never, always = self.high <= of.e, self.low >= of.e
        outside = np.where(always, -np.inf, stay), np.where(always, -np.inf, rise)
        within = end[:, :-1] - start + stay, end[:, 1:] - start + rise
        moves = *outside, *(np.where(never, -np.inf, move) for move in within)
        best, gap = _best(moves)
        mixed = np.where(never | always, 0.0, of.step**2)
        slack = mixed * (_BEHIND[0] * self.across + _BEHIND[1] * self.along) + of.defect - gap
        error = np.clip(slack, 0.0, mixed * (_ANY[0] * self.across + _ANY[1] * self.along) + of.defect / 4)
        return np.asarray(np.where(self.live, np.minimum(best + error, self.gain + cell), 0.0))

    def inside(self, cell: Floats, top: Floats) -> Floats:
        """Bounds for every point of the boxes, by the largest gain and the two cells that can be reached."""
        import numpy as np

        beyond = np.maximum(self.gain[:, -1:], self.mass * np.maximum(self.top_high, 0.0))
        gain = np.maximum(self.gain, np.concatenate([self.gain[:, 1:], beyond], axis=1))
        after = np.maximum(cell, np.concatenate([cell[:, 1:], top], axis=1))
        return np.asarray(np.where(self.live, gain + after, 0.0))

    def bottom(self, cell: Floats, bottom: Floats) -> Floats:
        """A bound for every weight below the first node."""
        import numpy as np

        s, c = self.of.shift, float(self.of.c[1])  # within the step a path may cross into the first cell
        high = (1 + s * self.of.slope * c) * math.exp(max(-s * self.w * c, 0.0))
        gain = self.mass * np.maximum(high - self.of.e, 0.0)
        return np.asarray(np.where(self.live, gain + np.maximum(bottom, cell[:, :1]), 0.0))

    def top(self, top: Floats) -> Floats:
        """A bound for every weight above the last node."""
        import numpy as np

        part = np.where(self.top_low >= 0, self.top_whole, self.mass * np.maximum(self.top_high, 0.0))
        return np.asarray(np.where(self.live, top + np.where(self.top_high <= 0, 0.0, part), 0.0))

    def worst(self, inside: Floats, bottom: Floats) -> Floats:
        """The largest total over first exits inside these boxes, for weights the proof on paper does not cover."""
        import numpy as np
        from scipy.special import ndtr

        of, s, w = self.of, self.of.shift, self.w
        steep = np.exp(-s * w * of.b - (s * of.b) ** 2 / 2)
        before = ndtr(w + s * of.b) - of.e * self.at_w + of.step * self.peak * np.maximum(steep - of.e, 0.0)
        possible = (of.a < 1 - of.near) & (self.v >= of.exit)
        total = np.where(possible, before + inside, -np.inf).max(axis=1)
        c = float(of.c[1])
        steep = np.maximum(math.exp(max(-s * w * c, 0.0)) - of.e, 0.0)
        low = (ndtr(w + s * c) - of.e * self.at_w + of.step * self.peak * steep + bottom)[:, 0]
        reached = (of.epsilon[:, 0] > 0) | (self.v >= -s * c / 2)
        return np.asarray(np.maximum(total, np.where(reached, low, -np.inf)))


def _best(moves: tuple[Floats, ...]) -> tuple[Floats, Floats]:
    """The largest of four, and how far it is ahead of the next."""
    import numpy as np

    one, two, three, four = moves
    upper, lower = np.maximum(one, two), np.minimum(one, two)
    upper_too, lower_too = np.maximum(three, four), np.minimum(three, four)
    first = np.maximum(upper, upper_too)
    second = np.maximum(np.minimum(upper, upper_too), np.where(upper >= upper_too, lower, lower_too))
    return first, np.asarray(first - second)
