"""Planning, asking and looking: the law over HTTP, as far as the web process goes.

A plan is free. To ask is to be refused from public facts, or to be charged, durably, before the request returns; the worker answers later.
To look is to read back what was stored, from the first moment of the public schedule after it was.
"""

from __future__ import annotations

import json
from typing import Any, cast

from steelyard.account import Charge
from steelyard.desk import FAILED, Desk
from steelyard.documents import request_of
from steelyard.errors import InvalidTask, TableError
from steelyard.noise import ExactNoise
from steelyard.plan import Task
from steelyard.privacy import canonical
from steelyard.release import Release
from steelyard.requests import Reply, task_from
from steelyard.server._problems import Problem
from steelyard.server._server import Server
from steelyard.server._slots import retry_after, time_of
from steelyard.server.store import DataSet, Job, Person
from steelyard.tables import PaperTable


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


def desk_of(
    server: Server, dataset: DataSet, account: str, key: str, request: dict[str, Any], person: str = ""
) -> Desk:
    """The desk of a key, on paper: it can charge, in a person's name, and read back what was stored."""
    table, pays = PaperTable(dataset.columns, name=dataset.name), server.account(account)
    return Desk(table, ExactNoise(), pays.by(person) if person else pays, key, request)


def is_visible(server: Server, job: Job) -> bool:
    """Whether a job's answer may be seen by now."""
    return job.visible is not None and job.visible <= server.clock()


def look(server: Server, dataset: DataSet, job: Job) -> dict[str, Any]:
    """A job as its author may see it: charged, answered with the release, or failed in one fixed text."""
    told: dict[str, Any] = {
        "id": job.sequence,
        "set": dataset.name,
        "account": job.account,
        "published": bool(job.published),
    }
    if not is_visible(server, job):
        return {**told, "state": "charged", "task": json.loads(job.request)}
    if job.state == "failed":
        return {**told, "state": "failed", "task": json.loads(job.request), "detail": FAILED}
    return {**told, "state": "answered", "release": _document(server, dataset, job)}


def _document(server: Server, dataset: DataSet, job: Job) -> dict[str, Any]:
    """The release of a visible job; it never changes, so short ones are kept."""
    assert job.sequence is not None
    found = server.answers.get(job.sequence)
    if found is None:
        release = released(server, dataset, job)
        found = document(release)
        if isinstance(release.value, int | float):
            server.keep_answer(job.sequence, found)
    return found


def document(release: Release) -> dict[str, Any]:
    """A release as the API tells it: its value as it is stored, which ``plan(...).present`` turns into what a session hands out."""
    told: dict[str, Any] = json.loads(release.to_json())
    return {**told, "value": release.value, "stored_on": release.stored_on}


def released(server: Server, dataset: DataSet, job: Job) -> Release:
    """The release of an answered job, read back from the ledger."""
    if not is_visible(server, job) or job.state != "answered":
        raise Problem(409, "NotAnswered", "there is no answer to show yet.")
    try:
        found = desk_of(server, dataset, job.account, job.key, json.loads(job.request)).find("")
    except TableError:
        found = None
    if found is None:
        raise Problem(409, "NotAnswered", FAILED)
    return found


def wait_of(server: Server, dataset: DataSet, job: Job) -> dict[str, str]:
    """When to look again, as a header; nothing where there is nothing to wait for."""
    if is_visible(server, job) or job.charged is None:
        return {}
    return {"Retry-After": str(retry_after(job.charged, dataset.slot, server.clock()))}


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
