"""The durable ledger: accounts, charges, receipts, one keyed hash chain; in SQLite by default, PostgreSQL for teams."""

from __future__ import annotations

from steelyard.ledger._account import LedgerAccount
from steelyard.ledger._grants import grant
from steelyard.ledger._history import Spent
from steelyard.ledger._ledger import Ledger, open_account
from steelyard.ledger._lock import Lock
from steelyard.ledger._receipts import verify_receipt
from steelyard.ledger._upgrade import upgrade

Account = LedgerAccount
"""What a user holds; ``steelyard.account.Account`` is the protocol that it implements."""

__all__ = ["Account", "Ledger", "Lock", "Spent", "grant", "open_account", "upgrade", "verify_receipt"]
