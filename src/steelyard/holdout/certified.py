"""Certified checks: a right guess is free, a surprise is paid for, every interval holds with one confidence for all.

A question chosen after seeing answers is one of as many questions as there were possible answers. A free answer says
one thing only ("your guess holds"), so it adds almost nothing; a surprise adds the logarithm of the grid. The interval of
every question is made at the level exp(-nats) of all that was charged. Guess and check of Rogers et al. (2020), after
Dwork et al. (2015); the proof is docs/proofs/nats.md and docs/proofs/holdout_ledger.md.
Law: a free answer shows guess and tolerance, a paid one the rounded score and an interval made from it; nothing else.
"""

from __future__ import annotations

import math
from fractions import Fraction

from steelyard.errors import InvalidTask
from steelyard.holdout.answer import FREE, PAID, Answer
from steelyard.holdout.bounds import certified_nats, grid_nats
from steelyard.holdout.counted import Counted
from steelyard.holdout.counter import Counter
from steelyard.holdout.modes import Frame, Question
from steelyard.holdout.record import Record
from steelyard.holdout.rounding import Rounding, Window, nats_allowed
from steelyard.privacy import MICRO, Number, exact

_FLOAT = 1e-9
_REMEMBERED = 4096


class Certified(Counted):
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
        grid, promised = read_steps(steps, frame), None if questions is None else read_whole(questions, "questions")
        super().__init__(frame, grid, promised)
        self._range = read_between(between, frame)
        self._grid = grid_nats(self.steps)
        self.nats = require_nats(self._rounding, frame, self._range, self.price(1, 0))
        self._windows: dict[Fraction, tuple[Window, Answer]] = {}

    def price(self, asked: int, paid: int) -> float:
        """The nats of question number ``asked`` after ``paid`` surprises; never falling in either."""
        return question_nats(asked, paid, self.steps, self._grid, self._frame.beta, self.questions)

    def _remembered(self, question: Question, counter: Counter) -> Answer | None:
        held = counter.answers.get(question.name)
        if held is not None:
            return Answer.from_json(held["answer"])
        return self._free(question.guess)[1] if question.guess is not None and counter.was_free(question.name) else None

    def _answer(self, question: Question, counter: Counter) -> Answer | None:
        total, nats = question.total(), counter.nats
        if question.guess is not None:
            window, free = self._free(question.guess)
            if self._rounding.within(total, nats, window):
                counter.answered_free(question.name)
                return free
        shown = self._frame.answer(*self._rounding.shown(self._rounding.nearest(total), nats), PAID)
        held = counter.pay(question.name, {"answer": shown.to_json()})
        return None if held is None else Answer.from_json(held["answer"])

    def _free(self, guess: Fraction) -> tuple[Window, Answer]:
        """The window of a guess and the answer it gives, both made without the labels; remembered for speed."""
        found = self._windows.get(guess)
        if found is None:
            if len(self._windows) >= _REMEMBERED:
                self._windows.clear()
            window = Window(guess, self._frame.tolerance)
            found = window, self._frame.answer(guess, window.low, window.high, FREE)
            self._windows[guess] = found
        return found

    def describe(self, record: Record) -> list[tuple[str, str]]:
        """The public state."""
        counter = self._learnt(record)
        return [
            (
                "questions",
                f"{counter.asked:,} numbers reserved" + (f" of {self.questions:,}" if self.questions else ""),
            ),
            ("surprises", f"{counter.paid} paid; {counter.forecast()} more are affordable"),
            ("nats", f"{counter.spent / MICRO:.2f} spent, {counter.left / MICRO:.2f} left"),
            ("state", "closed: every check is refused" if counter.closed else "open"),
        ]


def question_nats(
    asked: int, paid: int, steps: int, grid: float, beta: Fraction | float, questions: int | None
) -> float:
    """The nats of question number ``asked`` after ``paid`` surprises, each of which took ``grid`` nats.

    ln C(asked - 1, paid) falls once nearly all answers are surprises; the number is raised until it does not.
    """
    number = max(asked, paid + 1 + paid // (steps + 1), 1)
    nats = certified_nats(number, paid, paid * grid, beta)
    if questions is None:
        return nats
    return nats - math.log(number) - math.log(number + 1) + math.log(questions) + _FLOAT


def usual_steps(rows: int, tolerance: Fraction | float) -> int:
    """Ten grid steps to a tolerance; no more than there are rows."""
    return max(1, min(rows, math.ceil(10 / tolerance)))


def read_steps(steps: int | None, frame: Frame) -> int:
    """The grid: 1/g as a whole number, fixed before any score is seen."""
    if steps is None:
        return usual_steps(frame.rows, frame.tolerance)
    if Fraction(1, 2 * read_whole(steps, "steps")) >= frame.tolerance:
        raise InvalidTask(
            f"a grid of {steps} steps rounds by more than the tolerance: use {math.ceil(10 / frame.tolerance)} or so."
        )
    return min(steps, frame.whole)


def read_whole(value: int, name: str) -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidTask(f"{name} must be a whole number of at least 1; got {value!r}.")
    return value


def read_between(between: tuple[Number, Number], frame: Frame) -> tuple[Fraction, Fraction]:
    """The declared range of scores, as shares of the metric's range."""
    low, high = (exact(end, "between") / frame.upper for end in between)
    if not 0 <= low < high <= 1:
        raise InvalidTask(f"between must be two scores, the lower first, within 0 and {frame.upper}; got {between!r}.")
    return low, high


def require_nats(rounding: Rounding, frame: Frame, span: tuple[Fraction, Fraction], first: float) -> int:
    """The micro-nats that the tolerance allows; refused when not even one question can be certified."""
    allowed = nats_allowed(rounding, frame.tolerance, *span)
    if allowed >= first * MICRO:
        return allowed
    can = _certifiable(frame, first) * float(frame.upper)
    raise InvalidTask(
        f"{frame.rows:,} rows cannot certify a tolerance of {float(frame.tolerance * frame.upper):.4g} with confidence "
        f"{float(frame.confidence):.4g}: even one question needs {can:.3g} or more. Ask for a wider tolerance, less "
        f"confidence, or use about {math.ceil(frame.rows * (can / float(frame.tolerance * frame.upper)) ** 2):,} rows."
    )


def _certifiable(frame: Frame, nats: float) -> float:
    """A tolerance that does for one question at any score: Hoeffding's half-width and half a step of a tenth of it."""
    return math.sqrt((nats + math.log(2)) / (2 * frame.rows)) / 0.95
