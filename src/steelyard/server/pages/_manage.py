"""The custodian's page: where the table is, the budget and who asked for it, and the people with their limits."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from steelyard.privacy import Loss
from steelyard.server import _budgets as budgets
from steelyard.server._call import Call, Endpoint
from steelyard.server.api import _budgets as budgets_api
from steelyard.server.api import _sets as sets_api
from steelyard.server.pages._budgets import Bar, amount, bar_of, terms_told
from steelyard.server.pages._forms import filled, format_of, through, tried
from steelyard.server.pages._parts import at, go, page

_STATES = {
    "empty": "Nobody has said yet.",
    "new": "The worker is looking at its columns.",
    "described": "The worker has read its columns.",
    "broken": "The worker could not open it.",
}


def show_manage(call: Call, *, problem: str = "", invited: dict[str, str] | None = None) -> Response:
    """Sources, budget, people, boards."""
    dataset, config, title = call.set, call.server.config, call.set.title or call.set.name
    href = at("sets", dataset.name)
    where = f"{dataset.source}. " if dataset.kind in ("root", "named") else "An uploaded file. " if dataset.kind else ""
    hidden = [(f"users:{name}", f"everybody with one {name}") for name in dataset.columns]
    boards = [each for each in call.server.boards.all() if each.dataset == dataset.id]
    return page(
        call, "manage.html", f"Manage {title}", status=422 if problem else 200, name=title, href=href, trail=(("/", "Home"), (href, title)),
        problem=problem, source_told=where + _STATES[dataset.state], has_source=dataset.state != "empty",
        may_source=call.may("register a source"), roots=[(name, name) for name in config.roots], named=[(name, name) for name in config.sources],
        bars=_bars(call), over=_over(call), proposals=_proposals(call), may_propose=call.may("propose an account") and dataset.state == "described",
        units=[*hidden, ("rows", "one row")], members=_members(call), may_members=call.may("manage members"), invited=invited,
        roles=(("analyst", "analyst: asks"), ("custodian", "custodian: manages the set")), may_board=call.may("open a board"),
        boards=[(at("boards", each.name), each.title or each.name) for each in boards], new_board=at("sets", dataset.name, "boards", "new"),
    )  # fmt: skip


def _bars(call: Call) -> list[Bar]:
    server = call.server
    return [bar_of(server.account(name), name) for name in budgets.accounts_of(server, call.set)]


def _over(call: Call) -> list[str]:
    """Limits that together are more than the set has: allowed, since the set's own limit holds, and worth knowing."""
    server, dataset = call.server, call.set
    if not dataset.account:
        return []
    terms = server.account(dataset.account).terms
    limits = [
        server.account(each["account"]).terms.cap
        for each in server.sets.members(dataset.id)
        if each["account"] not in ("", dataset.account)
    ]
    if not limits or sum(each.amount for each in limits) <= terms.cap.amount:
        return []
    total = Loss(terms.currency, sum(each.amount for each in limits))
    return [
        f"The limits of {len(limits)} people add up to {amount(total, terms)}, more than the set's {amount(terms.cap, terms)}. The set's holds: "
        "whoever asks late may be refused earlier than their own limit says."
    ]  # fmt: skip


def _proposals(call: Call) -> list[dict[str, str]]:
    found = call.server.proposals.of_set(call.set.id)
    return [
        {
            "words": f"{terms_told(each.terms)}.",
            "state": "An officer has to approve it." if each.state == "proposed" else f"It was {each.state}.",
        }
        for each in found
        if each.state != "approved"
    ]


def _members(call: Call) -> list[dict[str, Any]]:
    server, dataset = call.server, call.set
    return [
        {
            "name": each["name"], "role": each["role"],
            "remove": at("sets", dataset.name, "leave") if call.may("manage members") and each["id"] != call.who.id else "",
            "fields": (("person", each["name"]), ("role", each["role"])),
            "bar": bar_of(server.account(each["account"]), "limit") if each["account"] not in ("", dataset.account) else None,
        }
        for each in server.sets.members(dataset.id)
    ]  # fmt: skip


def set_source(call: Call) -> Response:
    """Take a file below a folder, a connection by its name, or an uploaded file."""
    form = call.form
    if call.file is not None:
        call.query = {"format": format_of(call)}
        _, problem = tried(lambda: sets_api.upload(call))
    elif form.get("kind") == "named":
        _, problem = tried(lambda: through(call, sets_api.set_source, kind="named", source=form.get("named", "")))
    else:
        source = f"{form.get('root', '')}/{form.get('path', '').strip()}"
        _, problem = tried(lambda: through(call, sets_api.set_source, kind="root", source=source))
    return show_manage(call, problem=problem) if problem else go(at("sets", call.set.name, "manage"), "source")


def propose(call: Call) -> Response:
    """Propose a budget."""
    given = {name: filled(call, name) for name in ("unit", "epsilon", "delta")}
    _, problem = tried(lambda: through(call, budgets_api.propose, **given))
    return show_manage(call, problem=problem) if problem else go(at("sets", call.set.name, "manage"), "proposed")


def join(call: Call) -> Response:
    """Let somebody in; a new person gets a link, which is shown here once."""
    name = call.form.get("name", "").strip()
    given = {"person": name, "role": call.form.get("role", ""), "epsilon": filled(call, "limit")}
    made, problem = tried(lambda: through(call, sets_api.join, **given))
    if problem:
        return show_manage(call, problem=problem)
    if made["link"]:
        return show_manage(call, invited={"name": name, "link": made["link"]})
    return go(at("sets", call.set.name, "manage"), "joined")


def leave(call: Call) -> Response:
    """Take a role from somebody."""
    call.params = {**call.params, "person": call.form.get("person", ""), "role": call.form.get("role", "")}
    _, problem = tried(lambda: sets_api.leave(call))
    return show_manage(call, problem=problem) if problem else go(at("sets", call.set.name, "manage"), "left")


ENDPOINTS = (
    Endpoint("GET", "/sets/{set}/manage", show_manage, "see members"),
    Endpoint("POST", "/sets/{set}/source", set_source, "register a source", "file", by_token=False),
    Endpoint("POST", "/sets/{set}/account", propose, "propose an account", "form", by_token=False),
    Endpoint("POST", "/sets/{set}/members", join, "manage members", "form", by_token=False),
    Endpoint("POST", "/sets/{set}/leave", leave, "manage members", "form", by_token=False),
)
