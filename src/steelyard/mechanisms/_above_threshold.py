"""Above-threshold: a row of adaptive questions, each answered only "at or above the threshold, or not".

The threshold is noised once, every question afresh, and after ``stops`` answers "above" it answers no more. Only
what is proved is offered (Lyu, Su and Li 2017 show how near misses fail): no noisy value leaves, the threshold noise
is never redrawn, question noise grows with ``stops``.
Law: charged in full before the first question, never refunded; the threshold noise lives in this object alone, and a
copy, a pickle or a forked child of it is dead.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import Lock
from typing import TYPE_CHECKING, NoReturn

from steelyard.errors import BudgetExceeded, OurBug
from steelyard.mechanisms._integers import check_scale, check_sensitivity, saturate
from steelyard.mechanisms._observe import show
from steelyard.privacy import Event, Neighbours, Status

if TYPE_CHECKING:
    from steelyard.noise import Noise


@dataclass(frozen=True)
class AboveThreshold:
    """The public parameters of one row of questions, and its price.

    ``monotone``: one added unit moves no answer down (or none up); then an "above" costs sensitivity/question_scale
    instead of twice that. Only with add-remove neighbours. ``status`` is lower where the sensitivity is somebody's word.

    >>> AboveThreshold(1, Fraction(4), Fraction(8)).epsilon
    Fraction(1, 2)
    """

    sensitivity: int
    threshold_scale: Fraction
    question_scale: Fraction
    stops: int = 1
    monotone: bool = False
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    status: Status = Status.PROVED

    def __post_init__(self) -> None:
        check_sensitivity(self.sensitivity)
        check_sensitivity(self.stops, "stops")
        check_scale(self.threshold_scale, "threshold_scale")
        check_scale(self.question_scale, "question_scale")
        if self.monotone and self.neighbours is not Neighbours.ADD_REMOVE:
            raise OurBug("answers move one way only when a unit is added or removed, not when it is replaced.")

    @property
    def epsilon(self) -> Fraction:
        """The exact pure epsilon of the whole row of questions."""
        weight = self.stops * (1 if self.monotone else 2)
        return self.sensitivity / self.threshold_scale + weight * self.sensitivity / self.question_scale

    @property
    def event(self) -> Event:
        """What the whole row of questions is charged for, before the first."""
        event = Event.of(
            "above_threshold",
            self.neighbours,
            sensitivity=self.sensitivity,
            threshold_scale=self.threshold_scale,
            question_scale=self.question_scale,
            stops=self.stops,
            monotone=int(self.monotone),
        )
        return replace(event, status=self.status)

    def start(self, threshold: int, noise: Noise) -> Questions:
        """Draw the threshold's noise and wait for questions; ``threshold`` is public."""
        return Questions(self, threshold, noise)


class Questions:
    """One running row of questions; it cannot be copied, pickled or carried into a forked process."""

    def __init__(self, mechanism: AboveThreshold, threshold: int, noise: Noise) -> None:
        self._mechanism = mechanism
        self._noise = noise
        self._secret = threshold + noise.laplace(mechanism.threshold_scale, 1)[0]
        self._left = mechanism.stops
        self._lock = Lock()
        self._process = os.getpid()

    @property
    def left(self) -> int:
        """How many answers "above" remain; a function of the answers given, so public."""
        return self._left

    def above(self, value: int) -> bool:
        """Whether the value, noised, reaches the noised threshold.

        *Privacy:* all answers together are covered by the one charge made at the start.
        """
        with self._lock:
            if os.getpid() != self._process:
                raise BudgetExceeded("these questions belong to the process that paid for them; start new ones.")
            if self._left == 0:
                raise BudgetExceeded("all answers 'above' that were paid for are given; start (and pay for) new ones.")
            show(self._mechanism.event, [value], self._noise)
            draw = self._noise.laplace(self._mechanism.question_scale, 1)[0]
            reached = saturate(value) + draw >= self._secret
            self._left -= reached
            return reached

    def __reduce__(self) -> NoReturn:
        raise OurBug("a running row of questions holds a secret threshold; it can be neither copied nor stored.")
