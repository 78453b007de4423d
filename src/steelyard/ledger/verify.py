"""Does the ledger still say what was written? Streams the chain once and recomputes every other table from it.

Found: an edited, added, dropped or reordered row in any table, a raised cap, a foreign trigger or table, an index that
disagrees with its table, a charge below the price of what it says was done (charged.py), and (through the anchor, or
through a receipt somebody kept) an older copy put back.
Not found: a consistent older copy together with its older anchor, by somebody who shows no later receipt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from steelyard.account import Receipt
from steelyard.errors import LedgerError
from steelyard.ledger import schema
from steelyard.ledger.chain import COLUMNS, Entry
from steelyard.ledger.charged import Charged
from steelyard.ledger.guard import GENESIS, Mark
from steelyard.ledger.link import Link
from steelyard.ledger.transaction import Identity

SMALL = 2000
_ENOUGH = 20
_ENTRIES = (
    f"SELECT {', '.join('e.' + column for column in COLUMNS)}, a.sequence, a.payload FROM entries e "
    "LEFT JOIN answers a ON e.kind = 'answer' AND a.charge = e.charge AND a.step = e.step ORDER BY e.sequence"
)


@dataclass(frozen=True)
class Report:
    """What a verification found: nothing, if ``ok``."""

    ok: bool
    findings: tuple[str, ...]
    entries: int
    head: str


@dataclass
class _Replay:
    """What the other tables must hold, rebuilt from the chain entry by entry."""

    key: bytes
    charged: Charged | None = None
    sequence: int = 0
    head: str = GENESIS
    birth: dict[str, Any] = field(default_factory=dict)
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
            yield f"entry {entry.sequence} claims to be the birth of a ledger"
        self.birth = _object(entry.detail)

    def _account(self, entry: Entry, stored: int | None, payload: object) -> Iterator[str]:
        if entry.account in self.accounts:
            yield f"entry {entry.sequence} opens the account {entry.account!r} a second time"
        self.accounts[entry.account] = (entry.detail, entry.sequence)
        self.balances[entry.account] = [0, 0, entry.amount, entry.delta]
        if self.charged is not None:
            self.charged.opened(entry)

    def _charge(self, entry: Entry, stored: int | None, payload: object) -> Iterator[str]:
        yield from self._spend(entry, entry.amount, entry.delta)
        if self.charged is not None:
            yield from self.charged.charge(entry)

    def _raise(self, entry: Entry, stored: int | None, payload: object) -> Iterator[str]:
        detail = _object(entry.detail)
        before = detail.get("from", -1)
        if not isinstance(before, int) or self.levels.get(entry.charge, before) != before or entry.amount <= before:
            yield f"entry {entry.sequence} does not raise charge {entry.charge}"
            return
        self.levels[entry.charge] = entry.amount
        yield from self._spend(entry, entry.amount - before, 0)
        if self.charged is not None:
            yield from self.charged.raised(entry, detail.get("event"))

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


def examine(link: Link, identity: Identity, marks: Sequence[Mark | None], *, prices: bool = False) -> Report:
    """Check everything; ``marks`` are points the chain must pass through, None one that should be there and is not.

    ``prices`` are worked out again only where that is asked for: a price may take tenths of a second.
    """
    replay, findings = _Replay(identity.key, Charged() if prices else None), []
    try:
        for finding in _findings(link, replay, marks):
            findings.append(finding)
            if len(findings) == _ENOUGH:
                findings.append("and perhaps more: the check stopped here")
                break
        if not findings:  # a raise may be authentic and still start from a level that its charge never had
            findings.extend(_spendings(link))
    except LedgerError as error:  # the engine cannot even read what is there
        findings.append(f"the ledger cannot be read to its end: {error}")
    return Report(not findings, tuple(findings), replay.sequence, replay.head)


def _findings(link: Link, replay: _Replay, marks: Sequence[Mark | None]) -> Iterator[str]:
    for fault in link.faults():
        yield f"the database is damaged: {fault}"
    heads = {mark.sequence: "" for mark in marks if mark is not None}
    for row in link.rows(_ENTRIES):
        yield from replay.take(Entry.read(row[:-2]), row[-2], row[-1])
        if replay.sequence in heads:
            heads[replay.sequence] = replay.head
    yield from _compare_tables(link, replay)
    name = str(replay.birth.get("ledger", ""))
    for mark in marks:
        yield from _compare_mark(mark, replay.sequence, heads.get(mark.sequence, "") if mark else "", name)


def _compare_tables(link: Link, replay: _Replay) -> Iterator[str]:
    if replay.birth.get("schema") != schema.fingerprint(link):
        yield "the schema has foreign or changed objects (a trigger, a table, an index, a constraint)"
    meta = {name: replay.birth.get(name) for name in ("format", "version", "ledger")}
    yield from _differ("meta", dict(link.rows("SELECT name, value FROM meta")), meta)
    yield from _differ("head", list(link.rows("SELECT * FROM head")), [(1, replay.sequence, replay.head)])
    accounts = {row[0]: row[1:] for row in link.rows("SELECT name, terms, sequence FROM accounts")}
    yield from _differ("accounts", accounts, replay.accounts)
    balances = {
        row[0]: list(row[1:]) for row in link.rows("SELECT account, spent, spent_delta, cap, cap_delta FROM balances")
    }
    yield from _differ("balances", balances, replay.balances)
    answers = link.one("SELECT count(*) FROM answers")
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


def _compare_mark(mark: Mark | None, sequence: int, head: str, name: str) -> Iterator[str]:
    if mark is None:
        yield "the anchor is missing, so an older copy put back could not be told from the newest one"
    elif mark.sequence > sequence:
        yield f"the ledger ends at entry {sequence}, but entry {mark.sequence} was seen: an older copy was put back"
    elif mark.sequence and (mark.head != head or mark.ledger != name):
        yield f"entry {mark.sequence} is not the one that was seen: another history was put in its place"


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def compare_receipt(link: Link, receipt: Receipt) -> Iterator[str]:
    """Whether the entry a receipt names says what the receipt says; that it is the chain's own is checked apart."""
    row = link.one("SELECT account, amount, mac FROM entries WHERE sequence = ?", (receipt.sequence,))
    if row != (receipt.account, receipt.cost.amount, receipt.head):
        yield f"the receipt for entry {receipt.sequence} ({receipt.cost} on {receipt.account!r}) is not this ledger's"


def glance(link: Link, identity: Identity, mark: Mark | None, *, closely: bool) -> list[str]:
    """The check at opening: the head and the anchor; ``closely`` also every balance, and all of a small ledger."""
    top = link.one("SELECT sequence, mac FROM head")
    if top is None or (closely and (not isinstance(top[0], int) or top[0] <= SMALL)):
        return list(examine(link, identity, [mark]).findings)
    findings = [] if _entry_at(link, identity, top[0]) == top[1] else ["the head is not the last entry of the chain"]
    if link.one("SELECT max(sequence) FROM entries") != (top[0],):
        findings.append("there are entries beyond the head")
    there = _entry_at(link, identity, mark.sequence) if mark and mark.sequence <= top[0] else ""
    findings.extend(_compare_mark(mark, top[0], there, identity.name))
    return [*findings, *_caps(link, identity), *_spendings(link)] if closely else findings


def _entry_at(link: Link, identity: Identity, sequence: int) -> str:
    """The head at an entry, if that entry is authentic."""
    columns = ", ".join(COLUMNS)
    row = link.one(f"SELECT {columns} FROM entries WHERE sequence = ?", (sequence,))
    before = link.one("SELECT mac FROM entries WHERE sequence = ?", (sequence - 1,)) or (GENESIS,)
    entry = None if row is None else Entry.read(row)
    return entry.mac if entry and entry.authentic(identity.key, before[0]) else ""


def _caps(link: Link, identity: Identity) -> Iterator[str]:
    statement = (
        "SELECT a.name, a.sequence, a.terms = e.detail AND e.kind = 'account' AND e.account = a.name "
        "AND b.cap = e.amount AND b.cap_delta = e.delta FROM accounts a "
        "LEFT JOIN entries e ON e.sequence = a.sequence LEFT JOIN balances b ON b.account = a.name"
    )
    for name, sequence, same in list(link.rows(statement)):
        if not same or not _entry_at(link, identity, sequence):
            yield f"the terms or the cap of account {name!r} are not those it was opened with"


def _spendings(link: Link) -> Iterator[str]:
    """Balances that are not the sum of their charges, each at the level it was last raised to."""
    charged = (
        "SELECT account, SUM(level), SUM(delta) FROM (SELECT c.account, c.delta, COALESCE((SELECT MAX(r.amount) FROM entries r "
        "WHERE r.kind = 'raise' AND r.charge = c.sequence), c.amount) AS level FROM entries c WHERE c.kind = 'charge') AS x "
        "GROUP BY account"
    )
    sums = {account: (int(level), int(delta)) for account, level, delta in list(link.rows(charged))}
    for account, spent, delta in list(link.rows("SELECT account, spent, spent_delta FROM balances")):
        if sums.pop(account, (0, 0)) != (spent, delta):
            yield f"the balance of account {account!r} is not the sum of its charges"
    for account in sums:
        yield f"account {account!r} was charged but has no balance"
