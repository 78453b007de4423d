"""What the reusable holdout's own theorems promise: of a question that private answers led to, and of Thresholdout's rows.

After Dwork, Feldman, Hardt, Pitassi, Reingold and Roth (2015), numbered as in Lee's notes; where those slip,
docs/proofs/thresholdout.md says what is meant. Letters as there: tau is the tolerance, beta the chance of failure,
m the questions, B the paid answers (``budget``), sigma the scale of a paid answer's noise.
Law: these are promises of proofs, at any n; whether they say anything at yours is for the numbers to tell. Prices are
not read from here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from steelyard.errors import InvalidTask
from steelyard.holdout._intervals import read_size, read_whole
from steelyard.privacy import Number, exact, probability


@dataclass(frozen=True)
class Overfitting:
    """How likely a question is to mislead that was chosen after (epsilon, delta)-private answers about n rows.

    ``chance``, below, is how likely the rows are to be bad for a question that was chosen without them.

    >>> asked = Overfitting(10_000, epsilon="0.05")
    >>> round(asked.max_information), asked.beyond("0.05") < 1e-10
    (721, True)
    """

    n: int
    epsilon: Number
    delta: Number = 0

    def __post_init__(self) -> None:
        read_whole(self.n, "n")
        object.__setattr__(self, "epsilon", read_size(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", probability(self.delta, "delta"))

    @property
    def max_information(self) -> float:
        """Lemma 2.2: the answers have at most so many bits of max-information about the rows; no bound with a delta."""
        return math.inf if self.delta else float(self.epsilon) * self.n / math.log(2)

    def by_information(self, chance: Number) -> float:
        """Theorem 2.1: 2 to the power of the bits, times the chance of a question chosen without the rows."""
        log_chance = _log_chance(chance)
        return 1.0 if self.delta else math.exp(min(0.0, float(self.epsilon) * self.n + log_chance))

    def by_privacy(self, chance: Number) -> float:
        """Theorem 2.3: 3 sqrt(chance) where epsilon is at most sqrt(ln(1/chance) / 2n); 1 where it says nothing."""
        log_chance = _log_chance(chance)
        enough = not self.delta and float(self.epsilon) <= math.sqrt(-log_chance / (2 * self.n))
        return min(1.0, 3 * math.exp(log_chance / 2)) if enough else 1.0

    def beyond(self, tolerance: Number) -> float:
        """The chance to be off by the tolerance or more: the least by Corollaries 2.1.1, 2.3.1 and Theorem 2.4."""
        wanted, epsilon, delta = read_size(tolerance, "tolerance"), Fraction(self.epsilon), Fraction(self.delta)
        tau, found = float(wanted), [1.0]
        if delta == 0:
            found.append(2 * math.exp(min(0.0, self.n * (float(epsilon) - 2 * tau**2))))
        if delta == 0 and epsilon <= wanted:
            found.append(6 * math.exp(-(tau**2) * self.n))
        if 4 * epsilon <= wanted:
            found.append(8 * math.exp(max(tau / 4 * logarithm(delta), -self.n * tau**2 / 48)))
        return min(found)


def rows_pure(budget: int, sigma: float, tolerance: float, beta: float) -> float:
    """n0: the rows at which pure privacy keeps one question of Thresholdout's within the tolerance."""
    return max(2 * budget / (sigma * tolerance), math.log(6 / beta) / tolerance**2)


def rows_approximate(budget: int, sigma: float, tolerance: float, beta: float) -> float:
    """n1: the same by (epsilon, delta)-privacy; never fewer than Theorem 2.4 itself asks for."""
    first = 32 * math.sqrt(2 * budget * math.log(8 / beta)) / (math.pow(tolerance, 1.5) * sigma)
    second = 16 * math.sqrt(math.log(2) * budget) / (tolerance * sigma)
    return max(first + second, 48 * math.log(8 / beta) / tolerance**2)


def rows_needed(budget: int, questions: int, tolerance: float, beta: float) -> float:
    """Theorem 3.3: the rows at which ``questions`` answers, at most ``budget`` of them surprising, are all close."""
    if not 0 < tolerance < 1 or not 0 < beta < 1 or not 1 <= budget <= questions:
        raise InvalidTask(
            "needs a tolerance and a beta in (0, 1), and a budget of at least 1 and at most the questions; got "
            f"{tolerance!r}, {beta!r}, {budget!r} of {questions!r}."
        )
    given = budget, tolerance / noise_divisor(questions, beta), tolerance / 8, beta / (2 * questions)
    return min(rows_pure(*given), rows_approximate(*given))


def noise_divisor(questions: int, beta: float) -> float:
    """Theorem 3.3 sets sigma to the tolerance over this: 96 ln(4 questions / beta)."""
    return 96 * math.log(4 * questions / beta)


def logarithm(chance: Fraction) -> float:
    """ln of a chance, however small; theorems ask for deltas that no float can hold."""
    return math.log(chance.numerator) - math.log(chance.denominator) if chance else -math.inf


def _log_chance(chance: Number) -> float:
    read = exact(chance, "chance")
    if not 0 <= read <= 1:
        raise InvalidTask(f"a chance lies between 0 and 1; got {chance!r}.")
    return logarithm(read)
