"""The durable ledger: accounts, charges, receipts, one keyed hash chain; in SQLite by default, PostgreSQL for teams."""

from __future__ import annotations

from steelyard.account import Allowance, Charge, Receipt
from steelyard.ledger.account import LedgerAccount, open_account
from steelyard.ledger.book import Ledger
from steelyard.ledger.chain import Entry
from steelyard.ledger.verify import Report

Account = LedgerAccount  # what a user holds; ``steelyard.account.Account`` is the protocol that it implements

__all__ = ["Account", "Allowance", "Charge", "Entry", "Ledger", "LedgerAccount", "Receipt", "Report", "open_account"]
