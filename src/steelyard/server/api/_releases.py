"""Plans, questions and answers over HTTP."""

from __future__ import annotations

from typing import Any

from steelyard.server import _asking as asking
from steelyard.server import _looking as looking
from steelyard.server._call import Call, Endpoint, key_of, reply

_PAGE = 100


def plan(call: Call) -> Any:
    """What a task would cost and how exact it would be; free."""
    return asking.plan(call.server, call.set, call.who, call.given("task")["task"])


def ask(call: Call) -> Any:
    """Charge a task and have it answered: 202 with the receipt, and where to look from when on."""
    key, server = key_of(call), call.server
    job = asking.ask(server, call.set, call.who, key, call.given("task")["task"])
    call.told["sequence"] = job.sequence
    told = looking.look(server, call.set, job)
    headers = {"Location": f"/api/v1/releases/{job.sequence}", **looking.wait_of(server, call.set, job)}
    return reply(told, 200 if told["state"] != "charged" else 202, headers)


def look(call: Call) -> Any:
    """One release: charged, answered or failed."""
    found = looking.look(call.server, call.set, call.release)
    return reply(found, 200, looking.wait_of(call.server, call.set, call.release))


def listed(call: Call) -> Any:
    """Releases of a set by their entries on the ledger: one's own and published ones; all of them for custodian and officer."""
    every = call.may("see members")
    jobs = call.server.jobs.of_set(
        call.set.id, person=None if every else call.who.id, after=call.number("after", 0), limit=_PAGE
    )
    found = [looking.look(call.server, call.set, job) for job in jobs]
    return {"releases": found, "next": jobs[-1].sequence if len(jobs) == _PAGE else None}


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
        looking.publish,
        "publish a release",
        by_token=False,
        summary="Show a release to the set.",
    ),
)
