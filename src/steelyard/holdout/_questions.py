"""Question numbers, handed out in blocks that are paid for before the first of them is used; surprises one by one.

The state of a holdout is public: how many numbers were reserved, how many answers were surprises, what both cost. It is
recomputed from the entries of the record. A number belongs to one process and is used only while its block is the
newest entry but for that process's own surprises; after anyone else's entry the rest of the block counts as asked and
answered free. One process asks at a time, and marks that it does; whoever finds a mark charges a surprise for it first.
Law: nothing is answered anew without a number of its own; of a number that was scored, "free" was delivered or a
surprise is charged before the next one is scored; every interval is made at the level of all that has been charged
(docs/proofs/holdout_ledger.md).
"""

from __future__ import annotations

import base64
import contextlib
import math
import os
import secrets
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from steelyard.errors import InvalidTask, OurBug
from steelyard.holdout._answer import NO_MORE, Answer
from steelyard.holdout._intervals import read_whole
from steelyard.holdout._modes import Frame, NatsMode, Query
from steelyard.holdout._nats import usual_steps
from steelyard.holdout._record import HoldoutEntry, Record
from steelyard.ledger import Lock
from steelyard.privacy import MICRO, Currency, Event, Loss, Neighbours

ONE, BLOCK, PAID, CLOSED = "question", "block", "paid", "closed"
KINDS = (BLOCK, ONE, PAID, CLOSED)
LARGEST = 1024
_CALM = 16
_NAME = 12
_LOST = {"lost": True}


@dataclass
class _Block:
    entry: HoldoutEntry
    left: int
    process: int
    touched: bool = False


class Counter:
    """The questions of one holdout; ``price(asked, paid)``: the nats of a history that long, never falling in either."""

    def __init__(
        self, record: Record, price: Callable[[int, int], float], cap: int, most: int | None, facts: Mapping[str, Any]
    ) -> None:
        self._record, self._price, self._cap, self._most, self._facts = record, price, cap, most, dict(facts)
        self.asked = self.paid = self.spent = 0
        self.nats = 0.0
        self.closed = False
        self.answers: dict[str, Mapping[str, Any]] = {}
        self.free: set[bytes] = set()
        self._unclaimed: list[HoldoutEntry] = []
        self._newest: HoldoutEntry | None = None
        self._held: Lock | None = None
        self._read = 0
        self._block: _Block | None = None
        self._used: list[bytes] = []
        self._crowded = 0
        self._over = False

    @property
    def left(self) -> int:
        """The micro-nats that are left."""
        return max(0, self._cap - self.spent)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Ask alone: nobody else's question comes between a number and its outcome."""
        with self._record.lock() as lock:
            self._held = lock
            try:
                yield
            finally:
                self._held = None

    def take(self) -> bool:
        """Take a question number that is nobody else's; False when there is none left, for good.

        Call ``follow`` first, and look whether the question has an answer by now. The mark is set on return: until the
        outcome is stored or delivered, an end of any kind costs a surprise.
        """
        while True:
            if self.closed:
                return False
            block = self._block
            if self._owes():
                self._forfeit()
            elif self._over:
                self._close()
            elif block is not None and block.left > 0 and block.process == os.getpid():
                block.left -= 1
                block.touched = True
                self._lock.mark(len(self._record.entries))
                return True
            else:
                self._reserve()
            self.follow()

    def answered_free(self, name: str) -> None:
        """Remember that a question was answered by its own guess; kept for good when the block ends."""
        key = _short(name)
        self.free.add(key)
        self._used.append(key)
        if not self._lock.lasting:
            self._store_free(closed=True)
        self._lock.clear()

    def was_free(self, name: str) -> bool:
        """Whether this very question was answered by its own guess before."""
        return _short(name) in self.free

    def pay(self, name: str, content: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Charge for a surprise and store it; what is held for this question, or None: look again, things changed.

        After None another process came first and the question needs a new number; other entries of the ledger do not
        matter. A surprise is never refused once its question has a number; if it takes more than is left it takes what
        is left, and is the last answer. A surprise that was charged and not stored is spent: no other question may have
        it, and none may have its entry.
        """
        if not self._record.current() and self._record.refresh():
            return None
        entry = self._add(PAID)
        if entry is None:
            return None
        held = self._record.claim(entry, {"question": name, **content})
        self._settle()
        self._lock.clear()
        return held if held.get("question") == name else None

    def flush(self) -> None:
        """Store which questions of the present block were answered free."""
        self._store_free(closed=False)

    def close(self) -> None:
        """Give the block up and say so: after a power cut it owes nothing."""
        if self._block is None or self._block.process != os.getpid():
            return
        with self.locked():
            self._store_free(closed=self._lock.trusted and self._lock.pending is None)
            self._block = None

    def forecast(self) -> int:
        """How many surprises are certain to be answered if no other question came between."""
        count = 0
        while not self.closed and self._needs(self.asked + count + 1, self.paid + count) <= self._cap and count < 10**6:
            count += 1
        return count

    @property
    def _lock(self) -> Lock:
        if self._held is None:
            raise OurBug("a question was asked without the holdout's lock.")
        return self._held

    def _owes(self) -> bool:
        """Whether a number was scored and neither a free answer delivered nor a surprise charged, as far as is known.

        Where the mark cannot be trusted the ledger must say it: the newest reservation was closed, or paid for.
        """
        lock, newest = self._lock, self._newest
        if lock.trusted:
            return lock.pending is not None and not any(e.kind == PAID for e in self._record.entries[lock.pending :])
        if newest is None or self._is_untouched(newest):
            return False
        later = [entry for entry in self._record.entries[newest.number :] if entry.kind == PAID]
        if (newest.kind == ONE and later) or any(entry.held == _LOST for entry in later):
            return False
        self._record.reread(newest)
        return not any(note.get("closed") for note in self._record.notes(newest))

    def _is_untouched(self, entry: HoldoutEntry) -> bool:
        block = self._block
        return block is not None and block.entry is entry and not block.touched and block.process == os.getpid()

    def _forfeit(self) -> None:
        """Charge a surprise that nobody was told, and go on."""
        entry = self._add(PAID)
        if entry is not None:
            self._record.claim(entry, _LOST)
            self._settle()
            self._lock.clear()

    def _store_free(self, *, closed: bool) -> None:
        block, used = self._block, self._used
        if block is None or block.process != os.getpid():
            self._used = []
        elif used or closed:
            note = {"free": base64.b64encode(b"".join(used)).decode()}
            self._record.note(block.entry, {**note, "closed": True} if closed else note)
            self._used = []

    def follow(self) -> None:
        """Learn what others did, under the lock if a number is to be taken; after that the block is not the newest."""
        if not self._record.current():
            self._record.refresh()
            self._settle()
        if self._read < len(self._record.entries):
            self._yield_block()
        while self._read < len(self._record.entries):
            self._apply(self._record.entries[self._read])

    def _apply(self, entry: HoldoutEntry) -> None:
        self._read += 1
        self.spent += entry.loss.amount
        if entry.kind in (ONE, BLOCK):
            self._newest = entry
        if entry.kind == ONE:
            self.asked += 1
        elif entry.kind == BLOCK:
            self.asked += self._size()
        elif entry.kind == PAID:
            self.paid += 1
            self._unclaimed.append(entry)
            self._settle()
        elif entry.kind == CLOSED:
            self.closed = True
        self._over = self._needs(self.asked, self.paid) > self._cap
        self.nats = math.nextafter(self.spent / MICRO, math.inf)
        for note in self._record.notes(entry):
            names = base64.b64decode(note["free"])
            self.free.update(names[i : i + _NAME] for i in range(0, len(names), _NAME))

    def _settle(self) -> None:
        for entry in self._unclaimed:
            if entry.held is not None and "question" in entry.held:
                self.answers[entry.held["question"]] = entry.held
        self._unclaimed = [entry for entry in self._unclaimed if entry.held is None]

    def _yield_block(self) -> None:
        if self._block is not None:
            self._crowded = _CALM
        self.flush()
        self._block = None

    def _size(self) -> int:
        """A block's size: an eighth of what was asked so far, so that it costs little ahead of its use."""
        return max(1, min(LARGEST, self.asked // 8 + 1, LARGEST if self._most is None else self._most - self.asked))

    def _reserve(self) -> None:
        self.flush()
        self._block = None
        alone = self._crowded or not self._lock.lasting or not self._fits(self._size())
        size = 1 if alone else self._size()
        if not self._fits(size):
            return self._close()
        kind = ONE if size == 1 else BLOCK
        entry = self._add(kind, size)
        token = secrets.token_hex(8)
        if entry is None or self._record.claim(entry, {"by": token})["by"] != token:
            self._crowded = _CALM
            return None
        self._crowded = max(0, self._crowded - 1)
        self._block = _Block(entry, size, os.getpid())
        return None

    def _fits(self, size: int) -> bool:
        enough = self._most is None or self.asked + size <= self._most
        return enough and self._needs(self.asked + size, self.paid) <= self._cap

    def _add(self, kind: str, size: int = 0) -> HoldoutEntry | None:
        """The one place where questions and surprises are charged."""
        asked, paid = self.asked + size, self.paid + (kind == PAID)
        price = max(0, min(self._needs(asked, paid), self._cap) - self.spent)
        facts = {**self._facts, "questions": asked, "surprises": paid}
        event = Event(f"holdout {kind}", facts, Neighbours.REPLACE)
        entry = self._record.add(kind, Loss(Currency.NATS, price), event)
        if entry is not None:
            self._apply(entry)
        return entry

    def _close(self) -> None:
        """Refuse for good, durably, before anyone is told."""
        event = Event("holdout closed", self._facts, Neighbours.REPLACE)
        entry = self._record.add(CLOSED, Loss.zero(Currency.NATS), event)
        if entry is not None:
            self._record.claim(entry, {"closed": True})
            self._apply(entry)

    def _needs(self, asked: int, paid: int) -> int:
        return math.ceil(self._price(asked, paid) * MICRO)


def _short(name: str) -> bytes:
    return bytes.fromhex(name)[:_NAME]


class NumberedMode(NatsMode):
    """A mode whose questions are numbered: on a grid of ``steps``, at most ``questions`` if any number was promised.

    It looks whether it has answered a question before, takes a number for one that is new, and answers it free or for a
    price.
    """

    kinds: tuple[str, ...] = KINDS

    def __init__(self, frame: Frame, steps: int | None, questions: int | None) -> None:
        self.steps = _read_steps(steps, frame)
        self.questions = None if questions is None else read_whole(questions, "questions")
        super().__init__(frame, self.steps)

    @abstractmethod
    def price(self, asked: int, paid: int) -> float:
        """The nats of a history that long; never falling in either."""

    @abstractmethod
    def _answer(self, query: Query, counter: Counter) -> Answer | None:
        """Answer under the number that was just taken; None when somebody else was first."""

    @abstractmethod
    def _free_again(self, query: Query, counter: Counter) -> Answer:
        """What a question that was answered free before is told."""

    def check(self, query: Query, record: Record) -> Answer:
        """What was answered before, or an answer under a number of its own; a refusal when no number is left."""
        counter = self._count(record)
        with counter.locked():
            while True:
                counter.follow()
                known = self._remembered(query, counter)
                if known is None:
                    known = self._answer(query, counter) if counter.take() else NO_MORE
                if known is not None:
                    return known

    def _remembered(self, query: Query, counter: Counter) -> Answer | None:
        """The answer that this question got before, if it did."""
        held = counter.answers.get(query.name)
        if held is not None:
            return Answer.from_json(held["answer"])
        return self._free_again(query, counter) if counter.was_free(query.name) else None

    def _pay(self, query: Query, counter: Counter, shown: Answer, **more: Any) -> Answer | None:
        """Charge for a surprise, store it, and give what was stored."""
        held = counter.pay(query.name, {"answer": shown.to_json(), **more})
        return None if held is None else Answer.from_json(held["answer"])

    def forecast(self, record: Record) -> int:
        """How many paid answers are certain to be affordable if they came next."""
        return self._learnt(record).forecast()

    def _learnt(self, record: Record) -> Counter:
        """The counts as they stand, what other processes did included."""
        counter = self._count(record)
        counter.follow()
        return counter

    def _count(self, record: Record) -> Counter:
        if self.counter is None:
            self.counter = Counter(
                record,
                self.price,
                min(self.nats, record.account.terms.cap.amount),
                self.questions,
                {"grid": self.steps},
            )
        return self.counter


def _read_steps(steps: int | None, frame: Frame) -> int:
    """The grid: 1/g as a whole number, fixed before any score is seen."""
    if steps is None:
        return usual_steps(frame.rows, frame.tolerance)
    if Fraction(1, 2 * read_whole(steps, "steps")) >= frame.tolerance:
        raise InvalidTask(
            f"a grid of {steps} steps rounds by more than the tolerance: use {math.ceil(10 / frame.tolerance)} or so."
        )
    return min(steps, frame.whole)
