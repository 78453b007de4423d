"""How many paid answers Thresholdout certifies: by its own theorem, by the transfer theorem, and at the best noise.

Letters as in Lee's notes: beta is the failure probability; the tolerance is its tau, the questions its m.
"""

from __future__ import annotations

import math
from fractions import Fraction

from steelyard.accounting import normal_quantile, pure_to_mu
from steelyard.errors import InvalidTask
from steelyard.holdout import Thresholdout
from steelyard.holdout._modes._thresholdout import noise_bound
from steelyard.holdout._published import largest
from steelyard.holdout._transfer import gaussian_distance
from steelyard.privacy import MICRO, exact


def paid_answers(n: int, questions: int, tolerance: float, beta: float) -> int:
    """How many paid answers Thresholdout certifies on n rows by its own theorem; mostly none.

    >>> paid_answers(10_000, 10_000, 0.05, 0.05), paid_answers(10**8, 10_000, 0.05, 0.05)
    (0, 11)
    """
    _check(tolerance, beta, questions)
    return largest(lambda paid: Thresholdout.rows_needed(paid, questions, tolerance, beta) <= n, questions)


def paid_answers_tightened(n: int, questions: int, tolerance: float, beta: float) -> int:
    """The same by the transfer theorem and the best noise, with the published threshold of three quarters of tau.

    It promises answers within the tolerance, and nothing about which questions are free.
    """
    _check(tolerance, beta, questions)
    return largest(lambda paid: _width(paid, n, questions, beta) <= tolerance / 4, questions)


def certified_answers(n: int, questions: int, tolerance: float, beta: float) -> int:
    """How many paid answers Thresholdout can give on n rows and still certify the tolerance, at the best noise.

    Half the tolerance is the threshold, so that right guesses stay free. Mostly 0.
    """

    def width(budget: int, sigma: float) -> float:
        plan = Thresholdout(n, budget, Fraction(tolerance) / 2, Fraction(sigma))
        epsilon = float(plan.epsilon) / budget
        mu = 2 * normal_quantile(1 / (1 + math.exp(-epsilon))) * math.sqrt(budget) if epsilon < 30 else math.inf
        return min(
            noise_bound(plan, questions, 1, share * beta) + gaussian_distance(mu, (1 - share) * beta)
            for share in (0.005, 0.02, 0.1, 0.3)
        )

    sigmas = [tolerance * 10 ** (-5 + step / 10) for step in range(46)]

    def enough(budget: int) -> bool:
        return any(width(budget, sigma) <= tolerance for sigma in sigmas)

    return largest(enough, 10**12)


def _width(paid: int, n: int, questions: int, beta: float) -> float:
    """The least of noise plus distance beyond the threshold, over the noise and the split of beta."""
    found = 1.0
    for share in (0.01, 0.03, 0.1):
        # E(|Lap(2s) + Lap(4s)| - x)_+ + E(|Lap(s)| - x)_+ <= 6.34 s e^(-x/4s); the best x is 4 s ln(1.585 m / beta').
        noise = 4 * (1 + math.log(1.585 * questions / (share * beta)))
        for exponent in range(-120, -20):
            sigma = 10 ** (exponent / 20)
            epsilon = 2 / (sigma * n)
            if epsilon < 2:
                mu = math.sqrt(paid) * _pure_mu(epsilon)
                found = min(found, noise * sigma + gaussian_distance(mu, (1 - share) * beta))
    return found


def _pure_mu(epsilon: float) -> float:
    """The tight mu of one pure step, from an epsilon rounded up to a micro."""
    return pure_to_mu(exact(max(1, math.ceil(epsilon * MICRO)), "epsilon") / MICRO) / MICRO


def _check(tolerance: float, beta: float, questions: int) -> None:
    if not 0 < tolerance < 1 or not 0 < beta < 1 or questions < 1:
        raise InvalidTask(
            f"needs a tolerance and a beta in (0, 1) and at least one question; got {tolerance!r}, {beta!r}, {questions!r}."
        )
