"""The whole table of routes, and the application over it."""

from __future__ import annotations

from typing import Any

from steelyard.server import _public, api, pages
from steelyard.server._app import Application
from steelyard.server._call import Call, Endpoint
from steelyard.server._config import Config
from steelyard.server._openapi import document
from steelyard.server._server import Server


def describe(call: Call) -> Any:
    """The API as OpenAPI 3.1."""
    return document(ROUTES)


ROUTES: tuple[Endpoint, ...] = (
    *_public.ENDPOINTS,
    Endpoint("GET", "/api/v1/openapi.json", describe, "look", summary="This document."),
    *api.ENDPOINTS,
    *pages.ENDPOINTS,
)
"""Every address that is answered: method, path, handler, and the act that the permission table is asked about."""


def make_app(config: Config | Server) -> Application:
    """The web process as an ASGI application."""
    server = config if isinstance(config, Server) else Server(config)
    return Application(server, ROUTES, pages.show_problem)
