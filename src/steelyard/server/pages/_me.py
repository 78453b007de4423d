"""Oneself: tokens for programs, the password, and where one is signed in."""

from __future__ import annotations

from starlette.responses import Response

from steelyard.errors import InvalidTask
from steelyard.server._call import Call, Endpoint
from steelyard.server.pages._parts import at, day, go, page

_SCOPES = {"ask": "may plan, read and ask", "plan": "may plan and read"}


def show_me(call: Call, *, token: str = "", problem: str = "") -> Response:
    """Tokens, password and sessions."""
    who, people = call.who, call.server.people
    tokens = [
        {
            "name": each["name"], "end": at("me", "tokens", each["id"], "end"),
            "about": f"{_SCOPES[each['scope']]}; ends {day(each['ends'])}; {'last used ' + each['used'] if each['used'] else 'never used'}",
        }
        for each in people.tokens(who.id)
    ]  # fmt: skip
    sessions = [
        {
            "about": f"since {day(each['made'])}", "words": f"End the one since {day(each['made'])}",
            "end": "" if each["id"] == who.session else at("me", "sessions", each["id"], "end"),
        }
        for each in people.sessions(who.id)
    ]  # fmt: skip
    origin = call.server.config.origin
    python = f'import os, steelyard as sy\nserver = sy.connect("{origin}", token=os.environ["STEELYARD_TOKEN"])'
    lead = (
        "An officer: you approve budgets and verify, and cannot ask."
        if who.officer
        else "Your tokens, your password, and where you are signed in."
    )
    return page(
        call, "me.html", who.name, here="/me", status=422 if problem else 200, lead=lead, token=token, token_python=python,
        tokens=tokens, sessions=sessions, problem=problem, password_told="To sign in without a link. It is kept as an Argon2id hash.",
    )  # fmt: skip


def new_token(call: Call) -> Response:
    """A token; it is shown on this page and never again."""
    form = call.form
    try:
        days = form.get("days", "")
        made = call.server.people.new_token(
            call.who.id, form.get("name", "").strip(), form.get("scope", ""), int(days) if days.isdigit() else 0
        )
    except InvalidTask as refusal:
        return show_me(call, problem=str(refusal))
    return show_me(call, token=made)


def end_token(call: Call) -> Response:
    """End a token."""
    call.server.people.end_token(call.who.id, call.params["token"])
    return go("/me", "token")


def end_session(call: Call) -> Response:
    """End a session."""
    call.server.people.end_session(call.who.id, call.params["session"])
    return go("/me", "session")


def set_password(call: Call) -> Response:
    """Choose a password."""
    try:
        call.server.people.set_password(call.who.id, call.form.get("password", ""))
    except InvalidTask as refusal:
        return show_me(call, problem=str(refusal))
    return go("/me", "password")


ENDPOINTS = (
    Endpoint("GET", "/me", show_me, "be oneself", by_token=False),
    Endpoint("POST", "/me/tokens", new_token, "be oneself", "form", by_token=False),
    Endpoint("POST", "/me/tokens/{token}/end", end_token, "be oneself", "form", by_token=False),
    Endpoint("POST", "/me/sessions/{session}/end", end_session, "be oneself", "form", by_token=False),
    Endpoint("POST", "/me/password", set_password, "be oneself", "form", by_token=False, fresh=True),
)
