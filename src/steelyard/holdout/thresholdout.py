"""Thresholdout as it is proved: a guess is handed back unless the holdout, noisily compared, contradicts it.

The guess plays the part of the training mean. A secret noisy threshold is drawn; each question's distance from its
guess is compared with it under fresh noise; when it is beyond, the holdout's own value is given under a third noise,
one of ``budget`` paid answers is used up and a new threshold is drawn (Dwork et al. 2015). All in whole numbers.
Law: charged in full before the first question. The thresholds live in this process alone: a restart ends the row of
answers, and a new row is a new charge. Proof: docs/proofs/thresholdout.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from threading import Lock
from typing import TYPE_CHECKING, NoReturn

from steelyard.errors import BudgetExceeded, InvalidTask, OurBug
from steelyard.mechanisms import AboveThreshold, Laplace, Questions
from steelyard.privacy import Event, Neighbours, Number, positive

if TYPE_CHECKING:
    from steelyard.noise import Noise


@dataclass(frozen=True)
class Thresholdout:
    """The public parameters: n rows, each worth 0 to ``steps`` steps, and noise in parts of the whole score.

    ``sigma`` is the scale of a paid answer's noise; a threshold's is twice, a comparison's four times as wide.

    >>> Thresholdout(10_000, budget=5, threshold="0.04", sigma="0.01").epsilon
    Fraction(1, 10)
    """

    n: int
    budget: int
    threshold: Number
    sigma: Number
    steps: int = 1

    def __post_init__(self) -> None:
        for name in ("n", "budget", "steps"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidTask(f"{name} must be a whole number of at least 1; got {value!r}.")
        for name in ("threshold", "sigma"):
            object.__setattr__(self, name, positive(getattr(self, name), name))

    @property
    def scale(self) -> Fraction:
        """The scale of a paid answer's noise, in steps."""
        return Fraction(self.sigma) * self.n * self.steps

    @property
    def level(self) -> int:
        """The threshold, in steps."""
        return round(Fraction(self.threshold) * self.n * self.steps)

    @property
    def comparison(self) -> AboveThreshold:
        """The comparisons up to one paid answer."""
        return AboveThreshold(self.steps, 2 * self.scale, 4 * self.scale, 1, neighbours=Neighbours.REPLACE)

    @property
    def reply(self) -> Laplace:
        """The noise of one paid answer."""
        return Laplace(self.steps, self.scale, Neighbours.REPLACE)

    @property
    def epsilon(self) -> Fraction:
        """The exact pure epsilon of the whole row of answers: 2 steps/scale for each paid one."""
        return self.budget * (self.comparison.epsilon + self.reply.epsilon)

    @property
    def event(self) -> Event:
        """What the whole row of answers is charged for, before the first."""
        parameters: dict[str, int | str | list[int]] = {
            "sensitivity": self.steps,
            "scale_numerator": self.scale.numerator,
            "scale_denominator": self.scale.denominator,
            "budget": self.budget,
        }
        return Event("thresholdout", parameters, Neighbours.REPLACE)

    def start(self, noise: Noise) -> Answers:
        """Draw the first threshold and wait for questions."""
        return Answers(self, noise)


class Answers:
    """One running row of answers; like the comparisons inside it, it can be neither copied, stored nor forked."""

    def __init__(self, plan: Thresholdout, noise: Noise) -> None:
        self._plan, self._noise = plan, noise
        self._left = plan.budget
        self._lock = Lock()
        self._questions: Questions = plan.comparison.start(plan.level, noise)

    @property
    def left(self) -> int:
        """How many paid answers remain; a function of the answers given, so public."""
        return self._left

    def answer(self, total: int, guess: int) -> tuple[int, bool]:
        """The guess and False, or a noisy total and True (paid); both in steps.

        *Privacy:* all answers together are covered by the one charge made at the start.
        """
        with self._lock:
            if self._left == 0:
                raise BudgetExceeded("all paid answers are given, and with them the last free one.")
            whole = self._plan.n * self._plan.steps
            held, hoped = min(max(total, 0), whole), min(max(guess, 0), whole)
            if not self._questions.above(abs(held - hoped)):
                return hoped, False
            self._left -= 1
            noisy = self._plan.reply.release([held], self._noise)[0]
            if self._left:
                self._questions = self._plan.comparison.start(self._plan.level, self._noise)
            return min(max(noisy, 0), whole), True

    def __reduce__(self) -> NoReturn:
        raise OurBug("a running row of answers holds a secret threshold; it can be neither copied nor stored.")
