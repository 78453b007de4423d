"""What modes share whose questions are numbered by a ``Counter``: certified checks and the ladder.

Such a mode looks whether it has answered a question before, takes a number for one that is new, and answers it free or
for a price; what is left when nobody asks any more goes back.
Law: nothing is answered anew without a number of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

from steelyard.holdout.answer import NO_MORE, Answer
from steelyard.holdout.counter import KINDS, Counter
from steelyard.holdout.modes import Frame, Question
from steelyard.holdout.record import Record
from steelyard.holdout.rounding import Rounding
from steelyard.privacy import MICRO, decimal_text, holdout


class Counted(ABC):
    """A mode on a grid of ``steps`` that asks at most ``questions``, if any number was promised."""

    kinds: tuple[str, ...] = KINDS
    _range: tuple[Fraction, Fraction]
    """The scores that are answered within the tolerance; set by the mode, as ``nats`` is."""
    nats: int
    """The micro-nats that the tolerance allows; set by the mode."""

    def __init__(self, frame: Frame, steps: int, questions: int | None) -> None:
        self._frame, self.steps, self.questions = frame, steps, questions
        self._rounding = Rounding(frame.rows, frame.scale, steps)
        self._counter: Counter | None = None

    @abstractmethod
    def price(self, asked: int, paid: int) -> float:
        """The nats of a history that long; never falling in either."""

    @abstractmethod
    def _remembered(self, question: Question, counter: Counter) -> Answer | None:
        """The answer that this question got before, if it did."""

    @abstractmethod
    def _answer(self, question: Question, counter: Counter) -> Answer | None:
        """Answer under the number that was just taken; None when somebody else was first."""

    def terms(self) -> dict[str, Any]:
        """An account of as many nats as the tolerance allows."""
        return {"unit": holdout(self._frame.name), "nats": decimal_text(Fraction(self.nats, MICRO), 30)}

    def check(self, question: Question, record: Record) -> Answer:
        """What was answered before, or an answer under a number of its own; a refusal when no number is left."""
        counter = self._count(record)
        with counter.turn():
            while True:
                counter.follow()
                known = self._remembered(question, counter)
                if known is None:
                    known = self._answer(question, counter) if counter.take() else NO_MORE
                if known is not None:
                    return known

    def promise(self, record: Record) -> str:
        """The tolerance, for the scores that were declared."""
        return self._frame.promise(self._range)

    def forecast(self, record: Record) -> int:
        """How many paid answers are certain to be affordable if they came next."""
        return self._learnt(record).forecast()

    def flush(self, record: Record) -> None:
        """Store which questions were answered free since the last block."""
        self._count(record).flush()

    def close(self, record: Record) -> None:
        """Give question numbers back that were reserved, and say so on the ledger."""
        if self._counter is not None:
            self._counter.close()

    def _learnt(self, record: Record) -> Counter:
        """The counts as they stand, what other processes did included."""
        counter = self._count(record)
        counter.follow()
        return counter

    def _count(self, record: Record) -> Counter:
        if self._counter is None:
            cap = min(self.nats, record.account.terms.cap.amount)
            self._counter = Counter(record, self.price, cap, self.questions, {"grid": self.steps})
        return self._counter
