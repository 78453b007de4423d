"""From privacy to validity: how far any question's answer may be from the population, given a loss curve.

If the answers are (epsilon, delta(epsilon))-private when a row is replaced, every row's law given the answers is close to
what it was before, on average over the rows: P[distance >= tanh(epsilon/4) + d] <= 2 delta / ((1 + e^(epsilon/2)) d), for
every question at once, also those asked afterwards. A question that is one function for all rows may use a little more:
P[distance >= g] <= delta / (g - (e^epsilon - 1)(1 - g)^2 / 4). Both come from comparing pairs of values of a row and
sharpen the posterior argument of Jung et al. (2020); proved in docs/proofs/transfer.md.
Law: rows are independent, every value of a question lies in [0, 1]; predictions, one for each row, are a function of the
row's place, so whatever takes them uses the first bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
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
_LOOKS, _FAR = 4096, 300.0
Transfer = Callable[[float, float, float], float]


def positional_distance_at(epsilon: float, delta: float, beta: float) -> float:
    """The distance that is exceeded with probability at most beta, from one point of the loss curve, rounded up.

    For questions that may treat each row by its place, as predictions do; rows need not be drawn from one law.

    >>> positional_distance_at(0.1, 0.0, 0.05) / math.tanh(0.1 / 4) < 1 + 1e-12
    True
    """
    _check(epsilon, delta, beta)
    rest = 2 * delta / ((1 + math.exp(min(epsilon, 600.0) / 2)) * beta)
    return min(1.0, (math.tanh(epsilon / 4) + rest) * (1 + 1e-14))


def shared_distance_at(epsilon: float, delta: float, beta: float) -> float:
    """The same for questions that are one function for all rows, drawn from one law; never larger."""
    _check(epsilon, delta, beta)
    share = delta / beta
    if share >= 1:
        return 1.0
    # g - c (1 - g)^2 / 4 = share, solved for g; every term is positive, so nothing cancels.
    grown = math.expm1(min(epsilon, 600.0)) * (1 - share)
    root = 1 + math.sqrt(1 + grown)
    return min(1.0, (grown / root + 2 * share) / root * (1 + 1e-14))


def single_distance_at(epsilon: float, delta: float, beta: float) -> float:
    """The weaker bound from comparing each row with the average row: kept beside the other one, and never smaller."""
    _check(epsilon, delta, beta)
    rest = 2 * delta / ((1 + math.exp(min(epsilon, 600.0))) * beta)
    return min(1.0, (math.tanh(epsilon / 2) + rest) * (1 + 1e-14))


def curve_distance(curve: Curve, beta: float, transfer: Transfer = positional_distance_at) -> float:
    """The least distance any point of a loss curve gives; every epsilon is valid, so the search may be coarse."""
    import numpy as np

    start = max(0, -curve.lowest)
    block = 1 + (len(curve.masses) - start) // _LOOKS
    kept = np.add.reduceat(curve.masses[start:], np.arange(0, len(curve.masses) - start, block))
    epsilon = (curve.lowest + start + block * np.arange(len(kept), dtype=np.float64)) * float(curve.step)
    epsilon = np.minimum(epsilon, _FAR)
    # As if every block's mass were at its start: near enough to choose, and what is chosen is then computed in full.
    mass, tilted = np.cumsum(kept[::-1])[::-1], np.cumsum((kept * np.exp(-epsilon))[::-1])[::-1]
    delta = curve.infinite + mass - np.exp(epsilon) * tilted
    found = int(np.argmin(_objective(epsilon, delta, beta, transfer)))
    chosen = float(epsilon[found])
    return transfer(chosen, _above(curve, start + found * block).delta(chosen), beta)


def _above(curve: Curve, place: int) -> Curve:
    """The curve without the losses below a place, which count for nothing at an epsilon there."""
    first = max(0, place - 1)
    return replace(curve, lowest=curve.lowest + first, masses=curve.masses[first:])


def _objective(epsilon: Floats, delta: Floats, beta: float, transfer: Transfer) -> Floats:
    """About the transfer bound at many points at once, without rounding: it only chooses one of them."""
    import numpy as np

    half = epsilon if transfer is single_distance_at else epsilon / 2
    return np.asarray(np.tanh(half / 2) + 2 * delta / ((1 + np.exp(half)) * beta))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The delta of a mu-GDP step at this epsilon, rounded up by 1e-14."""
    first = math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2
    second = math.exp(min(epsilon, 600.0)) * math.erfc((epsilon / mu + mu / 2) / math.sqrt(2)) / 2
    return min(1.0, max(0.0, first - second) + 1e-14)


def gaussian_distance(mu: float, beta: float, transfer: Transfer = positional_distance_at) -> float:
    """The distance after answers that are mu-GDP together.

    >>> round(gaussian_distance(0.01, 0.05) / 0.01, 3)
    0.648
    """
    if not mu < 100:
        return 1.0
    tail, found = beta / 4, 1.0
    for _ in range(5):
        if transfer is single_distance_at:
            tail = beta / 2
        epsilon = mu * max(0.0, mu / 2 - _NORMAL.inv_cdf(tail))
        delta = gaussian_delta(epsilon, mu)
        found = min(found, transfer(epsilon, delta, beta))
        # Where the bound is least the normal tail is this.
        if transfer is shared_distance_at:
            tail = beta * (1 + found) ** 2 / 4
        else:
            tail = min(0.5, delta + max(0.0, beta - delta) * (1 + math.tanh(epsilon / 4)) / 4)
    return found


def largest_noise(questions: int, beta: float) -> float:
    """A t, in deviations, that posterior means of so many normal noises all stay below, but for probability beta.

    It is an upper bound on the mean of the worst beta part of the largest |Z|.
    """
    s = max(0.0, -_NORMAL.inv_cdf(max(min(beta / (2 * questions), 0.5), 1e-300)))
    tail = math.erfc(s / math.sqrt(2)) / 2
    excess = max(0.0, _NORMAL.pdf(s) - s * tail) + _SMALL * _NORMAL.pdf(s)
    return (s + 2 * questions * excess / beta) * (1 + 1e-12)


def _check(epsilon: float, delta: float, beta: float) -> None:
    if not 0 < beta < 1 or not epsilon >= 0 or not 0 <= delta <= 1:
        raise InvalidTask(f"needs epsilon >= 0, delta in [0, 1], beta in (0, 1); got {epsilon!r}, {delta!r}, {beta!r}.")
