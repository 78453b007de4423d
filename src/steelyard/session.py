"""The one short file where table, noise and ledger meet.

A ``Task`` is declared here and passed in, never imported. The session prices what the task says it will do and hands it
to a ``Desk``, which charges, computes, stores and delivers in that order (laws 1, 2 and 4).
"""

from __future__ import annotations

import secrets
from typing import Any, Protocol, TypeVar

from steelyard.accounting.prices import price
from steelyard.desk import Desk
from steelyard.errors import InsecureNoise, InvalidTask
from steelyard.ledger import Account, Allowance
from steelyard.noise import ExactNoise, Noise
from steelyard.privacy import Event, Loss, Terms
from steelyard.release import Outcome, Release, request_of
from steelyard.tables import Table

T = TypeVar("T", covariant=True)


class Task(Protocol):
    """A one-shot release: a frozen dataclass whose fields are its own JSON request."""

    def check(self, table: Table, terms: Terms) -> None:
        """Refuse, before anything is charged or read, whatever the public schema and the terms already rule out."""

    def event(self, table: Table, terms: Terms) -> Event:
        """What will be done, whatever the rows say; its price is the whole cost."""

    def run(self, table: Table, noise: Noise, terms: Terms) -> Outcome:
        """Read the rows and noise them. Must never fail, or be seen to differ, because of what the rows hold."""

    def present(self, value: Any) -> Any:
        """The stored JSON value as what a person gets."""


class Dialogue(Protocol[T]):
    """A stateful conversation: each answer is charged before it is given, and survives a restart."""

    def check(self, table: Table, terms: Terms) -> None:
        """As for a task."""

    def start(self, desk: Desk) -> T:
        """Begin, or pick up where the stored answers left off."""


class Session:
    """A private table and the account that pays for every look at it."""

    def __init__(self, table: Table, account: Account, *, noise: Noise | None = None) -> None:
        self._table = table
        self._account = account
        self._noise = ExactNoise() if noise is None else noise
        if not self._noise.secure and account.durable:
            raise InsecureNoise(
                f"{self._noise.name} protects nobody and may only spend an account on ':memory:'; "
                f"account {account.name!r} is durable. Leave noise= out for the real thing."
            )
        if account.terms.unit.column is not None and account.terms.unit.kind == "users":
            table.require(account.terms.unit.column)

    def __repr__(self) -> str:
        return f"Session(account={self._account.name!r})"

    @property
    def account(self) -> Account:
        """The account that pays."""
        return self._account

    def up_to(self, most: Loss) -> Session:
        """The same table and account, of which no more than ``most`` is added through this session."""
        return Session(self._table, Allowance(self._account, most), noise=self._noise)

    def quote(self, task: Task) -> Loss:
        """What the task would cost, exactly. Spends nothing and reads no row."""
        task.check(self._table, self._account.terms)
        return price(task.event(self._table, self._account.terms), self._account.terms)

    def release(self, task: Task, *, key: str | None = None) -> Release:
        """Pay for a task, run it, and deliver what was stored.

        *Privacy:* the charge is durable before a row is read. *Cost:* ``quote(task)``; a retry with the same ``key``
        and the same task gets the stored answer for nothing.
        """
        task.check(self._table, self._account.terms)
        desk = self._desk(task, named(key))
        event = task.event(self._table, desk.terms)
        compute = lambda table, noise: task.run(table, noise, desk.terms)  # noqa: E731
        return desk.answer(desk.charge(event), event, compute, present=task.present)

    def open(self, dialogue: Dialogue[T], *, key: str | None = None) -> T:
        """Begin a dialogue, or resume the one this ``key`` names."""
        dialogue.check(self._table, self._account.terms)
        return dialogue.start(self._desk(dialogue, named(key)))

    def _desk(self, asked: object, key: str) -> Desk:
        return Desk(self._table, self._noise, self._account, key, request_of(asked))


def named(key: str | None) -> str:
    """The key of a request: the caller's, or a fresh one that nobody can guess."""
    if key is None:
        return secrets.token_hex(16)
    if not isinstance(key, str) or not 0 < len(key) <= 200:
        raise InvalidTask("key must be text of 1 to 200 characters.")
    return key
