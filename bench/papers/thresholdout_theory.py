"""What the reusable holdout's own theorems promise, in corrected form: max-information, and Thresholdout's sample sizes.

After Dwork, Feldman, Hardt, Pitassi, Reingold and Roth (2015) as retold in Lee's notes, with the notes' slips mended:
Theorem 2.3 ends in 3 sqrt(beta), not 3/sqrt(beta); n1 has sqrt(2 ln 2 B) in its second term and may not fall below
48 ln(8/beta)/tau^2; a slip in Theorem 3.3 counts questions off by more than tau/2. Letters as in the paper: tau is the
tolerance, beta the failure probability, m the questions, B the paid answers, sigma the noise.
Law: these are promises of proofs, at any n; whether they say anything at yours is for the numbers to tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from steelyard.accounting import normal_quantile, pure_to_mu
from steelyard.errors import InvalidTask
from steelyard.holdout._transfer import gaussian_distance
from steelyard.holdout.modes._thresholdout import Thresholdout, noise_bound
from steelyard.privacy import MICRO, exact


def max_information(epsilon: float, n: int) -> float:
    """An upper bound, in bits, on the max-information of an epsilon-private answer about n rows: epsilon n log2 e."""
    return epsilon * n / math.log(2)


def overfitting_by_information(bits: float, chance: float) -> float:
    """Theorem 2.1: the chance of a bad question chosen with so many bits, when each fixed one is bad with ``chance``."""
    return min(1.0, math.pow(2.0, bits) * chance)


def overfitting_pure(epsilon: float, n: int, beta: float) -> float:
    """Theorem 2.3, mended: 3 sqrt(beta) if epsilon is at most sqrt(ln(1/beta) / 2n); 1 where it says nothing."""
    return min(1.0, 3 * math.sqrt(beta)) if epsilon <= math.sqrt(math.log(1 / beta) / (2 * n)) else 1.0


def overfitting_at(tolerance: float, n: int) -> float:
    """Corollary 2.3.1: the chance that a question from an epsilon <= tolerance conversation is off by the tolerance."""
    return min(1.0, 6 * math.exp(-(tolerance**2) * n))


def approximate_needs(tolerance: float, beta: float) -> tuple[float, float, float]:
    """Theorem 2.4: the epsilon, the natural logarithm of delta, and the rows it needs."""
    return tolerance / 4, 4 / tolerance * math.log(beta / 8), 48 * math.log(8 / beta) / tolerance**2


def rows_pure(paid: int, sigma: float, tolerance: float, beta: float) -> float:
    """n0: the rows Thresholdout needs by pure privacy."""
    return max(2 * paid / (sigma * tolerance), math.log(6 / beta) / tolerance**2)


def rows_approximate(paid: int, sigma: float, tolerance: float, beta: float) -> float:
    """n1, mended: the rows Thresholdout needs by (epsilon, delta)-privacy."""
    first = 32 * math.sqrt(2 * paid * math.log(8 / beta)) / (math.pow(tolerance, 1.5) * sigma)
    second = 16 * math.sqrt(2 * math.log(2) * paid) / (tolerance * sigma)
    return max(first + second, 48 * math.log(8 / beta) / tolerance**2)


def rows_needed(paid: int, questions: int, tolerance: float, beta: float) -> float:
    """Theorem 3.3: the rows at which Thresholdout certifies so many questions, ``paid`` of them surprising.

    >>> round(rows_needed(1, 10_000, 0.05, 0.05) / 1e6, 2)
    8.35
    """
    _check(tolerance, beta, questions)
    sigma = tolerance / (96 * math.log(4 * questions / beta))
    share = tolerance / 8, beta / (2 * questions)
    return min(rows_pure(paid, sigma, *share), rows_approximate(paid, sigma, *share))


def paid_answers(n: int, questions: int, tolerance: float, beta: float) -> int:
    """How many paid answers Thresholdout certifies on n rows by its own theorem; mostly none.

    >>> paid_answers(10_000, 10_000, 0.05, 0.05), paid_answers(10**8, 10_000, 0.05, 0.05)
    (0, 11)
    """
    _check(tolerance, beta, questions)
    return _largest(lambda paid: rows_needed(paid, questions, tolerance, beta) <= n, questions)


def paid_answers_tightened(n: int, questions: int, tolerance: float, beta: float) -> int:
    """The same by the transfer theorem and the best noise, with the paper's threshold of three quarters of tau.

    It promises answers within the tolerance, and nothing about which questions are free.
    """
    _check(tolerance, beta, questions)
    return _largest(lambda paid: _width(paid, n, questions, beta) <= tolerance / 4, questions)


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

    return _largest(enough, 10**12)


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


def _largest(fits: Callable[[int], bool], most: int) -> int:
    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle <= most and fits(middle) else (low, middle)
    return low


def _check(tolerance: float, beta: float, questions: int) -> None:
    if not 0 < tolerance < 1 or not 0 < beta < 1 or questions < 1:
        raise InvalidTask(
            f"needs a tolerance and a beta in (0, 1) and at least one question; got {tolerance!r}, {beta!r}, {questions!r}."
        )
