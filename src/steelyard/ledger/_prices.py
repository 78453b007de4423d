"""Was enough charged? A charge says what was done, and its price is worked out again from that.

Found: a charge or a raise below the price of its own event; an event that has no price; a raise of what is not in pure
epsilon, or of a path by anything but how far that path went; a step on one of two parts that counts from what no earlier
step of its task and table paid, or that two steps count from; more answers than a plan of them paid for.
Not found: that something else was done than the event says. A charge without an event (made by hand) says nothing.
Law: a price may have been more than this, never less; validity (nats) is counted by the holdout itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from steelyard.accounting import paid_apart, price
from steelyard.errors import SteelyardError
from steelyard.ledger._chain import OF, Entry
from steelyard.privacy import Currency, Event, Loss, Terms

_NOTES = {"holdout opened"}
"""Events that release nothing: what a holdout's settings are."""

_PLAN, _COVERED, _PATH = "bounded_noise", "answer_of_a_plan", "laplace_path"


class Prices:
    """Follows the charges of a ledger, in order, and says where too little was charged."""

    def __init__(self) -> None:
        self._terms: dict[str, str] = {}
        self._planned: Counter[str] = Counter()
        self._rising: dict[int, str] = {}
        self._ends: Counter[tuple[str, str, tuple[object, ...]]] = Counter()
        self._read = lru_cache(maxsize=4096)(_read)

    def opened(self, entry: Entry) -> None:
        """Learn an account's terms."""
        self._terms[entry.account] = entry.detail

    def charge(self, entry: Entry) -> Iterator[str]:
        """What is wrong with the price of one charge."""
        if _PATH in entry.detail:  # in a step of several too
            self._rising[entry.sequence] = entry.detail
        return self._priced(entry, entry.detail)

    def raised(self, entry: Entry, event: object) -> Iterator[str]:
        """What is wrong with the level of one raise."""
        wrong = self._walked(entry, event)
        if wrong:
            return iter([f"entry {entry.sequence} {wrong}"])
        return self._priced(entry, "" if event is None else json.dumps(event))

    def _walked(self, entry: Entry, event: object) -> str:
        """Only pure epsilon is raised; a path, by how far that very path went; anything else, by hand."""
        begun = self._rising.get(entry.charge)
        if not _pure(self._terms.get(entry.account, "")):
            return "raises what is not counted in pure epsilon"
        if begun is None:
            return "" if event is None else "says how far a path went, and raises none"
        if event is None:
            return "raises a path and does not say how far the path went"
        same = _along(begun) == _along(json.dumps(event)) != ()
        return "" if same else "raises a path by the price of something else"

    def _priced(self, entry: Entry, done: str) -> Iterator[str]:
        terms = self._terms.get(entry.account)
        if not done or terms is None:
            return
        try:
            event, cost = self._read(done, terms)
            wrong = self._covered(entry, event) if cost is None else self._follows(entry, event)
            if cost is not None and (
                entry.amount < cost.amount or (entry.kind == "charge" and entry.delta < cost.delta)
            ):
                wrong = f"charges {Loss(cost.currency, entry.amount, entry.delta)} for what costs {cost}"
        except (SteelyardError, ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as fault:
            wrong = f"has no price ({fault})"
        if wrong:
            yield f"entry {entry.sequence} {wrong}"

    def _follows(self, entry: Entry, event: Event) -> str:
        """Steps on two parts form chains from nothing: what one counts from, another ended at, once."""
        if event.name == _PLAN:
            self._planned[entry.account] += int(str(event.parameters["questions"]))
        if event.name != "disjoint":
            return ""
        task, numbered, _ = entry.name.rpartition("/step ")
        path = entry.account, f"{task if numbered else entry.name} {entry.request.partition(OF)[2]}"
        before, after = paid_apart(event)
        begun, ended = ((*path, tuple(paid.items())) for paid in (before, after))
        found = not any(before.values()) or self._ends[begun] > 0
        self._ends[begun] -= any(before.values())
        self._ends[ended] += 1
        return "" if found else "counts from what no step before it has paid"

    def _covered(self, entry: Entry, event: Event) -> str:
        """What costs nothing: a note, or an answer of a plan that was paid for whole."""
        if event.name == _COVERED:
            self._planned[entry.account] -= 1
        return "is an answer that no plan has paid for" if self._planned[entry.account] < 0 else ""


def _read(done: str, terms: str) -> tuple[Event, Loss | None]:
    """The event and its price under these terms; None for what has none."""
    event, held = Event.from_json(json.loads(done)), Terms.from_json(json.loads(terms))
    free = held.currency is Currency.NATS or event.name in _NOTES or event.name == _COVERED
    return event, None if free else price(event, held)


@lru_cache(maxsize=4096)
def _pure(terms: str) -> bool:
    try:
        return Terms.from_json(json.loads(terms)).currency is Currency.PURE
    except (SteelyardError, KeyError, TypeError, ValueError):
        return False


def _along(done: str) -> tuple[object, ...]:
    """What stays the same along a path, which is all but its noise; nothing for what is no path."""
    try:
        event = Event.from_json(json.loads(done))
        return (event.neighbours, event.parameters["sensitivity"]) if event.name == _PATH else ()
    except (SteelyardError, KeyError, TypeError, ValueError):
        return ()
