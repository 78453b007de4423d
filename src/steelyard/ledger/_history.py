"""What an account was charged, and those below it: one line for each charge, at the level it was last raised to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steelyard.account import Receipt
from steelyard.ledger._chain import COLUMNS, Entry
from steelyard.ledger._connection import Connection
from steelyard.privacy import Currency, Loss

if TYPE_CHECKING:
    from steelyard.ledger._store import Store

_CHARGES = f"SELECT {', '.join(COLUMNS)} FROM entries WHERE kind = 'charge' AND account = ?"
_RAISES = "SELECT charge, sequence, amount, mac FROM entries WHERE kind = 'raise' AND account = ? ORDER BY sequence"
_ANSWERS = "SELECT DISTINCT charge FROM entries WHERE kind = 'answer' AND account = ?"
_CHILDREN = "SELECT account FROM balances WHERE parent = ? ORDER BY account"


@dataclass(frozen=True)
class Spent:
    """One charge: when, on which account, by whom, for what, of which table, at what cost, and whether it was answered."""

    at: str
    account: str
    person: str
    key: str
    task: Any
    table: str
    view: str
    cost: Loss
    answered: bool
    receipt: Receipt


def history(store: Store, account: str, currency: Currency) -> list[Spent]:
    """The charges of an account and of all below it, in the order of the chain."""
    with store.reading() as connection:
        found = [each for name in _below(connection, account) for each in _of(connection, store, name, currency)]
    return [spent for _, spent in sorted(found, key=lambda each: each[0])]


def _below(connection: Connection, account: str) -> list[str]:
    names = [account]
    for name in names:  # grows while it is walked
        names.extend(row[0] for row in list(connection.rows(_CHILDREN, (name,))))
    return names


def _of(connection: Connection, store: Store, account: str, currency: Currency) -> list[tuple[int, Spent]]:
    raised = {row[0]: row[1:] for row in list(connection.rows(_RAISES, (account,)))}
    answered = {row[0] for row in list(connection.rows(_ANSWERS, (account,)))}
    found = []
    for row in list(connection.rows(_CHARGES, (account,))):
        made = Entry.read(row)
        at, amount, head = raised.get(made.sequence, (made.sequence, made.amount, made.mac))
        cost = Loss(currency, amount, made.delta)
        receipt = store.signed(Receipt(at, head, cost, account, store.identity.name))
        spent = Spent(made.at, account, made.person, made.name, made.task, made.table, made.view, cost,
                      made.sequence in answered, receipt)  # fmt: skip
        found.append((made.sequence, spent))
    return found
