"""Published bounds on adaptive questions, each the half-width it certifies for so many answers on n rows.

They stand beside our own in a plan, so that a reader of what was published can see what each would promise; ``capacity`` turns
a half-width around into a number of questions. Law: half-widths are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from steelyard.accounting import normal_quantile
from steelyard.holdout._nats import log_choose, log_inverse, rounded_up

_SIDE, _ZOOMS = 25, 6
Floats = NDArray[np.float64]
Range = tuple[float, float]
Width = Callable[[int, int, float], float]


def splitting(n: int, questions: int, beta: float) -> float:
    """The half-width when every question gets rows of its own."""
    rows = n // questions
    return rounded_up(math.sqrt(math.log(2 * questions / beta) / (2 * rows))) if rows else math.inf


def rounding(n: int, questions: int, beta: float) -> float:
    """The half-width when answers are rounded to the best grid 1/g and every history is counted."""
    return min(_rounded(n, questions, beta, steps) for steps in _grids(n, questions))


def _rounded(n: int, questions: int, beta: float, steps: int) -> float:
    nats = math.log(2 * questions / beta) + (questions - 1) * math.log(steps + 1)
    return rounded_up(0.5 / steps + math.sqrt(nats / (2 * n)))


def _grids(n: int, questions: int) -> set[int]:
    """Grids around the best one: d/ds of 1/2s + sqrt(k ln s / 2n) vanishes near s = sqrt(2 n ln s / k)."""
    steps = 2.0
    for _ in range(30):
        steps = max(2.0, math.sqrt(2 * n * math.log(steps + 1) / questions))
    return {max(1, round(steps * share / 32)) for share in range(16, 65)}


def misses(n: int, questions: int, tolerance: float, beta: float) -> int:
    """How many wrong guesses certified checks can afford among so many announced questions; -1 if not even a right one.

    A guess is right when it lies within the tolerance less the half-width of the holdout's score.
    """
    if not _affordable(0, n, questions, tolerance, beta):
        return -1
    return largest(lambda failures: _affordable(failures, n, questions, tolerance, beta), questions)


def largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest whole number up to ``most`` that fits, or 0; what is larger than one that does not fit never does."""
    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle <= most and fits(middle) else (low, middle)
    return low


def _affordable(failures: int, n: int, questions: int, tolerance: float, beta: float) -> bool:
    known = log_inverse(beta) + math.log(2 * questions) + math.log((failures + 1) * (failures + 2))
    known += log_choose(questions, failures)
    return any(
        0.5 / steps + math.sqrt((known + failures * math.log(steps + 1)) / (2 * n)) <= tolerance
        for steps in _grids(n, max(failures, 1))
    )


def bassily(n: int, questions: int, beta: float) -> float:
    """The half-width of Bassily, Nissim, Smith, Steinke, Stemmer and Ullman (2016) with Gaussian noise.

    The argument copies the conversation 1/beta times, rounded; what it says at a smaller beta is true as well.
    """
    copies = math.floor(1 / beta)
    ways = [(m, -math.expm1(m * math.log1p(-chance))) for m, chance in ((copies, beta), (copies + 1, 1 / (copies + 1)))]

    def width(log_delta: Floats, log_total: Floats) -> Floats:
        total, delta = np.exp(log_total), np.exp(log_delta)
        inside = np.maximum(np.log(math.pi * total) / 2 - log_delta, 0.0)
        epsilon = np.minimum(total + 2 * np.sqrt(total * inside), 30.0)
        noise = np.sqrt((math.log(4 * questions) - log_delta) * questions / total) / n
        first, second = ((np.expm1(epsilon) + 2 * m * delta + noise) / sure for m, sure in ways)
        return np.asarray(np.minimum(first, second))

    return _least(width, (-25.0, -2.0), (-30.0, 1.0))


def rogers(n: int, questions: int, beta: float) -> float:
    """The half-width of Rogers et al. (2020), Theorem 2.1, with Gaussian noise and its plain tail."""

    def width(logit: Floats, log_total: Floats) -> Floats:
        total, share = np.exp(log_total), 1 / (1 + np.exp(-logit))
        information = (2 * total * n + np.log1p(np.exp(logit))) / share
        noise = np.sqrt(math.log(4 * questions / beta) * questions / total) / n
        return np.asarray(np.sqrt(information / (2 * n * beta)) + noise)

    return _least(width, (-15.0, 15.0), (-30.0, 2.0))


def jung(n: int, questions: int, beta: float) -> float:
    """The half-width of Jung, Ligett, Neel, Roth, Sharifi-Malvajerdi and Shenfeld (2020) with Gaussian noise."""
    found = (2.0, beta / 4, 1.0)
    for half_octaves in range(2, 25):
        share, sigma = beta * 2 ** (-half_octaves / 2), math.sqrt(math.sqrt(questions) / (4 * n))
        for _ in range(4):
            noise, distance = _jung_parts(n, questions, beta, share, sigma)
            found = min(found, (noise + distance, share, sigma))
            # The noise grows with sigma about as fast as the distance falls, so the sum is least where they are equal.
            sigma *= math.sqrt(distance / noise)
    best, share, middle = found
    near = (middle * math.exp(step / 40) for step in range(-12, 13))
    return min(best, *(sum(_jung_parts(n, questions, beta, share, sigma)) for sigma in near))


def _jung_parts(n: int, questions: int, beta: float, share: float, sigma: float) -> tuple[float, float]:
    """What the noise adds, and the distance; the best epsilon and alpha inside have a closed form."""
    mu = math.sqrt(questions) / (n * sigma)
    epsilon = min(max(mu * (-normal_quantile((beta - share) / 2) - mu / 2), 0.0), 30.0)
    spread = 2 * questions / (share * sigma * math.sqrt(2 * math.pi))
    deviations = math.sqrt(2 * math.log(max(spread, 1.0)))
    noise = deviations * sigma + questions * math.erfc(deviations / math.sqrt(2)) / share
    ends = (epsilon / mu - mu / 2) / math.sqrt(2), (epsilon / mu + mu / 2) / math.sqrt(2)
    delta = max(0.0, math.erfc(ends[0]) - math.exp(epsilon) * math.erfc(ends[1])) / 2
    return noise, math.expm1(epsilon) + 2 * delta / (beta - share)


def capacity(
    width: Width, n: int, tolerance: float, beta: float, *, most: int = 10**9, up: Callable[[int], int] = int
) -> int:
    """The largest number of questions whose half-width is at most the tolerance; 0 when there is none.

    ``width`` must rise with the questions; ``up`` may round a number up to those worth looking at.
    """
    if width(n, 1, beta) > tolerance:
        return 0
    low, high = 1, most + 1
    while (least := up(low + 1)) < high:
        middle = max(least, up(math.isqrt(low * high)))
        middle = middle if middle < high else least
        low, high = (middle, high) if width(n, middle, beta) <= tolerance else (low, middle)
    return most if high > most and width(n, most + 1, beta) <= tolerance else low


def _least(function: Callable[[Floats, Floats], Floats], first: Range, second: Range) -> float:
    """The least value of a function with one valley in a box, on ever finer grids around the best point so far."""
    best = math.inf
    boxes = [first, second]
    for _ in range(_ZOOMS):
        x, y = (np.linspace(low, high, _SIDE) for low, high in boxes)
        values = function(x[:, None], y[None, :])
        i, j = (int(place) for place in np.unravel_index(int(np.argmin(values)), values.shape))
        best = min(best, float(values[i, j]))
        steps = [2 * (high - low) / (_SIDE - 1) for low, high in boxes]
        boxes = [
            (max(low, at - step), min(high, at + step))
            for at, step, (low, high) in zip((float(x[i]), float(y[j])), steps, (first, second), strict=True)
        ]
    return best
