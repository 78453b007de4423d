"""The one short file where table, noise and ledger meet.

A ``Task`` is declared here and passed in, never imported. It plans on the public schema; the session prices that one plan and
hands it to a ``Desk``, which charges, computes, stores and delivers in that order (laws 1, 2 and 4).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from steelyard.account import Account, Allowance
from steelyard.accounting import price
from steelyard.desk import Desk, check_noise
from steelyard.documents import request_of
from steelyard.errors import InvalidTask
from steelyard.noise import ExactNoise, Noise
from steelyard.privacy import Event, Loss, Terms
from steelyard.release import Error, Outcome, Release, as_it_is

if TYPE_CHECKING:
    from steelyard.tables import Schema, Table

_T = TypeVar("_T", covariant=True)


@dataclass(frozen=True)
class Plan:
    """What will be done, made once and of public facts alone: it is priced, charged, and then run.

    ``event`` is what will be done, whatever the rows say; its price is the whole cost. ``predicted`` is the error to expect, where
    it is known before anything is spent. ``run`` reads the rows and noises them; it must never fail, or be seen to differ,
    because of what they hold. ``present`` turns the stored JSON value into what a person gets.
    """

    event: Event
    predicted: Error | None
    run: Callable[[Table, Noise], Outcome]
    present: Callable[[Any], Any] = as_it_is


class Task(Protocol):
    """A one-shot release: a frozen dataclass whose fields are its own JSON request."""

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """What will be done; refuses whatever the public schema and the terms already rule out."""


class Dialogue(Protocol[_T]):
    """A stateful conversation: each answer is charged before it is given, and survives a restart."""

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse, before anything is charged or read, whatever the public schema and the terms already rule out."""

    def start(self, desk: Desk) -> _T:
        """Begin, or pick up where the stored answers left off."""


class Session:
    """A private table and the account that pays for every look at it."""

    def __init__(self, table: Table, account: Account, *, noise: Noise | None = None) -> None:
        self._table = table
        self._account = account
        self._noise = ExactNoise() if noise is None else noise
        check_noise(self._noise, account)
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

    def plan(self, task: Task) -> Plan:
        """What the task would do here. Spends nothing and reads no row."""
        return task.plan(self._table.schema, self._account.terms)

    def quote(self, task: Task) -> Loss:
        """What the task would cost, exactly. Spends nothing and reads no row."""
        return price(self.plan(task).event, self._account.terms)

    def release(self, task: Task, *, key: str | None = None) -> Release:
        """Pay for a task, run it, and deliver what was stored.

        *Privacy:* the charge is durable before a row is read. *Cost:* ``quote(task)``; a retry with the same ``key``
        and the same task gets the stored answer for nothing.
        """
        name, request = named(key), request_of(task)
        plan = task.plan(self._table.schema, self._account.terms)
        desk = Desk(self._table, self._noise, self._account, name, request)
        return desk.answer(desk.charge(plan.event), plan.event, plan.run, present=plan.present)

    def open(self, dialogue: Dialogue[_T], *, key: str | None = None) -> _T:
        """Begin a dialogue, or resume the one this ``key`` names."""
        dialogue.check(self._table.schema, self._account.terms)
        return dialogue.start(Desk(self._table, self._noise, self._account, named(key), request_of(dialogue)))


def named(key: str | None) -> str:
    """The key of a request: the caller's, or a fresh one that nobody can guess."""
    if key is None:
        return secrets.token_hex(16)
    if not isinstance(key, str) or not 0 < len(key) <= 200:
        raise InvalidTask("key must be text of 1 to 200 characters.")
    return key
