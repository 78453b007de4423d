"""From privacy to validity: how far any question's answer may be from the population, given a loss curve.

If the answers are (epsilon, delta(epsilon))-private when a row is replaced, the average posterior marginal of a row is
close to the population in total variation, for every question at once, also those asked afterwards:
P[distance >= tanh(epsilon/2) + d] <= 2 delta(epsilon) / ((1 + e^epsilon) d), which sharpens the posterior argument of
Jung et al. (2020). Comparing pairs of rows gives tanh(epsilon/4) and delta/d. Both are proved in docs/proofs/transfer.md;
the second has no independent derivation yet, so nothing rests on it unless it is asked for by name.
Law: rows are independent draws from one population; every value of a question lies in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

from steelyard.errors import InvalidTask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from steelyard.accounting.curves import Curve

    Floats = NDArray[np.float64]

_NORMAL = NormalDist()
_SMALL = 2.0**-48
Transfer = Callable[[float, float, float], float]


def distance_at(epsilon: float, delta: float, beta: float) -> float:
    """The distance that is exceeded with probability at most beta, from one point of the loss curve, rounded up."""
    _check(epsilon, delta, beta)
    rest = 2 * delta / ((1 + math.exp(min(epsilon, 600.0))) * beta)
    return min(1.0, (math.tanh(epsilon / 2) + rest) * (1 + 1e-14))


def pair_distance_at(epsilon: float, delta: float, beta: float) -> float:
    """The same from the comparison of pairs of rows: about half as large, and not yet derived a second time."""
    _check(epsilon, delta, beta)
    return min(1.0, (math.tanh(epsilon / 4) + delta / beta) * (1 + 1e-14))


def curve_distance(curve: Curve, beta: float, transfer: Transfer = distance_at) -> float:
    """The least distance any point of a loss curve gives; every epsilon is valid, so the search may be coarse."""
    import numpy as np

    start = max(0, -curve.lowest)
    epsilon = (max(0, curve.lowest) + np.arange(len(curve.masses) - start, dtype=np.float64)) * float(curve.step)
    kept = curve.masses[start:]
    mass, tilted = np.cumsum(kept[::-1])[::-1], np.cumsum((kept * np.exp(-epsilon))[::-1])[::-1]
    delta = curve.infinite + mass - np.exp(epsilon) * tilted
    part = slice(0, 1 + len(delta) // 2)  # the best epsilon is a few deviations, well inside the window
    found = int(np.argmin(_objective(epsilon[part], delta[part], beta, transfer)))
    chosen = float(epsilon[found])
    return transfer(chosen, curve.delta(chosen), beta)


def _objective(epsilon: Floats, delta: Floats, beta: float, transfer: Transfer) -> Floats:
    import numpy as np

    if transfer is pair_distance_at:
        return np.asarray(np.tanh(epsilon / 4) + delta / beta)
    return np.asarray(np.tanh(epsilon / 2) + 2 * delta / ((1 + np.exp(epsilon)) * beta))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The delta of a mu-GDP step at this epsilon, rounded up by 1e-14."""
    first = math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2
    second = math.exp(min(epsilon, 600.0)) * math.erfc((epsilon / mu + mu / 2) / math.sqrt(2)) / 2
    return min(1.0, max(0.0, first - second) + 1e-14)


def gaussian_distance(mu: float, beta: float, transfer: Transfer = distance_at) -> float:
    """The distance after answers that are mu-GDP together.

    >>> round(gaussian_distance(0.01, 0.05) / 0.01, 3)
    1.169
    """
    if not mu < 100:
        return 1.0
    # For small mu the best epsilon / mu depends on beta alone: where the normal tail is beta/2, or beta/4 for pairs.
    share = 4 if transfer is pair_distance_at else 2
    epsilon = mu * max(0.0, -_NORMAL.inv_cdf(beta / share) - mu / 2)
    return transfer(epsilon, gaussian_delta(epsilon, mu), beta)


def largest_noise(questions: int, beta: float) -> float:
    """A t, in deviations, that posterior means of so many normal noises all stay below, but for probability beta.

    It is an upper bound on the mean of the worst beta part of the largest |Z|.
    """
    s = max(0.0, -_NORMAL.inv_cdf(max(min(beta / (2 * questions), 0.5), 1e-300)))
    tail = math.erfc(s / math.sqrt(2)) / 2
    excess = max(0.0, _NORMAL.pdf(s) - s * tail) + _SMALL * _NORMAL.pdf(s)
    return (s + 2 * questions * excess / beta) * (1 + 1e-12)


@lru_cache(maxsize=4096)
def gaussian_width(n: int, questions: int, beta: float, transfer: Transfer = distance_at) -> float:
    """The half-width of rounded normal answers to so many questions; noise and split of beta chosen for the least."""
    best = 1.0
    for share in (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15):
        noise = largest_noise(questions, share * beta)
        mu = 0.02
        # With c the distance per mu, noise sigma + c sqrt(k) / (n sigma) is least at sigma = sqrt(c sqrt(k) / (noise n)).
        for _ in range(4):
            rate = gaussian_distance(mu, (1 - share) * beta, transfer) / mu
            sigma = math.sqrt(rate * math.sqrt(questions) / (noise * n))
            mu = math.sqrt(questions) / (n * sigma)
        best = min(best, noise * sigma + 0.5 / n + gaussian_distance(mu, (1 - share) * beta, transfer))
    return best


def _check(epsilon: float, delta: float, beta: float) -> None:
    if not 0 < beta < 1 or not epsilon >= 0 or not 0 <= delta <= 1:
        raise InvalidTask(f"needs epsilon >= 0, delta in [0, 1], beta in (0, 1); got {epsilon!r}, {delta!r}, {beta!r}.")
