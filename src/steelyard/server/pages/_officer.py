"""The officer's page: budgets to approve, who spent what, sets whose limits add up to more than they have, acts, and whether the ledger is whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from starlette.responses import Response

from steelyard.charts import bars as draw_bars
from steelyard.charts import short
from steelyard.errors import InvalidTask
from steelyard.privacy import Currency, Loss
from steelyard.server._acts import acts
from steelyard.server._call import Call, Endpoint
from steelyard.server._spending import WAYS, spending
from steelyard.server.api import _budgets as budgets_api
from steelyard.server.api import _officer as officer_api
from steelyard.server.api import _sets as sets_api
from steelyard.server.pages._budgets import amount, terms_told
from steelyard.server.pages._forms import filled, through, tried
from steelyard.server.pages._parts import at, go, page
from steelyard.server.pages._pictures import Picture, shown

_WORDS = {"person": "by person", "set": "by set", "day": "by day"}
_SPENT = {
    Currency.PURE: "Epsilon spent",
    Currency.GAUSSIAN: "Gaussian budget spent",
    Currency.NATS: "Nats spent on leaderboards",
}
_IN = {Currency.PURE: "epsilon", Currency.GAUSSIAN: "mu squared", Currency.NATS: "nats"}
_SHOWN = 100


def show_officer(
    call: Call, *, problem: str = "", verified: dict[str, str] | None = None, checked: dict[str, str] | None = None
) -> Response:
    """Everything that an officer looks after."""
    by = call.query.get("by", "person")
    by = by if by in WAYS else "person"
    ledger = call.server.ledger
    return page(
        call, "officer.html", "Officer", here="/officer", status=422 if problem else 200, problem=problem, proposals=_waiting(call),
        over=_over(call), ways=[(f"/officer?by={way}", words, way == by) for way, words in _WORDS.items()], charts=_charts(call, by),
        ledger=[("name", ledger.id), ("accounts", f"{len(ledger.accounts()):,}")], verified=verified, checked=checked, acts=_acts(call),
    )  # fmt: skip


def _waiting(call: Call) -> list[dict[str, str]]:
    found = [budgets_api.facts(call, each) for each in call.server.proposals.waiting()]
    return [
        {
            "title": each["set"], "words": f"{terms_told(each['terms'])[:1].upper()}{terms_told(each['terms'])[1:]}.",
            "about": f"proposed by {each['proposer']}; it would be the account {each['account']}", "approve": at("approvals", str(each["id"])),
        }
        for each in found
    ]  # fmt: skip


def _over(call: Call) -> list[str]:
    """Sets whose people may together spend more than the set has, and sets with more than one account over the same people."""
    server, said = call.server, []
    for dataset in server.sets.all():
        if not dataset.account:
            continue
        terms = server.account(dataset.account).terms
        limits = [
            server.account(each["account"]).terms.cap.amount
            for each in server.sets.members(dataset.id)
            if each["account"] not in ("", dataset.account)
        ]
        if sum(limits) > terms.cap.amount:
            total = amount(Loss(terms.currency, sum(limits)), terms)
            said.append(
                f"{dataset.title or dataset.name}: its people's limits add up to {total}, and the set has {amount(terms.cap, terms)}. The set's limit holds."
            )
    return said


def _charts(call: Call, by: str) -> list[Picture]:
    """Who spent how much, a picture for each currency."""
    found = spending(call.server, by)
    return [
        _chart(by, currency, rows)
        for currency in Currency
        if (rows := [each for each in found if each["amount"] and each["currency"] == str(currency)])
    ]


def _chart(by: str, currency: Currency, rows: Sequence[dict[str, Any]]) -> Picture:
    names = [str(each[by]) or "a program on the server" for each in rows]
    sizes = [float(_size(currency, each["amount"])) for each in rows]
    chart = draw_bars(names, sizes, title=f"{_SPENT[currency]} {_WORDS[by]}", x_title=_IN[currency])
    table = [(name, short(size), f"{each['charges']:,}") for name, size, each in zip(names, sizes, rows, strict=True)]
    return shown(chart, (by, _IN[currency], "charges"), table)


def _size(currency: Currency, units: int) -> Fraction:
    return Fraction(units, 10**12) if currency is Currency.GAUSSIAN else Loss(currency, units).value


def _acts(call: Call) -> list[tuple[str, ...]]:
    newest = sorted(acts(call.server), key=lambda each: -each["id"])[:_SHOWN]
    return [
        (each["at"].replace("T", " ").rstrip("Z"), each["person"] or "the server", each["act"], each["thing"])
        for each in newest
    ]


def decide(call: Call) -> Response:
    """Approve or decline a budget."""
    approve = call.form.get("decision") == "approve"
    _, problem = tried(lambda: through(call, budgets_api.decide, approve=approve))
    return show_officer(call, problem=problem) if problem else go("/officer", "approved" if approve else "declined")


def verify(call: Call) -> Response:
    """Check the whole chain now."""
    found = through(call, officer_api.verify)
    if found["ok"]:
        words = f"{found['entries']:,} entries follow from each other, every price was worked out again, and no account is over its limit."
        return show_officer(call, verified={"kind": "good", "title": "The ledger is whole.", "words": words})
    words = " ".join(map(str, found["findings"][:5]))
    return show_officer(call, verified={"kind": "warn", "title": "The ledger is not whole.", "words": words})


def check_receipts(call: Call) -> Response:
    """Compare receipts that people kept with the ledger."""
    try:
        receipts = list(_receipts(call.form.get("receipts", "")))
    except (ValueError, InvalidTask):
        return show_officer(
            call,
            checked={
                "kind": "warn",
                "title": "This is no receipt.",
                "words": "Paste it as it was given, with its braces.",
            },
        )
    found, problem = tried(lambda: through(call, officer_api.verify, receipts=receipts))
    if problem:
        return show_officer(call, checked={"kind": "warn", "title": "This is no receipt.", "words": problem})
    if found["ok"]:
        told = "is on the ledger" if len(receipts) == 1 else "are all on the ledger"
        return show_officer(
            call,
            checked={
                "kind": "good",
                "title": "Known.",
                "words": f"{len(receipts)} receipt{'s' if len(receipts) > 1 else ''} {told}, which is whole.",
            },
        )
    return show_officer(
        call,
        checked={"kind": "warn", "title": "Something is wrong.", "words": " ".join(map(str, found["findings"][:5]))},
    )


def _receipts(text: str) -> list[Any]:
    """Receipts one after the other, or as a list."""
    reader, found, place = json.JSONDecoder(), [], 0
    text = text.strip()
    while place < len(text):
        each, place = reader.raw_decode(text, place)
        found += each if isinstance(each, list) else [each]
        while place < len(text) and text[place] in " \t\r\n,":
            place += 1
    if not found:
        raise InvalidTask("there is no receipt.")
    return found


def show_people(call: Call, *, problem: str = "", invited: dict[str, str] | None = None) -> Response:
    """Everybody who is known here."""
    people = [
        {
            "name": each["name"], "tags": [*(["officer"] if each["officer"] else []), *([each["state"]] if each["state"] != "active" else [])],
            "acts": [] if each["state"] != "active" else [
                *([] if call.server.people.has_entered(each["id"]) else [(at("people", each["name"], "link"), f"New link for {each['name']}", "low")]),
                *([] if each["id"] == call.who.id else [(at("people", each["name"], "disable"), f"Shut {each['name']} out", "low")]),
            ],
        }
        for each in call.server.people.everybody()
    ]  # fmt: skip
    return page(
        call, "people.html", "People", here="/people", status=422 if problem else 200, problem=problem, invited=invited, people=people,
        form={"name": call.form.get("name", "") if problem else ""},
    )  # fmt: skip


def add_person(call: Call) -> Response:
    """Make somebody known, and show the link that signs them in."""
    given = {"name": call.form.get("name", "").strip(), "officer": call.form.get("officer") == "yes"}
    made, problem = tried(lambda: through(call, officer_api.add_person, **given))
    return show_people(call, problem=problem) if problem else show_people(call, invited=made)


def new_link(call: Call) -> Response:
    """Another link for somebody who has never signed in."""
    made, problem = tried(lambda: through(call, officer_api.new_link))
    return (
        show_people(call, problem=problem)
        if problem
        else show_people(call, invited={"name": call.params["person"], **made})
    )


def disable(call: Call) -> Response:
    """Shut somebody out."""
    _, problem = tried(lambda: officer_api.disable(call))
    return show_people(call, problem=problem) if problem else go("/people", "disabled")


def show_new_set(call: Call, *, problem: str = "") -> Response:
    """The form of a new set."""
    people = [
        (each["name"], each["name"])
        for each in call.server.people.everybody()
        if not each["officer"] and each["state"] == "active"
    ]
    form = {name: call.form.get(name, "") for name in ("name", "title", "custodian")}
    return page(
        call, "new_set.html", "New data set", status=422 if problem else 200, problem=problem, people=people, form=form
    )


def make_set(call: Call) -> Response:
    """Make a set and name its custodian."""
    given = {
        "name": call.form.get("name", "").strip(),
        "custodian": call.form.get("custodian", ""),
        "title": filled(call, "title"),
    }
    made, problem = tried(lambda: through(call, sets_api.make, **given))
    return show_new_set(call, problem=problem) if problem else go(at("sets", made["name"]))


ENDPOINTS = (
    Endpoint("GET", "/officer", show_officer, "see spending", by_token=False),
    Endpoint("POST", "/officer/verify", verify, "verify", "form", by_token=False),
    Endpoint("POST", "/officer/receipts", check_receipts, "verify", "form", by_token=False),
    Endpoint("GET", "/officer/ledger.ndjson", officer_api.export, "export", by_token=False),
    Endpoint("POST", "/approvals/{proposal}", decide, "approve an account", "form", by_token=False, fresh=True),
    Endpoint("GET", "/people", show_people, "manage people", by_token=False),
    Endpoint("POST", "/people", add_person, "manage people", "form", by_token=False, fresh=True),
    Endpoint("POST", "/people/{person}/link", new_link, "manage people", "form", by_token=False, fresh=True),
    Endpoint("POST", "/people/{person}/disable", disable, "manage people", "form", by_token=False, fresh=True),
    Endpoint("GET", "/new-set", show_new_set, "make a set", by_token=False),
    Endpoint("POST", "/new-set", make_set, "make a set", "form", by_token=False),
)
