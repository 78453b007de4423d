"""Does the ledger still say what was written? Streams the chain once and recomputes every other table from it.

Found: an edited, added, dropped or reordered row in any table, a raised cap, a foreign trigger or table, an index that
disagrees with its table, a charge below the price of what it says was done, and (through the anchor, or
through a receipt somebody kept) an older copy put back.
Not found: a consistent older copy together with its older anchor, by somebody who shows no later receipt.

Was enough charged? A charge says what was done, and its price is worked out again from that.
Found: a charge or a raise below the price of its own event; an event that has no price; a raise of what is not in pure
epsilon, or of a path by anything but how far that path went; a step on one of two parts that counts from what no earlier
step of its task and table paid, or that two steps count from; more answers than a plan of them paid for.
Not found: that something else was done than the event says. A charge without an event (made by hand) says nothing.
Law: a price may have been more than this, never less; validity (nats) is counted by the holdout itself.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from steelyard.account import Receipt
from steelyard.accounting import paid_apart, price
from steelyard.errors import LedgerError, SteelyardError
from steelyard.ledger._anchor import older
from steelyard.ledger._chain import COLUMNS, GENESIS, Entry, Identity, Position
from steelyard.ledger._connection import Connection
from steelyard.ledger._moves import OF
from steelyard.privacy import Currency, Event, Loss, Terms

SMALL = 2000
_ENOUGH = 20
_ENTRIES = (
    f"SELECT {', '.join('e.' + column for column in COLUMNS)}, a.sequence, a.payload FROM entries e "
    "LEFT JOIN answers a ON e.kind = 'answer' AND a.charge = e.charge AND a.step = e.step ORDER BY e.sequence"
)

_NOTES = {"holdout opened"}
"""Events that release nothing: what a holdout's settings are."""

_PLAN, _COVERED, _PATH = "bounded_noise", "answer_of_a_plan", "laplace_path"


@dataclass(frozen=True)
class Verification:
    """What a verification found: nothing, if ``ok``."""

    ok: bool
    findings: tuple[str, ...]
    entries: int
    head: str


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


@dataclass
class _Replay:
    """What the other tables must hold, rebuilt from the chain entry by entry."""

    key: bytes
    prices: Prices | None = None
    sequence: int = 0
    head: str = GENESIS
    origin: dict[str, Any] = field(default_factory=dict)
    accounts: dict[str, tuple[str, int]] = field(default_factory=dict)
    balances: dict[str, list[int]] = field(default_factory=dict)
    levels: dict[int, int] = field(default_factory=dict)
    answers: int = 0

    def take(self, entry: Entry, stored: int | None, payload: object) -> Iterator[str]:
        """Follow one entry; says what is wrong with it."""
        if entry.sequence != self.sequence + 1:
            yield f"entry {self.sequence + 1} is missing (the next one is {entry.sequence})"
        if not entry.authentic(self.key, self.head):
            yield f"entry {entry.sequence} ({entry.kind}) was changed, or what stood before it was"
        else:
            kinds = {"ledger": self._ledger, "account": self._account, "charge": self._charge, "raise": self._raise}
            yield from kinds.get(entry.kind, self._answer)(entry, stored, payload)
        self.sequence, self.head = entry.sequence, entry.mac

    def _ledger(self, entry: Entry, stored: int | None, payload: object) -> Iterator[str]:
        if entry.sequence != 1:
            yield f"entry {entry.sequence} claims to be the beginning of a ledger"
        self.origin = _object(entry.detail)

    def _account(self, entry: Entry, stored: int | None, payload: object) -> Iterator[str]:
        if entry.account in self.accounts:
            yield f"entry {entry.sequence} opens the account {entry.account!r} a second time"
        self.accounts[entry.account] = (entry.detail, entry.sequence)
        self.balances[entry.account] = [0, 0, entry.amount, entry.delta]
        if self.prices is not None:
            self.prices.opened(entry)

    def _charge(self, entry: Entry, stored: int | None, payload: object) -> Iterator[str]:
        yield from self._spend(entry, entry.amount, entry.delta)
        if self.prices is not None:
            yield from self.prices.charge(entry)

    def _raise(self, entry: Entry, stored: int | None, payload: object) -> Iterator[str]:
        detail = _object(entry.detail)
        before = detail.get("from", -1)
        if not isinstance(before, int) or self.levels.get(entry.charge, before) != before or entry.amount <= before:
            yield f"entry {entry.sequence} does not raise charge {entry.charge}"
            return
        self.levels[entry.charge] = entry.amount
        yield from self._spend(entry, entry.amount - before, 0)
        if self.prices is not None:
            yield from self.prices.raised(entry, detail.get("event"))

    def _spend(self, entry: Entry, amount: int, delta: int) -> Iterator[str]:
        balance = self.balances.get(entry.account)
        if balance is None:
            yield f"entry {entry.sequence} charges the unknown account {entry.account!r}"
            return
        balance[0] += amount
        balance[1] += delta
        if balance[0] > balance[2] or balance[1] > balance[3]:
            yield f"entry {entry.sequence} overspends the account {entry.account!r}"

    def _answer(self, entry: Entry, stored: int | None, payload: object) -> Iterator[str]:
        self.answers += 1
        if stored is None or not isinstance(payload, bytes):
            yield f"the answer {entry.step} of charge {entry.charge} is missing"
        elif stored != entry.sequence or hashlib.sha256(payload).hexdigest() != entry.digest:
            yield f"the answer {entry.step} of charge {entry.charge} was changed"


def examine(
    connection: Connection, identity: Identity, positions: Sequence[Position | None], *, prices: bool = False
) -> Verification:
    """Check everything; ``positions`` are points the chain must pass through, None one that should be there and is not.

    ``prices`` are worked out again only where that is asked for: a price may take tenths of a second.
    """
    replay, findings = _Replay(identity.key, Prices() if prices else None), []
    try:
        for finding in _findings(connection, replay, positions):
            findings.append(finding)
            if len(findings) == _ENOUGH:
                findings.append("and perhaps more: the check stopped here")
                break
        if not findings:  # a raise may be authentic and still start from a level that its charge never had
            findings.extend(_spendings(connection))
    except LedgerError as error:  # the engine cannot even read what is there
        findings.append(f"the ledger cannot be read to its end: {error}")
    return Verification(not findings, tuple(findings), replay.sequence, replay.head)


def _findings(connection: Connection, replay: _Replay, positions: Sequence[Position | None]) -> Iterator[str]:
    for fault in connection.faults():
        yield f"the database is damaged: {fault}"
    heads = {position.sequence: "" for position in positions if position is not None}
    for row in connection.rows(_ENTRIES):
        yield from replay.take(Entry.read(row[:-2]), row[-2], row[-1])
        if replay.sequence in heads:
            heads[replay.sequence] = replay.head
    yield from _compare_tables(connection, replay)
    name = str(replay.origin.get("ledger", ""))
    for position in positions:
        there = heads.get(position.sequence, "") if position else ""
        yield from _compare_position(position, replay.sequence, there, name)


def _compare_tables(connection: Connection, replay: _Replay) -> Iterator[str]:
    if replay.origin.get("schema") != connection.fingerprint():
        yield "the schema has foreign or changed objects (a trigger, a table, an index, a constraint)"
    meta = {name: replay.origin.get(name) for name in ("format", "version", "ledger")}
    yield from _differ("meta", dict(connection.rows("SELECT name, value FROM meta")), meta)
    yield from _differ("head", list(connection.rows("SELECT * FROM head")), [(1, replay.sequence, replay.head)])
    accounts = {row[0]: row[1:] for row in connection.rows("SELECT name, terms, sequence FROM accounts")}
    yield from _differ("accounts", accounts, replay.accounts)
    balances = {
        row[0]: list(row[1:])
        for row in connection.rows("SELECT account, spent, spent_delta, cap, cap_delta FROM balances")
    }
    yield from _differ("balances", balances, replay.balances)
    answers = connection.one("SELECT count(*) FROM answers")
    if answers != (replay.answers,):
        yield f"there are {answers[0] if answers else 0} stored answers where the chain has {replay.answers}"


def _differ(table: str, found: Any, expected: Any) -> Iterator[str]:
    if found == expected:
        return
    if not isinstance(found, dict):
        yield f"{table}: found {found}, the chain says {expected}"
        return
    for name in sorted({*found, *expected}, key=str):
        if found.get(name) != expected.get(name):
            yield f"{table}: {name!r} is {found.get(name)}, the chain says {expected.get(name)}"


def _compare_position(position: Position | None, sequence: int, head: str, name: str) -> Iterator[str]:
    return older(None, None) if position is None else position.missed(sequence, head, name)


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def compare_receipt(connection: Connection, receipt: Receipt) -> Iterator[str]:
    """Whether the entry a receipt names says what the receipt says; that it is the chain's own is checked apart."""
    row = connection.one("SELECT account, amount, mac FROM entries WHERE sequence = ?", (receipt.sequence,))
    if row != (receipt.account, receipt.cost.amount, receipt.head):
        yield f"the receipt for entry {receipt.sequence} ({receipt.cost} on {receipt.account!r}) is not this ledger's"


def glance(connection: Connection, identity: Identity, position: Position | None, *, closely: bool) -> list[str]:
    """The check at opening: the head and the anchor; ``closely`` also every balance, and all of a small ledger."""
    top = connection.one("SELECT sequence, mac FROM head")
    if top is None or (closely and (not isinstance(top[0], int) or top[0] <= SMALL)):
        return list(examine(connection, identity, [position]).findings)
    findings = (
        [] if _entry_at(connection, identity, top[0]) == top[1] else ["the head is not the last entry of the chain"]
    )
    if connection.one("SELECT max(sequence) FROM entries") != (top[0],):
        findings.append("there are entries beyond the head")
    there = _entry_at(connection, identity, position.sequence) if position and position.sequence <= top[0] else ""
    findings.extend(_compare_position(position, top[0], there, identity.name))
    return [*findings, *_caps(connection, identity), *_spendings(connection)] if closely else findings


def _entry_at(connection: Connection, identity: Identity, sequence: int) -> str:
    """The head at an entry, if that entry is authentic."""
    columns = ", ".join(COLUMNS)
    row = connection.one(f"SELECT {columns} FROM entries WHERE sequence = ?", (sequence,))
    before = connection.one("SELECT mac FROM entries WHERE sequence = ?", (sequence - 1,)) or (GENESIS,)
    entry = None if row is None else Entry.read(row)
    return entry.mac if entry and entry.authentic(identity.key, before[0]) else ""


def _caps(connection: Connection, identity: Identity) -> Iterator[str]:
    statement = (
        "SELECT a.name, a.sequence, a.terms = e.detail AND e.kind = 'account' AND e.account = a.name "
        "AND b.cap = e.amount AND b.cap_delta = e.delta FROM accounts a "
        "LEFT JOIN entries e ON e.sequence = a.sequence LEFT JOIN balances b ON b.account = a.name"
    )
    for name, sequence, same in list(connection.rows(statement)):
        if not same or not _entry_at(connection, identity, sequence):
            yield f"the terms or the cap of account {name!r} are not those it was opened with"


def _spendings(connection: Connection) -> Iterator[str]:
    """Balances that are not the sum of their charges, each at the level it was last raised to."""
    charged = (
        "SELECT account, SUM(level), SUM(delta) FROM (SELECT c.account, c.delta, COALESCE((SELECT MAX(r.amount) FROM entries r "
        "WHERE r.kind = 'raise' AND r.charge = c.sequence), c.amount) AS level FROM entries c WHERE c.kind = 'charge') AS x "
        "GROUP BY account"
    )
    sums = {account: (int(level), int(delta)) for account, level, delta in list(connection.rows(charged))}
    for account, spent, delta in list(connection.rows("SELECT account, spent, spent_delta FROM balances")):
        if sums.pop(account, (0, 0)) != (spent, delta):
            yield f"the balance of account {account!r} is not the sum of its charges"
    for account in sums:
        yield f"account {account!r} was charged but has no balance"
