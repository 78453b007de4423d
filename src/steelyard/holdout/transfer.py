"""From privacy to validity: how far any question's answer may be from the population, given a loss curve.

If the answers are (epsilon, delta(epsilon))-private when a row is replaced, the average posterior marginal of a row is
close to the population in total variation, for every question at once, also those asked afterwards:
P[distance >= tanh(epsilon/2) + d] <= 2 delta(epsilon) / ((1 + e^epsilon) d) (docs/proofs/transfer.md). It sharpens the
posterior argument of Jung et al. (2020).
Law: rows are independent draws from one population; every value of a question lies in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from steelyard.errors import InvalidTask

_NORMAL = NormalDist()
_SMALL = 2.0**-48
Delta = Callable[[float], float]


def distance_at(epsilon: float, delta: float, beta: float) -> float:
    """The distance that is exceeded with probability at most beta, from one point of the loss curve, rounded up."""
    if not 0 < beta < 1 or epsilon < 0 or not 0 <= delta <= 1:
        raise InvalidTask(f"needs epsilon >= 0, delta in [0, 1], beta in (0, 1); got {epsilon!r}, {delta!r}, {beta!r}.")
    rest = 2 * delta / ((1 + math.exp(min(epsilon, 600.0))) * beta)
    return min(1.0, (math.tanh(epsilon / 2) + rest) * (1 + 1e-14))


def failure_at(epsilon: float, delta: float, distance: float) -> float:
    """The probability that the distance is exceeded, from one point of the loss curve, rounded up."""
    beyond = distance - math.tanh(epsilon / 2)
    if beyond <= 0:
        return 1.0
    return min(1.0, 2 * delta / ((1 + math.exp(min(epsilon, 600.0))) * beyond) * (1 + 1e-12))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The delta of a mu-GDP step at this epsilon, rounded up by 1e-14."""
    first = math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2
    exponent = min(epsilon, 600.0)
    second = math.exp(exponent) * math.erfc((epsilon / mu + mu / 2) / math.sqrt(2)) / 2
    return min(1.0, max(0.0, first - second) + 1e-14)


def gaussian_distance(mu: float, beta: float) -> float:
    """The distance after answers that are mu-GDP together: about 1.17 mu at beta = 0.05."""
    if not mu < math.inf:
        return 1.0
    scale = mu * max(_NORMAL.inv_cdf(1 - beta / 2), 0.1)
    points = (scale * (0.2 + 0.02 * i) for i in range(81))
    return min(distance_at(epsilon, gaussian_delta(epsilon, mu), beta) for epsilon in points)


def largest_noise(sigma: float, questions: int, beta: float) -> float:
    """A t such that an answer is further than t from its posterior mean with probability at most beta.

    It is an upper bound on the mean of the worst beta part of max |Z|, over so many normal draws of scale sigma.
    """
    spread = 2 * questions / (beta * math.sqrt(2 * math.pi))
    base = math.sqrt(2 * math.log(spread)) if spread > 1 else 0.0
    points = (base * (0.7 + 0.01 * i) + 1e-9 for i in range(41))
    return sigma * min(s + 2 * questions * _mean_excess(s) / beta for s in points) * (1 + 1e-12)


def gaussian_width(n: int, questions: int, beta: float) -> float:
    """The half-width of rounded normal answers to so many questions; noise and split of beta chosen for the least."""
    # With c the distance per mu, noise t sigma + c sqrt(k) / (n sigma) is least at sigma = sqrt(c sqrt(k) / (t n)).
    best = 1.0
    for share in (0.005, 0.01, 0.02, 0.04, 0.08, 0.15):
        noise = largest_noise(1.0, questions, share * beta)
        mu = 0.02
        for _ in range(6):
            rate = gaussian_distance(mu, (1 - share) * beta) / mu
            sigma = math.sqrt(rate * math.sqrt(questions) / (noise * n))
            mu = math.sqrt(questions) / (n * sigma)
        best = min(best, noise * sigma + 0.5 / n + gaussian_distance(mu, (1 - share) * beta))
    return best


def _mean_excess(s: float) -> float:
    """E (Z - s)_+ of a standard normal, rounded up."""
    tail = math.erfc(s / math.sqrt(2)) / 2
    return max(0.0, _NORMAL.pdf(s) - s * tail) + _SMALL * _NORMAL.pdf(s)
