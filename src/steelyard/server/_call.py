"""One request after the door: who asks, for what, with which body; and the line of the table of routes that it came in by."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from steelyard.documents import parse
from steelyard.errors import InvalidTask
from steelyard.server._problems import Problem, not_there
from steelyard.server._rights import may
from steelyard.server._store import DataSet, Job, Person

if TYPE_CHECKING:
    from steelyard.server._server import Server

Handler = Callable[["Call"], Any]


@dataclass(frozen=True)
class Endpoint:
    """One line of the table of routes.

    ``act`` is what the permission table is asked about. ``by_token`` says whether a token will do, ``fresh`` that the sign-in must be
    recent; ``bucket`` limits how often; ``body`` is what may be sent: "" (nothing), "json", "form", "file".
    """

    method: str
    path: str
    handler: Handler
    act: str
    body: str = ""
    by_token: bool = True
    spends: bool = False
    fresh: bool = False
    bucket: str = ""
    summary: str = ""
    answers: Mapping[int, str] = field(default_factory=dict)


@dataclass
class Call:
    """A request that was let in: the person, the things that its address names, and their roles there."""

    server: Server
    endpoint: Endpoint
    person: Person | None
    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    form: Mapping[str, str] = field(default_factory=dict)
    file: Path | None = None
    file_digest: str = ""
    file_name: str = ""
    address: str = ""
    roles: frozenset[str] = frozenset()
    dataset: DataSet | None = None
    job: Job | None = None
    board: Any = None
    submission: Any = None
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def who(self) -> Person:
        """The person; only where the act is for somebody."""
        if self.person is None:
            raise Problem(401, "SignedOut", "sign in first.")
        return self.person

    @property
    def set(self) -> DataSet:
        """The set that the address names."""
        if self.dataset is None:
            raise not_there()
        return self.dataset

    @property
    def release(self) -> Job:
        """The job of the release that the address names."""
        if self.job is None:
            raise not_there()
        return self.job

    @property
    def data(self) -> dict[str, Any]:
        """The body as a JSON object."""
        found = parse(self.body)
        if not isinstance(found, dict):
            raise InvalidTask("the body must be a JSON object.")
        _check_whole(found)
        return found

    def given(self, *names: str, optional: tuple[str, ...] = ()) -> dict[str, Any]:
        """The named fields of the body; a missing or unknown one is refused."""
        data = self.data
        odd, missing = sorted(set(data) - {*names, *optional}), sorted(set(names) - set(data))
        if odd or missing:
            said = f"has no field {odd[0][:40]!r}" if odd else f"needs the field {missing[0]!r}"
            raise InvalidTask(f"the body {said}; its fields are {', '.join((*names, *optional))}.")
        return data

    def number(self, name: str, default: int, most: int = 2**62) -> int:
        """A whole number of the query."""
        text = self.query.get(name, str(default))
        if not text.isascii() or not text.isdigit() or int(text[:20]) > most:
            raise InvalidTask(f"?{name}= takes a whole number up to {most}.")
        return int(text)

    def may(self, act: str) -> bool:
        """Whether this person may do something here."""
        return may(self.roles, act)


def _check_whole(found: Any) -> None:
    """Refuse half a character, which JSON can write and no database can keep."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidTask("a text of the body holds half a character.") from None


def reply(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response."""
    return JSONResponse(data, status, dict(headers or {}))


def key_of(call: Call) -> str:
    """The request's own name, which makes a retry free."""
    key = call.headers.get("idempotency-key", "").strip()
    key = key[1:-1] if len(key) > 2 and key[0] == key[-1] == '"' else key
    if not 0 < len(key) <= 200 or not key.isprintable():
        raise Problem(
            400,
            "NoKey",
            "give the request a name of 1 to 200 characters in the header Idempotency-Key; a retry with it is free.",
        )
    return key


def person_named(call: Call, name: object) -> Person:
    """The person of a name, or a refusal."""
    found = call.server.people.named(name) if isinstance(name, str) else None
    if found is None:
        raise InvalidTask("there is no person of that name.")
    return found


def text_of(given: dict[str, Any], name: str) -> str:
    """A field that is a text."""
    found = given.get(name, "")
    if not isinstance(found, str) or not (found.isprintable() or not found):
        raise InvalidTask(f"{name} is a printable text.")
    return found
