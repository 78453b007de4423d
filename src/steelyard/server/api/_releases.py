"""Plans, questions and answers over HTTP."""

from __future__ import annotations

from typing import Any

from steelyard.server import _asking as asking
from steelyard.server._acts import record
from steelyard.server._call import Call, Endpoint, reply
from steelyard.server._problems import Problem

_PAGE = 100


def plan(call: Call) -> Any:
    """What a task would cost and how exact it would be; free."""
    return asking.plan(call.server, call.set, call.who, call.given("task")["task"])


def ask(call: Call) -> Any:
    """Charge a task and have it answered: 202 with the receipt, and where to look from when on."""
    key, server = key_of(call), call.server
    job = asking.ask(server, call.set, call.who, key, call.given("task")["task"])
    call.told["sequence"] = job.sequence
    told = asking.look(server, call.set, job)
    headers = {"Location": f"/api/v1/releases/{job.sequence}", **asking.wait_of(server, call.set, job)}
    return reply(told, 200 if told["state"] != "charged" else 202, headers)


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


def look(call: Call) -> Any:
    """One release: charged, answered or failed."""
    found = asking.look(call.server, call.set, call.release)
    return reply(found, 200, asking.wait_of(call.server, call.set, call.release))


def listed(call: Call) -> Any:
    """Releases of a set by their entries on the ledger: one's own and published ones; all of them for custodian and officer."""
    every = call.may("see members")
    jobs = call.server.jobs.of_set(
        call.set.id, person=None if every else call.who.id, after=call.number("after", 0), limit=_PAGE
    )
    found = [asking.look(call.server, call.set, job) for job in jobs]
    return {"releases": found, "next": jobs[-1].sequence if len(jobs) == _PAGE else None}


def publish(call: Call) -> Any:
    """Let every member of the set see an answer."""
    asking.released(call.server, call.set, call.release)
    if not call.release.published:
        record(call, "published an answer", f"{call.set.name}: entry {call.release.sequence}", call.release.account)
        call.server.jobs.publish(call.release.id)
    return reply(None, 200)


ENDPOINTS = (
    Endpoint("POST", "/api/v1/sets/{set}/plans", plan, "plan", "json", bucket="plan", summary="Plan a task; free."),
    Endpoint(
        "POST",
        "/api/v1/sets/{set}/releases",
        ask,
        "ask",
        "json",
        bucket="ask",
        spends=True,
        summary="Ask: charge now, answer later.",
    ),
    Endpoint("GET", "/api/v1/sets/{set}/releases", listed, "list releases", summary="Releases of a set."),
    Endpoint("GET", "/api/v1/releases/{release}", look, "see a release", summary="One release."),
    Endpoint(
        "POST",
        "/api/v1/releases/{release}/publish",
        publish,
        "publish a release",
        by_token=False,
        summary="Show a release to the set.",
    ),
)
