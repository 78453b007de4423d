"""A set as its members see it: the promise, what is left, the columns, and the answers."""

from __future__ import annotations

from starlette.responses import Response

from steelyard.server._budgets import accounts_of
from steelyard.server._call import Call, Endpoint
from steelyard.server.pages._budgets import SETS, YOURS, Bar, bar_of, promise
from steelyard.server.pages._lines import listed, mine
from steelyard.server.pages._parts import about, at, page

_WAITING = {
    "empty": "The custodian has to say where the table is.",
    "new": "The worker is looking at the table's columns; load this page again in a moment.",
    "broken": "The worker could not open the table. The custodian has to say again where it is.",
}


def show_set(call: Call) -> Response:
    """One set."""
    dataset, server = call.set, call.server
    title = dataset.title or dataset.name
    terms = [server.account(name).terms for name in accounts_of(server, dataset)] if dataset.account else []
    waiting = _WAITING.get(dataset.state, "") or (
        "" if terms else "No budget was opened yet: the custodian proposes one, an officer approves it."
    )
    every = call.may("see members")
    return page(
        call, "set.html", title, name=title, lead=about(dataset) if dataset.state != "described" else "", trail=(("/", "Home"),),
        may_plan=call.may("plan") and bool(terms) and dataset.state == "described", plan_href=at("sets", dataset.name, "plan"),
        may_manage=every, manage_href=at("sets", dataset.name, "manage"), waiting=waiting, promise=promise(terms) if terms else "",
        bars=bars_of(call), columns=list(dataset.columns.items()), boards=[(at("boards", each.name), each.title or each.name) for each in server.boards.all() if each.dataset == dataset.id], published=listed(call, mine(call, published=True)),
        answers=listed(call, mine(call, published=False)), answers_title="Everybody's answers" if every else "Your answers", more="",
    )  # fmt: skip


def bars_of(call: Call) -> list[Bar]:
    """Every account of the set, and below them the own one, or everybody's for whoever may see them."""
    dataset, server = call.set, call.server
    if not dataset.account:
        return []
    below = {
        each["account"]: each["name"]
        for each in server.sets.members(dataset.id)
        if each["account"] not in ("", dataset.account) and (each["id"] == call.who.id or call.may("see members"))
    }
    own, every = call.who.name, accounts_of(server, dataset)
    return [
        *(bar_of(server.account(name), SETS if len(every) == 1 else f"{SETS}, account {name}") for name in every),
        *(
            bar_of(server.account(name), YOURS if whose == own else f"{whose}'s budget")
            for name, whose in below.items()
        ),
    ]


ENDPOINTS = (Endpoint("GET", "/sets/{set}", show_set, "see a set"),)
