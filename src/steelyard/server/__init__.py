"""The server: the same nouns over HTTP, in two processes. The web process never sees a row; the worker listens to nobody.

``make_app`` is the web process as an ASGI application, ``serve`` starts both. This is the only room that knows the web framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.server._check import check as check
    from steelyard.server._config import Config, read_config
    from steelyard.server._links import link as link
    from steelyard.server._routes import make_app
    from steelyard.server._serve import serve
    from steelyard.server._serve import serve_one as serve_one
    from steelyard.server._server import Server
    from steelyard.server._worker import Worker

__all__ = ["Config", "Server", "Worker", "make_app", "read_config", "serve"]
_HOMES = {
    "_worker": ("Worker",),
    "_check": ("check",),
    "_config": ("Config", "read_config"),
    "_routes": ("make_app",),
    "_links": ("link",),
    "_serve": ("serve", "serve_one"),
    "_server": ("Server",),
}
__getattr__ = loading(__name__, _HOMES)
