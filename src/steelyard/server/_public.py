"""What anybody may see: that the server lives, and which one it is."""

from __future__ import annotations

from typing import Any

from starlette.responses import PlainTextResponse

from steelyard import __version__
from steelyard.server._call import Call, Endpoint


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


ENDPOINTS = (
    Endpoint("GET", "/healthz", healthz, "look", summary="Whether the server lives."),
    Endpoint("GET", "/.well-known/steelyard.json", known, "look", summary="Which server this is."),
    Endpoint("GET", "/metrics", metrics, "see metrics", summary="Counts of requests."),
)
