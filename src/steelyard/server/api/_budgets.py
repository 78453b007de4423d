"""Budgets that need two persons: a custodian proposes, an officer approves."""

from __future__ import annotations

from typing import Any

from steelyard.server import _budgets as budgets
from steelyard.server._acts import acting, record
from steelyard.server._call import Call, Endpoint, reply
from steelyard.server._problems import not_there
from steelyard.server._store import Proposal


def propose(call: Call) -> Any:
    """Propose an account for the set."""
    with acting(call):
        made = budgets.propose(call.server, call.set, call.who, call.given("unit", optional=budgets.CAPS))
        record(call, "proposed an account", f"{made.account}: {made.terms}")
    return reply(facts(call, made), 201)


def listed(call: Call) -> Any:
    """The proposals of a set."""
    return {"proposals": [facts(call, each) for each in call.server.proposals.of_set(call.set.id)]}


def waiting(call: Call) -> Any:
    """The proposals that nobody has decided on."""
    return {"proposals": [facts(call, each) for each in call.server.proposals.waiting()]}


def decide(call: Call) -> Any:
    """Approve or decline a proposal."""
    number, given = call.params["proposal"], call.given("approve")
    if not (number.isascii() and number.isdigit()) or len(number) > 18 or not isinstance(given["approve"], bool):
        raise not_there()
    with acting(call):
        if given["approve"]:
            made = budgets.approve(call.server, int(number), call.who)
            record(call, "approved an account", f"{made.account}: {made.terms}")
        else:
            budgets.decline(call.server, int(number), call.who)
            record(call, "declined an account", number)
    return reply(None)


def facts(call: Call, made: Proposal) -> dict[str, Any]:
    """A proposal for whoever decides on it."""
    dataset, proposer = call.server.sets.known(made.dataset), call.server.people.known(made.proposer)
    names = {"set": "" if dataset is None else dataset.name, "proposer": "" if proposer is None else proposer.name}
    return {"id": made.id, "account": made.account, "terms": made.terms, "state": made.state, **names}


ENDPOINTS = (
    Endpoint(
        "POST",
        "/api/v1/sets/{set}/account",
        propose,
        "propose an account",
        "json",
        by_token=False,
        summary="Propose a budget.",
    ),
    Endpoint("GET", "/api/v1/sets/{set}/account", listed, "see members", summary="The proposals of a set."),
    Endpoint("GET", "/api/v1/approvals", waiting, "see proposals", summary="Proposals that wait."),
    Endpoint(
        "POST",
        "/api/v1/approvals/{proposal}",
        decide,
        "approve an account",
        "json",
        by_token=False,
        fresh=True,
        summary="Approve or decline.",
    ),
)
