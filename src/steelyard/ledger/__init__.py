"""The durable ledger: accounts, charges, receipts, one keyed hash chain; in SQLite by default, PostgreSQL for teams."""

from __future__ import annotations

from steelyard.ledger._ledger import Ledger, LedgerAccount, open_account
from steelyard.ledger._lock import Lock

Account = LedgerAccount  # what a user holds; ``steelyard.account.Account`` is the protocol that it implements

__all__ = ["Account", "Ledger", "Lock", "open_account"]
