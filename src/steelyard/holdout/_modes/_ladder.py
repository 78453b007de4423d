"""A leaderboard that reports the best score so far, on a fixed grid: a million submissions, few things to learn.

A submission that is not better than the best by a step of the grid changes nothing anyone sees, so a history is which
submissions were records and which grid values they took. The fixed-step Ladder of Blum and Hardt (2015); its
parameter-free form is climbed by flipping two rows at a time and is not offered. The proof is docs/proofs/ladder.md.
Law: only grid values strictly above the start are ever shown, each with an interval made from it.
"""

from __future__ import annotations

from fractions import Fraction

from steelyard.errors import InvalidTask
from steelyard.holdout._answer import FREE, PAID, Answer
from steelyard.holdout._modes import Frame, Query
from steelyard.holdout._nats import ladder_nats
from steelyard.holdout._questions import Counter, NumberedMode
from steelyard.holdout._record import Record
from steelyard.privacy import MICRO, Number, exact


class LadderMode(NumberedMode):
    """The best so far. ``start``: the score shown before any record (default: the worst one).

    ``steps``, ``between`` and ``questions`` (submissions) as for certified checks.
    """

    def __init__(
        self,
        frame: Frame,
        steps: int | None = None,
        questions: int | None = None,
        start: Number | None = None,
        between: tuple[Number, Number] = (0, 1),
    ) -> None:
        super().__init__(frame, steps, questions)
        self._start = self._read_start(start)
        self.levels = self.steps - self._start
        self._allow(between, self.price(1, 1))

    def _read_start(self, start: Number | None) -> int:
        share = Fraction(0 if self.frame.higher_is_better else 1)
        if start is not None:
            share = exact(start, "start") / self.frame.upper
        place = share * self.steps if self.frame.higher_is_better else self.steps - share * self.steps
        if place.denominator != 1 or not 0 <= place < self.steps:
            raise InvalidTask(f"start must be a value of the grid with {self.steps} steps, not the best one.")
        return int(place)

    def price(self, asked: int, paid: int) -> float:
        """The nats of the next record after ``asked`` submissions and ``paid`` records; never falling in either."""
        records = paid + 1
        submissions = max(self.questions or asked, 2 * records)
        levels = max(self.levels, 2 * records)
        return ladder_nats(submissions, records, levels, self.frame.beta, fixed=self.questions is not None)

    def _answer(self, query: Query, counter: Counter) -> Answer | None:
        place = self._turned(self._rounding.nearest(query.total()))
        if place <= self._standing(counter):
            counter.answered_free(query.name)
            return self._best(counter)
        shown = self.frame.answer(*self._rounding.shown(self._turned(place), counter.nats), PAID)
        return self._pay(query, counter, shown, place=place)

    def _free_again(self, query: Query, counter: Counter) -> Answer:
        return self._best(counter)

    def _turned(self, place: int) -> int:
        """A grid value counted from the worst one, or such a count as a grid value."""
        return place if self.frame.higher_is_better else self.steps - place

    def _standing(self, counter: Counter) -> int:
        return max((held["place"] for held in counter.answers.values()), default=self._start)

    def _best(self, counter: Counter) -> Answer:
        """The best record as it was shown; before the first record the start, of which nothing is known."""
        held = max(counter.answers.values(), key=lambda each: int(each["place"]), default=None)
        if held is None:
            return self.frame.answer(Fraction(self._turned(self._start), self.steps), 0, 1, FREE)
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
