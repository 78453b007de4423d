"""How a ledger begins, and how one is recognized.

The key and an anchor at zero are made before the ledger, so that an anchor that remembers entries beside an empty
database, or a key without an anchor, can mean one thing only: the ledger was taken away.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from steelyard.errors import LedgerError, LedgerForeign, LedgerTampered, LedgerTooNew
from steelyard.ledger import guard, schema
from steelyard.ledger.guard import GENESIS, Anchor, FileAnchor, MemoryAnchor
from steelyard.ledger.link import Link
from steelyard.ledger.place import Place
from steelyard.ledger.transaction import Identity, Transaction
from steelyard.privacy import canonical


def exists(where: Place, connect: Callable[[], Link]) -> bool:
    """Whether there is a ledger; a database of something else, or of a newer steelyard, is refused."""
    if where.kind == "memory" or (where.kind == "sqlite" and _nothing_at(Path(where.text))):
        return False
    with contextlib.closing(connect()) as link:
        tables = link.tables()
        if not tables:
            return False
        meta = dict(link.rows("SELECT name, value FROM meta")) if "meta" in tables else {}
    if meta.get("format") != schema.FORMAT:
        raise LedgerForeign(f"{where.shown} is a database of something else, not a ledger; choose another place.")
    _check_version(str(meta.get("version", "")), where.shown)
    return True


def _nothing_at(path: Path) -> bool:
    if not path.parent.is_dir():
        raise LedgerError(f"{path} cannot be opened: there is no folder {path.parent}; make it first.")
    return not path.exists()


def _check_version(text: str, shown: str) -> None:
    found = int(text) if text.isdecimal() and len(text) < 10 else 0
    if found > schema.VERSION:
        raise LedgerTooNew(
            f"{shown} was written by a newer steelyard (format {found}; this one knows {schema.VERSION}). "
            "Upgrade steelyard; the ledger was not touched.",
            found=found,
            known=schema.VERSION,
        )


def guards(where: Place, *, create: bool) -> tuple[Identity, Anchor]:
    """The key and the anchor of a ledger."""
    identity = Identity(guard.find_key(where.key, create=create, shown=where.shown))
    return identity, MemoryAnchor() if where.anchor is None else FileAnchor(where.anchor, identity.key)


def prepare(where: Place, exists: Callable[[], bool]) -> tuple[Identity, Anchor]:
    """Make the key and an anchor at zero, or refuse when either of them remembers a ledger that is gone."""
    assert where.key is not None
    with guard.folder_lock(where.key.parent):
        had_key = where.key.exists()
        identity, anchor = guards(where, create=True)
        mark = anchor.read()
        if mark is None and had_key and not os.environ.get("STEELYARD_LEDGER_KEY"):
            raise _gone(where, f"its key {where.key} is there")
        if mark is not None and mark.sequence > 0 and not exists():  # unless another process just made it
            raise _gone(where, f"its anchor {where.anchor} remembers {mark.sequence} entries")
        if mark is None and isinstance(anchor, FileAnchor):
            try:
                anchor.begin()
            except OSError:  # a key alone would be taken for the rest of a ledger
                if not had_key:
                    where.key.unlink(missing_ok=True)
                raise
    return identity, anchor


def _gone(where: Place, but: str) -> LedgerTampered:
    return LedgerTampered(
        f"{where.shown} is empty, but {but}: the ledger was removed or replaced. Bring it back. Only if its budgets really "
        "are meant to begin anew, move the anchor and the key away.",
        findings=[f"the ledger is gone: {but}"],
    )


def create(transaction: Transaction) -> None:
    """Make the tables and the first entry of the chain, unless another process just did."""
    if not transaction.empty:
        return
    link, name = transaction.link, secrets.token_hex(16)
    for statement in schema.TABLES:
        link.execute(statement.format(**link.types))
    meta = {"format": schema.FORMAT, "version": str(schema.VERSION), "ledger": name}
    for item in meta.items():
        link.execute("INSERT INTO meta (name, value) VALUES (?, ?)", item)
    link.execute("INSERT INTO head (one, sequence, mac) VALUES (1, 0, ?)", (GENESIS,))
    transaction.identity.name = name
    detail = meta | {"schema": schema.fingerprint(link), "key": guard.key_name(transaction.identity.key)}
    transaction.append("ledger", detail=canonical(detail).decode(), at=transaction.now)
    transaction.empty = False


def settle(where: Place) -> None:
    """Make the new file's name durable."""
    if where.kind == "sqlite":
        guard.sync_folder(Path(where.text).parent)


def recognize(link: Link, where: Place, key: bytes) -> str:
    """The ledger's random name, after checking that the key is its own."""
    meta = dict(link.rows("SELECT name, value FROM meta"))
    first = link.one("SELECT detail FROM entries WHERE sequence = 1")
    try:
        named = str(json.loads(first[0])["key"]) if first else ""
    except (ValueError, KeyError, TypeError):
        named = ""
    if named and named != guard.key_name(key):
        source = "STEELYARD_LEDGER_KEY" if os.environ.get("STEELYARD_LEDGER_KEY") else where.key
        raise LedgerError(
            f"the key in {source} (named {guard.key_name(key)}) is not the key of {where.shown} (named {named}); "
            "nothing can be checked or charged with it."
        )
    return str(meta.get("ledger", ""))
