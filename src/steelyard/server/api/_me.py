"""Coming in and going out; one's own sessions, password and tokens."""

from __future__ import annotations

from typing import Any

from steelyard.errors import InvalidTask
from steelyard.server._call import Call, Endpoint, reply


def me(call: Call) -> Any:
    """Who one is, one's sets, sessions and tokens."""
    who, people = call.who, call.server.people
    return {
        "name": who.name,
        "officer": who.officer,
        "sets": [each.name for each in call.server.sets.of(who.id)],
        "sessions": people.sessions(who.id),
        "tokens": people.tokens(who.id),
    }


def new_token(call: Call) -> Any:
    """A token; its secret is told here and never again."""
    given = call.given("name", optional=("scope", "days"))
    name, scope, days = given["name"], given.get("scope", "ask"), given.get("days", 90)
    if not (isinstance(name, str) and isinstance(scope, str) and type(days) is int):
        raise InvalidTask("a token has a name, a scope, and a number of days.")
    return reply({"token": call.server.people.new_token(call.who.id, name, scope, days)}, 201)


def end_token(call: Call) -> Any:
    """End a token."""
    call.server.people.end_token(call.who.id, call.params["token"])
    return reply(None, 200)


def end_session(call: Call) -> Any:
    """End a session."""
    call.server.people.end_session(call.who.id, call.params["session"])
    return reply(None, 200)


def password(call: Call) -> Any:
    """Choose a password."""
    given = call.given("password")
    if not isinstance(given["password"], str):
        raise InvalidTask("a password is a text.")
    call.server.people.set_password(call.who.id, given["password"])
    return reply(None, 200)


ENDPOINTS = (
    Endpoint("GET", "/api/v1/me", me, "be oneself", summary="Who one is."),
    Endpoint(
        "POST", "/api/v1/me/tokens", new_token, "be oneself", "json", by_token=False, summary="Make a token, told once."
    ),
    Endpoint("DELETE", "/api/v1/me/tokens/{token}", end_token, "be oneself", by_token=False, summary="End a token."),
    Endpoint(
        "DELETE", "/api/v1/me/sessions/{session}", end_session, "be oneself", by_token=False, summary="End a session."
    ),
    Endpoint(
        "POST",
        "/api/v1/me/password",
        password,
        "be oneself",
        "json",
        by_token=False,
        fresh=True,
        summary="Choose a password.",
    ),
)
