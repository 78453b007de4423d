"""Where a ledger lives, and where the two files that guard it live: its key and its anchor.

A ledger is an SQLite file, a PostgreSQL database, or a store in this process's memory. The key of the chain must not
be in the database it guards: beside an SQLite file it is ``<file>.key``, otherwise (or whenever STEELYARD_HOME is
set) it is in that folder, ~/.steelyard by default, under a name made from the ledger's address.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

from steelyard.errors import InvalidTask

MEMORY = ":memory:"
_SCHEMES = ("postgresql://", "postgres://")


@dataclass(frozen=True)
class Address:
    """Where a ledger lives: ``text`` is what a handle carries, ``shown`` the same without a password."""

    kind: str
    text: str
    shown: str
    key: Path | None = None
    anchor: Path | None = None


def parse(location: str | os.PathLike[str]) -> Address:
    """Read a location: a path, a postgresql:// URL, or ``:memory:`` (which names a new store each time).

    >>> parse("postgresql://ann:secret@db/budgets").shown
    'postgresql://ann:***@db/budgets'
    """
    text = os.fspath(location)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidTask(f"a ledger is a path, a postgresql:// URL or ':memory:'; got {location!r}.")
    if text == MEMORY:
        text = MEMORY + secrets.token_hex(8)
    if text.startswith(MEMORY):
        return Address("memory", text, "the in-memory ledger")
    if text.startswith(_SCHEMES):
        return _postgres(text)
    if "://" in text:
        scheme = text.split("://", 1)[0]
        raise InvalidTask(f"a ledger cannot live at {scheme}://; use a path, a postgresql:// URL or ':memory:'.")
    return _file(Path(text).expanduser().absolute())


def home() -> Path:
    """The folder of keys and anchors that do not lie beside their ledger."""
    return Path(os.environ.get("STEELYARD_HOME") or "~/.steelyard").expanduser()


def _file(path: Path) -> Address:
    guard = path
    if os.environ.get("STEELYARD_HOME"):
        guard = home() / _guard_name(path.name, str(path.resolve()))
    return Address("sqlite", str(path), str(path), Path(f"{guard}.key"), Path(f"{guard}.anchor"))


def _postgres(text: str) -> Address:
    parts = urlsplit(text)
    asked = parse_qs(parts.query)
    host = parts.hostname or asked.get("host", [""])[0]
    address = f"{host}:{parts.port or asked.get('port', ['5432'])[0]}{parts.path}"
    guard = home() / _guard_name(parts.path.strip("/") or "postgres", address)
    return Address("postgres", text, _without_password(text), Path(f"{guard}.key"), Path(f"{guard}.anchor"))


def _without_password(text: str) -> str:
    parts = urlsplit(text)
    if not parts.password:
        return text
    user, at, rest = parts.netloc.partition(":")[0], "@", parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:***{at}{rest}"))


def _guard_name(stem: str, address: str) -> str:
    return f"{stem}-{hashlib.sha256(address.encode()).hexdigest()[:16]}"
