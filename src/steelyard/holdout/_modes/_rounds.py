"""Rounds: of each batch of predictions only the winner's place is told, and once, at the end, one score.

A round of N tells one of N things, so it costs ln N nats, and whatever is chosen in the end is one of the product of
all N. Its score is shown when the conversation ends, so that costs nothing more. Ties go to the first in the batch,
which the data did not choose. The proof is docs/proofs/rounds.md and docs/proofs/holdout_ledger.md.
Law: between the rounds nothing but the place of the winner is told; ``finish`` closes the holdout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.holdout._answer import NO_MORE, PAID, Answer
from steelyard.holdout._modes import Frame, NatsMode, Query
from steelyard.holdout._nats import round_micros
from steelyard.holdout._record import HoldoutEntry, Record
from steelyard.privacy import MICRO, Currency, Event, Loss, Neighbours, Number

ROUND, FINISH = "round", "finish"


class RoundsMode(NatsMode):
    """Winners of batches. ``between``: the scores whose final answer is to be within the tolerance."""

    kinds: tuple[str, ...] = (ROUND, FINISH)

    def __init__(self, frame: Frame, between: tuple[Number, Number] = (0, 1)) -> None:
        super().__init__(frame, min(frame.whole, 10_000))
        self._base = math.ceil(-math.log(frame.beta) * MICRO + 1e-6)
        self._allow(between, self._base / MICRO)

    def check(self, query: Query, record: Record) -> Answer:
        """Single scores are what this mode does without."""
        raise InvalidTask(
            "mode='rounds' tells winners only: use best_of([...]) for each batch, and finish() at the end."
        )

    def best_of(self, batch: Sequence[Query], record: Record) -> int:
        """The place of the best, the first of them if several are."""
        if not batch:
            raise InvalidTask("a round needs at least one candidate.")
        name = "/".join(query.name[:32] for query in batch)
        while True:
            record.refresh()
            held = _held(record, name)
            if held is not None:
                return int(held["winner"])
            if self._finished(record) is not None or self._left(record) < round_micros(len(batch)):
                raise self._refusal(len(batch), record)
            self._play(name, batch, record)

    def _refusal(self, candidates: int, record: Record) -> BudgetExceeded:
        cost, left = round_micros(candidates), self._left(record)
        told = f"a round of {candidates} costs {cost / MICRO:.2f} nats, and this holdout has {left / MICRO:.2f} left."
        if self._finished(record) is not None:
            told = "this holdout is finished: it has told its one score, and compares no more."
        return BudgetExceeded(told, wanted=Loss(Currency.NATS, cost), remaining=Loss(Currency.NATS, left))

    def _play(self, name: str, batch: Sequence[Query], record: Record) -> None:
        cost, event = round_micros(len(batch)), Event("holdout round", {"candidates": len(batch)}, Neighbours.REPLACE)
        unclaimed = [e for e in record.entries if e.kind == ROUND and e.held is None and e.loss.amount == cost]
        entry = unclaimed[0] if unclaimed else record.add(ROUND, Loss(Currency.NATS, cost), event)
        if entry is not None:
            totals = [query.total() for query in batch]
            winner = totals.index(max(totals) if self.frame.higher_is_better else min(totals))
            record.claim(entry, {"question": name, "winner": winner, "candidates": len(batch)})

    def finish(self, query: Query, record: Record) -> Answer:
        """The score of the chosen predictions and its interval; closes the holdout."""
        while True:
            record.refresh()
            done = self._finished(record)
            if done is not None and done.held is not None:
                same = done.held["question"] == query.name
                return Answer.from_json(done.held["answer"]) if same else NO_MORE
            event = Event("holdout finish", {}, Neighbours.REPLACE)
            entry = done or record.add(FINISH, Loss.zero(Currency.NATS), event)
            if entry is not None:
                record.claim(entry, {"question": query.name, "answer": self._score(query, record).to_json()})

    def _score(self, query: Query, record: Record) -> Answer:
        total = query.total()
        nats = math.nextafter((_spent(record) + self._base) / MICRO, math.inf)
        return self.frame.answer(self._rounding.value(total), *self._rounding.interval(total, nats), PAID)

    def forecast(self, record: Record) -> int:
        """How many rounds of two are certain to be affordable."""
        return 0 if self._finished(record) is not None else self._left(record) // round_micros(2)

    def describe(self, record: Record) -> list[tuple[str, str]]:
        """The public state."""
        record.refresh()
        sizes = [int(e.held["candidates"]) for e in record.entries if e.kind == ROUND and e.held is not None]
        told = f"{len(sizes)}, of {', '.join(map(str, sizes[:8]))}{'…' if sizes[8:] else ''} candidates"
        return [
            ("rounds", told if sizes else "none yet"),
            ("nats", f"{_spent(record) / MICRO:.2f} spent, {self._left(record) / MICRO:.2f} left"),
            ("state", "finished" if self._finished(record) is not None else "open"),
        ]

    def _finished(self, record: Record) -> HoldoutEntry | None:
        return next((entry for entry in record.entries if entry.kind == FINISH), None)

    def _left(self, record: Record) -> int:
        return max(0, min(self.nats - self._base, record.account.terms.cap.amount) - _spent(record))


def _spent(record: Record) -> int:
    return sum(entry.loss.amount for entry in record.entries)


def _held(record: Record, name: str) -> Mapping[str, Any] | None:
    found = (e.held for e in record.entries if e.kind == ROUND and e.held is not None and e.held["question"] == name)
    return next(found, None)
