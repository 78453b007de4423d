"""Certified checks: a right guess is free, a surprise is paid for, every interval holds with one confidence for all.

A question chosen after seeing answers is one of as many questions as there were possible answers. A free answer says
one thing only ("your guess holds"), so it adds almost nothing; a surprise adds the logarithm of the grid. The interval
of every question is made at the level exp(-nats) of all that was charged. Guess and check of Rogers et al. (2020),
after Dwork et al. (2015); the proof is docs/proofs/nats.md and docs/proofs/holdout_ledger.md.
Law: a free answer shows guess and tolerance, a paid one the rounded score and an interval made from it; nothing else.
"""

from __future__ import annotations

from fractions import Fraction

from steelyard.holdout._answer import FREE, PAID, Answer
from steelyard.holdout._intervals import Window
from steelyard.holdout._modes import Frame, Query
from steelyard.holdout._nats import grid_nats, question_nats
from steelyard.holdout._questions import Counter, NumberedMode
from steelyard.holdout._record import Record
from steelyard.privacy import MICRO, Number

_REMEMBERED = 4096


class CertifiedMode(NumberedMode):
    """Guess and check. ``steps``: the grid of paid answers has steps + 1 values, 0 to 1 (default: ten to a tolerance).

    ``questions``: the most questions ever asked, if that can be promised: it makes each of them cheaper. ``between``:
    the scores that are to be answered within the tolerance; others get a wider interval, which is just as valid.
    """

    def __init__(
        self,
        frame: Frame,
        steps: int | None = None,
        questions: int | None = None,
        between: tuple[Number, Number] = (0, 1),
    ) -> None:
        super().__init__(frame, steps, questions)
        self._grid = grid_nats(self.steps)
        self._allow(between, self.price(1, 0))
        self._windows: dict[Fraction, tuple[Window, Answer]] = {}

    def price(self, asked: int, paid: int) -> float:
        """The nats of question number ``asked`` after ``paid`` surprises; never falling in either."""
        return question_nats(asked, paid, self.steps, self._grid, self.frame.beta, self.questions)

    def _answer(self, query: Query, counter: Counter) -> Answer | None:
        total, nats = query.total(), counter.nats
        if query.guess is not None:
            window, free = self._free(query.guess)
            if self._rounding.within(total, nats, window):
                counter.answered_free(query.name)
                return free
        shown = self.frame.answer(*self._rounding.shown(self._rounding.nearest(total), nats), PAID)
        return self._pay(query, counter, shown)

    def _free_again(self, query: Query, counter: Counter) -> Answer:
        assert query.guess is not None  # a question is named by its guess, and without one it is never answered free
        return self._free(query.guess)[1]

    def _free(self, guess: Fraction) -> tuple[Window, Answer]:
        """The window of a guess and the answer it gives, both made without the labels; remembered for speed."""
        found = self._windows.get(guess)
        if found is None:
            if len(self._windows) >= _REMEMBERED:
                self._windows.clear()
            window = Window(guess, self.frame.tolerance)
            found = window, self.frame.answer(guess, window.low, window.high, FREE)
            self._windows[guess] = found
        return found

    def describe(self, record: Record) -> list[tuple[str, str]]:
        """The public state."""
        counter = self._learnt(record)
        promised = f" of {self.questions:,}" if self.questions else ""
        return [
            ("questions", f"{counter.asked:,} numbers reserved{promised}"),
            ("surprises", f"{counter.paid} paid; {counter.forecast()} more are affordable"),
            ("nats", f"{counter.spent / MICRO:.2f} spent, {counter.left / MICRO:.2f} left"),
            ("state", "closed: every check is refused" if counter.closed else "open"),
        ]
