"""The tables of a ledger, the same on both engines, and the version they were written with.

``entries`` and ``answers`` are only ever inserted into. ``balances`` and ``head`` are the two mutable tables: both are
updated in the transaction that inserts the entry, and both can be recomputed from the entries.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from steelyard.privacy import canonical

VERSION = 1
FORMAT = "steelyard ledger"

TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)",
    "CREATE TABLE head (one {int} PRIMARY KEY NOT NULL CHECK (one = 1), sequence {int} NOT NULL, mac TEXT NOT NULL)",
    "CREATE TABLE accounts (name TEXT PRIMARY KEY NOT NULL, terms TEXT NOT NULL, sequence {int} NOT NULL)",
    "CREATE TABLE balances (account TEXT PRIMARY KEY NOT NULL, spent {int} NOT NULL, spent_delta {int} NOT NULL, "
    "cap {int} NOT NULL, cap_delta {int} NOT NULL, "
    "CHECK (spent >= 0 AND spent <= cap AND spent_delta >= 0 AND spent_delta <= cap_delta))",
    "CREATE TABLE entries (sequence {int} PRIMARY KEY NOT NULL, kind TEXT NOT NULL, account TEXT NOT NULL, "
    "name TEXT NOT NULL, request TEXT NOT NULL, amount {int} NOT NULL CHECK (amount >= 0), "
    "delta {int} NOT NULL CHECK (delta >= 0), charge {int} NOT NULL, step {int} NOT NULL, digest TEXT NOT NULL, "
    "detail TEXT NOT NULL, at TEXT NOT NULL, mac TEXT NOT NULL)",
    "CREATE UNIQUE INDEX one_charge_per_key ON entries (account, name) WHERE kind = 'charge'",
    "CREATE INDEX raises_of_a_charge ON entries (charge, sequence) WHERE kind = 'raise'",
    "CREATE UNIQUE INDEX one_answer_per_step ON entries (charge, step) WHERE kind = 'answer'",
    "CREATE TABLE answers (charge {int} NOT NULL, step {int} NOT NULL, sequence {int} NOT NULL, "
    "payload {bytes} NOT NULL, PRIMARY KEY (charge, step))",
)


class Describes(Protocol):
    """Whatever can list the schema objects it finds."""

    def objects(self) -> list[str]:
        """Every table, index, constraint, trigger, view and rule of the ledger, as text, sorted."""


def fingerprint(link: Describes) -> str:
    """The digest of every schema object; chained at the ledger's birth, so a foreign trigger is found."""
    return hashlib.sha256(canonical(link.objects())).hexdigest()
