"""The first page: my sets and what is left of them, my boards, what waits for me."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from steelyard.server._call import Call, Endpoint
from steelyard.server._store import DataSet
from steelyard.server.pages._budgets import SETS, YOURS, bar_of
from steelyard.server.pages._lines import card
from steelyard.server.pages._parts import about, at, go, page

_NONE = "You are in no data set yet. A custodian lets people in; an officer makes a new set."


def home(call: Call) -> Response:
    """My sets, my boards, what is left."""
    if call.person is None:
        return go("/sign-in")
    who, sets = call.person, call.server.sets
    found = sets.all() if who.officer else sets.of(who.id)
    lead = "You approve budgets and check the books." if who.officer else "What you may ask, and what is left to spend."
    return page(
        call, "home.html", "Home", here="/", lead=lead, sets=[_card(call, each) for each in found], boards=[card(call, each) for each in call.server.boards.of(who.id)], todo=_todo(call, found),
        may_make=who.officer, no_sets=_NONE,
    )  # fmt: skip


def _card(call: Call, dataset: DataSet) -> dict[str, Any]:
    """A set as a card: the own budget above the set's."""
    server, roles = call.server, call.server.sets.roles(dataset.id, call.who.id)
    own = roles.get("analyst", "")
    bars = [bar_of(server.account(own), YOURS)] if own and own != dataset.account else []
    bars += [bar_of(server.account(dataset.account), SETS)] if dataset.account else []
    return {
        "href": at("sets", dataset.name), "title": dataset.title or dataset.name, "about": about(dataset), "bars": bars,
        "ask": at("sets", dataset.name, "plan") if bars and dataset.state == "described" else "", "tags": sorted(roles),
    }  # fmt: skip


def _todo(call: Call, sets: list[DataSet]) -> list[tuple[str, str]]:
    """What waits for this person."""
    if call.who.officer:
        waiting = len(call.server.proposals.waiting())
        return [("/officer", f"{waiting} budget{'s' if waiting > 1 else ''} to approve")] if waiting else []
    looked_after = [each for each in sets if "custodian" in call.server.sets.roles(each.id, call.who.id)]
    missing = [each for each in looked_after if not each.account or each.state in ("empty", "broken")]
    return [(at("sets", each.name, "manage"), f"{each.title or each.name}: {_missing(call, each)}") for each in missing]


def _missing(call: Call, dataset: DataSet) -> str:
    if dataset.state in ("empty", "broken"):
        return "say where its table is"
    proposed = any(each.state == "proposed" for each in call.server.proposals.of_set(dataset.id))
    return "an officer has to approve its budget" if proposed else "propose a budget"


ENDPOINTS = (Endpoint("GET", "/", home, "look"),)
