"""Who is asking, and whether the request comes from our own pages: hosts, origins, cookies, tokens; and the headers of every response.

A cookie is read only where the browser says that the request was made by our own page, or by the person's own hand; so no other site can make a
browser spend. A bearer token is never sent by a browser on its own, and needs no such check.
"""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.server._config import Config
from steelyard.server._problems import Problem
from steelyard.server._server import Server
from steelyard.server._store import Person

SAFE = ("GET", "HEAD")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; connect-src 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


def check_host(config: Config, headers: Mapping[str, str]) -> None:
    """Refuse a request for another host: a page of somebody else whose name was pointed at this address."""
    if headers.get("host", "") not in config.hosts:
        raise Problem(421, "WrongHost", "this server does not answer to that host name.")


def person_of(server: Server, method: str, headers: Mapping[str, str], cookies: Mapping[str, str]) -> Person | None:
    """Who is asking: by bearer token, or by cookie where the request is known to come from our own pages."""
    bearer = headers.get("authorization", "")
    if bearer:
        scheme, _, token = bearer.partition(" ")
        found = server.people.of_token(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise Problem(
                401, "SignedOut", "the token is not known, or has ended.", headers={"WWW-Authenticate": "Bearer"}
            )
        return found
    cookie = cookies.get(server.config.cookie)
    if cookie is None or not (method in SAFE or from_our_pages(server.config, headers)):
        return None
    return server.people.of_cookie(cookie)


def from_our_pages(config: Config, headers: Mapping[str, str]) -> bool:
    """Whether a browser made this request for one of our own pages, or for nobody's."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    scheme, _, host = headers.get("origin", "").partition("://")
    return scheme == ("https" if config.secure else "http") and host in config.hosts


def address_of(config: Config, peer: str, headers: Mapping[str, str]) -> str:
    """The address that asks; of a proxy that is trusted, the last one that it names."""
    if config.trusted_proxy and peer == config.trusted_proxy:
        return headers.get("x-forwarded-for", peer).rpartition(",")[2].strip()[:100]
    return peer
