"""What an officer sees and does: spending, verification, the chain, people; and why somebody may or may not."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import PlainTextResponse, StreamingResponse

from steelyard.account import Receipt
from steelyard.errors import InvalidTask
from steelyard.server._acts import acting, record
from steelyard.server._acts import acts as acts_of
from steelyard.server._call import Call, Endpoint, person_named, reply, text_of
from steelyard.server._links import link
from steelyard.server._problems import Problem
from steelyard.server._rights import RIGHTS, explain
from steelyard.server._spending import spending

ENTERED = (
    "this person has signed in before, and whoever holds a link can act as them: whoever runs the server makes it there, "
    "with `steelyard serve link NAME`."
)


def spent(call: Call) -> Any:
    """What was charged, by person, set or day."""
    return {"spending": spending(call.server, call.query.get("by", "person"))}


def verify(call: Call) -> Any:
    """Check the whole chain, and receipts against it if some are given."""
    given = call.given(optional=("receipts",))
    told = given.get("receipts", [])
    if not isinstance(told, list):
        raise InvalidTask("receipts are a list.")
    receipts = [_receipt(each) for each in told]
    found = call.server.ledger.verify(receipts=receipts)
    return {"ok": found.ok, "findings": list(found.findings), "entries": found.entries, "head": found.head}


def _receipt(told: object) -> Receipt:
    try:
        return Receipt.from_json(told)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidTask("this is no receipt.") from None


def export(call: Call) -> Any:
    """Every entry of the ledger as a line of JSON; answers as digests only."""
    lines = (f"{line}\n" for line in call.server.ledger.export())
    return StreamingResponse(lines, media_type="application/x-ndjson")


def acts(call: Call) -> Any:
    """What administrators did, as the chain has it."""
    return {"acts": acts_of(call.server, call.number("after", 0))}


def people(call: Call) -> Any:
    """Everybody who is known here."""
    return {"people": call.server.people.everybody()}


def add_person(call: Call) -> Any:
    """Make a person known; the link signs them in once."""
    given = call.given("name", optional=("officer",))
    with acting(call):
        made = call.server.people.add(text_of(given, "name"), officer=given.get("officer") is True)
        record(call, "made a person known", f"{made.name}{' as officer' if made.officer else ''}")
    return reply({"name": made.name, "link": link(call.server, made.id)}, 201)


def new_link(call: Call) -> Any:
    """Another link for a person who has never signed in; as anybody else the officer could act unnoticed."""
    person = person_named(call, call.params["person"])
    if call.server.people.has_entered(person.id):
        raise Problem(409, "HasEntered", ENTERED)
    record(call, "made a link", person.name)
    return reply({"link": link(call.server, person.id)}, 201)


def disable(call: Call) -> Any:
    """Shut a person out, and end their sessions and tokens."""
    person = person_named(call, call.params["person"])
    if person.id == call.who.id:
        raise InvalidTask("you cannot shut yourself out.")
    call.server.people.disable(person.id)  # first, for once: a ledger that is busy or closed must keep nobody in
    record(call, "shut a person out", person.name)
    return reply(None)


def rights(call: Call) -> Any:
    """Why somebody may or may not do something: oneself, or for an officer anybody."""
    act, name = call.query.get("act", ""), call.query.get("person", call.who.name)
    if act not in RIGHTS:
        raise InvalidTask(f"?act= takes {', '.join(RIGHTS)}.")
    person = person_named(call, name) if call.who.officer else call.who
    dataset = call.server.sets.named(call.query.get("set", ""))
    if dataset is not None and not call.who.officer and not call.server.sets.roles(dataset.id, call.who.id):
        dataset = None
    return PlainTextResponse(
        json.dumps({"person": person.name, "explained": explain(call.server.roles(person, dataset), act)}),
        media_type="application/json",
    )


ENDPOINTS = (
    Endpoint("GET", "/api/v1/officer/spending", spent, "see spending", summary="Who spent what."),
    Endpoint("POST", "/api/v1/officer/verify", verify, "verify", "json", summary="Check the chain, and receipts."),
    Endpoint("GET", "/api/v1/officer/ledger.ndjson", export, "export", summary="Every entry of the ledger."),
    Endpoint("GET", "/api/v1/officer/acts", acts, "see acts", summary="What administrators did."),
    Endpoint("GET", "/api/v1/people", people, "manage people", summary="Everybody."),
    Endpoint(
        "POST",
        "/api/v1/people",
        add_person,
        "manage people",
        "json",
        by_token=False,
        fresh=True,
        summary="Make a person known.",
    ),
    Endpoint(
        "POST",
        "/api/v1/people/{person}/link",
        new_link,
        "manage people",
        by_token=False,
        fresh=True,
        summary="A link that signs in once.",
    ),
    Endpoint(
        "POST",
        "/api/v1/people/{person}/disable",
        disable,
        "manage people",
        by_token=False,
        fresh=True,
        summary="Shut a person out.",
    ),
    Endpoint("GET", "/api/v1/rights", rights, "be oneself", summary="Why somebody may or may not."),
)
