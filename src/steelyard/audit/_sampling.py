"""Black-box audits: how much privacy loss do samples of a mechanism prove?

Two samplers draw whole batches of outputs on two neighbouring inputs. One half of the samples chooses the event that
tells the inputs apart best, a threshold on a score of the output; the other half, never looked at before, bounds the event's
two probabilities (Clopper and Pearson), and so the loss from below. Any function of the output is a fair score: a poor one
weakens the bound, none makes it wrong. Law: choosing and certifying never share a sample; so the bound is wrong in
at most ``alpha`` of all audits, however the event was chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from steelyard.audit._verdict import Check, Claim
from steelyard.errors import InvalidTask

if TYPE_CHECKING:
    from numpy.typing import NDArray

Sampler = Callable[[int], "NDArray[Any]"]
"""Draws that many independent outputs at once: an array of n numbers, or of n rows where an output is a vector."""

ALPHA = 1e-5
_BATCH = 1 << 20
_THRESHOLDS = 120


@dataclass(frozen=True)
class Bound:
    """What the samples prove: at least ``shown`` of the claim's currency, wrong with probability ``alpha``."""

    claim: Claim
    shown: float
    event: str
    samples: int
    alpha: float

    @property
    def broken(self) -> bool:
        """More was shown than was claimed."""
        return self.shown > self.claim.value

    def check(self, name: str) -> Check:
        """The bound as one line of a verdict."""
        loss = "nothing" if self.shown <= 0 else f"at least {self.shown:.4g}"
        text = f"claimed {self.claim}; {self.samples:,} samples a side prove {loss} (alpha {self.alpha:g})"
        return Check(name, not self.broken, text + (f" by the event that {self.event}" if self.broken else ""))


@dataclass(frozen=True)
class _LikelierEvent:
    """An event, and which of the two inputs makes it more likely."""

    score: float
    feature: Feature
    threshold: Any
    above: bool
    left_first: bool

    def hits(self, outputs: NDArray[Any]) -> int:
        values = self.feature.score(outputs)
        return int((values >= self.threshold).sum() if self.above else (values <= self.threshold).sum())

    def __str__(self) -> str:
        return f"{self.feature.name} is at {'least' if self.above else 'most'} {self.threshold:.6g}"


def certify(
    left: Sampler,
    right: Sampler,
    claim: Claim,
    *,
    samples: int = 1_000_000,
    alpha: float = ALPHA,
    look_at: tuple[Feature, ...] = (),
) -> Bound:
    """A lower bound of the privacy loss between two neighbouring inputs, in either direction.

    "No violation found" means just that: these samples do not prove a larger loss. A flaw on other inputs, on
    outputs rarer than about ten in a half, or smaller than the sampling error stays unseen. A violation found is
    firm, up to ``alpha``. *Accuracy:* a Laplace scale 2 % too small is proved in most audits at one million samples
    a side, in practically all at four million. *Cost:* ``samples`` draws a side and a few sorts.

    >>> import numpy as np
    >>> from steelyard.audit import Epsilon
    >>> draw = np.random.default_rng(1).laplace
    >>> certify(lambda n: draw(0, 1, n), lambda n: draw(1, 1, n), Epsilon(0.5), samples=20_000).broken
    True
    """
    if samples < 100 or not 0 < alpha < 1:
        raise InvalidTask(f"an audit needs at least 100 samples and 0 < alpha < 1; got {samples} and {alpha}.")
    half = samples // 2
    choice = _choose(_draw(left, half), _draw(right, half), claim, alpha, look_at)
    here, there = (left, right) if choice.left_first else (right, left)
    p = lower_bound(choice.hits(_draw(here, half)), half, alpha / 2)
    q = upper_bound(choice.hits(_draw(there, half)), half, alpha / 2)
    return Bound(claim, claim.shown(p, q), str(choice), 2 * half, alpha)


def _draw(sampler: Sampler, size: int) -> NDArray[Any]:
    import numpy as np

    parts = [np.asarray(sampler(min(_BATCH, size - done))) for done in range(0, size, _BATCH)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _choose(
    left: NDArray[Any], right: NDArray[Any], claim: Claim, alpha: float, look_at: tuple[Feature, ...]
) -> _LikelierEvent:
    """The best event on the second part of the choosing halves; scores that must be learnt see only the first."""
    cut = len(left) // 3
    every = [*look_at, *features(left[:cut], right[:cut])]
    tried = (c for feature in every for c in _choices(feature, left[cut:], right[cut:], claim, alpha))
    return max(tried, key=lambda choice: choice.score)


def _choices(
    feature: Feature, left: NDArray[Any], right: NDArray[Any], claim: Claim, alpha: float
) -> Iterator[_LikelierEvent]:
    """Every threshold of one feature, both sides of it, both directions, each with a rough lower bound."""
    import numpy as np

    here, there = np.sort(feature.score(left)), np.sort(feature.score(right))
    z, n = math.sqrt(2 * math.log(2 / alpha)), len(left)
    for threshold in _thresholds(here, there):
        for above in (True, False):
            counts = [_count(side, threshold, above) for side in (here, there)]
            for left_first in (True, False):
                p, q = counts if left_first else counts[::-1]
                rough = claim.shown(_wilson(p, n, -z), _wilson(q, n, z))
                yield _LikelierEvent(rough, feature, threshold, above, left_first)


def _thresholds(here: NDArray[Any], there: NDArray[Any]) -> NDArray[Any]:
    """Distinct pooled values: evenly spread ranks, and ranks that thin out towards both ends."""
    import numpy as np

    n = len(here)
    even = np.linspace(0, n - 1, _THRESHOLDS // 2)
    tail = np.geomspace(1, n, _THRESHOLDS // 4) - 1
    ranks = np.concatenate([even, tail, n - 1 - tail]).astype(np.int64)
    return np.unique(np.concatenate([here[ranks], there[ranks]]))


def _count(ordered: NDArray[Any], threshold: Any, above: bool) -> int:
    import numpy as np

    if above:
        return len(ordered) - int(np.searchsorted(ordered, threshold, side="left"))
    return int(np.searchsorted(ordered, threshold, side="right"))


def _wilson(hits: int, n: int, z: float) -> float:
    """Wilson's score bound: close enough to choose by, too rough to certify with."""
    rate = hits / n
    centre = rate + z * z / (2 * n)
    spread = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return min(1.0, max(0.0, (centre + spread) / (1 + z * z / n)))


_COORDINATES = 16
_OUTCOMES = 20_000


@dataclass(frozen=True)
class Feature:
    """A named score of outputs."""

    name: str
    score: Callable[[NDArray[Any]], NDArray[Any]]


def features(left: NDArray[Any], right: NDArray[Any]) -> Iterator[Feature]:
    """The scores worth trying, given the choosing halves of both sides."""
    import numpy as np

    if left.ndim == 1:
        yield Feature("the value", _value)
    else:
        for column in range(min(left.shape[1], _COORDINATES)):
            yield Feature(f"coordinate {column}", partial(_column, column))
        yield from _directions(left, right)
    if np.issubdtype(left.dtype, np.floating):
        yield Feature("the lowest set bit", lambda x: lowest_bit(x.reshape(len(x), -1)[:, 0]))
    ratios = _likelihood_ratio(left, right)
    if ratios is not None:
        yield Feature("the likelihood ratio of the outcome", ratios)


def _column(column: int, x: NDArray[Any]) -> NDArray[Any]:
    return _value(x[:, column])


def _directions(left: NDArray[Any], right: NDArray[Any]) -> Iterator[Feature]:
    """All coordinates at once: along the line between the two means, and all of them beyond their midpoints."""
    import numpy as np

    middle = (left.mean(axis=0) + right.mean(axis=0)) / 2
    gap = left.mean(axis=0) - right.mean(axis=0)
    spread = np.maximum(left.std(axis=0) + right.std(axis=0), 1e-300)
    line, side = gap / spread**2, np.where(gap >= 0, 1.0, -1.0) / spread
    moved = np.abs(gap) > 0.02 * spread
    if not np.isfinite(line).all() or not moved.any():
        return
    yield Feature("the place between the two means", lambda x: _value((x - middle) @ line))
    yield Feature("the least of the moved coordinates", lambda x: _value(((x - middle) * side)[:, moved].min(axis=1)))


def _value(x: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.nan_to_num(x, nan=np.inf, posinf=np.inf, neginf=-np.inf) if x.dtype.kind == "f" else x


def lowest_bit(x: NDArray[Any]) -> NDArray[Any]:
    """The exponent of a float's lowest set bit: how fine the grid is that the number lies on."""
    import numpy as np

    mantissa, exponent = np.frexp(np.where(np.isfinite(x), x, 0.0))
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    trailing = np.where(whole == 0, 0, np.log2((whole & -whole).astype(float) + (whole == 0)))
    return np.where(whole == 0, 2000, exponent - 53 + trailing).astype(np.int64)


def _likelihood_ratio(left: NDArray[Any], right: NDArray[Any]) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
    import numpy as np

    codes = np.concatenate([_codes(left), _codes(right)])
    known, inverse = np.unique(codes, return_inverse=True)
    if len(known) > min(_OUTCOMES, len(left) // 10):
        return None
    here = np.bincount(inverse[: len(left)], minlength=len(known))
    there = np.bincount(inverse[len(left) :], minlength=len(known))
    ratio = np.log(here + 0.5) - np.log(there + 0.5)

    def score(outputs: NDArray[Any]) -> NDArray[Any]:
        wanted = _codes(outputs)
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[place] == wanted, ratio[place], 0.0)

    return score


def _codes(outputs: NDArray[Any]) -> NDArray[Any]:
    """One number per output; two outputs that share one are taken for the same, which is merely a coarser event."""
    import numpy as np

    grid = np.ascontiguousarray(outputs.reshape(len(outputs), -1))
    words = grid.astype(np.float64).view(np.uint64) if grid.dtype.kind == "f" else grid.astype(np.int64).view(np.uint64)
    code = np.zeros(len(outputs), dtype=np.uint64)
    for column in range(words.shape[1]):
        code = (code ^ words[:, column]) * np.uint64(0x9E3779B97F4A7C15)
        code ^= code >> np.uint64(29)
    return code


_TINY = 1e-300
_SLACK = 1e-6  # relative: the tail is computed to about 1e-8 at ten million samples


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b): the chance that a Beta(a, b) variable is below x.

    >>> round(incomplete_beta(0.5, 2.0, 2.0), 12)
    0.5
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return min(1.0, math.exp(log_front) * _fraction(x, a, b) / a)
    return max(0.0, 1.0 - math.exp(log_front) * _fraction(1 - x, b, a) / b)


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1.0 / _away(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 1_000_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / _away(1 + term * d)
            c = _away(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _away(x: float) -> float:
    return x if abs(x) > _TINY else _TINY


def lower_bound(hits: int, trials: int, error: float) -> float:
    """A probability that is above the truth in at most ``error`` of all experiments.

    >>> round(lower_bound(100, 100, 0.05), 4)
    0.9705
    """
    if hits == 0:
        return 0.0
    goal = error * (1 - _SLACK)
    return _root(lambda x: incomplete_beta(x, hits, trials - hits + 1), goal)[0] * (1 - _SLACK * 1e-3)


def upper_bound(hits: int, trials: int, error: float) -> float:
    """A probability that is below the truth in at most ``error`` of all experiments.

    >>> round(upper_bound(0, 100, 0.05), 4)
    0.0295
    """
    if hits == trials:
        return 1.0
    goal = error * (1 - _SLACK)
    # by symmetry the miss probability has a lower bound; solve for it so that tiny tails keep their digits
    top = _root(lambda x: -incomplete_beta(1 - x, trials - hits, hits + 1), -goal)[1]
    return min(1.0, top * (1 + _SLACK * 1e-3))


def _root(rising: Callable[[float], float], goal: float) -> tuple[float, float]:
    """A bracket in (0, 1), tight to its last digits, around the point where a rising function meets ``goal``."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = math.sqrt(low * high) if low > 0 and high > 4 * low else (low + high) / 2
        if not low < middle < high:
            break
        if rising(middle) < goal:
            low = middle
        else:
            high = middle
        if high - low <= 1e-13 * high:
            break
    return low, high
