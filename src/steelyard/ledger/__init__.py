"""The durable ledger: accounts, charges, receipts, one keyed hash chain; in SQLite by default, PostgreSQL for teams."""

from __future__ import annotations

from steelyard.ledger.account import Account, open_account
from steelyard.ledger.allowance import Allowance
from steelyard.ledger.book import Ledger
from steelyard.ledger.chain import Entry
from steelyard.ledger.charge import Charge
from steelyard.ledger.receipt import Receipt
from steelyard.ledger.verify import Report

__all__ = ["Account", "Allowance", "Charge", "Entry", "Ledger", "Receipt", "Report", "open_account"]
