"""The first of one's own queries that reaches a threshold, for the price of one watch and of what the queries are made of.

InteractiveAboveThreshold (Ligett, Neel, Roth, Waggoner and Wu, 2017) over any row of queries: the next may be chosen from all
that was released before, and may be made of releases that are paid for as it is asked for. The answers cost the watch, however many
of them say "below", so the whole price is known at the end: the watch, and the releases up to where it stopped.
A query is a total of ours, whose sensitivity is proved; or, where ``sensitivity`` is stated, a function of the rows, and then the
guarantee says that it holds as stated.
Law: the watch is charged in full before its threshold is drawn; whatever a query is, a unit moves it by 2^16 steps at most;
nothing but the bit leaves, and it is stored before it is told (docs/proofs/first_above.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from typing import Any

from steelyard.bounding import Count, Sum, check_unit
from steelyard.desk import Desk
from steelyard.documents import request_of
from steelyard.errors import BudgetExceeded, CurrencyMismatch, InvalidTask, KeyConflict
from steelyard.interrupts import attempt
from steelyard.mechanisms import AboveThreshold
from steelyard.models.accuracy._total import Total, TotalSearch
from steelyard.models.accuracy._transcript import WATCH, costs_of, entries
from steelyard.models.accuracy._watch import STEPS, Watch, Watching
from steelyard.plan import Task
from steelyard.privacy import MICRO, Currency, Loss, Neighbours, Number, Status, Terms, canonical, exact, positive
from steelyard.release import Guarantee, Release
from steelyard.session import Session, named
from steelyard.tables import Schema, Table

ABOVE, NONE, BUDGET = "above", "none_above", "budget_ended"
CONFIDENCE = 0.95
RATIO = Fraction(8, 5)
"""Of the questions' noise to the threshold's: near 2^(2/3), where their difference varies least for the price."""

_LEAST = -(1 << 100)  # what a stated query counts as where it fails or gives no number


@dataclass(frozen=True)
class First:
    """Where a row of queries ended: the ``query`` that reached the threshold and its ``place``, or None, and the ``reason``.

    ``cost`` is what all watches under the key have cost; what the queries were made of is charged to the account beside it.
    With confidence 0.95, for all answers of a watch, "above" means at least the threshold less a margin and "below" less than
    the threshold and a margin; ``margin`` is that of the last query asked, in its own units, and grows with the logarithm
    of its place.
    """

    place: int | None
    query: Any
    reason: str
    asked: int
    margin: float
    cost: Loss
    guarantee: Guarantee | None


def first_above(
    session: Session,
    queries: Iterable[Any],
    threshold: Number,
    epsilon: Number,
    *,
    sensitivity: Number | None = None,
    key: str | None = None,
) -> First:
    """The first query whose value is at least ``threshold``, both noised; nothing else about the values is told.

    ``queries`` is a list, or a generator that decides on the next query when it is asked for it, from whatever was released:
    ``Sum`` and ``Count`` tasks with a cap and without an epsilon; or, with ``sensitivity``, functions of the rows (an Arrow
    table) that give a number which one unit of the account moves by at most that, whatever the rows, failures included: these
    count as a value below every other. *Privacy:* ``epsilon`` for all answers together, pure, charged in full before the first (on a
    Gaussian account as the mu that it means for every delta). *Accuracy:* ``margin``. *Cost:* the watch, and what the generator itself
    releases, each charged when it is made; a budget that ends there ends the row. A watch lives in one call: with the same ``key`` stored
    answers are read back, and going on after a restart buys another watch at the same price.

    >>> import steelyard as sy
    >>> account = sy.open_account(":memory:", "spend", unit=sy.users("who"), epsilon=5)
    >>> table = sy.read({"who": list(range(900)), "small": [1.0] * 900, "large": [9.0] * 900})
    >>> tried = [sy.Sum("small", cap=10), sy.Sum("large", cap=10)]
    >>> first = first_above(sy.Session(table, account), tried, threshold=4_500, epsilon=1)
    >>> first.place, first.query.column, str(account.spent)
    (1, 'large', 'epsilon 1')
    """
    stated = None if sensitivity is None else positive(sensitivity, "sensitivity")
    asked = Row(exact(threshold, "threshold"), positive(epsilon, "epsilon"), stated)
    return session.open(asked, key=key).run(queries)


def doubling(session: Session, task: Task, epsilon: Number, *, key: str | None = None) -> Iterator[Release]:
    """The task released again and again, each time at twice the epsilon of the one before, for as long as one is asked for.

    The plain way to look for an epsilon, as a baseline: with ``first_above`` around it, the doubling method of 2017 under one
    watch. *Cost:* all releases add up, to less than twice the last.

    >>> import steelyard as sy
    >>> account = sy.open_account(":memory:", "spend", unit=sy.rows(), epsilon=5)
    >>> releases = doubling(sy.Session(sy.read({"x": [1.0] * 500}), account), sy.Sum("x", cap=1), "0.1")
    >>> [next(releases).guarantee.spent.value for _ in range(3)], str(account.spent)
    ([Fraction(1, 10), Fraction(1, 5), Fraction(2, 5)], 'epsilon 0.7')
    """
    first, name = positive(epsilon, "epsilon"), named(key)
    if getattr(task, "mu", None) is not None:
        raise InvalidTask("a doubled task is paid for in epsilon: leave its mu out.")
    for turn in count():
        again: Any = replace(task, epsilon=first * 2**turn)  # type: ignore[type-var]
        yield session.release(again, key=f"{name}/{turn}")


@dataclass(frozen=True)
class Row:
    """What a row of queries is opened with; its fields are bound to the key."""

    threshold: Fraction
    epsilon: Fraction
    sensitivity: Fraction | None

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse what the account rules out."""
        check_unit(schema, terms)
        if terms.currency is Currency.NATS:
            raise CurrencyMismatch("this account counts validity in nats; a private comparison needs epsilon.")
        if self.epsilon * MICRO < 1:
            raise InvalidTask("the epsilon of a watch is at least 0.000001.")

    def start(self, desk: Desk) -> RunningQuery:
        """Begin, or pick up where the stored answers left off."""
        return RunningQuery(self, desk)

    def watch(self, neighbours: Neighbours) -> Watch:
        """The watch: a unit moves every query by 2^16 steps at most."""
        micro = math.floor(self.epsilon * MICRO)
        scale = STEPS * (1 + 2 / RATIO) * MICRO / micro
        status = Status.PROVED if self.sensitivity is None else Status.STATED
        return Watch(AboveThreshold(STEPS, scale, RATIO * scale, 1, False, neighbours, status), 0, None)

    def question(self, query: Any, schema: Schema, terms: Terms) -> Question:
        """A query in steps of which a unit moves 2^16; refused by what it is, never by what it finds."""
        if self.sensitivity is None:
            return _total(query, self.threshold, schema, terms)
        if not callable(query):
            raise InvalidTask(
                f"with sensitivity= a query is a function of the rows; got {type(query).__name__}. Leave sensitivity out for "
                "Sum and Count tasks: theirs is known."
            )
        name = str(getattr(query, "__qualname__", type(query).__qualname__))
        return Question(name, lambda table: _stated(query, table), self.threshold, self.sensitivity)


@dataclass(frozen=True)
class Question:
    """One query as the watch asks it: what it is called, its value, and by how much a unit moves that at most."""

    name: str
    value: Callable[[Table], Fraction | int | None]
    threshold: Fraction
    moves: Fraction

    def steps(self, table: Table) -> int:
        """How far the value is above the threshold; a unit moves the argument of the floor by at most 2^16, so the floor too."""
        found = self.value(table)
        return _LEAST if found is None else math.floor((found - self.threshold) * STEPS / self.moves)


def _total(task: Any, threshold: Fraction, schema: Schema, terms: Terms) -> Question:
    """A capped total: its sensitivity is that of its bounds."""
    if not isinstance(task, Sum | Count):
        raise InvalidTask(
            f"a query is a Sum or a Count with a cap, or with sensitivity= a function of the rows; got {type(task).__name__}."
        )
    if task.epsilon is not None or task.mu is not None:
        raise InvalidTask("the watch pays for all queries together: leave epsilon and mu of a query out.")
    search = TotalSearch(task)
    search.check(schema, terms)
    total = Total(search, schema, terms)
    amount = total.amount
    moves = amount.sensitivity
    if terms.unit.neighbours is Neighbours.REPLACE:
        moves = max(amount.upper, 0) - min(amount.lower, 0)
    name = canonical(request_of(task)).decode()
    return Question(name, lambda table: total.rows(table) * amount.step, threshold, moves * amount.step)


def _stated(query: Callable[[Any], Any], table: Table) -> Fraction | None:
    """What a function makes of the rows; None where it fails or gives no number, whatever the reason."""
    import pyarrow as pa

    found = attempt(lambda: _number(query(pa.Table.from_batches(table.batches(list(table.columns))))))
    return None if found is None else found[0]


def _number(value: Any) -> Fraction:
    plain = value.as_py() if hasattr(value, "as_py") else value.item() if hasattr(value, "item") else value
    return Fraction(plain)


class RunningQuery:
    """A row of queries on its account: what is stored of it, and the watch that answers the rest."""

    def __init__(self, row: Row, desk: Desk) -> None:
        self._row, self._desk = row, desk
        self._mechanism = row.watch(desk.terms.unit.neighbours)
        self._stored, self._guarantee = _told(desk)
        self._watching: Watching | None = None
        self._asked, self._margin = 0, 0.0

    def run(self, queries: Iterable[Any]) -> First:
        """Ask one query after the other until one is above, none is left, or its own making cannot be paid for."""
        if isinstance(queries, list | tuple):
            for query in queries:
                self._question(query)  # so that nothing is charged for a row with an odd one
        row = iter(queries)
        while True:
            try:
                query = next(row)
            except StopIteration:
                return self._found(None, None, NONE)
            except BudgetExceeded:
                return self._found(None, None, BUDGET)
            if self._ask(self._question(query)):
                return self._found(self._asked - 1, query, ABOVE)

    def _question(self, query: Any) -> Question:
        return self._row.question(query, self._desk.schema, self._desk.terms)

    def _ask(self, question: Question) -> bool:
        """The stored answer at this place, or the watch's."""
        place = self._asked
        known = self._stored.get(place)
        if known is not None and known[0] != question.name:
            raise KeyConflict(
                f"query {place} under this key was another one then. Repeat the same queries, or choose a new key."
            )
        told = (
            self._watch().ask(question.steps, {"place": place, "query": question.name}) if known is None else known[1]
        )
        self._asked, self._margin = place + 1, self._apart(place + 1) * float(question.moves)
        return told

    def _watch(self) -> Watching:
        if self._watching is None:
            self._watching = Watching(self._desk, lambda _: self._mechanism, 0, {})
            self._guarantee = self._watching.guarantee
        return self._watching

    def _apart(self, turn: int) -> float:
        """By how many moves the noise may have misled the answer of this turn, but for a failure probability over all turns."""
        mechanism, failure = self._mechanism.mechanism, 1 - CONFIDENCE
        threshold = float(mechanism.threshold_scale) * math.log(2 / failure)
        each = float(mechanism.question_scale) * math.log(2 * turn * (turn + 1) / failure)
        return (threshold + each + 3) / STEPS

    def _found(self, place: int | None, query: Any, reason: str) -> First:
        cost = Loss(self._desk.terms.currency, sum(costs_of(self._desk).values()))
        return First(place, query, reason, self._asked, self._margin, cost, self._guarantee)


def _told(desk: Desk) -> tuple[dict[int, tuple[str, bool]], Guarantee | None]:
    """What watches under the key have answered, by place, and what was promised; of two at one place the first watch's counts.

    A row that a watch has ended is read to its end there.
    """
    found: dict[int, tuple[str, bool]] = {}
    guarantee: Guarantee | None = None
    for start, *answers in entries(desk, WATCH):
        guarantee = start.guarantee
        for told in answers:
            found.setdefault(int(told.point["place"]), (str(told.point["query"]), bool(told.value)))
        if any(told.value for told in answers):
            break
    return found, guarantee
