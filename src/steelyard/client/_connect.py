"""A server as its sets, and a set as a session: quote, release, account, releases, as on ``sy.Session``."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

from steelyard.account import Receipt
from steelyard.client._wire import Wire
from steelyard.documents import request_of
from steelyard.errors import InvalidTask, ServerRefused, TableError
from steelyard.plan import as_it_is
from steelyard.privacy import Loss, Terms
from steelyard.release import Release
from steelyard.tables import Schema


def connect(url: str, token: str, *, patience: float = 600.0) -> Remote:
    """A steelyard server, by its address and a token that its page ``/me`` made.

    ``patience`` is how many seconds a lost or busy server is asked again before that is an error. A token is a secret: take it from the
    environment, not from a file beside the code.

    *Cost:* nothing; ``connect(...)["spend"].release(task, key="total")`` costs what ``quote(task)`` says, once for each key.
    """
    return Remote(Wire(url, token, patience))


class Remote:
    """The sets of a server, by name: ``server["spend"]``."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def __getitem__(self, name: str) -> RemoteSession:
        if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum():
            raise InvalidTask(f"a set's name is small letters, digits, hyphens and underscores; got {name!r:.70}.")
        return RemoteSession(self._wire, name)

    def __iter__(self) -> Iterator[str]:
        return iter([each["name"] for each in self._wire.ask("GET", "/api/v1/sets").data["sets"]])

    def __repr__(self) -> str:
        return "Remote(a steelyard server)"


class RemoteAccount:
    """What an account of the server promises, has spent and has left, as it was when it was asked for."""

    def __init__(self, name: str, told: dict[str, Any]) -> None:
        self.name, self.terms = name, Terms.from_json(told["terms"])
        self.spent, self.remaining = Loss.from_json(told["spent"]), Loss.from_json(told["remaining"])

    def __repr__(self) -> str:
        return f"RemoteAccount({self.name!r}: {self.spent} spent, {self.remaining} left)"


class RemoteSession:
    """A set of a server, asked as a session asks a table. Rows stay there; plans are free."""

    def __init__(self, wire: Wire, name: str) -> None:
        self._wire, self.name, self._path = wire, name, f"/api/v1/sets/{name}"

    def __repr__(self) -> str:
        return f"RemoteSession({self.name!r})"

    @property
    def schema(self) -> Schema:
        """What is public about the table; a server that was just told of it looks first, and is waited for."""
        return Schema(self._described()["columns"])

    @property
    def account(self) -> RemoteAccount:
        """The account that pays: one's own, or the set's."""
        facts = self._facts()
        name = facts["own_account"] or facts["account"]
        if not name:
            raise ServerRefused("no budget was opened for this set yet.", status=409, kind="NoAccount")
        return RemoteAccount(name, facts["accounts"][name])

    def plan(self, task: Any) -> dict[str, Any]:
        """What a task would cost, whether that is affordable, and the error to expect; free."""
        told: dict[str, Any] = self._wire.ask("POST", f"{self._path}/plans", {"task": _request(task)}).data
        return told

    def quote(self, task: Any) -> Loss:
        """What a task would cost, exactly; free."""
        return Loss.from_json(self.plan(task)["cost"])

    def release(self, task: Any, *, key: str | None = None) -> Release:
        """Pay for a task, have it answered, and wait for the answer.

        *Privacy:* the server charges before a row is read, and shows the answer at a moment of a public schedule. *Cost:* ``quote(task)``; a
        retry with the same ``key`` and task gets the stored answer for nothing, also after this process died.
        """
        name, request = secrets.token_hex(16) if key is None else key, _request(task)
        if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable() or not name.isascii():
            raise InvalidTask("key must be text of 1 to 200 printable ASCII characters.")
        said = self._wire.ask("POST", f"{self._path}/releases", {"task": request}, key=f'"{name}"')
        told, soon = said.data, 0.02
        while told["state"] == "charged":
            time.sleep(min(60.0, float(said.headers.get("retry-after", "0")) or soon))
            soon = min(2 * soon, 1.0)
            said = self._wire.ask("GET", f"/api/v1/releases/{told['id']}")
            told = said.data
        if told["state"] == "failed":
            raise TableError(told["detail"])
        return _read(told["release"], self._presented(task))

    def releases(self) -> Iterator[Release]:
        """Every answer that one may see, oldest first; values as plain JSON."""
        after: int | None = 0
        while after is not None:
            found = self._wire.ask("GET", f"{self._path}/releases?after={after}").data
            yield from (_read(each["release"], as_it_is) for each in found["releases"] if each["state"] == "answered")
            after = found["next"]

    def _facts(self) -> dict[str, Any]:
        found: dict[str, Any] = self._wire.ask("GET", self._path).data
        return found

    def _described(self) -> dict[str, Any]:
        """The facts of a set, once its columns are known."""
        until, pause = time.monotonic() + self._wire.patience, 0.05
        while (facts := self._facts())["state"] == "new" and time.monotonic() + pause < until:
            time.sleep(pause)
            pause = min(2 * pause, 1.0)
        if facts["state"] != "described":
            raise ServerRefused("the set has no table that can be read yet.", status=409, kind="NoTable")
        return facts

    def _presented(self, task: Any) -> Callable[[Any], Any]:
        """What turns the stored value into what a session hands out: a profile, a dictionary by key, a model."""
        facts = self._facts()
        terms = Terms.from_json(facts["accounts"][facts["own_account"] or facts["account"]]["terms"])
        present: Callable[[Any], Any] = task.plan(Schema(facts["columns"]), terms).present
        return present


def _request(task: Any) -> dict[str, Any]:
    if isinstance(task, type) or not hasattr(task, "plan"):
        raise InvalidTask("a server is asked with a task such as sy.Sum('amount', epsilon=1, cap=100).")
    return request_of(task)


def _read(told: dict[str, Any], present: Callable[[Any], Any]) -> Release:
    return Release.delivered(
        json.dumps(told).encode(), Receipt.from_json(told["receipt"]), told.get("stored_on"), present
    )
