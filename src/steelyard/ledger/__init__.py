"""The durable ledger: accounts, charges, receipts, one keyed hash chain; in SQLite by default, PostgreSQL for teams.

Each name loads its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.ledger._account import Account
    from steelyard.ledger._grants import grant
    from steelyard.ledger._history import Spent as Spent
    from steelyard.ledger._ledger import Ledger, open_account
    from steelyard.ledger._lock import Lock as Lock
    from steelyard.ledger._receipts import verify_receipt
    from steelyard.ledger._upgrade import upgrade

__all__ = ["Account", "Ledger", "grant", "open_account", "upgrade", "verify_receipt"]
_HOMES = {
    "_account": ("Account",),
    "_grants": ("grant",),
    "_history": ("Spent",),
    "_ledger": ("Ledger", "open_account"),
    "_lock": ("Lock",),
    "_receipts": ("verify_receipt",),
    "_upgrade": ("upgrade",),
}
__getattr__ = loading(__name__, _HOMES)
