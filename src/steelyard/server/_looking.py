"""Looking at answers: what was stored is read back, from the first moment of the public schedule after it was."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from steelyard.desk import FAILED, Desk
from steelyard.errors import TableError
from steelyard.noise import ExactNoise
from steelyard.release import Release
from steelyard.server._acts import record
from steelyard.server._call import Call, reply
from steelyard.server._problems import Problem
from steelyard.server._slots import retry_after
from steelyard.server._store import DataSet, Job
from steelyard.tables import PaperTable

if TYPE_CHECKING:
    from steelyard.server._server import Server


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


def publish(call: Call) -> Any:
    """Let every member of the set see an answer."""
    released(call.server, call.set, call.release)
    if not call.release.published:
        record(call, "published an answer", f"{call.set.name}: entry {call.release.sequence}", call.release.account)
        call.server.jobs.publish(call.release.id)
    return reply(None, 200)
