"""What a server is told before it starts: one frozen dataclass, read from a TOML file and flags; an unknown name is refused.

Nothing here is secret but the addresses of databases, which are never shown.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from steelyard.errors import InvalidTask

LOCAL = ("127.0.0.1", "localhost", "::1")
MEGABYTE = 1 << 20
SPARK = "spark:"


@dataclass(frozen=True)
class Config:
    """Where a server lives, what it may open, and its limits; every field has a default for one person on one machine.

    ``slot`` is how many seconds after its charge an answer may first be seen; then at twice that, four times, and so on. ``roots``
    are the folders below which files may be registered, by a name that people see; ``sources`` are addresses, by theirs. ``spark`` is where
    sources that begin with ``spark:`` are read: a master such as ``local[4]``, or a Connect address such as ``sc://spark:15002``.
    """

    folder: Path = field(
        default_factory=lambda: Path(os.environ.get("STEELYARD_SERVE", "~/.steelyard/serve")).expanduser()
    )
    host: str = "127.0.0.1"
    port: int = 8020
    public_url: str = ""
    trusted_proxy: str = ""
    ledger: str = ""
    database: str = ""
    roots: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    spark: str = ""
    slot: float = 0.0
    plans_per_second: float = 20.0
    asks_per_second: float = 20.0
    sign_ins_per_minute: float = 10.0
    queue: int = 1000
    queue_of_one: int = 50
    largest_request: int = MEGABYTE
    largest_upload: int = 1024 * MEGABYTE
    largest_submission: int = 32 * MEGABYTE
    all_uploads: int = 20 * 1024 * MEGABYTE
    log: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder).expanduser())
        for name in ("roots", "sources"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        if self.host not in LOCAL and not self.public_url:
            raise InvalidTask(
                f"to listen on {self.host} a server needs --public-url https://...: the address people will use, which decides "
                "the hosts it answers to. Without one it listens on this machine alone."
            )
        if self.public_url:
            found = urlsplit(self.public_url)
            if found.scheme != "https" and found.hostname not in LOCAL:
                raise InvalidTask("--public-url must begin with https://: cookies and answers travel over it.")
        if any(each.startswith(SPARK) for each in self.sources.values()) and not self.spark:
            raise InvalidTask('a source that begins with "spark:" needs the setting spark, such as spark = "local[4]".')
        if not 0 <= self.slot <= 3600:
            raise InvalidTask("slot is a number of seconds from 0 to 3600.")

    @property
    def origin(self) -> str:
        """The address that pages and links begin with."""
        if self.public_url:
            return self.public_url.rstrip("/")
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """The Host headers that are answered; any other is a page of somebody else that found its way here."""
        own = urlsplit(self.origin).netloc
        local = [f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]")] if not self.public_url else []
        return frozenset({own, *local})

    @property
    def secure(self) -> bool:
        """Whether people reach it over TLS."""
        return self.origin.startswith("https://")

    @property
    def cookie(self) -> str:
        """The name of the session's cookie; cookies know no ports, so it carries its own."""
        return f"__Host-steelyard-{self.port}"

    @property
    def ledger_address(self) -> str:
        """Where the ledger is."""
        return self.ledger or str(self.folder / "ledger.db")

    @property
    def database_address(self) -> str:
        """Where the server's own records are."""
        return self.database or str(self.folder / "server.db")


def read_config(path: str | None = None, **flags: Any) -> Config:
    """The configuration of a TOML file, with flags over it; None stands for a flag that was not given."""
    given = _read(path) if path else {}
    known = {each.name for each in fields(Config)}
    odd = sorted(set(given) - known)
    if odd:
        raise InvalidTask(f"{path} has no setting {odd[0]!r}; it has {', '.join(sorted(known))}.")
    chosen = {**given, **{name: value for name, value in flags.items() if value is not None}}
    try:
        return Config(**chosen)
    except TypeError as fault:
        raise InvalidTask(f"the configuration cannot be read ({fault}).") from None


def _read(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InvalidTask(f"{path} is no configuration in TOML ({type(problem).__name__}).") from None
