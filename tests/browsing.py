"""Somebody who speaks to the web process without a network: one request in, one response out; and a server on an empty folder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from steelyard.ledger import open_account
from steelyard.privacy import users
from steelyard.server import Config, Server, make_app
from steelyard.server._worker import Worker

HOST = "127.0.0.1:8020"
COLUMNS = {
    "user_id": [1, 1, 2, 3, 3, 3],
    "amount": [5.0, 7.0, 3.0, 1.0, 1.0, 1.0],
    "country": ["FR", "FR", "DE", "FR", "DE", "DE"],
}
SUM = {"type": "Sum", "column": "amount", "epsilon": "0.25", "cap": 10}


@dataclass
class Seen:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Browser:
    """A person's program or browser: it keeps a token, or cookies."""

    app: Any
    token: str = ""
    cookies: dict[str, str] = field(default_factory=dict)

    def ask(
        self,
        method: str,
        path: str,
        data: Any = None,
        *,
        form: Mapping[str, str] | None = None,
        raw: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Seen:
        """One request."""
        sent = {"host": HOST, "accept": "application/json"}
        if data is not None:
            raw, sent["content-type"] = json.dumps(data).encode(), "application/json"
        if form is not None:
            raw, sent["content-type"] = urlencode(form).encode(), "application/x-www-form-urlencoded"
            sent["sec-fetch-site"] = "same-origin"
        if self.token:
            sent["authorization"] = f"Bearer {self.token}"
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            sent.setdefault("sec-fetch-site", "same-origin")
        if raw or method not in ("GET", "HEAD"):
            sent["content-length"] = str(len(raw))
        sent |= {name.lower(): value for name, value in (headers or {}).items()}
        seen = asyncio.run(_one(self.app, method, path, {n: v for n, v in sent.items() if v}, raw))
        cookie = seen.headers.get("set-cookie", "")
        if cookie:
            name, _, rest = cookie.partition("=")
            self.cookies[name] = rest.partition(";")[0]
        return seen

    def get(self, path: str, **more: Any) -> Seen:
        """Look at an address."""
        return self.ask("GET", path, **more)

    def post(self, path: str, data: Any = None, **more: Any) -> Seen:
        """Send something to an address."""
        return self.ask("POST", path, data, **more)


async def _one(app: Any, method: str, path: str, headers: dict[str, str], body: bytes) -> Seen:
    path, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": query.encode(), "root_path": "", "client": ("127.0.0.1", 50000), "server": ("127.0.0.1", 8020),
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
    }  # fmt: skip
    sent: list[dict[str, Any]] = []
    given = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not given:
            await asyncio.Event().wait()  # it stays on the line until the response is there
        return given.pop()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    app._limiters = None  # it belongs to the loop of one request here
    await app(scope, receive, send)
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Seen(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))


@dataclass
class Team:
    """A server on an empty folder: a set of six rows, its custodian, two analysts, an officer and a stranger."""

    server: Server
    worker: Worker
    app: Any
    params: dict[str, str] = field(default_factory=dict)

    def browser(self, name: str, *, by: str = "token", scope: str = "ask") -> Browser:
        """Somebody who is signed in, by a token or by a session."""
        person = self.server.people.named(name)
        assert person is not None
        if by == "token":
            return Browser(self.app, self.server.people.new_token(person.id, "test", scope, 1))
        cookie = self.server.people.spend_code(self.server.people.new_code(person.id))
        assert cookie is not None
        return Browser(self.app, cookies={self.server.config.cookie: cookie})


def write_rows(path: Path) -> None:
    """The six rows as a Parquet file."""
    import pyarrow
    import pyarrow.parquet

    path.parent.mkdir(exist_ok=True, mode=0o700)
    pyarrow.parquet.write_table(pyarrow.table(COLUMNS), path)


def new_team(folder: Path, **settings: Any) -> Team:
    """A team's server whose worker has looked at the set's columns."""
    given = {"plans_per_second": 1e6, "asks_per_second": 1e6, "sign_ins_per_minute": 1e6, **settings}
    config = Config(folder=folder / "serve", roots={"data": str(folder / "data")}, **given)
    write_rows(folder / "data" / "spend.parquet")
    server = Server(config)
    people = {
        name: server.people.add(name, officer=name == "officer") for name in ("carl", "ana", "ben", "officer", "eve")
    }
    dataset = server.sets.add("spend", "What people spent", slot=config.slot)
    server.sets.set_source(dataset.id, "root", "data/spend.parquet", {})
    root = open_account(config.ledger_address, "spend", unit=users("user_id"), epsilon="4")
    server.sets.set_account(dataset.id, root.name)
    server.sets.join(dataset.id, people["carl"].id, "custodian")
    for name in ("ana", "ben"):
        own = open_account(config.ledger_address, f"spend/{name}", parent="spend", epsilon="2")
        server.sets.join(dataset.id, people[name].id, "analyst", own.name)
    worker = Worker(server)
    worker.once()
    return Team(server, worker, make_app(server))
