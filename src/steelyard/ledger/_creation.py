"""How a ledger begins, and how one is recognized: its tables, its key, and an anchor at zero.

The key and the anchor are made before the ledger, so that an anchor that remembers entries beside an empty
database, or a key without an anchor, can mean one thing only: the ledger was taken away.
The tables are the same on both engines. ``entries`` and ``answers`` are only ever inserted into. ``balances`` and ``head`` are the two
mutable ones: both are updated in the transaction that inserts the entry, and both can be recomputed from the entries.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from steelyard.errors import LedgerError, LedgerForeign, LedgerTampered, LedgerTooNew
from steelyard.ledger._address import Address
from steelyard.ledger._anchor import Anchor, FileAnchor, MemoryAnchor, folder_lock, sync_folder, write_once
from steelyard.ledger._chain import GENESIS, Identity
from steelyard.ledger._connection import Connection
from steelyard.ledger._transaction import Transaction
from steelyard.privacy import canonical

VERSION = 2
FORMAT = "steelyard ledger"

TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)",
    "CREATE TABLE head (one {int} PRIMARY KEY NOT NULL CHECK (one = 1), sequence {int} NOT NULL, mac TEXT NOT NULL)",
    "CREATE TABLE accounts (name TEXT PRIMARY KEY NOT NULL, terms TEXT NOT NULL, sequence {int} NOT NULL)",
    "CREATE TABLE balances (account TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, "
    "state TEXT NOT NULL CHECK (state IN ('open', 'frozen', 'closed')), "
    "spent {int} NOT NULL, spent_delta {int} NOT NULL, cap {int} NOT NULL, cap_delta {int} NOT NULL, "
    "CHECK (spent >= 0 AND spent <= cap AND spent_delta >= 0 AND spent_delta <= cap_delta))",
    "CREATE TABLE entries (sequence {int} PRIMARY KEY NOT NULL, kind TEXT NOT NULL, account TEXT NOT NULL, "
    "name TEXT NOT NULL, request TEXT NOT NULL, amount {int} NOT NULL CHECK (amount >= 0), "
    "delta {int} NOT NULL CHECK (delta >= 0), charge {int} NOT NULL, step {int} NOT NULL, digest TEXT NOT NULL, "
    "detail TEXT NOT NULL, at TEXT NOT NULL, person TEXT NOT NULL, asked TEXT NOT NULL, mac TEXT NOT NULL)",
    "CREATE UNIQUE INDEX one_charge_per_key ON entries (account, name) WHERE kind = 'charge'",
    "CREATE UNIQUE INDEX one_note_per_key ON entries (request) WHERE kind = 'note'",
    "CREATE INDEX raises_of_a_charge ON entries (charge, sequence) WHERE kind = 'raise'",
    "CREATE UNIQUE INDEX one_answer_per_step ON entries (charge, step) WHERE kind = 'answer'",
    "CREATE TABLE answers (charge {int} NOT NULL, step {int} NOT NULL, sequence {int} NOT NULL, "
    "payload {bytes} NOT NULL, PRIMARY KEY (charge, step))",
)


def exists(where: Address, connect: Callable[[], Connection]) -> bool:
    """Whether there is a ledger; a database of something else, or of a newer steelyard, is refused."""
    if where.kind == "memory" or (where.kind == "sqlite" and _nothing_at(Path(where.text))):
        return False
    with contextlib.closing(connect()) as connection:
        tables = connection.tables()
        if not tables:
            return False
        meta = dict(connection.rows("SELECT name, value FROM meta")) if "meta" in tables else {}
    if meta.get("format") != FORMAT:
        raise LedgerForeign(f"{where.shown} is a database of something else, not a ledger; choose another place.")
    _check_version(str(meta.get("version", "")), where.shown)
    return True


def _nothing_at(path: Path) -> bool:
    if not path.parent.is_dir():
        raise LedgerError(f"{path} cannot be opened: there is no folder {path.parent}; make it first.")
    return not path.exists()


def _check_version(text: str, shown: str) -> None:
    found = int(text) if text.isdecimal() and len(text) < 10 else 0
    if found > VERSION:
        raise LedgerTooNew(
            f"{shown} was written by a newer steelyard (format {found}; this one knows {VERSION}). "
            "Upgrade steelyard; the ledger was not touched.",
            found=found,
            known=VERSION,
        )
    if found == 1:
        raise LedgerError(
            f"{shown} is a ledger of format 1, and this steelyard writes format {VERSION}. Nothing was touched. Bring it forward, after a "
            f"full check, with: steelyard ledger upgrade {shown}"
        )


def key_and_anchor(where: Address, *, create: bool) -> tuple[Identity, Anchor]:
    """The key and the anchor of a ledger."""
    identity = Identity(find_key(where.key, create=create, shown=where.shown))
    return identity, MemoryAnchor() if where.anchor is None else FileAnchor(where.anchor, identity.key)


def prepare(where: Address, exists: Callable[[], bool]) -> tuple[Identity, Anchor]:
    """Make the key and an anchor at zero, or refuse when either of them remembers a ledger that is gone."""
    assert where.key is not None
    with folder_lock(where.key.parent):
        had_key = where.key.exists()
        identity, anchor = key_and_anchor(where, create=True)
        position = anchor.read()
        if position is None and had_key and not os.environ.get("STEELYARD_LEDGER_KEY"):
            raise _gone(where, f"its key {where.key} is there")
        if position is not None and position.sequence > 0 and not exists():  # unless another process just made it
            raise _gone(where, f"its anchor {where.anchor} remembers {position.sequence} entries")
        if position is None and isinstance(anchor, FileAnchor):
            try:
                anchor.begin()
            except OSError:  # a key alone would be taken for the rest of a ledger
                if not had_key:
                    where.key.unlink(missing_ok=True)
                raise
    return identity, anchor


def _gone(where: Address, but: str) -> LedgerTampered:
    return LedgerTampered(
        f"{where.shown} is empty, but {but}: the ledger was removed or replaced. Bring it back. Only if its budgets really "
        "are meant to begin anew, move the anchor and the key away.",
        findings=[f"the ledger is gone: {but}"],
    )


def make_tables(transaction: Transaction) -> None:
    """Make the tables and the first entry of the chain, unless another process just did."""
    if not transaction.empty:
        return
    connection, name = transaction.connection, secrets.token_hex(16)
    for statement in TABLES:
        connection.execute(statement.format(**connection.types))
    meta = {"format": FORMAT, "version": str(VERSION), "ledger": name}
    for item in meta.items():
        connection.execute("INSERT INTO meta (name, value) VALUES (?, ?)", item)
    connection.execute("INSERT INTO head (one, sequence, mac) VALUES (1, 0, ?)", (GENESIS,))
    transaction.identity.name = name
    detail = meta | {"schema": connection.fingerprint(), "key": key_name(transaction.identity.key)}
    transaction.append("ledger", detail=canonical(detail).decode(), at=transaction.now)
    transaction.empty = False


def settle(where: Address) -> None:
    """Make the new file's name durable."""
    if where.kind == "sqlite":
        sync_folder(Path(where.text).parent)


def recognize(connection: Connection, where: Address, key: bytes) -> str:
    """The ledger's random name, after checking that the key is its own."""
    meta = dict(connection.rows("SELECT name, value FROM meta"))
    first = connection.one("SELECT detail FROM entries WHERE sequence = 1")
    try:
        named = str(json.loads(first[0])["key"]) if first else ""
    except (ValueError, KeyError, TypeError):
        named = ""
    if named and named != key_name(key):
        source = "STEELYARD_LEDGER_KEY" if os.environ.get("STEELYARD_LEDGER_KEY") else where.key
        raise LedgerError(
            f"the key in {source} (named {key_name(key)}) is not the key of {where.shown} (named {named}); "
            "nothing can be checked or charged with it."
        )
    return str(meta.get("ledger", ""))


def find_key(path: Path | None, *, create: bool, shown: str) -> bytes:
    """The chain's key: STEELYARD_LEDGER_KEY, or the key file (made when ``create``); a memory store gets a new one."""
    given = os.environ.get("STEELYARD_LEDGER_KEY")
    if path is None:
        return secrets.token_bytes(32)
    if given:
        return _read_key(given, "STEELYARD_LEDGER_KEY")
    if create and not path.exists():
        write_once(path, secrets.token_hex(32).encode() + b"\n")
    try:
        return _read_key(path.read_text(), str(path))
    except FileNotFoundError:
        raise LedgerError(
            f"the key of {shown} is not at {path}. If the ledger was moved, move its .key and .anchor files with it; "
            "a key kept elsewhere can be given in STEELYARD_LEDGER_KEY."
        ) from None
    except OSError as error:
        raise LedgerError(f"the key {path} cannot be read: {error.strerror}.") from None


def _read_key(text: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) < 32:
        raise LedgerError(f"{where} must hold at least 64 hexadecimal digits.")
    return key


def key_name(key: bytes) -> str:
    """A public name of a key, to tell a wrong key from a tampered ledger; it gives nothing of the key away."""
    return hmac.digest(key, b"steelyard key name", hashlib.sha256).hex()[:16]
