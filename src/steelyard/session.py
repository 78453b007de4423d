"""The one short file where table, noise and ledger meet.

A ``Task`` (``steelyard.plan``) is passed in, never imported. It plans on the public schema; the session prices that one plan and
hands it to a ``Desk``, which charges, computes, stores and delivers in that order (laws 1, 2 and 4).
"""

from __future__ import annotations

import importlib
import secrets
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from steelyard.account import Account, Allowance, InPeriod, Receipt, check_account
from steelyard.accounting import mu_request, price, told
from steelyard.desk import Desk, check_noise
from steelyard.documents import request_of
from steelyard.errors import InvalidTask
from steelyard.noise import ExactNoise, Noise, TestNoise
from steelyard.plan import Plan, Task
from steelyard.privacy import Currency, Loss, Number, Terms, positive
from steelyard.release import Release

if TYPE_CHECKING:
    from steelyard.tables import Schema, Table, Work

__all__ = ["Dialogue", "Session"]

_T = TypeVar("_T", covariant=True)


class Dialogue(Protocol[_T]):
    """A stateful conversation: each answer is charged before it is given, and survives a restart."""

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse, before anything is charged or read, whatever the public schema and the terms already rule out."""

    def start(self, desk: Desk) -> _T:
        """Begin, or pick up where the stored answers left off."""


class Session:
    """A private table and the account that pays for every look at it.

    ``person`` is who asks: every charge bears that name on the ledger (without it, the system user's).
    """

    def __init__(
        self, table: Table, account: Account, *, person: str | None = None, noise: Noise | None = None
    ) -> None:
        _check_table(table, account)
        check_account(account)
        account = account if person is None else account.by(person)
        if account.terms.unit.per is not None:
            table, account = table.in_period(account.terms.unit), _inside(account)
        table = table.for_unit(account.terms.unit)
        self._table = table
        self._account = account
        self._noise = ExactNoise() if noise is None else noise
        if account.terms.unit.column is not None and account.terms.unit.kind == "users":
            table.require(account.terms.unit.column)
        table.require_apart(account.terms.unit)
        self._schema = table.schema
        check_noise(self._noise, account)

    def __repr__(self) -> str:
        return f"Session(account={self._account.name!r})"

    def _repr_html_(self) -> str:
        from steelyard.charts import Tabular, fragment

        terms, account = self._account.terms, self._account
        spending = [
            ("hides", str(terms.unit)),
            ("spent", told(account.spent, terms, cost=True)),
            ("left", told(account.remaining, terms)),
        ]
        return fragment(f"Session on account {account.name}", Tabular(("", ""), spending), repr(self._table))

    @property
    def account(self) -> Account:
        """The account that pays."""
        return self._account

    @property
    def schema(self) -> Schema:
        """What is public about the table."""
        return self._schema

    def up_to(self, most: Loss | Number) -> Session:
        """The same table and account, of which no more than ``most`` is added through this session.

        A number is an epsilon (on a Gaussian account: at its delta, or a mu where it has none), as tasks take it.
        """
        limit = most if isinstance(most, Loss) else _limit(most, self._account.terms)
        return Session(self._table, Allowance(self._account, limit), noise=self._noise)

    def plan(self, task: Task) -> Plan:
        """What the task would do here. Spends nothing and reads no row."""
        _check_task(task, "plan")
        return task.plan(self._schema, self._account.terms)

    def place_of(self, task: Task) -> str:
        """Where a task's rows would be added up, in words: by their server in place, or fetched. Empty for files and frames; nothing is read."""
        plan = self.plan(task)
        return self._table.place_of(lambda table: plan.run(table, TestNoise()))

    def quote(self, task: Task) -> Loss:
        """What the task would cost, exactly. Spends nothing and reads no row."""
        return price(self.plan(task).event, self._account.terms)

    def work(self, task: Task) -> Work:
        """How often the task would read the rows here, and in how many engine jobs. Spends nothing and reads no row.

        The plan is run with test noise on a table that has the same columns and no row.
        """
        from steelyard.tables import rehearsed

        plan = self.plan(task)
        return rehearsed(lambda table: plan.run(table, TestNoise()), self._table.schema)

    def affords(self, task: Task) -> int:
        """How many such tasks the account can still pay for. Spends nothing and reads no row."""
        return affordable(self.quote(task), self._account.remaining)

    def release(self, task: Task, *, key: str | None = None) -> Release:
        """Pay for a task, run it, and deliver what was stored.

        *Privacy:* the charge is durable before a row is read. *Cost:* ``quote(task)``; a retry with the same ``key``
        and the same task gets the stored answer for nothing.
        """
        _check_task(task, "plan")
        name, request = named(key), request_of(task)
        plan = task.plan(self._schema, self._account.terms)
        desk = Desk(self._table, self._noise, self._account, name, request)
        desk.workers = plan.workers
        return desk.answer(desk.charge(plan.event), plan.event, plan.run, present=plan.present)

    def reserve(self, task: Task, *, key: str) -> Receipt:
        """Pay for a task now, without reading a row; ``release`` of the same task under the same ``key`` answers it later, for nothing more.

        Whoever answers may be another process, with a session over the same table and account. *Cost:* ``quote(task)``, once.
        """
        _check_task(task, "plan")
        plan = task.plan(self._schema, self._account.terms)
        desk = Desk(self._table, self._noise, self._account, named(key), request_of(task))
        desk.workers = plan.workers
        return desk.charge(plan.event).receipt

    def over(self, table: Table) -> Session:
        """The same account and noise over another table, such as a view of this one."""
        return Session(table, self._account, noise=self._noise)

    def sql(
        self,
        text: str,
        *,
        epsilon: Number | None = None,
        mu: Number | None = None,
        key: str | None = None,
        cap: Any = None,
        upper: Any = None,
        lower: Any = None,
        keys: Any = None,
        max_keys: int | None = None,
        others: bool | None = None,
        **tables: Any,
    ) -> Any:
        """Ask in SQL: ``select country, sum(amount) as total from t where ... group by country order by total desc``.

        The outermost aggregation becomes tasks, what stands below it a view; HAVING, ORDER BY and LIMIT act on the released numbers.
        FROM names this session's table as you like, and public tables as they are given here. ``cap``, ``upper`` and ``lower`` (of the lower sum
        of a ratio ``over_cap`` and ``over_upper``) are for all aggregates, or by the name of their column; ``keys``, ``max_keys`` and ``others`` as in ``Sum``.

        *Cost:* epsilon, divided equally among the aggregates (on a Gaussian account: mu squared is), which are one ``Together``. ``sql_plan`` tells it beforehand.
        """
        given = {"cap": cap, "upper": upper, "lower": lower, "keys": keys, "max_keys": max_keys, "others": others}
        return self.sql_plan(text, epsilon=epsilon, mu=mu, **given, **tables).release(key)

    def sql_plan(self, text: str, *, epsilon: Number | None = None, mu: Number | None = None, **given: Any) -> Any:
        """The tasks that a statement becomes, their prices and the errors to expect: ``print(session.sql_plan(...).plan())``; free."""
        names = ("cap", "upper", "lower", "over_cap", "over_upper", "keys", "max_keys", "others")
        options = {name: given.pop(name) for name in names if name in given}
        found = {name: value for name, value in options.items() if value is not None}
        requests = importlib.import_module(
            "steelyard.requests"
        )  # above this room; a capability is passed in, never imported
        return requests.ask(self, self._table, text, epsilon=epsilon, mu=mu, tables=given, options=found)

    def open(self, dialogue: Dialogue[_T], *, key: str | None = None) -> _T:
        """Begin a dialogue, or resume the one this ``key`` names."""
        _check_task(dialogue, "start")
        name = named(key)
        dialogue.check(self._schema, self._account.terms)
        return dialogue.start(Desk(self._table, self._noise, self._account, name, request_of(dialogue)))


def affordable(cost: Loss, left: Loss) -> int:
    """How many times what is left pays for a cost."""
    fits = [have // want for have, want in ((left.amount, cost.amount), (left.delta, cost.delta)) if want]
    return min(fits, default=0)


def _inside(account: Account) -> Account:
    return InPeriod(account) if account.terms.unit.kind == "periods" else account


def _check_table(table: object, account: object) -> None:
    """Refuse, with what to write instead, whatever is no table that was read."""
    if hasattr(type(table), "schema") and hasattr(type(table), "require"):
        return
    if hasattr(table, "terms") and hasattr(table, "charge"):
        swapped = hasattr(account, "require")
        raise InvalidTask(
            f"a session takes the table first: Session({'table, account' if swapped else 'sy.read(...), account'})."
        )
    shown = f"sy.read({table!r:.60})" if isinstance(table, str) else "sy.read(...)"
    raise InvalidTask(
        f"a session takes a table that was read, and this is a {type(table).__name__}: write Session({shown}, account). Only then "
        "is its schema public and the rest private."
    )


def _check_task(task: object, verb: str) -> None:
    """Refuse, with what to write instead, whatever is no task: a class of tasks, a text, a request as JSON."""
    if isinstance(task, type):
        raise InvalidTask(
            f"{task.__name__} is a kind of task; make one of it, such as {task.__name__}(..., epsilon=1), and ask for that."
        )
    if hasattr(task, verb):
        return
    if isinstance(task, str):
        raise InvalidTask(
            "a session is asked with a task such as sy.Sum('amount', epsilon=1, cap=100), not with a text. A query "
            "that prepares rows is a view, sy.view(text, ...), which is checked to keep people apart"
            + (
                "; whole questions in SQL are asked with session.sql(text, epsilon=1)."
                if hasattr(Session, "sql")
                else "."
            )
        )
    if isinstance(task, dict):
        raise InvalidTask("a request as JSON is read with steelyard.requests.task_from(request) before it is asked.")
    other = "session.open(...)" if hasattr(task, "start") else "session.release(...)" if hasattr(task, "plan") else ""
    hint = f"this one is asked with {other}" if other else "a task is made like sy.Sum('amount', epsilon=1, cap=100)"
    raise InvalidTask(f"a {type(task).__name__} cannot be asked for here: {hint}.")


def _limit(most: Number, terms: Terms) -> Loss:
    """A number as a limit in the currency of an account."""
    if terms.currency is Currency.PURE:
        return Loss.pure(most)
    if terms.currency is Currency.NATS:
        return Loss.nats(most)
    if not terms.filter_delta:
        return Loss.mu(most)
    return Loss(Currency.GAUSSIAN, mu_request(positive(most, "the limit"), terms.filter_delta) ** 2)


def named(key: str | None) -> str:
    """The key of a request: the caller's, or a fresh one that nobody can guess."""
    if key is None:
        return secrets.token_hex(16)
    if not isinstance(key, str) or not 0 < len(key) <= 200:
        raise InvalidTask("key must be text of 1 to 200 characters.")
    return key
