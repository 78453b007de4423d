"""The ASGI application: through the door, to the line of the table of routes, into a thread, and out with a response or a problem.

Nothing here knows a row: the process that runs it plans on paper tables and charges the ledger.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from functools import partial
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import compile_path
from starlette.types import Message, Receive, Scope, Send

from steelyard.server import _bodies as bodies
from steelyard.server import _door as door
from steelyard.server import _things as things
from steelyard.server._call import Call, Endpoint
from steelyard.server._problems import Problem, not_there, problem_of, take
from steelyard.server._server import Server

_AT_ONCE = {True: 16, False: 3}
"""Threads for what waits for the disk, since charges are synced together, and for what only computes."""


class Application:
    """The web process as an ASGI application."""

    def __init__(self, server: Server, endpoints: Sequence[Endpoint], show: Any) -> None:
        self.server, self.endpoints = server, tuple(endpoints)
        self._show = show
        self._plain: dict[str, dict[str, Endpoint]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, Endpoint]]] = []
        by_path: dict[str, dict[str, Endpoint]] = {}
        for endpoint in endpoints:
            by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
        for path, methods in by_path.items():
            if "{" in path:
                self._patterns.append((compile_path(path)[0], methods))
            else:
                self._plain[path] = methods
        self._limiters: dict[bool, CapacityLimiter] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection's request."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        call = Call(self.server, _UNKNOWN, None)
        try:
            response = await self._answer(request, call)
        except ClientDisconnect:
            return
        except Exception as error:
            response = self._refused(call, request, error)
        finally:
            if call.file is not None:
                call.file.unlink(missing_ok=True)
        self._finish(request, call, response)
        await response(scope, receive, send)

    async def _answer(self, request: Request, call: Call) -> Response:
        config, headers = self.server.config, request.headers
        call.headers = headers
        door.check_host(config, headers)
        call.endpoint, call.params = self._find(request.method, request.scope["path"])
        call.query = request.query_params
        call.address = door.address_of(config, request.client.host if request.client else "", headers)
        self._limit(call, "address")
        if self._limiters is None:
            self._limiters = {waits: CapacityLimiter(threads) for waits, threads in _AT_ONCE.items()}
        limiter = self._limiters[call.endpoint.spends]
        if call.endpoint.body == "file":  # nobody may fill the disk who was not let in
            await to_thread.run_sync(self._admit, request, call, limiter=limiter)
            await bodies.read(request, call)
            work: Any = self._handle
        else:
            await bodies.read(request, call)
            work = partial(self._admit_and_handle, request)
        made: Response = await to_thread.run_sync(work, call, limiter=limiter)
        return made

    def _admit_and_handle(self, request: Request, call: Call) -> Response:
        self._admit(request, call)
        return self._handle(call)

    def _admit(self, request: Request, call: Call) -> None:
        """Who it is and whether they may: before anything is done, and before a file is taken."""
        call.person = door.person_of(self.server, request.method, request.headers, request.cookies)
        things.resolve(call)
        things.check(call)
        self._limit(call, "person")

    def _limit(self, call: Call, whose: str) -> None:
        """Take from the bucket of whoever asks: by person where one is needed, by address where anybody may come."""
        bucket = call.endpoint.bucket
        if not bucket or (bucket == "sign in") != (whose == "address"):
            return
        take(self.server.buckets[bucket], call.address if whose == "address" else str(call.who.id))

    def _handle(self, call: Call) -> Response:
        found = call.endpoint.handler(call)
        return found if isinstance(found, Response) else JSONResponse(found)

    def _find(self, method: str, path: str) -> tuple[Endpoint, dict[str, str]]:
        methods, params = self._plain.get(path), dict[str, str]()
        if methods is None:
            for pattern, candidates in self._patterns:
                found = pattern.match(path)
                if found:
                    methods, params = candidates, found.groupdict()
                    break
        if methods is None:
            raise not_there()
        endpoint = methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            raise Problem(
                405, "WrongMethod", "this address takes other methods.", headers={"Allow": ", ".join(methods)}
            )
        return endpoint, params

    def _refused(self, call: Call, request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.status >= 500:
            where = traceback.extract_tb(error.__traceback__)[-1]
            told = {
                "incident": problem.members.get("incident"),
                "error": type(error).__name__,
                "where": f"{where.name}:{where.lineno}",
            }
            self.server.journal.write("failure", **told)
        path = request.scope["path"]
        if path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
            return JSONResponse(
                problem.document(), problem.status, problem.headers, media_type="application/problem+json"
            )
        shown: Response = self._show(call, problem)
        return shown

    def _finish(self, request: Request, call: Call, response: Response) -> None:
        for name, value in door.HEADERS.items():
            if name not in response.headers:
                response.headers[name] = value
        if self.server.config.secure:
            response.headers["Strict-Transport-Security"] = "max-age=31536000"
        person = None if call.person is None else call.person.id
        self.server.journal.request(request.method, call.endpoint.path, response.status_code, person, **call.told)


_UNKNOWN = Endpoint("GET", "-", lambda call: None, "look")


async def _live(receive: Receive, send: Send) -> None:
    """Start and stop when the server says so."""
    while True:
        message: Message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
