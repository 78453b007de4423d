"""Does the ledger still say what was written? Streams the chain once and recomputes every other table from it.

Found: an edited, added, dropped or reordered row in any table, a raised cap, a foreign trigger or table, an index that
disagrees with its table, a charge below the price of what it says was done, and (through the anchor, or
through a receipt somebody kept) an older copy put back.
Not found: a consistent older copy together with its older anchor, by somebody who shows no later receipt.
Whether enough was charged is asked in ``_prices``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.account import Receipt
from steelyard.errors import LedgerError
from steelyard.ledger._acts import AFTER, OPEN
from steelyard.ledger._anchor import older
from steelyard.ledger._chain import COLUMNS, GENESIS, Entry, Identity, Position
from steelyard.ledger._connection import Connection
from steelyard.ledger._prices import Prices
from steelyard.ledger._receipts import public_key, verify_receipt
from steelyard.ledger._replay import LedgerReplay, parsed
from steelyard.ledger._transaction import PARENT, SPENT, SPENT_DELTA, STATE

SMALL = 2000
_ENOUGH = 20
_ENTRIES = (
    f"SELECT {', '.join('e.' + column for column in COLUMNS)}, a.sequence, a.payload FROM entries e "
    "LEFT JOIN answers a ON e.kind = 'answer' AND a.charge = e.charge AND a.step = e.step ORDER BY e.sequence"
)
_BALANCES = "SELECT account, parent, state, spent, spent_delta, cap, cap_delta FROM balances"

_RECEIPTED = (
    "SELECT e.account, e.amount, COALESCE(c.delta, e.delta), e.mac, a.terms FROM entries e JOIN accounts a ON a.name = e.account "
    "LEFT JOIN entries c ON e.kind = 'raise' AND c.sequence = e.charge WHERE e.kind IN ('charge', 'raise') AND e.sequence = ?"
)


@dataclass(frozen=True)
class Verification:
    """What a verification found: nothing, if ``ok``."""

    ok: bool
    findings: tuple[str, ...]
    entries: int
    head: str


def examine(
    connection: Connection,
    identity: Identity,
    positions: Sequence[Position | None],
    *,
    prices: bool = False,
    schema: str | None = None,
) -> Verification:
    """Check everything; ``positions`` are points the chain must pass through, None one that should be there and is not.

    ``prices`` are worked out again only where that is asked for: a price may take tenths of a second. ``schema`` is the fingerprint to
    compare, where it is not that of now.
    """
    replay, findings = LedgerReplay(identity.key, Prices() if prices else None), []
    try:
        for finding in _findings(connection, replay, positions, schema or connection.fingerprint()):
            findings.append(finding)
            if len(findings) == _ENOUGH:
                findings.append("and perhaps more: the check stopped here")
                break
        if not findings:  # a raise may be authentic and still start from a level that its charge never had
            findings.extend(_spendings(connection, _balances(connection)))
    except LedgerError as error:  # the engine cannot even read what is there
        findings.append(f"the ledger cannot be read to its end: {error}")
    return Verification(not findings, tuple(findings), replay.sequence, replay.head)


def _findings(
    connection: Connection, replay: LedgerReplay, positions: Sequence[Position | None], schema: str
) -> Iterator[str]:
    for fault in connection.faults():
        yield f"the database is damaged: {fault}"
    heads = {position.sequence: "" for position in positions if position is not None}
    for row in connection.rows(_ENTRIES):
        yield from replay.take(Entry.read(row[:-2]), row[-2], row[-1])
        if replay.sequence in heads:
            heads[replay.sequence] = replay.head
    yield from _compare_tables(connection, replay, schema)
    name = str(replay.origin.get("ledger", ""))
    for position in positions:
        there = heads.get(position.sequence, "") if position else ""
        yield from _compare_position(position, replay.sequence, there, name)


def _compare_tables(connection: Connection, replay: LedgerReplay, schema: str) -> Iterator[str]:
    if replay.origin.get("schema") != schema:
        yield "the schema has foreign or changed objects (a trigger, a table, an index, a constraint)"
    meta = {name: replay.origin.get(name) for name in ("format", "version", "ledger")}
    yield from _differ("meta", dict(connection.rows("SELECT name, value FROM meta")), meta)
    yield from _differ("head", list(connection.rows("SELECT * FROM head")), [(1, replay.sequence, replay.head)])
    accounts = {row[0]: row[1:] for row in connection.rows("SELECT name, terms, sequence FROM accounts")}
    yield from _differ("accounts", accounts, replay.accounts)
    yield from _differ("balances", _balances(connection), replay.balances)
    answers = connection.one("SELECT count(*) FROM answers")
    if answers != (replay.answers,):
        yield f"there are {answers[0] if answers else 0} stored answers where the chain has {replay.answers}"


def _balances(connection: Connection) -> dict[str, list[Any]]:
    return {row[0]: list(row[1:]) for row in connection.rows(_BALANCES)}


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


def compare_receipt(connection: Connection, receipt: Receipt, key: bytes) -> Iterator[str]:
    """Whether the entry a receipt names says what the receipt says, and a signature is this ledger's; that the entry is the chain's own is checked apart."""
    if receipt.signature and not verify_receipt(receipt, public_key(key)):
        yield f"the signature of the receipt for entry {receipt.sequence} is not this ledger's"
    row = connection.one(_RECEIPTED, (receipt.sequence,))
    said = receipt.account, receipt.cost.amount, receipt.cost.delta, receipt.head
    if row is None or row[:4] != said or _currency(row[4]) != receipt.cost.currency:
        yield f"the receipt for entry {receipt.sequence} ({receipt.cost} on {receipt.account!r}) is not this ledger's"


def _currency(terms: str) -> object:
    cap = parsed(terms).get("cap")
    return cap.get("currency") if isinstance(cap, dict) else None


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
    return [*findings, *_closely(connection, identity)] if closely else findings


def _closely(connection: Connection, identity: Identity) -> Iterator[str]:
    balances = _balances(connection)
    yield from _caps(connection, identity, balances)
    yield from _states(connection, balances)
    yield from _spendings(connection, balances)


def _entry_at(connection: Connection, identity: Identity, sequence: int) -> str:
    """The head at an entry, if that entry is authentic."""
    columns = ", ".join(COLUMNS)
    row = connection.one(f"SELECT {columns} FROM entries WHERE sequence = ?", (sequence,))
    before = connection.one("SELECT mac FROM entries WHERE sequence = ?", (sequence - 1,)) or (GENESIS,)
    entry = None if row is None else Entry.read(row)
    return entry.mac if entry and entry.authentic(identity.key, before[0]) else ""


def _caps(connection: Connection, identity: Identity, balances: dict[str, list[Any]]) -> Iterator[str]:
    statement = (
        "SELECT a.name, a.sequence, a.terms, a.terms = e.detail AND e.kind = 'account' AND e.account = a.name "
        "AND b.cap = e.amount AND b.cap_delta = e.delta FROM accounts a "
        "LEFT JOIN entries e ON e.sequence = a.sequence LEFT JOIN balances b ON b.account = a.name"
    )
    for name, sequence, terms, same in list(connection.rows(statement)):
        above = (parsed(terms).get("parent") or "") == balances[name][PARENT] if name in balances else False
        if not same or not above or not _entry_at(connection, identity, sequence):
            yield f"the terms, the cap or the parent of account {name!r} are not those it was opened with"


def _states(connection: Connection, balances: dict[str, list[Any]]) -> Iterator[str]:
    """Accounts that are not as the last act on them left them."""
    acts = "SELECT account, kind FROM entries WHERE kind IN ('freeze', 'unfreeze', 'close') ORDER BY sequence"
    left = {account: AFTER[kind] for account, kind in list(connection.rows(acts))}
    for account, balance in balances.items():
        if balance[STATE] != left.get(account, OPEN):
            yield f"account {account!r} is {balance[STATE]}, and the last act on it left it {left.get(account, OPEN)}"


def _spendings(connection: Connection, balances: dict[str, list[Any]]) -> Iterator[str]:
    """Balances that are not the sum of the charges on them and below them, each at the level it was last raised to."""
    charged = (
        "SELECT account, SUM(level), SUM(delta) FROM (SELECT c.account, c.delta, COALESCE((SELECT MAX(r.amount) FROM entries r "
        "WHERE r.kind = 'raise' AND r.charge = c.sequence), c.amount) AS level FROM entries c WHERE c.kind = 'charge') AS x "
        "GROUP BY account"
    )
    sums = {account: [0, 0] for account in balances}
    for account, level, delta in list(connection.rows(charged)):
        if account not in balances:
            yield f"account {account!r} was charged but has no balance"
        for above in _line(account, balances):
            sums[above][0] += int(level)
            sums[above][1] += int(delta)
    for account, balance in balances.items():
        if sums[account] != [balance[SPENT], balance[SPENT_DELTA]]:
            yield f"the balance of account {account!r} is not the sum of its charges"


def _line(account: str, balances: dict[str, list[Any]]) -> list[str]:
    """An account and those above it; a circle, which no chain can make, is followed once."""
    line: list[str] = []
    while account in balances and account not in line:
        line.append(account)
        account = balances[account][PARENT]
    return line
