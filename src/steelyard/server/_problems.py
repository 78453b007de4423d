"""Refusals over HTTP: our error tree as problem documents (RFC 9457), and the last resort for whatever was not foreseen.

Law: a problem is made of public facts. The web process has no rows, so its refusals cannot depend on them; what happens in the worker is
told in one fixed text (``steelyard.desk.FAILED``).
"""

from __future__ import annotations

import secrets
from typing import Any

from steelyard.errors import (
    BudgetExceeded,
    ColumnMissing,
    InvalidTask,
    KeyConflict,
    LedgerError,
    LedgerLocked,
    LedgerTampered,
    OurBug,
    PrivacyError,
    SteelyardError,
    TableError,
)
from steelyard.privacy import Loss
from steelyard.server._limits import Buckets

TYPE = "urn:steelyard:problem:"
TITLES = {
    400: "Bad request",
    401: "Sign in first",
    402: "The budget cannot pay for this",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    411: "Length required",
    413: "Too large",
    415: "Wrong media type",
    421: "Misdirected request",
    422: "The request makes no sense here",
    429: "Too many requests",
    500: "Our bug",
    503: "Not now",
}
_CLOSED = "spending is closed: the ledger must be looked at by the officer. Nothing was charged."


class Problem(Exception):
    """A refusal with its status; ``members`` are further fields of its document, ``headers`` go with the response."""

    def __init__(
        self, status: int, kind: str, detail: str, *, headers: dict[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.members, self.headers = members, headers or {}

    def document(self) -> dict[str, Any]:
        """The problem as JSON."""
        told = {"type": TYPE + self.kind, "title": TITLES[self.status], "status": self.status, "detail": self.detail}
        return {**told, "kind": self.kind, **self.members}


def not_there() -> Problem:
    """What is not there, and what is there for others only, look alike."""
    return Problem(404, "NotFound", "there is nothing here, or nothing that you may see.")


def take(buckets: Buckets, whose: str) -> None:
    """Take one from somebody's bucket, or refuse with when there will be one."""
    wait = buckets.take(whose)
    if wait:
        told = {"Retry-After": str(max(1, round(wait + 0.5)))}
        raise Problem(429, "TooMany", "too many of these at once; wait a little.", headers=told)


def problem_of(error: BaseException) -> Problem:
    """The problem that an error is told as."""
    if isinstance(error, Problem):
        return error
    kind, text = type(error).__name__, str(error)
    if isinstance(error, BudgetExceeded):
        amounts = {"wanted": error.wanted, "remaining": error.remaining}
        told: dict[str, Any] = {name: each.to_json() for name, each in amounts.items() if isinstance(each, Loss)}
        told |= {"account": error.account} if error.account else {}
        return Problem(402, kind, text, **told)
    if isinstance(error, KeyConflict):
        return Problem(422, kind, text, other_request=error.other_request)
    if isinstance(error, LedgerTampered):
        return Problem(503, kind, _CLOSED)
    if isinstance(error, LedgerLocked):
        return Problem(503, kind, text, headers={"Retry-After": "1"})
    if isinstance(error, LedgerError):
        return Problem(
            503, kind, "the ledger cannot be used now; ask again with the same key.", headers={"Retry-After": "5"}
        )
    if isinstance(error, OurBug) or not isinstance(error, SteelyardError):
        return unforeseen()
    if isinstance(error, InvalidTask | PrivacyError | TableError):
        missing: dict[str, Any] = (
            {"wanted": error.wanted, "available": list(error.available)} if isinstance(error, ColumnMissing) else {}
        )
        return Problem(422, kind, text, **missing)
    return Problem(
        503, "NotNow", "the server cannot do this now; ask again with the same key.", headers={"Retry-After": "5"}
    )


def unforeseen() -> Problem:
    """An error that nobody foresaw, under a random name to find it by in the log."""
    name = secrets.token_hex(8)
    return Problem(
        500, "OurBug", f"the server failed in a way it should not; it is in the log as {name}.", incident=name
    )
