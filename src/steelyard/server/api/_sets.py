"""Data sets: what is public about them, where their rows are, who belongs to them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.server._acts import acting, record
from steelyard.server._budgets import CAPS, accounts_of, open_own
from steelyard.server._call import Call, Endpoint, person_named, reply, text_of
from steelyard.server._links import link
from steelyard.server._problems import Problem
from steelyard.server._sources import SUFFIXES, check_source, named_alike
from steelyard.server._store import DataSet

_OPTIONS = ("types", "delimiter")
_KEPT = 86400.0


def mine(call: Call) -> Any:
    """The sets that one may see."""
    who, sets = call.who, call.server.sets
    found = sets.all() if who.officer else sets.of(who.id)
    return {"sets": [{"name": each.name, "title": each.title} for each in found]}


def make(call: Call) -> Any:
    """Make a set and name its custodian."""
    given = call.given("name", "custodian", optional=("title", "slot"))
    slot, custodian = given.get("slot", call.server.config.slot), person_named(call, given["custodian"])
    if isinstance(slot, bool) or not isinstance(slot, int | float) or not 0 <= slot <= 3600:
        raise InvalidTask("slot is a number of seconds from 0 to 3600.")
    if custodian.officer:
        raise InvalidTask("an officer approves budgets and verifies spending, and belongs to no set.")
    with acting(call):
        made = call.server.sets.add(given["name"], text_of(given, "title"), slot=float(slot))
        call.server.sets.join(made.id, custodian.id, "custodian")
        record(call, "made a set", f"{made.name}, custodian {custodian.name}")
    return reply({"name": made.name}, 201)


def one(call: Call) -> Any:
    """A set: its columns, its terms, what is left."""
    return facts(call, call.set)


def facts(call: Call, dataset: DataSet) -> dict[str, Any]:
    """What may be known of a set by its members."""
    own = call.server.sets.roles(dataset.id, call.who.id).get("analyst", "")
    every = accounts_of(call.server, dataset)
    accounts = {name: account_facts(call, name) for name in dict.fromkeys((*every, own)) if name}
    return {
        "name": dataset.name,
        "title": dataset.title,
        "state": dataset.state,
        "columns": dataset.columns,
        "slot": dataset.slot,
        "account": dataset.account,
        "own_account": own,
        "over_the_same_people": every,
        "accounts": accounts,
    }


def account_facts(call: Call, name: str) -> dict[str, Any]:
    """An account's terms, what is spent and what is left."""
    account = call.server.account(name)
    terms, spent, left = account.terms.to_json(), account.spent.to_json(), account.remaining.to_json()
    return {"terms": terms, "spent": spent, "remaining": left}


def set_source(call: Call) -> Any:
    """Say where the set's rows are: a file below an allowed folder, or an address that the configuration names."""
    given = call.given("kind", "source", optional=("options",))
    kind, source, options = given["kind"], given["source"], given.get("options", {})
    if not (isinstance(kind, str) and isinstance(source, str)):
        raise InvalidTask("a source has a kind and a name.")
    check_source(call.server.config, kind, source)
    labels = [place for board in call.server.boards.all() for place in (board.source, board.settings.get("final"))]
    if kind == "root" and any(place and named_alike(call.server.config, source, str(place)) for place in labels):
        raise InvalidTask(
            "this file has the labels of a board, which tells scores that hide nobody; rows are a file of their own."
        )
    checked = _options(options)
    record(
        call, "registered a source", f"{call.set.name}: {kind} {source}"
    )  # first: no source is another without an act on the chain
    call.server.sets.set_source(call.set.id, kind, source, checked)
    return reply({"state": "new"}, 202)


def upload(call: Call) -> Any:
    """Bring the set's rows as a Parquet or CSV file; the worker reads it, this process does not."""
    suffix = f".{call.query.get('format') or call.form.get('format') or 'parquet'}".lower()
    if suffix not in SUFFIXES or call.file is None:
        raise InvalidTask("send one file, with ?format=parquet or ?format=csv.")
    folder = call.server.config.folder / "uploads"
    folder.mkdir(mode=0o700, exist_ok=True)
    _make_room(call, folder, call.file.stat().st_size)
    name = f"{call.file.name}{suffix}"
    record(call, "uploaded a source", f"{call.set.name}: sha256 {call.file_digest}")
    os.rename(call.file, folder / name)
    call.server.sets.set_source(call.set.id, "upload", name, {})
    return reply({"state": "new"}, 202)


def _make_room(call: Call, folder: Path, size: int) -> None:
    """Remove uploads that no set has had for a day, and refuse one for which there is no room then."""
    server = call.server
    named, files = {each.source for each in server.sets.all() if each.kind == "upload"}, list(folder.iterdir())
    for file in files:
        if file.name not in named and server.clock() - file.stat().st_mtime > _KEPT:
            file.unlink(missing_ok=True)
    taken = sum(file.stat().st_size for file in files if file.exists())
    if taken + size > server.config.all_uploads:
        raise Problem(
            413, "TooLarge", "uploads take up all the room that they may; whoever runs the server decides on more."
        )


def members(call: Call) -> Any:
    """Who belongs to a set, and what their accounts have left."""
    found = call.server.sets.members(call.set.id)
    return {
        "members": [
            {**each, **({"budget": account_facts(call, each["account"])} if each["account"] else {})} for each in found
        ]
    }


def join(call: Call) -> Any:
    """Give a person a role in the set; an analyst gets an account of her own, with a limit. A new person gets a link that signs in once."""
    given = call.given("person", "role", optional=CAPS)
    name, role, server = given["person"], given["role"], call.server
    known = server.people.named(name) if isinstance(name, str) else None
    if role not in ("custodian", "analyst") or (role == "custodian" and set(given) & set(CAPS)):
        raise InvalidTask("a role is custodian, or analyst with a limit such as epsilon.")
    if known is not None and known.officer:
        raise InvalidTask("an officer approves budgets and verifies spending, and belongs to no set.")
    if role == "analyst" and not call.set.account:
        raise Problem(
            409, "NoAccount", "no budget was opened for this set yet: propose one, and have an officer approve it."
        )
    with acting(call):
        person = known or server.people.add(text_of(given, "person"))
        account = open_own(server, call.set, person, given).name if role == "analyst" else ""
        server.sets.join(call.set.id, person.id, role, account)
        record(call, "gave a role", f"{call.set.name}: {person.name} is {role} {account}".rstrip())
    return reply({"account": account, "link": "" if known else link(server, person.id)}, 201)


def leave(call: Call) -> Any:
    """Take a role from a person and freeze their account; what was charged stays charged."""
    person, role = person_named(call, call.params["person"]), call.params["role"]
    account = call.server.sets.roles(call.set.id, person.id).get(role)
    if account is None:
        raise InvalidTask("this person has no such role in the set.")
    if account:
        call.server.account(account).by(call.who.name).freeze(f"{person.name} left the set")
    with acting(call):
        call.server.sets.leave(call.set.id, person.id, role)
        record(call, "took a role", f"{call.set.name}: {person.name} is no longer {role}")
    return reply(None)


def _options(options: object) -> dict[str, Any]:
    """How a CSV file is read: types of its columns, its delimiter."""
    if not isinstance(options, dict) or set(options) - set(_OPTIONS):
        raise InvalidTask(f"options are {' and '.join(_OPTIONS)}.")
    types, delimiter = options.get("types", {}), options.get("delimiter", ",")
    texts = isinstance(types, dict) and all(isinstance(each, str) for pair in types.items() for each in pair)
    if not texts or not isinstance(delimiter, str) or len(delimiter) != 1:
        raise InvalidTask("types are kinds by column, such as {'amount': 'float'}; a delimiter is one character.")
    return options


_SET = "/api/v1/sets/{set}"
ENDPOINTS = (
    Endpoint("GET", "/api/v1/sets", mine, "be oneself", summary="The sets that one may see."),
    Endpoint(
        "POST", "/api/v1/sets", make, "make a set", "json", by_token=False, summary="Make a set and name its custodian."
    ),
    Endpoint("GET", _SET, one, "see a set", summary="A set: columns, terms, what is left."),
    Endpoint(
        "POST",
        f"{_SET}/source",
        set_source,
        "register a source",
        "json",
        by_token=False,
        summary="Say where the rows are.",
    ),
    Endpoint("PUT", f"{_SET}/upload", upload, "register a source", "file", by_token=False, summary="Bring the rows."),
    Endpoint("GET", f"{_SET}/members", members, "see members", summary="Who belongs to a set."),
    Endpoint(
        "POST", f"{_SET}/members", join, "manage members", "json", by_token=False, summary="Give a person a role."
    ),
    Endpoint(
        "DELETE", f"{_SET}/members/{{person}}/{{role}}", leave, "manage members", by_token=False, summary="Take a role."
    ),
)
