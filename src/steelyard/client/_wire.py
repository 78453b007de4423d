"""Requests over HTTP that can be repeated: kept connections, retries with the same key, problems as our own errors.

A request that may have been lost is sent again: all of them are reads, plans, or carry a key under which they happen once.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from steelyard import errors
from steelyard.errors import InvalidTask, ServerRefused, SteelyardError
from steelyard.privacy import Loss

_LOST = (OSError, http.client.HTTPException)
_AGAIN = (429, 502, 503, 504)


@dataclass(frozen=True)
class Response:
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        """The body as JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise ServerRefused("the server's answer cannot be read.", status=self.status, kind="Unreadable") from None


class Wire:
    """A server's address and a token; each thread has a connection of its own."""

    def __init__(self, url: str, token: str, patience: float) -> None:
        found = urlsplit(url)
        local = found.hostname in ("127.0.0.1", "localhost", "::1")
        if found.scheme not in ("https", "http") or not found.hostname or (found.scheme == "http" and not local):
            raise InvalidTask(
                "a server's address begins with https://, or with http:// on this machine alone: the token travels over it."
            )
        self._secure, self._host, self._port, self._path = (
            found.scheme == "https",
            found.hostname,
            found.port,
            found.path.rstrip("/"),
        )
        self._token, self.patience = token, patience
        self._own = threading.local()

    def ask(self, method: str, path: str, data: Any = None, *, key: str = "") -> Response:
        """Send a request until it is answered or patience ends; a problem is raised as the error it tells of."""
        body = None if data is None else json.dumps(data).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        headers |= {} if body is None else {"Content-Type": "application/json"}
        headers |= {"Idempotency-Key": key} if key else {}
        deadline, pause = time.monotonic() + self.patience, 0.05
        while True:
            found = self._once(method, self._path + path, body, headers)
            wait = pause if found is None else _wait(found, pause)
            late = time.monotonic() + wait > deadline
            if found is not None and (found.status not in _AGAIN or late):
                if found.status >= 400:
                    raise error_of(found)
                return found
            if late:
                raise ServerRefused(
                    f"the server cannot be reached. Whatever was asked under a key may be asked again with it: {key or 'none was given'}.",
                    status=0,
                    kind="Unreachable",
                )
            time.sleep(wait)
            pause = min(2 * pause, 2.0)

    def _once(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Response | None:
        connection = self._connection()
        try:
            connection.request(method, path, body, dict(headers))
            said = connection.getresponse()
            content = said.read()
        except _LOST:
            with contextlib.suppress(*_LOST):
                self._own.closing()
            self._own.connection = None
            return None
        return Response(said.status, {name.lower(): value for name, value in said.getheaders()}, content)

    def _connection(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if found is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            found = self._own.connection = kind(self._host, self._port, timeout=60)
            self._own.closing = weakref.finalize(self, found.close)
        return found


def _wait(found: Response, pause: float) -> float:
    told = found.headers.get("retry-after", "")
    return float(told) if told.isdigit() and len(told) < 6 else pause


def error_of(found: Response) -> SteelyardError:
    """The error that a problem document tells of: ours by name, or what the server itself says."""
    try:
        told = json.loads(found.body)
        kind, detail = str(told["kind"]), str(told["detail"])
    except (ValueError, KeyError, TypeError):
        return ServerRefused(
            f"the server answered {found.status} without a reason.", status=found.status, kind="Unreadable"
        )
    if kind == "BudgetExceeded":
        amounts = {name: Loss.from_json(told[name]) for name in ("wanted", "remaining") if name in told}
        short = {"account": str(told["account"])} if "account" in told else {}
        return errors.BudgetExceeded(detail, wanted=amounts.get("wanted"), remaining=amounts.get("remaining"), **short)
    if kind == "ColumnMissing" and isinstance(told.get("available"), list):
        return errors.ColumnMissing(str(told.get("wanted")), told["available"])
    if kind == "KeyConflict":
        return errors.KeyConflict(detail, other_request=bool(told.get("other_request")))
    known = getattr(errors, kind, None)
    if isinstance(known, type) and issubclass(known, SteelyardError) and known not in (errors.OurBug, SteelyardError):
        return known(detail)
    return ServerRefused(detail, status=found.status, kind=kind)
