"""A leaderboard that reports the best score so far, on a fixed grid: a million submissions, few things to learn.

A submission that is not better than the best by a step of the grid changes nothing anyone sees, so a history is which
submissions were records and which grid values they took. The fixed-step Ladder of Blum and Hardt (2015); its
parameter-free form is climbed by flipping two rows at a time and is not offered. The proof is docs/proofs/ladder.md.
Law: only grid values strictly above the start are ever shown, each with an interval made from it.
"""

from __future__ import annotations

from fractions import Fraction

from steelyard.errors import InvalidTask
from steelyard.holdout.answer import FREE, PAID, Answer
from steelyard.holdout.bounds import ladder_nats
from steelyard.holdout.certified import read_between, read_steps, read_whole, require_nats
from steelyard.holdout.counted import Counted
from steelyard.holdout.counter import Counter
from steelyard.holdout.modes import Frame, Question
from steelyard.holdout.record import Record
from steelyard.privacy import MICRO, Number, exact


class Ladder(Counted):
    """The best so far. ``start``: the score shown before any record (default: the worst one); ``steps``, ``between`` and
    ``questions`` (submissions) as for certified checks."""

    def __init__(
        self,
        frame: Frame,
        steps: int | None = None,
        questions: int | None = None,
        start: Number | None = None,
        between: tuple[Number, Number] = (0, 1),
    ) -> None:
        grid, promised = read_steps(steps, frame), None if questions is None else read_whole(questions, "questions")
        super().__init__(frame, grid, promised)
        self._start = self._read_start(start)
        self.levels = self.steps - self._start
        self._range = read_between(between, frame)
        self.nats = require_nats(self._rounding, frame, self._range, self.price(1, 1))

    def _read_start(self, start: Number | None) -> int:
        share = Fraction(0 if self._frame.higher_is_better else 1)
        if start is not None:
            share = exact(start, "start") / self._frame.upper
        place = self._upward(share * self.steps)
        if place.denominator != 1 or not 0 <= place < self.steps:
            raise InvalidTask(f"start must be a value of the grid with {self.steps} steps, not the best one.")
        return int(place)

    def _upward(self, place: Fraction) -> Fraction:
        return place if self._frame.higher_is_better else self.steps - place

    def price(self, asked: int, paid: int) -> float:
        """The nats of the next record after ``asked`` submissions and ``paid`` records; never falling in either."""
        records = paid + 1
        submissions = max(self.questions or asked, 2 * records)
        levels = max(self.levels, 2 * records)
        return ladder_nats(submissions, records, levels, self._frame.beta, fixed=self.questions is not None)

    def _remembered(self, question: Question, counter: Counter) -> Answer | None:
        held = counter.answers.get(question.name)
        if held is not None:
            return Answer.from_json(held["answer"])
        return self._best(counter) if counter.was_free(question.name) else None

    def _answer(self, question: Question, counter: Counter) -> Answer | None:
        place = self._place(question.total())
        if place <= self._standing(counter):
            counter.answered_free(question.name)
            return self._best(counter)
        shown = self._shown(place, counter.nats)
        held = counter.pay(question.name, {"answer": shown.to_json(), "place": place})
        return None if held is None else Answer.from_json(held["answer"])

    def _place(self, total: int) -> int:
        place = self._rounding.nearest(total)
        return place if self._frame.higher_is_better else self.steps - place

    def _shown(self, place: int, nats: float) -> Answer:
        where = place if self._frame.higher_is_better else self.steps - place
        return self._frame.answer(*self._rounding.shown(where, nats), PAID)

    def _standing(self, counter: Counter) -> int:
        return max((held["place"] for held in counter.answers.values()), default=self._start)

    def _best(self, counter: Counter) -> Answer:
        """The best record as it was shown; before the first record the start, of which nothing is known."""
        held = max(counter.answers.values(), key=lambda each: int(each["place"]), default=None)
        if held is None:
            start = self._start if self._frame.higher_is_better else self.steps - self._start
            return self._frame.answer(Fraction(start, self.steps), 0, 1, FREE)
        shown = Answer.from_json(held["answer"])
        return Answer(shown.value, shown.low, shown.high, FREE)

    def describe(self, record: Record) -> list[tuple[str, str]]:
        """The public state."""
        counter = self._learnt(record)
        best = self._best(counter)
        return [
            ("best", "no record yet" if not counter.answers else str(best)),
            ("asked", f"{counter.asked:,} submissions reserved, {counter.paid} records"),
            ("left", f"{counter.left / MICRO:.2f} nats: {counter.forecast()} more records"),
            ("state", "closed: every check is refused" if counter.closed else "open"),
        ]
