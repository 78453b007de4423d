"""The style, the script and the picture that every page uses: read once, known by their digest, kept by browsers for good."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from starlette.responses import Response

from steelyard.charts import stylesheet
from steelyard.server._call import Call, Endpoint
from steelyard.server._problems import not_there

_FOLDER = Path(__file__).parent / "static"
_KINDS = {"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable"}


@cache
def _content(name: str) -> bytes:
    words = (_FOLDER / name).read_text(encoding="utf-8")
    return (stylesheet() + "\n" + words if name == "style.css" else words).encode()


@cache
def address(name: str) -> str:
    """Where a page finds one of these; another content has another address."""
    return f"/static/{hashlib.sha256(_content(name)).hexdigest()[:12]}/{name}"


def static(call: Call) -> Response:
    """One of these files."""
    name = call.params["name"]
    if name not in _KINDS:
        raise not_there()
    return Response(_content(name), 200, dict(_FOR_GOOD), _KINDS[name])


ENDPOINTS = (Endpoint("GET", "/static/{digest}/{name}", static, "look"),)
