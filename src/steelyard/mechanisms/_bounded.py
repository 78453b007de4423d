"""Noise that never exceeds a public radius, for many questions charged at once.

An integer total gets one of the whole numbers -radius..radius with weight cos(pi x / 2(radius + 1))^power, rounded
to a whole number itself. The law is exactly those integers: they are drawn from, and the loss curve is made of them.
Bounded noise has a chance of infinite loss, so it is priced as epsilon with a failure, for all questions up front
(after Dagan and Kur 2020; docs/proofs/bounded_noise.md).
Law: what is drawn is what is accounted; the number of questions is fixed before the first one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from steelyard.accounting import loss_curve, whole_weights
from steelyard.errors import InvalidTask, OurBug
from steelyard.lazy import lazy
from steelyard.mechanisms._integers import check_sensitivity, noisy
from steelyard.mechanisms._observe import show
from steelyard.privacy import ATTO, MICRO, Event, Neighbours

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from steelyard.accounting import Curve
    from steelyard.noise import Noise

_MOST = 1 << 24


@dataclass(frozen=True)
class BoundedNoise:
    """Answers ``questions`` adaptive totals over n rows; a replaced row moves each by at most ``sensitivity`` steps.

    ``failure`` is the delta at which the epsilon of the whole conversation is read and charged.

    >>> law = BoundedNoise(power=2, radius=250, n=10_000, questions=10)
    >>> law.half_width
    Fraction(1, 40)
    >>> law.delta(law.epsilon(1e-3)) <= 1e-3
    True
    """

    power: int
    radius: int
    n: int
    questions: int
    sensitivity: int = 1
    failure: Fraction = Fraction(1, 10**6)

    def __post_init__(self) -> None:
        for name in ("radius", "n", "questions", "sensitivity"):
            check_sensitivity(getattr(self, name), name)
        if not isinstance(self.power, int) or isinstance(self.power, bool) or not 2 <= self.power <= 64:
            raise InvalidTask(f"power must be a whole number between 2 and 64; got {self.power!r}.")
        if self.radius > _MOST or self.sensitivity > self.radius:
            raise InvalidTask(f"radius must be between the sensitivity and 2^24 grid steps; got {self.radius!r}.")
        if not isinstance(self.failure, Fraction) or not Fraction(1, ATTO) <= self.failure < 1:
            raise InvalidTask(f"failure must be a Fraction, a probability of at least 1e-18; got {self.failure!r}.")

    @property
    def half_width(self) -> Fraction:
        """The largest noise on a mean over n rows: never exceeded."""
        return Fraction(self.radius, self.n * self.sensitivity)

    @lazy
    def weights(self) -> NDArray[np.int64]:
        """The whole weights of -radius..radius, symmetric; log-concave where a row moves a total by more than one."""
        return whole_weights(self.power, self.radius, self.sensitivity)

    @lazy
    def curve(self) -> Curve:
        """The pessimistic loss curve of all questions together; both directions agree, because the law is symmetric."""
        return loss_curve(self.weights, self.sensitivity, self.questions)

    def delta(self, epsilon: float) -> float:
        """An upper bound on the delta of the whole conversation at this epsilon."""
        return self.curve.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """An epsilon that is surely enough at this delta for the whole conversation; infinite when none is."""
        return self.curve.epsilon(delta)

    def has_price(self, failure: float) -> bool:
        """Whether some epsilon is enough at this failure: outcomes that give a row away are rarer together."""
        return self.delta(math.inf) <= failure * (1 - 1e-9)

    @lazy
    def event(self) -> Event:
        """What the whole conversation is charged for, before its first answer."""
        epsilon = self.epsilon(float(self.failure) * (1 - 1e-9))
        if not epsilon < math.inf:
            raise InvalidTask(
                f"no epsilon is enough at failure {float(self.failure):g}: outcomes that give a row away have "
                f"probability {self.curve.infinite:.3g} together; take a larger radius, power or failure."
            )
        parameters: dict[str, int | str | list[int]] = {
            "epsilon_numerator": max(1, math.ceil(epsilon * (1 + 1e-9) * MICRO)),
            "epsilon_denominator": MICRO,
            "failure_atto": math.ceil(self.failure * ATTO),
            "power": self.power,
            "radius": self.radius,
            "questions": self.questions,
            "sensitivity": self.sensitivity,
        }
        return Event("bounded_noise", parameters, Neighbours.REPLACE)

    def release(self, values: Sequence[int], noise: Noise) -> list[int]:
        """The integers with noise; over its life the mechanism may noise at most ``questions`` of them.

        *Privacy:* (epsilon, failure) for all of them together. *Accuracy:* off by at most ``radius`` steps, always.
        """
        if len(values) > self.questions:
            raise OurBug(f"{len(values)} totals were given to noise that was charged for {self.questions}.")
        show(self.event, values, noise)
        return noisy(values, lambda: [self.draw(noise) for _ in values])

    def draw(self, noise: Noise) -> int:
        """One noise value: exactly weights[x] of the equally likely words lead to x."""
        import numpy as np

        ends = self._ends
        return int(np.searchsorted(ends, noise.below(int(ends[-1])), side="right")) - self.radius

    @lazy
    def _ends(self) -> NDArray[np.int64]:
        import numpy as np

        return np.cumsum(self.weights)
