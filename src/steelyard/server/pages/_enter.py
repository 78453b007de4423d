"""Coming in by a one-time link or a password, and going out."""

from __future__ import annotations

from starlette.responses import Response

from steelyard.server._call import Call, Endpoint
from steelyard.server._door import from_our_pages
from steelyard.server._problems import Problem, take
from steelyard.server.pages._parts import at, go, page

_LASTS = 7 * 86400
_USED = "The link was used before, or is older than fifteen minutes. Ask for another one."
_UNKNOWN = "Name and password do not fit."


def show_code(call: Call, problem: str = "") -> Response:
    """A button: the code is spent by pressing it, so that a preview of the link spends nothing."""
    return page(
        call,
        "enter.html",
        "Come in",
        status=401 if problem else 200,
        action=at("enter", call.params["code"]),
        problem=problem,
    )


def spend_code(call: Call) -> Response:
    """Sign in by a one-time code."""
    _check_own(call)
    cookie = call.server.people.spend_code(call.params["code"])
    return show_code(call, _USED) if cookie is None else _signed_in(call, cookie)


def show_sign_in(call: Call, problem: str = "") -> Response:
    """The form for name and password."""
    status = 401 if problem else 200
    wanted = call.form.get("next") or call.query.get("next", "/")
    return page(call, "sign_in.html", "Sign in", status=status, problem=problem, next=_own(wanted))


def sign_in(call: Call) -> Response:
    """Sign in by name and password."""
    _check_own(call)
    name = call.form.get("name", "")
    take(
        call.server.buckets["one name"], name[:100]
    )  # one name from many addresses, and whether somebody has it or not
    cookie = call.server.people.sign_in(name, call.form.get("password", ""))
    return show_sign_in(call, _UNKNOWN) if cookie is None else _signed_in(call, cookie, call.form.get("next", "/"))


def sign_out(call: Call) -> Response:
    """End this session."""
    call.server.people.end_session(call.who.id, call.who.session)
    made = go("/sign-in")
    made.delete_cookie(call.server.config.cookie, path="/", secure=True, httponly=True, samesite="lax")
    return made


def _own(address: str) -> str:
    """An address of ours, or the first page: nobody is led elsewhere after signing in."""
    return (
        address if address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable() else "/"
    )


def _check_own(call: Call) -> None:
    """Refuse a form of another site: it would sign somebody in as somebody else."""
    if not from_our_pages(call.server.config, call.headers):
        raise Problem(403, "NotAllowed", "sign in from a page of this server.")


def _signed_in(call: Call, cookie: str, wanted: str = "/") -> Response:
    made = go(_own(wanted))
    made.set_cookie(
        call.server.config.cookie, cookie, max_age=_LASTS, path="/", secure=True, httponly=True, samesite="lax"
    )
    return made


ENDPOINTS = (
    Endpoint("GET", "/enter/{code}", show_code, "come in", bucket="sign in"),
    Endpoint("POST", "/enter/{code}", spend_code, "come in", "form", bucket="sign in"),
    Endpoint("GET", "/sign-in", show_sign_in, "come in"),
    Endpoint("POST", "/sign-in", sign_in, "come in", "form", bucket="sign in"),
    Endpoint("POST", "/sign-out", sign_out, "be oneself", "form", by_token=False),
)
