"""The whole table of routes, what anybody may see among them, and the application over it."""

from __future__ import annotations

from typing import Any

from starlette.responses import PlainTextResponse

from steelyard import __version__
from steelyard.server import api, pages
from steelyard.server._app import Application
from steelyard.server._call import Call, Endpoint
from steelyard.server._config import Config
from steelyard.server._openapi import document
from steelyard.server._server import Server


def healthz(call: Call) -> Any:
    """That the server lives; nothing in it."""
    return PlainTextResponse("")


def known(call: Call) -> Any:
    """Which server this is: its version, the ledger it charges, and the key that signs its receipts."""
    ledger = call.server.ledger
    return {"steelyard": __version__, "ledger": ledger.id, "public_key": ledger.public_key, "api": "/api/v1"}


def metrics(call: Call) -> Any:
    """Counts of requests and refusals for Prometheus."""
    return PlainTextResponse(call.server.journal.metrics())


def describe(call: Call) -> Any:
    """The API as OpenAPI 3.1."""
    return document(ROUTES)


ROUTES: tuple[Endpoint, ...] = (
    Endpoint("GET", "/healthz", healthz, "look", summary="Whether the server lives."),
    Endpoint("GET", "/.well-known/steelyard.json", known, "look", summary="Which server this is."),
    Endpoint("GET", "/metrics", metrics, "see metrics", summary="Counts of requests."),
    Endpoint("GET", "/api/v1/openapi.json", describe, "look", summary="This document."),
    *api.ENDPOINTS,
    *pages.ENDPOINTS,
)
"""Every address that is answered: method, path, handler, and the act that the permission table is asked about."""


def make_app(config: Config | Server) -> Application:
    """The web process as an ASGI application."""
    server = config if isinstance(config, Server) else Server(config)
    return Application(server, ROUTES, pages.show_problem)
