"""Why somebody may or may not: the permission table, asked and shown."""

from __future__ import annotations

from starlette.responses import Response

from steelyard.server._call import Call, Endpoint
from steelyard.server._rights import RIGHTS, explain, may
from steelyard.server.pages._parts import page

_NOTHING = ("", "nothing in particular")


def show_rights(call: Call) -> Response:
    """A decision explained, and the whole table."""
    server, who = call.server, call.who
    sets = server.sets.all() if who.officer else server.sets.of(who.id)
    act, thing = call.query.get("act", ""), call.query.get("thing", "")
    asked = server.people.named(call.query.get("person", who.name)) if who.officer else who
    dataset = next((each for each in sets if each.name == thing), None)
    roles = server.roles(asked, dataset)
    decision = None
    if act in RIGHTS:
        good = may(roles, act)
        decision = {
            "colour": "green" if good else "orange", "word": "allowed" if good else "refused", "title": act,
            "words": explain(roles, act).partition(": ")[2],
        }  # fmt: skip
    names = [(each["name"], each["name"]) for each in server.people.everybody()] if who.officer else []
    return page(
        call, "rights.html", "Who may what", here="/rights", acts=[(each, each) for each in RIGHTS], act=act, thing=thing,
        things=[_NOTHING, *((each.name, each.title or each.name) for each in sets)], people=names,
        person=asked.name if asked else "", decision=decision,
        table=[(name, ", ".join(sorted(allowed))) for name, allowed in RIGHTS.items()],
    )  # fmt: skip


ENDPOINTS = (Endpoint("GET", "/rights", show_rights, "be oneself"),)
