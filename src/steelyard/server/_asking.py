"""Planning and asking: the law over HTTP, as far as the web process goes.

A plan is free. To ask is to be refused from public facts, or to be charged, durably, before the request returns; the worker answers later.
"""

from __future__ import annotations

from typing import Any, cast

from steelyard.account import Charge
from steelyard.documents import request_of
from steelyard.errors import InvalidTask
from steelyard.plan import Task
from steelyard.privacy import canonical
from steelyard.requests import Reply, task_from
from steelyard.server._looking import desk_of
from steelyard.server._problems import Problem
from steelyard.server._server import Server
from steelyard.server._slots import time_of
from steelyard.server._store import DataSet, Job, Person


def task_of(request: Any) -> Task:
    """The task of a request; a conversation, which needs more than one answer, is not for this server."""
    task = task_from(request)
    if not hasattr(task, "plan"):
        raise InvalidTask(f"a {type(task).__name__} is a conversation, and this server answers single questions.")
    return cast(Task, task)


def paying(server: Server, dataset: DataSet, person: Person) -> str:
    """The account that a person's plans and questions are weighed against: their own, or else the set's."""
    own = server.sets.roles(dataset.id, person.id).get("analyst", "")
    if not (own or dataset.account):
        raise Problem(
            409, "NoAccount", "no budget was opened for this set yet: its custodian proposes one, an officer approves."
        )
    return own or dataset.account


def plan(server: Server, dataset: DataSet, person: Person, request: Any) -> dict[str, Any]:
    """What a task would cost and how exact it would be; free, and no row is read."""
    account, task = paying(server, dataset, person), task_of(request)
    _described(dataset)
    session = server.paper(dataset, account)
    data = Reply.of_plan(session, task).data
    before = server.jobs.published(dataset.id, _text(task))
    return {**data, "account": account, "answered_before": before}


def ask(server: Server, dataset: DataSet, person: Person, key: str, request: Any) -> Job:
    """Charge a task under a key of the person's own account, durably; the job that the worker will answer.

    The same key and task again is the same job, for nothing.
    """
    account, task = server.sets.roles(dataset.id, person.id).get("analyst", ""), task_of(request)
    if not account:
        raise Problem(409, "NoAccount", "no account of your own was opened in this set yet: its custodian opens it.")
    _described(dataset)
    event = server.paper(dataset, account).plan(task).event
    text, desk = _text(task), desk_of(server, dataset, account, key, request_of(task), person.name)
    made = desk.paid()
    if made is None:
        _check_queue(server, person)
    server.jobs.ask(dataset.id, person.id, account, key, text)
    charge = made if made is not None else desk.charge(event)
    return settle(server, dataset, person.id, charge, text)


def settle(server: Server, dataset: DataSet, person: int, charge: Charge, request: str) -> Job:
    """The job of a charge, with its entry and its time."""
    at = time_of(charge.standing.at)
    return server.jobs.charge(dataset.id, person, charge.account, charge.key, request, charge.sequence, at)


def _described(dataset: DataSet) -> None:
    if dataset.state != "described":
        raise Problem(409, "NoColumns", "the set's source was not read yet, or cannot be; its custodian sees to that.")


def _check_queue(server: Server, person: Person) -> None:
    """Refuse before the charge where too much waits already."""
    everybody, own = server.jobs.count_waiting(person.id)
    if own >= server.config.queue_of_one:
        raise Problem(
            429,
            "TooMany",
            "too many of your questions wait already; nothing was charged.",
            headers={"Retry-After": "2"},
        )
    if everybody >= server.config.queue:
        raise Problem(
            503, "NotNow", "too many questions wait already; nothing was charged.", headers={"Retry-After": "5"}
        )


def _text(task: Task) -> str:
    return canonical(request_of(task)).decode()
