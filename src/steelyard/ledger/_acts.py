"""Acts of administrators: an account is frozen, unfrozen or closed for good, or something is noted. All of them are chained.

An account that is frozen or closed refuses charges, and so do all accounts below it. What was charged before may still be answered.
No act moves an amount: nothing is refunded and no cap is raised.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from steelyard.errors import AccountClosed, KeyConflict, LedgerError

if TYPE_CHECKING:
    from steelyard.ledger._transaction import Transaction

OPEN, FROZEN, CLOSED = "open", "frozen", "closed"
AFTER = {"freeze": FROZEN, "unfreeze": OPEN, "close": CLOSED}
"""The state of an account after each act."""

_STATE = "SELECT state FROM balances WHERE account = ?"
_FROZEN_AT = "SELECT COALESCE(MAX(sequence), 0) FROM entries WHERE kind = 'freeze' AND account = ?"
_BELOW_NAME = "SELECT name, terms FROM accounts WHERE substr(name, 1, {length}) = ? ORDER BY name"
_NOTED = "SELECT sequence, account, name, detail FROM entries WHERE kind = 'note' AND request = ?"


def act(account: str, kind: str, person: str, why: str, *, periods: bool = False) -> Callable[[Transaction], str]:
    """Freeze, unfreeze or close an account, and with it those of its ``periods``; nothing happens where it is so already. The state before.

    All of it is one transaction. A period that is closed, or was frozen by itself before the whole was, stays so and holds up none of the others.
    """

    def move(transaction: Transaction) -> str:
        row = transaction.one(_STATE, (account,))
        if row is None:
            raise LedgerError(f"there is no account {account!r} on this ledger.")
        before = str(row[0])
        if before == CLOSED != AFTER[kind]:
            raise AccountClosed(f"account {account!r} is closed, which is for good.", account=account, state=before)
        for name in [account, *(_along(transaction, account, kind, before) if periods else ())]:
            if transaction.one(_STATE, (name,)) not in ((AFTER[kind],), (CLOSED,)):
                transaction.execute("UPDATE balances SET state = ? WHERE account = ?", (AFTER[kind], name))
                transaction.append(kind, account=name, person=person, detail=why, at=transaction.now)
        return before

    return move


def _along(transaction: Transaction, account: str, kind: str, before: str) -> list[str]:
    """The periods that an act on their account is meant for: all, or those that were frozen with it."""
    found = _periods(transaction, account)
    if kind != "unfreeze":
        return found
    since = _frozen_at(transaction, account)
    return [name for name in found if before == FROZEN and _frozen_at(transaction, name) > since]


def _frozen_at(transaction: Transaction, account: str) -> int:
    row = transaction.one(_FROZEN_AT, (account,))
    return 0 if row is None else int(row[0])


def _periods(transaction: Transaction, account: str) -> list[str]:
    """The accounts of the periods of an account, as ``during`` names them."""
    start = f"{account}/"
    found = transaction.rows(_BELOW_NAME.format(length=len(start)), (start,))
    named = [(str(name), json.loads(terms)["unit"].get("period")) for name, terms in found]
    return [name for name, period in named if period is not None and name == f"{start}{period}"]


def note(key: str, account: str, what: str, person: str, text: str) -> Callable[[Transaction], int]:
    """Write a note, unless one with this key is there; its sequence."""

    def move(transaction: Transaction) -> int:
        row = transaction.one(_NOTED, (key,))
        if row is not None:
            if row[1:] != (account, what, text):
                raise KeyConflict(f"the key {key!r} already names another note; choose a new one.", other_request=True)
            return int(row[0])
        if account and transaction.one(_STATE, (account,)) is None:
            raise LedgerError(f"there is no account {account!r} on this ledger.")
        sequence, _ = transaction.append(
            "note", account=account, name=what, request=key, person=person, detail=text, at=transaction.now
        )
        return sequence

    return move
